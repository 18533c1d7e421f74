//! `longhaul lab init`: prints a scenario of the user's own path.

use crate::plan::link::{read_loss, read_rate, read_rtt};
use crate::scenario::read_window;
use clap::Args;
use longhaul_units::{Bytes, Rate, show_duration};
use std::fmt::Write as _;
use std::io::Write as _;
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
    #[arg(long, value_name = "TIME", default_value = "63ms", value_parser = read_rtt)]
    rtt: Duration,
    /// Rate, from 1Mbit/s to 100Gbit/s
    #[arg(long, default_value = "1Gbit/s", value_parser = read_rate)]
    rate: Rate,
    /// Share of segments lost at random, up to 50%
    #[arg(long, value_name = "SHARE", default_value = "0", value_parser = read_loss)]
    loss: f64,
    /// TCP window of the hosts [default: autotuned]
    ///
    /// For example 256KiB. Without it the window is autotuned, as on Linux of today.
    #[arg(long, value_name = "SIZE", value_parser = read_window)]
    window: Option<Bytes>,
}

impl Init {
    /// Prints the file.
    pub(crate) fn run(self) -> ExitCode {
        // A reader that closes the pipe early, such as `head`, is not an error.
        let _ = std::io::stdout().lock().write_all(self.text().as_bytes());
        ExitCode::SUCCESS
    }

    /// Returns the text of the file.
    fn text(&self) -> String {
        let Init { rtt, rate, loss, window } = self;
        let mut text = String::from(HEAD);
        let _ = writeln!(text, "[link]\nrtt  = \"{}\"\nrate = \"{rate}\"", show_duration(*rtt));
        if *loss > 0.0 {
            let _ = writeln!(
                text,
                "# The share of segments lost at random, in each direction.\nloss = \"{}%\"",
                loss * 100.0
            );
        }
        text += HOST;
        let _ = match window {
            Some(window) => writeln!(text, "window = \"{window}\""),
            None => writeln!(text, "# window = \"256KiB\""),
        };
        text += RUNS;
        text
    }
}

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
traffic  = { kind = \"raw\", time = \"4s\" }
quick    = true

# The expectation for the verdict `pass`: here at least twice the speed of `direct`.
# expect = { gain = [2] }

# [[run]]
# id       = \"four\"
# what     = \"four connections at once\"
# carriers = [\"direct\", \"longhaul\"]
# traffic  = { kind = \"raw\", connections = 4, time = \"4s\" }
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_output_is_a_scenario_of_the_path() {
        let init =
            |millis, loss, window| Init { rtt: Duration::from_millis(millis), rate: Rate(300_000_000), loss, window };
        for init in
            [init(110, 0.0, Some(Bytes(65_536))), init(1, 0.001, None), init(10_000, 0.5, Some(Bytes(1_000_000)))]
        {
            let text = init.text();
            let scenario =
                crate::scenario::read("mine", "mine.toml", &text).unwrap_or_else(|lines| panic!("{lines:?}\n{text}"));
            let setup = &scenario.runs[0].setup;
            assert_eq!((setup.link.rtt, setup.link.rate), (init.rtt, Some(init.rate)));
            assert_eq!((setup.link.loss, setup.host.window), (init.loss, init.window));
        }
    }
}
