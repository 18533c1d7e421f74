//! A corpus of good and bad scenarios. The messages about each file are checked-in text beside it.
//! `UPDATE=1 cargo test -p longhaul --test scenario` writes the current messages; read the diff.

use longhaul_config::Refused;
use longhaul_lab as lab;
use proptest::prelude::*;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::{env, fs};

/// Returns the files of tests/scenario/`folder`.
fn corpus(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenario").join(folder);
    let files = fs::read_dir(&folder).expect("the corpus").map(|entry| entry.expect("an entry").path());
    let mut files: Vec<_> = files.filter(|path| path.extension().is_some_and(|ext| ext == "toml")).collect();
    files.sort();
    files
}

fn parsed(path: &Path) -> Result<String, Refused> {
    let name = path.file_name().expect("a file").to_string_lossy();
    lab::parse(&name, &fs::read_to_string(path).expect("a readable file"))
}

/// Compares `got` with the text beside `path`; adds a difference to `wrong`. With `UPDATE` in the environment, writes `got`
/// there instead.
fn compare(path: &Path, got: &str, wrong: &mut Vec<String>) {
    let beside = path.with_extension("txt");
    if env::var_os("UPDATE").is_some() {
        return fs::write(&beside, got).expect("the text beside the file");
    }
    let expected = fs::read_to_string(&beside).unwrap_or_default();
    if expected != got {
        wrong.push(format!("{}\nexpected:\n{expected}\ngot:\n{got}", path.display()));
    }
}

