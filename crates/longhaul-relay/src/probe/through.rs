//! A measurement through a tunnel, to the next relay: `longhaul path --tunnel` makes it, and this relay gives it its connections.
//!
//! They are dialled as those of the tunnel's flows, with its source address, the options of its dial leg and its PROXY header. The
//! program gets the sockets and measures on them, so this relay measures nothing. The caps of the file hold: the measurement has half of
//! them, and the flows share the other half until it ends.

use crate::leg::closing::linger_off;
use crate::leg::setup;
use crate::reach::connect;
use crate::reach::host_answer;
use crate::reach::proxy_out::Header;
use crate::state::permits::Spare;
use crate::state::served_tunnel::ServedTunnel;
use crate::state::shared::Relay;
use longhaul_config::options::{Leg, key};
use longhaul_config::{Tunnel, suggest};
use longhaul_core::wire::probe::LENGTH;
use longhaul_measure::answer::{congestion_controls, hex, unhex};
use longhaul_measure::message::{Buffers, MAX_CONNECTIONS};
use longhaul_measure::through::{Begin, Begun, Connect};
use longhaul_units::Rate;
use socket2::SockRef;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tracing::info;

/// A measurement through a tunnel. Dropping it gives the caps back to the flows.
#[derive(Debug)]
pub struct Measurement {
    relay: Arc<Relay>,
    tunnel: Arc<ServedTunnel>,
    /// The fixed caps at its beginning.
    caps: [Option<Rate>; 2],
    /// The addresses of the first connection, here and there. All others have them, too.
    ends: OnceLock<(IpAddr, SocketAddr)>,
    /// The runtime of the relay, which dials.
    runtime: Handle,
}

/// A socket for the measuring program.
#[derive(Debug)]
pub struct Socket {
    socket: OwnedFd,
    _spare: Spare,
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Relay {
    /// Begins a measurement through the tunnel `name`. Call it in the runtime of the relay.
    ///
    /// # Errors
    /// There is no such tunnel, or another measurement goes on.
    pub fn measure(self: &Arc<Relay>, name: &str) -> Result<Measurement, String> {
        let list = self.tunnels.list();
        let tunnel = list.iter().find(|tunnel| tunnel.settings.name == name).ok_or_else(|| {
            let names = || list.iter().map(|tunnel| tunnel.settings.name.as_str());
            let meant = suggest::nearest(name, names()).map(|near| format!("; did you mean `{near}`?"));
            let known = || format!("; it has: {}", names().collect::<Vec<_>>().join(", "));
            format!("the daemon has no tunnel `{name}`{}", meant.unwrap_or_else(known))
        })?;
        self.probes.measure(name).map_err(|other| {
            format!("another `longhaul path` measures through tunnel `{other}` at the moment; try again in a minute")
        })?;
        let (caps, runtime) = (self.fixed_caps(&tunnel.settings), Handle::current());
        Ok(Measurement { relay: self.clone(), tunnel: tunnel.clone(), caps, ends: OnceLock::new(), runtime })
    }

    /// Returns the caps of all tunnels and of `tunnel` that the file gives at this time of the week.
    fn fixed_caps(&self, tunnel: &Tunnel) -> [Option<Rate>; 2] {
        let now = self.governor.caps();
        [&now.all, &tunnel.bandwidth].map(|bandwidth| bandwidth.at(now.day, now.minute))
    }
}

impl Measurement {
    /// Makes the first connection: to the next hop that a flow would have now. Returns it, and the terms of the measurement.
    ///
    /// # Errors
    /// No next hop answers.
    pub async fn begin(self: &Arc<Self>, begin: &Begin) -> Result<(Begun, Vec<Socket>), String> {
        let ServedTunnel { settings, hops, counters, .. } = &*self.tunnel;
        let nobody = IpAddr::from([127, 0, 0, 1]);
        // The claim ends here: a measurement is no flow.
        let order = hops.choose(counters, settings, nobody).order;
        let mut failed = Vec::new();
        for hop in order {
            match self.reach(hop, begin).await {
                Ok((address, socket)) => return Ok((self.terms(hop, address, begin.limit.map(Rate)), vec![socket])),
                Err(why) => failed.push(why),
            }
        }
        let why = if failed.is_empty() { "every next hop is down by its checks".into() } else { failed.join("; ") };
        Err(format!("no next hop of tunnel `{}` answers: {why}", settings.name))
    }

    /// Connects to the next hop `hop` for the first time.
    async fn reach(self: &Arc<Self>, hop: usize, begin: &Begin) -> Result<(SocketAddr, Socket), String> {
        let Tunnel { to, connect_timeout, .. } = &*self.tunnel.settings;
        let addresses = {
            let (this, name) = (self.clone(), to[hop].clone());
            let (patience, counters) = (*connect_timeout, self.tunnel.counters.clone());
            self.in_relay(async move { this.relay.tunnels.names.addresses(&name, patience, &counters).await }).await?
        };
        let mut failed = format!("{} has no address", to[hop]);
        for address in addresses.map_err(|why| format!("{}: {why}", to[hop]))? {
            match self.in_relay(self.clone().dial(address, begin.connect.clone())).await? {
                Ok(socket) => {
                    let here = SockRef::from(&socket).local_addr().ok().and_then(|here| here.as_socket());
                    let here = here.ok_or("the connection has no address")?.ip();
                    self.ends.get_or_init(|| (here, address));
                    return Ok((address, socket));
                }
                Err(why) => failed = format!("{address}: {why}"),
            }
        }
        Err(failed)
    }

