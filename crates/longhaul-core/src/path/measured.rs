//! Decides what limits one direction of a measured path, from runs of bulk that end one after the other.
//!
//! The first run has one connection and the sender's default congestion control: it stands for a transfer of that host. What limits
//! it is the finding. The other runs lift one limit each: another congestion control that of loss, several connections that of a
//! window. So the rate without the limit is measured, not computed.

use super::diagnosis::{BUSY, Facts, Finding, Kind, LEAST_QUEUE, THROTTLED};
use super::laws::{LossResponse, loss_rate};
use longhaul_units::Rate;
use std::time::Duration;

/// One run of bulk.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Run {
    /// Congestion control of the sender.
    pub congestion: String,
    /// Number of connections.
    pub connections: u32,
    /// Rate of payload, of all connections together, after the start.
    pub rate: Rate,
    /// MSS that the ends agreed on: the payload of a full segment, and its timestamps.
    pub mss: u32,
    /// Facts of the first connection, from the last seconds; `None` if the run was too short.
    pub facts: Option<Facts>,
    /// Share of the time in which the busiest thread of an end computed, between 0 and 1.
    pub cpu: f64,
    /// Share of the time in which a CPU quota held back an end, between 0 and 1.
    pub throttled: f64,
    /// Whether these are of the sender, and not of the receiver.
    pub is_sender_busier: bool,
    /// Share of the payload bytes that were lost after the start, between 0 and 1.
    pub lost: f64,
}

impl Run {
    /// Whether its own looks say that one of `kinds` limits it.
    fn is(&self, kinds: &[Kind]) -> bool {
        self.facts.as_ref().is_some_and(|facts| kinds.contains(&facts.finding().kind))
    }

    /// Whether a window or a buffer of a host limits it.
    fn is_of_host(&self) -> bool {
        self.is(&[Kind::ReceiverWindow, Kind::OwnSendBuffer])
    }
}

/// One direction of a measured path.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Way {
    /// Whether this host sends. Otherwise the peer does.
    pub is_from_here: bool,
    /// The smallest round trip of the session.
    pub min_rtt: Duration,
    /// Time for which small messages waited on the way, at the median, before the first run.
    pub idle_queue: Duration,
    /// The runs. The first has one connection, the default congestion control, and the segments that the hosts choose.
    pub runs: Vec<Run>,
    /// The run with segments that fit into the path, where full ones made the first run stand still or slow.
    pub smaller: Option<Run>,
    /// The largest MSS whose packets no box cuts into fragments, if larger ones lose more.
    pub uncut: Option<u32>,
    /// Share of the datagrams that others overtook, between 0 and 1.
    pub overtaken: f64,
    /// Share of the segments of single connections that were lost by chance, between 0 and 1, if it is more than a few segments.
    pub loss: Option<f64>,
    /// Whether a train above the rate of `line` passed at first, and then lost what exceeds it.
    pub is_policed: bool,
    /// Rate of payload that the line carries, as trains of datagrams have shown it.
    pub line: Option<Rate>,
    /// Rates that the largest buffers of the two hosts allow, with the limit that each would be.
    pub ceilings: Vec<(Rate, Kind)>,
    /// Rate of payload that the measurement may send at most, if it is limited.
    pub limit: Option<Rate>,
    /// Whether the path carried nothing more from some time on.
    pub has_died: bool,
}

/// One finding about a whole direction. The rules of [`Facts::finding`] come after these.
struct Rule {
    kind: Kind,
    holds: fn(&Way, &Run) -> bool,
    evidence: fn(&Way, &Run) -> String,
}

impl Way {
    /// Returns what limits the direction: first the limit of the first run, then those that other runs had. Empty without a run. The advice
    /// is empty: it names hosts, and `advice::Remedy` has it.
    pub fn findings(&self) -> Vec<Finding> {
        let Some(first) = self.runs.first() else {
            return if self.has_died { vec![self.of_first(&Run::default())] } else { Vec::new() };
        };
        let mut findings = vec![self.of_first(first)];
        // Where the first run fills the line, what limits another one that does so costs nothing.
        let is_full = findings[0].kind == Kind::LinkRate;
        let counts = |run: &&Run| run.connections == 1 && !(is_full && is_near(run.rate, self.best()));
        for run in self.runs[1..].iter().filter(counts) {
            let Some(facts) = &run.facts else { continue };
            let finding = self.with_sides(facts.finding());
            let is_new = findings.iter().all(|found| found.kind != finding.kind);
            if is_new && !matches!(finding.kind, Kind::Unknown | Kind::LinkRate) {
                let evidence = format!("with {}: {}", run.congestion, finding.evidence);
                findings.push(Finding { evidence, ..self.with_what_if(finding, run) });
            }
        }
        findings
    }

