//! The cap in force, in one sentence, which every view writes.

use super::schedule::{Bandwidth, MINUTES_OF_DAY, Weekday};
use longhaul_units::Rate;
use std::fmt;

/// The cap in force at a time of the week. Its text is such as `cap 120 Mbit/s by the schedule until 18:00, then 200 Mbit/s; 96 % used`.
#[derive(Clone, Debug, PartialEq)]
pub struct InForce {
    /// The cap; `None` means no cap.
    pub rate: Option<Rate>,
    /// Whether each path has a cap of its own below it.
    pub is_auto: bool,
    /// The part of it that one flow has.
    pub share: Option<Share>,
    /// Where it comes from, if not from `bandwidth`: `the schedule`, `flow_bandwidth`.
    pub by: Option<&'static str>,
    /// When another cap holds, which, and whether paths have caps of their own then. `None` if there is no other.
    pub then: Option<(String, Option<Rate>, bool)>,
    /// The rate in use, in bits per second. `None` if it is not known.
    pub used: Option<f64>,
}

/// The part of a cap that a flow has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// The part.
    pub rate: Rate,
    /// Whose cap it is a part of: `the tunnel`, `the daemon`, `the path`.
    pub of: &'static str,
}

impl InForce {
    /// Returns a cap that holds at any time. Without `by`, nobody has written its number.
    pub fn fixed(rate: Rate, by: Option<&'static str>) -> InForce {
        let rate = if by.is_some() { rate } else { rounded(rate) };
        InForce { rate: Some(rate), is_auto: false, share: None, by, then: None, used: None }
    }
}

impl Bandwidth {
    /// Returns the cap in force at `minute` (0 to 1439) of `day`. `None` if there is none at any time of the week.
    pub fn in_force(&self, day: Weekday, minute: u16) -> Option<InForce> {
        let is_scheduled = self.schedule.iter().any(|window| window.holds(day, minute));
        let by = is_scheduled.then_some("the schedule");
        let (rate, is_auto) = (self.at(day, minute), self.is_auto_at(day, minute));
        let force = InForce { rate, is_auto, share: None, by, then: self.then(day, minute), used: None };
        (self.is_capped() || force.then.is_some()).then_some(force)
    }

    /// Returns the time of the next other cap in the week after `minute` of `day`, that cap, and whether paths have caps of their own then.
    fn then(&self, day: Weekday, minute: u16) -> Option<(String, Option<Rate>, bool)> {
        let mut changes: Vec<u16> =
            self.schedule.iter().flat_map(|window| [window.from, window.until % MINUTES_OF_DAY]).chain([0]).collect();
        changes.sort_unstable();
        let cap_at = |day, minute| (self.at(day, minute), self.is_auto_at(day, minute));
        let now = cap_at(day, minute);
        // The same day of the next week is the last one, until this minute.
        let days =
            (0..=Weekday::ALL.len()).map(|ahead| (ahead, Weekday::ALL[(day as usize + ahead) % Weekday::ALL.len()]));
        let mut times = days.flat_map(|(ahead, on)| changes.iter().map(move |at| (ahead, on, *at)));
        let (ahead, on, at) = times.find(|(ahead, on, at)| (*ahead > 0 || *at > minute) && cap_at(*on, *at) != now)?;
        let name = if ahead == 0 { String::new() } else { format!("{} ", on.name()) };
        let (rate, is_auto) = cap_at(on, at);
        Some((format!("{name}{:02}:{:02}", at / 60, at % 60), rate, is_auto))
    }
}

impl fmt::Display for InForce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let InForce { rate, is_auto, share, by, then, used } = self;
        match (share, rate) {
            (Some(Share { rate: part, of }), Some(rate)) => {
                // A share is no more than the whole cap, whose number is as the user wrote it.
                write!(f, "cap {} of {of}'s {}", spaced(rounded(*part).min(*rate)), spaced(*rate))?
            }
            (_, Some(rate)) if !is_auto => write!(f, "cap {}", spaced(*rate))?,
            _ => f.write_str(&words(*rate, *is_auto))?,
        }
        if let Some(by) = by {
            write!(f, " by {by}")?;
        }
        if let Some((time, rate, is_auto)) = then {
            write!(f, " until {time}, then {}", words(*rate, *is_auto))?;
        }
        let cap = share.map(|share| share.rate).or(*rate).filter(|cap| cap.0 > 0);
        match used.zip(cap) {
            Some((used, cap)) => write!(f, "; {:.0} % used", 100.0 * used / cap.0 as f64),
            None => Ok(()),
        }
    }
}

