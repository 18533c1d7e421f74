//! The page: a whole report as one HTML file.
//!
//! The page is made from the JSON document alone. `longhaul_doctor::page` writes it, and says what every page promises.
//!
//! In the order of the page: `words` sums up the results, `picture` draws hosts and link, `bars` and `curves` draw the
//! measurements, and `tables` lists all figures. A `group` is one figure over several carriers.

mod bars;
mod curves;
mod group;
mod picture;
mod tables;
#[cfg(test)]
mod tests;
mod words;

use crate::report::json::Report;
use group::{Group, Palette, count};
use longhaul_doctor::page::{Html, document, section};

/// Returns the page of `reports`: one scenario, or several with an overview first.
pub(crate) fn page(reports: &[Report]) -> String {
    let names: Vec<&str> = reports.iter().map(|report| report.scenario.as_str()).collect();
    let title = match names[..] {
        [one] => format!("longhaul lab: {one}"),
        _ => format!("longhaul lab: {} scenarios", names.len()),
    };
    document(&title, |html| body(html, reports))
}

fn body(html: &mut Html, reports: &[Report]) {
    let palette = Palette::of(reports);
    if reports.len() != 1 {
        html.leaf("h1", &[], "The effect of a relay on long paths");
        html.leaf("p", &[("class", "about")], "Measured by longhaul lab on emulated wide-area networks.");
        tables::overview(html, reports);
    }
    for report in reports {
        let attributes = [("id", report.scenario.as_str()), ("class", "scenario")];
        html.node("article", &attributes, |html| scenario(html, report, &palette, reports.len() == 1));
    }
    html.node("footer", &[], |html| {
        html.leaf("p", &[], UNITS);
        if let Some(first) = reports.first() {
            let place = format!("Linux {}, {}", first.kernel, count(first.cpus as u64, "CPU"));
            html.leaf("p", &[], &format!("Measured on {}, {place}. To repeat it:", first.date));
            html.leaf("pre", &[], &first.command);
        }
    });
}

fn scenario(html: &mut Html, report: &Report, palette: &Palette, is_alone: bool) {
    html.leaf(if is_alone { "h1" } else { "h2" }, &[], &report.scenario);
    html.leaf("p", &[("class", "about")], &report.about);
    if !report.source.is_empty() {
        html.leaf("p", &[("class", "source")], &format!("Source of the figures: {}", report.source));
    }
    let groups = group::groups(report);
    section(html, "Verdict", |html| words::verdict(html, report, &groups));
    section(html, "Hosts and link", |html| picture::draw(html, report));
    section(html, "Carrier by carrier", |html| {
        for group in &groups {
            comparison(html, group, palette);
        }
    });
    section(html, "Every figure", |html| tables::figures(html, report));
    section(html, "Commands of each carrier", |html| tables::commands(html, report));
    section(html, "Counters of the link", |html| tables::counters(html, report));
}

/// Writes one figure: its bars, and its curves if there are samples.
fn comparison(html: &mut Html, group: &Group<'_>, palette: &Palette) {
    html.node("div", &[("class", "group")], |html| {
        html.node("h4", &[], |html| {
            html.text(&format!("{} ", group.what));
            html.leaf("code", &[], group.id);
        });
        bars::draw(html, group, palette);
        curves::draw(html, group, palette);
    });
}

const UNITS: &str = "MB is 10^6 bytes. Speeds of transfers count payload. Curves count the IP bytes that arrive.";
