//! The supervisor: one thread that makes everything which must vanish with this process, and starts every program of the
//! lab.
//!
//! It has mounts of its own, with an empty /run in memory (for keys, files, and the directory that sshd wants), and a
//! process namespace whose init is `cat` reading a pipe from us. However this process ends, the pipe closes, `cat` ends,
//! the kernel kills the rest of that namespace, and with the last descriptor go the network namespaces and TUN devices.

use crate::error::LabError;
use crate::world::requirement::missing;
use longhaul_sys::netns::{self, NetNs};
use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A thread with mounts and processes of its own.
#[derive(Debug)]
pub(crate) struct Supervisor {
    jobs: Option<mpsc::Sender<Job>>,
    thread: Option<JoinHandle<()>>,
    /// The init of the process namespace, as we see its number.
    init: u32,
}

/// A program of the lab; killed when dropped.
#[derive(Debug)]
pub struct Program {
    name: String,
    child: Child,
    said: Option<Said>,
}

/// The last lines a program wrote to stderr, collected by a thread of their own.
#[derive(Clone, Debug, Default)]
struct Said(Arc<Mutex<VecDeque<String>>>);

type Job = Box<dyn FnOnce() + Send>;

impl Supervisor {
    /// Makes the namespaces.
    pub(crate) fn start() -> Result<Supervisor, LabError> {
        let (jobs, orders) = mpsc::channel::<Job>();
        let (ready, started) = mpsc::channel();
        let body = move || {
            let init = match isolate() {
                Ok((init, pipe)) => {
                    let _ = ready.send(Ok(init.id()));
                    orders.into_iter().for_each(|job| job());
                    drop::<Option<ChildStdin>>(pipe);
                    init
                }
                Err(problem) => return drop(ready.send(Err(problem))),
            };
            let mut init = init;
            let _ = init.wait();
        };
        let spawned = std::thread::Builder::new().name("lab-supervisor".into()).spawn(body);
        let thread = Some(spawned.map_err(LabError::io("starting the lab's thread"))?);
        let init = started.recv().unwrap_or_else(|_| Err(died()))?;
        Ok(Supervisor { jobs: Some(jobs), thread, init })
    }

