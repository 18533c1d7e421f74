//! `longhaul lab demo`: the same traffic directly, through the socat recipe and through longhaul, side by side.

use super::carrier::{self, Carrier, Running};
use super::keeper::not_started;
use super::problem::Problem;
use super::raw;
use super::report::{Cell, Report};
use super::scp::{self, Ssh, User};
use super::sockets::{self, Sender};
use super::spec::{Host, LinkSpec, Profile};
use super::wan::Wan;
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use longhaul_core::link::percentage;
use longhaul_core::units::{self, Bytes, Rate};
use longhaul_sys::netns;
use std::io::IsTerminal;
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt;
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

/// Compare no relay, socat and longhaul on an emulated WAN
///
/// Builds two hosts with small windows, a relay host beside each, and a WAN between the relays, all inside this machine;
/// copies a file with scp and sends raw TCP from host to host directly, through the socat recipe on both relay hosts, and
/// through longhaul on them; checks every byte; prints a table, and the reason for each number. Takes about a minute.
///
/// Runs as root, or as anybody where the system allows user namespaces. Nothing is left behind, however it ends. What is
/// not installed (scp and sshd, socat) is left out, and named with the package that brings it.
#[derive(Args, Debug, Clone)]
pub struct Demo {
    /// Round trip of the WAN, from 1ms to 10s
    #[arg(long, value_name = "TIME", default_value = "63ms", value_parser = read_rtt)]
    rtt: Duration,
    /// Its rate, from 1Mbit/s to 100Gbit/s
    ///
    /// It counts IP bytes, as routers do: TCP's payload is 1448 of each 1500 of them. The queue before the line holds one
    /// round trip.
    #[arg(long, default_value = "1Gbit/s", value_parser = read_rate)]
    rate: Rate,
    /// Share of segments lost at random, up to 50%
    ///
    /// In each direction.
    #[arg(long, value_name = "SHARE", default_value = "0", value_parser = read_loss)]
    loss: f64,
    /// Bytes of each transfer [default: six seconds' worth]
    ///
    /// By default each carrier gets what takes it about six seconds at the speed to be expected: a slow one would take
    /// minutes for what a fast one needs to show its speed.
    #[arg(long, value_parser = read_size)]
    size: Option<Bytes>,
}

/// What is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// One TCP connection, as fast as it goes.
    Raw,
    /// One file, with OpenSSH.
    Scp,
}

impl Demo {
    /// Runs it: 0 when every byte arrived, 1 otherwise.
    pub fn run(self) -> ExitCode {
        match self.measure() {
            Ok(report) => {
                print!("{report}");
                if report.is_complete() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
            }
            Err(problem) => {
                eprintln!("longhaul: the lab cannot be built: {problem}");
                ExitCode::FAILURE
            }
        }
    }

    fn measure(&self) -> Result<Report, Problem> {
        let user = become_root()?;
        let link = LinkSpec { loss: self.loss, ..LinkSpec::new(self.rtt, Some(self.rate)) };
        let host = Profile::aix_like(WINDOW);
        let relay = Profile::relay(&link);
        let wan = Wan::build(&link, [host.clone(), relay.clone(), relay, host])?;
        let mut report = Report::new(link, WINDOW);
        let ssh = match Ssh::start(&wan, SocketAddr::new(Host::B.lan(), SCP_PORT), &user) {
            Ok(ssh) => Some(ssh),
            Err(problem) => {
                report.left_out("scp", &problem);
                None
            }
        };
        for carrier in carrier::ROWS {
            if let Err(problem) = self.compare(&wan, ssh.as_ref(), carrier, &mut report) {
                report.left_out(carrier.name, &problem);
            }
        }
        report.traffic = Some(wan.traffic());
        Ok(report)
    }

    /// Both kinds of traffic over one carrier.
    fn compare(&self, wan: &Wan, ssh: Option<&Ssh>, carrier: &Carrier, report: &mut Report) -> Result<(), Problem> {
        let running = carrier.start(wan, RAW_PORT)?;
        let cell = self.raw(wan, carrier, &running)?;
        report.add(cell);
        if let Some(ssh) = ssh {
            let running = carrier.start(wan, SCP_PORT)?;
            let cell = self.scp(wan, ssh, carrier, &running)?;
            report.add(cell);
        }
        Ok(())
    }

