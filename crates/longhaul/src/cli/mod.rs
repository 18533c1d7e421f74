//! The command line: one variant a command, one file below `cli/` for each command with flags of its own, and one, `control`, for
//! those that only send a request.
//!
//! Exit codes: 0 success, 1 the command failed, 2 wrong usage or configuration. `status --nagios` has those of a check.

mod check;
mod control;
mod file;
mod hints;
#[cfg(test)]
mod interface_tests;
mod log_fields;
mod log_queue;
mod logs;
mod machine;
mod options;
mod pages;
mod relay;
mod rights;
mod status;
mod systemd;
mod top;
mod verify;
mod version;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser, Subcommand};
use longhaul::daemon::{self, DaemonError};
use longhaul_config::Loaded;
use std::fmt::Display;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tracing::error;

/// Makes TCP fast over long fat networks for hosts that cannot be changed
///
/// Two machines, one at each site, split every TCP connection. Each host talks to the machine beside it. The two machines talk
/// to each other over the WAN, with a modern congestion control and with windows as large as the path needs.
#[derive(Parser)]
#[command(name = "longhaul", version, max_term_width = 80, after_help = EXIT_CODES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    /// With --version: print commit, toolchain, target and libraries, too
    ///
    /// It goes with --version alone. What the log has is --log-level.
    // Before the flags of the log, whose heading holds for all that follow.
    #[arg(long, hide_short_help = true)]
    verbose: bool,
    #[command(flatten)]
    logs: logs::LogFlags,
}

