//! The demo's table, and the reason for each number, computed from what was measured.

use super::demo::{Kind, OPENSSH_WINDOW};
use super::live::Traffic;
use super::problem::Problem;
use super::sockets::Sender;
use super::spec::{LinkSpec, Profile};
use longhaul_core::units::Bytes;
use std::fmt;
use std::time::Duration;

/// One transfer whose every byte arrived.
#[derive(Clone, Debug)]
pub(super) struct Cell {
    pub(super) carrier: &'static str,
    pub(super) what: &'static str,
    pub(super) kind: Kind,
    pub(super) bytes: Bytes,
    /// How long the bytes took; for scp without logging in.
    pub(super) took: Duration,
    /// TCP_INFO of host A, and of the near relay on the WAN.
    pub(super) senders: [Sender; 2],
}

/// Everything that was measured.
#[derive(Debug)]
pub(super) struct Report {
    link: LinkSpec,
    window: Bytes,
    cells: Vec<Cell>,
    /// What could not be measured, and why.
    left_out: Vec<String>,
    /// Whether something failed that was there to be measured.
    failed: bool,
    /// What the link did.
    pub(super) traffic: Option<[Traffic; 2]>,
}

impl Report {
    pub(super) fn new(link: LinkSpec, window: Bytes) -> Report {
        Report { link, window, cells: Vec::new(), left_out: Vec::new(), failed: false, traffic: None }
    }

    pub(super) fn add(&mut self, cell: Cell) {
        self.cells.push(cell);
    }

    /// Notes that `what` is missing from the table.
    pub(super) fn left_out(&mut self, what: &str, problem: &Problem) {
        self.failed |= !matches!(problem, Problem::Missing { .. });
        self.left_out.push(format!("left out: {what}: {problem}"));
    }

    /// Whether everything that is installed was measured.
    pub(super) fn is_complete(&self) -> bool {
        !self.failed && !self.cells.is_empty()
    }

    fn cell(&self, carrier: &str, kind: Kind) -> Option<&Cell> {
        self.cells.iter().find(|cell| cell.carrier == carrier && cell.kind == kind)
    }

    /// A line of the table: one carrier.
    fn row(&self, carrier: &str) -> String {
        let what = self.cells.iter().find(|cell| cell.carrier == carrier).map_or("", |cell| cell.what);
        let mut line = format!("| {:<34} |", format!("{carrier} ({what})"));
        for kind in [Kind::Scp, Kind::Raw] {
            line += &match (self.cell(carrier, kind), self.cell("direct", kind)) {
                (Some(cell), Some(direct)) => {
                    format!(" {:>11.1} | {:>5.1} |", cell.speed(), cell.speed() / direct.speed())
                }
                (Some(cell), None) => format!(" {:>11.1} | {:>5} |", cell.speed(), "-"),
                (None, _) => format!(" {:>11} | {:>5} |", "-", "-"),
            };
        }
        line
    }

    /// What the line carries of TCP's payload, in MB/s: 1448 of each 1500 bytes.
    fn line(&self) -> f64 {
        self.link.rate.map_or(f64::INFINITY, |rate| rate.0 as f64 / 8e6 * 1448.0 / 1500.0)
    }

    /// Why `cell` is as fast as it is.
    fn why(&self, cell: &Cell) -> String {
        let [host, wan] = &cell.senders;
        let speed = cell.speed();
        let rtt = if cell.carrier == "direct" { host.rtt } else { wan.rtt };
        let rtt = if rtt.is_zero() { self.link.rtt } else { rtt };
        let per_rtt = |bytes: f64| bytes / rtt.as_secs_f64() / 1e6;
        let (window, line) = (per_rtt(host.window.0 as f64), self.line());
        let ssh = per_rtt(OPENSSH_WINDOW);
        let sender = if cell.carrier == "direct" { host } else { wan };
        let law = self.link.loss_law(&sender.congestion, rtt).map(|law| law / 1e6);
        let limit = line.min(if cell.carrier == "direct" { window } else { line });
        let limit = limit.min(if cell.kind == Kind::Scp { ssh } else { limit });
        match (cell.carrier, cell.kind) {
            _ if cell.took < rtt * SHORT => format!(
                "too short to show a speed: {:.0} round trips, and TCP starts slowly; give a larger --size",
                cell.took.as_secs_f64() / rtt.as_secs_f64()
            ),
            _ if law.is_some_and(|law| law < limit) => format!(
                "at {} % loss {} reaches about {:.2} MB/s over {} in the long run, more before its first loss; \
                 measured {speed:.2}{}",
                100.0 * self.link.loss,
                sender.congestion,
                law.unwrap_or_default(),
                millis(rtt),
                self.losses(sender)
            ),
            ("direct", _) if window < line => format!(
                "window of {} bytes (snd_wnd in TCP_INFO) / {} = {window:.2} MB/s; measured {:.0} % of it{}",
                host.window.0,
                millis(rtt),
                100.0 * speed / window,
                self.losses(host)
            ),
            (_, Kind::Scp) if ssh < line => format!(
                "OpenSSH sends 2 MiB ahead: 2 MiB / {} = {ssh:.1} MB/s if every round trip brought a new 2 MiB; it took \
                 {:.1} round trips{}{}",
                millis(rtt),
                ssh / speed,
                nagle(cell.carrier),
                self.losses(wan)
            ),
            _ => format!(
                "the line carries {line:.1} MB/s of TCP payload; measured {:.0} % of it, {} on the WAN, {} in flight at \
                 most{}",
                100.0 * speed / line,
                wan.congestion,
                mebibytes(wan.allowed),
                self.losses(wan)
            ),
        }
    }

