//! Measurements while traffic flows. [`sampler`] takes samples with [`sockets`], [`diagnosis`] says what limits the run,
//! [`disturbance`] measures what other programs took, and [`done`] is a run with all its measurements.

pub(crate) mod diagnosis;
pub(crate) mod disturbance;
pub(crate) mod done;
pub(crate) mod sampler;
pub(crate) mod sockets;

/// Rounds to four significant digits. No measurement is more exact than that.
pub(crate) fn rounded(value: f64) -> f64 {
    let scale = 10f64.powi(3 - value.abs().log10().floor().clamp(-9.0, 3.0) as i32);
    if value == 0.0 || !value.is_finite() { 0.0 } else { (value * scale).round() / scale }
}
