//! Watches a tunnel for flows that come back to it through another relay.
//!
//! ```text
//! a client is a next hop of the tunnel ────────────────────────────────> doubt
//! more than 16 flows of a source, none answered ──> a test: do they return? ──> doubt, a loop, or a proven loop
//! a flow of the source is answered, or a test finds that none returns (of a proven loop, two tests) ──> no doubt
//! a doubt by FIN alone, and the flows of the source have ended ──> no doubt
//! ```
//! A host may be client and next hop at once, and many clients may share one address. So neither is a loop before a test has
//! found one. Until then, dials for the source are [slowed](Watch::slowed_by): a loop makes one flow after another, and so it
//! grows by few flows, while flows of other clients begin side by side and lose 20 ms each, or up to 1 s if a thousand
//! that began since the suspicion live.

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

/// The state of the search for a loop at one tunnel. It follows one source at a time.
#[derive(Clone, Debug, Default)]
pub struct Watch {
    /// The source that somebody tests, and the time until which its dials are slowed.
    tested: Option<(IpAddr, Instant)>,
    /// Others that were suspected meanwhile, at most [`MAX_ANSWERED`], and are slowed until then, too: they may be those of the loop.
    others: Vec<IpAddr>,
    doubt: Option<Doubt>,
    /// The next hop to which the last test connected.
    next_hop: Option<SocketAddr>,
    /// The last sources of which a flow was answered, or did not come back in a test, at most [`MAX_ANSWERED`], and when.
    answered: Vec<(IpAddr, Instant)>,
}

#[derive(Clone, Debug)]
struct Doubt {
    from: IpAddr,
    sign: Sign,
    /// The next hop to which the test connected that showed it.
    next_hop: Option<SocketAddr>,
    since: Instant,
    /// Time of the last connection or test that shows it.
    last: Instant,
    /// Times of the first and of the last test that proved it.
    proven: Option<(Instant, Instant)>,
    /// Whether a test since the last sign of a loop found that nothing comes back.
    is_denied: bool,
    /// Whether a refusal was told.
    is_told: bool,
}

/// Evidence that a tunnel's flows come back to it. Stronger evidence is greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sign {
    /// A client is a next hop of the tunnel.
    NextHop,
    /// Connections to the next hop came back, by their FIN. Their resets did not.
    Returns,
    /// Connections to the next hop came back to this address, which is the tunnel's own: by their FIN, and then by their reset.
    Loop(SocketAddr),
}

/// Result of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tested {
    /// It came to no end. The source is as doubtful as before.
    Unclear,
    /// The connections did not come back.
    Gone,
    /// They came back.
    Back(Sign),
    /// So many came back to this address one after the other that a client can hardly have imitated it.
    Proven(SocketAddr),
}

impl Tested {
    /// Returns the sign that it shows.
    pub fn sign(self) -> Option<Sign> {
        match self {
            Tested::Back(sign) => Some(sign),
            Tested::Proven(own) => Some(Sign::Loop(own)),
            Tested::Gone | Tested::Unclear => None,
        }
    }
}

/// The signs of the connections of one test, in their order.
#[derive(Debug, Default)]
pub struct Series {
    found: Option<Sign>,
    /// Connections in a row that came back.
    returns: u32,
    /// Connections in a row whose reset came back, too.
    resets: u32,
}

impl Series {
    /// Records the sign of the next connection, and returns the result of the test so far. Two resets in a row show a loop. Of FIN alone
    /// it takes five: many clients that half-close look so more often.
    pub fn add(&mut self, sign: Option<Sign>) -> Tested {
        let is_reset = matches!(sign, Some(Sign::Loop(_)));
        self.returns = if sign.is_some() { self.returns + 1 } else { 0 };
        self.resets = if is_reset { self.resets + 1 } else { 0 };
        if self.resets >= 2 {
            self.found = self.found.max(sign);
        } else if self.returns >= PROVING {
            self.found = self.found.max(Some(Sign::Returns));
        }
        match sign {
            Some(Sign::Loop(own)) if self.resets >= PROVING => Tested::Proven(own),
            _ => self.found.map_or(Tested::Unclear, Tested::Back),
        }
    }
}

