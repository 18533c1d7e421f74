//! The socket options of one leg: the configured options, and the presets of the table for all others.

use super::control::AUTO;
use super::row::{Leg, Preset, Row, Value, When};
use super::setting::Setting;
use super::table::{self, ROWS, key};
use super::text::parse;
use crate::suggest;
use longhaul_units::Rate;
use std::time::Duration;

/// The options of one leg: the configured ones, and presets for the others. At most one setting for each key.
#[derive(Clone, Debug, PartialEq)]
pub struct LegOptions {
    settings: Vec<Setting>,
    /// The configured keys, in the order written.
    asked: Vec<&'static str>,
}

impl Default for LegOptions {
    /// Returns only the presets of the table.
    fn default() -> LegOptions {
        let settings = ROWS.iter().filter_map(preset).collect();
        LegOptions { settings, asked: Vec::new() }
    }
}

impl LegOptions {
    /// Returns the settings that take effect at `when`, presets included.
    pub fn at(&self, when: When) -> impl Iterator<Item = &Setting> {
        self.settings.iter().filter(move |setting| setting.row.when() == when)
    }

    /// Returns the setting of `key`, configured or preset; `None` if there is neither.
    pub fn find(&self, key: &str) -> Option<&Setting> {
        self.settings.iter().find(|setting| setting.row.key == key)
    }

    /// Returns the settings for the kernel that differ from those of `before`.
    pub fn changed<'a>(&'a self, before: &'a LegOptions) -> impl Iterator<Item = &'a Setting> {
        let for_kernel = self.settings.iter().filter(|setting| setting.row.when() != When::Flow);
        for_kernel.filter(|setting| before.find(setting.row.key) != Some(setting))
    }

    /// Returns whether a running listener with the options of `before` gets these options by setting only the
    /// [changed](LegOptions::changed) ones. An option that is gone cannot be reset, because the table does not know the kernel's
    /// own value.
    pub fn follow_live(&self, before: &LegOptions) -> bool {
        let gone = before.settings.iter().any(|old| old.row.when() != When::Flow && self.find(old.row.key).is_none());
        let live = |new: &Setting| new.row.when() == When::Start && (new.row.live)(&new.value);
        !gone && self.changed(before).all(live)
    }

    /// Returns the configured settings, in the order written.
    pub fn asked(&self) -> impl Iterator<Item = &Setting> {
        self.asked.iter().filter_map(|key| self.find(key))
    }

    /// Returns these options without those of `keys`.
    pub fn without(&self, keys: &[&str]) -> LegOptions {
        let mut left = self.clone();
        left.settings.retain(|setting| !keys.contains(&setting.row.key));
        left.asked.retain(|key| !keys.contains(key));
        left
    }

    /// Returns whether the relay chooses the congestion control (`congestion = "auto"`).
    pub fn is_auto(&self) -> bool {
        self.find(key::CONGESTION).is_some_and(|setting| setting.value == Value::Name(AUTO.into()))
    }

    /// Returns whether the relay dials with the client's first bytes in the SYN (`dial.fastopen`).
    pub fn fast_open(&self) -> bool {
        self.is_on(key::FASTOPEN)
    }

    /// Returns whether the relay itself adjusts the leg's keepalive during a flow. It does so if no keepalive option is
    /// configured, and no `user-timeout`, which overrides `keepalive-count` (tcp(7)).
    pub fn keepalive_is_ours(&self) -> bool {
        !self.asked.iter().any(|key| is_keepalive(key) || *key == key::USER_TIMEOUT)
    }

    /// Returns the least value of `rto-max` for the leg: what the user wrote, or 1 s with `auto`. `None` if the kernel's own limits
    /// hold all the time: the leg has `mptcp`, which takes no such option, or limits of a user for a silent peer.
    pub fn least_rto_max(&self) -> Option<Duration> {
        let milliseconds = self.number(key::RTO_MAX).filter(|_| self.keepalive_is_ours() && !self.is_on(key::MPTCP))?;
        Some(if milliseconds == 0 { AUTO_RTO_MAX } else { Duration::from_millis(milliseconds) })
    }

    /// Returns the settings for a socket before it dials. Keepalive is left out if the relay
    /// [adjusts it](Self::keepalive_is_ours).
    pub fn before_dial(&self) -> impl Iterator<Item = &Setting> {
        let later = self.keepalive_is_ours();
        self.at(When::Start).filter(move |setting| !(later && is_keepalive(setting.row.key)))
    }

    /// Returns the maximum silence of a half-open flow (`linger-half-open`); `None` means no limit.
    pub fn linger_half_open(&self) -> Option<Duration> {
        self.number(key::LINGER_HALF_OPEN).map(Duration::from_millis)
    }

    /// Returns the interface of the leg (`bind-device`); `None` means any.
    pub fn bind_device(&self) -> Option<&str> {
        match &self.find(key::BIND_DEVICE)?.value {
            Value::Name(device) => Some(device),
            _ => None,
        }
    }

    /// Returns the maximum rate of the leg's packets (`max-pacing-rate`); `None` means no limit.
    pub fn max_pacing_rate(&self) -> Option<Rate> {
        self.number(key::MAX_PACING_RATE).map(Rate)
    }

    /// Returns the largest segment of the leg in bytes (`mss`); `None` means that the hosts choose.
    pub fn mss(&self) -> Option<u64> {
        self.number(key::MSS)
    }

    /// Returns whether the switch `key` is on.
    pub fn is_on(&self, key: &str) -> bool {
        self.find(key).is_some_and(|setting| setting.value == Value::Switch(true))
    }

    fn number(&self, key: &str) -> Option<u64> {
        if let Value::Number(number) = self.find(key)?.value { Some(number) } else { None }
    }

