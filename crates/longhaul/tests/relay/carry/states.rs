//! Kills, cuts and drains a relay in every state of TCP: for each leg, with a tail of bytes that are unsent, sent or
//! acknowledged. The cells are generated, and each checks by TCP_INFO that it has reached its state. Afterwards the leg's peer
//! must see all bytes and FIN, or RST, but never silence.

use crate::carry::endings::SMALL_BUFFERS;
use crate::harness::*;
use longhaul_sys::tcp_info::{State, TcpInfo, unacknowledged};
use socket2::{SockFilter, SockRef, Socket};
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::AsFd;
use std::sync::Mutex;
use std::time::Duration;

/// The leg that a cell is about.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Side {
    Accept,
    Dial,
}

/// State of the last bytes for the leg's peer.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Tail {
    Unsent,
    Sent,
    Acknowledged,
}

/// States of an open connection. `FinWait` stands for both FIN_WAIT1 and FIN_WAIT2.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Stage {
    Established,
    CloseWait,
    FinWait,
    LastAck,
    Closing,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Action {
    Kill,
    Cut,
    Drain,
}

#[derive(Clone, Copy, Debug)]
struct Cell {
    side: Side,
    stage: Stage,
    tail: Tail,
    action: Action,
}

#[test]
fn every_state_ends_in_all_bytes_and_fin_or_in_a_reset() {
    in_own_network(|| {
        // The peer's kernel answers a reset behind a lost segment with a challenge ACK, and only the reset that follows counts.
        // By default it sends no such ACK within 500 ms of another (docs/design/data-path.md). Retransmissions on a busy machine
        // cause that.
        if has_sysctl("net/ipv4/tcp_invalid_ratelimit") {
            set_sysctl("net/ipv4/tcp_invalid_ratelimit", "0");
        }
        let (cells, reached) = (Mutex::new(cells()), Mutex::new(BTreeSet::new()));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let next = || cells.lock().unwrap().pop();
                    std::iter::from_fn(next).for_each(|cell| cell.run_named(&reached));
                });
            }
        });
        let reached = reached.into_inner().unwrap();
        println!("{} cells were reached", reached.len());
        // 2 legs, 5 states, 3 tails and 3 actions. Zero if pidfd_getfd(2) is not allowed; then every cell has printed SKIP.
        assert!([0, 2 * 5 * 3 * 3].contains(&reached.len()), "not every cell was reached: {reached:?}");
    });
}

/// Prints its cell if the thread panics.
struct Named(Cell);

impl Drop for Named {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("failed in {:?}", self.0);
        }
    }
}

fn cells() -> Vec<Cell> {
    let mut cells = Vec::new();
    for side in [Side::Accept, Side::Dial] {
        for stage in [Stage::Established, Stage::CloseWait, Stage::FinWait, Stage::LastAck, Stage::Closing] {
            for tail in [Tail::Unsent, Tail::Sent, Tail::Acknowledged] {
                for action in [Action::Kill, Action::Cut, Action::Drain] {
                    cells.push(Cell { side, stage, tail, action });
                }
            }
        }
    }
    cells
}

impl Cell {
    /// Runs the cell, and adds its name to `reached` if it could be run.
    fn run_named(self, reached: &Mutex<BTreeSet<String>>) {
        let _named = Named(self);
        if self.run() {
            reached.lock().unwrap().insert(format!("{self:?}"));
        }
    }

    /// Returns whether the leg was in the cell's state when the relay ended or drained.
    fn run(self) -> bool {
        let mut path = Path::new(1, &[]);
        let (client, server) = path.connect();
        // `peer` is the end of the cell's leg, `other` the end of the other leg.
        let (peer, other) = if self.side == Side::Accept { (client, server) } else { (server, client) };
        SockRef::from(&peer).set_recv_buffer_size(8 * 1024).unwrap();
        talk(&peer, &other);
        let Some(leg) = path.relays[0].other_end(&peer) else {
            skip("pidfd_getfd(2) is not allowed here");
            return false;
        };
        let bytes = self.reach(&peer, &other, &leg);
        self.wait_for_it(&leg);
        if self.is_over() {
            assert_eq!(path.relays[0].flow_end().2, "finished", "{self:?}");
        }
        // Our copy of the relay's socket would keep it open when the relay dies.
        drop(leg);
        match self.action {
            Action::Drain => self.drain(&mut path.relays[0], &peer, &other, &bytes),
            _ => self.end(&path.relays[0], &peer, &other, &bytes),
        }
        true
    }

