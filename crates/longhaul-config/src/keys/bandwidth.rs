//! The keys of a tunnel about bandwidth, and what they have in common with those of the daemon.

use crate::options::Leg;
use crate::remark::{Remark, Syntax};
use crate::row::{Argument, Flag, KeyDefault, KeyValue, Row, no_line};
use crate::suggest;
use crate::tunnel::Tunnel;
use crate::value;
use longhaul_core::caps::{Bandwidth, MINUTES_OF_DAY, Weekday, Window};
use longhaul_units::Rate;

/// The keys of a tunnel about bandwidth, in the order of the manual.
pub(super) const ROWS: &[Row<Tunnel>] = &[
    Row {
        name: "bandwidth",
        default: KeyDefault::Words("no cap"),
        example: "\"200Mbit/s\"",
        flag: Some(Flag {
            name: "bandwidth",
            argument: Argument::Named("RATE"),
            short: "Cap of all flows, or auto",
            long: "Payload that the relay sends for all flows together, in each direction, such as 200Mbit/s. The flows share it \
                   fairly, and a flow that wants less leaves the rest to the others. `auto` finds a cap for each WAN path by \
                   itself, a little below its line's rate, so that the line's queue stays short; write it on both relays. `auto \
                   500Mbit/s` keeps all paths together below that.",
        }),
        value: KeyValue::One(|tunnel, text| cap(&mut tunnel.bandwidth, text)),
        show: |tunnel| show(&tunnel.bandwidth).map(|cap| format!("bandwidth in each direction: {cap}")),
        check: |tunnel, syntax| {
            let mut remarks = unpaced(&tunnel.bandwidth, tunnel);
            remarks.extend(auto_of_tunnel(tunnel, syntax));
            remarks
        },
        doc: "Cap of all flows of the tunnel together, for the payload that is sent in each direction, 1 Mbit/s to 1000 Gbit/s. \
              See [Limiting the bandwidth](operations.md#limiting-the-bandwidth). In a file, only the daemon's `bandwidth` can be \
              `auto`.",
    },
    Row {
        name: "bandwidth_schedule",
        default: KeyDefault::Words("none"),
        example: "[\"Mon-Fri 08:00-18:00 200Mbit/s\", \"Sat 22:00-06:00 none\"]",
        flag: None, // its name would not fit beside the short help
        value: KeyValue::Several {
            add: |tunnel, text| window(text).map(|window| tunnel.bandwidth.schedule.push(window)),
            empty: "it is empty; write a window such as \"Mon-Fri 08:00-18:00 200Mbit/s\", or leave the key out",
        },
        // `bandwidth` shows it.
        show: no_line,
        check: |tunnel, _| without_effect(&tunnel.bandwidth),
        doc: "Windows of the week in which another cap holds than `bandwidth`: days, times and rate, in local time. `none` \
              means no cap. Without days, the window is for every day. A window may pass midnight. The first window that holds \
              the time decides. Outside of all windows, `bandwidth` holds.",
    },
    Row {
        name: "flow_bandwidth",
        default: KeyDefault::Words("no cap"),
        example: "\"50Mbit/s\"",
        flag: Some(Flag {
            name: "flow-bandwidth",
            argument: Argument::Named("RATE"),
            short: "Cap of each flow",
            long: "Payload that the relay sends for one flow in each direction, such as 50Mbit/s.",
        }),
        value: KeyValue::One(|tunnel, text| rate(text).map(|rate| tunnel.flow_bandwidth = Some(rate))),
        show: |tunnel| tunnel.flow_bandwidth.map(|cap| format!("bandwidth of a flow in each direction: {cap}")),
        check: |tunnel, _| match tunnel.flow_bandwidth {
            Some(_) => unpaced_by(tunnel, "flow_bandwidth"),
            None => Vec::new(),
        },
        doc: "Cap of each flow, for the payload that is sent in each direction, 1 Mbit/s to 1000 Gbit/s.",
    },
    Row {
        name: "priority",
        default: KeyDefault::Value("\"normal\""),
        example: "\"background\"",
        flag: Some(Flag {
            name: "priority",
            argument: Argument::Named("PRIORITY"),
            short: "normal, or background",
            long: "`background` takes what other programs on the line leave, at least 5 % of the path's rate. Needs `--bandwidth \
                   auto`.",
        }),
        value: KeyValue::One(|tunnel, text| {
            value::word(text, PRIORITIES).map(|is_background| tunnel.is_background = is_background)
        }),
        show: |tunnel| tunnel.is_background.then(|| "while bandwidth is auto, its flows take what others leave".into()),
        check: |tunnel, syntax| match syntax {
            Syntax::Flags => {
                background_without_auto(&tunnel.bandwidth, tunnel, "--bandwidth auto").into_iter().collect()
            }
            Syntax::File => Vec::new(), // the daemon's `bandwidth` is read by `read::background`
        },
        doc: "`\"background\"`: the tunnel's flows take what the flows of other tunnels leave, and what other programs on the line \
              leave, at least 5 % of the path's rate. It has an effect only while the daemon's `bandwidth` is `auto`.",
    },
];

