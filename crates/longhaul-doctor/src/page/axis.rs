//! An axis of a chart: its ticks, and the place of a value on the drawing.

/// An axis of a chart, linear or logarithmic.
#[derive(Clone, Copy, Debug)]
pub struct Axis {
    scale: Scale,
    min: f64,
    max: f64,
    from: f64,
    to: f64,
}

#[derive(Clone, Copy, Debug)]
enum Scale {
    /// With a tick at each multiple of `step`.
    Linear { step: f64 },
    /// With a tick at each power of ten, whose text is that of `show`.
    Logarithmic { show: fn(f64) -> String },
}

impl Axis {
    /// Returns the horizontal axis from 0 to `largest`.
    pub fn across(largest: f64) -> Axis {
        Axis::up_to(largest, LEFT, RIGHT)
    }

    /// Returns the horizontal axis from `least` to `largest`, for values that differ by less than they are.
    pub fn between(least: f64, largest: f64) -> Axis {
        // Values that are all the same have some width, too.
        let width = Axis::up_to((largest - least).max(least / 1e3), LEFT, RIGHT);
        Axis { min: least, max: least + width.max, ..width }
    }

    /// Returns the vertical axis from 0 to the tick at or above `largest`, so that the top line has a number.
    pub fn up(largest: f64) -> Axis {
        let axis = Axis::up_to(largest, BOTTOM, TOP);
        match axis.scale {
            Scale::Linear { step } => Axis { max: (axis.max / step).ceil() * step, ..axis },
            Scale::Logarithmic { .. } => axis,
        }
    }

    /// Returns the logarithmic horizontal axis from `least` to `largest`, both above 0. `show` writes the number at a tick.
    pub fn logarithmic_across(least: f64, largest: f64, show: fn(f64) -> String) -> Axis {
        Axis { scale: Scale::Logarithmic { show }, min: least, max: largest, from: LEFT, to: RIGHT }
    }

    /// Returns the logarithmic vertical axis from `least` to `largest`, both above 0. `show` writes the number at a tick.
    pub fn logarithmic_up(least: f64, largest: f64, show: fn(f64) -> String) -> Axis {
        Axis { scale: Scale::Logarithmic { show }, min: least, max: largest, from: BOTTOM, to: TOP }
    }

    fn up_to(largest: f64, from: f64, to: f64) -> Axis {
        let largest = if largest.is_finite() && largest > 0.0 { largest } else { 1.0 };
        let rough = largest / TICKS;
        let power = 10f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].iter().map(|nice| nice * power).find(|step| *step >= rough * 0.999);
        Axis { scale: Scale::Linear { step: step.unwrap_or(10.0 * power) }, min: 0.0, max: largest, from, to }
    }

    /// Returns the place of `value` on the drawing. A logarithmic axis has a value outside it at its end.
    pub(super) fn place(&self, value: f64) -> f64 {
        let length = self.to - self.from;
        match self.scale {
            Scale::Linear { .. } => self.from + length * (value - self.min) / (self.max - self.min),
            Scale::Logarithmic { .. } => {
                let decades = |value: f64| (value / self.min).log10();
                self.from + length * decades(value.clamp(self.min, self.max)) / decades(self.max)
            }
        }
    }

    /// Returns `count` values at equal distances on the drawing, from one end of the axis to the other.
    pub(super) fn samples(&self, count: u32) -> impl Iterator<Item = f64> + use<> {
        let Axis { scale, min, max, .. } = *self;
        (0..count).map(move |index| {
            let share = f64::from(index) / f64::from(count - 1);
            match scale {
                Scale::Linear { .. } => min + (max - min) * share,
                Scale::Logarithmic { .. } => min * (max / min).powf(share),
            }
        })
    }

    /// Returns the values with a tick, and their text, which is empty where the one before needs the room.
    pub(super) fn ticks(&self) -> Vec<(f64, String)> {
        match self.scale {
            Scale::Linear { step } => self.multiples(step),
            Scale::Logarithmic { show } => self.powers(show),
        }
    }

    /// Returns the values with a small tick: of a logarithmic axis, 2 to 9 times each power of ten.
    pub(super) fn small_ticks(&self) -> Vec<f64> {
        match self.scale {
            Scale::Linear { .. } => Vec::new(),
            Scale::Logarithmic { .. } => {
                let all = self.decades(-1).flat_map(|power| (2..10).map(move |times| f64::from(times) * power));
                all.filter(|value| (self.min..=self.max).contains(value)).collect()
            }
        }
    }

    /// Whether the axis is logarithmic.
    pub(super) fn is_logarithmic(&self) -> bool {
        matches!(self.scale, Scale::Logarithmic { .. })
    }

    fn multiples(&self, step: f64) -> Vec<(f64, String)> {
        let digits = (-step.log10().floor()).clamp(0.0, 6.0) as usize;
        let first = (self.min / step - 0.001).ceil() as u32;
        let last = (self.max / step + 0.001).floor() as u32;
        let value = |index: u32| f64::from(index) * step;
        (first..=last).map(|index| (value(index), format!("{:.digits$}", value(index)))).collect()
    }

    fn powers(&self, show: fn(f64) -> String) -> Vec<(f64, String)> {
        let powers: Vec<f64> = self.decades(0).collect();
        let room = (self.to - self.from).abs() / (self.max / self.min).log10();
        let every = (LABEL_ROOM / room).ceil().max(1.0) as usize;
        let text = |(index, power): (usize, f64)| (power, if index % every == 0 { show(power) } else { String::new() });
        powers.into_iter().enumerate().map(text).collect()
    }

    /// Returns the powers of ten on the axis, and `more` before them.
    fn decades(&self, more: i32) -> impl Iterator<Item = f64> + use<> {
        // A little less, because the logarithm of a power of ten may be a little more than whole.
        let first = (self.min.log10() - 1e-9).ceil() as i32 + more;
        let last = (self.max.log10() + 1e-9).floor() as i32;
        (first..=last).map(|exponent| 10f64.powi(exponent))
    }
}