    fn raw(&self, wan: &Wan, carrier: &Carrier, running: &Running) -> Result<Cell, Problem> {
        let bytes = self.bytes(Kind::Raw, carrier);
        let arrived = Arc::new(AtomicU64::new(0));
        let sink = SocketAddr::new(Host::B.lan(), RAW_PORT);
        let transfer = || raw::transfer(wan, (Host::A, running.entry), (Host::B, sink), bytes.0, &arrived);
        let watch = Watch { wan, name: format!("{}, raw TCP", carrier.name), bytes, entry: running.entry };
        let (outcome, senders) = watch.during(transfer, || arrived.load(Ordering::Relaxed))?;
        Ok(Cell { carrier: carrier.name, what: carrier.what, kind: Kind::Raw, bytes, took: outcome.took, senders })
    }

    fn scp(&self, wan: &Wan, ssh: &Ssh, carrier: &Carrier, running: &Running) -> Result<Cell, Problem> {
        let bytes = self.bytes(Kind::Scp, carrier);
        scp::make_file(wan, "empty", 0)?;
        let login = ssh.copy(wan, running.entry, "empty")?;
        scp::make_file(wan, "file", bytes.0)?;
        let watch = Watch { wan, name: format!("{}, scp", carrier.name), bytes, entry: running.entry };
        let (took, senders) = watch.during(|| ssh.copy(wan, running.entry, "file"), || scp::copied(wan, "file"))?;
        scp::check_copy(wan, "file")?;
        let took = took.saturating_sub(login);
        Ok(Cell { carrier: carrier.name, what: carrier.what, kind: Kind::Scp, bytes, took, senders })
    }

    /// How much to send: about six seconds' worth at the speed to be expected, for a slow carrier would take minutes for
    /// what a fast one needs to show its speed.
    fn bytes(&self, kind: Kind, carrier: &Carrier) -> Bytes {
        if let Some(size) = self.size {
            return size;
        }
        let rtt = self.rtt.as_secs_f64();
        let line = self.rate.0 as f64 / 8.0;
        let window = |bytes: f64| bytes / rtt;
        let expected = match (carrier.name, kind) {
            ("direct", _) => window(WINDOW.0 as f64),
            (_, Kind::Raw) => line,
            ("socat", Kind::Scp) => window(OPENSSH_WINDOW) / 2.0,
            (_, Kind::Scp) => window(OPENSSH_WINDOW),
        };
        let congestion = if carrier.name == "longhaul" { "bbr" } else { "cubic" };
        let link = LinkSpec { loss: self.loss, ..LinkSpec::new(self.rtt, Some(self.rate)) };
        let lossy = link.loss_law(congestion, self.rtt).unwrap_or(f64::MAX);
        // Without a window to hold it, a connection sends many megabytes before its first loss: let it go on.
        let lossy = if carrier.name == "direct" { lossy } else { 3.0 * lossy };
        let expected = expected.min(line).min(lossy);
        let most = if kind == Kind::Scp { 400e6 } else { 20e9 };
        Bytes((expected * SECONDS).clamp(256e3, most) as u64)
    }
}

/// A transfer under way, as shown and sampled.
struct Watch<'a> {
    wan: &'a Wan,
    name: String,
    bytes: Bytes,
    entry: SocketAddr,
}

