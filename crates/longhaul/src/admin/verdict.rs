//! Whether the daemon is whole, in one line: the first line of `longhaul status` and of `longhaul top`.

use super::snapshot::{Problem, Snapshot, VerifyState, VerifyStateName};
use crate::control::Phase;
use crate::figures::count;

/// Whether the daemon is whole. The worse one is greater.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    /// No problem is known.
    #[default]
    Whole,
    /// There are problems. None of them says that new flows are not served.
    Warned,
    /// No problem is fatal, but new flows of a tunnel may not be served.
    Doubtful,
    /// New flows of a tunnel are not served.
    NotWhole,
}

/// The answer to "is it whole, and if not, which stage of which tunnel since when".
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Verdict {
    /// Whether it is whole.
    pub standing: Standing,
    /// Time since which a problem is fatal, or the daemon drains, in seconds since 1970 (UTC). Absent without either.
    since_unix_seconds: Option<f64>,
    text: String,
}

impl Verdict {
    /// Returns the verdict on `snapshot`.
    pub fn of(snapshot: &Snapshot) -> Verdict {
        let fatal: Vec<&Problem> = snapshot.problems.iter().filter(|problem| problem.fatal).collect();
        if let Some(first) = fatal.first() {
            let since = fatal.iter().map(|problem| problem.since_unix_seconds).fold(f64::INFINITY, f64::min);
            let place = first.tunnel.as_ref().map(|tunnel| format!("tunnel {tunnel}, ")).unwrap_or_default();
            let more = if fatal.len() > 1 { format!(", and {} more", fatal.len() - 1) } else { String::new() };
            let text = format!("{place}{}{more}", first.stage);
            return Verdict { standing: Standing::NotWhole, since_unix_seconds: Some(since), text };
        }
        let (standing, text) = match (snapshot.phase, snapshot.problems.len()) {
            (Phase::Draining, _) => (Standing::NotWhole, draining(snapshot)),
            (Phase::Stopping, _) => (Standing::NotWhole, "stopping; the daemon ends with its last flow".into()),
            (Phase::Serving, _) if !snapshot.ready => (Standing::NotWhole, "the daemon is not ready".into()),
            (Phase::Serving, 0) => (Standing::Whole, format!("no problem is known; {}", verified(snapshot))),
            (Phase::Serving, problems) => match doubt(snapshot) {
                Some(text) => (Standing::Doubtful, text),
                None => (Standing::Warned, format!("with {}", count(problems, "warning"))),
            },
        };
        Verdict { standing, since_unix_seconds: snapshot.draining_since_unix_seconds, text }
    }

    /// Returns the line. `when` writes a time in seconds since 1970: `for 2m05s`.
    pub fn line(&self, when: impl Fn(f64) -> String) -> String {
        match (self.standing, self.since_unix_seconds) {
            (Standing::NotWhole, Some(since)) => format!("NOT WHOLE {}: {}", when(since), self.text),
            (Standing::NotWhole, None) => format!("NOT WHOLE: {}", self.text),
            (Standing::Warned | Standing::Doubtful, _) => format!("WHOLE, {}", self.text),
            (Standing::Whole, _) => format!("WHOLE: {}", self.text),
        }
    }
}

/// Returns the words of a drain. Until `drain_grace` is over, the tunnels still listen.
fn draining(snapshot: &Snapshot) -> String {
    let listens = snapshot.tunnels.iter().any(|tunnel| tunnel.listening);
    let clients = if listens { "are still accepted" } else { "are refused" };
    format!("draining, new connections {clients}; `longhaul drain --undo` ends that")
}

/// Returns the text for problems of which one is doubtful: new flows of its tunnel may not be served. `None` if none is.
fn doubt(snapshot: &Snapshot) -> Option<String> {
    let mut doubtful = snapshot.problems.iter().filter(|problem| problem.doubtful);
    let (first, more) = (doubtful.next()?, doubtful.count());
    let more = if more > 0 { format!(", and {more} more") } else { String::new() };
    Some(format!("but DOUBTFUL: {first}{more}"))
}

