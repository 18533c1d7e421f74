//! The time that the relays have saved the flows of a tunnel.

use crate::lock::lock;
use jiff::civil::Date;
use serde::{Deserialize, Serialize};
use std::sync::Mutex;
use std::time::Duration;

/// The time saved, of a tunnel. It lives as long as the tunnel's counters.
#[derive(Debug, Default)]
pub(crate) struct SavedTime(Mutex<Saved>);

#[derive(Debug, Default)]
struct Saved {
    all: Duration,
    /// The time saved on the day of the last call.
    today: Duration,
    day: Option<Date>,
}

/// The time saved as views show it, in hours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SavedHours {
    /// Since midnight, in the local time of the daemon.
    pub today: f64,
    /// Since the start.
    pub all: f64,
}

impl SavedTime {
    /// Adds time that a flow has just saved.
    pub(crate) fn add(&self, time: Duration) {
        if !time.is_zero() {
            self.add_on(today(), time);
        }
    }

    /// Returns the time saved.
    pub(crate) fn hours(&self) -> SavedHours {
        self.hours_on(today())
    }

    fn add_on(&self, day: Date, time: Duration) {
        let mut saved = lock(&self.0);
        saved.all += time;
        saved.today = saved.on(day) + time;
        saved.day = Some(day);
    }

    fn hours_on(&self, day: Date) -> SavedHours {
        let saved = lock(&self.0);
        let hours = |time: Duration| time.as_secs_f64() / 3600.0;
        SavedHours { today: hours(saved.on(day)), all: hours(saved.all) }
    }
}

impl Saved {
    fn on(&self, day: Date) -> Duration {
        if self.day == Some(day) { self.today } else { Duration::ZERO }
    }
}

/// Returns the day in the time zone of the environment variable TZ or of /etc/localtime; without both it is UTC.
fn today() -> Date {
    jiff::Zoned::now().date()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    #[test]
    fn a_day_ends_at_midnight_and_the_sum_stays() {
        let (monday, tuesday) = (Date::constant(2026, 11, 30), Date::constant(2026, 12, 1));
        let saved = SavedTime::default();
        saved.add_on(monday, HOUR);
        saved.add_on(monday, 2 * HOUR);
        assert_eq!(saved.hours_on(monday), SavedHours { today: 3.0, all: 3.0 });
        assert_eq!(saved.hours_on(tuesday), SavedHours { today: 0.0, all: 3.0 });
        saved.add_on(tuesday, HOUR);
        assert_eq!(saved.hours_on(tuesday), SavedHours { today: 1.0, all: 4.0 });
    }
}