    /// Returns the largest rate of payload that was seen: that of a run, or of the line.
    pub fn best(&self) -> Rate {
        self.all().map(|run| run.rate).chain(self.line).max().unwrap_or_default()
    }

    /// Whether the line was full in a run, so that [`best`](Way::best) is its rate, and not only a part of it.
    pub fn is_line_reached(&self) -> bool {
        if self.limit.is_some_and(|limit| is_near(self.best(), limit)) {
            return false;
        }
        let kinds = self.all().filter_map(|run| Some((run, run.facts.as_ref()?.finding().kind)));
        let is_full = kinds
            .filter(|(run, _)| is_near(run.rate, self.best()))
            .any(|(_, kind)| matches!(kind, Kind::LinkRate | Kind::Policer));
        // More connections carry no more. A run that was over too soon shows nothing.
        let runs = || self.runs.iter().filter(|run| run.facts.is_some());
        let widest = runs().max_by_key(|run| run.connections).filter(|run| run.connections > 1);
        let single = runs().filter(|run| run.connections == 1).map(|run| run.rate).max().unwrap_or_default();
        is_full || self.line.is_some() || widest.is_some_and(|widest| is_near(single, widest.rate))
    }

    fn all(&self) -> impl Iterator<Item = &Run> {
        self.runs.iter().chain(&self.smaller)
    }

    fn of_first(&self, first: &Run) -> Finding {
        let rule = RULES.iter().find(|rule| (rule.holds)(self, first));
        let found = match (rule, &first.facts) {
            (Some(rule), _) => Finding {
                kind: rule.kind,
                leg: None,
                evidence: (rule.evidence)(self, first),
                what_if: None,
                then: None,
                advice: "",
            },
            (None, Some(facts)) => self.with_sides(facts.finding()),
            (None, None) => Finding::unknown(
                "the first run was shorter than 3 s or 10 round trips: give more with --seconds or --max-bytes",
            ),
        };
        self.with_what_if(found, first)
    }

    /// Returns `finding` for a path, which has no legs.
    fn with_sides(&self, finding: Finding) -> Finding {
        let kind = match finding.kind {
            // The sender's own buffer is the peer's if the peer sends.
            Kind::OwnSendBuffer if !self.is_from_here => Kind::PeerSendBuffer,
            // A sender of bulk always has bytes. If it starves, its host is slow.
            Kind::Application => Kind::Cpu,
            other => other,
        };
        Finding { kind, leg: None, advice: "", ..finding }
    }

    /// Returns `finding`, that of the run `of`, with the rate without that limit, and what limits that rate.
    fn with_what_if(&self, finding: Finding, of: &Run) -> Finding {
        let (what_if, then) = match finding.kind {
            Kind::LinkRate | Kind::Stalled | Kind::CongestedQueue | Kind::Cap | Kind::Unknown => return finding,
            // A sender that keeps below the policer's rate loses nothing.
            Kind::Policer => (self.line.map(|line| Rate((line.0 as f64 * BELOW_POLICER) as u64)), Some(Kind::Cap)),
            // What lifts these was not tried: the line and the other buffers are known.
            Kind::ReceiverWindow | Kind::OwnSendBuffer | Kind::PeerSendBuffer | Kind::Cpu => {
                self.least_other(finding.kind)
            }
            // Another congestion control, or smaller segments, of one connection. Several also lift a window.
            Kind::RandomLoss | Kind::Reordering => self.of_best(of, self.all().filter(|run| run.connections == 1)),
            Kind::MtuBlackHole | Kind::Fragmentation => self.of_best(of, self.smaller.iter()),
            _ => self.of_best(of, self.all()),
        };
        match what_if.filter(|what_if| !is_near(of.rate, *what_if)) {
            Some(_) => Finding { what_if, then, ..finding },
            None => finding,
        }
    }

    /// Returns the least of the line's rate and of what the limits other than `kind` allow; none if the line is not known.
    fn least_other(&self, kind: Kind) -> (Option<Rate>, Option<Kind>) {
        if self.line.is_none() {
            return (None, None);
        }
        let law = self.loss_law().map(|law| (law, Kind::RandomLoss));
        let line = self.line.map(|line| (line, Kind::LinkRate));
        let others = self.ceilings.iter().copied().filter(|(_, other)| *other != kind);
        others.chain(law).chain(line).min_by_key(|(rate, _)| *rate).unzip()
    }

