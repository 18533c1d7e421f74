//! The advice as one HTML page.
//!
//! `charts` draws the rate against the round trip, and slow start; `typed` writes the commands and the files.

mod charts;
#[cfg(test)]
mod tests;
mod typed;

use super::advice::{Advice, MEASURED, PredictionRow, What};
use crate::page::table::{cell, table};
use crate::page::{Html, document, mark, paragraph, prose, section, source};
use crate::predict::mbps;
use crate::show::{size, speed, time};

/// Returns the page.
pub(super) fn page(advice: &Advice) -> String {
    document(&format!("longhaul advise: {}", advice.question.path), |html| body(html, advice))
}

fn body(html: &mut Html, advice: &Advice) {
    html.leaf("h1", &[], &format!("Advice for a path of {}", advice.question.path));
    paragraph(html, "about", &hosts(advice));
    application(html, advice);
    profile(html, advice);
    section(html, "What you have, and what you would get", |html| {
        html.leaf("p", &[("class", "headline")], &headline(advice));
        if let (Some(limited), Some(first)) = (&advice.question.limited, &advice.first) {
            paragraph(html, "", &limited.to_string());
            paragraph(html, "", &first.sentences());
        }
        advice.verdict().iter().for_each(|sentence| paragraph(html, "", sentence));
        rates(html, advice);
    });
    section(html, "Each limit, by round trip and by time", |html| charts::draw(html, advice));
    section(html, "The numbers", |html| numbers(html, advice));
    typed::systems(html, advice);
    typed::relays(html, advice);
    html.node("footer", &[], |html| paragraph(html, "", UNITS));
}

/// Returns the hosts in words.
fn hosts(advice: &Advice) -> String {
    let names: Vec<&str> = advice.question.os.iter().map(|system| system.title).collect();
    let names = if names.is_empty() { String::new() } else { format!("{}. ", names.join(", ")) };
    format!("Hosts: {names}Window {} ({}).", advice.hosts.window, advice.window_from)
}

fn application(html: &mut Html, advice: &Advice) {
    let Some(application) = advice.question.application else { return };
    html.node("p", &[], |html| {
        prose(html, &format!("Application: {}. {}", application.title, application.what));
        mark(html, application.verified);
    });
    source(html, application.source);
}

/// Writes what a profile publishes, and what is wrong with it.
fn profile(html: &mut Html, advice: &Advice) {
    let Some(profile) = advice.question.profile else { return };
    section(html, &format!("As published: {}", profile.title), |html| {
        source(html, super::profile::SOURCE);
        paragraph(html, "source", &format!("Path: {}.", profile.path_source));
        let columns = [("system", "words"), ("setting", "words"), ("value", "number")];
        table(html, "published", &columns, |html| {
            for [system, setting, value] in profile.published {
                html.node("tr", &[], |html| {
                    cell(html, columns[0].0, "", system);
                    cell(html, columns[1].0, "", setting);
                    cell(html, columns[2].0, "number", value);
                });
            }
        });
        paragraph(html, "", "What contradicts itself, or arithmetic:");
        html.node("ul", &[("class", "doubts")], |html| {
            profile.contradictions.iter().for_each(|contradiction| html.leaf("li", &[], contradiction));
        });
    });
}

/// Returns the rates without and with a relay, in one sentence.
fn headline(advice: &Advice) -> String {
    let [tuned, relay] = [What::HostsTuned, What::Relay].map(|what| speed(advice.rate(what)));
    let hosts = speed(advice.present());
    format!("Now {hosts} MB/s. With tuned hosts {tuned} MB/s, with a relay at each site {relay} MB/s.")
        .replace(" MB", "\u{a0}MB")
}

fn rates(html: &mut Html, advice: &Advice) {
    let times = advice.question.bytes.map(|bytes| format!("time for {}", size(bytes)));
    let mut columns = vec![("way", "words"), ("MB/s", "number"), ("Mbit/s", "number")];
    columns.extend(times.as_deref().map(|times| (times, "number")));
    columns.extend([("limited by", "words"), ("next limit", "words"), ("then MB/s", "number")]);
    let measured = advice.measured().map(|(rate, limit)| {
        let time = times.as_ref().map(|_| String::new());
        let rate = [MEASURED.into(), speed(rate), format!("{:.1}", mbps(rate))];
        rate.into_iter().chain(time).chain([limit.into(), String::new(), String::new()]).collect()
    });
    table(html, "rates", &columns, |html| {
        for values in measured.into_iter().chain(advice.rows.iter().map(values)) {
            html.node("tr", &[], |html| {
                columns.iter().zip(values).for_each(|((column, class), value)| {
                    cell(html, column, if *class == "number" { class } else { "" }, &value);
                });
            });
        }
    });
}

/// Returns the cells of a row.
fn values(row: &PredictionRow) -> Vec<String> {
    let prediction = &row.prediction;
    let mut values = vec![row.title(), speed(prediction.rate), format!("{:.1}", mbps(prediction.rate))];
    values.extend(row.seconds.map(time));
    values.push(prediction.limit.words().into());
    values.push(prediction.then.map(|(limit, _)| limit.words().to_string()).unwrap_or_default());
    values.push(prediction.then.map(|(_, rate)| speed(rate)).unwrap_or_default());
    values
}

fn numbers(html: &mut Html, advice: &Advice) {
    html.node("dl", &[("class", "pairs")], |html| {
        for (name, value) in advice.numbers() {
            html.leaf("dt", &[], name);
            html.leaf("dd", &[], &value);
        }
    });
    if let Some(encapsulation) = advice.question.path.encapsulation {
        source(html, encapsulation.source);
        if !encapsulation.caveat.is_empty() {
            paragraph(html, "", encapsulation.caveat);
        }
    }
}

const UNITS: &str = "Computed by `longhaul advise`; nothing was measured. MB is 10^6 bytes. Rates count payload, steady, of all \
    connections together; times add slow start.";
