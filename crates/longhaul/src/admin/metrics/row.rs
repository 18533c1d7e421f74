//! A row of the table of metrics, and the samples that it reads.

use super::scrape::{LegScrape, Scrape};
use crate::admin::figures::{Figure, Unit};
use crate::admin::snapshot::{HopState, ResourceState, TunnelState, VerifyState};
use longhaul_relay::{Counter, HistogramValues};

/// A metric.
#[derive(Clone, Copy)]
pub(super) struct Metric {
    /// Its name as OpenMetrics has it: with the unit, and without the suffixes `_total` and `_info`.
    pub(super) name: &'static str,
    pub(super) kind: MetricType,
    pub(super) unit: Option<&'static str>,
    /// The labels of each of its samples.
    pub(super) labels: &'static [&'static str],
    /// One sentence.
    pub(super) help: &'static str,
    pub(super) read: Read,
}

/// How the samples of a metric are read.
#[derive(Clone, Copy)]
pub(super) enum Read {
    /// By a function.
    By(fn(&Scrape, &mut Samples)),
    /// One sample for each tunnel: a counter.
    Counter(&'static Counter),
    /// One sample for each next hop that has a value: a figure.
    Hop(&'static Figure<HopState>),
}

/// The type of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MetricType {
    /// It only grows, and begins at 0 with the process or the tunnel.
    Counter,
    Gauge,
    Histogram,
    /// It is always 1; its labels are the information.
    Info,
}

/// The samples of a row.
#[derive(Debug, Default)]
pub(super) struct Samples(pub(super) Vec<MetricSample>);

/// A value, and the values of the row's labels.
#[derive(Debug)]
pub(super) struct MetricSample {
    pub(super) labels: Vec<String>,
    pub(super) value: MetricValue,
}

/// The value of a sample.
#[derive(Debug)]
pub(super) enum MetricValue {
    Whole(u64),
    Real(f64),
    Histogram(HistogramValues),
}

impl Metric {
    /// Returns a counter without a unit.
    pub(super) const fn counter(name: &'static str, help: &'static str, read: fn(&Scrape, &mut Samples)) -> Metric {
        Metric { name, kind: MetricType::Counter, unit: None, labels: &[], help, read: Read::By(read) }
    }

    /// Returns a gauge without a unit.
    pub(super) const fn gauge(name: &'static str, help: &'static str, read: fn(&Scrape, &mut Samples)) -> Metric {
        Metric { name, kind: MetricType::Gauge, unit: None, labels: &[], help, read: Read::By(read) }
    }

    /// Returns the metric of a counter of tunnels, if it has one of its own.
    pub(super) fn of_counter(counter: &'static Counter) -> Option<Metric> {
        let [name, help] = counter.metric?;
        let kind = if counter.is_gauge() { MetricType::Gauge } else { MetricType::Counter };
        Some(Metric { name, kind, unit: None, labels: &["tunnel"], help, read: Read::Counter(counter) })
    }

    /// Returns the metric of a figure of next hops, if it has one. Times are in seconds.
    pub(super) fn of_hop(figure: &'static Figure<HopState>) -> Option<Metric> {
        let [name, help] = figure.metric?;
        let unit = matches!(figure.unit(), Some(Unit::Age | Unit::Milliseconds)).then_some("seconds");
        Some(Metric {
            name,
            kind: MetricType::Gauge,
            unit,
            labels: &["tunnel", "next_hop"],
            help,
            read: Read::Hop(figure),
        })
    }

    /// Returns its samples.
    pub(super) fn samples(&self, scrape: &Scrape) -> Samples {
        let mut out = Samples::default();
        match self.read {
            Read::By(read) => read(scrape, &mut out),
            Read::Counter(counter) => out.tunnels(scrape, |tunnel| (counter.of)(&tunnel.counters)),
            Read::Hop(figure) => out.hops(scrape, |hop| {
                let value = figure.value(hop)?;
                Some(match figure.unit() {
                    Some(Unit::Count) => MetricValue::Whole(value as u64),
                    Some(Unit::Milliseconds) => MetricValue::Real(value / 1e3),
                    _ => MetricValue::Real(value),
                })
            }),
        }
        out
    }

    /// Adds the labels.
    pub(super) const fn by(self, labels: &'static [&'static str]) -> Metric {
        Metric { labels, ..self }
    }

