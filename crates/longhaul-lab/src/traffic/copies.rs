//! Simultaneous copies of one file between the hosts, by a program that logs in to host B. Measures the speed and compares each
//! copy with the file. This is the common part of these programs; each has a row and a file of its own.

use crate::error::LabError;
use crate::plan::law;
use crate::plan::place::{Direction, Host};
use crate::traffic::row::{Counts, Drive, Heeds, Kind, LARGEST_COPY, Measured, ServedBy, varies};
use crate::world::ssh;
use crate::world::supervisor::WORKSHOP;
use crate::world::wan::Wan;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::net::SocketAddr;
use std::process::Command;
use std::time::{Duration, Instant};

/// The base of the rows of these programs, for those that log in with ssh. A row has its own name, needs and `run`.
pub(crate) const BASE: Kind = Kind {
    laws: &[law::WINDOW, law::OPENSSH],
    counts: Counts::Speed,
    keys: &[Heeds::Direction],
    server: ServedBy::Sshd,
    max_size: LARGEST_COPY,
    figures: &[varies("login_s")],
    ..Kind::BASE
};

/// One copy to be made: paths in the lab's workshop.
pub(crate) struct Copy<'a> {
    /// The lab.
    pub(crate) wan: &'a Wan,
    /// The address to which host A connects.
    pub(crate) entry: SocketAddr,
    /// The login there: `user@address`, or a URL without a path.
    pub(crate) login: String,
    /// Path of the file that is read.
    pub(crate) from: String,
    /// Path of the file that is written.
    pub(crate) to: String,
    /// The direction of the file.
    pub(crate) direction: Direction,
}

/// A function that returns the command that makes one copy, to run on host A.
pub(crate) type Tool = fn(&Copy<'_>) -> Result<Command, LabError>;

/// Makes the scenario's copies with `tool`, which logs in with ssh, and compares each with the file.
pub(crate) fn run(drive: &Drive<'_>, tool: Tool) -> Result<Measured, LabError> {
    let server = ssh::Server::start(drive.wan, Host::B, drive.server(), drive.user)?;
    run_with(drive, &server.login(drive.running.entry.ip()), tool)
}

/// Makes the scenario's copies with `tool`, which logs in as `login` says, and compares each with the file. The server runs.
pub(crate) fn run_with(drive: &Drive<'_>, login: &str, tool: Tool) -> Result<Measured, LabError> {
    let Drive { wan, running, traffic, .. } = drive;
    let copies = |from: &str| -> Vec<Copy<'_>> {
        let copy = |number| Copy {
            wan,
            entry: running.entry,
            login: login.to_string(),
            from: format!("{WORKSHOP}/{from}"),
            to: format!("{WORKSHOP}/{from}.{number}"),
            direction: traffic.direction,
        };
        (0..traffic.connections).map(copy).collect()
    };
    let size = drive.copy_size();
    make_file(wan, "empty", 0)?;
    let first = at_once(&copies("empty"), tool, LONGEST)?;
    make_file(wan, "file", size)?;
    (drive.began)();
    let copies = copies("file");
    // A size from the scenario may take any time.
    let longest = if traffic.size.is_some() { LONGEST } else { traffic.time * MUCH_LONGER };
    let took = at_once(&copies, tool, first + longest)?;
    copies.iter().try_for_each(Copy::check)?;
    let bytes = size * u64::from(traffic.connections);
    // The login takes several round trips and CPU time. It does not belong to the speed of the copy.
    let moved = took.saturating_sub(first).max(Duration::from_millis(1));
    let figures = vec![("login_s", first.as_secs_f64())];
    let speed = bytes as f64 / moved.as_secs_f64();
    Ok(Measured { bytes, checked: true, speed, over: moved, figures, ..Measured::default() })
}

/// Makes all copies at once. Returns the time of the slowest copy. Fails if one takes longer than `longest`.
fn at_once(copies: &[Copy<'_>], tool: Tool, longest: Duration) -> Result<Duration, LabError> {
    let latest = Instant::now() + longest;
    std::thread::scope(|scope| {
        let running: Vec<_> = copies.iter().map(|copy| scope.spawn(move || copy.make(tool, latest))).collect();
        let ended =
            running.into_iter().map(|copy| copy.join().unwrap_or(Err(LabError::Panicked("a thread of the copy"))));
        let took = ended.collect::<Result<Vec<Duration>, LabError>>()?;
        Ok(took.into_iter().max().unwrap_or_default())
    })
}

impl Copy<'_> {
    /// Returns the source and the target of the copy, in the syntax of scp(1) and rsync(1).
    pub(crate) fn places(&self) -> [String; 2] {
        let there = |path: &str| format!("{}:{path}", self.login);
        match self.direction {
            Direction::Out => [self.from.clone(), there(&self.to)],
            Direction::Back => [there(&self.from), self.to.clone()],
        }
    }

    /// Makes the copy. Returns the time that it took.
    fn make(&self, tool: Tool, latest: Instant) -> Result<Duration, LabError> {
        let command = tool(self)?;
        let start = Instant::now();
        self.wan.spawn(Host::A, command)?.finish_by(latest)?;
        Ok(start.elapsed())
    }

    /// Compares the SHA-256 of the file and its copy, each computed on its host, and removes the copy.
    fn check(&self) -> Result<(), LabError> {
        let hash = |host, path: &str| {
            let text = self.wan.output(host, "sha256sum", &[path])?;
            Ok::<_, LabError>(text.split_whitespace().next().unwrap_or_default().to_string())
        };
        let [sender, receiver] = self.direction.ends();
        let (sent, arrived) = (hash(sender, &self.from)?, hash(receiver, &self.to)?);
        let removed = std::fs::remove_file(self.wan.path(&self.to));
        removed.map_err(LabError::io(format!("removing the lab's {}", self.to)))?;
        match sent == arrived {
            true => Ok(()),
            false => Err(LabError::Bytes(format!("the copy differs: SHA-256 {arrived}, sent {sent}"))),
        }
    }
}

/// Maximum time of a copy.
const LONGEST: Duration = Duration::from_secs(600);
/// Maximum time of a copy, as a multiple of the scenario's time. A slower copy does not show what the scenario is about.
const MUCH_LONGER: u32 = 20;

/// Makes a file of `bytes` bytes that do not compress.
pub(crate) fn make_file(wan: &Wan, name: &str, bytes: u64) -> Result<(), LabError> {
    let fail = || format!("writing {bytes} bytes to the lab's {name}");
    let mut file = BufWriter::new(File::create(wan.path(&format!("{WORKSHOP}/{name}"))).map_err(LabError::io(fail()))?);
    let block = crate::traffic::stream::block();
    let mut left = bytes;
    while left > 0 {
        let length = (block.len() as u64).min(left);
        file.write_all(&block[..length as usize]).map_err(LabError::io(fail()))?;
        left -= length;
    }
    file.flush().map_err(LabError::io(fail()))
}