    /// Brings the leg into the cell's state; returns the bytes sent to its peer.
    fn reach(self, peer: &TcpStream, mut other: &TcpStream, leg: &Socket) -> Vec<u8> {
        if matches!(self.stage, Stage::CloseWait | Stage::LastAck) {
            peer.shutdown(Shutdown::Write).unwrap();
            assert_eq!(read_to_end(other), (Vec::new(), Ending::Fin));
        }
        // More than the peer's buffer has room for, and less than the leg's.
        let bytes = pattern(11, if self.tail == Tail::Unsent { 200_000 } else { 1_000 });
        if self.tail == Tail::Sent {
            drop_incoming(peer);
        }
        other.write_all(&bytes).unwrap();
        if self.tail == Tail::Acknowledged {
            wait(leg, "its bytes are acknowledged", |info, left| info.bytes_acked >= 1000 && left == 0);
            if self.is_last() {
                drop_incoming(peer); // drops only the FIN
            }
        }
        if self.has_our_fin() {
            other.shutdown(Shutdown::Write).unwrap();
            wait(leg, "our FIN", |info, _| matches!(info.state, State::FinWait1 | State::FinWait2 | State::LastAck));
        }
        if self.stage == Stage::Closing {
            peer.shutdown(Shutdown::Write).unwrap();
        }
        bytes
    }

    /// Waits until the leg is in the cell's state by TCP_INFO, and until SO_LINGER has the value required in that state.
    fn wait_for_it(self, leg: &Socket) {
        wait(leg, &format!("{self:?}"), |info, left| {
            let fin = u32::from(matches!(info.state, State::FinWait1 | State::LastAck | State::Closing));
            let stage = match info.state {
                State::Established => Stage::Established,
                State::CloseWait => Stage::CloseWait,
                State::FinWait1 | State::FinWait2 => Stage::FinWait,
                State::LastAck => Stage::LastAck,
                State::Closing => Stage::Closing,
                State::Closed | State::Other => return false,
            };
            let tail = match (info.notsent_bytes > fin, left > fin) {
                (true, _) => Tail::Unsent,
                (false, true) => Tail::Sent,
                (false, false) => Tail::Acknowledged,
            };
            (stage, tail) == (self.stage, self.tail)
        });
        let delivers = self.is_last() && self.tail != Tail::Unsent;
        let linger = if delivers { None } else { Some(Duration::ZERO) };
        wait(leg, &format!("{self:?}: SO_LINGER {linger:?}"), |_, _| leg.linger().unwrap() == linger);
    }

    /// Kills or cuts the relay, and checks what both peers see.
    fn end(self, relay: &Relay, peer: &TcpStream, other: &TcpStream, bytes: &[u8]) {
        if !self.is_last() {
            stop_dropping(peer); // or it would miss the reset, which is sent only once
        }
        match self.action {
            Action::Kill => relay.signal("KILL"),
            _ => {
                relay.signal("TERM");
                relay.wait_log("draining: no new connections; a second signal cuts the flows");
                if !self.is_over() {
                    relay.signal("TERM");
                    self.check_untold(&relay.wait_log("flow ended"));
                }
            }
        }
        if self.is_last() {
            stop_dropping(peer);
        }
        let (got, ending) = read_to_end(peer);
        assert_same(&got, &bytes[..got.len()]);
        match self.stage {
            Stage::LastAck | Stage::Closing if self.tail != Tail::Unsent => {
                assert_eq!((got.len(), ending), (bytes.len(), Ending::Fin), "{self:?}");
            }
            // Our FIN may have arrived before the reset.
            Stage::FinWait if ending == Ending::Fin => assert_eq!(got.len(), bytes.len(), "{self:?}"),
            _ => assert_eq!(ending, Ending::Reset, "{self:?}"),
        }
        // A peer that has got our FIN may still write, and then learns of the reset.
        if matches!(self.stage, Stage::Established | Stage::FinWait) {
            write_to_the_end(peer);
        }
        match self.stage {
            Stage::Established => assert_eq!(read_to_end(other), (Vec::new(), Ending::Reset), "{self:?}"),
            Stage::CloseWait => write_to_the_end(other),
            Stage::FinWait => assert_eq!(read_to_end(other), (Vec::new(), Ending::Reset), "{self:?}"),
            Stage::LastAck => {} // it has read FIN and sent its own
            Stage::Closing => assert!(read_to_end(other).0.is_empty(), "{self:?}"),
        }
    }

    /// Checks the log line of a flow that was cut: `untold` names the legs whose peers get everything and a FIN, but no reset.
    fn check_untold(self, line: &serde_json::Value) {
        assert_eq!(line["how"], "cut by drain or exit", "{self:?}: {line}");
        let other = if self.side == Side::Accept { "dial leg" } else { "accept leg" };
        // The other leg has only its FIN to send, once the relay has read the peer's FIN.
        let allowed: &[Option<&str>] = match (self.stage, self.tail) {
            (Stage::Established | Stage::CloseWait | Stage::FinWait, _) => &[None],
            (Stage::LastAck, Tail::Unsent) => &[Some(other)],
            // The test cannot see whether the relay has already read the peer's FIN.
            (Stage::Closing, Tail::Unsent) => &[None, Some(other)],
            (Stage::LastAck | Stage::Closing, _) => &[Some("both legs")],
        };
        assert!(allowed.contains(&line["untold"].as_str()), "{self:?}: {line}");
    }

