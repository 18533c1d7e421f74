//! FTP servers and clients of others, and the relays between them.
//!
//! Each server has its own user and password, because it runs in a mount namespace with its own /etc/passwd. It also has its own
//! PID namespace, so that killing it kills its sessions, too.

use crate::harness::*;
use std::fs::{self, Permissions};
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use tempfile::TempDir;

/// A kind of server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Vsftpd,
    Proftpd,
    PureFtpd,
}

pub(crate) const KINDS: [Kind; 3] = [Kind::Vsftpd, Kind::Proftpd, Kind::PureFtpd];

/// A server, which is killed when this value is dropped.
pub(crate) struct Server {
    room: Child,
    port: Port,
    folder: TempDir,
}

impl Server {
    /// Starts a server on `ip`, such as `[::1]`, with `more` lines in its configuration. Returns `None`, after a line about it,
    /// if it is not installed or this is not root.
    pub(crate) fn start(kind: Kind, ip: &str, more: &str) -> Option<Server> {
        if !longhaul_sys::netns::is_root() {
            skip("needs root, to give an FTP server its own users");
            return None;
        }
        let Some(program) = kind.program() else {
            skip(&format!("{kind:?} is not installed; scripts/deps test gets it"));
            return None;
        };
        if let Some(client) = CLIENTS.iter().find(|client| find(client, None).is_none()) {
            skip(&format!("{client} is not installed"));
            return None;
        }
        let (folder, port) = (tempfile::tempdir().unwrap(), Port::reserve(ip));
        let place = folder.path().to_str().unwrap();
        prepare(&folder, &(kind.config(place, port.address()) + more));
        let mut room = Command::new("unshare");
        room.args(["--mount", "--pid", "--fork", "--kill-child=KILL", "sh", "-ec", ROOM, place]);
        room.arg(program).args(kind.args(place, port.address())).stdin(Stdio::null()).stdout(Stdio::null());
        room.stderr(fs::File::create(folder.path().join("log")).unwrap());
        let room = room.spawn().expect("unshare(1) runs");
        let server = Server { room, port, folder };
        wait_until("the server listens", || TcpStream::connect(server.address()).is_ok());
        Some(server)
    }

    /// Returns its address and port.
    pub(crate) fn address(&self) -> SocketAddr {
        self.port.address()
    }

    /// Returns the path of a file that clients see as `name`.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join("home").join(name)
    }

    /// Writes a file that clients may change.
    pub(crate) fn write(&self, name: &str, bytes: &[u8]) {
        fs::write(self.file(name), bytes).unwrap();
        chown(self.file(name), Some(USER), Some(USER)).unwrap();
    }

    /// Kills it and its sessions.
    pub(crate) fn kill(&mut self) {
        // Both fail only if the process has ended. The kernel then kills the sessions.
        let _ = self.room.kill();
        let _ = self.room.wait();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() {
            eprintln!("the server says: {}", fs::read_to_string(self.folder.path().join("log")).unwrap_or_default());
        }
    }
}

impl Kind {
    /// Returns the path of the program: an installed one, or the copy that scripts/deps has unpacked.
    fn program(self) -> Option<PathBuf> {
        let (name, package) = match self {
            Kind::Vsftpd => ("vsftpd", "vsftpd"),
            Kind::Proftpd => ("proftpd", "proftpd-core"),
            Kind::PureFtpd => ("pure-ftpd", "pure-ftpd"),
        };
        find(name, Some(copies().join(package).join("usr/sbin")))
    }

    fn config(self, place: &str, address: SocketAddr) -> String {
        let (ip, port) = (address.ip(), address.port());
        match (self, ip.is_ipv6()) {
            (Kind::Vsftpd, false) => format!("listen=YES\nlisten_address={ip}\nlisten_port={port}\n"),
            (Kind::Vsftpd, true) => format!("listen_ipv6=YES\nlisten_address6={ip}\nlisten_port={port}\n"),
            (Kind::Proftpd, _) => format!("DefaultAddress {ip}\nPort {port}\nPidFile {place}/pid\n"),
            (Kind::PureFtpd, _) => String::new(), // has only arguments
        }
        .to_owned()
            + &match self {
                Kind::Vsftpd => VSFTPD.replace("FOLDER", place),
                Kind::Proftpd => PROFTPD.into(),
                Kind::PureFtpd => String::new(),
            }
    }

    fn args(self, place: &str, address: SocketAddr) -> Vec<String> {
        let listen = format!("{},{}", address.ip(), address.port());
        let (config, pid) = (format!("{place}/config"), format!("{place}/pid"));
        let args: &[&str] = match self {
            Kind::Vsftpd => &[&config],
            Kind::Proftpd => &["-n", "-c", &config],
            // Accounts of /etc/passwd, no anonymous users, no resolver, every user id.
            Kind::PureFtpd => &["-S", &listen, "-l", "unix", "-E", "-H", "-u", "1", "-g", &pid],
        };
        args.iter().map(|arg| (*arg).into()).collect()
    }
}

