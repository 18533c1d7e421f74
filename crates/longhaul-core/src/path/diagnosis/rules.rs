//! The decision: one row for each finding. The first row that holds is the limit.

use super::facts::{Facts, POLICED, Source};
use super::finding::{Finding, Side};
use super::kind::Kind;
use crate::path::laws::{LossResponse, OPENSSH_WINDOW, loss_rate, window_rate};
use crate::path::limit::Limit;
use crate::path::sample::{WAN_RTT, is_answered_late};
use longhaul_units::{Bytes, Rate};
use std::time::Duration;

/// One finding.
struct Rule {
    kind: Kind,
    leg: Option<Side>,
    /// Whether it limits the direction.
    holds: fn(&Facts) -> bool,
    /// The rate that this limit leaves, in bit/s; `None` if the facts do not tell.
    ceiling: fn(&Facts) -> Option<f64>,
    evidence: fn(&Facts) -> String,
    advice: &'static str,
}

impl Facts {
    /// Returns what limits the direction.
    pub fn finding(&self) -> Finding {
        let Some(at) = RULES.iter().position(|rule| (rule.holds)(self)) else {
            return Finding::unknown(format!("no rule fits {}", mbit(self.rate())));
        };
        let rule = &RULES[at];
        let others = RULES.iter().enumerate().filter(|(other, rule)| *other != at && rule.kind != RULES[at].kind);
        let ceilings = others.filter_map(|(_, other)| Some(((other.ceiling)(self)?, other.kind)));
        // A limit below the present rate is none.
        let next = ceilings.filter(|(rate, _)| *rate >= self.rate()).min_by(|a, b| a.0.total_cmp(&b.0));
        // What a path that reorders would carry was not seen.
        let has_no_next = [Kind::LinkRate, Kind::Stalled, Kind::MtuBlackHole, Kind::CongestedQueue, Kind::Reordering]
            .contains(&rule.kind);
        let (what_if, then) = next.filter(|_| !has_no_next).map(|(rate, kind)| (Rate(rate as u64), kind)).unzip();
        Finding { kind: rule.kind, leg: rule.leg, evidence: (rule.evidence)(self), what_if, then, advice: rule.advice }
    }

    fn waits(&self) -> bool {
        self.sink.waits() >= MOSTLY
    }

    /// Whether the peer acknowledges nothing.
    fn is_dead(&self) -> bool {
        self.sink.acked == 0 && self.sink.timeouts >= 1 && self.waits() && self.sink.window > 0
    }

    /// Whether the source brings less than the sink can send. A relay that is behind has no time to read.
    fn starves(&self) -> bool {
        self.sink.waits() <= SELDOM && self.source.behind < SELDOM
    }

    /// Whether the congestion window, or its pacing, keeps the bytes back.
    fn is_of_path(&self) -> bool {
        self.waits() && self.sink.share(Limit::CongestionWindow) >= MOSTLY && self.sink.limited_by_peer < LIMITED
    }

    /// Whether the peer holds back its acknowledgements, because its reader is slow. That looks like a queue.
    fn is_late(&self) -> bool {
        is_answered_late(self.sink.answers, self.sink.acked, self.sink.mss, self.elapsed)
    }

    /// Whether the source sends as soon as our acknowledgements come. A program that writes by a timer keeps them waiting.
    fn is_answered_at_once(&self) -> bool {
        let Source { rtt, receive_rtt, .. } = self.source;
        (rtt * 9 / 10..=rtt * 23 / 20).contains(&receive_rtt)
    }

    /// Whether the source's program gets less than a byte in two round trips from the other side, so that it waits for none. Otherwise it may
    /// have a window of its own, as SSH and SMB have.
    fn is_one_way(&self) -> bool {
        let round_trips = self.elapsed.as_secs_f64() / self.source.rtt.as_secs_f64().max(1e-6);
        self.source.answered as f64 <= round_trips / 2.0
    }

    pub(in crate::path) fn has_queue(&self) -> bool {
        !self.is_late() && self.sink.queue() * 10 >= self.sink.min_rtt && self.sink.queue() >= LEAST_QUEUE
    }

