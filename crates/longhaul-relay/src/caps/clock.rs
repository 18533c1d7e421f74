//! The time of the week on this machine.

use longhaul_core::caps::Weekday;

/// A minute of the week, in local time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WeekTime {
    /// The day.
    pub(super) day: Weekday,
    /// The minute of the day, 0 to 1439.
    pub(super) minute: u16,
}

/// Returns the time of the week. The time zone is that of the environment variable TZ or of /etc/localtime; without
/// both it is UTC.
pub(super) fn local_time() -> WeekTime {
    let now = jiff::Zoned::now();
    let days = usize::from(now.weekday().to_monday_zero_offset().unsigned_abs());
    let minute = u16::from(now.hour().unsigned_abs()) * 60 + u16::from(now.minute().unsigned_abs());
    WeekTime { day: Weekday::ALL[days % Weekday::ALL.len()], minute }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_agrees_with_date() {
        // The minute may pass between two readings, so date(1) runs before and after.
        let date = || {
            let out = std::process::Command::new("date").args(["+%a %H:%M"]).env("LC_ALL", "C").output().unwrap();
            String::from_utf8(out.stdout).unwrap().trim().to_string()
        };
        let before = date();
        let WeekTime { day, minute } = local_time();
        let ours = format!("{} {:02}:{:02}", day.name(), minute / 60, minute % 60);
        assert!([before, date()].contains(&ours), "{ours}");
    }
}
