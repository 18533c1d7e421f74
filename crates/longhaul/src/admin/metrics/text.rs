//! Writes the metrics as text. prometheus-client writes that of OpenMetrics; the older format of Prometheus differs from it
//! in the comments only.

use super::row::{Metric, MetricSample, MetricValue};
use super::scrape::Scrape;
use super::table::rows;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};
use std::fmt;

/// A text format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// OpenMetrics 1.0.
    OpenMetrics,
    /// The text format of Prometheus, which tools such as `promtool check metrics` read.
    Prometheus,
}

impl Format {
    /// Returns the format that a client asks for by its header `Accept`.
    pub(crate) fn accepted(accept: &str) -> Format {
        match accept.contains("application/openmetrics-text") {
            true => Format::OpenMetrics,
            false => Format::Prometheus,
        }
    }

    /// Returns the content type of the format.
    pub(crate) fn content_type(self) -> &'static str {
        match self {
            Format::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Format::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

/// Returns `scrape` in `format`.
///
/// # Errors
/// None in practice: writing to memory does not fail.
pub(crate) fn write(scrape: Scrape, format: Format) -> Result<String, fmt::Error> {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Page(scrape)));
    let mut page = String::new();
    text::encode(&mut page, &registry)?;
    Ok(match format {
        Format::OpenMetrics => page,
        Format::Prometheus => with_old_comments(&page),
    })
}

#[derive(Debug)]
struct Page(Scrape);

impl Collector for Page {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for row in rows() {
            let samples = row.samples(&self.0);
            if samples.0.is_empty() {
                continue;
            }
            // The encoder adds the unit to the name.
            let (name, unit) = row.name_and_unit();
            let unit = unit.map(|unit| Unit::Other(unit.into()));
            let mut metric = encoder.encode_descriptor(name, row.help, unit.as_ref(), row.kind)?;
            samples.0.iter().try_for_each(|sample| encode(&mut metric, row, sample))?;
        }
        Ok(())
    }
}

fn encode(metric: &mut MetricEncoder<'_>, row: &Metric, sample: &MetricSample) -> fmt::Result {
    let labels: Vec<(&str, &str)> = row.labels.iter().copied().zip(sample.labels.iter().map(String::as_str)).collect();
    match labels.is_empty() {
        true => encode_value(metric, row.kind, &labels, &sample.value),
        false if matches!(row.kind, MetricType::Info) => metric.encode_info(&labels),
        false => encode_value(&mut metric.encode_family(&labels)?, row.kind, &labels, &sample.value),
    }
}

fn encode_value(
    metric: &mut MetricEncoder<'_>,
    kind: MetricType,
    labels: &Vec<(&str, &str)>,
    value: &MetricValue,
) -> fmt::Result {
    match (kind, value) {
        (MetricType::Info, _) => metric.encode_info(labels),
        (_, MetricValue::Histogram(values)) => {
            let buckets: Vec<(f64, u64)> = values.buckets.iter().map(|bucket| (bucket.bound, bucket.count)).collect();
            metric.encode_histogram::<NoLabelSet>(values.sum, values.count(), &buckets, None)
        }
        (MetricType::Counter, MetricValue::Whole(value)) => metric.encode_counter::<NoLabelSet, u64, f64>(value, None),
        (MetricType::Counter, MetricValue::Real(value)) => metric.encode_counter::<NoLabelSet, f64, f64>(value, None),
        (_, MetricValue::Whole(value)) => metric.encode_gauge(value),
        (_, MetricValue::Real(value)) => metric.encode_gauge(value),
    }
}

/// Rewrites the comments of `page` as Prometheus had them before OpenMetrics: the full names of counters, no type `info`,
/// no units and no end mark.
fn with_old_comments(page: &str) -> String {
    let mut old = String::with_capacity(page.len());
    for line in page.lines().filter(|line| !line.starts_with("# UNIT ") && *line != "# EOF") {
        let mut words = line.splitn(4, ' ');
        let row = match (words.next(), words.next(), words.next()) {
            (Some("#"), Some(_), Some(name)) => rows().find(|row| row.name == name),
            _ => None,
        };
        let (rest, is_type) = (words.next().unwrap_or_default(), line.starts_with("# TYPE "));
        match row {
            None => old.push_str(line),
            Some(row) if is_type && matches!(row.kind, MetricType::Info) => {
                old.push_str(&format!("# TYPE {} gauge", row.stored_name()));
            }
            Some(row) => old.push_str(&format!("{} {} {rest}", &line[..6], row.stored_name())),
        }
        old.push('\n');
    }
    old
}
