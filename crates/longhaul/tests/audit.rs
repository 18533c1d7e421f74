//! `longhaul audit` as it is called: sources, exit codes, messages, the table of several hosts, and memory.

#![allow(clippy::unwrap_used)]

use serde_json::Value;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

const PATH: [&str; 4] = ["--rtt", "63ms", "--rate", "1Gbit/s"];

fn audit(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_longhaul"));
    command.arg("audit").args(args);
    command
}

/// Runs the command on the path of 63 ms and 1 Gbit/s.
fn run(args: &[&str]) -> Output {
    audit(args).args(PATH).stdin(Stdio::null()).output().unwrap()
}

fn code(output: &Output) -> i32 {
    output.status.code().unwrap()
}

fn error(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn text(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn paste(name: &str) -> String {
    let pastes = Path::new(env!("CARGO_MANIFEST_DIR")).join("../longhaul-doctor/tests/pastes");
    pastes.join(name).to_str().unwrap().to_string()
}

/// A folder with files.
fn folder(files: &[(&str, &[u8])]) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path: PathBuf = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let path = folder.path().to_str().unwrap().to_string();
    (folder, path)
}

#[test]
fn wrong_usage_is_2_with_what_to_write() {
    let (_empty, empty) = folder(&[(".hidden", b"sack = 0\n"), ("below/host.txt", b"sack = 0\n")]);
    let (_other, other) = folder(&[("advise.json", br#"{"longhaul": "advise", "format": 1}"#)]);
    let other = format!("{other}/advise.json");
    let host = paste("aix-no-a.txt");
    let on_path = |args: &[&str]| [args, &PATH[..]].concat().iter().map(ToString::to_string).collect::<Vec<_>>();
    let plain = |args: &[&str]| args.iter().map(ToString::to_string).collect::<Vec<_>>();
    for (args, part) in [
        (on_path(&[]), "name files or a folder"),
        (on_path(&[&empty]), "has no file in it"),
        (on_path(&["no-such-file"]), "no-such-file: No such file"),
        (on_path(&["--os", "aixx", &host]), "did you mean aix?"),
        (on_path(&["--json", "--csv", "-", &host]), "name a file for --csv"),
        (plain(&[&host]), "add --rtt 63ms"),
        (plain(&[&host, "--rtt", "63ms"]), "add --rate 1Gbit/s"),
        (plain(&[&host, "--rtt", "63", "--rate", "1Gbit/s"]), "write for example 63ms"),
        (plain(&[&host, "--rtt", "0ms", "--rate", "1Gbit/s"]), "from 10us to 1min"),
        (plain(&[&host, "--rtt", "365d", "--rate", "1Gbit/s"]), "from 10us to 1min"),
        (plain(&[&host, "--rtt", "63ms", "--rate", "0Gbit/s"]), "from 1kbit/s"),
        (on_path(&[&host, "--loss", "100%"]), "nothing gets through"),
        (on_path(&[&host, "--mtu", "575"]), "from 576"),
        (plain(&[&host, "--from", &other]), "longhaul advise"),
    ] {
        let output = audit(&args.iter().map(String::as_str).collect::<Vec<_>>()).output().unwrap();
        assert_eq!((code(&output), text(&output).as_str()), (2, ""), "{args:?}: {}", error(&output));
        assert!(error(&output).contains(part), "{args:?}: {}", error(&output));
    }
}

#[test]
fn nothing_understood_is_1_and_an_empty_list() {
    let novel = b"It was the best of times, it was the worst of times.\n".repeat(2000);
    let image = [b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".as_slice(), b"\nsack = 0\n"].concat();
    let files: [(&str, &[u8]); 4] =
        [("empty", b""), ("novel.txt", &novel), ("image.png", &image), ("no-a.txt", b"$ no -a\nno: not found\n")];
    let (_guard, all) = folder(&files);
    for name in files.iter().map(|(name, _)| format!("{all}/{name}")).chain([all.clone()]) {
        let output = run(&[&name, "--json"]);
        assert_eq!(code(&output), 1, "{name}");
        assert!(error(&output).contains("nothing is understood"), "{name}: {}", error(&output));
        let document: Value = serde_json::from_str(&text(&output)).unwrap();
        assert_eq!(document["hosts"], serde_json::json!([]), "{name}");
        assert_eq!((&document["longhaul"], &document["format"]), (&"audit".into(), &1.into()), "{name}");
        let output = run(&[&name]);
        assert_eq!((code(&output), text(&output).as_str()), (1, ""), "{name}");
    }
    // The program itself has the names of all settings in it.
    let output = run(&[env!("CARGO_BIN_EXE_longhaul")]);
    assert_eq!(code(&output), 1, "{}", text(&output));
}

#[test]
fn several_hosts_give_one_table_sorted_by_what_gains_most() {
    let host = |name: &str| fs::read(paste(name)).unwrap();
    let (ibmi, aix, linux, netstat) = (
        host("ibmi-chgtcpa-command.txt"),
        host("aix-no-a.txt"),
        host("linux-rhel7-sysctl.txt"),
        host("aix-netstat-p-tcp.txt"),
    );
    let files: [(&str, &[u8]); 5] = [
        ("a-tuned.txt", &ibmi),
        ("b-unknown.txt", &netstat),
        ("c-linux.txt", &linux),
        ("d-aix.txt", &aix),
        ("e-readme.md", b"# Pastes of the hosts\n"),
    ];
    let (_guard, all) = folder(&files);
    let output = run(&[&all, "--csv", "-"]);
    assert_eq!(code(&output), 0, "{}", error(&output));
    assert!(error(&output).contains("e-readme.md: nothing in it is understood"), "{}", error(&output));
    let table = text(&output);
    let rows: Vec<Vec<&str>> = table.lines().map(|line| line.split(',').collect()).collect();
    let columns = "host,os,window_bytes,mbps,tuned_mbps,relay_mbps,first_change,set_now,set_permanent,verified";
    assert_eq!(rows[0].join(","), columns);
    // The rate of a tuned host gains nothing, and an unknown rate comes last.
    let order: Vec<&str> = rows[1..].iter().map(|row| row[0]).collect();
    assert_eq!(order, ["lpar07", "oradb01", "a-tuned", "b-unknown"]);
    assert_eq!(rows[1][1..4], ["aix", "16384", "2.080508"]);
    // 122 MB/s, with tuned hosts as with relays, and the first command.
    assert_eq!(
        rows[1][6..],
        ["sb_max: 1048576 -> 31500000", "no -o sb_max=31500000", "no -p -o sb_max=31500000", "unverified"]
    );
    assert_eq!(rows[4][6..], ["unknown: paste also `no -a`", "", "", ""]);
    assert_eq!(rows[4][1..4], ["aix", "", ""]);

    let report = text(&run(&[&all]));
    let at = |part: &str| report.find(part).unwrap_or_else(|| panic!("{part} is missing in {report}"));
    assert!(at("first change") < at("\nlpar07: AIX 7") && at("\nlpar07: AIX 7") < at("\noradb01: Linux"));
    assert!(at("(unverified)") > 0);
    // A file of its own, besides the report.
    let file = format!("{all}/table.csv");
    let output = run(&[&all, "--csv", &file]);
    assert_eq!((code(&output), fs::read_to_string(&file).unwrap()), (0, table));
}

#[test]
fn standard_input_and_a_given_system() {
    let given = |args: &[&str], input: &[u8]| {
        let mut child = audit(args).args(PATH).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(input).unwrap();
        child.wait_with_output().unwrap()
    };
    let input = fs::read(paste("aix-lsattr.txt")).unwrap();
    let document: Value = serde_json::from_str(&text(&given(&["-", "--json"], &input))).unwrap();
    let host = &document["hosts"][0];
    assert_eq!((&host["name"], &host["os"], &host["guessed"]), (&"stdin".into(), &"aix".into(), &true.into()));
    let document: Value = serde_json::from_str(&text(&given(&["-", "--json", "--os", "aix"], &input))).unwrap();
    assert_eq!(document["hosts"][0]["guessed"], Value::Bool(false));
    // Another system understands nothing of it.
    assert_eq!(code(&given(&["-", "--os", "windows"], &input)), 1);
}

/// Lines without end, and lines without number: memory stays that of a small paste.
#[test]
fn a_large_paste_takes_little_memory() {
    let mut child = audit(&["-", "--json"])
        .args(PATH)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(&b"x".repeat(32 << 20)).unwrap();
    let interface = |number: usize| format!("\nen{number}: flags=1e084863,480<UP>\n\ttcp_sendspace 4096\n");
    (0..5_000).for_each(|number| input.write_all(interface(number).as_bytes()).unwrap());
    input.write_all(&b"tcp_sendspace = 262144\r\n".repeat(20_000)).unwrap();
    // The pipe holds 64 KiB: the rest has been read.
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let kilobytes: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
    drop(input);
    let output = child.wait_with_output().unwrap();
    assert_eq!(code(&output), 0, "{}", error(&output));
    assert!(kilobytes < 30 << 10, "{kilobytes} kB");
}

/// What lifts the first finding of a measured path stands first in each command that takes it.
#[test]
fn every_command_begins_with_what_lifts_the_first_finding() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../longhaul-doctor/tests/page/path.json");
    let path = path.to_str().unwrap();
    let (_pasted, pasted) =
        folder(&[("host.txt", b"net.ipv4.tcp_wmem = 4096 16384 65536\nnet.ipv4.tcp_rmem = 4096 131072 131072\n")]);
    let said = |words: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_longhaul"));
        let output = command.args(words).args(["--from", path]).stdin(Stdio::null()).output().unwrap();
        assert_eq!(code(&output), 0, "{words:?}: {}", error(&output));
        text(&output).replace('#', " ").split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let first = "First: Raise the receive buffer of the far host, 10.20.20.10. A relay at each site lifts it \
        without a change on the hosts.";
    for words in [&["advise"][..], &["audit", &pasted], &["tune", "--dry-run"], &["lab", "init"]] {
        assert!(said(words).contains(first), "{words:?}: {}", said(words));
    }
    for words in [&["advise", "--json"][..], &["audit", "--json", &pasted]] {
        let document: Value = serde_json::from_str(&said(words)).unwrap();
        assert_eq!([&document["first"]["kind"], &document["first"]["host"]], ["receiver-window", "far"]);
    }
    // The send buffer of this paste costs more, but it was not the limit that was measured.
    let document: Value = serde_json::from_str(&said(&["audit", "--json", &pasted])).unwrap();
    assert_eq!(document["hosts"][0]["findings"][0]["setting"], "net.ipv4.tcp_rmem");
}
