//! Probes a tunnel through its own listener again and again: one task a tunnel with `verify`, off the flows' way.

use crate::live::verified::History;
use crate::state::served_tunnel::ServedTunnel;
use crate::state::shared::Relay;
use crate::verify::{self, Findings, Plan};
use longhaul_core::health::{Cause, ProbeResult, Stage, Trouble};
use longhaul_core::permits::Full;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant, SystemTime};
use tokio::time::{MissedTickBehavior, interval_at, sleep};
use tracing::{debug, error, info, warn};

/// Begins to probe `tunnel`, if it has `verify`, until it is not in the list any more.
pub(crate) fn begin(relay: &Arc<Relay>, tunnel: &Arc<ServedTunnel>) {
    let settings = &tunnel.settings;
    let (Some(interval), Some(history)) = (settings.verify, tunnel.history.clone()) else { return };
    let Plan { limit, hops, .. } = Plan::of_own(settings);
    // A probe that fails is made twice if there is another next hop.
    let timeout = if settings.to.len() > 1 { limit.saturating_mul(2) } else { limit };
    history.begin(interval, timeout);
    history.of_path(hops);
    let probed = Probed { relay: relay.clone(), tunnel: tunnel.clone(), history };
    relay.tunnels.run_while_listed(tunnel, probed.run(interval));
}

/// A tunnel that is probed.
struct Probed {
    relay: Arc<Relay>,
    tunnel: Arc<ServedTunnel>,
    history: Arc<History>,
}

/// A probe that was made.
struct Made {
    findings: Findings,
    /// Whether the listener accepted it.
    was_accepted: bool,
}