    fn losses(&self, sender: &Sender) -> String {
        match sender.retransmitted {
            0 => String::new(),
            count => format!("; {count} segments sent again by {}", sender.congestion),
        }
    }
}

impl Cell {
    /// MB/s, as everybody counts files: 10^6 bytes.
    fn speed(&self) -> f64 {
        self.bytes.0 as f64 / self.took.as_secs_f64().max(1e-9) / 1e6
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}\n", self.setup())?;
        writeln!(
            f,
            "| {:<34} | {:>11} | {:>5} | {:>11} | {:>5} |",
            "MB/s (10^6 bytes)", "scp", "gain", "raw TCP", "gain"
        )?;
        writeln!(f, "| {0:-<34} | {0:->10}: | {0:->4}: | {0:->10}: | {0:->4}: |", "")?;
        let mut carriers: Vec<&str> = self.cells.iter().map(|cell| cell.carrier).collect();
        carriers.dedup();
        for carrier in &carriers {
            writeln!(f, "{}", self.row(carrier))?;
        }
        if !self.cells.is_empty() {
            writeln!(f, "\nEvery byte of every transfer was checked at the far end. Why these numbers:\n")?;
        }
        for cell in &self.cells {
            let kind = if cell.kind == Kind::Scp { "scp" } else { "raw TCP" };
            let head = format!(
                "{} {kind}, {:.0} MB in {:.1} s: ",
                cell.carrier,
                cell.bytes.0 as f64 / 1e6,
                cell.took.as_secs_f64()
            );
            writeln!(f, "{}", wrapped(&format!("- {head}{}", self.why(cell)), 96))?;
        }
        for line in &self.left_out {
            writeln!(f, "{}", wrapped(&format!("- {line}"), 96))?;
        }
        self.carried().map_or(Ok(()), |line| writeln!(f, "\n{}", wrapped(&line, 98)))
    }
}

impl Report {
    /// What the link did, in words.
    fn carried(&self) -> Option<String> {
        let [out, back] = self.traffic.as_ref()?;
        let lost = |key| {
            let stages = out.stages.iter().chain(&back.stages).filter(|(stage, _)| *stage == key);
            stages.map(|(_, counters)| counters.segments_lost()).sum::<u64>()
        };
        let (_, first) = out.stages.first()?;
        let [refused, overflowed] = [out.refused + back.refused, out.overflowed + back.overflowed];
        Some(format!(
            "The link took {} segments from near to far; of both directions it dropped {} in a full queue and lost {} at \
             random. Its own failures: {}.",
            first.segments_in,
            lost("rate"),
            lost("loss"),
            refused + overflowed
        ))
    }

    /// What was built, in words.
    fn setup(&self) -> String {
        let LinkSpec { rtt, rate, loss, .. } = &self.link;
        let rate = rate.map_or("no rate limit".to_string(), |rate| rate.to_string());
        let text = format!(
            "Emulated WAN: {} round trip, {rate} of IP, {} queue, {} % loss. Hosts like AIX: {} windows, Reno, no SACK. Relay \
             hosts: tcp_rmem and tcp_wmem up to {}. {}The time of scp is without its login.",
            millis(*rtt),
            mebibytes(self.link.queue()),
            loss * 100.0,
            self.window,
            Profile::relay_buffer(&self.link),
            if self.cells.iter().any(|cell| cell.bytes != self.cells[0].bytes) { SIZES_DIFFER } else { "" },
        );
        wrapped(&text, 98)
    }
}

fn nagle(carrier: &str) -> &'static str {
    match carrier {
        "socat" => {
            ", for socat leaves Nagle on: a small message from B waits for an acknowledgement from across the WAN"
        }
        _ => "",
    }
}

fn millis(time: Duration) -> String {
    format!("{:.1} ms", time.as_secs_f64() * 1e3)
}

fn mebibytes(bytes: Bytes) -> String {
    format!("{:.1} MiB", bytes.0 as f64 / f64::from(1 << 20))
}

/// `text` in lines of at most `width` characters, those after the first indented when it is an item of a list.
fn wrapped(text: &str, width: usize) -> String {
    let indent = if text.starts_with("- ") { "  " } else { "" };
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = &lines[lines.len() - 1];
        if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > width {
            lines.push(indent.to_string());
        }
        let end = lines.len() - 1;
        let line = &mut lines[end];
        if !line.trim().is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    lines.join("\n")
}

const SIZES_DIFFER: &str = "Sizes differ so that each transfer takes some seconds. ";

/// Round trips below which the start of a connection decides its speed.
const SHORT: u32 = 20;
