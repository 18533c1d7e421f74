//! However a lab ends, it leaves nothing behind: no process, no namespace, no device. The tests run `lab run` and `lab up` as root
//! and as an ordinary user. The labs end by themselves, by each signal, and while they are built.
//!
//! Every test has its own room, a mount namespace. /run is empty there, so that the test does not meet a lab of the machine;
//! everybody may open /dev/net/tun, as with udev; and an ordinary user exists. A test that cannot run here prints SKIP and the
//! reason; it fails if the environment variable CI is set.

#![allow(clippy::unwrap_used)] // clippy.toml allows it in tests, but not in what tests call

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Held while a test has a lab: two cores are too few for several labs.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A mount namespace for one test, and the kind of user who runs the lab in it.
struct Room {
    holder: Child,
    is_root: bool,
}

impl Room {
    /// Opens a room. Returns `None` if the room or a lab in it cannot be built.
    fn open(is_root: bool) -> Option<Room> {
        let tun = if is_root {
            "true"
        } else {
            "mount -t tmpfs none /dev/net && mknod -m 666 /dev/net/tun c 10 200 && \
             mkdir -m 700 /run/user && chown 65533:65533 /run/user && \
             (cat /etc/passwd && echo 'labtest::65533:65533::/:/bin/sh') >/mnt/passwd && \
             mount --bind /mnt/passwd /etc/passwd"
        };
        let script = format!(
            "mount -t tmpfs -o mode=755 none /run && mount -t tmpfs -o mode=755 none /mnt && \
             cp '{}' /mnt/longhaul && cp '{SCENARIO}' /mnt/short.toml && {tun} \
             && echo ready && cat",
            env!("CARGO_BIN_EXE_longhaul")
        );
        let mut command = Command::new("unshare");
        command.args(["--mount", "--propagation", "private", "sh", "-c", &script]);
        let mut holder = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(holder.stdout.take().unwrap()).read_line(&mut line).unwrap();
        if line != "ready\n" {
            drop(holder.stdin.take());
            let mut why = String::new();
            holder.stderr.take().unwrap().read_to_string(&mut why).unwrap();
            holder.wait().unwrap();
            return skip(&format!("no room for a lab: {}", why.trim()));
        }
        let room = Room { holder, is_root };
        let probe = room.longhaul(&["run", "/mnt/short.toml", "--carrier", "direct"]);
        match String::from_utf8_lossy(&probe.stderr) {
            why if why.contains("cannot be built") => skip(why.trim()),
            _ => Some(room),
        }
    }

    /// Returns the command `longhaul lab ..` in the room.
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["-t", &self.holder.id().to_string(), "--mount", "--wd=/"]);
        if !self.is_root {
            command.args(["setpriv", "--reuid=65533", "--regid=65533", "--clear-groups"]);
            command.args(["env", "XDG_RUNTIME_DIR=/run/user", "HOME=/"]);
        }
        // A shell ignores SIGINT for background jobs, and nohup(1) ignores SIGHUP. Ignored signals stay ignored across exec
        // (exec(3p)), so set both to their defaults.
        command.args(["env", "--default-signal=INT,HUP", "/mnt/longhaul", "lab"]).args(arguments);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn longhaul(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        drop(self.holder.stdin.take());
        let _ = self.holder.wait();
    }
}

/// Processes and namespaces of a lab. The open files keep the namespaces' numbers from being reused.
struct Family {
    processes: Vec<u32>,
    namespaces: Vec<(PathBuf, File)>,
}

impl Family {
    /// Returns the process `id`, all its descendants, and the network namespaces that any of them is in or holds.
    fn of(id: u32) -> Family {
        let processes = [vec![id], descendants(id)].concat();
        let mut namespaces: Vec<(PathBuf, File)> = Vec::new();
        let ours = fs::read_link("/proc/self/ns/net").unwrap();
        for path in processes.iter().flat_map(|process| held(*process)) {
            let (Ok(name), Ok(file)) = (fs::read_link(&path), File::open(&path)) else { continue };
            if name != ours && !namespaces.iter().any(|(known, _)| *known == name) {
                namespaces.push((name, file));
            }
        }
        Family { processes, namespaces }
    }

