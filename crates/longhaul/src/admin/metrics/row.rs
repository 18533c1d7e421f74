//! A row of the table of metrics, and the samples that it reads.

use super::figures::{Figures, OfLeg};
use crate::admin::snapshot::{HopState, ResourceState, TunnelState, VerifyState};
use longhaul_relay::HistogramValues;

/// A metric.
pub(super) struct Row {
    /// Its name as OpenMetrics has it: with the unit, and without the suffixes `_total` and `_info`.
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    pub(super) unit: Option<&'static str>,
    /// The labels of each of its samples.
    pub(super) labels: &'static [&'static str],
    /// One sentence.
    pub(super) help: &'static str,
    /// Reads its samples.
    pub(super) read: fn(&Figures, &mut Samples),
}

/// The type of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// It only grows, and begins at 0 with the process or the tunnel.
    Counter,
    Gauge,
    Histogram,
    /// It is always 1; its labels are the information.
    Info,
}

/// The samples of a row.
#[derive(Debug, Default)]
pub(super) struct Samples(pub(super) Vec<Sample>);

/// A value, and the values of the row's labels.
#[derive(Debug)]
pub(super) struct Sample {
    pub(super) labels: Vec<String>,
    pub(super) value: Value,
}

/// The value of a sample.
#[derive(Debug)]
pub(super) enum Value {
    Whole(u64),
    Real(f64),
    Histogram(HistogramValues),
}

impl Row {
    /// Returns a counter without a unit.
    pub(super) const fn counter(name: &'static str, help: &'static str, read: fn(&Figures, &mut Samples)) -> Row {
        Row { name, kind: Kind::Counter, unit: None, labels: &[], help, read }
    }

    /// Returns a gauge without a unit.
    pub(super) const fn gauge(name: &'static str, help: &'static str, read: fn(&Figures, &mut Samples)) -> Row {
        Row { name, kind: Kind::Gauge, unit: None, labels: &[], help, read }
    }

    /// Adds the labels.
    pub(super) const fn by(self, labels: &'static [&'static str]) -> Row {
        Row { labels, ..self }
    }

    /// Adds the unit, which the name ends with.
    pub(super) const fn in_unit(self, unit: &'static str) -> Row {
        Row { unit: Some(unit), ..self }
    }

    /// Changes the type.
    pub(super) const fn of_kind(self, kind: Kind) -> Row {
        Row { kind, ..self }
    }

    /// Returns the name that Prometheus stores and queries use. That of a histogram has further suffixes.
    pub(super) fn stored_name(&self) -> String {
        let suffix = match self.kind {
            Kind::Counter => "_total",
            Kind::Info => "_info",
            Kind::Gauge | Kind::Histogram => "",
        };
        format!("{}{suffix}", self.name)
    }
}

impl Samples {
    /// Adds a sample. `labels` are the values of the row's labels.
    pub(super) fn add(&mut self, labels: &[&str], value: impl Into<Value>) {
        let labels = labels.iter().map(|label| (*label).into()).collect();
        self.0.push(Sample { labels, value: value.into() });
    }

    /// Adds a sample for each tunnel.
    pub(super) fn tunnels<V: Into<Value>>(&mut self, figures: &Figures, value: impl Fn(&TunnelState) -> V) {
        figures.snapshot.tunnels.iter().for_each(|tunnel| self.add(&[&tunnel.name], value(tunnel)));
    }

    /// Adds a sample for each next hop of each tunnel that has a value.
    pub(super) fn hops<V: Into<Value>>(&mut self, figures: &Figures, value: impl Fn(&HopState) -> Option<V>) {
        for tunnel in &figures.snapshot.tunnels {
            for hop in &tunnel.next_hops {
                value(hop).into_iter().for_each(|value| self.add(&[&tunnel.name, &hop.next_hop], value));
            }
        }
    }

    /// Adds a sample for each tunnel that the daemon verifies and that has a value.
    pub(super) fn verified<V: Into<Value>>(&mut self, figures: &Figures, value: impl Fn(&VerifyState) -> Option<V>) {
        for tunnel in &figures.snapshot.tunnels {
            let value = tunnel.verify.as_ref().and_then(&value);
            value.into_iter().for_each(|value| self.add(&[&tunnel.name], value));
        }
    }

    /// Adds a sample for each kind of resource that has a value: the largest one. Addresses are no labels, because DNS can
    /// bring any number of them in the daemon's life.
    pub(super) fn resources<V: Into<Value> + PartialOrd>(
        &mut self,
        figures: &Figures,
        value: impl Fn(&ResourceState) -> Option<V>,
    ) {
        let mut largest: Vec<(&str, V)> = Vec::new();
        for resource in &figures.snapshot.resources {
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
    pub(super) fn legs<V: Into<Value>>(&mut self, figures: &Figures, value: impl Fn(&OfLeg) -> V) {
        for tunnel in &figures.tunnels {
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

impl From<u64> for Value {
    fn from(value: u64) -> Value {
        Value::Whole(value)
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Value {
        Value::Whole(value.into())
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Value {
        Value::Real(value)
    }
}

impl From<HistogramValues> for Value {
    fn from(value: HistogramValues) -> Value {
        Value::Histogram(value)
    }
}