    /// Returns the rate that the loss leaves to the first run's congestion control.
    fn loss_law(&self) -> Option<Rate> {
        let first = self.runs.first()?;
        loss_rate(LossResponse::of(&first.congestion)?, first.mss, self.min_rtt, self.loss?)
    }

    /// Whether loss by chance slows `first`: it has about the rate that the loss of the whole direction leaves it, and a run with another
    /// congestion control lost as much and carried far more. A slow run alone has too few losses to tell.
    fn is_slowed_by_loss(&self, first: &Run) -> bool {
        let (Some(law), Some(loss), Some(facts)) = (self.loss_law(), self.loss, &first.facts) else { return false };
        let is_about = (0.3 * law.0 as f64..=3.0 * law.0 as f64).contains(&(first.rate.0 as f64));
        let ignores = |run: &Run| LossResponse::of(&run.congestion) == Some(LossResponse::Ignores);
        let is_faster = |run: &Run| run.connections == 1 && run.rate.0 > 2 * first.rate.0 && run.lost >= 0.3 * loss;
        let has_faster = self.runs.iter().any(|run| ignores(run) && is_faster(run));
        is_about && has_faster && !first.is_of_host() && !facts.has_queue()
    }

    /// Returns the rate of the best of `runs` that were faster than `of`, and what limited it.
    fn of_best<'a>(&self, of: &Run, runs: impl Iterator<Item = &'a Run>) -> (Option<Rate>, Option<Kind>) {
        let Some(best) = runs.filter(|run| run.rate > of.rate).max_by_key(|run| run.rate) else {
            return (None, None);
        };
        let of_best = best.facts.as_ref().map(|facts| self.with_sides(facts.finding()).kind);
        let is_full = self.is_line_reached() && is_near(best.rate, self.best());
        (Some(best.rate), if is_full { Some(Kind::LinkRate) } else { of_best.filter(|kind| *kind != Kind::Unknown) })
    }
}

fn is_near(rate: Rate, best: Rate) -> bool {
    rate.0 as f64 >= NEAR * best.0 as f64
}