    /// Waits until all processes have ended and no other process holds the namespaces. Then asserts that no TUN device is left
    /// in them.
    fn assert_gone(&self) {
        for id in &self.processes {
            until("the end of a process", || {
                (!PathBuf::from(format!("/proc/{id}")).exists() || is_zombie(*id)).then_some(())
            });
        }
        let known = |path: PathBuf| {
            fs::read_link(path).is_ok_and(|target| self.namespaces.iter().any(|(name, _)| *name == target))
        };
        let own = std::process::id();
        let holds = |id: &u32| *id != own && !is_zombie(*id) && held(*id).into_iter().any(known);
        until("the end of all holders of the namespaces", || processes().iter().all(|id| !holds(id)).then_some(()));
        for (_, file) in &self.namespaces {
            let path = format!("--net=/proc/{own}/fd/{}", file.as_raw_fd());
            let links = Command::new("nsenter").args([&path, "ip", "-brief", "link"]).output().unwrap();
            assert!(!String::from_utf8_lossy(&links.stdout).contains("wan0"), "{links:?}");
        }
    }
}

/// Runs `test` as root and as an ordinary user.
fn each_user(test: impl Fn(&Room)) {
    let _alone = alone();
    for is_root in [true, false] {
        if let Some(room) = Room::open(is_root) {
            test(&room);
        }
    }
}

#[test]
fn a_run_that_ends_leaves_nothing() {
    each_user(|room| {
        let mut run = room.command(&["run", "/mnt/short.toml", "--json"]).spawn().unwrap();
        let family = in_the_middle(&mut run);
        let output = run.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("one JSON document");
        let runs = json["runs"].as_array().unwrap();
        assert!(runs.iter().all(|run| run["bytes_ok"] == true && run["verdict"] == "pass"), "{json}");
        family.assert_gone();
    });
}

#[test]
fn a_run_ended_by_a_signal_leaves_nothing() {
    each_user(|room| {
        for (signal, code) in [("INT", Some(130)), ("TERM", Some(143)), ("HUP", Some(129)), ("KILL", None)] {
            let mut run = room.command(&["run", "/mnt/short.toml"]).spawn().unwrap();
            let family = in_the_middle(&mut run);
            let start = Instant::now();
            send(signal, run.id());
            let output = run.wait_with_output().unwrap();
            // The kernel needs a moment to remove the TUN devices of the ended process.
            assert!(start.elapsed() < Duration::from_secs(60), "{signal}: {:?}", start.elapsed());
            assert_eq!(output.status.code(), code, "{signal}: {output:?}");
            assert_eq!(output.status.signal(), code.is_none().then_some(9));
            assert_eq!(String::from_utf8_lossy(&output.stdout), "");
            family.assert_gone();
        }
    });
}

#[test]
fn an_interrupted_run_shows_the_scenarios_that_have_ended() {
    let _alone = alone();
    let Some(room) = Room::open(true) else { return };
    let mut run = room.command(&["run", "/mnt/short.toml", "/mnt/short.toml", "--json"]).spawn().unwrap();
    let mut progress = BufReader::new(run.stderr.take().unwrap());
    let mut line = String::new();
    // The first scenario has ended when the second one begins.
    for _ in 0..2 {
        while line.trim() != "1/2 raw, longhaul" {
            line.clear();
            assert!(progress.read_line(&mut line).unwrap() > 0, "it ended early");
        }
        line.clear();
    }
    send("INT", run.id());
    let mut rest = String::new();
    progress.read_to_string(&mut rest).unwrap();
    let output = run.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{rest}");
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("one JSON document");
    let carriers: Vec<_> = report["runs"].as_array().unwrap().iter().map(|run| run["carrier"].clone()).collect();
    assert_eq!(carriers, ["longhaul", "direct"], "{report}");
    assert!(rest.trim().ends_with(" --json --start-at short:raw"), "{rest}");
}

