//! Asks a prober for the proof of the shared key, where `[probe] key_file` names one.
//!
//! ```text
//! relay ── challenge: random bytes, for this connection only ──> prober
//!       <── proof: HMAC-SHA256 with the key, over the challenge and the preface ──
//! ```
//! A challenge is good for one proof, so whoever records a proof cannot use it again.

use crate::leg::stream::Stream;
use crate::leg::talk::{poll_receive, send_all};
use crate::live::flow::Flow;
use crate::state::shared::Relay;
use longhaul_core::wire::answer::{Frame, Frames, PROOF_BYTES};
use longhaul_core::wire::probe::Preface;
use longhaul_core::wire::proof::{Challenge, Key};
use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// Returns the key that the prober of `flow` has to prove, if there is one. The daemon's own probes are known by their nonce.
pub(super) fn wanted(relay: &Relay, flow: &Flow) -> Option<Arc<Key>> {
    relay.probes.key().filter(|_| !flow.client.is_own())
}

/// Waits until the prober with `preface` has proved the key, where there is one.
///
/// # Errors
/// It has not. The text says how.
pub(super) async fn ask(relay: &Relay, flow: &Flow, accept: &Stream, preface: &Preface) -> Result<(), &'static str> {
    let Some(key) = wanted(relay, flow) else { return Ok(()) };
    let random = longhaul_measure::random().map_err(|_| "no random bytes for a challenge")?;
    let challenge = Challenge { nonce: preface.nonce, hops: preface.hops, random };
    match timeout(PATIENCE, exchange(accept, challenge)).await {
        Err(_) => Err("no proof of the key in 10s"),
        Ok(Err(_)) => Err("the connection ended before a proof of the key"),
        Ok(Ok(Some(Frame::Proof(proof)))) if key.proves(&proof.mac, &challenge, preface) => Ok(()),
        Ok(Ok(Some(Frame::Proof(_)))) => Err("wrong proof: the prober has another key, or sends an old proof"),
        Ok(Ok(_)) => Err("bytes that are no proof of the key"),
    }
}

/// Sends `challenge` and returns the frame that comes back. `None` if as many bytes are no frame.
async fn exchange(accept: &Stream, challenge: Challenge) -> io::Result<Option<Frame>> {
    send_all(accept, &Frame::Challenge(challenge).bytes()).await?;
    let mut bytes = [0; PROOF_BYTES];
    let mut read = 0;
    while read < PROOF_BYTES {
        match poll_fn(|cx| poll_receive(accept, cx, &mut bytes[read..])).await? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            more => read += more,
        }
    }
    let mut frames = Frames::default();
    let mut found = None;
    for byte in bytes {
        match frames.take(byte) {
            Ok(frame) => found = found.or(frame),
            Err(_) => return Ok(None),
        }
    }
    Ok(found)
}

/// Time that the prober has for its proof: several round trips of any path.
const PATIENCE: Duration = Duration::from_secs(10);
