//! How views show a [`Health`]: whether the daemon is whole, in one line, which is the first of `longhaul status` and of
//! `longhaul top`; and the words for each.

use super::snapshot::{Health, Problem, Snapshot};
use crate::control::Phase;
use crate::figures::count;
use longhaul_core::health::of_daemon;

/// Words of the views for a health.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Words {
    /// How good the news is.
    pub tone: Tone,
    /// The beginning of the first line.
    pub first: &'static str,
    /// Before a problem.
    pub problem: &'static str,
    /// The state of a tunnel that listens, in a table.
    pub tunnel: &'static str,
    /// The result of the daemon's own probes, in a table.
    pub verify: &'static str,
    /// Behind the state of a next hop, if the state itself does not tell.
    pub hop: &'static str,
}

/// How good the news is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    /// Nothing is wrong.
    Good,
    /// Something is wrong, but no problem is fatal.
    Warning,
    /// New flows are not served, or the state is not known.
    Bad,
    /// A statement without a verdict.
    Plain,
    /// It was so before the daemon went away.
    Past,
}

impl Words {
    /// Returns the words for `health`.
    pub fn of(health: Health) -> Words {
        let good =
            Words { tone: Tone::Good, first: "WHOLE: ", problem: "", tunnel: "listening", verify: "whole", hop: "" };
        let warning = Words {
            tone: Tone::Warning,
            first: "WHOLE, with ",
            problem: "warning",
            tunnel: "warning",
            verify: "overdue",
            hop: "",
        };
        match health {
            Health::Good => good,
            Health::Waiting => Words { verify: "pending", ..good },
            Health::Unknown => warning,
            Health::Failing => Words { hop: ", failing", ..warning },
            Health::Stalled => Words { problem: "stalled", tunnel: "stalled", ..Words::of(Health::Doubtful) },
            Health::Doubtful => Words {
                first: "WHOLE, but DOUBTFUL: ",
                problem: "doubtful",
                tunnel: "doubtful",
                hop: ", doubtful",
                ..warning
            },
            Health::Broken => Words {
                tone: Tone::Bad,
                first: "NOT WHOLE",
                problem: "BROKEN",
                tunnel: "BROKEN",
                verify: "BROKEN",
                hop: ", broken",
            },
        }
    }
}

/// The answer to "is it whole, and if not, which stage of which tunnel since when".
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Verdict {
    /// How well the daemon is.
    pub health: Health,
    /// Time since which the problem that the text names is fatal, or the daemon drains, in seconds since 1970 (UTC). Absent without either.
    since_unix_seconds: Option<f64>,
    text: String,
}

impl Verdict {
    /// Returns the verdict on `snapshot`.
    pub fn of(snapshot: &Snapshot) -> Verdict {
        let Snapshot { phase, ready, problems, .. } = snapshot;
        // An older daemon sends no health of its own.
        let health = match of_daemon(*phase, problems.iter().map(|problem| problem.health)) {
            _ if !ready => Health::Broken,
            health => health,
        };
        let broken = || problems.iter().filter(|problem| problem.health.is_broken());
        let since = broken().next().map(|problem| problem.since_unix_seconds);
        let (since_unix_seconds, text) = match (phase, health) {
            (Phase::Draining, _) => (snapshot.draining_since_unix_seconds, draining(snapshot)),
            (Phase::Stopping, _) => (None, "stopping; the daemon ends with its last flow".into()),
            (Phase::Serving, Health::Good | Health::Waiting) => (None, verified(snapshot)),
            (Phase::Serving, Health::Unknown | Health::Failing) => (None, count(problems.len(), "warning")),
            (Phase::Serving, Health::Stalled | Health::Doubtful) => {
                let doubtful = problems.iter().filter(|problem| problem.health.is_doubtful());
                (None, first(doubtful, ToString::to_string))
            }
            (Phase::Serving, Health::Broken) if since.is_none() => (None, "the daemon is not ready".into()),
            (Phase::Serving, Health::Broken) => (since, first(broken(), Problem::place)),
        };
        Verdict { health, since_unix_seconds, text }
    }

    /// Returns the line. `when` writes a time in seconds since 1970: `for 2m05s`.
    pub fn line(&self, when: impl Fn(f64) -> String) -> String {
        let Verdict { health, since_unix_seconds, text } = self;
        let first = Words::of(*health).first;
        match (health, since_unix_seconds) {
            (Health::Broken, Some(since)) => format!("{first} {}: {text}", when(*since)),
            (Health::Broken, None) => format!("{first}: {text}"),
            _ => format!("{first}{text}"),
        }
    }
}

