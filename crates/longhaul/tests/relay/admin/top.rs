//! Tests `longhaul top` in a terminal of its own.

use crate::ftp::dialogue::{Form, Shown};
use crate::harness::*;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use vt100::Parser;

/// `longhaul top` in a terminal.
pub(super) struct Top {
    child: Running,
    /// The other end of the terminal: what a user types and sees.
    master: File,
    /// The terminal itself. While it is open here, reading the other end does not fail.
    terminal: OwnedFd,
    screen: Arc<Mutex<Parser>>,
}

impl Top {
    /// Starts the program for the daemon `admin` on a screen of 100 columns and 30 lines.
    pub(super) fn start(admin: &Watched) -> Top {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let path = ptsname(&master, Vec::new()).unwrap().into_string().unwrap();
        let terminal: OwnedFd = File::options().read(true).write(true).open(path).unwrap().into();
        resize(&terminal, 100, 30);
        // The controlling terminal of this test is another one.
        let mut command = Command::new("setsid");
        command.args(["--ctty", PROGRAM, "top", "--interval", "100ms", "--admin"]);
        let end = || Stdio::from(terminal.try_clone().unwrap());
        command.arg(admin.socket()).stdin(end()).stdout(end()).stderr(end()).env("TERM", "xterm");
        let child = Running(command.spawn().expect("setsid (util-linux) starts"));
        let (master, screen) = (File::from(master), Arc::new(Mutex::new(Parser::new(30, 100, 0))));
        let (mut reader, shared) = (master.try_clone().unwrap(), screen.clone());
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = reader.read(&mut bytes) {
                shared.lock().unwrap().process(&bytes[..count]);
            }
        });
        Top { child, master, terminal, screen }
    }

    fn shown(&self) -> String {
        self.screen.lock().unwrap().screen().contents()
    }

    /// Waits until the screen shows `text`.
    pub(super) fn wait(&self, text: &str) {
        wait_for(&format!("the screen shows {text}"), || match self.shown() {
            shown if shown.contains(text) => Ok(()),
            shown => Err(shown),
        });
    }

    pub(super) fn press(&mut self, keys: &str) {
        self.master.write_all(keys.as_bytes()).unwrap();
    }

    pub(super) fn resize(&self, columns: u16, rows: u16) {
        let mut screen = self.screen.lock().unwrap();
        screen.set_size(rows, columns);
        // The old picture must not be taken for the new one.
        screen.process(b"\x1b[2J");
        drop(screen);
        resize(&self.terminal, columns, rows);
    }

    /// Waits for the end. Checks that it succeeded, and that the terminal is as before.
    pub(super) fn ends(mut self) {
        assert_eq!(self.child.0.wait().unwrap().code(), Some(0), "{}", self.shown());
        let modes = tcgetattr(&self.terminal).unwrap().local_modes;
        assert!(modes.contains(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG), "{modes:?}");
        wait_until("the first screen is back", || {
            let parser = self.screen.lock().unwrap();
            !parser.screen().alternate_screen() && !parser.screen().hide_cursor()
        });
    }
}

fn resize(terminal: &impl AsFd, columns: u16, rows: u16) {
    let size = Winsize { ws_col: columns, ws_row: rows, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(terminal, size).unwrap();
}

#[test]
fn an_operator_finds_a_flow_and_kills_it() {
    let admin = Watched::start("");
    let (kept, cut) = (admin.flow(), admin.flow());
    let port = cut.0.local_addr().unwrap().port().to_string();
    let mut top = Top::start(&admin);
    top.wait("WHOLE: no problem is known; no tunnel has verify");
    top.wait("FLOWS 2, by total rate");
    top.wait(&format!("127.0.0.1:{port}"));
    assert!(!tcgetattr(&top.terminal).unwrap().local_modes.contains(LocalModes::ICANON));
    top.press(&format!("/:{port}"));
    top.wait(&format!("FLOWS 1 with \":{port}\" of 2"));
    top.press("\rk");
    top.wait("Kill flow ");
    // Another key than `y` keeps it.
    top.press("n");
    top.wait("q quit");
    talk(&cut.0, &cut.1);
    top.press("k");
    top.wait(&format!("127.0.0.1:{port} -> "));
    top.press("y");
    assert_eq!(read_to_end(&cut.0), (Vec::new(), Ending::Reset));
    assert_eq!(read_to_end(&cut.1), (Vec::new(), Ending::Reset));
    top.wait(": killed");
    top.wait(&format!("FLOWS 0 with \":{port}\" of 1"));
    talk(&kept.0, &kept.1);
    top.press("q");
    top.ends();
}

#[test]
fn an_ftp_data_connection_is_found_by_its_file_and_shown_with_its_command() {
    let shown = Shown::begin("");
    let _data = shown.data(Form::Passive, "RETR some file.iso");
    let mut top = Top::start(&shown.watched);
    top.wait("FLOWS 2, by total rate");
    top.press("/file.iso");
    top.wait("FLOWS 1 with \"file.iso\" of 2");
    top.press("\r\r");
    top.wait("FTP           RETR some file.iso");
    top.press("q");
    top.ends();
}

#[test]
fn it_waits_for_a_daemon_that_is_gone_and_survives_every_size() {
    let mut admin = Watched::start("");
    let mut top = Top::start(&admin);
    top.wait("WHOLE: no problem is known; no tunnel has verify");
    admin.kill();
    top.wait("NOT WHOLE since ");
    top.wait("no daemon at ");
    top.wait("Everything below is from ");
    admin.start_again("");
    top.wait("WHOLE: no problem is known; no tunnel has verify");
    for (columns, rows) in [(1, 1), (40, 20), (3, 200), (300, 2)] {
        top.resize(columns, rows);
        let first =
            if columns < 5 { "WHOLE"[..columns.into()].to_owned() } else { "WHOLE: no problem is known".into() };
        wait_for(&format!("a screen of {columns} columns and {rows} lines"), || match top.shown() {
            shown if shown.starts_with(&first) => Ok(()),
            shown => Err(shown),
        });
    }
    top.resize(100, 30);
    top.press("?");
    top.wait("KEYS AND COLUMNS");
    // Esc, and not the beginning of an arrow key: nothing follows.
    top.press("\u{1b}");
    top.wait("FLOWS 0");
    top.press("\u{3}");
    top.ends();
}

#[test]
fn sigterm_restores_the_terminal() {
    let admin = Watched::start("");
    let top = Top::start(&admin);
    top.wait("WHOLE: no problem is known; no tunnel has verify");
    let status = Command::new("kill").args(["-TERM", &top.child.0.id().to_string()]).status().unwrap();
    assert!(status.success());
    top.ends();
}

#[test]
fn without_a_terminal_it_names_the_alternatives() {
    let admin = Watched::start("");
    let _flow = admin.flow();
    let output = program().args(["top"]).stdin(Stdio::null()).output().unwrap();
    assert_eq!((output.status.code(), stdout(&output)), (Some(2), String::new()));
    assert!(stderr(&output).contains("longhaul status --json"), "{output:?}");
    let output = admin.command(&["top", "--once", "--interval", "100ms"]);
    let text = stdout(&output);
    assert!(output.status.success() && text.starts_with("WHOLE: no problem is known"), "{output:?}");
    assert!(text.contains("FLOWS 1, by total rate") && text.lines().all(|line| line.len() <= 120), "{text}");
    let output = program().args(["top", "--once", "--admin", "/nonexistent.sock"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(stderr(&output), "error: no daemon at /nonexistent.sock\n");
}