/// Parses a cap.
///
/// # Errors
/// The text is no rate, or the rate is out of range.
fn rate(text: &str) -> Result<Rate, String> {
    const FORM: &str = "write a rate from 1Mbit/s to 1000Gbit/s, such as \"200Mbit/s\"";
    match text.trim().parse::<Rate>() {
        Err(_) if has_auto(text) => Err("only the daemon's bandwidth can be auto; write a rate here".into()),
        Ok(rate) if rate < MIN_RATE => Err(format!("it is too small; {FORM}")),
        Ok(rate) if rate > MAX_RATE => Err(format!("it is too large; {FORM}")),
        Ok(rate) => Ok(rate),
        Err(_) if text.trim() == "none" => Err(format!("leave the key out to have no cap, or {FORM}")),
        Err(err) => Err(format!("{err}; {FORM}")),
    }
}

/// Reads the cap of the daemon or of a tunnel: a rate, `auto`, or `auto` with a rate above it.
///
/// # Errors
/// The text is none of these.
pub(super) fn cap(bandwidth: &mut Bandwidth, text: &str) -> Result<(), String> {
    (bandwidth.is_auto, bandwidth.rate) = auto_or_rate(text.split_whitespace().collect::<Vec<_>>().as_slice())?;
    Ok(())
}

/// Reads the words of a cap. Returns whether it is `auto`, and the rate.
fn auto_or_rate(words: &[&str]) -> Result<(bool, Option<Rate>), String> {
    const FORM: &str =
        "write \"auto\", or \"auto 500Mbit/s\" for all paths together; in a file, above the first tunnel";
    match words {
        ["auto"] => Ok((true, None)),
        ["auto", "none"] => Err("auto has no limit by itself; write \"auto\" alone".into()),
        ["auto", ceiling @ ..] if !has_auto(&ceiling.join(" ")) => {
            rate(&ceiling.join(" ")).map(|rate| (true, Some(rate))).map_err(|err| format!("after auto: {err}"))
        }
        words if has_auto(&words.join(" ")) => Err(FORM.into()),
        [word] if word.starts_with(char::is_alphabetic) && *word != "none" => {
            rate(word).map(|rate| (false, Some(rate))).map_err(|err| format!("{err}, or \"auto\" for the daemon"))
        }
        words => rate(&words.join(" ")).map(|rate| (false, Some(rate))),
    }
}

/// Whether `text` has the word `auto`, however it is written.
fn has_auto(text: &str) -> bool {
    text.split(|letter: char| !letter.is_alphanumeric()).any(|word| word.eq_ignore_ascii_case("auto"))
}

