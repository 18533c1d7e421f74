//! The table for a migration: a row for each host, as text for a terminal and as CSV.

use super::finding::{Audited, Doubt, Finding};
use super::reader::WHOLE_SYSTEM;
use crate::predict::mbps;
use crate::show::{speed, unverified};
use std::cmp::Reverse;
use std::fmt::Write as _;

/// The cells of a row, as text. A cell is empty if its value is unknown.
pub(super) struct HostRow<'a> {
    /// The host.
    pub(super) host: &'a str,
    /// Name of its system.
    pub(super) system: &'static str,
    /// The effective window in bytes.
    pub(super) window: String,
    /// The rate now, that of the tuned host, and that through relays, in MB/s.
    pub(super) rates: [String; 3],
    /// The first change: the setting, its value, and the value to set; in words if there is none.
    pub(super) first: String,
    /// Whether the paste does not show the window, and `first` says what to paste.
    is_unknown: bool,
    /// Whether the commands of the first change were tried on such a host; true without a change.
    pub(super) is_verified: bool,
}

impl<'a> HostRow<'a> {
    /// Returns the row of a host.
    pub(super) fn of(audited: &'a Audited) -> HostRow<'a> {
        HostRow {
            host: &audited.host.name,
            system: audited.host.system.name,
            window: audited.window.map(|window| window.0.to_string()).unwrap_or_default(),
            rates: audited.rates().map(|rate| rate.map(speed).unwrap_or_default()),
            first: first(audited),
            is_unknown: is_unknown(audited),
            is_verified: is_unknown(audited)
                || audited.first().and_then(|(finding, _)| finding.source()).is_none_or(|(_, is_verified)| is_verified),
        }
    }
}

/// Sorts hosts by what gains most. Those whose rate is unknown come last.
pub(super) fn sort(hosts: &mut [Audited]) {
    hosts.sort_by_key(|audited| (audited.gain().is_none(), Reverse(audited.gain().unwrap_or_default())));
}

/// Returns the table for a terminal; rates in MB/s.
pub(super) fn text(hosts: &[Audited]) -> String {
    let rows: Vec<HostRow<'_>> = hosts.iter().map(HostRow::of).collect();
    let width = rows.iter().map(|row| row.host.chars().count()).max().unwrap_or_default().clamp(4, MAX_HOST_COLUMNS);
    let head = ["now", "tuned", "relay"].map(str::to_string);
    let mut text = String::new();
    let mut line = |host: &str, system: &str, window: &str, rates: &[String; 3], first: &str| {
        let [now, tuned, relay] = rates.each_ref().map(|rate| if rate.is_empty() { "?" } else { rate });
        let window = if window.is_empty() { "?" } else { window };
        let line = format!("{host:<width$} {system:<7} {window:>10} {now:>6} {tuned:>6} {relay:>6}  {first}");
        let _ = writeln!(text, "{}", line.trim_end());
    };
    line("host", "system", "window", &head, "first change");
    rows.iter().for_each(|row| {
        let first = format!("{}{}", row.first, unverified(row.is_verified));
        line(row.host, row.system, &row.window, &row.rates, &first);
    });
    text
}

/// Returns the table as CSV (RFC 4180). Rates are in 10^6 bit/s.
pub(super) fn csv(hosts: &[Audited]) -> String {
    let mut text =
        String::from("host,os,window_bytes,mbps,tuned_mbps,relay_mbps,first_change,set_now,set_permanent,verified\r\n");
    for audited in hosts {
        let row = HostRow::of(audited);
        let [now, tuned, relay] =
            audited.rates().map(|rate| rate.map(|rate| mbps(rate).to_string()).unwrap_or_default());
        let first = audited.first().filter(|(finding, _)| !row.is_unknown && finding.value.is_some());
        let [set_now, set_permanent] =
            first.map_or(["", ""], |(_, change)| [&change.set_now, &change.set_permanent].map(String::as_str));
        let verified = match first {
            Some(_) if row.is_verified => "yes",
            Some(_) => "unverified",
            None => "",
        };
        let cells =
            [row.host, row.system, &row.window, &now, &tuned, &relay, &row.first, set_now, set_permanent, verified];
        text += &(cells.map(quoted).join(",") + "\r\n");
    }
    text
}

fn first(audited: &Audited) -> String {
    let named = |finding: &Finding| {
        let place = if finding.place == WHOLE_SYSTEM { String::new() } else { format!(" ({})", finding.place) };
        format!("{}{place}: {}", finding.setting, finding.value.as_deref().unwrap_or("not shown"))
    };
    match (audited.first(), audited.fixed(), audited.host.facts.missing.first()) {
        (_, _, Some(command)) if is_unknown(audited) => format!("unknown: paste also `{command}`"),
        (Some((finding, change)), ..) if finding.value.is_none() => {
            format!("{}: not shown: look first, {} at least", finding.setting, change.want)
        }
        (Some((finding, change)), ..) => format!("{} -> {}", named(finding), change.want),
        (None, Some(finding), _) => format!("{}: see its report", named(finding)),
        (None, None, missing) => match &audited.doubt {
            Some(Doubt { setting, value: Some(value), .. }) => format!("{setting}: {value}: see its report"),
            Some(Doubt { paste: Some(command), .. }) => format!("unknown: paste also `{command}`"),
            Some(_) => "unknown: see its report".into(),
            None => match (audited.findings.iter().find(|finding| finding.effect.is_none()), missing) {
                (Some(finding), _) => format!("{}: see its report", named(finding)),
                (None, Some(command)) => format!("unknown: paste also `{command}`"),
                (None, None) => "none".into(),
            },
        },
    }
}

fn is_unknown(audited: &Audited) -> bool {
    audited.window.is_none() && !audited.host.facts.missing.is_empty()
}

/// Returns a cell of CSV. A spreadsheet takes a text that begins with `=` for a formula, and a quotation mark before it prevents that.
fn quoted(cell: &str) -> String {
    let guard = if cell.starts_with(['=', '+', '-', '@']) { "'" } else { "" };
    match cell.contains([',', '"', '\n', '\r']) {
        true => format!("\"{guard}{}\"", cell.replace('"', "\"\"")),
        false => format!("{guard}{cell}"),
    }
}

/// Columns of the longest name for which the table is as wide as a terminal. Longer names are not cut, and move their row.
const MAX_HOST_COLUMNS: usize = 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_is_one_cell_and_no_formula() {
        let cells = ["a", "a,b", "say \"x\"", "=1+1", "-1,2"].map(quoted);
        assert_eq!(cells, ["a", "\"a,b\"", "\"say \"\"x\"\"\"", "'=1+1", "\"'-1,2\""]);
    }
}
