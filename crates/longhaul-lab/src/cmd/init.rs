//! `longhaul lab init`: prints a scenario of the user's own path.

use crate::cmd::progress::print_only;
use crate::plan::link::{read_loss, read_rate, read_rtt};
use crate::scenario::keys::{LARGEST_WINDOW, SMALLEST_BUFFER, read_window};
use clap::Args;
use longhaul_config::options::CONTROLS;
use longhaul_doctor::{Measured, read_measured};
use longhaul_units::{Bytes, Rate};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Write a scenario of your own path
///
/// Prints a commented file with one path, for you to change:
///
/// longhaul lab init --rtt 110ms --rate 300Mbit/s --window 64KiB > mine.toml
///
/// longhaul lab run mine.toml
///
/// Take the round trip from ping, the rate from the contract, and the window from the host: `ss -tin` on Linux, `ifconfig en0`
/// on AIX. If that shows no tcp_sendspace: `no -o tcp_sendspace`.
#[derive(Args, Debug, Clone)]
pub(crate) struct Init {
    /// Round trip of the path, from 1ms to 10s [default: 63ms]
    #[arg(long, value_name = "TIME", value_parser = typed(read_rtt))]
    rtt: Option<String>,
    /// Rate, from 1Mbit/s to 100Gbit/s [default: 1Gbit/s]
    #[arg(long, value_parser = typed(read_rate))]
    rate: Option<String>,
    /// Share of segments lost at random, up to 50% [default: 0]
    #[arg(long, value_name = "SHARE", value_parser = typed(read_loss))]
    loss: Option<String>,
    /// TCP window of the hosts [default: autotuned]
    ///
    /// For example 256KiB. Without it the window is autotuned, as on Linux of today.
    #[arg(long, value_name = "SIZE", value_parser = typed(window_with_unit))]
    window: Option<String>,
    /// Measured path: a file of `longhaul path --save`
    ///
    /// The direction of its first finding counts. `-` is standard input. A flag replaces the file's value.
    #[arg(long, value_name = "FILE")]
    from: Option<PathBuf>,
}

/// Reads a window with its unit. A number alone is probably a window whose unit was forgotten.
fn window_with_unit(text: &str) -> Result<Bytes, String> {
    let is_number = text.trim().bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'_' | b'.'));
    if is_number && text.bytes().any(|byte| byte.is_ascii_digit()) {
        return Err("it has no unit; write for example 256KiB, or 65535B".into());
    }
    read_window(text)
}

/// Returns a parser that checks the text by `read` and keeps it. The file gets the text, because the value may be rounded when it is printed.
fn typed<T>(read: fn(&str) -> Result<T, String>) -> impl Fn(&str) -> Result<String, String> + Clone {
    move |text| read(text).map(|_| text.trim().to_string())
}

impl Init {
    /// Prints the file.
    pub(crate) fn run(self) -> ExitCode {
        let measured = match self.from.as_deref().map(read_measured).transpose() {
            Ok(measured) => measured.unwrap_or_default(),
            Err(why) => {
                eprintln!("error: --from {why}");
                return ExitCode::from(WRONG);
            }
        };
        if let (Some(file), None, None) = (&self.from, &self.rate, measured.rate) {
            eprintln!(
                "error: {} has no rate for the direction of its first finding, as the measurement ended early: add --rate 1Gbit/s",
                file.display()
            );
            return ExitCode::from(WRONG);
        }
        print_only(&self.text(&measured))
    }