/// The surest first.
const RULES: &[Rule] = &[
    Rule {
        kind: Kind::Stalled,
        holds: |way, _| way.has_died,
        evidence: |_, _| "the path carried bytes at first, and then nothing more".into(),
    },
    Rule {
        kind: Kind::MtuBlackHole,
        holds: |way, first| first.rate.0 == 0 && way.smaller.as_ref().is_some_and(|smaller| smaller.rate.0 > 0),
        evidence: |way, first| {
            let smaller = way.smaller.as_ref().map_or(0, |run| run.mss);
            format!(
                "small messages pass, full segments of MSS {} never do, and no ICMP comes; those of MSS {smaller} pass",
                first.mss
            )
        },
    },
    Rule {
        kind: Kind::Fragmentation,
        holds: |way, first| {
            // Only the search tells it from losses that came by chance in the first run.
            way.uncut.is_some()
                && way.smaller.as_ref().is_some_and(|smaller| {
                    let is_faster = smaller.rate.0 as f64 >= WORTH * first.rate.0 as f64;
                    first.rate.0 > 0 && is_faster && smaller.mss < first.mss
                })
        },
        evidence: |way, first| {
            format!(
                "with MSS {} {:.3} % is lost; MSS {} is the largest whose packets no box cuts into fragments",
                first.mss,
                first.lost * 100.0,
                way.uncut.unwrap_or_default()
            )
        },
    },
    Rule {
        kind: Kind::Reordering,
        holds: |way, first| {
            let is_overtaken = way.overtaken >= REORDERED && first.lost < 0.25 * way.overtaken;
            is_overtaken && !is_near(first.rate, way.best()) && !first.is_of_host()
        },
        evidence: |way, _| {
            let overtaken = way.overtaken * 100.0;
            format!("others overtake {overtaken:.1} % of the packets: the sender takes those for lost, and slows down")
        },
    },
    Rule {
        kind: Kind::Cap,
        holds: |way, first| way.limit.is_some_and(|limit| is_near(first.rate, limit)),
        evidence: |way, _| {
            format!("the measurement sends {:.1} Mbit/s at most", way.limit.map_or(0.0, |limit| limit.0 as f64 / 1e6))
        },
    },
    Rule {
        kind: Kind::Cpu,
        holds: |_, first| first.cpu >= BUSY || first.throttled >= THROTTLED,
        evidence: |way, first| {
            let end = if way.is_from_here == first.is_sender_busier { "this host" } else { "the far host" };
            match first.throttled >= THROTTLED {
                true => format!("a CPU quota held back {end} for {:.0} % of the time", first.throttled * 100.0),
                false => format!("a thread of {end} computed for {:.0} % of the time", first.cpu * 100.0),
            }
        },
    },
    Rule {
        kind: Kind::CongestedQueue,
        holds: |way, first| {
            let is_shared = !is_near(first.rate, way.best()) && !first.is_of_host();
            is_shared
                && way.idle_queue >= LEAST_QUEUE
                && way.idle_queue.as_secs_f64() >= QUEUED * way.min_rtt.as_secs_f64()
        },
        evidence: |way, _| {
            format!(
                "before the first run, a small message waited {:.1} ms on this way: others fill a queue",
                way.idle_queue.as_secs_f64() * 1e3
            )
        },
    },
    Rule {
        kind: Kind::Policer,
        holds: |way, first| {
            let fills = first.rate.0 as f64 >= PART * way.best().0 as f64;
            way.is_policed && !first.is_of_host() && fills
                || way.runs.iter().any(|run| run.is(&[Kind::Policer]) && is_near(run.rate, first.rate))
        },
        evidence: |way, first| {
            let most = way.runs.iter().map(|run| run.lost).fold(0.0, f64::max);
            let best = way.best().0.max(first.rate.0) as f64 / 1e6;
            match way.is_policed {
                true => format!(
                    "a burst passes at once, and then only {best:.1} Mbit/s: the rest is lost, and does not wait"
                ),
                false => format!(
                    "up to {:.1} % is lost without a queue, and no run carries much more than {best:.1} Mbit/s",
                    most * 100.0
                ),
            }
        },
    },
    Rule {
        kind: Kind::RandomLoss,
        holds: Way::is_slowed_by_loss,
        evidence: |way, first| {
            format!(
                "{:.2} % is lost by chance; at {:.1} ms that leaves {} about {:.1} Mbit/s, and BBR, which lost as much, {:.1}",
                way.loss.unwrap_or_default() * 100.0,
                way.min_rtt.as_secs_f64() * 1e3,
                first.congestion.to_uppercase(),
                way.loss_law().map_or(0.0, |law| law.0 as f64 / 1e6),
                way.of_best(first, way.all().filter(|run| run.connections == 1))
                    .0
                    .map_or(0.0, |best| best.0 as f64 / 1e6)
            )
        },
    },
    Rule {
        kind: Kind::LinkRate,
        holds: |way, first| first.rate.0 > 0 && is_near(first.rate, way.best()) && way.is_line_reached(),
        evidence: |way, first| {
            format!(
                "one connection carries {:.1} Mbit/s, and none of {} runs more than {:.1}",
                first.rate.0 as f64 / 1e6,
                way.all().count(),
                way.best().0 as f64 / 1e6
            )
        },
    },
];

/// Part of a policer's rate at which a sender loses nothing.
pub const BELOW_POLICER: f64 = 0.95;
/// Part of the best rate from which on a rate is about the same.
const NEAR: f64 = 0.9;
/// Part of a policer's rate from which on it limits a connection: its losses keep one with CUBIC or Reno far below.
const PART: f64 = 0.25;
/// Gain from which on smaller segments are worth it.
const WORTH: f64 = 1.5;
/// Share of overtaken datagrams from which on a path reorders.
pub const REORDERED: f64 = 0.005;
/// Part of the round trip from which on a queue of others is one.
const QUEUED: f64 = 0.1;

#[cfg(test)]
mod tests {
    use super::super::diagnosis::Sink;
    use super::super::limit::Limit;
    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const MBIT: u64 = 1_000_000;

