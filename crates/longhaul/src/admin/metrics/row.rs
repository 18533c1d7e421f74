//! A row of the table of metrics, and the samples that it reads.

use super::scrape::{LegScrape, Scrape};
use crate::admin::figures::{Figure, Unit};
use crate::admin::snapshot::{GainState, HopState, ResourceState, TunnelState, VerifyState};
use longhaul_core::path::limit::Limit;
use longhaul_relay::{COUNTERS, Counter, HistogramValues};
use prometheus_client::metrics::MetricType;
use std::collections::BTreeMap;

/// A metric. It is a gauge unless its row says otherwise.
pub(super) struct Metric {
    /// Its name as OpenMetrics has it: with the unit, and without the suffixes `_total` and `_info`.
    pub(super) name: &'static str,
    pub(super) kind: MetricType,
    /// The labels of each of its samples.
    pub(super) labels: &'static [&'static str],
    /// One sentence.
    pub(super) help: &'static str,
    read: Box<ReadSamples>,
}

type ReadSamples = dyn Fn(&Scrape, &mut Samples) + Send + Sync;

/// The samples of a row.
#[derive(Debug, Default)]
pub(super) struct Samples(pub(super) Vec<MetricSample>);

/// A value, and the values of the row's labels.
#[derive(Debug)]
pub(super) struct MetricSample {
    pub(super) labels: Vec<String>,
    pub(super) value: MetricValue,
}

/// The value that a sample has. Without one, there is no sample.
pub(super) type Value = Option<MetricValue>;

/// The value of a sample.
#[derive(Debug, PartialEq)]
pub(super) enum MetricValue {
    Whole(u64),
    Real(f64),
    Histogram(HistogramValues),
}

