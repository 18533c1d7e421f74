//! The cap that holds at a time of the week.

use longhaul_units::Rate;
use std::fmt;

/// A bandwidth cap that may depend on the time of the week.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bandwidth {
    /// The cap outside of every window; `None` means no cap.
    pub rate: Option<Rate>,
    /// Whether each path has a cap of its own below it, which is found by itself, outside of every window.
    pub is_auto: bool,
    /// The first window that holds a time decides on its cap.
    pub schedule: Vec<Window>,
}

/// A part of the week with a cap of its own, in local time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// The first day on which it begins.
    pub first: Weekday,
    /// The last day on which it begins. It may be before `first` in the week: Sat to Mon are three days.
    pub last: Weekday,
    /// The minute of the day at which it begins, 0 to 1439.
    pub from: u16,
    /// The minute of the day before which it ends, 1 to 1440. If it is not after `from`, the window ends on the next
    /// day.
    pub until: u16,
    /// Its cap; `None` means no cap.
    pub rate: Option<Rate>,
    /// Whether each path has a cap of its own below it, which is found by itself.
    pub is_auto: bool,
}

/// A day of the week.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Weekday {
    /// Monday.
    Mon,
    /// Tuesday.
    Tue,
    /// Wednesday.
    Wed,
    /// Thursday.
    Thu,
    /// Friday.
    Fri,
    /// Saturday.
    Sat,
    /// Sunday.
    Sun,
}

impl Bandwidth {
    /// Returns the cap at `minute` (0 to 1439) of `day`.
    pub fn at(&self, day: Weekday, minute: u16) -> Option<Rate> {
        self.window(day, minute).map_or(self.rate, |window| window.rate)
    }

    /// Whether paths have caps of their own at `minute` (0 to 1439) of `day`.
    pub fn is_auto_at(&self, day: Weekday, minute: u16) -> bool {
        self.window(day, minute).map_or(self.is_auto, |window| window.is_auto)
    }

    /// Whether paths have caps of their own at some time of the week.
    pub fn may_be_auto(&self) -> bool {
        self.is_auto || self.schedule.iter().any(|window| window.is_auto)
    }

    fn window(&self, day: Weekday, minute: u16) -> Option<&Window> {
        self.schedule.iter().find(|window| window.holds(day, minute))
    }

    /// Whether there is a cap at some time of the week.
    pub fn is_capped(&self) -> bool {
        self.rate.is_some() || self.schedule.iter().any(|window| window.rate.is_some())
    }

    /// Returns the windows that never decide, because earlier ones hold all of their times.
    pub fn covered(&self) -> impl Iterator<Item = &Window> {
        let mut decided = vec![false; Weekday::ALL.len() * usize::from(MINUTES_OF_DAY)];
        self.schedule.iter().filter(move |window| {
            let mut decides = false;
            for (is_decided, (day, minute)) in decided.iter_mut().zip(week()) {
                if !*is_decided && window.holds(day, minute) {
                    *is_decided = true;
                    decides = true;
                }
            }
            !decides
        })
    }
}

impl Window {
    /// Whether it holds `minute` (0 to 1439) of `day`.
    pub fn holds(&self, day: Weekday, minute: u16) -> bool {
        match self.from < self.until {
            true => self.begins_on(day) && (self.from..self.until).contains(&minute),
            false => {
                (self.begins_on(day) && minute >= self.from) || (self.begins_on(day.before()) && minute < self.until)
            }
        }
    }

    fn begins_on(&self, day: Weekday) -> bool {
        match self.first <= self.last {
            true => (self.first..=self.last).contains(&day),
            false => day >= self.first || day <= self.last,
        }
    }
}

impl Weekday {
    /// The days of a week, Monday first.
    pub const ALL: [Weekday; 7] =
        [Weekday::Mon, Weekday::Tue, Weekday::Wed, Weekday::Thu, Weekday::Fri, Weekday::Sat, Weekday::Sun];

    /// Returns its name in three letters: `Mon`.
    pub const fn name(self) -> &'static str {
        ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"][self as usize]
    }

    fn before(self) -> Weekday {
        Weekday::ALL[(self as usize + Weekday::ALL.len() - 1) % Weekday::ALL.len()]
    }
}

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.first, self.last) {
            (Weekday::Mon, Weekday::Sun) => {}
            (first, last) if first == last => write!(f, "{} ", first.name())?,
            (first, last) => write!(f, "{}-{} ", first.name(), last.name())?,
        }
        let time = |minute: u16| format!("{:02}:{:02}", minute / 60, minute % 60);
        write!(f, "{}-{} ", time(self.from), time(self.until))?;
        match (self.is_auto, self.rate) {
            (false, Some(rate)) => write!(f, "{rate}"),
            (false, None) => f.write_str("none"),
            (true, Some(rate)) => write!(f, "auto {rate}"),
            (true, None) => f.write_str("auto"),
        }
    }
}