#[derive(Subcommand)]
enum Command {
    /// Run one tunnel given by flags
    ///
    /// Listens on a port. For each connection that it accepts, it dials the next hop and carries the bytes between the two. It
    /// runs until SIGTERM, and then lets the connections end. It reads no configuration file.
    Relay(Box<relay::RelayFlags>),
    /// Run every tunnel of a configuration file
    ///
    /// This is the daemon that longhaul.service starts. SIGHUP reads the file again. Open connections stay as they are. A file
    /// with an error changes nothing. SIGTERM stops listening and lets connections end. A second SIGTERM resets those that are
    /// left.
    Run(file::File),
    /// Check a configuration file
    ///
    /// Reads FILE, or standard input if FILE is `-`. It starts nothing. It prints every error with its line and column and with
    /// what to write instead, and exits with 2. When there is no error, it prints what each tunnel does, and exits with 0.
    ///
    /// A warning is about a value that is probably a mistake, or that does not work on this machine or with the rights of
    /// longhaul.service. With `--log-format json`, each message and the summary are one JSON object on stderr.
    Check(check::CheckFlags),
    /// Show the state of a running daemon
    ///
    /// The first line says whether the daemon of longhaul.service, or another one (see -c and --admin), is whole. Then come its
    /// problems, tunnels, next hops, resources and live flows. A terminal gets the 20 oldest flows, a pipe all. Without a daemon,
    /// it says so, and says what systemd knows of longhaul.service. Then it exits with 1.
    Status(status::StatusFlags),
    /// Watch a running daemon on a full screen
    ///
    /// The first line says whether the daemon is whole. If it is not, the next lines say which stage of which tunnel is broken, and
    /// since when. Then come the tunnels and the live flows with their rates, and what the kernel knows of both legs. Keys sort and
    /// filter the flows, show one in full, and kill one after a question: press `?` for all of them.
    ///
    /// If the daemon goes away, the screen says so, keeps the last picture, and waits for the daemon. NO_COLOR turns colours off.
    Top(top::TopFlags),
    /// Let a running daemon read its configuration file again
    ///
    /// Waits until the file is in force or refused. If it is refused, prints the reason and exits with 1. Then the old
    /// configuration stays. If the daemon hangs, exits with 1 after 10 s. Open connections are not touched in any case.
    Reload(control::Target),
    /// Take a running daemon out of service, and wait for its flows
    ///
    /// /readyz says 503 at once. After drain_grace of the configuration (5 s), the tunnels no longer listen. The command ends when
    /// no flow is left. The daemon stays until SIGTERM. If the command is interrupted, the drain goes on.
    Drain(control::DrainFlags),
    /// End flows of a running daemon by their numbers
    ///
    /// Both hosts of each flow see a reset. Bytes on the way are lost. The command does not ask. It ends when the flows are cut.
    /// If a number belongs to no live flow, it says so, kills the others, and exits with 1.
    Kill(control::KillFlags),
    /// Check that a tunnel passes data end to end
    ///
    /// Connects to the tunnel's own listener as a client. The probe goes through every relay up to the final host's port. The
    /// last relay echoes a payload. Prints each stage with its times, and the payload's round-trip time, rate and checksum.
    ///
    /// The tunnel's `allow` must contain the address of this host. Write `verify_hops = 0` in each tunnel that dials the final
    /// host itself. With 1, the default, another relay follows.
    ///
    /// Exit codes: 0 whole; 1 broken, and the stage is named; 2 wrong usage or configuration; 3 cannot tell, because whoever
    /// is there does not answer to a probe.
    Verify(verify::VerifyFlags),
    /// Measure a path, and say what limits it
    ///
    /// Connects to a relay's tunnel whose `[probe]` allows it, or to `longhaul responder` on the far host, and sends in both
    /// directions: one connection, several, and with other congestion controls. Prints what limits one connection, the rate without
    /// that limit, and the round trip, rate, loss and MTU of the path.
    ///
    /// --tunnel measures between the two relays of a tunnel, beside its flows: the running daemon makes the connections. Only root and the
    /// user of the daemon may ask it.
    ///
    /// With the defaults it sends for 40 s at most, as fast as the path allows: other traffic notices. --limit, --seconds and
    /// --max-bytes bound it. --compare compares two saved results. Exit codes: 0 the path was measured; 1 it was not, or only a part;
    /// 2 wrong usage.
    Path(Box<control::PathFlags>),
    /// Answer `longhaul path` and `verify` on a host without tunnels
    ///
    /// Runs until a signal ends it. One client measures at a time; a second one is told to wait. It needs no configuration and no
    /// rights. A relay answers measurements itself: see `[probe] measure_from`.
    Responder(Box<longhaul_doctor::Responder>),
    /// Say what a path gives, and what to change
    ///
    /// From the round trip and the rate of a path, prints the rate of the hosts as they are, of tuned hosts, and with a relay at
    /// each site, with what limits each. Then come the numbers behind it, the commands for each system, with their undo, and the
    /// configuration of both relays. It sends no packet and changes nothing.
    ///
    /// longhaul advise --rtt 63ms --rate 10Gbit/s --os aix --app ssh --bytes 2TB
    Advise(Box<longhaul_doctor::Advise>),
    /// Find the settings of hosts that limit a path
    ///
    /// Reads what administrators paste: the output of `no -a`, `ifconfig -a`, `sysctl -a`, `ss -tim`, `netsh` and others. Prints
    /// the window that the host has, the rate that it allows on the path, and for each setting that limits it the change and the
    /// undo. Several files or a folder give one table, a row for each host.
    Audit(Box<longhaul_doctor::Audit>),
    /// Tune this Linux host for a path, and undo it
    ///
    /// Shows the sysctls that the path needs, with their old and new values, and asks. Then it sets them, reads them back, and
    /// writes them into /etc/sysctl.d/91-longhaul-tune.conf for the next boot. If one of them fails, it restores all. No value is
    /// lowered. Where the sysctls of `make install` are installed, it sets those, too.
    ///
    /// The old values are recorded in /var/lib/longhaul first. `longhaul tune --rollback` restores them exactly, also after a kill
    /// or a reboot in between. A second tune keeps the first record.
    ///
    /// sudo longhaul tune --rtt 63ms --rate 10Gbit/s
    Tune(Box<longhaul_doctor::Tune>),
    /// Emulate a WAN on this machine
    #[cfg(feature = "lab")]
    Lab(longhaul_lab::Lab),
    /// List the socket options
    ///
    /// A flow has two TCP connections, its legs: the accept leg comes from the client, the dial leg goes to the next hop. Each
    /// leg has socket options of its own. Set them with --set accept.KEY=VALUE and --set dial.KEY=VALUE, or in a configuration
    /// file with accept = { KEY = VALUE } and dial = { KEY = VALUE }.
    Options(options::OptionsFlags),
    /// Write a shell's completion script to stdout
    #[command(name = pages::COMPLETIONS)]
    Completions(pages::Shell),
    /// Write manual pages
    ///
    /// Without --out, one page is printed. To read it: `longhaul man relay | man -l -`.
    #[command(name = pages::MAN)]
    Man(pages::Man),
}