/// Parses a window of a schedule: `Mon-Fri 08:00-18:00 200Mbit/s`, `Sat 22:00-06:00 none` or, for every day,
/// `08:00-18:00 200Mbit/s`.
///
/// # Errors
/// The text is no window.
pub(super) fn window(text: &str) -> Result<Window, String> {
    const FORM: &str =
        "write DAYS FROM-UNTIL RATE, such as \"Mon-Fri 08:00-18:00 200Mbit/s\" or \"Sat 22:00-06:00 none\"";
    let words: Vec<&str> = text.split_whitespace().collect();
    // Only times have a colon.
    let (days, times, cap) = match words[..] {
        [times, ref cap @ ..] if times.contains(':') && !cap.is_empty() => (None, times, cap),
        [days, times, ref cap @ ..] if !cap.is_empty() => (Some(days), times, cap),
        _ => return Err(FORM.into()),
    };
    let (first, last) = days.map_or(Ok((Weekday::Mon, Weekday::Sun)), |days| match days.split_once('-') {
        Some((first, last)) => Ok((weekday(first)?, weekday(last)?)),
        None => weekday(days).map(|day| (day, day)),
    })?;
    let (from, until) = times.split_once('-').ok_or_else(|| format!("`{times}` has no end; {FORM}"))?;
    let (from, until) = (time(from)?, time(until)?);
    if from == MINUTES_OF_DAY {
        return Err("a window cannot begin at 24:00; write 00:00 of the next day".into());
    }
    if from == until {
        return Err("it begins and ends at the same time; write 00:00-24:00 for a whole day".into());
    }
    let until = if until == 0 { MINUTES_OF_DAY } else { until };
    let (is_auto, rate) = if cap == ["none"] { (false, None) } else { auto_or_rate(cap)? };
    Ok(Window { first, last, from, until, rate, is_auto })
}

/// Returns the words about `bandwidth`: `Sat 22:00-06:00 none, otherwise 200Mbit/s`. `None` if nothing is written.
pub(super) fn show(bandwidth: &Bandwidth) -> Option<String> {
    let Bandwidth { rate, is_auto, schedule } = bandwidth;
    if rate.is_none() && !is_auto && schedule.is_empty() {
        return None;
    }
    let mut words = schedule.iter().map(ToString::to_string).collect::<Vec<_>>();
    let otherwise = if schedule.is_empty() { "" } else { "otherwise " };
    match (is_auto, rate) {
        (false, Some(rate)) => words.push(format!("{otherwise}{rate}")),
        (false, None) => words.push("otherwise no cap".into()),
        (true, Some(rate)) => words.push(format!("{otherwise}auto, {rate} at most")),
        (true, None) => words.push(format!("{otherwise}auto")),
    }
    Some(words.join(", "))
}

/// Returns a warning for each window that never decides, and one about a schedule that never sets a cap.
pub(super) fn without_effect(bandwidth: &Bandwidth) -> Vec<Remark> {
    if !(bandwidth.schedule.is_empty() || bandwidth.is_capped() || bandwidth.may_be_auto()) {
        let text = "it never sets a cap; write bandwidth beside it, or a window with a rate".into();
        return vec![Remark::warning("bandwidth_schedule", text)];
    }
    let covered = bandwidth.covered();
    let text = |window: &Window| {
        format!(
            "\"{window}\" never decides, because windows before it hold all of its times; write it first, or remove it"
        )
    };
    covered.map(|window| Remark::warning("bandwidth_schedule", text(window))).collect()
}

/// Returns a warning if `tunnel` is in the background, and the daemon's `bandwidth` never finds a cap by itself. `remedy` says what does.
pub(crate) fn background_without_auto(bandwidth: &Bandwidth, tunnel: &Tunnel, remedy: &str) -> Option<Remark> {
    let text = || format!("it has no effect without {remedy}");
    (tunnel.is_background && !bandwidth.may_be_auto()).then(|| Remark::warning("priority", text()))
}

