//! Tests of the command line. What a user sees first is checked in, in tests/cmd/: the short help, and the commonest mistakes.
//! `TRYCMD=overwrite cargo test -p longhaul --test cli` writes the current texts; read the diff.

use std::fs;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn longhaul() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_longhaul"));
    command.env("PATH", path_with_systemctl());
    command
}

/// PATH with a `systemctl` in front that shows the shipped unit.
fn path_with_systemctl() -> String {
    format!("{}/tests/bin:{}", env!("CARGO_MANIFEST_DIR"), std::env::var("PATH").unwrap_or_default())
}

fn run(args: &[&str]) -> Output {
    longhaul().args(args).output().expect("longhaul starts")
}

fn stdout(args: &[&str]) -> String {
    let output = run(args);
    assert!(output.status.success(), "{args:?}: {output:?}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// Returns every command and subcommand listed by `longhaul -h` and `longhaul lab -h`.
fn commands() -> Vec<Vec<String>> {
    let listed = |above: &[String]| -> Vec<Vec<String>> {
        let help = stdout(&above.iter().map(String::as_str).chain(["-h"]).collect::<Vec<_>>());
        let Some((_, list)) = help.split_once("\nCommands:\n") else { return Vec::new() };
        let names = list.lines().map_while(|line| line.strip_prefix("  ")?.split(' ').next());
        names.filter(|name| *name != "help").map(|name| [above, &[name.into()]].concat()).collect()
    };
    let first = listed(&[]);
    let second: Vec<_> = first.iter().flat_map(|command| listed(command)).collect();
    first.into_iter().chain(second).collect()
}

fn repository(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(file)
}

#[test]
fn every_text_matches_the_checked_in_one() {
    let cases = trycmd::TestCases::new();
    cases.env("PATH", path_with_systemctl());
    cases.case("tests/cmd/*.trycmd").case("../../docs/advise.md").case("../../docs/audit.md");
}

#[test]
fn the_verbose_version_tells_what_the_program_is_made_from() {
    let text = stdout(&["--version", "--verbose"]);
    let names: Vec<_> = text.lines().skip(1).map(|line| line.split_once(": ").expect("name: value").0).collect();
    assert_eq!(names, ["commit", "toolchain", "target", "glibc of this host", "libraries"], "{text}");
    assert!(text.contains("\ntoolchain: rustc 1.") && text.contains("tokio 1."), "{text}");
    assert_eq!(stdout(&["--version"]), text.lines().next().expect("a line").to_owned() + "\n");
    let alone = run(&["--verbose", "options"]);
    assert_eq!(alone.status.code(), Some(2), "{alone:?}");
    assert!(String::from_utf8_lossy(&alone.stderr).contains("--verbose goes with --version"), "{alone:?}");
}

#[test]
fn help_fits_80_columns_and_short_help_has_one_line_a_flag() {
    for command in commands() {
        let help = |flag| stdout(&command.iter().map(String::as_str).chain([flag]).collect::<Vec<_>>());
        let (short, long) = (help("-h"), help("--help"));
        let command = command.join(" ");
        for line in short.lines() {
            assert!(line.len() < 80, "{command} -h: {line}");
            // A line that is indented by three or more and does not begin a flag continues the flag above it. Commands of
            // `lab` are indented by two, and a second line of usage begins with the program.
            let is_begun = line.trim_start().starts_with(['-', '[', '<']) || line.trim_start().starts_with("longhaul ");
            let goes_on = line.starts_with("   ") && !is_begun;
            assert!(!goes_on, "{command} -h: {line}");
            let flag = line.split_whitespace().find(|word| word.starts_with("--"));
            assert!(flag.is_none_or(|flag| long.contains(flag)), "{command} --help: {line}");
        }
        for line in long.lines() {
            assert!(line.chars().count() <= 80, "{command} --help: {line}");
        }
    }
    let none = longhaul().output().expect("longhaul starts");
    assert_eq!((none.status.code(), String::from_utf8_lossy(&none.stderr).into_owned()), (Some(2), stdout(&["-h"])));
}

/// Command lines that are refused, and a part of the message.
const REFUSED: &[(&str, &str)] = &[
    // Words of socat, and two addresses without flags.
    ("TCP4-LISTEN:6000,fork TCP4:b:6000", "tip: write: longhaul relay --listen 0.0.0.0:6000 --to b:6000\n"),
    ("relay TCP4-LISTEN:6001,fork TCP4:b:6000", "tip: write: --listen 0.0.0.0:6001 --to b:6000\n"),
    ("relay 6000 10.20.20.20:6000", "tip: write: --listen 6000 --to 10.20.20.20:6000\n"),
    (
        "OPENSSL-LISTEN:443,cert=a.pem TCP4:b:1",
        "only TCP, from a TCP port to a TCP port; socat's `OPENSSL-LISTEN` has no",
    ),
    ("relay UDP4-LISTEN:53,fork UDP4:b:53", "socat's `UDP4-LISTEN` has no counterpart"),
    ("relay TCP4-LISTEN:6001,fork EXEC:/bin/cat", "socat's `EXEC` has no counterpart"),
    // A host may be called proxy.
    ("rely --listen 6000 --to proxy:3128", "tip: some similar subcommands exist: 'reload', 'relay'"),
    // Flags of other programs, and socket options.
    ("relay --lisen 6000", "tip: a similar argument exists: '--listen'"),
    ("relay --range 10.0.0.0/8", "tip: a similar argument exists: '--allow'"),
    ("relay --fork", "tip: not needed: connections are served at the same time; `--max-flows` limits"),
    ("relay --bind 10.0.0.1", "tip: the address to listen on is part of `--listen ADDR:PORT`"),
    ("relay --mss 1254", "tip: it is a socket option; write --set dial.mss=1254B\n"),
    ("relay --listen 1254 --set dial.mss 1254", "tip: write dial.mss=1254\n"),
    ("relay --set dial.mss = 1254", "tip: write dial.mss=1254\n"),
    (
        "relay --listen 1 --to b:1 --set dial.mms=1",
        "--set <LEG.KEY=VALUE>': there is no such option; did you mean mss?",
    ),
    (
        "relay --listen 1 --to b:1 --set dial.mss=1B,dial.nodelay=no",
        "it holds several options; write one for each --set",
    ),
    (
        "relay --listen 1 --to b:1 --set dial.window_clamp=1MiB --set dial.window-clamp=2MiB",
        "is already set for this leg",
    ),
    // Values are judged as those of the file, and named by their flags.
    ("relay --listen 1 --to b:1,c", "invalid value 'c' for '--to <HOST:PORT>': it is not a host and a port"),
    ("relay --listen 1 --to localhost:1", "error: --to: localhost:1 is this tunnel's own listener ([::]:1)"),
    ("relay --listen 1 --to [fe80::1]:22", "needs an interface: add --set dial.bind-device=eth0"),
    ("options --log-level loud", "write error, warn, info, debug or trace\n"),
    ("options kepalive-idle", "did you mean keepalive-idle?"),
    ("man nosuch", "error: there is no command nosuch; `longhaul -h` lists them"),
    // Verbs of systemctl, but not of the lab.
    ("restart longhaul", "tip: write: systemctl restart longhaul\n"),
    ("lab stop", "error: unrecognized subcommand 'stop'\n\nUsage:"),
    // No tip to pass a flag as a value.
    ("run --check", "error: unexpected argument '--check' found\n\nUsage: longhaul run [OPTIONS] [FILE]"),
    ("run --conf a.toml", "tip: a similar argument exists: '--config'"),
    ("run one.toml two.toml", "error: unexpected argument 'two.toml' found"),
    ("check one.toml -c two.toml", "the argument '[FILE]' cannot be used with '--config <FILE>'"),
];

#[test]
fn a_wrong_command_line_says_what_to_write() {
    for (line, said) in REFUSED {
        let output = run(&line.split(' ').collect::<Vec<_>>());
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), &*output.stdout), (Some(2), &b""[..]), "{line}: {stderr}");
        assert!(stderr.contains(said), "{line}: {stderr}");
    }
}