impl Metric {
    /// Returns a metric whose samples have these labels. `read` adds them.
    pub(super) fn by(
        labels: &'static [&'static str],
        name: &'static str,
        help: &'static str,
        read: impl Fn(&Scrape, &mut Samples) + Send + Sync + 'static,
    ) -> Metric {
        Metric { name, kind: MetricType::Gauge, labels, help, read: Box::new(read) }
    }

    /// Returns a metric with one sample, of the process.
    pub(super) fn process(name: &'static str, help: &'static str, value: fn(&Scrape) -> Value) -> Metric {
        Metric::by(&[], name, help, move |scrape, out| out.add(&[], value(scrape)))
    }

    /// Returns a metric with a sample for each tunnel.
    pub(super) fn tunnel(
        name: &'static str,
        help: &'static str,
        value: impl Fn(&TunnelState) -> Value + Send + Sync + 'static,
    ) -> Metric {
        Metric::by(&["tunnel"], name, help, move |scrape, out| {
            scrape.snapshot.tunnels.iter().for_each(|tunnel| out.add(&[&tunnel.name], value(tunnel)));
        })
    }

    /// Returns a metric with a sample for each tunnel that has flows with a gain: the sum of a rate of theirs, in bytes per second.
    pub(super) fn gain(name: &'static str, help: &'static str, mbps: fn(&GainState) -> f64) -> Metric {
        Metric::by(&["tunnel"], name, help, move |scrape, out| {
            let mut sums: BTreeMap<&str, f64> = BTreeMap::new();
            for flow in &scrape.snapshot.flows {
                let Some(gain) = &flow.gain else { continue };
                *sums.entry(&flow.tunnel).or_default() += mbps(gain) * 1e6 / 8.0;
            }
            sums.into_iter().for_each(|(tunnel, rate)| out.add(&[tunnel], real(rate)));
        })
    }

    /// Returns a metric with a sample for each tunnel that the daemon verifies.
    pub(super) fn verify(name: &'static str, help: &'static str, value: fn(&VerifyState) -> Value) -> Metric {
        Metric::tunnel(name, help, move |tunnel| tunnel.verify.as_ref().and_then(value))
    }

    /// Returns a metric with a sample for each next hop of each tunnel.
    pub(super) fn hop(
        name: &'static str,
        help: &'static str,
        value: impl Fn(&HopState) -> Value + Send + Sync + 'static,
    ) -> Metric {
        Metric::by(&["tunnel", "next_hop"], name, help, move |scrape, out| {
            for tunnel in &scrape.snapshot.tunnels {
                tunnel.next_hops.iter().for_each(|hop| out.add(&[&tunnel.name, &hop.next_hop], value(hop)));
            }
        })
    }

    /// Returns a metric with a sample for each leg of each tunnel.
    pub(super) fn leg(name: &'static str, help: &'static str, value: fn(&LegScrape) -> Value) -> Metric {
        Metric::by(&["tunnel", "leg"], name, help, move |scrape, out| {
            for tunnel in &scrape.tunnels {
                tunnel.legs.iter().for_each(|leg| out.add(&[&tunnel.name, leg.leg], value(leg)));
            }
        })
    }

    /// Returns a metric with a sample for each limit of each leg of each tunnel, without legs that no look has seen. A thousand tunnels of
    /// which few carry need no series for the others.
    pub(super) fn limits(
        name: &'static str,
        help: &'static str,
        counts: fn(&LegScrape) -> [u64; Limit::ALL.len()],
    ) -> Metric {
        Metric::by(&["tunnel", "leg", "limit"], name, help, move |scrape, out| {
            for tunnel in &scrape.tunnels {
                for leg in tunnel.legs.iter().filter(|leg| leg.was_seen()) {
                    let counts = Limit::ALL.into_iter().zip(counts(leg));
                    counts.for_each(|(limit, count)| out.add(&[&tunnel.name, leg.leg, limit.name()], whole(count)));
                }
            }
        })
    }

    /// Returns a metric with a sample for each kind of resource that has a value: the largest one. Addresses are no labels,
    /// because DNS can bring any number of them in the daemon's life.
    pub(super) fn resource(name: &'static str, help: &'static str, value: fn(&ResourceState) -> Value) -> Metric {
        Metric::by(&["resource"], name, help, move |scrape, out| {
            // The resources of one kind are neighbours.
            for same in scrape.snapshot.resources.chunk_by(|one, next| one.kind == next.kind) {
                let largest =
                    same.iter().filter_map(value).max_by(|one, other| one.number().total_cmp(&other.number()));
                out.add(&[&same[0].kind], largest);
            }
        })
    }

    /// Returns the metric of a counter of tunnels, if it has one of its own.
    pub(super) fn of_counter(counter: &'static Counter) -> Option<Metric> {
        let [name, help] = counter.metric?;
        let kind = if counter.is_gauge() { MetricType::Gauge } else { MetricType::Counter };
        Some(Metric::tunnel(name, help, |tunnel| whole((counter.of)(&tunnel.counters))).of_kind(kind))
    }

    /// Returns the metric that has several counters of each tunnel: those that name it.
    pub(super) fn of_counters(name: &'static str, help: &'static str) -> Metric {
        let samples = COUNTERS.iter().filter_map(|counter| counter.sample.map(|sample| (sample, counter)));
        let ours: Vec<_> = samples.filter(|([metric, _], _)| *metric == name).collect();
        let metric = Metric::by(&["tunnel", "how"], name, help, move |scrape, out| {
            for tunnel in &scrape.snapshot.tunnels {
                ours.iter().for_each(|([_, how], counter)| {
                    out.add(&[&tunnel.name, how], whole((counter.of)(&tunnel.counters)))
                });
            }
        });
        metric.of_kind(MetricType::Counter)
    }

    /// Returns the metric of a figure of next hops, if it has one. Times are in seconds.
    pub(super) fn of_hop(figure: &'static Figure<HopState>) -> Option<Metric> {
        let [name, help] = figure.metric?;
        Some(Metric::hop(name, help, |hop| {
            let value = figure.value(hop)?;
            Some(match figure.unit() {
                Some(Unit::Count) => MetricValue::Whole(value as u64),
                Some(Unit::Milliseconds) => MetricValue::Real(value / 1e3),
                _ => MetricValue::Real(value),
            })
        }))
    }

    /// Changes the type.
    pub(super) fn of_kind(self, kind: MetricType) -> Metric {
        Metric { kind, ..self }
    }

    /// Returns its samples.
    pub(super) fn samples(&self, scrape: &Scrape) -> Samples {
        let mut out = Samples::default();
        (self.read)(scrape, &mut out);
        out
    }

    /// Returns the name without its unit, and the unit.
    pub(super) fn name_and_unit(&self) -> (&'static str, Option<&'static str>) {
        let split = |unit| Some((self.name.strip_suffix(unit)?.strip_suffix('_')?, Some(unit)));
        UNITS.into_iter().find_map(split).unwrap_or((self.name, None))
    }

    /// Returns the name that Prometheus stores and queries use. That of a histogram has further suffixes.
    pub(super) fn stored_name(&self) -> String {
        let suffix = match self.kind {
            MetricType::Counter => "_total",
            MetricType::Info => "_info",
            _ => "",
        };
        format!("{}{suffix}", self.name)
    }
}

impl Samples {
    /// Adds a sample, unless there is no value. `labels` are the values of the row's labels.
    pub(super) fn add(&mut self, labels: &[&str], value: Value) {
        let labels = || labels.iter().map(|label| (*label).into()).collect();
        self.0.extend(value.map(|value| MetricSample { labels: labels(), value }));
    }
}

/// Returns the value of a histogram, unless it has no observation.
pub(super) fn distribution(values: &HistogramValues) -> Value {
    (values.count() > 0).then(|| MetricValue::Histogram(values.clone()))
}

/// Returns the value of a number or of a flag: 1 or 0.
pub(super) fn whole(number: impl Into<u64>) -> Value {
    Some(MetricValue::Whole(number.into()))
}

impl MetricValue {
    /// Returns the number, to compare it. That of a histogram is its sum.
    fn number(&self) -> f64 {
        match self {
            MetricValue::Whole(number) => *number as f64,
            MetricValue::Real(number) => *number,
            MetricValue::Histogram(values) => values.sum,
        }
    }
}

/// Returns the value of a number that need not be whole, if there is one.
pub(super) fn real(number: impl Into<Option<f64>>) -> Value {
    number.into().map(MetricValue::Real)
}

/// The units that a name can end with.
const UNITS: [&str; 3] = ["seconds", "bytes", "bytes_per_second"];