    /// Whether a queue stood when the flow began: it is of other traffic.
    fn had_queue(&self) -> bool {
        let before = self.sink.first_min_rtt.saturating_sub(self.sink.min_rtt);
        before * 10 >= self.sink.min_rtt && before >= LEAST_QUEUE
    }

    /// Whether the rate of all flows to the sink's host has been constant: they have the line for themselves, and a queue is theirs. Beside
    /// CUBIC, BBR may have a constant share, and a longer queue than it makes alone.
    fn is_constant(&self) -> bool {
        let is_own = self.has_siblings() || !self.paces() || self.is_short();
        self.sink.constant_windows >= CONSTANT_WINDOWS && is_own
    }

    /// Whether other flows of this process go to the same host.
    fn has_siblings(&self) -> bool {
        self.sink.line_rate >= 1.25 * self.sink.fastest
    }

    /// Whether the queue is one that BBR makes alone.
    fn is_short(&self) -> bool {
        self.sink.queue() * 3 <= self.sink.min_rtt
    }

    /// Whether the congestion control sends at the rate that it has seen delivered, as BBR does.
    fn paces(&self) -> bool {
        self.sink.response == Some(LossResponse::Ignores)
    }

    /// Whether others have filled the queue: one stood before the flow began. Where the rate has risen since then, they may have ended, but
    /// BBR makes no long queue alone.
    fn is_of_others(&self) -> bool {
        let has_risen = self.sink.fastest > RISEN * self.sink.first_fastest;
        self.had_queue() && (!has_risen || (self.paces() && !self.is_short()))
    }

    /// Whether the peer's window is full, and always has about the same size. That of a reader which is slow varies.
    fn fills_the_window(&self) -> bool {
        self.waits()
            && self.sink.limited_by_peer >= 0.5
            && self.sink.closed == 0
            && self.sink.mean_window as f64 >= CONSTANT * self.sink.window as f64
    }

    /// Whether no more than the first small segments were ever acknowledged, and full ones are sent again and again.
    fn is_stuck_at_full_segments(&self) -> bool {
        let mss = u64::from(self.sink.mss);
        self.sink.timeouts >= 2 && mss > LEAST_MSS && self.sink.acked_in_all < SMALL_SEGMENTS * mss
    }

    /// Whether bytes wait for the relay while the sink could send more. A relay that is held back fills the send buffer at once and then
    /// lets it run dry, so most looks may find it full.
    fn is_behind(&self) -> bool {
        self.source.behind >= MOSTLY && (!self.waits() || self.sink.busy <= 1.0 - SELDOM)
    }

    /// Whether the congestion control sends at the rate of the line, and keeps the queue short. Where much is lost without a queue, it may be
    /// a policer: one that passes bursts of 50 kB looks like a line with a queue of a few packets.
    fn follows_the_line(&self) -> bool {
        self.paces() && !self.is_late() && self.is_short() && self.sink.loss() < POLICED
    }

    /// Whether the rate was about the same in each third of the time.
    fn is_steady(&self) -> bool {
        self.sink.slowest > 0.0 && self.sink.slowest >= STEADY * self.sink.fastest
    }

    /// Whether segments are lost one by one. A policer, or a queue of a few packets, loses several at once.
    fn loses_singly(&self) -> bool {
        self.sink.loss_dispersion <= TOGETHER
    }

    /// Returns the largest rate of about a second, without those of the start.
    fn best_second(&self) -> f64 {
        if self.sink.later_fastest > 0.0 { self.sink.later_fastest } else { self.sink.fastest }
    }

    /// Whether more was delivered for a moment than for a second. A policer passes a burst; a line never delivers more than it carries.
    fn passes_bursts(&self) -> bool {
        self.sink.best_delivery >= BURST * self.best_second()
    }

    /// Whether most of what was sent again had only been overtaken (DSACK, RFC 2883). The kernel must have seen others overtaken, too: without
    /// that, a path that loses some packets and duplicates others looks the same, and so does a timeout in a long queue.
    fn is_overtaken(&self) -> bool {
        let again = self.sink.retransmitted / u64::from(self.sink.mss.max(1));
        let is_most = |count: u32| u64::from(count) * 2 >= again;
        again >= MANY && is_most(self.sink.duplicates) && is_most(self.sink.reorderings)
    }