    /// Drains the relay and checks that the flow continues to its end.
    fn drain(self, relay: &mut Relay, peer: &TcpStream, other: &TcpStream, bytes: &[u8]) {
        relay.signal("TERM");
        relay.wait_log("draining: no new connections; a second signal cuts the flows");
        stop_dropping(peer);
        if !self.has_our_fin() {
            other.shutdown(Shutdown::Write).unwrap();
        }
        let (got, ending) = read_to_end(peer);
        assert_same(&got, bytes);
        assert_eq!(ending, Ending::Fin, "{self:?}");
        if matches!(self.stage, Stage::Established | Stage::FinWait) {
            peer.shutdown(Shutdown::Write).unwrap();
        }
        if !matches!(self.stage, Stage::CloseWait | Stage::LastAck) {
            assert_eq!(read_to_end(other), (Vec::new(), Ending::Fin), "{self:?}");
        }
        if !self.is_over() {
            assert_eq!(relay.flow_end().2, "finished", "{self:?}");
        }
        assert_eq!(relay.exit(), Some(0), "{self:?}");
    }

    /// Returns whether both FINs are sent and ours is not acknowledged.
    fn is_last(self) -> bool {
        matches!(self.stage, Stage::LastAck | Stage::Closing)
    }

    /// Returns whether only our FIN is left to be acknowledged. The flow has then ended for the relay.
    fn is_over(self) -> bool {
        self.is_last() && self.tail == Tail::Acknowledged
    }

    fn has_our_fin(self) -> bool {
        matches!(self.stage, Stage::FinWait | Stage::LastAck | Stage::Closing)
    }
}

/// The peer has sent more bytes than the other end reads, and then FIN. So the relay still holds some of them when the leg is in
/// LAST_ACK. When the relay is killed, neither end may see silence.
#[test]
fn a_kill_in_last_ack_with_bytes_in_the_relay_ends_both_legs() {
    for upload in (100_000..1_000_000).step_by(100_000) {
        let mut path = Path::new(1, SMALL_BUFFERS);
        let (peer, other) = path.connect();
        SockRef::from(&other).set_recv_buffer_size(8 * 1024).unwrap();
        talk(&peer, &other);
        let Some(leg) = path.relays[0].other_end(&peer) else {
            return skip("pidfd_getfd(2) is not allowed here");
        };
        send_then_drop_incoming(&peer, &leg, &pattern(12, upload));
        let bytes = pattern(13, 1_000);
        send_all(&other, &bytes);
        wait(&leg, "LAST_ACK", |info, left| info.state == State::LastAck && info.notsent_bytes == 0 && left > 1);
        wait(&leg, "SO_LINGER is off", |_, _| leg.linger().unwrap().is_none());
        // If the relay has not read all bytes, its end sends a RST at once, and only once.
        if rustix::io::ioctl_fionread(&leg).unwrap() > 0 {
            stop_dropping(&peer);
        }
        drop(leg);
        path.relays[0].signal("KILL");
        path.relays[0].exit();
        stop_dropping(&peer);
        let (got, ending) = read_to_end(&peer);
        if ending == Ending::Fin {
            assert_same(&got, &bytes);
        }
        let (got, ending) = read_to_end(&other);
        assert_same(&got, &pattern(12, upload)[..got.len()]);
        assert!(ending == Ending::Reset || got.len() == upload, "{} of {upload} bytes and FIN", got.len());
    }
}

/// Sends `upload` and FIN, waits until the relay's kernel has them, and then drops all incoming segments of `peer`.
fn send_then_drop_incoming(peer: &TcpStream, leg: &Socket, upload: &[u8]) {
    send_all(peer, upload);
    wait(leg, "the peer's FIN", |info, _| info.state == State::CloseWait);
    drop_incoming(peer);
}

/// Waits until `is_it` is true for the TCP_INFO of `leg` and the number of its unacknowledged bytes.
fn wait(leg: &Socket, what: &str, is_it: impl Fn(&TcpInfo, u32) -> bool) {
    wait_for(what, || {
        let (info, left) = (TcpInfo::of(leg.as_fd()).unwrap(), unacknowledged(leg.as_fd()).unwrap());
        if is_it(&info, left) { Ok(()) } else { Err(Box::new((left, info))) }
    });
}

/// Drops all segments to `socket` from now on (socket(7) SO_ATTACH_FILTER), like a line that is down in one direction.
fn drop_incoming(socket: &TcpStream) {
    // BPF_RET | BPF_K with 0: keep no byte of the segment.
    SockRef::from(socket).attach_filter(&[SockFilter::new(0x06, 0, 0, 0)]).unwrap();
}

/// Lets segments reach `socket` again.
fn stop_dropping(socket: &TcpStream) {
    // Fails if no filter is attached.
    let _ = SockRef::from(socket).detach_filter();
}

/// Writes until the kernel reports that the connection was reset.
fn write_to_the_end(mut socket: &TcpStream) {
    // The read between two writes ends by the reset, or by its timeout.
    socket.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
    let err = wait_for("a write fails", || match uninterrupted(|| socket.write(b"more")) {
        Err(err) => Ok(err),
        Ok(_) => Err(socket.read(&mut [0])),
    });
    assert!(is_reset(&err), "{err}");
}