#[test]
fn docs_options_md_matches_the_option_table() {
    let (file, text) = (repository("docs/options.md"), stdout(&["options", "--markdown"]));
    if std::env::var_os("UPDATE").is_some() {
        return fs::write(file, text).expect("docs/options.md");
    }
    assert_eq!(fs::read_to_string(file).unwrap_or_default(), text, "run UPDATE=1 cargo test -p longhaul --test cli");
}

#[test]
fn a_closed_stdout_is_not_an_error() {
    // The reader is gone before the child writes its first byte, like a `head` that reads nothing.
    for args in [&["options", "--markdown"][..], &["man"], &["completions", "bash"], &["--help"]] {
        let (closed, stdout) = UnixStream::pair().expect("a pair of sockets");
        drop(closed);
        let output = longhaul()
            .args(args)
            .stdout(OwnedFd::from(stdout))
            .stderr(Stdio::piped())
            .output()
            .expect("longhaul starts");
        assert_eq!(output.status.code(), Some(0), "{args:?}");
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{args:?}");
    }
}

#[test]
fn a_full_disk_is_reported_as_an_error() {
    let full = fs::OpenOptions::new().write(true).open("/dev/full").expect("/dev/full");
    let output = longhaul().arg("options").stdout(full).output().expect("longhaul starts");
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).starts_with("error: stdout: No space left on device"));
}

