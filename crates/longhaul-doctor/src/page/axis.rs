//! An axis of a chart: its ticks, and the place of a value on the drawing.

/// An axis from 0 to the largest value or a little more.
#[derive(Clone, Copy, Debug)]
pub struct Axis {
    max: f64,
    step: f64,
    from: f64,
    to: f64,
}

impl Axis {
    /// Returns the horizontal axis, which ends at `largest`.
    pub fn across(largest: f64) -> Axis {
        Axis::up_to(largest, LEFT, RIGHT)
    }

    /// Returns the vertical axis, which ends at the tick at or above `largest`, so that the top line has a number.
    pub fn up(largest: f64) -> Axis {
        let axis = Axis::up_to(largest, BOTTOM, TOP);
        Axis { max: (axis.max / axis.step).ceil() * axis.step, ..axis }
    }

    fn up_to(largest: f64, from: f64, to: f64) -> Axis {
        let largest = if largest.is_finite() && largest > 0.0 { largest } else { 1.0 };
        let rough = largest / TICKS;
        let power = 10f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].iter().map(|nice| nice * power).find(|step| *step >= rough * 0.999);
        Axis { max: largest, step: step.unwrap_or(10.0 * power), from, to }
    }

    /// Returns the place of `value` on the drawing.
    pub(super) fn place(&self, value: f64) -> f64 {
        self.from + (self.to - self.from) * value / self.max
    }

    /// Returns the values with a tick, and their text.
    pub(super) fn ticks(&self) -> Vec<(f64, String)> {
        let digits = (-self.step.log10().floor()).clamp(0.0, 6.0) as usize;
        let count = (self.max / self.step + 0.001).floor() as u32;
        let value = |index: u32| f64::from(index) * self.step;
        (0..=count).map(|index| (value(index), format!("{:.digits$}", value(index)))).collect()
    }
}

pub(super) const WIDTH: f64 = 560.0;
pub(super) const HEIGHT: f64 = 270.0;
pub(super) const LEFT: f64 = 56.0;
pub(super) const RIGHT: f64 = 546.0;
const TOP: f64 = 12.0;
pub(super) const BOTTOM: f64 = 222.0;
/// Maximum number of steps on an axis.
const TICKS: f64 = 5.0;

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(largest: f64) -> Vec<String> {
        Axis::up(largest).ticks().into_iter().map(|(_, text)| text).collect()
    }

    #[test]
    fn ticks_are_round_and_cover_the_largest() {
        assert_eq!(labels(33.3), ["0", "10", "20", "30", "40"]);
        assert_eq!(labels(120.0), ["0", "50", "100", "150"]);
        assert_eq!(labels(0.55), ["0.0", "0.2", "0.4", "0.6"]);
        assert_eq!(labels(5.0), ["0", "1", "2", "3", "4", "5"]);
        assert_eq!(labels(0.0), ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]);
        assert_eq!(labels(f64::NAN), labels(1.0));
        let axis = Axis::up(33.3);
        assert_eq!((axis.place(0.0), axis.place(40.0)), (BOTTOM, TOP));
    }
}
