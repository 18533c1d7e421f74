//! Active checks of a tunnel's next hops: one task a tunnel, off the flows' way.
//!
//! A check connects to the next hop as a dial does, with the same options and the same source, and resets the connection. With
//! `proxy_out`, it first sends the header of a health check.
//! With `check = "verify"`, it first sends a probe through the hop to the final host. If a relay refuses the probe, as one with
//! another key does, the connection alone counts. A hop whose name has several addresses passes when one of them does.

use crate::leg::stream::Stream;
use crate::live::failure_kind::FailureKind;
use crate::reach::connect::{self, Failure};
use crate::state::hops::{Failed, Passed};
use crate::state::served_tunnel::ServedTunnel;
use crate::state::shared::Relay;
use crate::verify::{self, Plan};
use longhaul_config::{CheckBy, Tunnel};
use longhaul_core::proxy_header;
use longhaul_sys::splice;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};

/// Begins to check the next hops of `tunnel`, if it has checks, until it is not in the list any more. If it has none, the states
/// that earlier checks have set end.
pub(crate) fn begin(relay: &Arc<Relay>, tunnel: &Arc<ServedTunnel>) {
    match tunnel.settings.check.by {
        Some(CheckBy::Tcp | CheckBy::Verify) => {
            relay.tunnels.run_while_listed(tunnel, run(relay.clone(), tunnel.clone()))
        }
        None => tunnel.hops.unchecked(),
    }
}

/// Checks every next hop in each interval, all at the same time.
async fn run(relay: Arc<Relay>, tunnel: Arc<ServedTunnel>) {
    let mut ticks = interval(tunnel.settings.check.interval);
    // A round that lasts longer than the interval delays the next one.
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let mut round = JoinSet::new();
        for hop in 0..tunnel.settings.to.len() {
            let (relay, tunnel) = (relay.clone(), tunnel.clone());
            round.spawn(async move {
                // A check needs a descriptor that no flow needs. Without one, the hop keeps its state.
                let Some(_spare) = tunnel.spare() else { return };
                if let Some(result) = check(&relay, &tunnel, hop).await {
                    let is_over = || !relay.tunnels.is_listed(&tunnel);
                    tunnel.hops.checked(&tunnel.counters, &tunnel.settings, hop, &result, is_over);
                }
            });
        }
        while round.join_next().await.is_some() {}
    }
}

/// Checks next hop `hop`. Returns `None` when only this host is at fault, because then the check says nothing about the hop.
async fn check(relay: &Relay, served: &ServedTunnel, hop: usize) -> Option<Result<Passed, Failed>> {
    let tunnel = &*served.settings;
    let timeout = tunnel.check.timeout();
    let unresolved = |why| Some(Err(Failed { what: FailureKind::Unresolved.name().into(), why }));
    let addresses = match relay.tunnels.names.addresses(&tunnel.to[hop], timeout, &served.counters).await {
        Ok(addresses) if !addresses.is_empty() => addresses,
        Ok(_) => return unresolved("its name has no address".into()),
        Err(err) => return unresolved(format!("cannot be resolved: {err}")),
    };
    let mut why = None;
    for address in addresses {
        match check_address(relay, tunnel, address).await {
            None => {}
            Some(Ok(passed)) => return Some(Ok(passed)),
            Some(Err(Failed { what, why: text })) => {
                why = Some(Err(Failed { what, why: format!("{address}: {text}") }))
            }
        }
    }
    why
}

/// Checks one address of a next hop. Returns `None` as [`check`] does.
async fn check_address(relay: &Relay, tunnel: &Tunnel, address: SocketAddr) -> Option<Result<Passed, Failed>> {
    let failed = |failure: &Failure| Failed { what: failure.kind.name().into(), why: failure.to_string() };
    let of_hop = |failure: Failure| failure.is_of_hop().then(|| Err(failed(&failure)));
    let began = Instant::now();
    let stream = match connect::begin(relay, tunnel, address, &[]) {
        Ok((stream, _)) => stream,
        Err(failure) => return of_hop(failure),
    };
    if let Err(failure) = connect::finish(relay, &stream, address, tunnel.check.timeout()).await {
        return of_hop(failure);
    }
    let rtt = began.elapsed();
    let refusal = match tunnel.check.by {
        Some(CheckBy::Verify) => probe(relay, tunnel, stream, address).await?,
        Some(CheckBy::Tcp) | None => {
            // The next hop expects a header, and this one tells it that nobody is behind it. A reset connection needs none.
            let header = tunnel.proxy_out.map(proxy_header::write_own);
            let _ = header.map(|header| splice::send(&stream, &header));
            Ok(None)
        }
    };
    Some(refusal.map(|refusal| Passed { rtt, refusal }))
}

/// Sends a probe on `stream`, which is connected to the relay at `address`. Returns the stage that is broken, and how; or why a
/// relay that works refuses the probe, if one does. Flows may well be served then. Returns `None` if this host is at fault, or
/// if a relay answers too many probes.
async fn probe(
    relay: &Relay,
    tunnel: &Tunnel,
    stream: Stream,
    address: SocketAddr,
) -> Option<Result<Option<String>, Failed>> {
    let stream = TcpStream::from_std(stream.into_socket().into()).ok()?;
    let plan = Plan::of_next_hop(tunnel, address, tunnel.check.timeout());
    let findings = verify::run_on(&Plan { key: relay.probes.key(), ..plan }, &stream).await;
    if findings.is_busy() {
        return None;
    }
    let is_refused = findings.refusal().is_some();
    let Some(trouble) = findings.trouble else { return Some(Ok(None)) };
    let stage = trouble.stage.behind_a_relay().name(tunnel.verify_hops.unwrap_or(1));
    if is_refused {
        return Some(Ok(Some(format!("{stage}: {}", trouble.why))));
    }
    let what = format!("{stage}: {}", trouble.cause.name());
    Some(Err(Failed { why: format!("{what}: {}", trouble.why), what: what.into() }))
}