    /// Returns the text of the file. What no flag tells is of the path that was `measured`.
    fn text(&self, measured: &Measured) -> String {
        let typed = |flag: Option<String>, measured: Option<String>, other: &str| {
            flag.or(measured).unwrap_or_else(|| other.to_string())
        };
        let limit = measured.limited.as_ref().map_or("", |limited| limited.kind.as_str());
        let is_policed = limit == "policer" && self.rate.is_none();
        let measured_rate = measured.rate.map(shown_rate);
        let measured_loss = measured.loss.filter(|loss| *loss >= LEAST_LOSS).map(shown_share);
        let rtt = typed(self.rtt.clone(), measured.rtt.map(shown_time), "63ms");
        let rate = typed(self.rate.clone(), measured_rate.clone().filter(|_| !is_policed), "1Gbit/s");
        let loss = self.loss.clone().or(measured_loss).filter(|loss| !matches!(loss.as_str(), "0" | "0%"));
        let mut text =
            HEAD.replace("SOURCE", if self.from.is_some() { "longhaul path" } else { "ping and the contract" });
        let _ = writeln!(text, "[link]\nrtt  = \"{rtt}\"\nrate = \"{rate}\"");
        if measured.is_least && self.rate.is_none() {
            text.push_str(
                "# Nothing reached the line's limit: it carries that or more. Take its rate from the contract.\n",
            );
        }
        if let Some(loss) = &loss {
            let _ = writeln!(text, "# The share of segments lost at random, in each direction.\nloss = \"{loss}\"");
        }
        if let Some(mtu) = measured.mtu.filter(|mtu| *mtu < ETHERNET_MTU) {
            let hole = if limit == "mtu-black-hole" { " black-hole" } else { "" };
            let _ = writeln!(text, "mtu = \"{mtu}{hole}\"");
        }
        if let Some(uncut) = measured.uncut {
            let _ = writeln!(
                text,
                "# Larger packets are cut. The loss of fragments was not measured, so none is lost here."
            );
            let _ = writeln!(text, "fragment = \"{uncut}\"");
        }
        if let Some(policer) = measured_rate.filter(|_| is_policed) {
            let _ =
                writeln!(text, "# The rate behind the policer was not measured.\npolicer = \"{policer} burst 256kB\"");
        }
        text += HOST;
        let measured_window = measured.limited.as_ref().and_then(|limited| limited.window);
        let measured_window = measured_window.map(|window| window.clamp(SMALLEST_BUFFER, LARGEST_WINDOW));
        let _ = match self.window.clone().or(measured_window.map(|window| format!("{}B", window.0))) {
            Some(window) => writeln!(text, "window = \"{window}\""),
            None => writeln!(text, "# window = \"256KiB\""),
        };
        if let Some(control) = measured.congestion.as_deref().filter(|control| CONTROLS.contains(control)) {
            let _ = writeln!(text, "congestion = \"{control}\"");
        }
        let is_down = measured.limited.as_ref().is_some_and(|limited| limited.direction == "down");
        text += &RUNS
            .replace("TIME", if loss.is_some() { LONG } else { SHORT })
            .replace("raw\",", if is_down { "raw\", direction = \"down\"," } else { "raw\"," })
            .replace("MEASURED", &first(measured))
            .replace("RELAYS", &relays(measured));
        if loss.is_some() {
            text.push_str(WHY_LONG);
        }
        text
    }
}

/// Returns what lifts the measured limit, as comments.
fn first(measured: &Measured) -> String {
    measured.first().map_or_else(String::new, |first| format!("#\n# {first}\n"))
}

/// Returns the keys with which longhaul's relays lift the measured limit.
fn relays(measured: &Measured) -> String {
    let mss = measured.relay_mss().map(|mss| format!("set      = [\"dial.mss={mss}\"]\n"));
    let cap = measured.relay_cap().map(|cap| format!("options  = \"--bandwidth {cap}\"\n"));
    mss.into_iter().chain(cap).collect()
}

/// Returns a measured time in µs, within the range of the key.
fn shown_time(time: Duration) -> String {
    format!("{}us", time.as_micros().clamp(1000, 10_000_000))
}

/// Returns a measured rate in kbit/s, within the range of the key.
fn shown_rate(rate: Rate) -> String {
    format!("{}kbit/s", (rate.0 / 1000).clamp(1000, 100_000_000))
}

/// Returns a measured share, up to that of the key.
fn shown_share(share: f64) -> String {
    format!("{:.4}%", (share * 100.0).min(50.0))
}

/// Least share of lost segments that the lab emulates: less than that costs nothing in a run.
const LEAST_LOSS: f64 = 1e-6;
/// MTU of the lab's links.
const ETHERNET_MTU: u32 = 1500;
/// Exit code of a file that cannot be used.
const WRONG: u8 = 2;

/// Time of the traffic. Without loss, a transfer reaches its speed within some round trips; what limits it is known 3 s later.
const SHORT: &str = "10s";
/// The same with loss.
const LONG: &str = "40s";
const WHY_LONG: &str = "
# 40s, because the first losses come late on a fast line: a shorter transfer looks faster than a long one is.
";

const HEAD: &str = "\
# A scenario of longhaul lab: longhaul lab run mine.toml
# Every key is described in docs/lab.md.

about  = \"The effect of relays on our path\"
source = \"SOURCE\"

# The WAN between the two sites.
";

const HOST: &str = "
# The two hosts that nobody can change. Without this key the window is autotuned, as on Linux of today.
# AIX and other old systems: congestion = \"reno\", sack = false.
[host]
";