/// Returns how many tunnels the daemon's own probes have found whole, without those whose newer result is missing. The others
/// are whole as far as the daemon sees.
fn verified(snapshot: &Snapshot) -> String {
    let is_whole = |verify: &VerifyState| verify.state == VerifyStateName::Whole && verify.is_current();
    let whole = snapshot.tunnels.iter().filter(|tunnel| tunnel.verify.as_ref().is_some_and(is_whole)).count();
    format!("verified: {whole} of {}", count(snapshot.tunnels.len(), "tunnel"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admin::snapshot::TunnelState;

    #[test]
    fn the_line_says_whether_it_is_whole_and_if_not_where_and_since_when() {
        let problem = |tunnel: Option<&str>, since_unix_seconds, fatal| Problem {
            tunnel: tunnel.map(Into::into),
            stage: "WAN".into(),
            since_unix_seconds,
            fatal,
            ..Problem::default()
        };
        let whole = Snapshot { ready: true, ..Snapshot::default() };
        let said = |snapshot: Snapshot| {
            let verdict = Verdict::of(&snapshot);
            (verdict.standing, verdict.line(|since| format!("since {since}")))
        };
        let with = |problems, ready| said(Snapshot { problems, ready, ..whole.clone() });
        assert_eq!(
            with(vec![], true),
            (Standing::Whole, "WHOLE: no problem is known; verified: 0 of 0 tunnels".into())
        );
        let undrained = Snapshot { draining_since_unix_seconds: Some(3.0), ..whole.clone() };
        assert_eq!(said(undrained), with(vec![], true), "the standing decides");
        let verify = VerifyState { state: VerifyStateName::Whole, ..VerifyState::default() };
        let stopped = VerifyState { no_newer: Some("overdue".into()), ..verify.clone() };
        let tunnel = |verify| TunnelState { verify: Some(verify), ..TunnelState::default() };
        let verified = Snapshot { tunnels: vec![tunnel(verify), tunnel(stopped)], ..whole.clone() };
        assert_eq!(said(verified).1, "WHOLE: no problem is known; verified: 1 of 2 tunnels");
        let warned = vec![problem(Some("t"), 1.0, false)];
        assert_eq!(with(warned, true), (Standing::Warned, "WHOLE, with 1 warning".into()));
        let doubtful = Problem { doubtful: true, what: "7 dials failed".into(), ..problem(Some("t"), 1.0, false) };
        let text = "WHOLE, but DOUBTFUL: tunnel t, WAN: 7 dials failed";
        assert_eq!(with(vec![doubtful.clone(), problem(None, 1.0, false)], true), (Standing::Doubtful, text.into()));
        let two = with(vec![doubtful.clone(), doubtful.clone()], true);
        assert_eq!(two, (Standing::Doubtful, format!("{text}, and 1 more")));
        let (standing, line) = with(vec![problem(Some("t"), 9.0, true), doubtful], false);
        assert!(standing == Standing::NotWhole && line == "NOT WHOLE since 9: tunnel t, WAN", "{line}");
        let broken = vec![problem(Some("t"), 9.0, true), problem(None, 7.0, true), problem(None, 1.0, false)];
        assert_eq!(with(broken, false), (Standing::NotWhole, "NOT WHOLE since 7: tunnel t, WAN, and 1 more".into()));
        let drains = |listening| Snapshot {
            phase: Phase::Draining,
            draining_since_unix_seconds: Some(3.0),
            tunnels: vec![TunnelState { listening, ..TunnelState::default() }],
            ..Snapshot::default()
        };
        let line =
            |how| format!("NOT WHOLE since 3: draining, new connections {how}; `longhaul drain --undo` ends that");
        assert_eq!(said(drains(true)).1, line("are still accepted"));
        assert_eq!(said(drains(false)).1, line("are refused"));
        for phase in [Phase::Serving, Phase::Draining, Phase::Stopping] {
            let (standing, line) = said(Snapshot { phase, ..Snapshot::default() });
            assert!(standing == Standing::NotWhole && line.starts_with("NOT WHOLE: "), "{line}");
        }
    }
}
