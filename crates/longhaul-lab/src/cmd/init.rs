//! `longhaul lab init`: prints a scenario of the user's own path.

use crate::cmd::progress::print_only;
use crate::plan::link::{read_loss, read_rate, read_rtt};
use crate::scenario::keys::read_window;
use clap::Args;
use longhaul_units::{Bytes, Rate};
use std::fmt::Write as _;
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
    /// Round trip of the path, from 1ms to 10s
    #[arg(long, value_name = "TIME", default_value = "63ms", value_parser = typed(read_rtt))]
    rtt: Typed<Duration>,
    /// Rate, from 1Mbit/s to 100Gbit/s
    #[arg(long, default_value = "1Gbit/s", value_parser = typed(read_rate))]
    rate: Typed<Rate>,
    /// Share of segments lost at random, up to 50%
    #[arg(long, value_name = "SHARE", default_value = "0", value_parser = typed(read_loss))]
    loss: Typed<f64>,
    /// TCP window of the hosts [default: autotuned]
    ///
    /// For example 256KiB. Without it the window is autotuned, as on Linux of today.
    #[arg(long, value_name = "SIZE", value_parser = typed(window_with_unit))]
    window: Option<Typed<Bytes>>,
}

/// A value with its text as it was typed. The file gets the text, because the value may be rounded when it is printed.
#[derive(Clone, Debug)]
struct Typed<T> {
    value: T,
    text: String,
}

/// Reads a window with its unit. A number alone is probably a window whose unit was forgotten.
fn window_with_unit(text: &str) -> Result<Bytes, String> {
    let is_number = text.trim().bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'_' | b'.'));
    if is_number && text.bytes().any(|byte| byte.is_ascii_digit()) {
        return Err("it has no unit; write for example 256KiB, or 65535B".into());
    }
    read_window(text)
}

/// Returns a parser that also keeps the text.
fn typed<T>(read: fn(&str) -> Result<T, String>) -> impl Fn(&str) -> Result<Typed<T>, String> + Clone {
    move |text| read(text).map(|value| Typed { value, text: text.trim().to_string() })
}

impl Init {
    /// Prints the file.
    pub(crate) fn run(self) -> ExitCode {
        print_only(&self.text())
    }

    /// Returns the text of the file.
    fn text(&self) -> String {
        let mut text = String::from(HEAD);
        let _ = writeln!(text, "[link]\nrtt  = \"{}\"\nrate = \"{}\"", self.rtt.text, self.rate.text);
        let has_loss = self.loss.value > 0.0;
        if has_loss {
            let _ = writeln!(
                text,
                "# The share of segments lost at random, in each direction.\nloss = \"{}\"",
                self.loss.text
            );
        }
        text += HOST;
        let _ = match &self.window {
            Some(window) => writeln!(text, "window = \"{}\"", window.text),
            None => writeln!(text, "# window = \"256KiB\""),
        };
        text += &RUNS.replace("TIME", if has_loss { LONG } else { SHORT });
        if has_loss {
            text.push_str(WHY_LONG);
        }
        text
    }
}

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
source = \"ping and the contract\"

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
[[run]]
id       = \"today\"
what     = \"one connection\"
carriers = [\"direct\", \"tuned\", \"longhaul\"]
traffic  = { kind = \"raw\", time = \"TIME\" }
quick    = true

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

    #[test]
    fn its_output_is_a_scenario_of_the_path() {
        for (rtt, rate, loss, window) in [
            ("110ms", "300Mbit/s", "0", Some("64KiB")),
            ("1ms", "9.95328Gbit/s", "7%", None),
            ("10s", "1Mbit/s", "50%", Some("1000000B")),
            ("10s", "1Mbit/s", "50%", Some("4KiB")),
        ] {
            let init = Init {
                rtt: typed(read_rtt)(rtt).unwrap(),
                rate: typed(read_rate)(rate).unwrap(),
                loss: typed(read_loss)(loss).unwrap(),
                window: window.map(|window| typed(read_window)(window).unwrap()),
            };
            let text = init.text();
            assert!(text.contains(&format!("rate = \"{rate}\"")) && !text.contains("TIME"), "{text}");
            let scenario = crate::scenario::read::read("mine", "mine.toml", &text)
                .unwrap_or_else(|refused| panic!("{refused}\n{text}"));
            let setup = &scenario.runs[0].setup;
            assert_eq!((setup.link.rtt, setup.link.rate), (init.rtt.value, Some(init.rate.value)));
            assert_eq!((setup.link.loss, setup.host.window), (init.loss.value, init.window.map(|window| window.value)));
        }
    }
}
