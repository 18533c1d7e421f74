//! `longhaul path`: measures a path, and says what limits it.
//!
//! Each file uses only those below it in this list:
//!
//! - `compare`: what has changed between two saved results;
//! - `page`: the result as a page with charts;
//! - `text`: the result for people;
//! - `words`, `values`: what it says in words, and its figures;
//! - `lab`: the lab's result for the same path;
//! - `document`: the result as it was saved;
//! - `json`: the result for programs;
//! - `alone`: a measurement with one end alone;
//! - `course`: the steps of a measurement;
//! - `schedule`: the time that each step has;
//! - `measured`: what they have shown, and what follows from it;
//! - `trains`: the rate of the line by datagrams;
//! - `ladder`: the path MTU by datagrams;
//! - `session`: the client's side of a measuring session;
//! - `dialer`: where its connections come from.
//!
//! `longhaul_core::path::measured` decides what limits the path.

mod alone;
mod compare;
mod course;
mod dialer;
mod document;
mod json;
mod lab;
mod ladder;
mod measured;
mod page;
mod schedule;
mod session;
#[cfg(test)]
mod tests;
mod text;
mod trains;
mod values;
mod words;

use crate::path::read_rate;
use crate::{say, show};
use clap::{ArgGroup, Args};
use compare::Comparison;
use course::{Course, Limits};
use dialer::{Dialer, Through};
use document::Document;
use jiff::Timestamp;
use json::Origin;
use lab::Lab;
use longhaul_config::{key_file, value};
use longhaul_core::wire::proof::Key;
use longhaul_measure::answer::MAX_BYTES;
use longhaul_sys::process;
use longhaul_units::{Bytes, Rate, show_duration};
use measured::Measured;
use session::{NoSession, Session};
use signal_hook::consts::{SIGINT, SIGTERM};
use std::io::ErrorKind;
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// The flags of `longhaul path`.
#[derive(Args, Clone, Debug)]
#[command(group(ArgGroup::new("path").required(true).args(["to", "tunnel", "compare", "from"])))]
#[command(
    override_usage = "longhaul path [OPTIONS] <HOST:PORT|--tunnel NAME>\n       longhaul path [OPTIONS] <--compare A B|--from FILE>"
)]
pub struct Measure {
    /// Far end: a relay's tunnel, or `longhaul responder`
    #[arg(value_name = "HOST:PORT")]
    to: Option<String>,
    /// Measure to the next relay of this tunnel
    ///
    /// The daemon makes the connections, as for the flows of the tunnel. The measurement has half of the bandwidth cap that the
    /// file gives, and the flows share the other half until it ends. The `[probe]` of the next relay must allow this one to measure.
    #[arg(long, value_name = "NAME", value_parser = value::name)]
    tunnel: Option<String>,
    /// Compare two files of --save: A before, B after
    ///
    /// It measures nothing. It prints what limited the path before and what limits it now, and each figure with its ratio. `-` is
    /// standard input.
    #[arg(
        long,
        num_args = 2,
        value_names = ["A", "B"],
        conflicts_with_all = ["key_file", "limit", "max_bytes", "seconds", "save"]
    )]
    compare: Vec<PathBuf>,
    /// Write the page of a file of --save
    ///
    /// It measures nothing, and needs --html. `-` is standard input.
    #[arg(long, value_name = "FILE", requires = "html", conflicts_with_all = ["key_file", "limit", "max_bytes", "seconds", "save", "json", "rfc6349"])]
    from: Option<PathBuf>,
    /// Add the lab's result for this path to the page
    ///
    /// A file with the output of `longhaul lab run SCENARIO --json`, where `longhaul lab init --from FILE` wrote the scenario.
    #[arg(long, value_name = "RESULT", requires = "from")]
    lab: Option<PathBuf>,
    /// File with the key that the far end wants
    ///
    /// The key of its `[probe] key_file`, or of the responder's --key-file. 16 to 4096 bytes, which no other user may read.
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// Rate to send at most [default: no limit]
    ///
    /// It counts IP bytes. The result is then that of the limit, if the path carries more.
    #[arg(long, value_name = "RATE", value_parser = read_rate, allow_hyphen_values = true)]
    limit: Option<Rate>,
    /// Bytes to send at most
    ///
    /// Of both directions together, 1MB to 100GB.
    #[arg(long, value_name = "SIZE", default_value = "10GB", value_parser = bytes)]
    max_bytes: Bytes,
    /// Time to send
    ///
    /// Of both directions together, 5s to 150s. The steps share it. Round trips and the path MTU take some seconds more.
    #[arg(long, value_name = "TIME", default_value = "40s", value_parser = seconds)]
    seconds: Duration,
    /// Also print the metrics of RFC 6349
    ///
    /// The steps of its procedure, and for each TCP test the time of the transfer as a multiple of the least, the share of bytes that were not retransmitted, and how
    /// much longer the round trip was than the baseline. Only the default congestion control is tested, so each test lasts longer.
    #[arg(long)]
    rfc6349: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
    /// Also write an HTML page to this file
    ///
    /// The page says what limits the path, and shows the runs over time, the round trips, and the sizes that the path carries. It is a
    /// single file for any browser. It loads nothing from elsewhere.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write the JSON document to FILE, too
    ///
    /// `longhaul advise --from FILE` and others read it.
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
}

