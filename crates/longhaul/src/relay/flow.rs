//! One flow, from the accepted connection to its end.

use super::carry::{Carry, Tally};
use super::dial::NotDialled;
use super::end::{Broken, FlowEnd, How, LegEnd};
use super::stream::Stream;
use super::{Relay, dial, fast_open};
use crate::config::Tunnel;
use longhaul_sys::sockopt::Leg;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;
use tokio::sync::Semaphore;
use tracing::{Level, debug, enabled, warn};

/// Flows below this end too soon for their congestion counters to mean anything.
const WORTH_A_DIAGNOSIS: u64 = 10_000_000;

/// Dials for the accepted connection, carries every byte, and logs how it ended. The dial starts before a byte is read.
/// `lookups` are the tunnel's; `permit` is dropped when the flow is over.
///
/// Not an async fn, whose arguments would be part of every idle flow twice.
pub(super) fn run(
    relay: Arc<Relay>,
    tunnel: Arc<Tunnel>,
    lookups: Arc<Semaphore>,
    (accept, peer): (Stream, SocketAddr),
    permit: impl Send,
) -> impl Future<Output = ()> + Send {
    relay.counters.accepted.fetch_add(1, Relaxed);
    relay.counters.flows_now.fetch_add(1, Relaxed);
    let mut end = FlowEnd {
        flow: relay.next_flow.fetch_add(1, Relaxed),
        tunnel,
        peer,
        dialled: None,
        tally: Tally::default(),
        began: Instant::now(),
        how: How::Cut,
    };
    debug!(flow = end.flow, tunnel = %end.tunnel.name, %peer, "flow began");
    let accept = Arc::new(accept);
    async move {
        // Boxed: the dial's many small states would otherwise be part of every idle flow.
        let dial = Box::pin(reach(&relay, &lookups, &accept, &mut end)).await;
        let dial = dial.map(Arc::new).map_err(|how| end.how = how).ok();
        if let Some(dial) = &dial {
            end.how = carry(&relay, &end.tunnel, (&accept, dial), &mut end.tally).await;
        }
        finish(&relay, &end, &accept, dial.as_deref());
        relay.counters.flows_now.fetch_sub(1, Relaxed);
        // The sockets first: the permit is for their descriptors.
        drop((accept, dial));
        drop(permit);
    }
}

/// Dials, unless the client gives up or the flow is cut before a next hop answers.
async fn reach(relay: &Relay, lookups: &Arc<Semaphore>, accept: &Stream, end: &mut FlowEnd) -> Result<Stream, How> {
    let tunnel = end.tunnel.clone();
    // Every arm may be dropped at any await: a dial that is not wanted any more is closed by being dropped.
    let dialled = tokio::select! {
        dialled = dial::dial(relay, &tunnel, lookups, accept) => dialled,
        () = accept.failed() => return Err(How::Reset(Leg::Accept)),
        () = relay.cut.given() => return Err(How::Cut),
    };
    match dialled {
        Ok(dialled) => {
            let hop = tunnel.to.iter().position(|hop| *hop == dialled.next_hop).unwrap_or_default();
            end.dialled = Some((hop, dialled.address));
            let (next_hop, address) = (&dialled.next_hop, dialled.address);
            debug!(flow = end.flow, tunnel = %tunnel.name, peer = %end.peer, %next_hop, next_hop_address = %address, "flow connected");
            end.tally.up = dialled.early as u64;
            fast_open::consume(accept, dialled.early).map_err(|err| accept_broke(&err))?;
            Ok(dialled.stream)
        }
        Err(NotDialled::Accept(err)) => Err(accept_broke(&err)),
        Err(NotDialled::Reset(hop, address, err)) => {
            end.dialled = Some((hop, address));
            Err(Broken { leg: Leg::Dial, errno: err.raw_os_error().unwrap_or(libc::EIO) }.into())
        }
        Err(NotDialled::NoAnswer(why)) => {
            // The flow's own line comes for each: this one has the reason, which is the same for most of them.
            if let Some(more) = relay.dial_log.pass(&tunnel.name, Instant::now()) {
                warn!(flow = end.flow, tunnel = %tunnel.name, peer = %end.peer, %why, more, "dial failed");
            }
            Err(How::DialFailed)
        }
    }
}

fn accept_broke(err: &io::Error) -> How {
    Broken { leg: Leg::Accept, errno: err.raw_os_error().unwrap_or(libc::EIO) }.into()
}