const RUNS: &str = "
# Each run is one question. It sends the same traffic over each of its carriers:
# direct     the hosts as they are, without a relay
# tuned      the hosts with better TCP settings, without a relay
# longhaul   relays beside the hosts
# `longhaul lab list` shows the other carriers and kinds of traffic.
MEASURED[[run]]
id       = \"today\"
what     = \"one connection\"
carriers = [\"direct\", \"tuned\", \"longhaul\"]
traffic  = { kind = \"raw\", time = \"TIME\" }
RELAYSquick    = true

# The expectation for the verdict `pass`: here at least twice the speed of `direct`.
# expect = { gain = [2] }

# [[run]]
# id       = \"four\"
# what     = \"four connections at once\"
# carriers = [\"direct\", \"longhaul\"]
# traffic  = { kind = \"raw\", connections = 4, time = \"TIME\" }
";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::place::Direction;
    use longhaul_doctor::Limited;

    #[test]
    fn its_output_is_a_scenario_of_the_path() {
        for (rtt, rate, loss, window) in [
            ("110ms", "300Mbit/s", "0", Some("64KiB")),
            ("1ms", "9.95328Gbit/s", "7%", None),
            ("10s", "1Mbit/s", "50%", Some("1000000B")),
            ("10s", "1Mbit/s", "50%", Some("4KiB")),
        ] {
            let init = Init {
                rtt: Some(typed(read_rtt)(rtt).unwrap()),
                rate: Some(typed(read_rate)(rate).unwrap()),
                loss: Some(typed(read_loss)(loss).unwrap()),
                window: window.map(|window| typed(read_window)(window).unwrap()),
                from: None,
            };
            let text = init.text(&Measured::default());
            assert!(text.contains(&format!("rate = \"{rate}\"")) && !text.contains("TIME"), "{text}");
            let scenario = crate::scenario::read::read("mine", "mine.toml", &text)
                .unwrap_or_else(|refused| panic!("{refused}\n{text}"));
            let setup = &scenario.runs[0].setup;
            assert_eq!((Ok(setup.link.rtt), setup.link.rate), (read_rtt(rtt), read_rate(rate).ok()));
            assert_eq!(
                (Ok(setup.link.loss), setup.host.window),
                (read_loss(loss), window.map(|text| read_window(text).unwrap()))
            );
        }
    }

    #[test]
    fn a_measured_path_is_a_scenario() {
        let init = Init { rtt: None, rate: None, loss: None, window: None, from: None };
        let limited = |kind: &str, window| Some(Limited { kind: kind.into(), window, ..Limited::default() });
        let measured = Measured {
            rtt: Some(Duration::from_micros(63_042)),
            rate: Some(Rate(199_876_543)),
            is_least: true,
            loss: Some(0.0012),
            mtu: Some(1400),
            limited: limited("mtu-black-hole", None),
            congestion: Some("cubic".into()),
            ..Measured::default()
        };
        let read = |measured: &Measured| {
            let text = init.text(measured);
            let read = crate::scenario::read::read("mine", "mine.toml", &text);
            (read.unwrap_or_else(|refused| panic!("{refused}\n{text}")), text)
        };
        let (scenario, text) = read(&measured);
        let link = &scenario.runs[0].setup.link;
        assert_eq!((link.rtt, link.rate), (Duration::from_micros(63_042), Some(Rate(199_876_000))));
        assert!(text.contains("199876kbit/s\"\n# Nothing reached the line's limit"), "{text}");
        assert!(text.contains("mtu = \"1400 black-hole\"") && text.contains("congestion = \"cubic\""), "{text}");
        assert!(text.contains("source = \"longhaul path\"") == init.from.is_some(), "{text}");
        assert!(text.contains("# First: Set the MSS to 1360 on"), "{text}");
        assert_eq!(scenario.runs[0].setup.set, ["dial.mss=1360"]);
        // Only a loss at random is in the file of a measured path.
        assert_eq!(link.loss, 0.0012);
        let measured = Measured { loss: None, ..measured };
        let policed = Measured { mtu: Some(1500), limited: limited("policer", None), ..measured.clone() };
        let (scenario, text) = read(&policed);
        assert!(text.contains("policer = \"199876kbit/s burst 256kB\"") && !text.contains("\nloss"), "{text}");
        assert_eq!(scenario.runs[0].setup.options, ["--bandwidth", "184.819Mbit/s"]);
        let cut =
            Measured { mtu: None, uncut: Some(1294), limited: limited("fragmentation", None), ..measured.clone() };
        let (scenario, text) = read(&cut);
        assert!(text.contains("fragment = \"1294\"") && text.contains("dial.mss=1254"), "{text}");
        assert_eq!(scenario.runs[0].carriers.len(), 3);
        let down = Limited { direction: "down".into(), ..limited("peer-send-buffer", Some(Bytes(63_000))).unwrap() };
        let (scenario, _) = read(&Measured { mtu: None, limited: Some(down), ..measured.clone() });
        assert_eq!(scenario.runs[0].traffic.direction, Direction::Back);
        let windowed = Measured { limited: limited("receiver-window", Some(Bytes(44_032))), ..measured };
        assert_eq!(read(&windowed).0.runs[0].setup.host.window, Some(Bytes(44_032)));
    }
}