impl Measure {
    /// Returns the tunnel to measure, if one is named.
    pub fn tunnel(&self) -> Option<&str> {
        self.tunnel.as_deref()
    }

    /// Runs the command. `through` connects to the daemon that has the tunnel, once it is known that the flags are good.
    pub fn run(self, through: impl FnOnce(&str) -> Result<UnixStream, String>) -> ExitCode {
        // Checked first, because the measurement would be lost.
        for (flag, file) in [("--html", &self.html), ("--save", &self.save)] {
            if let Some(Err(why)) = file.as_deref().map(crate::page::writable) {
                return say::wrong(&format!("{flag}: {why}"));
            }
        }
        if let Some(file) = &self.from {
            return self.page_of(file).map_or_else(|why| say::wrong(&why), |()| ExitCode::SUCCESS);
        }
        if !self.compare.is_empty() {
            return self.compare();
        }
        let key = match self.key_file.as_deref().map(key_file::load).transpose() {
            Ok(key) => key,
            Err(why) => return say::wrong(&format!("--key-file: {why}")),
        };
        let addresses = match self.to.as_deref().map(addresses).transpose() {
            Ok(addresses) => addresses.unwrap_or_default(),
            Err(code) => return code,
        };
        let began = Timestamp::now();
        let stop = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            // A second one ends the process at once.
            let registered = signal_hook::flag::register_conditional_default(signal, stop.clone())
                .and_then(|_| signal_hook::flag::register(signal, stop.clone()));
            if let Err(err) = registered {
                return say::failed(&format!("signals: {err}"));
            }
        }
        let measured = match &self.tunnel {
            Some(tunnel) => {
                through(tunnel).and_then(|daemon| self.measure_through(tunnel, daemon, key.as_ref(), &stop))
            }
            None => self.measure(&addresses, key.as_ref(), &stop),
        };
        match measured {
            Ok(measured) => self.report(&measured, began),
            Err(why) => say::failed(&why),
        }
    }

    /// # Errors
    /// There is no result: nobody answers, or the answerer refuses.
    fn measure(&self, addresses: &[SocketAddr], key: Option<&Key>, stop: &Arc<AtomicBool>) -> Result<Measured, String> {
        let to = self.to.as_deref().unwrap_or_default();
        let mut failed = Err(NoSession::Unreachable(format!("{to} has no address")));
        for address in addresses {
            failed = self.measure_by(&Arc::new(Dialer::Direct(*address)), to, key, stop);
            if !matches!(failed, Err(NoSession::Unreachable(_))) {
                break;
            }
        }
        failed.map_err(NoSession::why)
    }

    /// Measures through `tunnel` of `daemon`.
    ///
    /// # Errors
    /// As [`measure`](Measure::measure).
    fn measure_through(
        &self,
        tunnel: &str,
        daemon: UnixStream,
        key: Option<&Key>,
        stop: &Arc<AtomicBool>,
    ) -> Result<Measured, String> {
        let through = Through::begin(daemon, tunnel, self.limit, stop)?;
        through.notes().iter().for_each(say::note);
        if through.begun.next_hops > 1 {
            let (count, used) = (through.begun.next_hops, &through.begun.next_hop);
            say::note(format_args!("tunnel {tunnel} has {count} next hops; a flow would have {used} now"));
        }
        let to = through.begun.next_hop.clone();
        self.measure_by(&Arc::new(Dialer::Tunnel(Box::new(through))), &to, key, stop).map_err(NoSession::why)
    }

    /// # Errors
    /// There is no result.
    fn measure_by(
        &self,
        dialer: &Arc<Dialer>,
        to: &str,
        key: Option<&Key>,
        stop: &Arc<AtomicBool>,
    ) -> Result<Measured, NoSession> {
        let rate = dialer.through().map_or(self.limit, |through| through.begun.limit.map(Rate));
        let limits = Limits { time: self.seconds, bytes: self.max_bytes, rate, has_only_default: self.rfc6349 };
        match Session::open(dialer, key, stop) {
            Ok(session) => {
                self.announce(dialer.address(), rate);
                Ok(Course::new(session, to, limits, stop).run())
            }
            Err(NoSession::OneSided { why, connect }) => Ok(alone::measure(to, dialer, (why, connect), &limits, stop)),
            Err(other) => Err(other),
        }
    }

    /// Says what the measurement sends, before it starts.
    fn announce(&self, address: SocketAddr, rate: Option<Rate>) {
        let rate = rate.map_or("as fast as the path allows".into(), |rate| format!("{rate} at most"));
        say::note(format_args!(
            "measuring the path to {address}: at most {} and {} of sending, {rate}; Ctrl-C ends it with what is known",
            show::size(self.max_bytes),
            show_duration(self.seconds)
        ));
    }

    /// Writes the page of the saved result in `file`.
    ///
    /// # Errors
    /// A file cannot be used or written: the flag, and a sentence that says what to do.
    fn page_of(&self, file: &Path) -> Result<(), String> {
        if [Some(file), self.lab.as_deref()].iter().all(|file| file.is_some_and(|file| file.as_os_str() == "-")) {
            return Err("--from and --lab: only one of the two can be standard input; name a file".into());
        }
        let document = Document::read(file).map_err(|why| format!("--from: {why}"))?;
        let lab = self.lab.as_deref().map(Lab::read).transpose().map_err(|why| format!("--lab: {why}"))?;
        let page = page::page(&document, lab.as_ref());
        self.html.iter().try_for_each(|html| crate::page::write(html, &page)).map_err(|why| format!("--html: {why}"))
    }

    /// Compares two saved results.
    fn compare(&self) -> ExitCode {
        let comparison = match Comparison::read(&self.compare) {
            Ok(comparison) => comparison,
            Err(why) => return say::wrong(&format!("--compare: {why}")),
        };
        let page = self.html.as_ref().map(|file| crate::page::write(file, &compare::page(&comparison)));
        if let Some(Err(why)) = page {
            return say::wrong(&format!("--html: {why}"));
        }
        say::print(&if self.json { compare::json(&comparison) } else { compare::text(&comparison) })
    }

    /// Returns the command line of this measurement, without the name of a key's file.
    fn command(&self) -> String {
        let tunnel = self.tunnel.as_ref().map(|tunnel| format!("--tunnel {tunnel}"));
        let to = tunnel.or(self.to.clone()).unwrap_or_default();
        let key = self.key_file.as_ref().map_or("", |_| " --key-file FILE");
        let limit = self.limit.map(|rate| format!(" --limit {rate}")).unwrap_or_default();
        let rfc = if self.rfc6349 { " --rfc6349" } else { "" };
        let (bytes, time) = (show::size(self.max_bytes), show_duration(self.seconds));
        format!("longhaul path {to}{key}{limit} --max-bytes {bytes} --seconds {time}{rfc}")
    }

    /// Prints the result, and writes it to the files that the flags name.
    fn report(&self, measured: &Measured, began: Timestamp) -> ExitCode {
        let began = began.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let origin = Origin { command: self.command(), began, host: process::hostname() };
        let value = json::document(measured, &origin);
        let document = format!("{value:#}\n");
        let path = Document::of(value);
        let printed = match &path {
            _ if self.json => say::print(&document),
            Ok(path) if self.rfc6349 => say::print(&(text::text(path) + &text::rfc6349(path))),
            Ok(path) => say::print(&text::text(path)),
            Err(why) => say::failed(why),
        };
        if let Some(file) = &self.save {
            if let Err(err) = std::fs::write(file, &document) {
                return say::failed(&format!("{} cannot be written: {err}", file.display()));
            }
        }
        let page =
            self.html.as_ref().map(|file| path.and_then(|path| crate::page::write(file, &page::page(&path, None))));
        if let Some(Err(why)) = page {
            return say::failed(&format!("--html: {why}"));
        }
        // A result that is only a part of one is still printed. An answerer that allows nothing leaves none.
        let is_none = !measured.version.is_empty() && measured.outcomes.is_empty();
        if measured.ended.is_some() || is_none { ExitCode::FAILURE } else { printed }
    }
}