    /// Returns the facts of a run at `mbit` over 63 ms whose looks are at `limit`.
    fn facts(mbit: u64, limit: Limit, change: impl FnOnce(&mut Sink)) -> Facts {
        let rate = (mbit * MBIT) as f64;
        let mut limits = [0.0; Limit::ALL.len()];
        limits[limit as usize] = 1.0;
        let acked = (rate / 8.0 * 3.0) as u64;
        let mut sink = Sink {
            rtt: 64 * MS,
            min_rtt: 63 * MS,
            limits,
            busy: 1.0,
            least_window: 64 << 20,
            window: 64 << 20,
            mean_window: 64 << 20,
            acked,
            acked_lately: 3 * acked,
            slowest: rate,
            fastest: rate,
            delivery: rate,
            answers: 3000,
            mss: 1448,
            response: Some(LossResponse::Cubic),
            ..Sink::default()
        };
        change(&mut sink);
        Facts { elapsed: 3000 * MS, carried: acked, sink, ..Facts::default() }
    }

    fn run(mbit: u64, connections: u32, facts: Option<Facts>) -> Run {
        Run { congestion: "cubic".into(), connections, rate: Rate(mbit * MBIT), mss: 1448, facts, ..Run::default() }
    }

    fn way(runs: Vec<Run>) -> Way {
        Way { is_from_here: true, min_rtt: 63 * MS, runs, ..Way::default() }
    }

    fn first(way: &Way) -> (Kind, Option<Rate>, Option<Kind>) {
        let finding = way.findings().swap_remove(0);
        assert!(!finding.evidence.contains("NaN"), "{}", finding.evidence);
        (finding.kind, finding.what_if, finding.then)
    }

    fn windowed(mbit: u64) -> Facts {
        facts(mbit, Limit::ReceiveWindow, |sink| {
            let window = mbit * MBIT / 8 * 64 / 1000;
            (sink.window, sink.mean_window, sink.limited_by_peer) = (window, window, 0.95);
        })
    }

    fn queued(mbit: u64) -> Facts {
        facts(mbit, Limit::CongestionWindow, |sink| {
            (sink.rtt, sink.constant_windows) = (90 * MS, 1.8);
        })
    }

    #[test]
    fn the_rate_without_the_limit_is_that_of_the_run_without_it() {
        let window = way(vec![run(8, 1, Some(windowed(8))), run(64, 8, Some(windowed(8)))]);
        assert!(!window.is_line_reached(), "eight connections carry eight times as much");
        assert_eq!(first(&window), (Kind::ReceiverWindow, None, None));
        let with_line = Way { line: Some(Rate(940 * MBIT)), ..window };
        assert_eq!(first(&with_line), (Kind::ReceiverWindow, Some(Rate(940 * MBIT)), Some(Kind::LinkRate)));
        let ceilings = vec![(Rate(8 * MBIT), Kind::ReceiverWindow), (Rate(470 * MBIT), Kind::OwnSendBuffer)];
        let with_buffer = Way { ceilings, ..with_line };
        assert_eq!(first(&with_buffer), (Kind::ReceiverWindow, Some(Rate(470 * MBIT)), Some(Kind::OwnSendBuffer)));
        let lossy = facts(5, Limit::CongestionWindow, |sink| (sink.lost_lately, sink.retransmitted) = (7_000, 3_000));
        let bbr = facts(940, Limit::CongestionWindow, |sink| sink.response = Some(LossResponse::Ignores));
        let bbr = Run { congestion: "bbr".into(), ..run(940, 1, Some(bbr)) };
        let loss = way(vec![run(5, 1, Some(lossy)), bbr.clone(), run(40, 8, Some(lossy))]);
        assert_eq!(first(&loss), (Kind::RandomLoss, Some(Rate(940 * MBIT)), Some(Kind::LinkRate)));
        // Too few losses in the first run for a finding of its own.
        let mut few =
            way(vec![run(14, 1, Some(facts(14, Limit::CongestionWindow, |_| ()))), Run { lost: 0.001, ..bbr.clone() }]);
        assert_eq!(first(&few).0, Kind::Unknown);
        few.loss = Some(0.001);
        assert_eq!(first(&few), (Kind::RandomLoss, Some(Rate(940 * MBIT)), Some(Kind::LinkRate)));
        few.runs[1].lost = 0.0;
        assert_eq!(first(&few).0, Kind::Unknown, "BBR was lucky, or the loss is of the control itself");
        // A host with BBR reaches the line, and one with CUBIC would not.
        let other = way(vec![bbr, run(5, 1, Some(lossy))]);
        let kinds: Vec<Kind> = other.findings().iter().map(|finding| finding.kind).collect();
        assert_eq!(kinds, [Kind::LinkRate, Kind::RandomLoss]);
    }