/// Returns an error for each key of a tunnel whose value only the daemon's may have. `longhaul relay` has one tunnel, and takes its cap for
/// the daemon's.
fn auto_of_tunnel(tunnel: &Tunnel, syntax: Syntax) -> Vec<Remark> {
    let is_window = tunnel.bandwidth.schedule.iter().any(|window| window.is_auto);
    let keys = [("bandwidth", tunnel.bandwidth.is_auto), ("bandwidth_schedule", is_window)];
    let wrong = keys.into_iter().filter(|(_, is_auto)| *is_auto && syntax == Syntax::File);
    let text = |key| {
        format!(
            "only the whole daemon's can be auto, because tunnels share their paths; write {key} above the first [[tunnel]], \
             and a rate here"
        )
    };
    wrong.map(|(key, _)| Remark::error(key, text(key))).collect()
}

/// Returns a warning for each leg of `tunnel` that the kernel does not pace, if `bandwidth` is to cap it.
pub(super) fn unpaced(bandwidth: &Bandwidth, tunnel: &Tunnel) -> Vec<Remark> {
    let key = if bandwidth.rate.is_some() || bandwidth.is_auto { "bandwidth" } else { "bandwidth_schedule" };
    if bandwidth.is_capped() || bandwidth.may_be_auto() { unpaced_by(tunnel, key) } else { Vec::new() }
}

/// Returns a warning about `key`, a cap of `tunnel`, for each leg that the kernel does not pace.
fn unpaced_by(tunnel: &Tunnel, key: &str) -> Vec<Remark> {
    let unpaced = Leg::ALL.into_iter().filter(|leg| tunnel.mptcp(*leg));
    let text = |leg| {
        format!(
            "the kernel does not limit what the {leg} leg of tunnel \"{}\" sends, because of {leg}.mptcp (Linux 6.18); \
             leave one of them out",
            tunnel.name
        )
    };
    unpaced.map(|leg| Remark::warning(key, text(leg))).collect()
}

fn weekday(text: &str) -> Result<Weekday, String> {
    let days = || Weekday::ALL.into_iter();
    if let Some(day) = days().find(|day| day.name().eq_ignore_ascii_case(text)) {
        return Ok(day);
    }
    let begins = |day: &Weekday| text.get(..3).is_some_and(|start| start.eq_ignore_ascii_case(day.name()));
    let meant = days().find(begins).map(Weekday::name).or_else(|| suggest::nearest(text, days().map(Weekday::name)));
    Err(match meant {
        Some(day) => format!("`{text}` is not a day; did you mean {day}?"),
        None => format!("`{text}` is not a day; write Mon, Tue, Wed, Thu, Fri, Sat or Sun"),
    })
}

/// Parses `HH:MM` into the minute of the day, 0 to 1440.
fn time(text: &str) -> Result<u16, String> {
    let number = |text: &str| match text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit()) {
        true => text.parse::<u16>().ok(),
        false => None,
    };
    let parsed = text.split_once(':').and_then(|(hour, minute)| Some((number(hour)?, number(minute)?)));
    match parsed {
        Some((hour, minute)) if minute < 60 && hour * 60 + minute <= MINUTES_OF_DAY => Ok(hour * 60 + minute),
        _ => Err(format!("`{text}` is not a time of day; write it as 08:00, from 00:00 to 24:00")),
    }
}

/// The smallest cap. Below it, a segment of a flow takes seconds, and no path that longhaul is for is so slow.
const MIN_RATE: Rate = Rate(1_000_000);
const MAX_RATE: Rate = Rate(1_000_000_000_000);

