//! A histogram whose buckets are counted by plain atomics, so that data workers may observe and views may read.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A histogram of whole numbers.
#[derive(Debug)]
pub(super) struct Histogram {
    scale: &'static Scale,
    /// Observations of each bucket, and last those above every bound.
    counts: Box<[AtomicU64]>,
    sum: AtomicU64,
}

/// The unit and the buckets of a histogram.
#[derive(Debug)]
pub(super) struct Scale {
    /// Number of observed steps in one base unit: 1e6 for µs shown as seconds.
    pub(super) steps_per_unit: f64,
    /// Upper bounds of the buckets, inclusive, in steps.
    pub(super) bounds: &'static [u64],
}

/// A histogram at one moment, in base units.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HistogramValues {
    /// Upper bound of each bucket, the last infinite, and the number of its observations.
    pub buckets: Vec<Bucket>,
    /// Sum of all observations.
    pub sum: f64,
}

/// A bucket of a histogram.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bucket {
    /// Upper bound, inclusive, in base units.
    pub bound: f64,
    /// Number of observations between the bound of the previous bucket and this one.
    pub count: u64,
}

impl Histogram {
    /// Returns an empty histogram.
    pub(super) fn new(scale: &'static Scale) -> Histogram {
        let counts = scale.bounds.iter().map(|_| AtomicU64::new(0)).chain([AtomicU64::new(0)]).collect();
        Histogram { scale, counts, sum: AtomicU64::new(0) }
    }

    /// Counts a value, in steps.
    pub(super) fn observe(&self, value: u64) {
        let bucket = self.scale.bounds.partition_point(|bound| *bound < value);
        self.counts[bucket].fetch_add(1, Relaxed);
        self.sum.fetch_add(value, Relaxed);
    }

    /// Returns the histogram in base units.
    pub(super) fn values(&self) -> HistogramValues {
        let bounds = self.scale.bounds.iter().map(|bound| *bound as f64 / self.scale.steps_per_unit);
        let counts = self.counts.iter().map(|count| count.load(Relaxed));
        let buckets = bounds.chain([f64::INFINITY]).zip(counts).map(|(bound, count)| Bucket { bound, count }).collect();
        HistogramValues { buckets, sum: self.sum.load(Relaxed) as f64 / self.scale.steps_per_unit }
    }
}

impl HistogramValues {
    /// Returns the number of observations.
    pub fn count(&self) -> u64 {
        self.buckets.iter().map(|bucket| bucket.count).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_in_the_bucket_whose_bound_it_does_not_exceed() {
        static SCALE: Scale = Scale { steps_per_unit: 1e3, bounds: &[10, 1000] };
        let histogram = Histogram::new(&SCALE);
        [0, 10, 11, 1000, 1001, 1_000_000].into_iter().for_each(|value| histogram.observe(value));
        let values = histogram.values();
        let found: Vec<_> = values.buckets.iter().map(|bucket| (bucket.bound, bucket.count)).collect();
        assert_eq!(found, [(0.01, 2), (1.0, 2), (f64::INFINITY, 2)]);
        assert_eq!((values.count(), values.sum), (6, 1002.022));
    }
}