impl Probed {
    async fn run(self, period: Duration) {
        let share = share_of(&self.tunnel.settings.name);
        sleep(FIRST_WITHIN.min(period).mul_f64(share)).await;
        self.probe().await;
        // The probes of many tunnels are spread over the interval, because the far relays answer a number a second.
        let second = tokio::time::Instant::now() + period.mul_f64(0.5 + share / 2.0);
        let mut ticks = interval_at(second, period);
        // A probe that lasts longer than the interval delays the next one.
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            // Both are cancel-safe: a tick that was not waited for comes at once, and the other one has its state in the history.
            tokio::select! {
                _ = ticks.tick() => self.probe().await,
                () = self.address_returns() => {
                    self.probe().await;
                    ticks.reset();
                }
            }
        }
    }

    /// Waits until the address comes back to this host. An old result says nothing then, so a probe must be made at once.
    /// Records also that the address has left. If the tunnel is broken, keepalived takes it away because of that result, and
    /// would not give it back while the result counts.
    async fn address_returns(&self) {
        let address = Plan::of_own(&self.tunnel.settings).address;
        loop {
            sleep(ADDRESS_LOOK).await;
            match (self.history.is_elsewhere(), self.is_elsewhere(address)) {
                (true, false) => return,
                (false, true) => self.left(address),
                (true, true) | (false, false) => {}
            }
        }
    }

    /// Waits until `address` does not belong to this host.
    async fn address_leaves(&self, address: SocketAddr) {
        while !self.is_elsewhere(address) {
            sleep(ADDRESS_LOOK).await;
        }
    }

    /// Returns whether `address` does not belong to this host. False if the kernel does not say.
    fn is_elsewhere(&self, address: SocketAddr) -> bool {
        self.relay.tunnels.loop_guard.here.has(address).is_ok_and(|is_here| !is_here)
    }

    fn left(&self, address: SocketAddr) {
        self.history.elsewhere(format!("{} is not an address of this host now", address.ip()));
    }

    /// Makes one probe and records its result.
    async fn probe(&self) {
        let (key, are_known) = (self.relay.probes.key(), self.history.relays_answered());
        self.probe_by(Plan { key, are_known, ..Plan::of_own(&self.tunnel.settings) }).await;
    }

    /// Makes the probe `plan` and records its result. Records none if no probe can be made, or if its result says nothing
    /// about the tunnel.
    async fn probe_by(&self, plan: Plan) {
        // A backup relay listens on an address that it does not have yet.
        match self.relay.tunnels.loop_guard.here.has(plan.address) {
            Ok(true) => self
                .history
                .returned(|| format!("{} has come to this host, and the first probe is under way", plan.address.ip())),
            Ok(false) => return self.left(plan.address),
            Err(err) => return self.hinder(err.to_string()),
        }
        // The prober's socket needs a descriptor that no flow needs.
        let Some(_spare) = self.tunnel.spare() else { return self.hinder(Full::Permits.why().into()) };
        if let Some(full) = self.tunnel.full() {
            return self.hinder(full.why().into());
        }
        let began = Instant::now();
        // A probe from an address that has left would wait in vain until its time is over. Dropping it closes its socket by RST
        // and takes its nonce back, and it has no result.
        let Made { mut findings, was_accepted } = tokio::select! {
            made = self.make_and_repeat(&plan) => made,
            () = self.address_leaves(plan.address) => return self.left(plan.address),
        };
        // The address has left meanwhile, and its connections with it.
        if self.is_elsewhere(plan.address) {
            return self.left(plan.address);
        }
        let is_waiting = !was_accepted && findings.connected.is_some();
        if let Some(full) = self.tunnel.full().filter(|_| is_waiting) {
            return self.hinder(full.why().into());
        }
        // Only a connection that the kernel has accepted says something about the process. NAT may hide that a probe is the
        // daemon's own. A report shows that the listener took it. A reset shows nothing.
        let was_taken = was_accepted || !findings.relays.is_empty();
        let is_newly_stuck = (was_taken || findings.is_silent()) && self.history.accepted(was_taken);
        if is_newly_stuck {
            error!(tunnel = %self.tunnel.settings.name, "the listener accepts nothing although it could; the watchdog is not fed");
        }
        if let Some(trouble) = findings.refusal().or_else(|| findings.lateness()) {
            return self.hinder(format!("{}: {}", trouble.stage.name(plan.hops), trouble.why));
        }
        if was_accepted {
            blame_the_dial(&mut findings, plan.hops);
        }
        self.conclude(findings, plan.hops, began.elapsed());
    }

    fn hinder(&self, why: String) {
        if self.history.hindered(why.clone()) {
            warn!(tunnel = %self.tunnel.settings.name, why, "probes of the tunnel have no result");
        }
    }

    /// Makes the probe `plan`, and once more if it may have been on its way through a next hop that has just died: a new flow
    /// takes another one.
    async fn make_and_repeat(&self, plan: &Plan) -> Made {
        let made = self.make(plan).await;
        let Findings { trouble, relays, .. } = &made.findings;
        if trouble.is_some() && !relays.is_empty() && self.tunnel.settings.to.len() > 1 {
            return self.make(plan).await;
        }
        made
    }

    /// Makes the probe `plan`.
    async fn make(&self, plan: &Plan) -> Made {
        let was_accepted = Arc::new(AtomicBool::new(false));
        let announce = |nonce, from: SocketAddr| self.relay.probes.own.announce(nonce, from, &was_accepted);
        let findings = verify::run_announced(plan, announce).await;
        Made { findings, was_accepted: was_accepted.load(Relaxed) }
    }

    fn conclude(&self, Findings { trouble, echo, .. }: Findings, hops: u8, took: Duration) {
        if trouble.is_some() {
            self.tunnel.counters.count(|counters| &counters.verify_failures);
        }
        let tunnel = &self.tunnel.settings.name;
        debug!(%tunnel, is_whole = trouble.is_none(), ms = took.as_millis(), "tunnel verified");
        if self.history.unhindered() {
            info!(%tunnel, "probes of the tunnel have results again");
        }
        let result = ProbeResult {
            at: SystemTime::now(),
            hops,
            trouble: trouble.clone(),
            took,
            rtt: echo.map(|echo| echo.rtt),
            goodput: echo.map(|echo| echo.goodput()),
        };
        match (self.history.add(result), trouble) {
            (true, Some(Trouble { stage, cause, why, .. })) => {
                warn!(%tunnel, stage = stage.name(hops), cause = cause.name(), why, "tunnel broken");
            }
            (true, None) => info!(%tunnel, "tunnel whole"),
            (false, _) => {}
        }
    }
}

