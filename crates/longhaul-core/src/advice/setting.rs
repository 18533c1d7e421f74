//! One setting of one system, as a row of data.

use super::goal::Goal;

/// One setting of one system. The commands are lines for the system's shell, with words in braces:
///
/// | word | stands for |
/// | --- | --- |
/// | `{value}` | the value to set |
/// | `{old}` | the value before the change |
/// | `{route}` | for a route: the line that `read` shows |
/// | `{interface}` | the network interface towards the WAN |
/// | `{network}`, `{gateway}` | the destination of the route to the far site, and its router |
#[derive(Debug)]
pub struct Setting {
    /// Name, as the system's own commands have it. Unique within the system.
    pub name: &'static str,
    /// Where it is set: `interface`, `whole system`, `sysctl`, `route` ..
    pub place: &'static str,
    /// Unit of the value: `bytes`, `0 or 1`, `word` ..
    pub unit: &'static str,
    /// Default, in the form that the commands take. Where releases or interfaces differ, that of the host with
    /// [`System::default_window`](super::System::default_window). Empty if it is not known.
    pub default: &'static str,
    /// Other defaults, and what has them; may be empty.
    pub other_defaults: &'static str,
    /// Range of the value as `LEAST to MOST`, or in words; may be empty.
    pub limits: &'static str,
    /// What the setting does to a connection.
    pub effect: Effect,
    /// Returns the value that is right for the path, in the form that the commands take, whatever the present value is; `None`
    /// if the path does not care. [`Setting::change`] compares it with a present value.
    pub want: fn(&Goal) -> Option<String>,
    /// The present values that serve as well as the one wanted.
    pub fit: Fit,
    /// Command that shows the present value.
    pub read: &'static str,
    /// Command that sets the value now; empty if only the permanent form exists, or none.
    pub set_now: &'static str,
    /// Command that makes the value permanent; it may set it now, too. Empty if only the form of now exists, or none.
    pub set_permanent: &'static str,
    /// The commands for a value that does not stand at [`place`](Setting::place).
    pub elsewhere: Option<Elsewhere>,
    /// Command that undoes both; empty if there is none to undo.
    pub undo: &'static str,
    /// What to know before the change; may be empty.
    pub caveat: &'static str,
    /// The document that names it.
    pub source: &'static str,
    /// Whether its commands were tried on such a host.
    pub verified: bool,
}

impl Setting {
    /// Returns the value to set where the present one is `present`; `None` if that one serves the path, or the path does not
    /// care. With an unknown or empty `present` it is the value wanted.
    ///
    /// `present` may be the default: then the result is the change that an untouched host needs.
    pub fn change(&self, present: &str, goal: &Goal) -> Option<String> {
        let want = (self.want)(goal)?;
        let new = match self.fit {
            Fit::Exactly => None,
            Fit::Or(words) if words.iter().any(|word| word.eq_ignore_ascii_case(present.trim())) => return None,
            Fit::Or(_) => None,
            Fit::AtLeast => combine(present, &want, u64::max),
            Fit::AtMost => combine(present, &want, u64::min),
        };
        let new = new.unwrap_or(want);
        // Linux separates the numbers of tcp_rmem by tabs, and administrators do by blanks.
        (!new.split_whitespace().eq(present.split_whitespace())).then_some(new)
    }
}

/// Returns `choose` of each pair of numbers in `present` and `want`; `None` if they are not as many numbers.
fn combine(present: &str, want: &str, choose: fn(u64, u64) -> u64) -> Option<String> {
    let numbers = |text: &str| text.split_whitespace().map(|word| word.parse().ok()).collect::<Option<Vec<u64>>>();
    let (present, want) = (numbers(present)?, numbers(want)?);
    let pairs = present.iter().zip(&want).map(|(present, want)| choose(*present, *want).to_string());
    (present.len() == want.len()).then(|| pairs.collect::<Vec<_>>().join(" "))
}

/// How a setting is changed whose value stands elsewhere than usual: AIX has a value of `no` where an interface has none of its own,
/// and Solaris 10 has `ndd`. The undo is the permanent command, else the other one, with the value before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elsewhere {
    /// Where the value stands, as an audit names it.
    pub place: &'static str,
    /// As [`Setting::read`].
    pub read: &'static str,
    /// As [`Setting::set_now`].
    pub set_now: &'static str,
    /// As [`Setting::set_permanent`].
    pub set_permanent: &'static str,
    /// What to know besides [`Setting::caveat`]; may be empty.
    pub caveat: &'static str,
}