/// The results are shown once, also if a signal comes while a slow reader takes them.
#[test]
fn a_signal_while_the_results_are_shown_does_not_show_them_again() {
    const RUNS: usize = 400;
    let _alone = alone();
    let Some(room) = Room::open(true) else { return };
    let mut scenario = "about = \"a long report\"\nsource = \"made up for tests\"\n".to_string();
    (0..RUNS).for_each(|run| scenario += &format!("[[run]]\nid = \"r{run}\"\nskip = \"as a test\"\n"));
    fs::write(format!("/proc/{}/root/mnt/long.toml", room.holder.id()), scenario).unwrap();
    // The first byte is there, and the pipe has no room for the whole report.
    let begin = || {
        let mut run = room.command(&["run", "/mnt/long.toml", "--json"]).spawn().unwrap();
        let mut first = vec![0];
        run.stdout.as_mut().unwrap().read_exact(&mut first).unwrap();
        send("INT", run.id());
        (run, first)
    };
    let (run, mut report) = begin();
    report.extend(run.wait_with_output().unwrap().stdout);
    let json: serde_json::Value = serde_json::from_slice(&report).expect("one JSON document");
    assert_eq!(json["runs"].as_array().map(Vec::len), Some(RUNS));
    assert!(report.len() > 65_536, "{} bytes fit into the pipe", report.len());

    // Nobody reads the rest: a further signal ends the run. The process may see two of them as one.
    let (mut run, _) = begin();
    let ended = until("the end", || {
        send("INT", run.id());
        run.try_wait().unwrap()
    });
    assert_eq!(ended.code(), Some(130));
}

#[test]
fn a_lab_killed_during_its_construction_leaves_nothing() {
    each_user(|room| {
        for signal in ["KILL", "TERM"] {
            let up = room.command(&["up", "/mnt/short.toml", "--carrier", "longhaul"]).spawn().unwrap();
            // How far it gets then differs from run to run.
            until("a first process of the lab", || (!descendants(up.id()).is_empty()).then_some(()));
            let family = Family::of(up.id());
            send(signal, up.id());
            up.wait_with_output().unwrap();
            family.assert_gone();
        }
    });
}

#[test]
fn a_lab_stands_until_a_signal() {
    each_user(|room| {
        for signal in ["INT", "TERM", "KILL"] {
            let arguments = ["up", "/mnt/short.toml", "--carrier", "longhaul", "--rtt", "10ms"];
            let mut up = room.command(&arguments).spawn().unwrap();
            let mut told = BufReader::new(up.stdout.take().unwrap());
            let mut manual = String::new();
            while !manual.contains(" scp ") && !manual.contains("no scp") {
                assert!(told.read_line(&mut manual).unwrap() > 0, "{manual}");
            }
            assert!(manual.contains("10 ms round trip, 200 Mbit/s"), "{manual}");
            let family = Family::of(up.id());
            assert!(family.processes.len() >= 8 && family.namespaces.len() == 4, "{:?}", family.processes);

            // The commands in its output work. The end also ends a program that is still running on a host.
            let tries: Vec<&str> = manual.lines().filter_map(|line| line.strip_prefix("  nsenter ")).collect();
            let ping = tries.iter().find(|line| line.contains(" ping ")).expect("a ping to try");
            let tried = enter(room, &ping.replace("-c 5", "-c 1")).output().unwrap();
            assert!(String::from_utf8_lossy(&tried.stdout).contains(" 1 received"), "{tried:?}");
            if let Some(iperf3) = tries.iter().find(|line| line.contains(" iperf3 ")) {
                let tried = enter(room, &format!("{iperf3} -t 1")).output().unwrap();
                assert!(tried.status.success(), "{tried:?}");
            }
            let left = enter(room, &ping.replace(" ping -c 5 10.20.20.10", " sleep 1000")).spawn().unwrap();
            send(signal, up.id());
            assert_eq!(up.wait().unwrap().code(), (signal != "KILL").then_some(0));
            left.wait_with_output().unwrap();
            family.assert_gone();
        }
    });
}