    #[test]
    fn a_line_is_reached_where_more_connections_carry_no_more() {
        assert_eq!(first(&way(vec![run(190, 1, Some(queued(190))), run(192, 8, None)])).0, Kind::LinkRate);
        // The window is just as large as the line.
        let both = way(vec![run(8, 1, Some(windowed(8))), run(8, 8, Some(queued(1)))]);
        assert_eq!(first(&both).0, Kind::LinkRate);
        assert!(both.is_line_reached());
        assert_eq!(first(&way(vec![run(190, 1, None)])), (Kind::Unknown, None, None));
        assert_eq!(way(Vec::new()).findings(), []);
    }

    #[test]
    fn limits_of_the_whole_direction_come_first() {
        let full = || way(vec![run(190, 1, Some(queued(190))), run(192, 8, None)]);
        let with = |change: fn(&mut Way)| {
            let mut way = full();
            change(&mut way);
            first(&way).0
        };
        assert_eq!(with(|way| way.has_died = true), Kind::Stalled);
        assert_eq!(with(|way| (way.has_died, way.runs) = (true, Vec::new())), Kind::Stalled);
        assert_eq!(with(|way| way.runs[0].cpu = 0.97), Kind::Cpu);
        assert_eq!(with(|way| way.limit = Some(Rate(200 * MBIT))), Kind::Cap);
        assert_eq!(with(|way| way.limit = Some(Rate(400 * MBIT))), Kind::LinkRate);
        assert!(!Way { limit: Some(Rate(200 * MBIT)), ..full() }.is_line_reached());
        assert_eq!(with(|way| way.runs[0].throttled = 0.3), Kind::Cpu);
        let reordered = |way: &mut Way| {
            (way.runs[0], way.overtaken) = (run(40, 1, None), 0.05);
        };
        assert_eq!(with(reordered), Kind::Reordering);
        assert_eq!(with(|way| way.overtaken = 0.05), Kind::LinkRate, "it costs nothing");
        let shared = |way: &mut Way| (way.idle_queue, way.line) = (17 * MS, Some(Rate(300 * MBIT)));
        assert_eq!(with(shared), Kind::CongestedQueue);
        assert_eq!(with(|way| way.idle_queue = 17 * MS), Kind::LinkRate, "it gets the whole line");
        assert_eq!(with(|way| way.idle_queue = MS), Kind::LinkRate);
        let hole = |way: &mut Way| {
            (way.runs[0].rate, way.runs[0].facts) = (Rate(0), None);
            way.smaller = Some(Run { mss: 1348, ..run(150, 1, None) });
        };
        assert_eq!(with(hole), Kind::MtuBlackHole);
        let cut = |way: &mut Way| {
            way.runs = vec![run(45, 1, None)];
            way.smaller = Some(Run { mss: 1254, ..run(450, 1, None) });
            way.uncut = Some(1254);
        };
        assert_eq!(with(cut), Kind::Fragmentation);
        let unsearched = |way: &mut Way| {
            way.runs = vec![run(45, 1, None)];
            way.smaller = Some(Run { mss: 1000, ..run(450, 1, None) });
        };
        assert_eq!(with(unsearched), Kind::Unknown);
        let policed = facts(95, Limit::CongestionWindow, |sink| {
            (sink.response, sink.lost_lately) = (Some(LossResponse::Ignores), sink.acked_lately / 10);
            (sink.retransmitted, sink.loss_dispersion) = (sink.acked / 10, 500.0);
            sink.best_delivery = 1.3 * sink.fastest;
        });
        let policer = way(vec![run(80, 1, None), Run { congestion: "bbr".into(), ..run(95, 1, Some(policed)) }]);
        assert_eq!(first(&policer).0, Kind::Policer);
        let by_train =
            |rate, facts| Way { is_policed: true, line: Some(Rate(96 * MBIT)), ..way(vec![run(rate, 1, facts)]) };
        assert_eq!(first(&by_train(46, None)).0, Kind::Policer);
        assert_eq!(first(&by_train(46, Some(windowed(46)))).0, Kind::ReceiverWindow, "below the policer's rate");
        assert_eq!(first(&by_train(2, None)).0, Kind::Unknown);
    }

    #[test]
    fn the_buffer_of_a_peer_that_sends_is_its_own() {
        let buffer = facts(32, Limit::SendBuffer, |_| ());
        let up = way(vec![run(32, 1, Some(buffer)), run(256, 8, Some(buffer))]);
        assert_eq!(first(&up).0, Kind::OwnSendBuffer);
        assert_eq!(first(&Way { is_from_here: false, ..up }).0, Kind::PeerSendBuffer);
    }
}
