//! `longhaul lab demo`: compares the same traffic without a relay, through the socat recipe, and through longhaul.

mod table;

use crate::cmd::progress::{Bar, say};
use crate::cmd::signals;
use crate::engine::{self, Options};
use crate::plan::host::HostSpec;
use crate::plan::link::{LinkSpec, read_loss, read_rate, read_rtt};
use crate::plan::place::Direction;
use crate::plan::setup::{Setup, Topology};
use crate::report::json::Report;
use crate::scenario::{Expect, Published, Run, Scenario};
use crate::traffic::{Kind, RAW, REQUEST, SCP, Traffic};
use crate::world::user::User;
use crate::world::wan::Wan;
use clap::Args;
use longhaul_units::{Bytes, Rate};
use std::io::Write as _;
use std::process::ExitCode;
use std::time::Duration;
use table::{CARRIERS, Table};

/// Compare no relay, socat and longhaul on an emulated WAN
///
/// Builds two hosts with small windows, a relay host beside each, and a WAN between the relays, all inside this machine.
/// Sends four kinds of traffic from host to host: scp, raw TCP, raw TCP at 0.1% loss, and requests of 10 kB with answers of
/// 10 kB. Sends each without a relay, through socat on both relay hosts, and through longhaul on both. Checks every byte and
/// prints a table with the reason for each figure. Takes about two minutes.
///
/// Runs as root, or as any user where the system allows user namespaces. Leaves nothing behind, however it ends. If a program
/// (scp, sshd, socat) is not installed, its traffic is left out, and the output names the program and its package.
#[derive(Args, Debug, Clone)]
pub(crate) struct Demo {
    /// Round trip of the WAN, from 1ms to 10s
    #[arg(long, value_name = "TIME", default_value = "63ms", value_parser = read_rtt)]
    rtt: Duration,
    /// Rate, from 1Mbit/s to 100Gbit/s
    ///
    /// The rate counts IP bytes, as routers do. TCP payload is 1448 of each 1500 bytes. The queue before the line holds the bytes
    /// of one round trip.
    #[arg(long, default_value = "1Gbit/s", value_parser = read_rate)]
    rate: Rate,
    /// Share of segments lost at random, up to 50%
    ///
    /// Applies to each direction and to all traffic. The row at 0.1% is then left out.
    #[arg(long, value_name = "SHARE", default_value = "0", value_parser = read_loss)]
    loss: f64,
    /// Bytes of each transfer [default: six seconds' worth]
    ///
    /// By default each carrier gets as many bytes as it carries in about six seconds at its expected speed. With one size for
    /// all, a slow carrier would take minutes.
    #[arg(long, value_parser = read_size)]
    size: Option<Bytes>,
}

impl Demo {
    /// Runs the demo. Returns 0 if every byte arrived, 1 otherwise.
    pub(crate) fn run(self) -> ExitCode {
        let user = match User::become_root().and_then(|user| Wan::is_possible().map(|()| user)) {
            Ok(user) => user,
            Err(problem) => {
                say(&format!("longhaul: the lab cannot be built: {problem}"));
                return ExitCode::FAILURE;
            }
        };
        let mut bar = Bar::new();
        if let Err(problem) = signals::end_with(bar.clearing()) {
            say(&format!("longhaul: {problem}"));
            return ExitCode::FAILURE;
        }
        let scenario = self.scenario();
        let report: Report = engine::run(&scenario, &Options::default(), &user, &mut bar);
        let table = Table { report: &report, setup: &scenario.runs[0].setup };
        // A reader that closes the pipe early, such as `head`, is not an error.
        let _ = write!(std::io::stdout(), "{table}");
        if report.is_bad() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
    }

    /// Returns a scenario with every kind of traffic over each carrier.
    fn scenario(&self) -> Scenario {
        let mut runs = vec![
            self.run_of("scp", "scp", &SCP, self.loss, self.size),
            self.run_of("raw", "raw TCP", &RAW, self.loss, self.size),
        ];
        if self.loss == 0.0 {
            runs.push(self.run_of("raw-loss", "raw TCP at 0.1 % loss", &RAW, LOSS, self.size));
        }
        runs.push(self.run_of("answer", "request and answer of 10 kB", &REQUEST, self.loss, Some(ANSWER)));
        Scenario {
            name: "demo".into(),
            about: "The effect of a relay on two hosts like AIX over a long path".into(),
            source: String::new(),
            rounds: 1,
            runs,
        }
    }

    /// Returns a run of the traffic `kind` over each carrier, with `size` bytes, or for six seconds.
    fn run_of(&self, id: &str, what: &str, kind: &'static Kind, loss: f64, size: Option<Bytes>) -> Run {
        let link = LinkSpec { loss, ..LinkSpec::new(self.rtt, Some(self.rate)) };
        let host = HostSpec::aix_like(WINDOW);
        Run {
            id: id.into(),
            at: "lab demo".into(),
            what: what.into(),
            setup: Setup { topology: Topology::Wan, link, host, relay: HostSpec::default(), set: Vec::new() },
            carriers: CARRIERS.to_vec(),
            traffic: Traffic { kind, connections: 1, time: TIME, size, rate: None, direction: Direction::Out },
            published: Published::default(),
            computed: None,
            expect: Expect::default(),
            quick: None,
            skip: None,
            note: None,
        }
    }
}

fn read_size(text: &str) -> Result<Bytes, String> {
    let size: Bytes = text.parse().map_err(|err| format!("{err}; write for example 100MB"))?;
    let allowed = Bytes(1)..=Bytes(100 << 30);
    if allowed.contains(&size) { Ok(size) } else { Err("a size is from 1B to 100GiB; write for example 100MB".into()) }
}

/// The default window of AIX on 10 GbE and virtual Ethernet.
const WINDOW: Bytes = Bytes(262_144);
/// Time of each transfer: so long that CUBIC's start over a long path does not dominate the speed.
const TIME: Duration = Duration::from_secs(6);
/// Share of segments lost in the row that shows the effect of loss.
const LOSS: f64 = 0.001;
/// Size of an answer: a few rows of a database, or a small page.
const ANSWER: Bytes = Bytes(10_000);
