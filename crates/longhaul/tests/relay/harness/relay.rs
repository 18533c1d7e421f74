//! A `longhaul` process.

use crate::harness::sockets::{wait_for, wait_until};
use crate::harness::{RUNTIME_DIRECTORY, TIMEOUT};
use longhaul_lab::{Host, Program, Wan};
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};
use serde_json::Value;
use socket2::{SockAddr, Socket};
use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Output, Stdio};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, channel};
use std::time::Instant;

/// A `longhaul` process.
pub(crate) struct Relay {
    process: Process,
    log: Mutex<Receiver<Value>>,
}

/// A process on this host, or on a host of the lab.
enum Process {
    Here(Running),
    Lab(Program),
}

/// A process that is killed when this value is dropped.
pub(crate) struct Running(pub(crate) Child);

impl Drop for Running {
    fn drop(&mut self) {
        // Both fail only if the process has ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Relay {
    /// Starts `longhaul` with `args` and waits until it listens.
    pub(crate) fn start(args: &[&str]) -> Relay {
        let mut command = longhaul();
        command.args(args);
        Relay::spawn(command)
    }

    /// Starts `command`, a `longhaul` with JSON logs on stderr, and waits until it listens.
    pub(crate) fn spawn(command: Command) -> Relay {
        Relay::spawn_by(command, |mut command| Process::Here(Running(command.spawn().expect("longhaul starts"))))
    }

    /// Like [`Relay::spawn`], on `host` of the lab.
    pub(crate) fn spawn_in(wan: &Wan, host: Host, command: Command) -> Relay {
        Relay::spawn_by(command, |command| Process::Lab(wan.spawn(host, command).expect("longhaul starts")))
    }

    fn spawn_by(mut command: Command, spawn: impl FnOnce(Command) -> Process) -> Relay {
        let (stderr, ours) = UnixStream::pair().expect("a pair of sockets");
        command.stderr(OwnedFd::from(stderr));
        // Without it, tests as root would make the control sockets of this machine.
        if command.get_envs().all(|(name, _)| name != RUNTIME_DIRECTORY) {
            command.env(RUNTIME_DIRECTORY, "/dev/null/no-folder");
        }
        let process = spawn(command); // drops the command, and with it our copy of the child's stderr
        let (sender, log) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(ours).lines().map_while(Result::ok) {
                match serde_json::from_str(&line) {
                    Ok(line) => drop(sender.send(line)),
                    Err(_) => eprintln!("longhaul: {line}"),
                }
            }
        });
        let relay = Relay { process, log: Mutex::new(log) };
        relay.wait_log("listening");
        relay
    }

    /// Waits for the next log line with this message; returns its fields.
    pub(crate) fn wait_log(&self, message: &str) -> Value {
        self.wait_line(message, |found| found == message)
    }

    /// Waits for the next log line with one of these messages; returns its fields.
    pub(crate) fn wait_log_any(&self, messages: &[&str]) -> Value {
        self.wait_line(&messages.join(" or "), |found| messages.contains(&found))
    }

    /// Waits for the next log line for whose message `is_it` returns true; returns its fields. `wanted` describes the line in
    /// the panic message.
    pub(crate) fn wait_line(&self, wanted: &str, is_it: impl Fn(&str) -> bool) -> Value {
        self.lines_until(wanted, is_it).pop().expect("the awaited line")
    }

    /// Like [`Relay::wait_line`]; returns the fields of every line up to the awaited one.
    fn lines_until(&self, wanted: &str, is_it: impl Fn(&str) -> bool) -> Vec<Value> {
        let log = self.log.lock().expect("no reader of the log has panicked");
        let mut lines: Vec<Value> = Vec::new();
        let end = Instant::now() + TIMEOUT;
        loop {
            let line = log.recv_timeout(end.saturating_duration_since(Instant::now()));
            let line = line.unwrap_or_else(|err| panic!("no line {wanted:?} in the log: {err}; the log has {lines:?}"));
            lines.push(line["fields"].clone());
            if line["fields"]["message"].as_str().is_some_and(&is_it) {
                return lines;
            }
        }
    }

    /// Waits for the end of the next flow; returns its bytes up, its bytes down and its ending.
    pub(crate) fn flow_end(&self) -> (u64, u64, String) {
        let line = self.wait_log("flow ended");
        let bytes = |key: &str| line[key].as_u64().expect("a number of bytes");
        (bytes("up_bytes"), bytes("down_bytes"), line["how"].as_str().expect("a text").into())
    }

    /// Returns, without waiting, the fields of the next log line whose message begins with `message`.
    pub(crate) fn try_log(&self, message: &str) -> Option<Value> {
        let log = self.log.lock().expect("no reader of the log has panicked");
        let mut fields = log.try_iter().map(|line| line["fields"].clone());
        fields.find(|fields| fields["message"].as_str().is_some_and(|found| found.starts_with(message)))
    }

    /// Returns the relay's counters.
    pub(crate) fn counters(&self) -> Value {
        self.lines_to_counters().pop().expect("the counters")
    }

    /// Returns the fields of the log lines since the last awaited one, and then the counters.
    pub(crate) fn lines_to_counters(&self) -> Vec<Value> {
        self.signal("USR1");
        self.lines_until("counters", |message| message == "counters")
    }

    /// Waits until every flow has ended; returns the fields of the log lines since the last awaited one.
    pub(crate) fn lines_to_last_flow_end(&self) -> Vec<Value> {
        let mut lines: Vec<Value> = Vec::new();
        wait_for("the end of every flow", || {
            lines.extend(self.lines_to_counters());
            lines.last().filter(|counters| counters["flows_now"] == 0).map(drop).ok_or("flows go on")
        });
        lines
    }

    /// Sends the signal `name`, written as for kill(1).
    pub(crate) fn signal(&self, name: &str) {
        let done = Command::new("kill").args([&format!("-{name}"), &self.id().to_string()]).status();
        assert!(done.expect("kill runs").success());
    }

    /// Stops the process (SIGSTOP) and waits until it is stopped. The signal `CONT` continues it.
    pub(crate) fn stop(&self) {
        self.signal("STOP");
        let stat = || std::fs::read_to_string(format!("/proc/{}/stat", self.id())).expect("it runs");
        // proc_pid_stat(5): the state follows the name, which is in parentheses.
        wait_until("the relay is stopped", || stat().contains(") T "));
    }

    /// Returns the process id.
    pub(crate) fn id(&self) -> u32 {
        match &self.process {
            Process::Here(Running(child)) => child.id(),
            Process::Lab(program) => program.id(),
        }
    }

    /// Returns the number and the target of each open descriptor; a target is such as `socket:[4711]` (proc(5)).
    pub(crate) fn descriptors(&self) -> Vec<(i32, String)> {
        let folder = std::fs::read_dir(format!("/proc/{}/fd", self.id())).expect("it runs");
        let what = |path: std::path::PathBuf| {
            let number = path.file_name()?.to_str()?.parse().ok()?;
            // Leaves out a descriptor that was closed meanwhile.
            Some((number, std::fs::read_link(path).ok()?.to_str()?.into()))
        };
        folder.filter_map(|entry| what(entry.expect("it still runs").path())).collect()
    }

    /// Returns a duplicate of the relay's socket at the other end of `end` (pidfd_getfd(2)); `None` if that is not allowed.
    pub(crate) fn other_end(&self, end: &TcpStream) -> Option<Socket> {
        // A relay that listens on a bare port sees IPv4 clients as ::ffff:a.b.c.d.
        let plain = |name: SocketAddr| SocketAddr::new(name.ip().to_canonical(), name.port());
        let here = |name: std::io::Result<SockAddr>| name.ok().and_then(|name| name.as_socket()).map(plain);
        let wanted = (end.peer_addr().expect("connected"), end.local_addr().expect("bound"));
        let process = pidfd_open(Pid::from_raw(self.id() as i32)?, PidfdFlags::empty()).ok()?;
        let mut shared = 0;
        for (number, _) in self.descriptors().iter().filter(|(_, what)| what.starts_with("socket:")) {
            let Ok(socket) = pidfd_getfd(&process, *number, PidfdGetfdFlags::empty()) else { continue };
            shared += 1;
            let socket = Socket::from(socket);
            if (here(socket.local_addr()), here(socket.peer_addr())) == (Some(wanted.0), Some(wanted.1)) {
                return Some(socket);
            }
        }
        assert_eq!(shared, 0, "the relay has no such socket: {wanted:?}");
        None
    }

    /// Returns, for each pipe of the relay, the bytes in it and its capacity in bytes, a multiple of the page size
    /// (pidfd_getfd(2)). `None` if that is not allowed.
    pub(crate) fn pipes(&self) -> Option<Vec<(usize, usize)>> {
        let process = pidfd_open(Pid::from_raw(self.id() as i32)?, PidfdFlags::empty()).ok()?;
        let mut pipes = std::collections::BTreeMap::new();
        for (number, what) in self.descriptors().into_iter().filter(|(_, what)| what.starts_with("pipe:")) {
            // A pipe that was closed meanwhile holds nothing.
            let Ok(pipe) = pidfd_getfd(&process, number, PidfdGetfdFlags::empty()) else { continue };
            let held = rustix::io::ioctl_fionread(&pipe).ok()?;
            pipes.insert(what, (held as usize, rustix::pipe::fcntl_getpipe_size(&pipe).ok()?));
        }
        Some(pipes.into_values().collect())
    }

    /// Returns the bytes of anonymous memory of the process (proc_pid_status(5), RssAnon).
    pub(crate) fn resident(&self) -> usize {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.id())).expect("it runs");
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).expect("Linux 4.5");
        line.trim().trim_end_matches(" kB").parse::<usize>().expect("a number") * 1024
    }

    /// Waits for the end of the process and returns its exit code; returns `None` at once for a process of the lab.
    pub(crate) fn exit(&mut self) -> Option<i32> {
        match &mut self.process {
            Process::Here(Running(child)) => child.wait().expect("it was started").code(),
            Process::Lab(_) => None,
        }
    }
}

/// Returns the command of the program under test, with its output and its log as text.
pub(crate) fn program() -> Command {
    Command::new(PROGRAM)
}

/// Returns the command of the program under test, with JSON logs.
pub(crate) fn longhaul() -> Command {
    let mut command = program();
    command.args(["--log-format", "json"]).stdin(Stdio::null()).stdout(Stdio::null());
    command
}

/// Like [`longhaul`] with `args`, run by sh(1) after the shell command `first`, such as `ulimit -n 80`. It is the same process.
pub(crate) fn longhaul_after(first: &str, args: &[&str]) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("{first} && exec \"$0\" \"$@\""), PROGRAM, "--log-format", "json"]).args(args);
    command
}

/// The path of the program under test.
pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_longhaul");

pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("text")
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("text")
}