#[test]
fn check_warns_about_addresses_devices_and_names_missing_on_this_machine() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("longhaul.toml");
    let text = "[admin]\nlisten = \"192.0.2.79:9650\"\n[probe]\nkey_file = \"/nonexistent.key\"\n\
                [[tunnel]]\nname = \"a\"\nlisten = \"192.0.2.77:6000\"\nto = \"nosuch.invalid:1\"\nallow = \"10.0.0.0/8\"\n\
                dial = { bind-device = \"nosuch0\", congestion = \"nosuch\" }\n\
                [[tunnel]]\nname = \"b\"\nlisten = \"127.0.0.1:6001\"\nto = \"192.0.2.1:1\"\nsource = \"192.0.2.78\"\n";
    fs::write(&file, text).expect("a file");
    let output = run(&["check", "-c", &file.to_string_lossy()]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "a warning is no error: {stderr}");
    // RFC 5737: 192.0.2.0/24 is reserved for documentation, so no host has such an address. RFC 6761: no name under .invalid
    // resolves.
    for part in [
        "tunnel a: listen = 192.0.2.77: no interface has this address; if VRRP brings it later, write accept = { freebind = true }; ",
        "tunnel b: source = 192.0.2.78: no interface has this address, and every dial fails until one has it; ",
        "tunnel a: dial.bind-device = nosuch0: there is no such interface",
        "tunnel a: dial.congestion = nosuch: the kernel offers",
        "tunnel a: to = nosuch.invalid: cannot be resolved now: ",
        "; flows of a fail until it resolves; ",
        "admin.listen = 192.0.2.79: no interface has this address, so the daemon does not start; ",
        "key file /nonexistent.key: No such file or directory (os error 2); write it, or leave `key_file` out; the daemon does not start",
    ] {
        assert!(stderr.contains(part), "{part:?} is not in:\n{stderr}");
    }
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(shown.ends_with(": the daemon will NOT start on this machine\n"), "{shown}");
}

/// Opening it would wait for its writer.
#[test]
fn check_does_not_wait_for_a_key_file_that_is_a_fifo() {
    let dir = tempfile::tempdir().expect("a directory");
    let (file, key) = (dir.path().join("longhaul.toml"), dir.path().join("key"));
    assert!(Command::new("mkfifo").args(["-m", "600"]).arg(&key).status().expect("mkfifo").success());
    let tunnel = "[[tunnel]]\nname = \"a\"\nlisten = \"127.0.0.1:6001\"\nto = \"192.0.2.1:1\"\n";
    fs::write(&file, format!("[probe]\nkey_file = {key:?}\n{tunnel}")).expect("a file");
    let check = [env!("CARGO_BIN_EXE_longhaul"), "check", "-c"];
    let output = Command::new("timeout").arg("60").args(check).arg(&file).output().expect("timeout");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && stderr.contains("it is not a regular file; the daemon does not start"),
        "{stderr}"
    );
}