/// Returns the folder into which scripts/deps unpacks servers.
pub(crate) fn copies() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/servers")
}

/// Returns the path of `program` in a folder of PATH, in /usr/sbin or in `folder`.
fn find(program: &str, folder: Option<PathBuf>) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(["/usr/sbin".into()]).chain(folder);
    folders.map(|folder| folder.join(program)).find(|file| file.exists())
}

/// Writes the files that a server needs.
fn prepare(folder: &TempDir, config: &str) {
    let place = |name: &str| folder.path().join(name);
    fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
    for name in ["home", "empty", "pam.d"] {
        fs::create_dir(place(name)).unwrap();
    }
    chown(place("home"), Some(USER), Some(USER)).unwrap();
    let home = place("home").display().to_string();
    let nobody = "nobody:x:65534:65534::/:/usr/sbin/nologin\n";
    let passwd = format!("root:x:0:0::/root:/bin/sh\n{nobody}tester:x:{USER}:{USER}::{home}:/bin/sh\n");
    fs::write(place("passwd"), passwd).unwrap();
    fs::write(place("shadow"), format!("root:*:19000::::::\ntester:{SECRET}:19000::::::\n")).unwrap();
    fs::write(place("group"), format!("root:x:0:\nnogroup:x:65534:\ntester:x:{USER}:\n")).unwrap();
    fs::write(place("pam.d/ftp"), "auth required pam_unix.so\naccount required pam_unix.so\n").unwrap();
    fs::write(place("config"), config).unwrap();
}

/// A client program.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Client {
    Curl,
    Lftp,
    Tnftp,
    /// Python's ftplib.
    Ftplib,
}

/// The data connections of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// PASV.
    Pasv,
    /// EPSV.
    Epsv,
    /// PORT.
    Port,
    /// EPRT.
    Eprt,
}

impl Mode {
    /// Whether the client connects.
    pub(crate) fn is_passive(self) -> bool {
        matches!(self, Mode::Pasv | Mode::Epsv)
    }

    fn is_extended(self) -> bool {
        matches!(self, Mode::Epsv | Mode::Eprt)
    }
}

/// A file that moves: the server's name for it, and the client's file.
#[derive(Clone, Debug)]
pub(crate) enum Job {
    Get(String, PathBuf),
    Put(PathBuf, String),
    /// Gets the rest of a file whose beginning is there.
    Resume(String, PathBuf),
}

impl Client {
    /// Does `jobs` on the server at `to`, with one control connection, or with one for each job if it is curl. Returns the
    /// output.
    pub(crate) fn run(self, mode: Mode, to: SocketAddr, jobs: &[Job]) -> Output {
        let (mut command, input) = match self {
            Client::Curl => return run_curl(mode, to, jobs),
            Client::Lftp => (
                lftp(mode, to, &lines(jobs, "get NAME -o FILE", "put FILE -o NAME", "get -c NAME -o FILE")),
                String::new(),
            ),
            Client::Tnftp => {
                (tnftp(mode, to), tnftp_login(mode) + &lines(jobs, "get NAME FILE", "put FILE NAME", "reget NAME FILE"))
            }
            Client::Ftplib => (ftplib(mode, to), lines(jobs, "get NAME FILE", "put FILE NAME", "resume NAME FILE")),
        };
        given(&mut command, &input).wait_with_output().unwrap()
    }

    /// Asks for a file that is missing, and then, in the same session, gets `name` to `file`.
    pub(crate) fn get_behind_missing(self, mode: Mode, to: SocketAddr, name: &str, file: &Path) -> Output {
        let jobs = [Job::Get("missing".into(), "/dev/null".into()), Job::Get(name.into(), file.into())];
        let input = format!("missing missing -\nget {name} {}\n", file.display());
        match self {
            Client::Curl => {
                let mut curl = curl(mode);
                curl.args(["-o", "/dev/null", &url(to, "missing"), "-o"]).arg(file).arg(url(to, name)).output().unwrap()
            }
            Client::Lftp => {
                let commands = lines(&jobs, "get NAME -o FILE", "", "");
                lftp(mode, to, &format!("set cmd:fail-exit no\n{commands}")).output().unwrap()
            }
            Client::Tnftp => self.run(mode, to, &jobs),
            Client::Ftplib => given(&mut ftplib(mode, to), &input).wait_with_output().unwrap(),
        }
    }

    /// Starts to fetch `name` to `file`, so slowly that it does not end within a test. Not for ftplib.
    pub(crate) fn fetch_slowly(self, mode: Mode, to: SocketAddr, name: &str, file: &Path) -> Child {
        self.move_slowly(mode, to, "get", [name, file.to_str().unwrap()])
    }