/// Carries the flow until it ends or is cut. Not an async fn, as [`run`].
fn carry<'a>(
    relay: &'a Relay,
    tunnel: &'a Tunnel,
    (accept, dial): (&'a Arc<Stream>, &'a Arc<Stream>),
    tally: &'a mut Tally,
) -> impl Future<Output = How> {
    let carry = Carry { relay, tunnel, accept, dial, member: relay.sweep.join(tunnel, accept, dial) };
    async move {
        // Dropping the carrying future keeps its tally; dropping the other arm loses nothing.
        tokio::select! {
            biased;
            carried = carry.run(tally) => carried.map_or_else(How::from, |()| How::Finished),
            () = relay.cut.given() => How::Cut,
        }
    }
}

/// Counts and logs the end, while the sockets still know what they did, and sees to it that closing them says what is true.
fn finish(relay: &Relay, end: &FlowEnd, accept: &Stream, dial: Option<&Stream>) {
    relay.counters.ended(end.how, &end.tally);
    let worth_a_diagnosis = end.tally.up + end.tally.down > WORTH_A_DIAGNOSIS;
    // Logged or not: the sockets are closed next.
    let dial = dial.map(|dial| LegEnd::conclude(dial, Leg::Dial, end));
    let accept = LegEnd::conclude(accept, Leg::Accept, end);
    if !enabled!(Level::INFO) && !worth_a_diagnosis {
        return;
    }
    end.log(&accept, dial.as_ref());
    if worth_a_diagnosis {
        if let Some(dial) = dial {
            dial.warn_if_buffers_limit(relay, &end.tunnel.name, Leg::Dial);
        }
        accept.warn_if_buffers_limit(relay, &end.tunnel.name, Leg::Accept);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::NextHop;
    use socket2::SockRef;
    use std::net::Shutdown;
    use std::time::Duration;
    use tokio::io::Interest;
    use tokio::net::{TcpListener, TcpStream};

    /// Sends a message that fits every buffer, and waits until it is there.
    async fn pass(from: &TcpStream, to: &TcpStream) {
        let mut got = [0; 8];
        from.writable().await.unwrap();
        assert_eq!(from.try_write(b"message").unwrap(), 7);
        let read = to.async_io(Interest::READABLE, || to.try_read(&mut got)).await;
        assert_eq!(read.unwrap(), 7);
    }

    fn size_of_future<A, B, C, D, E, F>(_: impl Fn(A, B, C, D, E) -> F) -> usize {
        size_of::<F>()
    }

    /// 4,000 idle flows have 1,970 bytes of user memory each; the task is the largest part of it. The runtime adds some 100
    /// bytes to the future, and takes them in pieces of 128.
    #[test]
    fn an_idle_flow_is_small() {
        let size = size_of_future(|relay, tunnel, lookups, accepted, permit: u64| {
            run(relay, tunnel, lookups, accepted, permit)
        });
        assert!(size <= 640, "the future of a flow has grown to {size} bytes");
    }

    /// In virtual time: a flow that is not half-open is silent for longer than `linger-half-open`, and for a year.
    #[tokio::test]
    async fn an_idle_flow_stays_for_a_year() {
        const YEAR: Duration = Duration::from_secs(365 * 86_400);
        let listener = async || TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (ours, server) = (listener().await, listener().await);
        let to = server.local_addr().unwrap();
        let to = NextHop { host: to.ip().to_string(), port: to.port() };
        let mut tunnel = Tunnel::new("idle", ours.local_addr().unwrap(), vec![to]);
        tunnel.accept.set(Leg::Accept, "linger-half-open", "1s").unwrap();
        tunnel.dial.set(Leg::Dial, "linger-half-open", "1s").unwrap();
        let client = TcpStream::connect(tunnel.listen).await.unwrap();
        let (accept, peer) = ours.accept().await.unwrap();
        let accept = Stream::new(accept.into_std().unwrap().into()).unwrap();
        let relay = Relay::new(100);
        let flow = tokio::spawn(run(relay.clone(), Arc::new(tunnel), Arc::new(Semaphore::new(1)), (accept, peer), ()));
        let (far, _) = server.accept().await.unwrap();
        pass(&client, &far).await;

        tokio::time::pause();
        tokio::time::advance(YEAR).await;
        pass(&client, &far).await;
        pass(&far, &client).await;
        assert!(!flow.is_finished());

        // The same clock ends it once it is half-open: with nothing else to do it jumps to the linger's end.
        let before = tokio::time::Instant::now();
        SockRef::from(&client).shutdown(Shutdown::Write).unwrap();
        flow.await.unwrap();
        assert!(before.elapsed() >= Duration::from_secs(1) && relay.counters.reset.load(Relaxed) == 1);
    }
}
