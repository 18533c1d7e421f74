//! Another program's flows on the same WAN, as data: bulk between the relay hosts, beside the carrier.

use longhaul_config::options::CONTROLS;
use std::time::Duration;

/// Bulk of another program, from the near relay host to the far one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Outside {
    /// Number of connections.
    pub(crate) connections: u32,
    /// Their congestion control.
    pub(crate) congestion: &'static str,
    /// Time after the traffic's begin at which they begin.
    pub(crate) from: Duration,
    /// Time at which they end; `None` means with the traffic.
    pub(crate) until: Option<Duration>,
}

impl Outside {
    /// Reads `1 cubic`, or `1 cubic 10s to 40s`.
    ///
    /// # Errors
    /// The text has another form; the error says what to write.
    pub(crate) fn read(text: &str) -> Result<Outside, String> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let (connections, name, times) = match words[..] {
            [connections, name] => (connections, name, None),
            [connections, name, from, "to", until] => (connections, name, Some((from, until))),
            _ => return Err(FORM.into()),
        };
        let connections = connections.parse().ok().filter(|count| (1..=MOST).contains(count));
        let connections = connections.ok_or_else(|| format!("{FORM}; the number is from 1 to {MOST}"))?;
        let congestion = CONTROLS.iter().find(|known| **known == name);
        let congestion = congestion.ok_or_else(|| format!("{name:?} is no congestion control of Linux; {FORM}"))?;
        let time = |text| longhaul_units::duration(text).map_err(|err| format!("{err}; {FORM}"));
        let (from, until) = match times {
            Some((from, until)) => (time(from)?, Some(time(until)?)),
            None => (Duration::ZERO, None),
        };
        if until.is_some_and(|until| until <= from) {
            return Err(format!("it ends before it begins; {FORM}"));
        }
        Ok(Outside { connections, congestion, from, until })
    }
}

const FORM: &str = "write for example \"1 cubic\", or \"1 cubic 10s to 40s\"";
/// Maximum number of connections.
const MOST: u32 = 100;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_of_another_program_are_read() {
        let second = Duration::from_secs;
        let outside = |from, until| Outside { connections: 2, congestion: "cubic", from, until };
        assert_eq!(Outside::read("2 cubic"), Ok(outside(Duration::ZERO, None)));
        assert_eq!(Outside::read(" 2  cubic 10s to 40s"), Ok(outside(second(10), Some(second(40)))));
        for wrong in
            ["", "cubic", "0 cubic", "101 cubic", "1 swift", "1 cubic 10s", "1 cubic 10s to 5s", "1 cubic 1 to x"]
        {
            assert!(Outside::read(wrong).unwrap_err().contains(FORM), "{wrong}");
        }
    }
}