/// A doubt about a tunnel, for views.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Doubtful {
    /// The client whose flows may be the tunnel's own.
    pub from: IpAddr,
    /// The evidence.
    pub sign: Sign,
    /// The next hop from which flows come back. `None` without a test that shows it.
    pub next_hop: Option<SocketAddr>,
    /// Time since the first sign.
    pub age: Duration,
}

impl Watch {
    /// Records that the client `from` is a next hop of the tunnel, or is in doubt and has come again. Returns whether that is a doubt: not
    /// about a client whose flows are answered.
    pub fn comes_from(&mut self, from: IpAddr, now: Instant) -> bool {
        let is_doubt = !self.is_answered(from, LIFETIME, now);
        if is_doubt {
            self.note(from, Sign::NextHop, now);
        }
        is_doubt
    }

    /// Whether the refusal of a flow of `from` is to be told. Of each doubt only the first one is: a loop goes on until somebody mends it.
    pub fn tells_refusal(&mut self, from: IpAddr) -> bool {
        !self.doubt_about(from).is_some_and(|doubt| std::mem::replace(&mut doubt.is_told, true))
    }

    /// Records that more than [`MAX_LOOPED`] flows of `from` are not answered, and none that lives is. Returns whether somebody must test
    /// now whether they come back, and then tell the [result](Watch::tested).
    pub fn suspect(&mut self, from: IpAddr, now: Instant) -> bool {
        if !self.may_suspect(from, now) {
            return false;
        }
        let is_first = self.tested.is_none();
        if is_first {
            self.tested = Some((from, now + SLOWED_FOR));
        } else {
            self.others.push(from);
        }
        is_first
    }

    /// Whether [`suspect`](Watch::suspect) would change anything.
    pub fn may_suspect(&self, from: IpAddr, now: Instant) -> bool {
        let is_known = self.is_suspected(from) || self.others.len() >= MAX_ANSWERED;
        !is_known && !self.is_loop(from, now) && !self.is_answered(from, ANSWERING, now)
    }

    fn is_suspected(&self, from: IpAddr) -> bool {
        self.tested.is_some_and(|(tested, _)| tested == from) || self.others.contains(&from)
    }

    /// Returns the time by which a dial for the client `from` is to be delayed: during a test, and once it came back. In a loop it is so
    /// long that a test of the other relay ends before the flows that it makes are refused. Each connection of a client goes round by
    /// itself, so it is longer with more than 256 of the tunnel's `flows` since the suspicion: they would soon fill the tunnel.
    pub fn slowed_by(&self, from: IpAddr, flows: u64, now: Instant) -> Option<Duration> {
        let is_tested = self.tested.is_some_and(|(_, until)| now < until)
            && self.is_suspected(from)
            && !self.is_answered(from, ANSWERING, now);
        let by = match self.sign(from, now) {
            Some(Sign::Loop(_)) => LOOP_SLOWED_BY,
            // Many clients that half-close look like that, for as long as they come.
            Some(Sign::Returns) => return Some(SLOWED_BY),
            _ if is_tested => SLOWED_BY,
            _ => return None,
        };
        Some(longer(by, flows))
    }

    /// Returns the sources that are suspected: the tested one, and others.
    pub fn suspects(&self) -> Vec<IpAddr> {
        self.tested.iter().map(|(tested, _)| *tested).chain(self.others.iter().copied()).collect()
    }

    /// Records that a test connects to `next_hop`.
    pub fn dials(&mut self, next_hop: SocketAddr) {
        self.next_hop = Some(next_hop);
    }

