//! The audit as one HTML page.

use super::finding::{Audited, Finding};
use super::migration::HostRow;
use super::text::{COSTS, best, facts, heading, title, want};
use crate::first::First;
use crate::page::table::{cell, table};
use crate::page::{Html, commands, document, mark, paragraph, section, source};
use crate::path::Path;
use crate::show::unverified;
use longhaul_core::advice::EVERY_HOST;

/// Returns the page about `hosts` on `path`.
pub(super) fn page(path: &Path, first: Option<&First>, hosts: &[Audited]) -> String {
    document(&format!("longhaul audit: {path}"), |html| body(html, path, first, hosts))
}

fn body(html: &mut Html, path: &Path, first: Option<&First>, hosts: &[Audited]) {
    let count = if hosts.len() == 1 { "one host".into() } else { format!("{} hosts", hosts.len()) };
    html.leaf("h1", &[], &format!("Audit of {count} on a path of {path}"));
    paragraph(html, "about", &best(path));
    first.iter().for_each(|first| paragraph(html, "about", &first.sentences()));
    if hosts.iter().any(Audited::has_several_costs) {
        paragraph(html, "about", COSTS);
    }
    if hosts.len() > 1 {
        section(html, "What gains most comes first", |html| migration(html, hosts));
    }
    hosts.iter().for_each(|audited| section(html, &title(audited), |html| host(html, audited)));
    html.node("footer", &[], |html| paragraph(html, "", UNITS));
}

fn migration(html: &mut Html, hosts: &[Audited]) {
    table(html, "rates", &COLUMNS, |html| {
        for row in hosts.iter().map(HostRow::of) {
            let [now, tuned, relay] = &row.rates;
            let first = format!("{}{}", row.first, unverified(row.is_verified));
            let values = [row.host, row.system, &row.window, now, tuned, relay, &first];
            html.node("tr", &[], |html| {
                COLUMNS.iter().zip(values).for_each(|((column, class), value)| {
                    cell(html, column, if *class == "number" { class } else { "" }, value);
                });
            });
        }
    });
}

fn host(html: &mut Html, audited: &Audited) {
    html.node("dl", &[("class", "pairs")], |html| {
        for (name, value) in facts(audited) {
            html.leaf("dt", &[], name);
            html.node("dd", &[], |html| crate::page::prose(html, &value));
        }
    });
    for (number, finding) in audited.findings.iter().enumerate() {
        html.node("div", &[("class", "setting")], |html| self::finding(html, number + 1, finding));
    }
    if audited.findings.iter().any(|finding| finding.change.is_some()) {
        paragraph(html, "note", EVERY_HOST);
        paragraph(html, "note", audited.host.system.note);
    }
}

fn finding(html: &mut Html, number: usize, finding: &Finding) {
    html.node("h4", &[], |html| {
        html.text(&format!("{number}. {}", heading(finding)));
        mark(html, finding.source().is_none_or(|(_, is_verified)| is_verified));
    });
    if !finding.what.is_empty() {
        paragraph(html, "", finding.what);
    }
    if let Some(change) = &finding.change {
        paragraph(html, "", &format!("Set it to `{}`.", want(finding, change)));
        let set = [("set now", &change.set_now), ("make permanent", &change.set_permanent), ("undo", &change.undo)];
        commands(html, &set);
    }
    let caveat = finding.caveat();
    if !caveat.is_empty() {
        paragraph(html, "", caveat);
    }
    if let Some((text, _)) = finding.source() {
        source(html, text);
    }
}

/// The columns of the table: name, and class in the style sheet.
const COLUMNS: [(&str, &str); 7] = [
    ("host", "words"),
    ("system", "words"),
    ("window", "number"),
    ("now MB/s", "number"),
    ("tuned MB/s", "number"),
    ("relay MB/s", "number"),
    ("first change", "words"),
];
const UNITS: &str = "Computed by `longhaul audit` from what the hosts show; nothing was measured. MB is 10^6 bytes. Rates count \
    payload, steady, of one connection. Windows are in bytes. What is not shown is not assumed.";