fn words(rate: Option<Rate>, is_auto: bool) -> String {
    match (rate.map(spaced), is_auto) {
        (None, false) => "no cap".into(),
        (Some(rate), false) => rate,
        (None, true) => "a cap for each path".into(),
        (Some(rate), true) => format!("a cap for each path, together {rate} at most"),
    }
}

/// Returns a computed rate as sentences have it, such as `186 Mbit/s`.
pub fn rate_in_words(rate: Rate) -> String {
    spaced(rounded(rate))
}

/// Returns a computed rate with three significant digits. It changes from second to second, so more would say nothing.
fn rounded(Rate(rate): Rate) -> Rate {
    let unit = 10_u64.pow(rate.checked_ilog10().unwrap_or(0).saturating_sub(2));
    Rate(rate.saturating_add(unit / 2) / unit * unit)
}

/// Returns a rate with a blank before its unit, as sentences have it.
fn spaced(rate: Rate) -> String {
    let text = rate.to_string();
    let (number, unit) = text.split_at(text.find(char::is_alphabetic).unwrap_or(text.len()));
    format!("{number} {unit}")
}

#[cfg(test)]
mod tests {
    use super::super::schedule::Window;
    use super::*;
    use proptest::prelude::*;

    const fn mbit(rate: u64) -> Option<Rate> {
        Some(Rate(rate * 1_000_000))
    }

    fn window(first: Weekday, last: Weekday, from: u16, until: u16, rate: Option<Rate>) -> Window {
        Window { first, last, from: from * 60, until: until * 60, rate, is_auto: false }
    }

    #[test]
    fn the_sentence_says_which_cap_holds_until_when_and_what_comes_then() {
        let office = window(Weekday::Mon, Weekday::Fri, 8, 18, mbit(120));
        let weekend = window(Weekday::Sat, Weekday::Sun, 0, 24, None);
        let caps = Bandwidth { rate: mbit(200), schedule: vec![office, weekend], ..Bandwidth::default() };
        let said = |day, hour: u16, used| InForce { used, ..caps.in_force(day, hour * 60).unwrap() }.to_string();
        for (day, hour, used, want) in [
            (Weekday::Mon, 8, Some(115.2e6), "cap 120 Mbit/s by the schedule until 18:00, then 200 Mbit/s; 96 % used"),
            (Weekday::Mon, 18, Some(0.0), "cap 200 Mbit/s until Tue 08:00, then 120 Mbit/s; 0 % used"),
            (Weekday::Fri, 19, None, "cap 200 Mbit/s until Sat 00:00, then no cap"),
            (Weekday::Sat, 1, Some(1e6), "no cap by the schedule until Mon 00:00, then 200 Mbit/s"),
        ] {
            assert_eq!(said(day, hour, used), want);
        }
        let part = Share { rate: Rate(12_500_000), of: "the tunnel" };
        let of_flow = InForce { share: Some(part), used: Some(12e6), ..caps.in_force(Weekday::Mon, 600).unwrap() };
        let want = "cap 12.5 Mbit/s of the tunnel's 120 Mbit/s by the schedule until 18:00, then 200 Mbit/s; 96 % used";
        assert_eq!(of_flow.to_string(), want);
        assert_eq!(
            InForce::fixed(Rate(40_000_000), Some("flow_bandwidth")).to_string(),
            "cap 40 Mbit/s by flow_bandwidth"
        );
    }

    #[test]
    fn the_sentence_says_when_paths_have_caps_of_their_own() {
        let office = window(Weekday::Mon, Weekday::Sun, 8, 18, mbit(200));
        let mut caps = Bandwidth { is_auto: true, schedule: vec![office], ..Bandwidth::default() };
        let said = |caps: &Bandwidth, hour: u16| caps.in_force(Weekday::Mon, hour * 60).map(|force| force.to_string());
        assert_eq!(said(&caps, 19).unwrap(), "a cap for each path until Tue 08:00, then 200 Mbit/s");
        assert_eq!(said(&caps, 9).unwrap(), "cap 200 Mbit/s by the schedule until 18:00, then a cap for each path");
        caps.rate = mbit(500);
        assert_eq!(
            said(&caps, 0).unwrap(),
            "a cap for each path, together 500 Mbit/s at most until 08:00, then 200 Mbit/s"
        );
        caps.schedule[0] = Window { rate: mbit(500), ..office };
        let want = "cap 500 Mbit/s by the schedule until 18:00, then a cap for each path, together 500 Mbit/s at most";
        assert_eq!(said(&caps, 9).unwrap(), want);
        caps.schedule.clear();
        caps.rate = None;
        assert_eq!(said(&caps, 9), None, "the paths say it");
    }