    /// Records the result of a test of `from`. No other test begins until [`rest`](Watch::rest). Whether dials are slowed is now up to the
    /// result.
    pub fn tested(&mut self, from: IpAddr, result: Tested, now: Instant) {
        let until =
            self.tested.filter(|(tested, _)| *tested == from && result == Tested::Unclear).map(|(_, until)| until);
        self.tested = Some((from, until.unwrap_or(now)));
        match result {
            Tested::Unclear => self.keep_proof(from, now),
            Tested::Gone => self.deny(from, now),
            Tested::Back(sign) => {
                self.note(from, sign, now);
                if matches!(sign, Sign::Loop(_)) {
                    self.keep_proof(from, now);
                }
            }
            Tested::Proven(own) => {
                self.note(from, Sign::Loop(own), now);
                let first = self.proof(from, now).map_or(now, |(first, _)| first);
                self.prove(from, first, now);
            }
        }
    }

    /// Ends the doubt about `from`. Of a proven loop, two tests must say so: in a busy one, a connection may wait in a queue for longer
    /// than a test.
    fn deny(&mut self, from: IpAddr, now: Instant) {
        let is_proven = self.proof(from, now).is_some();
        let doubt = self.doubt_about(from).filter(|_| is_proven);
        if doubt.is_none_or(|doubt| std::mem::replace(&mut doubt.is_denied, true)) {
            self.answered(from, now);
        }
    }

    /// Lets a proof that holds hold longer: the limit refuses connections of tests, too, so that few are proofs again.
    fn keep_proof(&mut self, from: IpAddr, now: Instant) {
        if let Some((first, _)) = self.proof(from, now) {
            self.prove(from, first, now);
        }
    }

    fn prove(&mut self, from: IpAddr, first: Instant, last: Instant) {
        self.doubt_about(from).into_iter().for_each(|doubt| doubt.proven = Some((first, last)));
    }

    /// Returns the times of the first and of the last test that proved a loop or kept its proof. `None` if that is a minute ago.
    fn proof(&self, from: IpAddr, now: Instant) -> Option<(Instant, Instant)> {
        let proven = self.current(now).filter(|doubt| doubt.from == from)?.proven;
        proven.filter(|(_, last)| now.saturating_duration_since(*last) < PROOF_LASTS)
    }

    fn doubt_about(&mut self, from: IpAddr) -> Option<&mut Doubt> {
        self.doubt.as_mut().filter(|doubt| doubt.from == from)
    }

    /// Ends the tests of `from`, whose flows are answered or have ended: the next suspicion begins others. Clients that half-close may
    /// have looked like the FIN of a test, so a doubt by FIN alone ends, too. A loop stays: its flows end by their refusals.
    pub fn rest(&mut self, from: IpAddr) {
        self.tested = None;
        self.others.clear();
        self.doubt = self.doubt.take().filter(|doubt| doubt.from != from || doubt.sign != Sign::Returns);
    }

    /// Whether there is a doubt that is too old to count. Until it is forgotten, each flow asks about it.
    fn is_old(&self, now: Instant) -> bool {
        self.doubt.is_some() && self.current(now).is_none()
    }

    /// Forgets a doubt that is too old to count.
    pub fn forget_old(&mut self, now: Instant) {
        if self.is_old(now) {
            self.doubt = None;
        }
    }

    /// Whether there is a source to test, or a doubt. Otherwise the other questions have the answer "no" for every source.
    pub fn has_suspect(&self) -> bool {
        self.tested.is_some() || self.doubt.is_some()
    }

    /// Records that a flow of `from` has had bytes from the next hop, or that a test found that none comes back. Nobody answers in a loop,
    /// so this ends the doubt about `from`.
    pub fn answered(&mut self, from: IpAddr, now: Instant) {
        self.others.retain(|other| *other != from);
        self.doubt = self.doubt.take().filter(|doubt| doubt.from != from);
        // Each answered flow comes here, mostly of a source that is known.
        if let Some((_, at)) = self.answered.iter_mut().find(|(answered, _)| *answered == from) {
            *at = now;
            return;
        }
        if self.answered.len() == MAX_ANSWERED {
            let oldest = (0..MAX_ANSWERED).min_by_key(|index| self.answered[*index].1).unwrap_or_default();
            self.answered.swap_remove(oldest);
        }
        self.answered.push((from, now));
    }

    /// Whether it is proven that flows of `from` go round in a loop.
    pub fn is_proven(&self, from: IpAddr, now: Instant) -> bool {
        self.proof(from, now).is_some()
    }