    /// Starts to store `file` as `name`, so slowly that it does not end within a test. Not for ftplib.
    pub(crate) fn store_slowly(self, mode: Mode, to: SocketAddr, file: &Path, name: &str) -> Child {
        self.move_slowly(mode, to, "put", [file.to_str().unwrap(), name])
    }

    fn move_slowly(self, mode: Mode, to: SocketAddr, verb: &str, [from, target]: [&str; 2]) -> Child {
        match self {
            Client::Curl => {
                let mut curl = curl(mode);
                match verb {
                    "get" => curl.args(["-o", target, &url(to, from)]),
                    _ => curl.args(["-T", from, &url(to, target)]),
                };
                given(curl.args(["--limit-rate", "400000"]), "")
            }
            Client::Lftp => {
                let commands = format!("set net:limit-rate 400000\n{verb} {from} -o {target}");
                given(&mut lftp(mode, to, &commands), "")
            }
            Client::Tnftp => {
                let commands = format!("rate {verb} 400000\n{verb} {from} {target}\n");
                given(&mut tnftp(mode, to), &(tnftp_login(mode) + &commands))
            }
            Client::Ftplib => panic!("ftplib has no limit"),
        }
    }
}

/// Returns one line a job. NAME and FILE stand for its names.
fn lines(jobs: &[Job], get: &str, put: &str, resume: &str) -> String {
    let line = |job: &Job| {
        let (form, name, file) = match job {
            Job::Get(name, file) => (get, name, file),
            Job::Put(file, name) => (put, name, file),
            Job::Resume(name, file) => (resume, name, file),
        };
        form.replace("NAME", name).replace("FILE", file.to_str().unwrap()) + "\n"
    };
    jobs.iter().map(line).collect()
}

/// Starts `command` with `input` as its standard input, and with pipes as its outputs.
fn given(command: &mut Command, input: &str) -> Child {
    // Without files of the user who runs the tests.
    command.env("HOME", "/nonexistent").env("LC_ALL", "C").current_dir("/");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap_or_else(|err| panic!("{:?}: {err}", command.get_program()));
    // The input fits a pipe, so this does not wait for the child. A child that ended early says why itself.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child
}

/// Returns the command of a client. It is killed after a while, so that a client that hangs fails its test.
fn bounded(program: &str) -> Command {
    let mut command = Command::new("timeout");
    command.args(["--signal=KILL", "100", program]);
    command
}

fn url(to: SocketAddr, name: &str) -> String {
    format!("ftp://tester:secret@{to}/{name}")
}

pub(crate) fn curl(mode: Mode) -> Command {
    let mut curl = bounded("curl");
    curl.args(["-q", "-sS", "--no-ftp-skip-pasv-ip"]);
    curl.args(match mode {
        Mode::Pasv => &["--disable-epsv"][..],
        Mode::Epsv => &[],
        Mode::Port => &["--ftp-port", "-", "--disable-eprt"],
        Mode::Eprt => &["--ftp-port", "-"],
    });
    curl
}

/// Runs curl once for each of `jobs`, until one fails. Returns the last output.
fn run_curl(mode: Mode, to: SocketAddr, jobs: &[Job]) -> Output {
    let run = |job: &Job| {
        let mut command = curl(mode);
        match job {
            Job::Get(name, file) => command.arg("-o").arg(file).arg(url(to, name)),
            Job::Put(file, name) => command.arg("-T").arg(file).arg(url(to, name)),
            Job::Resume(name, file) => command.args(["-C", "-", "-o"]).arg(file).arg(url(to, name)),
        };
        given(&mut command, "").wait_with_output().unwrap()
    };
    let mut outputs = jobs.iter().map(run);
    let last = outputs.next().expect("a job");
    outputs.fold(last, |last, next| if last.status.success() { next } else { last })
}

/// Returns lftp with one command a line.
pub(crate) fn lftp(mode: Mode, to: SocketAddr, commands: &str) -> Command {
    let (passive, extended) = (mode.is_passive(), mode.is_extended());
    let mut lftp = bounded("lftp");
    lftp.args(["--norc", "-c"]).arg(format!(
        "set cmd:fail-exit yes; set net:max-retries 1; set net:reconnect-interval-base 1; set net:timeout 60; set ftp:ssl-allow no; set ftp:fix-pasv-address no\n\
         set ftp:passive-mode {passive}; set ftp:prefer-epsv {extended}; open -u tester,secret ftp://{to}\n{commands}"
    ));
    lftp
}