    /// Runs `job` on the supervisor's thread, inside `net`, and waits for it.
    pub(crate) fn run<T: Send + 'static>(
        &self,
        net: &Arc<NetNs>,
        job: impl FnOnce() -> Result<T, LabError> + Send + 'static,
    ) -> Result<T, LabError> {
        let net = Arc::clone(net);
        self.run_anywhere(move || net.enter().map_err(LabError::from).and_then(|()| job()))
    }

    /// Runs `job` on the supervisor's thread, in whatever network namespace that is, and waits for it.
    pub(crate) fn run_anywhere<T: Send + 'static>(
        &self,
        job: impl FnOnce() -> Result<T, LabError> + Send + 'static,
    ) -> Result<T, LabError> {
        let (done, result) = mpsc::channel();
        let job = Box::new(move || drop(done.send(job())));
        let sent = self.jobs.as_ref().is_some_and(|jobs| jobs.send(job).is_ok());
        if sent { result.recv().unwrap_or_else(|_| Err(died())) } else { Err(died()) }
    }

    /// Starts `command` inside `net`.
    pub(crate) fn spawn(&self, net: &Arc<NetNs>, mut command: Command) -> Result<Program, LabError> {
        let name = shown(&command);
        let program = command.get_program().to_string_lossy().into_owned();
        // A terminal's Ctrl-C is for the lab alone: its end is theirs.
        command.process_group(0);
        let child = self.run(net, move || command.spawn().map_err(not_started(program)))?;
        Ok(Program { name, child, said: None })
    }

    /// Returns the path by which this process finds the path `inside` of the supervisor's own mounts.
    pub(crate) fn path(&self, inside: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/root{inside}", self.init))
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Program {
    /// Waits until the program has written `ready` to stderr, or to stdout where its command has only that piped. What it
    /// says later is read on.
    ///
    /// # Errors
    /// It ended, or 20 seconds have passed.
    pub fn wait_for(mut self, ready: &'static str) -> Result<Program, LabError> {
        let Some(seen) = self.overhear(ready) else { return Ok(self) };
        let answer = seen.recv_timeout(READY_WITHIN);
        match answer {
            Ok(()) => Ok(self),
            Err(mpsc::RecvTimeoutError::Timeout) => Err(self.not_ready()),
            Err(mpsc::RecvTimeoutError::Disconnected) => Err(self.failure()),
        }
    }

    /// Reads what it says from here on, so that it never waits for us, and keeps the last lines for an error; tells of
    /// each line with `ready` in it. Nothing where its command has neither stderr nor stdout piped.
    pub(crate) fn overhear(&mut self, ready: &'static str) -> Option<mpsc::Receiver<()>> {
        let stderr = self.child.stderr.take().map(|pipe| Box::new(pipe) as Box<dyn Read + Send>);
        let stdout = || self.child.stdout.take().map(|pipe| Box::new(pipe) as Box<dyn Read + Send>);
        let output = stderr.or_else(stdout)?;
        let said = Said::default();
        let (saw, seen) = mpsc::channel();
        self.said = Some(said.clone());
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if line.contains(ready) {
                    let _ = saw.send(());
                }
                said.push(line);
            }
        });
        Some(seen)
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// It did not succeed.
    pub fn finish(mut self) -> Result<(), LabError> {
        match self.child.wait() {
            Ok(status) if status.success() => Ok(()),
            _ => Err(self.failure()),
        }
    }

    /// As [`Program::finish`], and ends it when it has not ended by `latest`.
    ///
    /// # Errors
    /// It did not succeed, or not in time.
    pub fn finish_by(mut self, latest: Instant) -> Result<(), LabError> {
        while self.ended().is_none() {
            if Instant::now() >= latest {
                return Err(LabError::Late(self.name.clone()));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        self.finish()
    }

    /// Waits for its end and gives what it wrote to stdout, which its command must have piped.
    ///
    /// # Errors
    /// It did not succeed.
    pub fn output(mut self) -> Result<String, LabError> {
        let mut text = String::new();
        if let Some(mut stdout) = self.child.stdout.take() {
            let read = stdout.read_to_string(&mut text);
            read.map_err(LabError::io(format!("reading from `{}`", self.name)))?;
        }
        self.finish().map_err(|problem| problem.or_said(&text)).map(|()| text)
    }

    /// Returns its exit status, once it has ended.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// The program and its arguments, as one would type them.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its process number as seen from here.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// That it has not got ready in time.
    pub(crate) fn not_ready(&mut self) -> LabError {
        LabError::NotReady { program: self.name.clone(), said: self.said() }
    }

    /// The end of what it wrote to stderr.
    fn said(&mut self) -> String {
        if let Some(mut stderr) = self.child.stderr.take() {
            let mut text = String::new();
            let _ = stderr.read_to_string(&mut text);
            return text;
        }
        self.said.as_ref().map(Said::text).unwrap_or_default()
    }

    /// Waits for its end, and says how it ended.
    pub(crate) fn failure(&mut self) -> LabError {
        let status = self.child.wait().map_or_else(|err| err.to_string(), |status| status.to_string());
        LabError::Failed { program: self.name.clone(), status, said: self.said() }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Said {
    fn push(&self, line: String) {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() == LINES_KEPT {
            lines.pop_front();
        }
        lines.push_back(line);
    }

    fn text(&self) -> String {
        let lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        lines.iter().cloned().collect::<Vec<_>>().join("\n")
    }
}

/// Isolates the calling thread and starts the init of its process namespace.
fn isolate() -> Result<(Child, Option<ChildStdin>), LabError> {
    netns::own_mounts()?;
    netns::mount_tmpfs("/run", "mode=755")?;
    for directory in ["/run/sshd", WORKSHOP] {
        std::fs::create_dir(directory).map_err(LabError::io(format!("making {directory}")))?;
    }
    netns::own_processes()?;
    let mut init = Command::new("cat");
    init.stdin(Stdio::piped()).stdout(Stdio::null()).current_dir("/").process_group(0);
    let mut init = init.spawn().map_err(not_started("cat".to_string()))?;
    let pipe = init.stdin.take();
    Ok((init, pipe))
}

/// The program and its arguments as one would type them.
fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

/// For `map_err`: why `program` did not start.
pub(crate) fn not_started(program: String) -> impl FnOnce(std::io::Error) -> LabError {
    move |err| match err.kind() {
        std::io::ErrorKind::NotFound => missing(&program),
        _ => LabError::Io { what: format!("starting {program}"), err },
    }
}

fn died() -> LabError {
    LabError::Io { what: "the lab's thread".into(), err: std::io::ErrorKind::BrokenPipe.into() }
}

/// A directory for the lab's files, in memory, seen by its programs only.
pub(crate) const WORKSHOP: &str = "/run/longhaul-lab";

/// Maximum time that a program may take to get ready.
pub(crate) const READY_WITHIN: Duration = Duration::from_secs(20);
const LINES_KEPT: usize = 20;