    /// Whether only [`MAX_LOOPED`] flows of `from` at once are accepted: it is proven that they go round in a loop, and the other relay
    /// has had time to find that out, too. Later, most of its tests would be refused here. Less than a proof limits nobody: many clients
    /// may be behind one relay, and one of them can imitate a loop on purpose.
    pub fn is_limited(&self, from: IpAddr, now: Instant) -> bool {
        self.proof(from, now).is_some_and(|(first, _)| now.saturating_duration_since(first) >= GRACE)
    }

    /// Returns the sign that flows of `from` are the tunnel's own.
    pub fn sign(&self, from: IpAddr, now: Instant) -> Option<Sign> {
        self.current(now).filter(|doubt| doubt.from == from).map(|doubt| doubt.sign)
    }

    /// Returns the doubt about the tunnel, if there is one at `now`.
    pub fn view(&self, now: Instant) -> Option<Doubtful> {
        let Doubt { from, sign, next_hop, since, .. } = *self.current(now)?;
        Some(Doubtful { from, sign, next_hop, age: now.saturating_duration_since(since) })
    }

    /// Whether flows of `from` go round in a loop for certain.
    pub fn is_loop(&self, from: IpAddr, now: Instant) -> bool {
        matches!(self.sign(from, now), Some(Sign::Loop(_)))
    }

    /// Whether a flow of `from` was answered in this last `time`.
    fn is_answered(&self, from: IpAddr, time: Duration, now: Instant) -> bool {
        let is_recent = |at: Instant| now.saturating_duration_since(at) < time;
        self.answered.iter().any(|(answered, at)| *answered == from && is_recent(*at))
    }

    fn note(&mut self, from: IpAddr, sign: Sign, now: Instant) {
        self.answered.retain(|(answered, _)| *answered != from);
        let next_hop = self.next_hop.filter(|_| sign > Sign::NextHop);
        match self.current(now).cloned() {
            Some(doubt) if doubt.from == from => {
                let is_denied = doubt.is_denied && !matches!(sign, Sign::Loop(_));
                let (sign, next_hop) = (doubt.sign.max(sign), next_hop.or(doubt.next_hop));
                self.doubt = Some(Doubt { sign, next_hop, last: now, is_denied, ..doubt });
            }
            // Another source does not hide a loop.
            Some(doubt) if doubt.sign > sign => {}
            _ => {
                let (proven, is_denied, is_told) = (None, false, false);
                self.doubt = Some(Doubt { from, sign, next_hop, since: now, last: now, proven, is_denied, is_told })
            }
        }
    }

    fn current(&self, now: Instant) -> Option<&Doubt> {
        self.doubt.as_ref().filter(|doubt| now.saturating_duration_since(doubt.last) < LIFETIME)
    }
}

/// Returns the longest time by which a relay delays a dial that suspects a loop, or knows it, and has begun so many `flows` since.
pub fn delay(is_known: bool, flows: u64) -> Duration {
    longer(if is_known { LOOP_SLOWED_BY } else { SLOWED_BY }, flows)
}

fn longer(by: Duration, flows: u64) -> Duration {
    let more = flows.saturating_sub(SLOWED_MORE) / MAX_LOOPED as u64;
    by.saturating_mul(u32::try_from(more).unwrap_or(u32::MAX)).clamp(by, LONGEST_SLOWED_BY)
}

/// Maximum number of flows of a loop at once. Each connection of a client goes round about as often.
pub const MAX_LOOPED: usize = 16;

/// Time for which an answered flow shows that its source is served now: many new connections a second are no suspicion.
const ANSWERING: Duration = Duration::from_secs(2);

/// Maximum number of sources in a list: those that were answered, and those that are suspected beside the tested one.
const MAX_ANSWERED: usize = 64;

/// Time from the first proof of a loop to the limit of its flows. Dials are slowed meanwhile.
const GRACE: Duration = Duration::from_secs(5);