    /// Returns the rate of the sink's congestion control with the loss that was seen; `None` if that was mostly no loss.
    fn law(&self) -> Option<f64> {
        if self.is_overtaken() {
            return None;
        }
        let rate = loss_rate(self.sink.response?, self.sink.mss, self.sink.min_rtt, self.sink.loss())?;
        Some(rate.0 as f64)
    }

    /// Returns the bytes that are carried in the round trips of both legs.
    fn carried_under_way(&self) -> f64 {
        self.rate() / 8.0 * (self.source.rtt + self.sink.rtt).as_secs_f64()
    }
}

/// Returns the rate of a window in each round trip, in bit/s.
fn rate_of(window: u64, rtt: Duration) -> f64 {
    window_rate(Bytes(window), rtt).0 as f64
}

fn mbit(bits: f64) -> String {
    format!("{:.1} Mbit/s", bits / 1e6)
}

fn ms(time: Duration) -> String {
    format!("{:.1} ms", time.as_secs_f64() * 1e3)
}

fn percent(share: f64) -> String {
    if share < 0.1 { format!("{:.2} %", share * 100.0) } else { format!("{:.0} %", share * 100.0) }
}

/// All rules, the surest first.
const RULES: &[Rule] = &[
    Rule {
        kind: Kind::MtuBlackHole,
        leg: Some(Side::Sink),
        holds: |facts| facts.is_dead() && facts.is_stuck_at_full_segments(),
        ceiling: |_| None,
        evidence: |facts| {
            format!(
                "the handshake has passed, and {} bytes of payload in all; since then segments of {} bytes are sent again, {} times in a row, and none is acknowledged",
                facts.sink.acked_in_all, facts.sink.mss, facts.sink.timeouts
            )
        },
        advice: "Let the path send ICMP \"fragmentation needed\", or set `mss` on this leg to what fits (longhaul advise).",
    },
    Rule {
        kind: Kind::Stalled,
        leg: Some(Side::Sink),
        holds: |facts| facts.is_dead(),
        ceiling: |_| None,
        evidence: |facts| {
            format!(
                "the peer has acknowledged nothing in the last {:.0} s; {} timeouts in a row",
                facts.elapsed.as_secs_f64(),
                facts.sink.timeouts
            )
        },
        advice: "Look whether the peer of this leg and the path to it are alive.",
    },
    Rule {
        kind: Kind::Cap,
        leg: Some(Side::Sink),
        holds: |facts| facts.waits() && facts.sink.share(Limit::Cap) >= MOSTLY,
        ceiling: |facts| (facts.sink.cap > 0.0).then_some(facts.sink.cap),
        evidence: |facts| format!("the leg sends at the rate of its cap, {}", mbit(facts.sink.cap)),
        advice: "Raise the cap of the flow, its tunnel or the daemon (bandwidth, flow_bandwidth, max-pacing-rate). One that \"auto\" has found \
                 is that of the line.",
    },
    Rule {
        kind: Kind::Cpu,
        leg: None,
        holds: |facts| {
            let is_out = facts.processor.throttled >= THROTTLED || facts.processor.computed >= BUSY;
            is_out && facts.is_behind()
        },
        ceiling: |_| None,
        evidence: |facts| {
            let behind = percent(facts.source.behind);
            match facts.processor.throttled >= THROTTLED {
                true => format!(
                    "a CPU quota held the relay back for {} of the time, and bytes waited for it at {behind} of the looks",
                    percent(facts.processor.throttled)
                ),
                false => format!(
                    "the relay used {:.2} CPUs, and bytes waited for it at {behind} of the looks",
                    facts.processor.computed
                ),
            }
        },
        advice: "Give the relay more CPU, or raise its quota (CPUQuota= of the unit, the container's limit).",
    },
    Rule {
        kind: Kind::Application,
        leg: Some(Side::Sink),
        holds: |facts| {
            // A kernel before 5.4 reports no window.
            let is_closed =
                facts.sink.window < u64::from(facts.sink.mss) && facts.sink.share(Limit::ReceiveWindow) >= MOSTLY;
            // Late acknowledgements are another sign of it, so one look at a small window is enough.
            let closes = facts.sink.closed >= if facts.is_late() { 1 } else { OFTEN };
            facts.waits() && facts.sink.limited_by_peer >= LIMITED && (closes || is_closed)
        },
        ceiling: |_| None,
        evidence: |facts| {
            format!(
                "the receiver's window holds back the sender for {} of the time: it varies between {} and {} bytes",
                percent(facts.sink.limited_by_peer),
                facts.sink.least_window,
                facts.sink.window
            )
        },
        advice: "The program that reads on this leg is slow: look at its host.",
    },
    Rule {
        kind: Kind::ReceiverWindow,
        leg: Some(Side::Sink),
        holds: |facts| {
            let full = rate_of(facts.sink.window, facts.sink.rtt);
            facts.fills_the_window()
                && !facts.is_late()
                // A larger window would make the queue longer, and the rate no higher.
                && !facts.has_queue()
                && (0.5 * full..=1.5 * full).contains(&facts.rate())
                && facts.sink.rtt >= LEAST_RTT
        },
        // An autotuned window that is not full grows when it is needed.
        ceiling: |facts| {
            (facts.sink.limited_by_peer >= LIMITED && facts.sink.min_rtt >= LEAST_RTT)
                .then(|| rate_of(facts.sink.window, facts.sink.min_rtt))
        },
        evidence: |facts| {
            format!(
                "the receiver's window of {} bytes is full for {} of the time: {} bytes / {} = {}",
                facts.sink.window,
                percent(facts.sink.limited_by_peer),
                facts.sink.window,
                ms(facts.sink.rtt),
                mbit(rate_of(facts.sink.window, facts.sink.rtt))
            )
        },
        advice: "Raise the receive buffer of the host on this leg (longhaul advise), or put a relay beside it.",
    },
    Rule {
        kind: Kind::OwnSendBuffer,
        leg: Some(Side::Sink),
        holds: |facts| {
            facts.sink.rtt >= WAN_RTT
                && (facts.sink.share(Limit::SendBuffer) >= MOSTLY || facts.sink.limited_by_buffer >= LIMITED)
        },
        ceiling: |_| None,
        evidence: |facts| {
            format!(
                "every byte of the send buffer is on its way at {} of the looks: {:.0} bytes in each {}",
                percent(facts.sink.share(Limit::SendBuffer).max(facts.sink.limited_by_buffer)),
                facts.rate() / 8.0 * facts.sink.rtt.as_secs_f64(),
                ms(facts.sink.rtt)
            )
        },
        advice: "Raise net.ipv4.tcp_wmem (third value), or take away `sndbuf`.",
    },
    Rule {
        kind: Kind::ApplicationWindow,
        leg: None,
        holds: |facts| {
            let window = OPENSSH_WINDOW.0 as f64;
            facts.is_ssh && facts.starves() && (0.85 * window..=1.1 * window).contains(&facts.carried_under_way())
        },
        ceiling: |facts| facts.is_ssh.then(|| rate_of(OPENSSH_WINDOW.0, facts.source.rtt + facts.sink.rtt)),
        evidence: |facts| {
            format!(
                "the flow begins as SSH, nothing waits to be sent, and {:.0} bytes are carried in the round trip of {}: OpenSSH's window is {} bytes",
                facts.carried_under_way(),
                ms(facts.source.rtt + facts.sink.rtt),
                OPENSSH_WINDOW.0
            )
        },
        advice: "Run several copies at once, each in its own connection.",
    },
    Rule {
        kind: Kind::PeerSendBuffer,
        leg: Some(Side::Source),
        holds: |facts| {
            facts.starves()
                && facts.source.rtt >= WAN_RTT
                && facts.is_steady()
                // After a loss, a congestion window looks the same.
                && facts.source.is_in_order
                && facts.is_answered_at_once()
                && facts.is_one_way()
                // Bursts of one round trip each. Of longer ones, the mean silence is above half of it.
                && (facts.source.rtt / 4..=facts.source.rtt * 11 / 20).contains(&facts.source.silent)
        },
        ceiling: |_| None,
        evidence: |facts| {
            format!(
                "the peer sends {:.0} bytes in each round trip of {}, waits, and goes on {} after our acknowledgement",
                facts.rate() / 8.0 * facts.source.rtt.as_secs_f64(),
                ms(facts.source.rtt),
                ms(facts.source.receive_rtt)
            )
        },
        advice: "Raise the send buffer of the host on this leg (longhaul advise), or put a relay beside it.",
    },
    Rule {
        kind: Kind::Application,
        leg: Some(Side::Source),
        holds: |facts| facts.starves() && !facts.is_ssh && facts.source.rtt < WAN_RTT,
        ceiling: |_| None,
        evidence: |facts| {
            format!(
                "nothing waits at {} of the looks: the peer sends only {}",
                percent(facts.sink.share(Limit::Application)),
                mbit(facts.rate())
            )
        },
        advice: "The program that sends on this leg is slow: look at its host.",
    },
    Rule {
        kind: Kind::Reordering,
        leg: Some(Side::Sink),
        holds: |facts| {
            let is_costly = facts.is_overtaken() && facts.sink.loss_now() >= REORDERED;
            facts.is_of_path() && is_costly && !facts.follows_the_line()
        },
        ceiling: |_| None,
        evidence: |facts| {
            format!("{} segments were sent again for nothing, because others overtook them", facts.sink.duplicates)
        },
        advice: "Look for a path over several lines, or a shaper that reorders.",
    },
    Rule {
        kind: Kind::Policer,
        leg: Some(Side::Sink),
        holds: |facts| {
            // The losses of a start are of a full queue, and CUBIC is slow for some time after them. BBR keeps below a policer's rate for some
            // seconds, and then loses again.
            let is_now = facts.sink.loss_now() >= POLICED && facts.is_steady() && facts.paces();
            let goes_on = facts.sink.loss() >= POLICED && (is_now || facts.sink.lossy_windows >= LOSSY_WINDOWS);
            facts.is_of_path() && !facts.has_queue() && goes_on && facts.passes_bursts() && !facts.loses_singly()
        },
        ceiling: |_| None,
        evidence: |facts| {
            format!(
                "{} is lost without a queue; {} were delivered for a moment, and never more than {} for a second",
                percent(facts.sink.loss()),
                mbit(facts.sink.best_delivery),
                mbit(facts.best_second())
            )
        },
        advice: "Set bandwidth = \"auto\", or a cap a little below this rate.",
    },
    Rule {
        kind: Kind::RandomLoss,
        leg: Some(Side::Sink),
        holds: |facts| {
            let responds = matches!(facts.sink.response, Some(LossResponse::Reno | LossResponse::Cubic));
            let segments = facts.sink.lost_lately / u64::from(facts.sink.mss.max(1));
            let is_near = facts.law().is_some_and(|law| (0.5 * law..=2.0 * law).contains(&facts.rate()));
            let is_going_on = segments >= FEW && facts.sink.retransmitted > 0;
            facts.is_of_path() && responds && is_going_on && facts.loses_singly() && !facts.has_queue() && is_near
        },
        ceiling: |facts| facts.law().filter(|_| facts.loses_singly()),
        evidence: |facts| {
            format!(
                "{} is lost, one by one, without a queue; at {} that leaves {:?} about {}",
                percent(facts.sink.loss()),
                ms(facts.sink.min_rtt),
                facts.sink.response.unwrap_or(LossResponse::Cubic),
                mbit(facts.law().unwrap_or_default())
            )
        },
        advice: "Give the leg BBR (congestion = \"bbr\").",
    },
    Rule {
        kind: Kind::CongestedQueue,
        leg: Some(Side::Sink),
        holds: |facts| {
            let is_full = facts.is_of_path() || facts.fills_the_window();
            facts.has_queue() && is_full && facts.is_of_others() && !facts.has_siblings()
        },
        ceiling: |_| None,
        evidence: |facts| {
            format!(
                "a packet waited {} on the way before this flow had sent much, and waits {} now: others fill a queue",
                ms(facts.sink.first_min_rtt.saturating_sub(facts.sink.min_rtt)),
                ms(facts.sink.queue())
            )
        },
        advice: "Other traffic takes a share of the line. Give it less, or send when it is quiet.",
    },
    Rule {
        kind: Kind::LinkRate,
        leg: Some(Side::Sink),
        holds: |facts| {
            // Alone, a full window has never had more than the line carries. If it had, others have come.
            let is_window = facts.fills_the_window() && facts.sink.fastest >= STEADY * facts.sink.first_fastest;
            let is_full = facts.has_queue() && (facts.is_of_path() && facts.is_constant() || is_window);
            let is_followed = facts.is_of_path() && facts.follows_the_line();
            // A relay that is held back often may keep the line nearly full.
            let is_free = facts.processor.throttled < THROTTLED;
            let is_shared = facts.has_siblings() && facts.is_constant();
            (is_full || is_followed) && is_free && (is_shared || facts.is_steady() && !facts.had_queue())
        },
        // Without a queue, what is delivered says nothing about the line.
        ceiling: |facts| {
            (facts.is_of_path() && facts.has_queue() && facts.sink.delivery > 0.0).then_some(facts.sink.delivery)
        },
        evidence: |facts| {
            let queue = ms(facts.sink.queue());
            match facts.has_queue() {
                true if facts.has_siblings() => format!(
                    "{} arrive, and steadily {} with the relay's other flows to this host, and a packet waits {queue} on the way",
                    mbit(facts.rate()),
                    mbit(facts.sink.line_rate)
                ),
                true => format!("{} arrive, steadily, and a packet waits {queue} on the way", mbit(facts.rate())),
                false => format!("{} arrive, steadily, and BBR sends no more than that", mbit(facts.rate())),
            }
        },
        advice: "",
    },
];