/// Returns the words of a drain. Until `drain_grace` is over, the tunnels still listen.
fn draining(snapshot: &Snapshot) -> String {
    let listens = snapshot.tunnels.iter().any(|tunnel| tunnel.listening);
    let clients = if listens { "are still accepted" } else { "are refused" };
    format!("draining, new connections {clients}; `longhaul drain --undo` ends that")
}

/// Returns the first of `problems` as `write` writes it, and the number of the others.
fn first<'a>(mut problems: impl Iterator<Item = &'a Problem>, write: impl Fn(&Problem) -> String) -> String {
    let first = problems.next().map(write).unwrap_or_default();
    match problems.count() {
        0 => first,
        more => format!("{first} (and {})", count(more, "more problem")),
    }
}

/// Returns how many tunnels the daemon's own probes have found whole, without those whose newer result is missing. The others
/// are whole as far as the daemon sees.
fn verified(snapshot: &Snapshot) -> String {
    let verified: Vec<_> = snapshot.tunnels.iter().filter_map(|tunnel| tunnel.verify.as_ref()).collect();
    let whole = verified.iter().filter(|verify| verify.health == Health::Good).count();
    match (snapshot.tunnels.len(), verified.len()) {
        (0, _) => "no problem is known".into(),
        (_, 0) => "no problem is known; no tunnel has verify".into(),
        (tunnels, _) => format!("no problem is known; verified: {whole} of {}", count(tunnels, "tunnel")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admin::snapshot::{TunnelState, VerifyState};

    #[test]
    fn the_line_says_whether_it_is_whole_and_if_not_where_and_since_when() {
        let problem = |tunnel: Option<&str>, since_unix_seconds, health| Problem {
            tunnel: tunnel.map(Into::into),
            stage: "WAN".into(),
            since_unix_seconds,
            health,
            ..Problem::default()
        };
        let whole = Snapshot { ready: true, ..Snapshot::default() };
        let said = |snapshot: Snapshot| {
            let verdict = Verdict::of(&snapshot);
            (verdict.health, verdict.line(|since| format!("since {since}")))
        };
        let with = |problems, ready| said(Snapshot { problems, ready, ..whole.clone() });
        assert_eq!(with(vec![], true), (Health::Good, "WHOLE: no problem is known".into()));
        let undrained = Snapshot { draining_since_unix_seconds: Some(3.0), ..whole.clone() };
        assert_eq!(said(undrained), with(vec![], true), "the phase decides");
        let warned = vec![problem(Some("t"), 1.0, Health::Failing)];
        assert_eq!(with(warned, true), (Health::Failing, "WHOLE, with 1 warning".into()));
        let doubtful = Problem {
            health: Health::Doubtful,
            what: "7 dials failed".into(),
            ..problem(Some("t"), 1.0, Health::Failing)
        };
        let text = "WHOLE, but DOUBTFUL: tunnel t, WAN: 7 dials failed";
        assert_eq!(
            with(vec![doubtful.clone(), problem(None, 1.0, Health::Failing)], true),
            (Health::Doubtful, text.into())
        );
        let two = with(vec![doubtful.clone(), doubtful.clone()], true);
        assert_eq!(two, (Health::Doubtful, format!("{text} (and 1 more problem)")));
        let (health, line) = with(vec![problem(Some("t"), 9.0, Health::Broken), doubtful], false);
        assert!(health == Health::Broken && line == "NOT WHOLE since 9: tunnel t, WAN", "{line}");
        let broken = vec![
            problem(Some("t"), 9.0, Health::Broken),
            problem(None, 7.0, Health::Broken),
            problem(None, 1.0, Health::Failing),
        ];
        assert_eq!(
            with(broken, false),
            (Health::Broken, "NOT WHOLE since 9: tunnel t, WAN (and 1 more problem)".into())
        );
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
            let (health, line) = said(Snapshot { phase, ..Snapshot::default() });
            assert!(health == Health::Broken && line.starts_with("NOT WHOLE: "), "{line}");
        }
    }

    #[test]
    fn a_whole_daemon_says_how_many_tunnels_its_probes_found_whole() {
        let verify = VerifyState { health: Health::Good, ..VerifyState::default() };
        let stopped = VerifyState { health: Health::Unknown, ..verify.clone() };
        let said = |verified: Vec<Option<VerifyState>>| {
            let tunnels = verified.into_iter().map(|verify| TunnelState { verify, ..TunnelState::default() }).collect();
            Verdict::of(&Snapshot { ready: true, tunnels, ..Snapshot::default() }).text
        };
        let whole = "no problem is known; ";
        assert_eq!(said(vec![Some(verify), Some(stopped.clone())]), format!("{whole}verified: 1 of 2 tunnels"));
        assert_eq!(said(vec![Some(stopped), None]), format!("{whole}verified: 0 of 2 tunnels"));
        assert_eq!(said(vec![None]), format!("{whole}no tunnel has verify"));
    }
}