/// Number of connections in a row that prove a loop by their resets, or make a doubt by their FIN. A client that opens and resets many
/// connections hits the time of a reset once in [`RESET_CHANCES`] connections, and so five in a row once in 32,768.
const PROVING: u32 = 5;

/// Number of equal spans of time in which a reset may be sent. It must come back within one of them.
pub const RESET_CHANCES: u32 = 8;

/// Time for which a proof limits the flows of a source, unless the next test speaks for it, too. That comes seconds later.
const PROOF_LASTS: Duration = Duration::from_secs(60);

/// Time by which a dial is delayed while its source is tested.
const SLOWED_BY: Duration = Duration::from_millis(20);

/// Time by which a dial is delayed in a loop: [`MAX_LOOPED`] flows take more than 1.5 s.
const LOOP_SLOWED_BY: Duration = Duration::from_millis(100);

/// Number of flows of a tunnel above which each [`MAX_LOOPED`] more delay a dial once more.
const SLOWED_MORE: u64 = 256;

/// Maximum time by which a dial is delayed.
const LONGEST_SLOWED_BY: Duration = Duration::from_secs(1);

/// Maximum time during which dials are slowed. Most tests take less.
const SLOWED_FOR: Duration = Duration::from_secs(20);

/// Time for which a sign counts after the last connection or test that shows it. A loop ends by its refusals within a moment, and the next
/// client begins it again.
const LIFETIME: Duration = Duration::from_secs(600);

#[cfg(test)]
mod tests {
    use super::*;

