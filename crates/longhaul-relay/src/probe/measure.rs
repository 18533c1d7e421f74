//! Measuring sessions at a tunnel's listener: hands each of their connections to the [`Answerer`](longhaul_measure::answer::Answerer), which is blocking code.
//!
//! Like a probe, a measuring connection is answered once its dial has ended, and the final host gets FIN and no byte. While a session
//! goes on, the further connections of its client are looked at before the dial, so that they are not dialled.

use crate::leg::peek;
use crate::leg::setup;
use crate::leg::stream::Stream;
use crate::live::flow::Flow;
use crate::live::how::How;
use crate::state::shared::Relay;
use longhaul_config::options::Leg;
use longhaul_core::opening::{Asks, Found, MAX_PREFACE_BYTES, PrefaceKind};
use longhaul_core::wire::measure::Preface;
use longhaul_core::wire::probe::LENGTH;
use socket2::SockRef;
use std::net::{Shutdown, TcpStream};
use std::os::fd::AsFd;
use tokio::task::spawn_blocking;
use tracing::{info, warn};

/// Serves a measuring connection whose `preface` was read, until it has ended. Returns how its flow ends.
pub(super) async fn serve(relay: &Relay, flow: &Flow, accept: &Stream, preface: Preface) -> How {
    let stream = match accept.as_fd().try_clone_to_owned() {
        Ok(copy) => TcpStream::from(copy),
        Err(_) => return How::ProbeRefused,
    };
    if preface.run.is_some() {
        setup::settle_congestion(&flow.tunnel, Leg::Accept, accept);
    }
    let (answerer, entry) = (relay.probes.measuring().clone(), relay.probes.entry(flow.client.address().ip()));
    let serving = spawn_blocking(move || answerer.serve(stream, &preface, &entry));
    let ended = tokio::select! {
        ended = serving => ended,
        how = flow.cut.given() => {
            // Then the answerer's thread ends, too.
            let _ = SockRef::from(accept).shutdown(Shutdown::Both);
            return how;
        }
    };
    let (tunnel, peer) = (&flow.tunnel.name, flow.client.address());
    let is_control = preface.run.is_none();
    match ended {
        Ok(Ok(None)) => {
            if is_control {
                info!(flow = flow.number, tunnel = %tunnel, peer = %peer, "measured");
            }
            How::Finished
        }
        Ok(Ok(Some(why))) => {
            flow.counters.count(|counters| &counters.probes_refused);
            warn!(flow = flow.number, tunnel = %tunnel, peer = %peer, why, "measurement refused");
            How::ProbeRefused
        }
        Ok(Err(_)) | Err(_) => How::Reset(Leg::Accept),
    }
}

/// Serves a measuring connection that is not dialled: one of a session that goes on. Returns `None`, without a byte read, if it is none.
pub(crate) async fn serve_undialled(relay: &Relay, flow: &Flow, accept: &Stream) -> Option<How> {
    // The answerer knows the peer of the socket, also where a proxy names another client.
    let peer = SockRef::from(accept).peer_addr().ok().and_then(|peer| peer.as_socket());
    let is_busy = peer.is_some_and(|peer| relay.probes.measuring().is_busy_with(peer.ip()));
    let is_known = flow.client.may_be_probe() && is_busy;
    if is_known { serve_if_measuring(relay, flow, accept).await } else { None }
}

/// Serves a measuring connection, also after a failed dial. Returns `None`, without a byte read, if it is none.
pub(crate) async fn serve_if_measuring(relay: &Relay, flow: &Flow, accept: &Stream) -> Option<How> {
    if !flow.client.may_be_probe() {
        return None;
    }
    let found = peek::peek(accept, peek::ask(Asks::BesideDial), &mut [0; MAX_PREFACE_BYTES]).await;
    let Ok((Found::Preface(PrefaceKind::Measure(preface)), _)) = found else { return None };
    flow.note_probe();
    peek::consume(accept, LENGTH).ok()?;
    Some(serve(relay, flow, accept, preface).await)
}