/// Returns every minute of the week.
fn week() -> impl Iterator<Item = (Weekday, u16)> {
    Weekday::ALL.into_iter().flat_map(|day| (0..MINUTES_OF_DAY).map(move |minute| (day, minute)))
}

/// Number of minutes of a day. Days that are an hour longer or shorter have one hour twice or not at all.
pub const MINUTES_OF_DAY: u16 = 1440;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const M200: Option<Rate> = Some(Rate(200_000_000));

    fn window(first: Weekday, last: Weekday, from: u16, until: u16, rate: Option<Rate>) -> Window {
        Window { first, last, from: from * 60, until: until * 60, rate, is_auto: false }
    }

    fn any_window() -> impl Strategy<Value = Window> {
        let day = || (0..7usize).prop_map(|day| Weekday::ALL[day]);
        (day(), day(), 0..MINUTES_OF_DAY, 1..=MINUTES_OF_DAY).prop_map(|(first, last, from, until)| Window {
            first,
            last,
            from,
            until,
            rate: M200,
            is_auto: false,
        })
    }

    #[test]
    fn the_first_window_that_holds_a_time_decides() {
        let schedule = vec![
            window(Weekday::Mon, Weekday::Fri, 8, 18, M200),
            window(Weekday::Sat, Weekday::Sat, 22, 6, None),
            window(Weekday::Mon, Weekday::Sun, 9, 10, Some(Rate(1))),
        ];
        let caps = Bandwidth { rate: Some(Rate(7)), schedule, ..Bandwidth::default() };
        for (day, hour, minute, cap) in [
            (Weekday::Mon, 8, 0, M200),
            (Weekday::Fri, 17, 59, M200),
            (Weekday::Fri, 18, 0, Some(Rate(7))),
            (Weekday::Mon, 7, 59, Some(Rate(7))),
            (Weekday::Wed, 9, 30, M200),
            (Weekday::Sun, 9, 30, Some(Rate(1))),
            (Weekday::Sat, 21, 59, Some(Rate(7))),
            (Weekday::Sat, 22, 0, None),
            (Weekday::Sun, 0, 0, None),
            (Weekday::Sun, 5, 59, None),
            (Weekday::Sun, 6, 0, Some(Rate(7))),
            (Weekday::Sat, 5, 0, Some(Rate(7))),
        ] {
            assert_eq!(caps.at(day, hour * 60 + minute), cap, "{} {hour}:{minute}", day.name());
        }
        assert!(caps.is_capped() && caps.covered().next().is_none());
        let schedule = vec![window(Weekday::Sat, Weekday::Sat, 22, 6, None)];
        let never = Bandwidth { schedule, ..Bandwidth::default() };
        assert!(!never.is_capped());
    }

    #[test]
    fn days_wrap_around_the_week() {
        let weekend = window(Weekday::Sat, Weekday::Mon, 0, 24, None);
        let days = Weekday::ALL.map(|day| weekend.holds(day, 0));
        assert_eq!(days, [true, false, false, false, false, true, true]);
        let night = window(Weekday::Sun, Weekday::Sun, 23, 1, None);
        assert!(night.holds(Weekday::Sun, 1439) && night.holds(Weekday::Mon, 0) && !night.holds(Weekday::Sun, 0));
    }

    #[test]
    fn a_window_behind_others_is_covered() {
        let morning = window(Weekday::Mon, Weekday::Sun, 0, 12, None);
        let evening = window(Weekday::Mon, Weekday::Sun, 12, 24, None);
        let late = window(Weekday::Tue, Weekday::Tue, 11, 13, M200);
        let schedule = vec![morning, late, evening, late];
        let caps = Bandwidth { schedule, ..Bandwidth::default() };
        assert_eq!(caps.covered().collect::<Vec<_>>(), [&late]);
        assert_eq!(late.to_string(), "Tue 11:00-13:00 200Mbit/s");
        assert_eq!(evening.to_string(), "12:00-24:00 none");
    }

    proptest! {
        #[test]
        fn a_covered_window_never_decides(schedule in prop::collection::vec(any_window(), 1..5)) {
            let caps = Bandwidth { rate: None, schedule: schedule.clone(), ..Bandwidth::default() };
            let covered = caps.covered().count();
            let decides = |index: &usize| week().any(|(day, minute)| {
                schedule.iter().position(|window| window.holds(day, minute)) == Some(*index)
            });
            prop_assert_eq!(covered, schedule.len() - (0..schedule.len()).filter(decides).count());
        }

        #[test]
        fn a_window_holds_its_own_length(window in any_window()) {
            let length = u32::from((window.until + MINUTES_OF_DAY - window.from - 1) % MINUTES_OF_DAY) + 1;
            let days = Weekday::ALL.iter().filter(|day| window.begins_on(**day)).count() as u32;
            let held = week().filter(|(day, minute)| window.holds(*day, *minute)).count() as u32;
            prop_assert_eq!(held, days * length);
        }
    }
}