    /// Runs `task` in the runtime of the relay. Dropping the future ends the task: it holds this measurement, which would keep the next one
    /// out.
    async fn in_relay<T: Send + 'static>(&self, task: impl Future<Output = T> + Send + 'static) -> Result<T, String> {
        let mut tasks = JoinSet::new();
        tasks.spawn_on(task, &self.runtime);
        let ended = tasks.join_next().await.ok_or("the relay has ended")?;
        ended.map_err(|err| err.to_string())
    }

    /// Makes further connections, all at once.
    ///
    /// # Errors
    /// One of them fails.
    pub async fn connect(self: &Arc<Self>, connect: &Connect) -> Result<Vec<Socket>, String> {
        let Some((_, address)) = self.ends.get().copied() else { return Err(NOT_BEGUN.into()) };
        if !(1..=MAX_CONNECTIONS).contains(&connect.count) {
            return Err(format!("1 to {MAX_CONNECTIONS} connections are made at once"));
        }
        let mut dialling = JoinSet::new();
        for _ in 0..connect.count {
            dialling.spawn_on(self.clone().dial(address, connect.clone()), &self.runtime);
        }
        let mut sockets = Vec::new();
        while let Some(dialled) = dialling.join_next().await {
            sockets.push(dialled.map_err(|err| err.to_string())??);
        }
        Ok(sockets)
    }

    /// Opens a socket for datagrams that go the way of the connections.
    ///
    /// # Errors
    /// The kernel refuses it.
    pub fn datagrams(&self) -> Result<Vec<Socket>, String> {
        let Some((here, address)) = self.ends.get().copied() else { return Err(NOT_BEGUN.into()) };
        let spare = self.tunnel.spare().ok_or(NO_DESCRIPTOR)?;
        let socket = host_answer::datagrams(&self.tunnel.settings, address).map_err(|err| err.to_string())?;
        // The far relay takes datagrams only from the address of the connections.
        socket.bind(&SocketAddr::new(here, 0).into()).map_err(|err| format!("bind({here}): {err}"))?;
        Ok(vec![Socket { socket: socket.into(), _spare: spare }])
    }

    /// Returns the proof of the relay's key for the session `nonce` and the `challenge` of the far relay, as hexadecimal digits. `None`: this
    /// relay has no key, or the arguments are none.
    pub fn prove(&self, nonce: &str, challenge: &str) -> Option<String> {
        let key = self.relay.probes.key()?;
        Some(hex(&key.prove_session(&unhex(nonce)?, &unhex(challenge)?)))
    }

    /// Waits until the tunnel or its cap is no longer that of the beginning. Returns how.
    pub async fn over(&self) -> String {
        let mut changes = self.relay.tunnels.changes();
        let name = &self.tunnel.settings.name;
        loop {
            let list = self.relay.tunnels.list();
            match list.iter().find(|tunnel| tunnel.settings.name == *name) {
                None => return format!("a reload has removed tunnel `{name}`"),
                Some(now) if now.settings != self.tunnel.settings => {
                    return format!("a reload has changed tunnel `{name}`");
                }
                Some(_) if self.relay.fixed_caps(&self.tunnel.settings) != self.caps => {
                    return "the bandwidth cap has changed".into();
                }
                Some(_) => {}
            }
            // The schedule of a cap changes without a reload.
            let _ = timeout(BETWEEN_LOOKS, changes.changed()).await;
        }
    }

    /// Dials `address`, as for a flow of the tunnel.
    async fn dial(self: Arc<Self>, address: SocketAddr, connect: Connect) -> Result<Socket, String> {
        let spare = self.tunnel.spare().ok_or(NO_DESCRIPTOR)?;
        let tunnel = with_mss(&self.tunnel.settings, connect.mss)?;
        let first = first_bytes(&connect.first)?;
        // A final host that speaks and ends at once would be faster than a preface that comes later: then the far relay has passed its
        // FIN, and cannot answer any more.
        let begun = match first.is_empty() {
            false => connect::begin_to_speak(&self.relay, &tunnel, address),
            true => connect::begin(&self.relay, &tunnel, address, &[]).map(|(stream, _)| stream),
        };
        let stream = begun.map_err(|err| err.to_string())?;
        connect::finish(&self.relay, &stream, address, tunnel.connect_timeout).await.map_err(|err| err.to_string())?;
        Header::own(&tunnel).and(&first).send_rest(&stream, 0)?;
        setup::settle_congestion(&tunnel, Leg::Dial, &stream);
        linger_off(&stream);
        Ok(Socket { socket: stream.into_socket().into(), _spare: spare })
    }

