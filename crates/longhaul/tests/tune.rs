//! `longhaul tune` as a user runs it: answers, exit codes, and kernels that lack something.
//!
//! Each test has a network namespace of its own, with /etc/sysctl.d and /var/lib of its own. Needs root, of the system or of a user
//! namespace. A test that cannot run here prints SKIP and the reason; it fails if the environment variable CI is set.

#![allow(clippy::unwrap_used)] // clippy.toml allows it in tests, but not in what tests call

use longhaul_sys::netns::{self, NetNs};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

/// Runs `test` in namespaces of its own, or prints SKIP.
fn in_namespace(test: impl FnOnce() + Send) {
    let why = match netns::is_root() {
        false => "needs root, to make namespaces",
        true if !Path::new("/etc/sysctl.d").is_dir() => "this machine has no /etc/sysctl.d",
        true => {
            let in_thread = || {
                NetNs::create().unwrap();
                netns::own_mounts().unwrap();
                // None of the files that set sysctls on this machine counts (sysctl.d(5)).
                ["/etc/sysctl.d", "/run/sysctl.d", "/usr/local/lib/sysctl.d", "/usr/lib/sysctl.d", "/var/lib"]
                    .into_iter()
                    .filter(|path| Path::new(path).is_dir())
                    .for_each(|path| netns::mount_tmpfs(path, "mode=755").unwrap());
                if Path::new("/etc/sysctl.conf").exists() {
                    let bind = ["--bind", "/dev/null", "/etc/sysctl.conf"];
                    assert!(Command::new("mount").args(bind).status().unwrap().success());
                }
                fs::write(WMEM, OLD).unwrap();
                test();
            };
            match std::thread::scope(|scope| scope.spawn(in_thread).join()) {
                Ok(()) => return,
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
    };
    skip(why);
}

fn skip(why: &str) {
    assert!(std::env::var_os("CI").is_none(), "SKIP in CI: {why}");
    println!("SKIP: {why}");
}

fn tune(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_longhaul"));
    command.arg("tune").args(args).stdin(Stdio::null());
    command
}

/// Returns the exit code, and both outputs, with single blanks in place of columns.
fn run(command: &mut Command) -> (Option<i32>, String) {
    let Output { status, stdout, stderr } = command.output().unwrap();
    (status.code(), single_blanks(&String::from_utf8([stdout, stderr].concat()).unwrap()))
}

fn single_blanks(text: &str) -> String {
    text.split(' ').filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
}

/// Returns tcp_wmem, with blanks.
fn wmem() -> String {
    fs::read_to_string(WMEM).unwrap().split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn without_a_terminal_only_yes_changes_anything() {
    in_namespace(|| {
        let mut pipe = tune(PATH);
        let mut child = pipe.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        // It may have ended already.
        drop(child.stdin.take().unwrap().write_all(b"y\n"));
        let output = child.wait_with_output().unwrap();
        let said = single_blanks(&String::from_utf8(output.stdout).unwrap());
        assert!(output.status.success() && said.ends_with(DRY_RUN), "{said}");
        let change = " net.ipv4.tcp_wmem 4096 16384 4000000 -> 4096 16384 15750000\n";
        assert!(said.contains(change), "{said}");
        assert_eq!((wmem().as_str(), Path::new("/var/lib/longhaul").exists()), (OLD, false));

        let (code, said) = run(tune(PATH).arg("--yes"));
        assert!(
            code == Some(0) && said.contains(change) && said.ends_with("sudo longhaul tune --rollback\n"),
            "{said}"
        );
        assert_eq!(wmem(), NEW);
        let (code, said) = run(&mut tune(&["--rollback", "--dry-run"]));
        assert!(code == Some(0) && said.ends_with("Dry run: nothing was restored.\n"), "{said}");
        assert_eq!(wmem(), NEW);
        let (code, said) = run(&mut tune(&["--rollback"]));
        assert!(code == Some(0) && said.contains(&format!("net.ipv4.tcp_wmem {OLD}\n")), "{said}");
        assert_eq!(wmem(), OLD);
        assert!(fs::read_dir("/etc/sysctl.d").unwrap().chain(fs::read_dir("/var/lib").unwrap()).next().is_none());
        let nothing = "error: there is no record of a tune on this host, so there is nothing to restore\n";
        for args in [&["--rollback"][..], &["--rollback", "--dry-run"]] {
            assert_eq!(run(&mut tune(args)), (Some(1), nothing.into()), "{args:?}");
        }
    });
}

#[test]
fn on_a_terminal_it_asks() {
    in_namespace(|| {
        for (answer, code, value) in [("n\n", 1, OLD), ("\n", 1, OLD), ("yes\n", 0, NEW)] {
            let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
            grantpt(&master).unwrap();
            unlockpt(&master).unwrap();
            let name = ptsname(&master, Vec::new()).unwrap().into_string().unwrap();
            let terminal = File::options().read(true).write(true).open(name).unwrap();
            // The terminal keeps the line until it is read.
            File::from(master.try_clone().unwrap()).write_all(answer.as_bytes()).unwrap();
            let (got, said) = run(tune(PATH).stdin(terminal));
            assert_eq!((got, wmem().as_str()), (Some(code), value), "{answer:?}: {said}");
            assert!(said.contains("Make these changes? [y/N]"), "{said}");
        }
    });
}

#[test]
fn a_foreign_value_is_named_with_exit_code_1() {
    in_namespace(|| {
        assert_eq!(run(tune(PATH).arg("-y")).0, Some(0));
        fs::write(WMEM, "1000 2000 3000").unwrap();
        let (code, said) = run(&mut tune(&["--rollback"]));
        assert!(code == Some(1) && said.contains("error: net.ipv4.tcp_wmem is 1000 2000 3000, and stays: "), "{said}");
        assert_eq!(wmem(), "1000 2000 3000");
    });
}

#[test]
fn where_no_sysctl_can_be_set_nothing_is_left_to_do() {
    in_namespace(|| {
        // What containers have.
        let read_only = Command::new("mount").args(["-o", "bind,ro", "/proc/sys", "/proc/sys"]).status().unwrap();
        assert!(read_only.success());
        let (code, said) = run(tune(PATH).arg("--yes"));
        assert!(code == Some(0) && said.ends_with("Nothing to change.\n"), "{said}");
        assert!(said.contains(" net.ipv4.tcp_wmem read-only in this network namespace\n"), "{said}");
        assert!(said.contains(" net.core.default_qdisc missing in this kernel or network namespace\n"), "{said}");
    });
}

/// Puts files in place of the sysctls of a host whose kernel has BBR and fq as modules, and a modprobe(8) that runs `script`.
/// Returns the folder of that modprobe.
fn modules(script: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let modprobe = folder.path().join("modprobe");
    fs::write(&modprobe, format!("#!/bin/sh\ncase \"$*\" in\n{script}\n*) exit 1;;\nesac\n")).unwrap();
    fs::set_permissions(&modprobe, fs::Permissions::from_mode(0o755)).unwrap();
    for (part, sysctls) in [
        (
            "ipv4",
            &[
                ("tcp_congestion_control", "cubic"),
                ("tcp_available_congestion_control", "reno cubic"),
                ("tcp_wmem", OLD),
            ][..],
        ),
        ("core", &[("default_qdisc", "pfifo_fast")]),
    ] {
        netns::mount_tmpfs(&format!("/proc/sys/net/{part}"), "size=1m").unwrap();
        sysctls.iter().for_each(|(name, value)| fs::write(format!("/proc/sys/net/{part}/{name}"), value).unwrap());
    }
    folder
}

fn read(name: &str) -> String {
    fs::read_to_string(format!("/proc/sys/net/{name}")).unwrap()
}

#[test]
fn modules_are_loaded_first_and_stay() {
    in_namespace(|| {
        let loading = "tcp_bbr) echo reno cubic bbr >/proc/sys/net/ipv4/tcp_available_congestion_control;;";
        let known = "'--dry-run --verbose tcp_bbr') echo insmod tcp_bbr.ko;;\n'--dry-run --verbose sch_fq') echo builtin sch_fq;;";
        let folder = modules(&format!("{known}\n{loading}"));
        let (code, said) = run(tune(PATH).arg("--yes").env("PATH", with(folder.path())));
        assert!(code == Some(0) && said.contains("\n module tcp_bbr load it\n"), "{said}");
        assert!(!said.contains("sch_fq"), "{said}");
        let values = || (read("ipv4/tcp_congestion_control"), read("core/default_qdisc"));
        assert_eq!(values(), ("bbr".into(), "fq".into()));
        let (code, said) = run(&mut tune(&["--rollback"]));
        assert!(code == Some(0) && said.contains("Module tcp_bbr stays loaded."), "{said}");
        assert_eq!(values(), ("cubic".into(), "pfifo_fast".into()));
    });
}

#[test]
fn a_module_that_does_not_load_undoes_all_and_a_missing_one_is_left_out() {
    in_namespace(|| {
        let folder = modules(
            "'--dry-run --verbose tcp_bbr') echo insmod tcp_bbr.ko;;\ntcp_bbr) echo Key was rejected >&2; exit 1;;",
        );
        let (code, said) = run(tune(PATH).arg("--yes").env("PATH", with(folder.path())));
        assert_eq!(code, Some(1));
        assert!(
            said.ends_with("error: module tcp_bbr: modprobe: Key was rejected; every value is as it was before\n"),
            "{said}"
        );
        assert!(said.contains(" net.core.default_qdisc this kernel has no fq\n"), "{said}");
        assert_eq!(wmem(), OLD);
        let first = "'--dry-run --verbose sch_fq') echo insmod sch_fq.ko;;\nsch_fq) ;;";
        let second = "'--dry-run --verbose tcp_bbr') echo insmod tcp_bbr.ko;;";
        let one_of_two = modules(&format!("{first}\n{second}"));
        let (code, said) = run(tune(PATH).arg("--yes").env("PATH", with(one_of_two.path())));
        let left = "every value is as it was before; module sch_fq stays loaded\n";
        assert!(code == Some(1) && said.ends_with(left), "{said}");
        let none = modules("");
        let (code, said) = run(tune(PATH).arg("--yes").env("PATH", with(none.path())));
        assert!(
            code == Some(0) && said.contains(" net.ipv4.tcp_congestion_control this kernel has no bbr\n"),
            "{said}"
        );
        assert_eq!((read("ipv4/tcp_congestion_control"), wmem()), ("cubic".into(), NEW.into()));
    });
}

#[test]
fn without_root_only_a_dry_run_works() {
    in_namespace(|| {
        let as_nobody = ["--reuid=65534", "--regid=65534", "--clear-groups"];
        if !Command::new("setpriv").args(as_nobody).arg("true").status().is_ok_and(|status| status.success()) {
            return skip("setpriv(1) cannot become another user here");
        }
        // The folder of the build may be closed to that user.
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let copy = folder.path().join("longhaul");
        // By another process: see cli.rs.
        assert!(Command::new("cp").arg(env!("CARGO_BIN_EXE_longhaul")).arg(&copy).status().unwrap().success());
        let nobody = |args: &[&str]| {
            let mut command = Command::new("setpriv");
            command.args(as_nobody).arg(&copy).arg("tune").args(args);
            run(command.stdin(Stdio::null()))
        };
        let (code, said) = nobody(PATH);
        assert!(code == Some(0) && said.contains(NEW) && said.ends_with(DRY_RUN), "{said}");
        let needs_root = |command: &str| {
            format!(
                "error: `longhaul {command}` changes this host and needs root: write sudo before it, or add --dry-run\n"
            )
        };
        assert_eq!(nobody(&[PATH, &["--yes"]].concat()), (Some(1), needs_root("tune")));
        assert_eq!(nobody(&["--rollback"]), (Some(1), needs_root("tune --rollback")));
    });
}

/// A change that a killed tune has begun must not be made after the rollback.
#[test]
fn a_killed_tune_takes_the_program_that_it_runs_with_it() {
    in_namespace(|| {
        let folder = tempfile::tempdir().unwrap();
        let (ip, number) = (folder.path().join("ip"), folder.path().join("number"));
        let script = format!(
            "#!/bin/sh\ncase \"$*\" in\n*show*) echo 10.20.0.0/16 dev lo;;\n*) echo $$ >{0}.new; mv {0}.new {0}; exec sleep 600;;\nesac\n",
            number.display()
        );
        fs::write(&ip, script).unwrap();
        fs::set_permissions(&ip, fs::Permissions::from_mode(0o755)).unwrap();
        let flags = ["--mtu", "1400", "--route", "10.20.0.0/16", "--yes"];
        let mut killed = tune(PATH).args(flags).env("PATH", with(folder.path())).stdout(Stdio::null()).spawn().unwrap();
        let number = wait_for("the number of the program that tune runs", || {
            assert_eq!(killed.try_wait().unwrap(), None);
            fs::read_to_string(&number).ok()
        });
        killed.kill().unwrap();
        killed.wait().unwrap();
        // Its entry goes when somebody has waited for it: here nobody may, and it is a zombie.
        let state = format!("/proc/{}/stat", number.trim());
        wait_for("the end of that program", || {
            fs::read_to_string(&state).map_or(true, |text| text.contains(") Z ")).then_some(())
        });
        let (code, said) = run(tune(&["--rollback"]).env("PATH", with(folder.path())));
        assert_eq!(code, Some(0), "{said}");
    });
}

#[test]
fn wrong_usage_is_exit_code_2() {
    for (args, why) in [
        (&[][..], "--rtt and --rate are missing: add --rtt 63ms"),
        (&["--rtt", "63", "--rate", "1Gbit/s"], "write for example 63ms"),
        (&["--rollback", "--rtt", "63ms"], "cannot be used with"),
        (&["--dry-run", "--yes"], "cannot be used with"),
        (&["--rtt", "63ms", "--rate", "1Gbit/s", "--route", "far"], "it is no network"),
    ] {
        let (code, said) = run(&mut tune(args));
        assert!(code == Some(2) && said.contains(why), "{args:?}: {code:?} {said}");
    }
}

/// Looks every 10 ms until `look` has found it, for a minute at most.
fn wait_for<T>(what: &str, look: impl FnMut() -> Option<T>) -> T {
    let pause = || std::thread::sleep(Duration::from_millis(10));
    let mut looks = std::iter::repeat_with(look)
        .inspect(|found| {
            if found.is_none() {
                pause()
            }
        })
        .take(6_000);
    looks.find_map(|found| found).unwrap_or_else(|| panic!("timeout: {what}"))
}

/// Returns PATH with `folder` in front.
fn with(folder: &Path) -> String {
    format!("{}:{}", folder.display(), std::env::var("PATH").unwrap_or_default())
}

const PATH: &[&str] = &["--rtt", "63ms", "--rate", "1Gbit/s"];
const WMEM: &str = "/proc/sys/net/ipv4/tcp_wmem";
const OLD: &str = "4096 16384 4000000";
const NEW: &str = "4096 16384 15750000";
const DRY_RUN: &str = "Dry run: nothing was changed. As root with --yes, or on a terminal, the changes are made.\n";