/// Reads the command line, runs the command and gives its exit code.
pub(crate) fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) if cli.verbose => wrong_usage("longhaul", "--verbose goes with --version; the log has --log-level"),
        Ok(cli) => cli,
        Err(err) if version::is_asked(&err) => return print(&version::text()),
        Err(err) => hints::meant(err, Cli::command()).exit(),
    };
    let logs = cli.logs;
    match cli.command {
        Command::Relay(flags) => match flags.load() {
            Ok(loaded) => serve(loaded, None, logs),
            Err(why) => wrong_usage("relay", &why),
        },
        Command::Run(file) => run(file.path(), logs),
        Command::Check(flags) => check::check(&flags, logs),
        Command::Status(flags) => status::status(&flags),
        Command::Top(flags) => top::top(&flags),
        Command::Reload(target) => control::reload(&target),
        Command::Drain(flags) => control::drain(&flags),
        Command::Kill(flags) => control::kill(&flags),
        Command::Verify(flags) => verify::verify(&flags, logs),
        Command::Path(flags) => control::path(*flags),
        Command::Responder(responder) => responder.run(),
        Command::Advise(advise) => advise.run(),
        Command::Audit(audit) => audit.run(),
        Command::Tune(tune) => tune.run(),
        #[cfg(feature = "lab")]
        Command::Lab(lab) => lab.run(),
        Command::Options(flags) => say(options::text(&flags)),
        Command::Completions(shell) => shell.run(Cli::command()),
        Command::Man(man) => man.run(Cli::command()),
    }
}

/// Carries the tunnels of the file at `path` until it is told to end.
fn run(path: &Path, logs: logs::LogFlags) -> ExitCode {
    if path == Path::new(file::STDIN) {
        return complain(&[
            "error: `longhaul run` reads its file again at SIGHUP, so it does not read stdin; name a file",
        ]);
    }
    match longhaul_config::load(path) {
        Ok(loaded) => serve(loaded, Some(path.into()), logs),
        Err(refused) => {
            logs.tell(&refused.messages);
            ExitCode::from(WRONG)
        }
    }
}

/// Carries the tunnels of what was read until it is told to end. `file` is what SIGHUP reads again.
fn serve(loaded: Loaded, file: Option<PathBuf>, logs: logs::LogFlags) -> ExitCode {
    let log = match logs.start() {
        Ok(log) => log,
        Err(err) => {
            complain(&[format!("error: cannot start a thread for the log: {err}")]);
            return ExitCode::FAILURE;
        }
    };
    loaded.warnings.iter().for_each(daemon::log);
    let ended = daemon::run(loaded.config, file);
    match &ended {
        Ok(()) => {}
        Err(err @ DaemonError::Panicked(_)) => error!(%err, "ending, which resets every flow"),
        Err(err) => error!(%err, "not started"),
    }
    log.flush();
    if ended.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Ends as clap does when it refuses a value itself: `why`, and how `command` is used.
fn wrong_usage(command: &str, why: &str) -> ! {
    let mut cli = Cli::command();
    cli.build();
    let mut fallback = cli.clone();
    let command = cli.find_subcommand_mut(command).unwrap_or(&mut fallback);
    command.error(ErrorKind::ValueValidation, why).exit()
}

/// Writes a text to stdout, or on stderr why there is none.
fn say(text: Result<String, String>) -> ExitCode {
    text.map_or_else(|why| complain(&[why]), |text| print(&text))
}

/// Says `lines` on stderr: wrong usage or configuration.
fn complain(lines: &[impl Display]) -> ExitCode {
    // Nobody is left to tell when stderr is closed.
    lines.iter().for_each(|line| drop(writeln!(io::stderr(), "{line}")));
    ExitCode::from(WRONG)
}

/// Writes `text` to stdout. A reader who has seen enough, such as `head`, is no failure.
fn print(text: &str) -> ExitCode {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(err) if err.kind() != io::ErrorKind::BrokenPipe => {
            complain(&[format!("error: stdout: {err}")]);
            ExitCode::FAILURE
        }
        _ => ExitCode::SUCCESS,
    }
}

/// Exit code of wrong usage or configuration.
const WRONG: u8 = 2;
/// Exit code of a Nagios check that found something doubtful.
const DOUBTFUL: u8 = 1;
/// Exit code of a Nagios check that found something broken.
const BROKEN: u8 = 2;
/// Exit code of a Nagios check that cannot tell, and of `verify` without Nagios.
const UNKNOWN: u8 = 3;

const EXIT_CODES: &str = "\
Exit codes: 0 success; 1 the command failed; 2 wrong usage or configuration.
`verify`, `status --nagios` and `lab run` have more: see their --help.";