    /// Sets `key` on `leg` to the value parsed from `text`.
    ///
    /// # Errors
    /// One clause: the fault in key or text, and what to write instead. The clause does not repeat key and text.
    pub fn set(&mut self, leg: Leg, key: &str, text: &str) -> Result<(), String> {
        // As for every key of a file, `_` is read as `-`.
        let row = table::row(leg, &key.replace('_', "-")).ok_or_else(|| unknown(leg, key))?;
        if self.asked.contains(&row.key) {
            return Err(format!("{key} is already set for this leg; write it once"));
        }
        let setting = Setting { row, value: parse(row, text)? };
        match self.settings.iter_mut().find(|known| known.row.key == row.key) {
            Some(preset) => *preset = setting,
            None => self.settings.push(setting),
        }
        self.asked.push(row.key);
        Ok(())
    }
}

/// Parses `LEG.KEY=VALUE`, the argument of `--set`, into the options of that leg.
///
/// # Errors
/// The fault and what to write instead.
pub fn set(accept: &mut LegOptions, dial: &mut LegOptions, text: &str) -> Result<(), String> {
    const FORM: &str = "write accept.KEY=VALUE or dial.KEY=VALUE, such as dial.mss=1254B";
    let (path, value) = text.split_once('=').ok_or_else(|| format!("there is no `=` in it; {FORM}"))?;
    let (leg, key) = path.trim().split_once('.').ok_or_else(|| format!("it names no leg; {FORM}"))?;
    let another = |word: &str| word.trim().starts_with("accept.") || word.trim().starts_with("dial.");
    if value.split(',').skip(1).any(another) {
        return Err("it holds several options; write one for each --set".into());
    }
    match leg {
        "accept" => accept.set(Leg::Accept, key, value.trim()),
        "dial" => dial.set(Leg::Dial, key, value.trim()),
        other => Err(format!("`{other}` is no leg; {FORM}")),
    }
}

/// Least `rto-max` with `auto`: the smallest that the kernel takes.
const AUTO_RTO_MAX: Duration = Duration::from_secs(1);

fn preset(row: &'static Row) -> Option<Setting> {
    match row.preset {
        // A test checks that every preset can be parsed.
        Preset::Ours(text) => parse(row, text).ok().map(|value| Setting { row, value }),
        Preset::Kernel(_) => None,
    }
}

fn is_keepalive(key: &str) -> bool {
    [key::KEEPALIVE_IDLE, key::KEEPALIVE_INTERVAL, key::KEEPALIVE_COUNT].contains(&key)
}

fn unknown(leg: Leg, key: &str) -> String {
    let key = &*key.replace('_', "-");
    if ROWS.iter().any(|row| row.key == key) {
        let other = leg.other();
        return format!("only the {other} leg can have {key}; write {other}.{key}");
    }
    if let Some(advice) = suggest::advice(key) {
        return format!("there is no such option; {advice}");
    }
    let keys = ROWS.iter().filter(|row| row.legs.contains(&leg)).map(|row| row.key);
    match suggest::nearest(key, keys) {
        Some(near) => format!("there is no such option; did you mean {near}?"),
        None => "there is no such option; `longhaul options` lists them all".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_configured_option_replaces_its_preset() {
        let mut dial = LegOptions::default();
        assert_eq!(dial.find("nodelay").unwrap().value, Value::Switch(true));
        assert_eq!(dial.asked().count(), 0);
        dial.set(Leg::Dial, "nodelay", "false").unwrap();
        assert_eq!(dial.find("nodelay").unwrap().value, Value::Switch(false));
        assert_eq!(dial.asked().count(), 1);
        assert_eq!(dial.at(When::Start).filter(|setting| setting.row.key == "nodelay").count(), 1);
    }

    #[test]
    fn rto_max_is_the_kernel_s_with_limits_of_a_user_or_mptcp() {
        let with = |options: &[(&str, &str)]| {
            let mut dial = LegOptions::default();
            options.iter().for_each(|(key, value)| dial.set(Leg::Dial, key, value).unwrap());
            dial.least_rto_max().map(|time| time.as_millis())
        };
        let ours = [with(&[]), with(&[("rto-max", "AUTO")]), with(&[("rto-max", "5s")])];
        assert_eq!(ours, [Some(1000), Some(1000), Some(5000)]);
        for other in [("user-timeout", "1h"), ("keepalive-count", "4"), ("mptcp", "true")] {
            assert_eq!([with(&[other]), with(&[other, ("rto-max", "5s")])], [None; 2], "{other:?}");
        }
    }

    #[test]
    fn a_refused_option_says_what_to_write() {
        let refused = |text: &str| {
            set(&mut LegOptions::default(), &mut LegOptions::default(), text).expect_err("this must be refused")
        };
        assert!(refused("dial.mss").starts_with("there is no `=` in it"));
        assert!(refused("mss=1254").starts_with("it names no leg"));
        assert!(refused("near.mss=1254").starts_with("`near` is no leg"));
        assert_eq!(refused("dial.keepidle=10"), "there is no such option; did you mean keepalive-idle?");
        assert!(refused("dial.tos=184").ends_with("tos=184 is dscp=46 (ef)"));
        assert!(refused("dial.linger=5").starts_with("there is no such option; not needed: "));
        assert!(refused("dial.bind=10.0.0.1").contains("--source ADDR"));
    }

    #[test]
    fn the_same_key_twice_is_refused() {
        let mut dial = LegOptions::default();
        dial.set(Leg::Dial, "mss", "1254").unwrap();
        assert!(dial.set(Leg::Dial, "mss", "1400").is_err());
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "\\PC*") {
            let _ = set(&mut LegOptions::default(), &mut LegOptions::default(), &text);
        }
    }
}