/// Share of the looks that is most of them, and one that is few.
const MOSTLY: f64 = 0.6;
const SELDOM: f64 = 0.2;
/// Share of the time from which on something limits a sender (NDT, RFC 4898 counters).
const LIMITED: f64 = 0.15;
/// Least queue that is one, and least round trip for which a window matters.
pub(in crate::path) const LEAST_QUEUE: Duration = Duration::from_millis(2);
const LEAST_RTT: Duration = Duration::from_millis(1);
/// Rate of the slowest third of a steady time, as a part of the fastest.
const STEADY: f64 = 0.8;
/// Largest variance of the losses between two looks, as a multiple of their mean, of losses one by one. Chance alone exceeds it in one of
/// 40 windows of 12 looks (chi-squared distribution).
const TOGETHER: f64 = 2.0;
/// Number of lossy windows from which on losses are not of the start: two of the last four.
const LOSSY_WINDOWS: f64 = 1.4;
/// Multiple of the best rate of a second that a moment's rate has behind a policer. Behind a line of 100 Mbit/s it was 1.01 to 1.03.
const BURST: f64 = 1.08;
/// Number of windows at a constant rate that are no chance: two of the last four.
const CONSTANT_WINDOWS: f64 = 1.4;
/// Multiple of the first rate from which on a rate has risen.
const RISEN: f64 = 1.5;
/// CPUs from which on a relay is busy, and share of the time from which on a quota counts.
pub(in crate::path) const BUSY: f64 = 0.85;
pub(in crate::path) const THROTTLED: f64 = 0.1;
/// Smallest segment that every path carries (RFC 1122 4.2.2.6), and number of full segments that the small ones of a handshake, such as
/// that of SSH, do not reach. A sender of bulk begins with ten (RFC 6928).
const LEAST_MSS: u64 = 536;
const SMALL_SEGMENTS: u64 = 4;
/// Number of segments from which on a loss rate, and a share of duplicates, is no matter of chance.
const FEW: u64 = 3;
/// Number of looks at a window that has closed from which on its reader is slow.
const OFTEN: u32 = 3;
/// Part of the largest window that the mean one has at least if nobody reads slowly. A host that is busy reads late now and then.
const CONSTANT: f64 = 0.8;
/// Share of the bytes sent again from which on reordering costs something.
const REORDERED: f64 = 0.01;
const MANY: u64 = 10;