/// Returns a power of ten as a number at a tick: `0.01`, `100`, `10k`.
pub fn power(value: f64) -> String {
    match value {
        value if value > 9e5 => format!("{:.0}M", value / 1e6),
        value if value > 9e3 => format!("{:.0}k", value / 1e3),
        value => format!("{}", (value * 1e9).round() / 1e9),
    }
}

pub(super) const WIDTH: f64 = 560.0;
pub(super) const HEIGHT: f64 = 270.0;
pub(super) const LEFT: f64 = 56.0;
pub(super) const RIGHT: f64 = 546.0;
pub(super) const TOP: f64 = 12.0;
pub(super) const BOTTOM: f64 = 222.0;
/// Maximum number of steps on a linear axis.
const TICKS: f64 = 5.0;
/// Distance of numbers on a logarithmic axis, also with the large letters of a narrow screen.
const LABEL_ROOM: f64 = 22.0;

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(axis: Axis) -> Vec<String> {
        axis.ticks().into_iter().map(|(_, text)| text).collect()
    }

    fn number(value: f64) -> String {
        format!("{value:.2}")
    }

    #[test]
    fn ticks_are_round_and_cover_the_largest() {
        let labels = |largest| labels(Axis::up(largest));
        assert_eq!(labels(33.3), ["0", "10", "20", "30", "40"]);
        assert_eq!(labels(120.0), ["0", "50", "100", "150"]);
        assert_eq!(labels(0.55), ["0.0", "0.2", "0.4", "0.6"]);
        assert_eq!(labels(5.0), ["0", "1", "2", "3", "4", "5"]);
        assert_eq!(labels(0.0), ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]);
        assert_eq!(labels(f64::NAN), labels(1.0));
        let axis = Axis::up(33.3);
        assert_eq!((axis.place(0.0), axis.place(40.0)), (BOTTOM, TOP));
    }

    #[test]
    fn an_axis_may_begin_above_zero() {
        let axis = Axis::between(63.1, 71.3);
        assert_eq!(labels(axis), ["64", "66", "68", "70"]);
        assert_eq!((axis.place(63.1), axis.place(71.3)), (LEFT, RIGHT));
        assert_eq!(labels(Axis::between(63.0, 63.0)), ["63.00", "63.02", "63.04", "63.06"], "all values are the same");
    }

    #[test]
    fn a_logarithmic_axis_has_the_powers_of_ten() {
        let axis = Axis::logarithmic_up(0.05, 200.0, number);
        assert_eq!(labels(axis), ["0.10", "1.00", "10.00", "100.00"]);
        assert_eq!((axis.place(0.05), axis.place(200.0)), (BOTTOM, TOP));
        assert_eq!((axis.place(0.0), axis.place(f64::INFINITY)), (BOTTOM, TOP), "outside");
        let steps: Vec<f64> =
            [0.1, 1.0, 10.0, 100.0].map(|value| axis.place(value)).windows(2).map(|w| w[0] - w[1]).collect();
        assert!(steps.iter().all(|step| (step - steps[0]).abs() < 1e-9 && *step > 0.0), "{steps:?}");
        let small = axis.small_ticks();
        assert_eq!((small.len(), small.first(), small.last()), (5 + 8 * 3 + 1, Some(&0.05), Some(&200.0)));
        // Ends at powers of ten have their tick.
        assert_eq!(labels(Axis::logarithmic_across(1.0, 1000.0, number)).len(), 4);
    }

    #[test]
    fn numbers_that_would_overlap_are_left_out() {
        let shown = labels(Axis::logarithmic_up(1e-6, 1e6, |value| format!("{value:e}")));
        assert_eq!(shown.len(), 13);
        assert_eq!(shown[..4], ["1e-6", "", "1e-4", ""]);
    }

    #[test]
    fn samples_are_at_equal_distances() {
        for axis in [Axis::across(30.0), Axis::logarithmic_across(1.0, 1000.0, number)] {
            let places: Vec<f64> = axis.samples(8).map(|value| axis.place(value)).collect();
            assert!(places.windows(2).all(|pair| (pair[1] - pair[0] - 70.0).abs() < 1e-9), "{places:?}");
        }
    }
}