fn tnftp(mode: Mode, to: SocketAddr) -> Command {
    let mut tnftp = bounded("tnftp");
    // No files of the user, no questions, every reply on the output.
    tnftp.args(["-n", "-i", "-v", if mode.is_passive() { "-p" } else { "-A" }]);
    tnftp.args([to.ip().to_string(), to.port().to_string()]);
    tnftp
}

/// Returns the first lines for tnftp.
fn tnftp_login(mode: Mode) -> String {
    let extended = if mode.is_extended() { "on" } else { "off" };
    // The switch is for EPRT, too.
    format!("epsv4 {extended}\nuser tester secret\nbinary\n")
}

fn ftplib(mode: Mode, to: SocketAddr) -> Command {
    let mut python = bounded("python3");
    let passive = if mode.is_passive() { "passive" } else { "active" };
    python.args(["-c", FTPLIB, &to.ip().to_string(), &to.port().to_string(), passive]);
    python
}

/// Relays, one behind the other.
pub(crate) struct Chain {
    /// The relays, the near one first.
    pub(crate) relays: Vec<Relay>,
    to: SocketAddr,
    ports: Vec<Port>,
    flags: Vec<String>,
}

impl Chain {
    /// Starts a relay on each of `ips`, the near one first; each has `flags`. The last one dials `server`.
    pub(crate) fn start(ips: &[&str], server: SocketAddr, flags: &[&str]) -> Chain {
        let ports: Vec<Port> = ips.iter().map(|ip| Port::reserve(ip)).collect();
        let flags = flags.iter().map(|flag| (*flag).into()).collect();
        let mut chain = Chain { relays: Vec::new(), to: server, ports, flags };
        for at in (0..ips.len()).rev() {
            chain.relays.insert(0, chain.relay(at));
        }
        chain
    }

    /// Returns the address for clients.
    pub(crate) fn entry(&self) -> SocketAddr {
        self.ports[0].address()
    }

    /// Kills relay `at` with SIGKILL.
    pub(crate) fn kill(&mut self, at: usize) {
        self.relays[at].signal("KILL");
        self.relays[at].exit();
    }

    /// Starts relay `at` again.
    pub(crate) fn restart(&mut self, at: usize) {
        self.relays[at] = self.relay(at);
    }

    fn relay(&self, at: usize) -> Relay {
        let listen = self.ports[at].address().to_string();
        let to = self.ports.get(at + 1).map_or(self.to, Port::address).to_string();
        let flags = self.flags.iter().map(String::as_str);
        let args = ["relay", "--protocol", "ftp", "--listen", &listen, "--to", &to];
        Relay::start(&args.into_iter().chain(flags).collect::<Vec<_>>())
    }
}

/// Waits for the ends of `count` data connections; returns each with its command, its bytes up and its bytes down, sorted.
pub(crate) fn transfers(relay: &Relay, count: usize) -> Vec<(String, u64, u64)> {
    let mut found = Vec::new();
    while found.len() < count {
        let line = relay.wait_log("flow ended");
        let bytes = |key: &str| line[key].as_u64().unwrap();
        if let Some(command) = line["transfer"].as_str() {
            assert_eq!(line["how"], "finished", "{line}");
            found.push((command.to_owned(), bytes("up_bytes"), bytes("down_bytes")));
        }
    }
    found.sort();
    found
}

/// The programs that the tests run besides the servers.
const CLIENTS: &[&str] = &["curl", "lftp", "tnftp", "python3", "openssl"];

/// User and group id of the server's user.
const USER: u32 = 4711;
/// `openssl passwd -6 -salt longhaul secret`.
const SECRET: &str =
    "$6$longhaul$uPCC23yG7.RD2mfqBvmUu/zwXnrtfmoChBE8bH.iIdyB7o7YzBbVCZXGRUi5QZmUpkLrUKcFyo2precgPl8pO/";

/// Runs a server: `$0` is its folder. The shell stays, because vsftpd crashes if it is process 1 and so inherits the processes of
/// others.
const ROOM: &str = "for name in passwd shadow group pam.d; do mount --bind $0/$name /etc/$name; done; \"$@\"; exit $?";

const VSFTPD: &str = "background=NO\nanonymous_enable=NO\nlocal_enable=YES\nwrite_enable=YES\nasync_abor_enable=YES\n\
    pam_service_name=ftp\nsecure_chroot_dir=FOLDER/empty\nseccomp_sandbox=NO\nxferlog_enable=NO\n";

const PROFTPD: &str = "ServerType standalone\nSocketBindTight on\nUser nobody\nGroup nogroup\nScoreboardFile none\n\
    DelayEngine off\nSystemLog none\nTransferLog none\nWtmpLog off\nAllowOverwrite on\nAllowStoreRestart on\n\
    AllowRetrieveRestart on\nUseReverseDNS off\nAuthPAM off\n";

const FTPLIB: &str = include_str!("ftplib_client.py");