    const FROM: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 20, 20, 20));
    const OTHER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 20, 20, 21));
    const THIRD: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 20, 20, 22));
    const SECOND: Duration = Duration::from_secs(1);

    fn back() -> Sign {
        Sign::Loop("10.10.10.20:6000".parse().unwrap())
    }

    #[test]
    fn a_next_hop_that_connects_is_doubtful_until_it_is_answered_or_long_gone() {
        let (mut watch, start) = (Watch::default(), Instant::now());
        assert!(watch.view(start).is_none() && !watch.has_suspect());
        watch.comes_from(FROM, start);
        watch.comes_from(FROM, start + SECOND);
        assert!(watch.has_suspect());
        let doubt = |age| Some(Doubtful { from: FROM, sign: Sign::NextHop, next_hop: None, age });
        assert_eq!(watch.view(start + SECOND), doubt(SECOND));
        assert_eq!(watch.view(start + LIFETIME), doubt(LIFETIME), "since the last one");
        assert_eq!(watch.view(start + LIFETIME + SECOND), None);
        watch.answered(OTHER, start);
        assert_eq!(watch.view(start + SECOND), doubt(SECOND));
        watch.answered(FROM, start);
        watch.answered(FROM, start + SECOND);
        watch.comes_from(FROM, start + LIFETIME);
        watch.comes_from(OTHER, start + SECOND);
        assert_eq!(watch.view(start + LIFETIME), None, "both are clients that are answered");
        let next_hop = "10.20.20.20:6000".parse().unwrap();
        watch.dials(next_hop);
        watch.tested(FROM, Tested::Back(Sign::Returns), start + LIFETIME);
        watch.comes_from(FROM, start + LIFETIME);
        let view = watch.view(start + LIFETIME).unwrap();
        assert_eq!((view.sign, view.next_hop), (Sign::Returns, Some(next_hop)), "until it is none");
        assert!(!watch.is_old(start + 2 * LIFETIME - SECOND) && watch.is_old(start + 2 * LIFETIME));
        watch.forget_old(start + 2 * LIFETIME);
        assert!(watch.doubt.is_none(), "no flow asks about it any more");
    }

    #[test]
    fn a_suspicion_is_tested_once_at_a_time_and_slows_its_source_alone_meanwhile() {
        let (mut watch, start) = (Watch::default(), Instant::now());
        assert_eq!(
            [watch.suspect(FROM, start), watch.suspect(FROM, start), watch.suspect(OTHER, start)],
            [true, false, false]
        );
        assert_eq!(watch.view(start), None, "a suspicion is no doubt");
        let slowed = |watch: &Watch| [FROM, OTHER, THIRD].map(|from| watch.slowed_by(from, 17, start).is_some());
        assert_eq!(slowed(&watch), [true, true, false], "both are suspected");
        assert_eq!(watch.slowed_by(FROM, SLOWED_MORE, start), Some(SLOWED_BY));
        assert_eq!(watch.slowed_by(FROM, SLOWED_MORE + 320, start), Some(20 * SLOWED_BY), "each of many goes round");
        assert_eq!(watch.slowed_by(FROM, u64::MAX, start), Some(LONGEST_SLOWED_BY));
        assert_eq!(watch.slowed_by(FROM, 17, start + SLOWED_FOR), None, "whatever becomes of the test");
        watch.tested(FROM, Tested::Unclear, start);
        assert_eq!(watch.slowed_by(FROM, 17, start), Some(SLOWED_BY), "nobody knows yet");
        watch.tested(FROM, Tested::Gone, start);
        assert!(watch.slowed_by(FROM, 17, start).is_none() && !watch.suspect(FROM, start));
        watch.rest(FROM);
        assert!(watch.suspect(FROM, start + ANSWERING));
    }

    #[test]
    fn a_doubt_by_fin_alone_ends_with_the_flows_that_showed_it() {
        let (mut watch, start) = (Watch::default(), Instant::now());
        let mut after = |sign, source| {
            watch.suspect(FROM, start);
            watch.tested(FROM, Tested::Back(sign), start);
            watch.rest(source);
            watch.sign(FROM, start)
        };
        assert_eq!(after(Sign::Returns, OTHER), Some(Sign::Returns));
        assert_eq!(after(Sign::Returns, FROM), None);
        assert_eq!(after(back(), FROM), Some(back()), "a reset that came back counts for longer");
    }

    #[test]
    fn only_a_reset_that_comes_back_makes_a_loop_and_nothing_less_takes_its_place() {
        let (mut watch, start) = (Watch::default(), Instant::now());
        watch.comes_from(FROM, start);
        watch.tested(FROM, Tested::Back(Sign::Returns), start);
        assert_eq!((watch.sign(FROM, start), watch.sign(OTHER, start)), (Some(Sign::Returns), None));
        assert_eq!(watch.slowed_by(FROM, 1100, start), Some(SLOWED_BY), "of FIN alone");
        watch.tested(FROM, Tested::Back(back()), start);
        watch.rest(FROM);
        watch.comes_from(FROM, start + SECOND);
        watch.comes_from(OTHER, start + SECOND);
        assert_eq!([FROM, FROM, OTHER, OTHER].map(|from| watch.tells_refusal(from)), [true, false, true, true]);
        let view = watch.view(start + SECOND).unwrap();
        assert_eq!((view.from, view.sign, view.age), (FROM, back(), SECOND));
        assert!(watch.is_loop(FROM, start) && !watch.is_loop(OTHER, start));
        assert!(!watch.is_limited(FROM, start), "it is no proof");
        assert_eq!([watch.slowed_by(FROM, 17, start), watch.slowed_by(OTHER, 17, start)], [Some(LOOP_SLOWED_BY), None]);
        assert!(!watch.suspect(FROM, start), "it is known");
        watch.answered(FROM, start);
        assert!(!watch.is_loop(FROM, start), "somebody has mended it");
        watch.tested(FROM, Tested::Back(back()), start);
        watch.tested(FROM, Tested::Unclear, start);
        assert!(watch.is_loop(FROM, start));
        watch.tested(FROM, Tested::Gone, start);
        assert_eq!(watch.view(start), None);
    }

    #[test]
    fn only_a_proof_limits_a_source_and_only_for_a_minute_after_the_last_test_or_until_a_flow_is_answered() {
        let (mut watch, start) = (Watch::default(), Instant::now());
        let Sign::Loop(own) = back() else { unreachable!() };
        watch.tested(FROM, Tested::Proven(own), start);
        assert_eq!(watch.sign(FROM, start), Some(back()));
        let limited = |watch: &Watch, from, after| watch.is_limited(from, start + after);
        assert!(!limited(&watch, FROM, Duration::ZERO), "the other relay needs a moment");
        assert!(limited(&watch, FROM, GRACE) && !limited(&watch, OTHER, GRACE));
        watch.tested(FROM, Tested::Back(Sign::Returns), start + SECOND);
        let almost = PROOF_LASTS - Duration::from_nanos(1);
        assert!(limited(&watch, FROM, almost) && !limited(&watch, FROM, PROOF_LASTS));
        assert!(watch.is_loop(FROM, start + PROOF_LASTS), "views tell it for longer");
        watch.tested(FROM, Tested::Proven(own), start + PROOF_LASTS);
        assert!(limited(&watch, FROM, PROOF_LASTS + GRACE));
        watch.tested(FROM, Tested::Unclear, start + PROOF_LASTS + SECOND);
        watch.tested(FROM, Tested::Back(back()), start + PROOF_LASTS + 2 * SECOND);
        assert!(
            limited(&watch, FROM, 2 * PROOF_LASTS + SECOND),
            "the limit refuses connections of tests, so they keep a proof"
        );
        assert!(!limited(&watch, FROM, 2 * PROOF_LASTS + 2 * SECOND));
        watch.tested(FROM, Tested::Unclear, start + 3 * PROOF_LASTS);
        assert!(!limited(&watch, FROM, 3 * PROOF_LASTS), "what is over does not begin again");
        watch.tested(FROM, Tested::Proven(own), start + 3 * PROOF_LASTS);
        let mut named_after = |result| {
            watch.tested(FROM, result, start + 3 * PROOF_LASTS);
            watch.is_loop(FROM, start + 3 * PROOF_LASTS)
        };
        assert_eq!(
            [Tested::Gone, Tested::Back(back()), Tested::Gone].map(&mut named_after),
            [true; 3],
            "one may be late"
        );
        assert!(!named_after(Tested::Gone), "two in a row");
        watch.tested(FROM, Tested::Proven(own), start + 3 * PROOF_LASTS);
        watch.answered(FROM, start + 3 * PROOF_LASTS);
        assert!(!watch.is_loop(FROM, start + 3 * PROOF_LASTS), "nobody answers in a loop");
    }

    #[test]
    fn two_resets_or_five_fins_in_a_row_are_a_sign_and_five_resets_in_a_row_a_proof() {
        let Sign::Loop(own) = back() else { unreachable!() };
        let after = |signs: &[Option<Sign>]| {
            let mut series = Series::default();
            signs.iter().map(|sign| series.add(*sign)).last().unwrap()
        };
        let (none, fin, reset) = (None, Some(Sign::Returns), Some(back()));
        assert_eq!(after(&[reset, none, reset, none]), Tested::Unclear);
        assert_eq!(after(&[fin; 4]), Tested::Unclear);
        assert_eq!(after(&[none, fin, fin, reset, fin, fin]), Tested::Back(Sign::Returns));
        assert_eq!(after(&[reset, reset, none]), Tested::Back(back()));
        assert_eq!(after(&[reset; 4]), Tested::Back(back()));
        assert_eq!(after(&[reset, reset, reset, reset, fin, reset]), Tested::Back(back()), "one after the other");
        assert_eq!(after(&[fin, reset, reset, reset, reset, reset]), Tested::Proven(own));
    }

    #[test]
    fn a_source_that_is_served_now_is_not_suspected() {
        let start = Instant::now();
        let suspects = |answered: &[IpAddr], after| {
            let mut watch = Watch::default();
            answered.iter().for_each(|from| watch.answered(*from, start));
            watch.suspect(FROM, start + after)
        };
        assert!(!suspects(&[FROM], Duration::from_millis(1999)) && suspects(&[FROM], ANSWERING));
        let others: Vec<IpAddr> = (0..MAX_ANSWERED as u8).map(|last| [198, 51, 100, last].into()).collect();
        assert!(!suspects(&[&others[1..], &[FROM]].concat(), SECOND / 100), "with others");
        assert!(suspects(&[&[FROM], &others[..]].concat(), SECOND / 100), "a longer list forgets it");
    }
}