const PRIORITIES: &[(&str, bool)] = &[("normal", false), ("background", true)];

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn windows_are_read_and_shown() {
        for text in [
            "Mon-Fri 08:00-18:00 200Mbit/s",
            "Sat 22:00-06:00 none",
            "12:30-24:00 1.5Gbit/s",
            "Mon 12:30-24:00 auto 1.5Gbit/s",
            "08:00-09:00 auto",
        ] {
            assert_eq!(window(text).unwrap().to_string(), text);
        }
        assert_eq!(window("sat-MON  22:00-00:00 none").unwrap().to_string(), "Sat-Mon 22:00-24:00 none");
    }

    #[test]
    fn a_bad_window_is_refused_with_what_to_write() {
        for (text, said) in [
            ("Monday 08:00-18:00 none", "`Monday` is not a day; did you mean Mon?"),
            ("Mon-Fru 08:00-18:00 none", "`Fru` is not a day; did you mean Fri?"),
            ("Quux 08:00-18:00 none", "write Mon, Tue"),
            ("Mon 08:00 none", "`08:00` has no end"),
            ("Mon 8-18 none", "`8` is not a time of day"),
            ("Mon 08:00-24:01 none", "`24:01` is not a time of day"),
            ("Mon 24:00-06:00 none", "cannot begin at 24:00"),
            ("Mon 08:00-08:00 none", "write 00:00-24:00 for a whole day"),
            ("Mon 08:00-18:00 0", "it has no unit; write a rate"),
            ("Mon 08:00-18:00 0Mbit/s", "it is too small"),
            ("Mon 08:00-18:00", "write DAYS FROM-UNTIL RATE"),
            ("Mon 08:00-18:00 fast", "does not start with a number; write a rate"),
            ("Mon 08:00-18:00 Auto", "write \"auto\", or \"auto 500Mbit/s\""),
        ] {
            let refused = window(text).unwrap_err();
            assert!(refused.contains(said), "{text}: {refused}");
        }
        for (text, said) in [
            ("0bit", "too small"),
            ("999kbit/s", "it is too small; write a rate from 1Mbit/s"),
            ("none", "leave the key out"),
            ("99999Gbit/s", "too large"),
        ] {
            assert!(rate(text).unwrap_err().contains(said), "{text}");
        }
    }

    #[test]
    fn a_bad_auto_is_refused_with_what_to_write() {
        for text in ["Auto", "auto, 500Mbit/s", "500Mbit/s auto", "auto auto"] {
            let refused = cap(&mut Bandwidth::default(), text).unwrap_err();
            assert!(
                refused.starts_with("write \"auto\", or \"auto 500Mbit/s\" for all paths together"),
                "{text}: {refused}"
            );
        }
        for (text, said) in [
            ("auto none", "write \"auto\" alone"),
            ("auto 500", "after auto: it has no unit"),
            ("atuo", "or \"auto\" for the daemon"),
        ] {
            let refused = cap(&mut Bandwidth::default(), text).unwrap_err();
            assert!(refused.contains(said), "{text}: {refused}");
        }
        assert_eq!(rate("auto").unwrap_err(), "only the daemon's bandwidth can be auto; write a rate here");
    }

    #[test]
    fn the_summary_has_the_schedule_in_its_order() {
        let schedule = vec![window("Sat 22:00-06:00 none").unwrap(), window("08:00-18:00 2Mbit/s").unwrap()];
        let caps = |rate, schedule| show(&Bandwidth { rate, schedule, ..Bandwidth::default() });
        assert_eq!(caps(None, Vec::new()), None);
        assert_eq!(caps(Some(Rate(5_000_000)), Vec::new()).unwrap(), "5Mbit/s");
        assert_eq!(
            caps(Some(Rate(5_000_000)), schedule.clone()).unwrap(),
            "Sat 22:00-06:00 none, 08:00-18:00 2Mbit/s, otherwise 5Mbit/s"
        );
        assert!(caps(None, schedule).unwrap().contains("otherwise no cap"));
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "\\PC*", days in "[A-Za-zé]{0,5}", times in "[0-9:]{0,6}-[0-9:]{0,6}") {
            let _ = (window(&text), rate(&text), window(&format!("{days} {times} none")));
        }
    }
}