#[test]
fn ctrl_c_on_a_terminal_ends_the_run_and_clears_the_bar() {
    let _alone = alone();
    let Some(room) = Room::open(true) else { return };
    // script(1) gives the run a terminal and turns our byte into Ctrl-C.
    let nsenter = format!("nsenter -t {} --mount --wd=/", room.holder.id());
    let inner = format!("{nsenter} env --default-signal=INT /mnt/longhaul lab run /mnt/short.toml");
    let mut script = Command::new("script");
    script.args(["-qefc", &inner, "/dev/null"]).env("TERM", "xterm").stdin(Stdio::piped()).stdout(Stdio::piped());
    let Ok(mut terminal) = script.spawn() else {
        skip::<()>("script is not installed");
        return;
    };
    let mut shown = BufReader::new(terminal.stdout.take().unwrap());
    let mut text = Vec::new();
    // The run shows the speed once the traffic flows.
    while !String::from_utf8_lossy(&text).contains("MB/s") {
        let read = shown.read_until(b's', &mut text).unwrap();
        assert!(read > 0, "{}", String::from_utf8_lossy(&text));
    }
    terminal.stdin.as_mut().unwrap().write_all(b"\x03").unwrap();
    shown.read_to_end(&mut text).unwrap();
    assert_eq!(terminal.wait().unwrap().code(), Some(130));
    let text = String::from_utf8_lossy(&text);
    let after = text.rsplit("MB/s").next().unwrap();
    assert!(after.contains("\u{1b}[2K"), "the line was not erased: {after:?}");
    let rest = after.rsplit("\u{1b}[2K").next().unwrap();
    let wanted = "interrupted; to continue: longhaul lab run /mnt/short.toml --start-at raw";
    assert_eq!(rest.trim(), wanted, "the run wrote something else");
}

/// Returns the command `nsenter` with `words`, run as the user of the room.
fn enter(room: &Room, words: &str) -> Command {
    let mut command = Command::new(if room.is_root { "env" } else { "setpriv" });
    if !room.is_root {
        command.args(["--reuid=65533", "--regid=65533", "--clear-groups"]);
    }
    command.arg("nsenter").args(words.split(' ')).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Waits until both relays of `run` are running; returns its family.
fn in_the_middle(run: &mut Child) -> Family {
    until("the relays", || {
        assert!(run.try_wait().unwrap().is_none(), "it ended early");
        let relays = descendants(run.id()).into_iter().filter(|id| comm(*id) == "longhaul").count();
        (relays == 2).then_some(())
    });
    let family = Family::of(run.id());
    assert_eq!(family.namespaces.len(), 4, "{:?}", family.namespaces);
    family
}

/// Calls `ask` until it returns an answer; `what` names the awaited thing.
fn until<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(start.elapsed() < Duration::from_secs(60), "{what} does not come");
        // Leaves the processors to the lab between two calls.
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn send(signal: &str, id: u32) {
    let sent = Command::new("kill").args(["-s", signal, &id.to_string()]).status().unwrap();
    assert!(sent.success());
}

fn skip<T>(why: &str) -> Option<T> {
    assert!(std::env::var_os("CI").is_none(), "cannot run in CI: {why}");
    println!("SKIP: {why}");
    None
}

fn processes() -> Vec<u32> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// Returns the state and the parent of a process (proc_pid_stat(5)).
fn stat(id: u32) -> Option<(char, u32)> {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    Some((fields.next()?.chars().next()?, fields.next()?.parse().ok()?))
}

fn is_zombie(id: u32) -> bool {
    stat(id).is_none_or(|(state, _)| state == 'Z')
}

fn comm(id: u32) -> String {
    fs::read_to_string(format!("/proc/{id}/comm")).unwrap_or_default().trim().to_string()
}

/// Returns all descendants of process `id`.
fn descendants(id: u32) -> Vec<u32> {
    let pairs: Vec<(u32, u32)> = processes().into_iter().filter_map(|id| Some((id, stat(id)?.1))).collect();
    let mut found = vec![id];
    let mut at = 0;
    while at < found.len() {
        let of = found[at];
        found.extend(pairs.iter().filter(|(_, parent)| *parent == of).map(|(child, _)| *child));
        at += 1;
    }
    found.split_off(1)
}

/// Returns the paths under which a process's network namespaces can be opened: the one it is in, and those it holds.
fn held(id: u32) -> Vec<PathBuf> {
    let open = fs::read_dir(format!("/proc/{id}/fd")).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_net = |path: &PathBuf| fs::read_link(path).is_ok_and(|to| to.to_string_lossy().starts_with("net:["));
    open.chain([PathBuf::from(format!("/proc/{id}/ns/net"))]).filter(is_net).collect()
}

/// Scenario with two seconds of raw TCP.
const SCENARIO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/scenario/good/short.toml");