/// The present values that serve as well as the one wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fit {
    /// Each number may be larger: a change never lowers one.
    AtLeast,
    /// Each number may be smaller: a change never raises one.
    AtMost,
    /// None but that one.
    Exactly,
    /// These words.
    Or(&'static [&'static str]),
}

/// What a setting does to a connection: the audit knows by it what a value means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It caps the window that the receiver offers, in bytes.
    ReceiveWindow,
    /// It caps the bytes that the sender has in flight, in bytes.
    SendWindow,
    /// It caps the values of other settings, such as `sb_max`.
    Ceiling,
    /// It switches window scaling: without it a window has 65,535 bytes at most.
    Scaling,
    /// It names the congestion control, in a word that [`LossResponse::of`](crate::path::laws::LossResponse::of) knows.
    CongestionControl,
    /// It changes how the sender recovers from loss.
    Recovery,
    /// It changes the size of packets.
    PacketSize,
    /// It costs processor time or delays small messages; it sets no limit that can be computed.
    Other,
}

/// The words that replace the braces of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fill<'a> {
    /// The value to set.
    pub value: &'a str,
    /// The value before the change; a word such as `OLD` if it is unknown.
    pub old: &'a str,
    /// The route to the far site, as the system shows it; a word such as `ROUTE` if it is unknown.
    pub route: &'a str,
    /// The network interface towards the WAN.
    pub interface: &'a str,
    /// The destination of the route to the far site.
    pub network: &'a str,
    /// The router of that route.
    pub gateway: &'a str,
}

impl Fill<'_> {
    /// Returns `command` with its words in braces replaced.
    pub fn into_command(self, command: &str) -> String {
        // The value comes last: it may come from a paste, and is not to be searched for braces.
        let words = [
            ("{interface}", self.interface),
            ("{network}", self.network),
            ("{gateway}", self.gateway),
            ("{route}", self.route),
            ("{old}", self.old),
            ("{value}", self.value),
        ];
        words.iter().fold(command.to_string(), |text, (word, value)| text.replace(word, value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advice::System;
    use longhaul_units::Bytes;

    const GOAL: Goal = Goal { window: Bytes(8_000_000), packet: 1400, is_packet_short: true, has_loss: false };

    fn change(system: &str, setting: &str, present: &str) -> Option<String> {
        System::named(system).unwrap().setting(setting).unwrap().change(present, &GOAL)
    }

    #[test]
    fn a_change_lowers_no_buffer_and_raises_no_mtu() {
        let rmem = |present| change("linux", "net.ipv4.tcp_rmem", present);
        assert_eq!(rmem("4096\t131072\t6291456").as_deref(), Some("4096 131072 16000000"));
        assert_eq!(rmem("8192 87380 16777216").as_deref(), Some("8192 131072 16777216"));
        assert_eq!(rmem("4096\t131072\t33554432"), None);
        for unknown in ["", "OLD", "4096 131072", "4096 x 6291456", "-1 -1 -1"] {
            assert_eq!(rmem(unknown).as_deref(), Some("4096 131072 16000000"), "{unknown}");
        }
        assert_eq!(change("aix", "mtu", "9000").as_deref(), Some("1400"));
        assert_eq!(change("aix", "mtu", "1280"), None);
    }

    #[test]
    fn a_word_fits_or_does_not() {
        assert_eq!(change("linux", "net.ipv4.tcp_congestion_control", "cubic").as_deref(), Some("bbr"));
        assert_eq!(change("linux", "net.ipv4.tcp_congestion_control", "bbr"), None);
        assert_eq!(change("linux", "net.ipv4.tcp_slow_start_after_idle", "1").as_deref(), Some("0"));
        assert_eq!(["off", "on", "plso"].map(|word| change("aix", "mtu_bypass", word).is_some()), [true, false, false]);
    }

    #[test]
    fn a_value_is_not_searched_for_words() {
        let fill = Fill { value: "{old}", old: "7", route: "", interface: "en0", network: "", gateway: "" };
        assert_eq!(fill.into_command("set {interface} {value} {old}"), "set en0 {old} 7");
    }
}