    #[test]
    fn a_computed_cap_has_three_digits_and_a_written_one_all_of_them() {
        let of = |part, rate| {
            let share = Some(Share { rate: Rate(part), of: "the tunnel" });
            InForce { share, ..InForce::fixed(Rate(rate), Some("the schedule")) }.to_string()
        };
        for (part, rate, want) in [
            (119_873_416, 200_000_000, "cap 120 Mbit/s of the tunnel's 200 Mbit/s by the schedule"),
            (12_345_678, 155_520_000, "cap 12.3 Mbit/s of the tunnel's 155.52 Mbit/s by the schedule"),
            (155_519_992, 155_520_000, "cap 155.52 Mbit/s of the tunnel's 155.52 Mbit/s by the schedule"),
            (999_600, 8_000_000, "cap 1 Mbit/s of the tunnel's 8 Mbit/s by the schedule"),
            (8, 8_000_000, "cap 8 bit/s of the tunnel's 8 Mbit/s by the schedule"),
        ] {
            assert_eq!(of(part, rate), want);
        }
        assert_eq!(InForce::fixed(Rate(119_873_416), None).to_string(), "cap 120 Mbit/s");
        assert_eq!(
            InForce::fixed(Rate(2_048_000), Some("flow_bandwidth")).to_string(),
            "cap 2.048 Mbit/s by flow_bandwidth"
        );
        for rate in [0, 1, 999, 1_000, u64::MAX] {
            let Rate(near) = rounded(Rate(rate));
            assert!(near.abs_diff(rate) <= rate / 200, "{rate}: {near}");
        }
    }

    #[test]
    fn a_cap_that_never_changes_has_no_end_and_no_cap_is_no_sentence() {
        let always = |rate| Bandwidth {
            rate,
            schedule: vec![window(Weekday::Mon, Weekday::Sun, 8, 18, mbit(8))],
            ..Bandwidth::default()
        };
        assert_eq!(always(mbit(8)).in_force(Weekday::Mon, 0).unwrap().to_string(), "cap 8 Mbit/s");
        assert_eq!(always(mbit(8)).in_force(Weekday::Mon, 540).unwrap().to_string(), "cap 8 Mbit/s by the schedule");
        assert_eq!(Bandwidth::default().in_force(Weekday::Mon, 0), None);
        // One window a week: the next change may be a week ahead.
        let once = Bandwidth {
            rate: None,
            schedule: vec![window(Weekday::Wed, Weekday::Wed, 9, 10, mbit(8))],
            ..Bandwidth::default()
        };
        let said = |minute| once.in_force(Weekday::Wed, minute).unwrap().to_string();
        assert_eq!(said(540), "cap 8 Mbit/s by the schedule until 10:00, then no cap");
        assert_eq!(said(600), "no cap until Wed 09:00, then 8 Mbit/s");
    }

    proptest! {
        #[test]
        fn the_end_is_the_first_minute_with_another_cap(
            windows in prop::collection::vec((0..7usize, 0..7usize, 0..MINUTES_OF_DAY, 1..=MINUTES_OF_DAY, 0..3u64), 0..4),
            day in 0..7usize,
            minute in 0..MINUTES_OF_DAY,
        ) {
            let window = |(first, last, from, until, rate): (usize, usize, u16, u16, u64)| {
                let [first, last] = [first, last].map(|day| Weekday::ALL[day]);
                Window { first, last, from, until, rate: mbit(rate).filter(|rate| rate.0 > 0), is_auto: false }
            };
            let schedule = windows.into_iter().map(window).collect();
            let caps = Bandwidth { rate: mbit(1), schedule, ..Bandwidth::default() };
            let now = caps.at(Weekday::ALL[day], minute);
            let times = (1..=7 * u32::from(MINUTES_OF_DAY)).map(|ahead| {
                let at = u32::from(minute) + ahead;
                let on = Weekday::ALL[(day + (at / u32::from(MINUTES_OF_DAY)) as usize) % 7];
                (on, (at % u32::from(MINUTES_OF_DAY)) as u16)
            });
            let want = times.map(|(on, at)| (on, at, caps.at(on, at))).find(|(_, _, rate)| *rate != now);
            let found = caps.then(Weekday::ALL[day], minute);
            prop_assert_eq!(found.is_some(), want.is_some());
            if let (Some((time, rate, _)), Some((on, at, wanted))) = (found, want) {
                prop_assert_eq!(rate, wanted);
                let clock = format!("{:02}:{:02}", at / 60, at % 60);
                prop_assert!(time == clock || time == format!("{} {clock}", on.name()), "{} {}", time, clock);
            }
        }
    }
}