    /// Adds the unit, which the name ends with.
    pub(super) const fn in_unit(self, unit: &'static str) -> Metric {
        Metric { unit: Some(unit), ..self }
    }

    /// Changes the type.
    pub(super) const fn of_kind(self, kind: MetricType) -> Metric {
        Metric { kind, ..self }
    }

    /// Returns the name that Prometheus stores and queries use. That of a histogram has further suffixes.
    pub(super) fn stored_name(&self) -> String {
        let suffix = match self.kind {
            MetricType::Counter => "_total",
            MetricType::Info => "_info",
            MetricType::Gauge | MetricType::Histogram => "",
        };
        format!("{}{suffix}", self.name)
    }
}

impl Samples {
    /// Adds a sample. `labels` are the values of the row's labels.
    pub(super) fn add(&mut self, labels: &[&str], value: impl Into<MetricValue>) {
        let labels = labels.iter().map(|label| (*label).into()).collect();
        self.0.push(MetricSample { labels, value: value.into() });
    }

    /// Adds a sample for each tunnel.
    pub(super) fn tunnels<V: Into<MetricValue>>(&mut self, scrape: &Scrape, value: impl Fn(&TunnelState) -> V) {
        scrape.snapshot.tunnels.iter().for_each(|tunnel| self.add(&[&tunnel.name], value(tunnel)));
    }

    /// Adds a sample for each next hop of each tunnel that has a value.
    pub(super) fn hops<V: Into<MetricValue>>(&mut self, scrape: &Scrape, value: impl Fn(&HopState) -> Option<V>) {
        for tunnel in &scrape.snapshot.tunnels {
            for hop in &tunnel.next_hops {
                value(hop).into_iter().for_each(|value| self.add(&[&tunnel.name, &hop.next_hop], value));
            }
        }
    }

    /// Adds a sample for each tunnel that the daemon verifies and that has a value.
    pub(super) fn verified<V: Into<MetricValue>>(
        &mut self,
        scrape: &Scrape,
        value: impl Fn(&VerifyState) -> Option<V>,
    ) {
        for tunnel in &scrape.snapshot.tunnels {
            let value = tunnel.verify.as_ref().and_then(&value);
            value.into_iter().for_each(|value| self.add(&[&tunnel.name], value));
        }
    }

    /// Adds a sample for each kind of resource that has a value: the largest one. Addresses are no labels, because DNS can
    /// bring any number of them in the daemon's life.
    pub(super) fn resources<V: Into<MetricValue> + PartialOrd>(
        &mut self,
        scrape: &Scrape,
        value: impl Fn(&ResourceState) -> Option<V>,
    ) {
        let mut largest: Vec<(&str, V)> = Vec::new();
        for resource in &scrape.snapshot.resources {
            let Some(value) = value(resource) else { continue };
            match largest.iter_mut().find(|(kind, _)| *kind == resource.kind) {
                Some((_, before)) if value > *before => *before = value,
                Some(_) => {}
                None => largest.push((&resource.kind, value)),
            }
        }
        largest.into_iter().for_each(|(kind, value)| self.add(&[kind], value));
    }

    /// Adds a sample for each leg of each tunnel.
    pub(super) fn legs<V: Into<MetricValue>>(&mut self, scrape: &Scrape, value: impl Fn(&LegScrape) -> V) {
        for tunnel in &scrape.tunnels {
            tunnel.legs.iter().for_each(|leg| self.add(&[&tunnel.name, leg.leg], value(leg)));
        }
    }

    /// Adds a sample for each of `counts`, with the labels `before` in front.
    pub(super) fn each(&mut self, before: &[&str], counts: &[Count]) {
        for Count(label, value) in counts {
            self.add(&[before, &[*label]].concat(), *value);
        }
    }
}

/// A number, and the value of the label that tells it from the others.
#[derive(Clone, Copy, Debug)]
pub(super) struct Count(pub(super) &'static str, pub(super) u64);

impl From<u64> for MetricValue {
    fn from(value: u64) -> MetricValue {
        MetricValue::Whole(value)
    }
}

impl From<bool> for MetricValue {
    fn from(value: bool) -> MetricValue {
        MetricValue::Whole(value.into())
    }
}

impl From<f64> for MetricValue {
    fn from(value: f64) -> MetricValue {
        MetricValue::Real(value)
    }
}

impl From<HistogramValues> for MetricValue {
    fn from(value: HistogramValues) -> MetricValue {
        MetricValue::Histogram(value)
    }
}