/// Returns the addresses of `to`.
///
/// # Errors
/// The exit code, after why is said.
fn addresses(to: &str) -> Result<Vec<SocketAddr>, ExitCode> {
    let found = to.to_socket_addrs().map_err(|err| match err.kind() {
        ErrorKind::InvalidInput => say::wrong(&format!("{to}: {err}; write HOST:PORT, such as 10.20.20.20:6000")),
        _ => say::failed(&format!("{to}: {err}")),
    });
    found.map(Iterator::collect)
}

fn bytes(text: &str) -> Result<Bytes, String> {
    let bytes: Bytes = text.parse().map_err(|err| format!("{err}; write a size such as 1GB"))?;
    match (1_000_000..=MAX_BYTES).contains(&bytes.0) {
        true => Ok(bytes),
        false => Err("write 1MB to 100GB".into()),
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    // A number alone is one of seconds.
    let with_unit = if text.bytes().all(|byte| byte.is_ascii_digit()) { format!("{text}s") } else { text.to_string() };
    let time = longhaul_units::duration(&with_unit).map_err(|err| format!("{err}; write a time such as 40s"))?;
    match (Duration::from_secs(5)..=Duration::from_secs(150)).contains(&time) {
        true => Ok(time),
        false => Err("write 5s to 150s".into()),
    }
}