/// If the near relay has not reported although it has accepted the probe, its dial is still under way.
fn blame_the_dial(findings: &mut Findings, hops: u8) {
    let is_silent = |trouble: &&mut Trouble| trouble.stage == Stage::Relay(0) && trouble.cause == Cause::NoAnswer;
    if let Some(trouble) = findings.trouble.as_mut().filter(is_silent) {
        trouble.stage = if hops == 0 { Stage::Lan } else { Stage::Link(0) };
        trouble.why = "the dial had no answer in time".into();
    }
}

/// Returns a number below 1 that depends on the name.
fn share_of(name: &str) -> f64 {
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    (hasher.finish() % 1000) as f64 / 1000.0
}

/// Time between two looks for the address. Each asks the kernel.
const ADDRESS_LOOK: Duration = Duration::from_secs(1);

/// Time within which the first probe begins.
const FIRST_WITHIN: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::leg::stream::{BOUND, soon};
    use longhaul_config::{NextHop, Tunnel};
    use longhaul_core::wire::answer::{Dial, Frame, Next, Report};
    use longhaul_core::wire::probe::{LENGTH, Preface, read};
    use std::future::pending;
    use std::io::{Read, Write};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    fn probed(listen: SocketAddr, max_flows: usize) -> Probed {
        let relay = Relay::new(100);
        let mut tunnel = Tunnel::new("one", listen, vec![NextHop::new("192.0.2.1", 1)]);
        tunnel.verify = Some(Duration::from_secs(1));
        let history = Arc::<History>::default();
        let tunnel = relay.tunnels.open(Arc::new(Tunnel { max_flows: Some(max_flows), ..tunnel }));
        let mut tunnel = ServedTunnel::clone(&tunnel);
        tunnel.history = Some(history.clone());
        let tunnel = Arc::new(tunnel);
        relay.tunnels.set(vec![tunnel.clone()]);
        Probed { relay, tunnel, history }
    }

    /// Returns the broken stage and the cause of the last result.
    fn broken_at(probed: &Probed) -> Option<(String, &'static str)> {
        let view = probed.history.view();
        let last = view.results.back()?;
        last.stage().zip(last.cause())
    }

    /// In virtual time. The kernel accepts the connections, and the process takes none of them.
    #[tokio::test(start_paused = true)]
    async fn a_listener_that_takes_nothing_is_stuck_unless_the_tunnel_is_full() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let probed = probed(listener.local_addr().unwrap(), 1);
        let permit = probed.tunnel.try_enter().unwrap();
        soon(probed.probe()).await;
        let view = probed.history.view();
        assert!(view.results.is_empty() && view.facts.hindrance.is_some(), "{view:?}");
        drop(permit);
        soon(probed.probe()).await;
        assert_eq!(broken_at(&probed), Some(("near relay".into(), "no answer")));
        assert!(!probed.relay.tunnels.is_stuck());
        soon(probed.probe()).await;
        assert!(probed.relay.tunnels.is_stuck());
    }

    #[tokio::test]
    async fn a_refused_connection_is_broken_and_not_stuck_and_a_foreign_address_is_neither() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let listen = listener.local_addr().unwrap();
        drop(listener);
        let probed = probed(listen, 1);
        soon(probed.probe()).await;
        soon(probed.probe()).await;
        assert_eq!(broken_at(&probed), Some(("near relay".into(), "refused")));
        assert!(!probed.relay.tunnels.is_stuck());
        let elsewhere = self::probed("192.0.2.7:6000".parse().unwrap(), 1);
        soon(elsewhere.probe()).await;
        let view = elsewhere.history.view();
        assert!(view.results.is_empty() && view.facts.hindrance.unwrap().contains("192.0.2.7"));
    }

    /// Returns the report of a relay that says `next` to a prober with `preface`.
    fn report(preface: Preface, next: Next) -> Vec<u8> {
        let Preface { nonce, hops, echo_bytes } = preface;
        let (name, version, next_hop, why) = Default::default();
        let (dial, clock_us, dial_us, rtt_us) = (Dial::Connected, 0, 0, 0);
        let report =
            Report { nonce, hops, dial, next, clock_us, dial_us, rtt_us, echo_bytes, name, version, next_hop, why };
        Frame::Report(report).bytes()
    }

    /// Returns the address of a listener that takes probes as those of strangers, as if NAT had changed their source. It says
    /// `next` to each, or ends the connection at once.
    fn stranger(next: Option<Next>) -> SocketAddr {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for probe in listener.incoming() {
                let (mut probe, mut first) = (probe.unwrap(), [0; LENGTH]);
                probe.set_read_timeout(Some(BOUND)).unwrap();
                probe.read_exact(&mut first).unwrap();
                let Ok(Some(preface)) = read(&first) else { panic!("{first:?}") };
                probe.write_all(&next.map(|next| report(preface, next)).unwrap_or_default()).unwrap();
            }
        });
        address
    }

    /// Takes one probe, and echoes the first `bytes` of its payload at 500 B/s.
    async fn trickle(listener: TcpListener, bytes: usize) {
        let (mut probe, mut first) = (listener.accept().await.unwrap().0, [0; LENGTH]);
        probe.read_exact(&mut first).await.unwrap();
        let Ok(Some(preface)) = read(&first) else { panic!("{first:?}") };
        probe.write_all(&report(preface, Next::Echo)).await.unwrap();
        let (mut piece, mut echoed) = ([0; 10], 0);
        while echoed < bytes {
            let got = probe.read(&mut piece).await.unwrap();
            probe.write_all(&piece[..got]).await.unwrap();
            echoed += got;
            sleep(Duration::from_millis(20)).await; // the trickle
        }
        pending().await
    }

    /// `longhaul verify` waits longer, and may find the same path whole.
    #[tokio::test]
    async fn a_slow_payload_says_nothing_and_one_that_stops_is_broken() {
        let made = |bytes, echo_bytes| async move {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let probed = probed(listener.local_addr().unwrap(), 10);
            let limit = Duration::from_secs(4);
            let plan = Plan { echo_bytes, limit, total: limit, ..Plan::of_own(&probed.tunnel.settings) };
            let relay = tokio::spawn(trickle(listener, bytes));
            soon(probed.probe_by(plan)).await;
            relay.abort();
            probed
        };
        // The last payload fills every buffer, so that the prober's writes wait, too.
        let (slow, stopped, full) = tokio::join!(made(1 << 20, 16384), made(100, 16384), made(1 << 20, 64 << 20));
        for slow in [slow, full] {
            let view = slow.history.view();
            let want = "data: the whole probe took its limit of 4s while bytes still came";
            assert!(view.results.is_empty() && view.facts.hindrance.as_deref() == Some(want), "{view:?}");
        }
        assert_eq!(broken_at(&stopped), Some(("data".into(), "no answer")));
        let trouble = stopped.history.view().results[0].trouble.clone().unwrap();
        assert!(trouble.why.starts_with("connected, and then silent for "), "{trouble:?}");
    }

    #[tokio::test]
    async fn a_listener_that_takes_a_probe_as_a_stranger_s_is_not_stuck() {
        // A relay that refuses the probe is not broken. One that resets it is.
        for (next, want) in [(Some(Next::NotPassedOn), None), (None, Some(("near relay", "failed")))] {
            let probed = probed(stranger(next), 10);
            for _ in 0..3 {
                soon(probed.probe()).await;
            }
            assert_eq!(broken_at(&probed), want.map(|(stage, cause)| (stage.into(), cause)));
            assert!(!probed.relay.tunnels.is_stuck(), "{next:?}");
        }
    }
}
