//! Another program's flows on the same WAN: bulk between the relay hosts, beside the carrier.

use crate::error::{LabError, joined};
use crate::plan::outside::Outside;
use crate::plan::place::Host;
use crate::traffic::exchange;
use crate::traffic::row::{Drive, Measured};
use longhaul_sys::sockopt::set_congestion;
use longhaul_sys::uninterrupted;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Connections of another program that run; none if the scenario has no `outside`.
#[derive(Default)]
pub(crate) struct Running {
    is_over: Arc<AtomicBool>,
    /// Bytes that have arrived in `measured`.
    arrived: Arc<AtomicU64>,
    /// The last three quarters of their time, as seconds. Before, slow start limits the speed.
    over: f64,
    flows: Vec<Flow>,
}

struct Flow {
    sender: JoinHandle<Result<(), LabError>>,
    receiver: JoinHandle<Result<(), LabError>>,
}

impl Running {
    /// Starts the connections. They begin to send at their time after `begin`, when the traffic began, and count in
    /// [`Drive::beside`] what arrives.
    fn start(outside: Outside, drive: &Drive<'_>, begin: Instant) -> Result<Running, LabError> {
        let Drive { wan, beside, traffic, .. } = *drive;
        let until = outside.until.unwrap_or(traffic.time).min(traffic.time).max(outside.from);
        let (from, until, quarter) = (begin + outside.from, begin + until, (until - outside.from) / 4);
        let mut running = Running { over: (quarter * 3).as_secs_f64(), ..Running::default() };
        let sink = SocketAddr::new(Host::Far.wan(), PORT);
        let listen = move || TcpListener::bind(sink).map_err(LabError::io(format!("listening on {sink}")));
        let listener = joined(wan.on(Host::Far, listen))?;
        for _ in 0..outside.connections {
            let client = joined(wan.on(Host::Near, move || {
                let socket =
                    exchange::connect(sink, PATIENCE).map_err(LabError::io(format!("connecting to {sink}")))?;
                set_congestion(socket.as_fd(), outside.congestion)?;
                Ok(socket)
            }))?;
            let (server, _) = listener.accept().map_err(LabError::io("accepting"))?;
            let (is_over, beside, arrived) = (running.is_over.clone(), beside.clone(), running.arrived.clone());
            let sender = std::thread::spawn(move || {
                send(client, from, || !is_over.load(Ordering::Relaxed) && Instant::now() < until)
            });
            let receiver = std::thread::spawn(move || {
                receive(server, |bytes| {
                    beside.arrived(bytes);
                    if (from + quarter..until).contains(&Instant::now()) {
                        arrived.fetch_add(bytes, Ordering::Relaxed);
                    }
                })
            });
            running.flows.push(Flow { sender, receiver });
        }
        Ok(running)
    }

    /// Starts the flows of another program that the scenario has. Call it when the traffic begins.
    ///
    /// # Errors
    /// A socket was refused, or the kernel has no such congestion control.
    pub(crate) fn begin(drive: &Drive<'_>) -> Result<Running, LabError> {
        let start = |outside| Running::start(outside, drive, Instant::now());
        drive.traffic.outside.map_or_else(|| Ok(Running::default()), start)
    }

    /// Ends the connections, and adds their speed to what was `measured` of the traffic.
    ///
    /// # Errors
    /// A connection failed, or the traffic had failed.
    pub(crate) fn end(self, measured: Result<Measured, LabError>) -> Result<Measured, LabError> {
        self.is_over.store(true, Ordering::Relaxed);
        let has_flows = !self.flows.is_empty();
        for flow in self.flows {
            joined(flow.sender)?;
            joined(flow.receiver)?;
        }
        let mut measured = measured?;
        if has_flows {
            let speed = self.arrived.load(Ordering::Relaxed) as f64 / self.over.max(1e-9);
            measured.figures.push(("outside_MBps", speed / 1e6));
        }
        Ok(measured)
    }
}

/// Sends from `from` on, while `goes_on`.
fn send(mut socket: TcpStream, from: Instant, goes_on: impl Fn() -> bool) -> Result<(), LabError> {
    // Bytes beyond a few would be sent after the end.
    socket2::SockRef::from(&socket).set_tcp_notsent_lowat(UNSENT).map_err(LabError::io("setting TCP_NOTSENT_LOWAT"))?;
    while goes_on() && Instant::now() < from {
        std::thread::sleep(from.saturating_duration_since(Instant::now()).min(PAUSE));
    }
    let piece = vec![0; PIECE];
    while goes_on() {
        uninterrupted(|| socket.write(&piece)).map_err(LabError::io("sending another program's bytes"))?;
    }
    socket.shutdown(Shutdown::Write).map_err(LabError::io("ending another program's flow"))
}

fn receive(mut socket: TcpStream, arrived: impl Fn(u64)) -> Result<(), LabError> {
    let mut piece = vec![0; 4 * PIECE];
    loop {
        match uninterrupted(|| socket.read(&mut piece)).map_err(LabError::io("receiving another program's bytes"))? {
            0 => return Ok(()),
            length => arrived(length as u64),
        }
    }
}

/// No program of the lab listens on this port of the far relay host.
const PORT: u16 = 5900;
/// Maximum time of connect(2), and of a read or a write.
const PATIENCE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(20);
/// Maximum of unsent bytes in a sender's socket.
const UNSENT: u32 = 256 << 10;
/// Bytes of a write.
const PIECE: usize = 64 << 10;