#[test]
fn check_assumes_the_capabilities_of_the_unit_and_strict_turns_warnings_into_errors() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("longhaul.toml").to_string_lossy().into_owned();
    let text =
        |more: &str| format!("[[tunnel]]\nname = \"a\"\nlisten = \"127.0.0.1:600\"\nto = \"192.0.2.1:1\"\n{more}\n");
    let check = |more: &str, strict: &[&str]| {
        fs::write(&file, text(more)).expect("a file");
        let output = run(&[&["check", "-c", &file], strict].concat());
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned(), output.stdout)
    };
    // The result does not depend on who runs the check: root may set all of it, others may not even listen on port 600.
    let reno = "accept = { congestion = \"reno\" }\ndial = { congestion = \"reno\"";
    let good = format!("{reno} }}");
    assert_eq!(check(&good, &[]).1, "");
    assert_eq!(check(&good, &["--strict"]).0, Some(0));
    let lacks = "longhaul.service does not give CAP_NET_ADMIN; the drop-in /usr/share/longhaul/net-admin.conf does";
    for (option, why) in [
        ("mark = 7", "dial.mark = 7: the kernel refuses it: "),
        ("sndbuf = \"512MiB\"", "dial.sndbuf = 512MiB: the kernel cuts it to "),
    ] {
        let (code, stderr, shown) = check(&format!("{reno}, {option} }}"), &[]);
        assert_eq!(code, Some(0), "{stderr}");
        assert!(
            stderr.contains(&format!("on this machine: warning: tunnel a: {why}")) && stderr.contains(lacks),
            "{stderr}"
        );
        assert!(!shown.is_empty());
        let (code, stderr, shown) = check(&format!("{reno}, {option} }}"), &["--strict"]);
        assert_eq!((code, shown), (Some(2), Vec::new()), "{stderr}");
        assert!(stderr.contains(&format!("on this machine: error: tunnel a: {why}")), "{stderr}");
        // Without systemd, nothing is known about the unit.
        let output = longhaul().args(["check", "-c", &file]).env("PATH", "").output().expect("longhaul starts");
        let (stderr, shown) = (String::from_utf8_lossy(&output.stderr), String::from_utf8_lossy(&output.stdout));
        assert!(output.status.success() && !format!("{stderr}{shown}").contains("longhaul.service"), "{stderr}{shown}");
    }
    // A warning about the file itself.
    let (code, stderr, _) = check("dial = { nodelay = false }", &["--strict"]);
    assert_eq!(code, Some(2), "{stderr}");
    assert!(stderr.contains(": error: dial.nodelay = false: "), "{stderr}");
    // An option that the manual recommends in spite of a known trade-off gets only a note.
    let clamped = "accept = { congestion = \"reno\", window-clamp = \"2MiB\" }\ndial = { congestion = \"reno\" }";
    let (code, stderr, _) = check(clamped, &["--strict"]);
    assert_eq!(code, Some(0), "{stderr}");
    assert!(stderr.contains(": note: accept.window-clamp = \"2MiB\": "), "{stderr}");
    for unknown in ["congestion = \"bbrr\"", "bind-device = \"nosuch0\"", "mptcp = true, window-clamp = \"2MiB\""] {
        let (code, stderr, shown) = check(&format!("dial = {{ {unknown} }}"), &[]);
        assert_eq!(code, Some(0), "{stderr}");
        let shown = String::from_utf8_lossy(&shown).into_owned();
        assert!(
            shown.ends_with(": 1 of 1 tunnels will NOT start on this machine, so the daemon refuses the file\n"),
            "{shown}"
        );
        assert_eq!(check(&format!("dial = {{ {unknown} }}"), &["--strict"]).0, Some(2));
    }
    let (_, stderr, _) = check("dial = { congestion = \"bbrr\" }", &[]);
    assert!(
        stderr.contains("dial.congestion = bbrr: the kernel offers") && stderr.contains("; did you mean bbr?"),
        "{stderr}"
    );
}

/// Runs `longhaul` with `args` and `text` on its standard input.
fn check_stdin(args: &[&str], text: &str) -> Output {
    let mut command = longhaul();
    let pipes = command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = pipes.spawn().expect("longhaul starts");
    child.stdin.take().expect("a pipe").write_all(text.as_bytes()).expect("room in the pipe");
    child.wait_with_output().expect("it ends")
}

