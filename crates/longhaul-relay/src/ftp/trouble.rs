//! Tells of data connections that were refused, or whose dial failed. Views show them as the problem of their tunnel.

use crate::live::data_peer::TransferFacts;
use crate::live::failure_kind::FailureKind;
use crate::live::flow::Flow;
use crate::lock::lock;
use crate::reach::dial::Unanswered;
use crate::state::served_tunnel::ServedTunnel;
use crate::state::shared::Relay;
use longhaul_core::ftp::{Ends, Refused, Side};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::time::sleep;
use tracing::warn;

/// Notes that the dial of `flow` failed, if that is a data connection.
///
/// A refused dial may be no problem. A server that refuses a transfer closes its port, and our dial may come later than that. So the
/// reply to the transfer is awaited for a moment. The ports of a client that has left refuse, too.
pub(crate) fn note_failed_dial(tunnel: &Arc<ServedTunnel>, flow: &Flow, unanswered: &Unanswered) {
    let Some(facts) = flow.client.transfer_facts().cloned() else { return };
    let (tunnel, what) = (tunnel.clone(), format!("dial failed: {}", unanswered.why));
    if unanswered.kind != FailureKind::Refused {
        note(&tunnel, what);
        return;
    }
    let is_turned = flow.client.is_turned();
    tokio::spawn(async move {
        sleep(REPLY_TIME).await;
        let is_expected = |facts: &TransferFacts| if is_turned { facts.is_over } else { facts.is_refused };
        if !is_expected(&lock(&facts)) {
            note(&tunnel, what);
        }
    });
}

/// Tells of a command or a reply that was refused. `peer` is the client of the control connection between `ends`.
pub(super) fn tell_refused(
    relay: &Relay,
    served: &ServedTunnel,
    peer: SocketAddr,
    ends: &Ends<IpAddr>,
    refused: &Refused,
) {
    served.counters.count(|counters| &counters.ftp_refused);
    let (tunnel, reason) = (&served.settings.name, refused.name());
    let why = format!("{refused}{}", advice(refused, ends));
    if refused.is_problem() {
        served.data_problem.note(why.clone());
    }
    if let Some(more) = relay.lines.ftp.pass_kind(tunnel, reason, Instant::now()) {
        warn!(tunnel = %tunnel, peer = %peer, reason, why, more, "refused an FTP data connection");
    }
}

/// Returns what the log and the problem of the tunnel add to the reason of a refusal.
fn advice(refused: &Refused, ends: &Ends<IpAddr>) -> String {
    // A relay that does not rewrite passes on the address of the host behind it.
    let Refused::ThirdHost(side, _) = refused else { return String::new() };
    let host = ends[*side];
    match side {
        Side::Client => format!("; if {host} is a relay, write protocol = \"ftp\" on it"),
        // Only a reply to PASV names what `ftp.advertise` sets.
        Side::Server => format!(
            "; if {host} is a relay, write protocol = \"ftp\" on it, and ftp.advertise if it is behind a NAT; if it is the FTP \
             server, correct the address that it names"
        ),
    }
}

fn note(tunnel: &ServedTunnel, what: String) {
    tunnel.counters.count(|counters| &counters.ftp_unused);
    tunnel.data_problem.note(what);
}

/// Time in which a reply comes that the server sent when it closed its port. Both take the same way.
const REPLY_TIME: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::leg::stream;
    use crate::live::client::Client;
    use crate::live::data_peer::{BeforeFin, DataPeer};
    use longhaul_config::Tunnel;
    use std::sync::Mutex;
    use std::sync::atomic::Ordering::Relaxed;
    use tokio::sync::watch;

    /// Returns the problem three seconds after a dial that failed, and its count.
    async fn told(kind: FailureKind, is_server: bool, before: fn(&mut TransferFacts)) -> (Option<String>, u64) {
        let relay = Relay::new(1000);
        let (accept, peer) = stream::pair();
        let (facts, address) = (Arc::<Mutex<TransferFacts>>::default(), peer.local_addr().unwrap());
        let (has_dialled, met) = (watch::channel(false).0, Mutex::new(None));
        let (facts_of_peer, before_fin) = (facts.clone(), BeforeFin::new(async {}));
        let peer = DataPeer { address, is_server, facts: facts_of_peer, has_dialled, met, before_fin };
        let client = Client::Data(Box::new(peer));
        let tunnel = relay.tunnels.open(Arc::new(Tunnel::new("files", address, Vec::new())));
        let flow = relay.registry.add(tunnel.settings.clone(), &tunnel.counters, client, &Arc::new(accept));
        note_failed_dial(&tunnel, &flow, &Unanswered { why: "10.20.20.20:6899".into(), kind, address: None });
        before(&mut lock(&facts));
        sleep(Duration::from_secs(3)).await;
        (tunnel.data_problem.view().map(|view| view.what), tunnel.counters.ftp_unused.load(Relaxed))
    }

    #[tokio::test(start_paused = true)]
    async fn a_refused_dial_is_a_problem_unless_the_server_refused_the_transfer_or_the_client_has_left() {
        let problem = (Some("dial failed: 10.20.20.20:6899".to_string()), 1);
        for is_server in [false, true] {
            assert_eq!(told(FailureKind::Refused, is_server, |_| {}).await, problem);
            assert_eq!(told(FailureKind::NoAnswer, is_server, |facts| facts.is_refused = true).await, problem);
        }
        assert_eq!(told(FailureKind::Refused, false, |facts| facts.is_refused = true).await, (None, 0));
        assert_eq!(told(FailureKind::Refused, true, |facts| facts.is_over = true).await, (None, 0));
    }
}