#[test]
fn good_scenarios_have_the_checked_in_summary() {
    let mut wrong = Vec::new();
    for path in corpus("good") {
        match parsed(&path) {
            Ok(summary) => compare(&path, &summary, &mut wrong),
            Err(refused) => wrong.push(format!("{}: refused:\n{refused}", path.display())),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

#[test]
fn bad_scenarios_are_refused_with_the_checked_in_messages() {
    let (mut wrong, corpus) = (Vec::new(), corpus("bad"));
    assert!(corpus.len() >= 50, "only {} bad files", corpus.len());
    for path in corpus {
        match parsed(&path) {
            Ok(_) => wrong.push(format!("{}: accepted", path.display())),
            Err(refused) => compare(&path, &format!("{refused}\n"), &mut wrong),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

fn longhaul(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_longhaul")).arg("lab").args(arguments).output().expect("longhaul starts")
}

#[test]
fn bad_files_and_flags_are_refused_before_a_lab_is_built() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = |name: &str, bytes: &[u8]| {
        let path = directory.path().join(name);
        fs::write(&path, bytes).expect("a file");
        path.to_string_lossy().into_owned()
    };
    let bad = corpus("bad").iter().find(|path| path.ends_with("unknown-carrier.toml")).cloned().expect("it is there");
    let bad = bad.to_string_lossy().into_owned();
    let good = corpus("good").iter().find(|path| path.ends_with("short.toml")).cloned().expect("it is there");
    let good = good.to_string_lossy().into_owned();
    let latin = file("latin.toml", b"about = \"\xe4\"");
    let nowhere = directory.path().join("nowhere.toml").to_string_lossy().into_owned();
    let folder = directory.path().to_string_lossy().into_owned();
    for (name, expected) in [
        ("mitra", "error: there is no scenario \"mitra\"; did you mean mitre?"),
        ("nothing-like-it", "`longhaul lab list` shows them"),
        (&nowhere, "error: No such file or directory (os error 2); `longhaul lab list` shows the built-in scenarios"),
        (&folder, "Is a directory"),
        (&latin, "error: line 1 is not UTF-8; save the file as UTF-8"),
        ("/dev/zero", "error: it is larger than 1MiB; is this the right file?"),
        (
            &bad,
            "unknown-carrier.toml:6:23: error: carriers = \"longhall\": there is no such carrier; did you mean longhaul?",
        ),
    ] {
        for command in ["run", "up"] {
            let output = longhaul(&[command, name]);
            let stderr = String::from_utf8_lossy(&output.stderr);
            assert_eq!((output.status.code(), &*output.stdout), (Some(2), &b""[..]), "{command} {name}: {stderr}");
            assert!(stderr.contains(expected), "{command} {name}: {stderr}");
        }
    }
    for (arguments, expected) in [
        (
            &["run", &good, "--carrier", "socat"][..],
            "error: no run of short has the carrier socat; they have direct, longhaul",
        ),
        (&["run", &good, "--carrier", "sokat"], "did you mean socat?"),
        (&["up", &good, "--run", "row"], "error: short: there is no run \"row\"; did you mean raw?"),
        (&["up", &good, "--rtt", "63"], "write for example 63ms"),
        (&["demo", "--rtt", "20s"], "write for example 63ms"),
        (&["demo", "--rate", "1Gb"], "write for example 1Gbit/s"),
        (&["demo", "--loss", "0.1"], "not a percentage from 0% to 50%, such as 0.1%"),
        (&["run", &good, "--start-at", "row"], "error: --start-at: there is no run \"row\"; did you mean raw?"),
        (&["show", "mitra"], "error: there is no scenario \"mitra\"; did you mean mitre?"),
        (&["init", "--loss", "1"], "not a percentage from 0% to 50%, such as 0.1%"),
        (&["init", "--loss", "60%"], "nothing gets through above 50%"),
        (&["init", "--window", "0B"], "a size must be above 0"),
        (&["init", "--window", "5"], "it has no unit; write for example 256KiB"),
        (&["init", "--window", "65535"], "it has no unit; write for example 256KiB"),
        (&["init", "--window", "5B"], "write 4KiB or more"),
    ] {
        let output = longhaul(arguments);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {stderr}");
        assert!(stderr.contains(expected), "{arguments:?}: {stderr}");
    }
}

#[test]
fn show_prints_the_file_of_a_built_in_scenario() {
    let file = fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../lab/ornl.toml")).expect("the file");
    assert_eq!(longhaul(&["show", "ornl"]).stdout, file);
}

/// Runs `script` in its own mount namespace, with `longhaul` as its first argument and a scenario as its second. Returns
/// `None` if there can be no such namespace.
fn apart(script: &str) -> Option<Output> {
    let good = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenario/good/short.toml");
    let script = format!("set -e; mount -t tmpfs none /mnt; {script}");
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private", "sh", "-c", &script, "sh", env!("CARGO_BIN_EXE_longhaul")]);
    let output = command.arg(good).output().expect("unshare starts");
    let stderr = String::from_utf8_lossy(&output.stderr);
    let why = stderr.lines().find(|line| line.starts_with("unshare:") || line.starts_with("mount:"));
    let Some(why) = why else { return Some(output) };
    assert!(env::var_os("CI").is_none(), "cannot run in CI: {why}");
    println!("SKIP: {why}");
    None
}

#[test]
fn the_error_about_a_missing_system_feature_has_the_remedy() {
    let user = "cp \"$1\" /mnt/longhaul; cp \"$2\" /mnt/a.toml; cd /; \
                exec setpriv --reuid=65533 --regid=65533 --clear-groups";
    for (script, expected) in [
        ("mount -t tmpfs none /dev/net; exec \"$1\" lab run \"$2\"".to_string(), "open(/dev/net/tun): ENOENT"),
        (
            "exec setpriv --bounding-set -sys_admin --inh-caps -sys_admin \"$1\" lab run \"$2\"".to_string(),
            "CLONE_NEWNS): EPERM: Operation not permitted (needs CAP_SYS_ADMIN: run as root or in a user namespace)",
        ),
        (
            // A user namespace with a limit of 0 user namespaces behaves like a system where ordinary users may not create
            // any.
            format!(
                "{user} unshare --user --map-user=7 --map-group=7 --keep-caps sh -c 'echo 0 >/proc/sys/user/max_user_namespaces; \
                 exec setpriv --ambient-caps -all --inh-caps -all /mnt/longhaul lab run /mnt/a.toml'"
            ),
            "the lab cannot be built: unshare(CLONE_NEWUSER): ENOSPC: No space left on device (the system does not let ordinary \
             users make user namespaces: run as root, or",
        ),
    ] {
        let Some(output) = apart(&script) else { continue };
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{script}: {stderr}");
        assert!(stderr.contains(expected), "{script}: {stderr}");
    }
}

#[test]
fn a_run_is_skipped_if_its_program_is_not_installed() {
    // A PATH with nothing but programs that every system has.
    let script = "mkdir /mnt/bin; for p in cat ip ss id sh sleep; do ln -s \"$(command -v $p)\" /mnt/bin/; done; \
                  sed 's/\"longhaul\", \"direct\"/\"socat\"/' \"$2\" >/mnt/a.toml; \
                  PATH=/mnt/bin exec \"$1\" lab run /mnt/a.toml --json";
    let Some(output) = apart(script) else { return };
    let stderr = String::from_utf8_lossy(&output.stderr);
    if stderr.contains("cannot be built") {
        assert!(env::var_os("CI").is_none(), "cannot run in CI: {stderr}");
        return println!("SKIP: {stderr}");
    }
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("one JSON document");
    let run = &json["runs"][0];
    assert_eq!((run["verdict"].as_str(), run["carrier"].as_str()), (Some("skip"), Some("socat")), "{json}");
    assert_eq!(run["why"], "/mnt/a.toml:8: socat is not installed; it comes with socat");
    assert_eq!(output.status.code(), Some(1), "exit code although nothing was run");
}

proptest! {
    #[test]
    fn no_text_panics(text in "\\PC*") {
        let _ = lab::parse("a", &text);
    }

    #[test]
    fn no_truncated_or_altered_scenario_panics(file in 0usize..1000, cut in 0usize..2000, put in ".{0,3}") {
        let all = [corpus("good"), corpus("bad")].concat();
        let text = fs::read_to_string(&all[file % all.len()]).expect("a readable file");
        let at = text.char_indices().map(|(at, _)| at).nth(cut).unwrap_or(text.len());
        let _ = lab::parse("a", &text[..at]);
        let _ = lab::parse("a", &format!("{}{put}{}", &text[..at], &text[at..]));
    }
}