#[test]
fn check_takes_a_file_a_flag_or_standard_input() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("longhaul.toml").to_string_lossy().into_owned();
    let text = "[[tunnel]]\nname = \"a\"\nlisten = \"127.0.0.1:6000\"\nto = \"192.0.2.1:1\"\n";
    fs::write(&file, text).expect("a file");
    let by_flag = stdout(&["check", "-c", &file]);
    assert!(by_flag.starts_with(&format!("{file}: good, 1 tunnel\n")), "{by_flag}");
    assert_eq!(stdout(&["check", &file]), by_flag);
    for args in [["check", "-"].as_slice(), &["check", "-c", "-"], &["check", "--config=-"]] {
        let output = check_stdin(args, text);
        assert_eq!(String::from_utf8_lossy(&output.stdout), by_flag.replace(&file, "stdin"), "{args:?}");
    }
    let refused = check_stdin(&["check", "-"], "[[tunnel]]\nname = a\n");
    assert_eq!(refused.status.code(), Some(2));
    assert!(
        String::from_utf8_lossy(&refused.stderr).starts_with("stdin:2:8: error: a text needs quotes: "),
        "{refused:?}"
    );
    let run = run(&["run", "-"]);
    assert_eq!(run.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&run.stderr).contains("does not read stdin; name a file"), "{run:?}");
}

#[test]
fn check_with_json_logs_writes_one_object_per_message() {
    let lines_of = |args: &[&str], text: &str| {
        let output = check_stdin(&[args, &["--log-format", "json", "--log-level", "error"]].concat(), text);
        assert_eq!(String::from_utf8_lossy(&output.stdout), "", "every line belongs on stderr");
        let text = String::from_utf8(output.stderr).expect("UTF-8");
        let parse = |line: &str| serde_json::from_str(line).unwrap_or_else(|err| panic!("{line}: {err}"));
        (output.status.code(), text.lines().map(parse).collect::<Vec<serde_json::Value>>())
    };
    let good =
        "[[tunnel]]\nname = \"a\"\nlisten = \"127.0.0.1:6000\"\nto = \"192.0.2.1:1\"\ndial = { nodelay = false }\n";
    let (code, lines) = lines_of(&["check", "-"], good);
    let (first, last) = (&lines[0], &lines[lines.len() - 1]);
    assert_eq!((code, &first["level"]), (Some(0), &"WARN".into()), "{lines:?}");
    let warning = "stdin:5:20: dial.nodelay = false: small messages will wait for a round trip; leave it out";
    assert_eq!(first["fields"]["message"], warning);
    assert_eq!((&last["fields"]["message"], &last["fields"]["tunnels"]), (&"good".into(), &1.into()), "{last}");
    assert!(
        last["fields"]["summary"].as_str().is_some_and(|text| text.contains("listens on 127.0.0.1:6000")),
        "{last}"
    );
    let (code, lines) = lines_of(&["check", "--strict", "-"], good);
    assert_eq!((code, &lines[0]["level"]), (Some(2), &"ERROR".into()), "{lines:?}");
    let (code, lines) = lines_of(&["check", "-"], "[[tunnel]]\nname = a\n[[tunnel]]\nlisten: 6000\n");
    assert_eq!((code, lines.len()), (Some(2), 2), "{lines:?}");
    let (code, lines) = lines_of(&["run", "/nonexistent.toml"], "");
    assert_eq!((code, &lines[0]["level"]), (Some(2), &"ERROR".into()), "{lines:?}");
}

