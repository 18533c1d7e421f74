//! The supervisor: one thread that creates everything that must vanish with this process, and starts every program of the
//! lab.
//!
//! The thread has its own mount namespace, with an empty /run in memory: for keys, for files, and for the directory that sshd
//! needs. It also has its own process namespace. The init of that namespace is `cat`, which reads a pipe from this process.
//! When this process ends, for whatever reason, the pipe closes and `cat` ends. The kernel then kills the other processes of
//! the namespace. The network namespaces and TUN devices vanish with their last descriptor.

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

/// A thread with its own mount and process namespaces.
#[derive(Debug)]
pub(crate) struct Supervisor {
    jobs: Option<mpsc::Sender<Job>>,
    thread: Option<JoinHandle<()>>,
    /// Process number of the namespace's init, as seen from this process.
    init: u32,
}

/// A program of the lab; killed when dropped.
#[derive(Debug)]
pub struct Program {
    name: String,
    child: Child,
    said: Option<Said>,
}

/// The last lines that a program wrote to stderr. A separate thread collects them.
type Said = Arc<Mutex<VecDeque<String>>>;

type Job = Box<dyn FnOnce() + Send>;

impl Supervisor {
    /// Starts the thread, which creates the namespaces.
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

    /// Runs `job` on the supervisor's thread, in its current network namespace, and waits for it.
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
        // Only the lab handles Ctrl-C of the terminal. Its programs end when it ends.
        command.process_group(0);
        let child = self.run(net, move || command.spawn().map_err(not_started(program)))?;
        Ok(Program { name, child, said: None })
    }

    /// Returns the path at which this process sees the path `inside` of the supervisor's mount namespace.
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
    /// Waits until the program has written `ready` to stderr, or to stdout if only stdout is piped. A thread continues to read
    /// later output.
    ///
    /// # Errors
    /// The program ended, or 20 seconds have passed.
    pub fn wait_for(mut self, ready: &'static str) -> Result<Program, LabError> {
        let Some(seen) = self.overhear(ready) else { return Ok(self) };
        let answer = seen.recv_timeout(READY_WITHIN);
        match answer {
            Ok(()) => Ok(self),
            Err(mpsc::RecvTimeoutError::Timeout) => Err(self.not_ready()),
            Err(mpsc::RecvTimeoutError::Disconnected) => Err(self.failure()),
        }
    }

    /// Starts a thread that reads the program's output, so that the program never blocks on a full pipe. The thread keeps the
    /// last lines for an error. Returns a receiver of one message per line that contains `ready`; `None` if neither stderr nor
    /// stdout is piped.
    pub(crate) fn overhear(&mut self, ready: &'static str) -> Option<mpsc::Receiver<()>> {
        let stderr = self.child.stderr.take().map(|pipe| Box::new(pipe) as Box<dyn Read + Send>);
        let stdout = || self.child.stdout.take().map(|pipe| Box::new(pipe) as Box<dyn Read + Send>);
        let output = stderr.or_else(stdout)?;
        let said = Said::default();
        let (saw, seen) = mpsc::channel();
        self.said = Some(Arc::clone(&said));
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if line.contains(ready) {
                    let _ = saw.send(());
                }
                let mut lines = said.lock().unwrap_or_else(PoisonError::into_inner);
                if lines.len() == LINES_KEPT {
                    lines.pop_front();
                }
                lines.push_back(line);
            }
        });
        Some(seen)
    }

    /// Waits until the program ends.
    ///
    /// # Errors
    /// The program failed.
    pub fn finish(mut self) -> Result<(), LabError> {
        match self.child.wait() {
            Ok(status) if status.success() => Ok(()),
            _ => Err(self.failure()),
        }
    }

    /// As [`Program::finish`], but kills the program if it has not ended by `latest`.
    ///
    /// # Errors
    /// The program failed, or took too long.
    pub fn finish_by(mut self, latest: Instant) -> Result<(), LabError> {
        while self.ended().is_none() {
            if Instant::now() >= latest {
                return Err(LabError::Late(self.name.clone()));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        self.finish()
    }

    /// Waits until the program ends and returns its stdout, which must be piped.
    ///
    /// # Errors
    /// The program failed.
    pub fn output(mut self) -> Result<String, LabError> {
        let mut text = String::new();
        if let Some(mut stdout) = self.child.stdout.take() {
            let read = stdout.read_to_string(&mut text);
            read.map_err(LabError::io(format!("reading from `{}`", self.name)))?;
        }
        self.finish().map_err(|problem| problem.or_said(&text)).map(|()| text)
    }

    /// Returns the exit status if the program has ended.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Returns the program and its arguments, as typed in a shell.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the process number, as seen from this process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns the error for a program that was not ready in time.
    pub(crate) fn not_ready(&mut self) -> LabError {
        LabError::NotReady { program: self.name.clone(), said: self.said() }
    }

    /// Returns the end of the program's stderr.
    fn said(&mut self) -> String {
        if let Some(mut stderr) = self.child.stderr.take() {
            let mut text = String::new();
            let _ = stderr.read_to_string(&mut text);
            return text;
        }
        let lines = self.said.as_ref().map(|said| said.lock().unwrap_or_else(PoisonError::into_inner));
        lines.map(|lines| Vec::from(lines.clone()).join("\n")).unwrap_or_default()
    }

    /// Waits until the program ends and returns its failure as an error.
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

/// Moves the calling thread to new namespaces and starts the init of its process namespace.
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

/// Returns the program and its arguments, as typed in a shell.
fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

/// Returns a function for `map_err`, which turns an I/O error into the reason why `program` did not start.
pub(crate) fn not_started(program: String) -> impl FnOnce(std::io::Error) -> LabError {
    move |err| match err.kind() {
        std::io::ErrorKind::NotFound => missing(&program),
        _ => LabError::Io { what: format!("starting {program}"), err },
    }
}

fn died() -> LabError {
    LabError::Panicked("the supervisor thread of the lab")
}

/// Directory for the lab's files. It is in memory, and only the lab's programs see it.
pub(crate) const WORKSHOP: &str = "/run/longhaul-lab";

/// Maximum time until a program must be ready.
pub(crate) const READY_WITHIN: Duration = Duration::from_secs(20);
const LINES_KEPT: usize = 20;