    /// Takes the measurement's part from the caps, and returns the terms.
    fn terms(&self, hop: usize, address: SocketAddr, asked: Option<Rate>) -> Begun {
        let tunnel = &*self.tunnel.settings;
        let found = self.limits(address).into_iter().min_by_key(|(rate, _)| *rate);
        let (limit, from) = match (found, asked) {
            (Some((rate, from)), asked) if asked.is_none_or(|asked| rate < asked) => (Some(rate), from),
            (_, asked) => (asked, String::new()),
        };
        if let Some(limit) = limit {
            self.relay.governor.set_aside(Some((tunnel.name.clone(), limit)));
        }
        let mut notes = Vec::new();
        if tunnel.dial.is_on(key::MPTCP) {
            notes.push("the flows of this tunnel use Multipath TCP; the measurement uses TCP".into());
        }
        if limit.is_none() && self.relay.governor.is_auto() {
            notes.push(
                "bandwidth = \"auto\" has found no cap for this path yet, so the measurement has none: --limit RATE bounds it".into(),
            );
        }
        let (name, limit_of) = (&tunnel.name, limit.map(tracing::field::display));
        info!(tunnel = %name, next_hop = %tunnel.to[hop], %address, limit = limit_of, from, "measuring through the tunnel");
        Begun {
            next_hop: tunnel.to[hop].to_string(),
            next_hops: tunnel.to.len() as u32,
            address: address.to_string(),
            limit: limit.map(|limit| limit.0),
            limit_from: from,
            congestion: congestion_controls(),
            buffers: Buffers::here(),
            connect_ms: tunnel.connect_timeout.as_millis() as u64,
            notes,
        }
    }

    /// Returns the rates that the file leaves to the measurement, each with where it comes from.
    fn limits(&self, address: SocketAddr) -> Vec<(Rate, String)> {
        const FLOWS: &str = "the flows have the other half until it ends";
        let tunnel = &*self.tunnel.settings;
        let half = |cap: Rate| Rate((cap.0 / 2).max(1));
        let [all, own] = self.caps;
        let of_all = all.map(|cap| (half(cap), format!("half of the daemon's bandwidth, {cap}: {FLOWS}")));
        let of_tunnel = own.map(|cap| (half(cap), format!("half of the tunnel's bandwidth, {cap}: {FLOWS}")));
        let ip = address.ip().to_canonical();
        let paths = self.relay.governor.paths().into_iter().filter(|path| path.address == ip);
        let of_path = paths
            .filter_map(|path| path.cap)
            .min()
            .map(|cap| (half(cap), format!("half of what bandwidth = \"auto\" allows on the path to {ip} now, {cap}")));
        let of_flow = tunnel.flow_bandwidth.map(|cap| (cap, "the tunnel's flow_bandwidth".into()));
        let of_leg = tunnel.dial.max_pacing_rate().map(|cap| (cap, "max-pacing-rate of the dial leg".into()));
        [of_all, of_tunnel, of_path, of_flow, of_leg].into_iter().flatten().collect()
    }
}

impl Drop for Measurement {
    fn drop(&mut self) {
        self.relay.governor.set_aside(None);
        self.relay.probes.measured();
        if self.ends.get().is_some() {
            info!(tunnel = %self.tunnel.settings.name, "the measurement through the tunnel has ended");
        }
    }
}

/// Returns `tunnel` with segments of `mss` bytes at most, and with a dial leg that is one plain connection from its handshake on.
fn with_mss(tunnel: &Tunnel, mss: Option<u32>) -> Result<Tunnel, String> {
    let mut tunnel = Tunnel { dial: tunnel.dial.without(&[key::FASTOPEN, key::MPTCP]), ..tunnel.clone() };
    if let Some(mss) = mss {
        let own = tunnel.dial.mss().unwrap_or(u64::MAX);
        tunnel.dial = tunnel.dial.without(&[key::MSS]);
        tunnel.dial.set(Leg::Dial, key::MSS, &own.min(mss.into()).to_string())?;
    }
    Ok(tunnel)
}

/// Returns the bytes that are written as the hexadecimal digits `first`: a preface, or none.
fn first_bytes(first: &str) -> Result<Vec<u8>, String> {
    if first.is_empty() {
        return Ok(Vec::new());
    }
    let bytes: [u8; LENGTH] = unhex(first).ok_or("the first bytes are no preface")?;
    Ok(bytes.into())
}

const NOT_BEGUN: &str = "the measurement has not begun";
const NO_DESCRIPTOR: &str = "the daemon has no descriptor left for a measurement: raise RLIMIT_NOFILE (LimitNOFILE=), or measure while it has fewer flows";
/// Interval of the looks at the caps, which a schedule may change.
const BETWEEN_LOOKS: Duration = Duration::from_secs(1);