#[test]
fn the_error_about_an_unreadable_file_names_user_mode_and_remedy() {
    let dir = tempfile::tempdir().expect("a directory");
    let root = fs::metadata(dir.path()).expect("its owner").uid() == 0;
    let file = dir.path().join("longhaul.toml");
    fs::write(&file, "").expect("a file");
    let mode = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("a mode");
    // Root may read everything, so as root the check runs as a user id of systemd's dynamic users. The folder of the build
    // may be closed to that user.
    let copies = tempfile::tempdir().expect("a directory");
    mode(copies.path(), 0o755);
    let copy = copies.path().join("longhaul");
    // By another process. If this one wrote the file, a program that another test is just starting could hold it open for
    // writing, and execve(2) of the copy would fail with ETXTBSY.
    let copied = Command::new("cp").arg(env!("CARGO_BIN_EXE_longhaul")).arg(&copy).status().expect("cp starts");
    assert!(copied.success());
    let error = || {
        let mut command = Command::new(&copy);
        if root {
            command.uid(61234).gid(61234).env("USER", "longhaul");
        }
        let output = command.arg("check").arg(&file).output().expect("longhaul starts");
        assert_eq!(output.status.code(), Some(2));
        String::from_utf8(output.stderr).expect("UTF-8")
    };
    let (class, who) = match root {
        true => ('o', "user longhaul (uid 61234, a dynamic user of systemd)"),
        false => ('u', "may not read it"),
    };
    mode(dir.path(), 0o755);
    mode(&file, 0o000);
    let text = error();
    let shown = file.display();
    assert!(text.contains(who) && text.contains(&format!("{shown} belongs to ")), "{text}");
    assert!(text.trim_end().ends_with(&format!(" with mode 0000; run as root: chmod {class}+r {shown}")), "{text}");
    mode(&file, 0o644);
    mode(dir.path(), 0o600);
    let text = error();
    let shown = dir.path().display();
    assert!(text.trim_end().ends_with(&format!(" with mode 0600; run as root: chmod {class}+x {shown}")), "{text}");
    mode(dir.path(), 0o700);
}

#[test]
fn a_relay_that_cannot_start_logs_the_error_in_its_log_format() {
    let taken = std::net::TcpListener::bind("0.0.0.0:0").expect("a port");
    let port = taken.local_addr().expect("a name").port().to_string();
    let output = run(&["--log-format", "json", "relay", "--listen", &port, "--to", "192.0.2.77:1"]);
    assert_eq!(output.status.code(), Some(1));
    let stderr = String::from_utf8(output.stderr).expect("UTF-8");
    let lines: Vec<serde_json::Value> =
        stderr.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|err| panic!("{line}: {err}"))).collect();
    let last = &lines.last().expect("a line");
    assert_eq!((&last["level"], &last["fields"]["message"]), (&"ERROR".into(), &"not started".into()), "{stderr}");
    let err = last["fields"]["err"].as_str().expect("why");
    assert!(err.starts_with(&format!("tunnel relay: cannot listen on [::]:{port}: bind(")), "{err}");
    let why = format!("EADDRINUSE: Address already in use (who has it: ss -tanp 'sport = :{port}')");
    assert!(err.ends_with(&why), "{err}");
    let open = format!(
        "allow: anyone who reaches [::]:{port} may connect; write --allow 10.0.0.0/8, or the networks of your clients"
    );
    assert_eq!(lines[0]["level"], "WARN", "{stderr}");
    assert_eq!(lines[0]["fields"]["message"], open, "the remedy has the form of a flag");
}

#[test]
fn every_command_has_a_manual_page_and_every_shell_a_completion_script() {
    let dir = tempfile::tempdir().expect("a directory");
    let folder = dir.path().join("man1");
    assert_eq!(stdout(&["man", "--out", &folder.to_string_lossy()]), "");
    let page = |name: &str| fs::read_to_string(folder.join(format!("{name}.1")));
    assert_eq!(page("longhaul").expect("longhaul(1)"), stdout(&["man"]));
    assert!(commands().len() > 10, "{:?}", commands());
    let installed = |name: &str| name != "completions" && name != "man";
    for command in commands().into_iter().filter(|command| installed(&command[0])) {
        let name = format!("longhaul-{}", command.join("-"));
        let page = page(&name).unwrap_or_else(|err| panic!("{name}: {err}"));
        assert!(page.contains(&format!(".TH {name} 1")), "{name}");
        assert_eq!(page, stdout(&["man"].into_iter().chain(command.iter().map(String::as_str)).collect::<Vec<_>>()));
    }
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        assert!(stdout(&["completions", shell]).contains("longhaul"), "{shell}");
    }
    let output = run(&["man", "--out", "/dev/null"]);
    assert_eq!((output.status.code(), &output.stdout[..]), (Some(1), &b""[..]));
    assert!(String::from_utf8_lossy(&output.stderr).starts_with("error: /dev/null: "), "{output:?}");
}