impl Watch<'_> {
    /// Runs `transfer`, shows how many bytes have `arrived`, and gives besides its result the TCP_INFO of the senders:
    /// host A, and the near relay on the WAN.
    fn during<T: Send>(
        &self,
        transfer: impl FnOnce() -> Result<T, Problem> + Send,
        arrived: impl Fn() -> u64,
    ) -> Result<(T, [Sender; 2]), Problem> {
        let bar = progress(&self.name, self.bytes);
        let filters = [
            (Host::A, format!("dst {} and dport = {}", self.entry.ip(), self.entry.port())),
            (Host::Near, format!("dst {} and dport = {}", Host::Far.wan(), self.entry.port())),
        ];
        let mut senders = [Sender::default(), Sender::default()];
        let result = std::thread::scope(|scope| {
            let (done, ended) = mpsc::channel();
            scope.spawn(move || done.send(transfer()));
            loop {
                match ended.recv_timeout(SAMPLE_EVERY) {
                    Ok(result) => return result,
                    Err(RecvTimeoutError::Disconnected) => {
                        return Err(Problem::Bytes("the transfer ended early".into()));
                    }
                    Err(RecvTimeoutError::Timeout) => {}
                }
                bar.set_position(arrived());
                for ((host, filter), sender) in filters.iter().zip(&mut senders) {
                    let found = sockets::sample(self.wan, *host, filter)?;
                    *sender = found.into_iter().fold(std::mem::take(sender), Sender::with);
                }
            }
        });
        bar.finish_and_clear();
        Ok((result?, senders))
    }
}

/// A bar on a terminal; elsewhere one plain line at the start.
fn progress(name: &str, bytes: Bytes) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        eprintln!("{name}: {:.1} MB", bytes.0 as f64 / 1e6);
        return ProgressBar::hidden();
    }
    let template = "{msg:22} {wide_bar:.cyan} {decimal_bytes:>10} / {decimal_total_bytes} {decimal_bytes_per_sec:>12}";
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(bytes.0).with_style(style).with_message(name.to_string())
}

/// Becomes root of a user namespace when not root already; says who the user is to sshd.
fn become_root() -> Result<User, Problem> {
    let output = Command::new("id").arg("-un").output().map_err(not_started("id".to_string()))?;
    let name = String::from_utf8_lossy(&output.stdout).trim().to_string();
    if netns::is_root() {
        return Ok(User { name, mapped: None });
    }
    let owner = std::fs::metadata("/proc/self").map_err(Problem::io("reading /proc/self"))?;
    let mapped = Some((owner.uid(), owner.gid()));
    netns::become_root_of_own_user_namespace()?;
    Ok(User { name, mapped })
}

fn read_rtt(text: &str) -> Result<Duration, String> {
    let rtt = units::duration(text).map_err(|err| format!("{err}; write for example 63ms"))?;
    let allowed = Duration::from_millis(1)..=Duration::from_secs(10);
    if allowed.contains(&rtt) { Ok(rtt) } else { Err("a round trip is from 1ms to 10s; write for example 63ms".into()) }
}

fn read_rate(text: &str) -> Result<Rate, String> {
    let rate: Rate = text.parse().map_err(|err| format!("{err}; write for example 1Gbit/s"))?;
    let allowed = Rate(1_000_000)..=Rate(100_000_000_000);
    let wrong = "a rate is from 1Mbit/s to 100Gbit/s; write for example 1Gbit/s";
    if allowed.contains(&rate) { Ok(rate) } else { Err(wrong.into()) }
}

fn read_loss(text: &str) -> Result<f64, String> {
    let loss = percentage(text).map_err(|err| err.to_string())?;
    if loss <= 0.5 { Ok(loss) } else { Err("nothing gets across above 50%; write for example 0.1%".into()) }
}

fn read_size(text: &str) -> Result<Bytes, String> {
    let size: Bytes = text.parse().map_err(|err| format!("{err}; write for example 100MB"))?;
    let allowed = Bytes(1)..=Bytes(100 << 30);
    if allowed.contains(&size) { Ok(size) } else { Err("a size is from 1B to 100GiB; write for example 100MB".into()) }
}

/// What AIX gives a connection by default on 10 GbE and virtual Ethernet.
const WINDOW: Bytes = Bytes(262_144);
/// How far OpenSSH sends ahead: its channel window, and 64 requests of 32 KiB in its sftp client.
pub(super) const OPENSSH_WINDOW: f64 = 2_097_152.0;
/// The port of the recipe, for scp; and one for raw TCP.
const SCP_PORT: u16 = 6000;
const RAW_PORT: u16 = 6001;
/// Long enough that CUBIC's start over a long path does not decide.
const SECONDS: f64 = 6.0;
const SAMPLE_EVERY: Duration = Duration::from_millis(250);
