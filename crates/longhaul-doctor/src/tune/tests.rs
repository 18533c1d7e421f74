//! tune and its rollback on the real kernel, in network namespaces, with /etc/sysctl.d and /var/lib of their own.
//!
//! Needs root, of the system or of a user namespace, and ip(8). A test that cannot run here prints SKIP and the reason; it fails
//! if the environment variable CI is set.

use super::place::{FILE, Host, ValuePlace};
use super::record::{FOLDER, RECORD, Record};
use super::*;
use longhaul_sys::netns::{self, NetNs};
use longhaul_units::Rate;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs;
use std::io::BufRead;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Runs `test` in a namespace with values that every path wants to change, or prints SKIP.
fn in_namespace(test: impl FnOnce() + Send) {
    let missing = [
        (!netns::is_root(), "needs root, to make namespaces"),
        (!std::path::Path::new("/etc/sysctl.d").is_dir(), "this machine has no /etc/sysctl.d"),
        (Command::new("ip").arg("-V").output().is_err(), "needs ip(8)"),
    ];
    if let Some((_, why)) = missing.into_iter().find(|(is_missing, _)| *is_missing) {
        assert!(std::env::var_os("CI").is_none(), "SKIP in CI: {why}");
        return println!("SKIP: {why}");
    }
    let in_thread = || {
        NetNs::create().unwrap();
        netns::own_mounts().unwrap();
        hide_files_of_this_machine();
        prepare();
        test();
    };
    if let Err(panic) = std::thread::scope(|scope| scope.spawn(in_thread).join()) {
        std::panic::resume_unwind(panic);
    }
}

/// Puts empty folders in place of those of the record and of the sysctls. /etc/sysctl.conf is a file, and gets an empty one.
fn hide_files_of_this_machine() {
    for folder in files::FOLDERS.into_iter().chain(["/var/lib"]) {
        if std::path::Path::new(folder).is_dir() {
            netns::mount_tmpfs(folder, "mode=755").unwrap();
        }
    }
    if std::path::Path::new(files::LATE).exists() {
        assert!(Command::new("mount").args(["--bind", "/dev/null", files::LATE]).status().unwrap().success());
    }
}

/// Gives the network namespace old values and a route.
fn prepare() {
    for (name, value) in [
        ("tcp_rmem", "8192 65536 7000000"),
        ("tcp_wmem", "4096 16384 4000000"),
        ("tcp_congestion_control", "reno"),
        ("tcp_sack", "0"),
        ("tcp_slow_start_after_idle", "1"),
        ("tcp_mtu_probing", "0"),
    ] {
        set(&format!("net.ipv4.{name}"), value);
    }
    assert!(Command::new("ip").args(["link", "set", "lo", "up"]).status().unwrap().success());
    assert!(
        Command::new("ip")
            .args(["route", "add", NETWORK, "dev", "lo", "window", "65536", "rto_min", "300ms"])
            .status()
            .unwrap()
            .success()
    );
}

fn set(name: &str, value: &str) {
    fs::write(format!("/proc/sys/{}", name.replace('.', "/")), value).unwrap_or_else(|err| panic!("{name}: {err}"));
}

fn value(name: &str) -> String {
    ValuePlace::Sysctl(name.into()).value().unwrap().unwrap()
}

/// Returns a path of `gbits` Gbit/s that takes packets of 1400 bytes.
fn path(gbits: u64) -> Path {
    Path { mtu: 1400, ..Path::new(Duration::from_millis(63), Rate(gbits * 1_000_000_000)) }
}

fn tuned(host: &Host, gbits: u64) -> Result<bool, String> {
    tune(host, &path(gbits), Some(NETWORK), |_| true)
}

/// Everything that tune may change, and everything near it: all readable sysctls of the network namespace, the routes, the files.
#[derive(Debug, PartialEq)]
struct Snapshot(BTreeMap<String, String>);

impl Snapshot {
    fn take() -> Snapshot {
        let mut found = BTreeMap::new();
        for folder in ["/proc/sys/net", "/etc/sysctl.d", "/var/lib"] {
            walk(std::path::Path::new(folder), &mut found);
        }
        let routes = Command::new("ip").args(["route", "show", "table", "all"]).output().unwrap();
        found.insert("ip route".into(), String::from_utf8(routes.stdout).unwrap());
        assert!(found.len() > 100, "{} sysctls", found.len());
        Snapshot(found)
    }

    fn assert_same(&self, context: &str) {
        let now = Snapshot::take();
        let names: Vec<&String> = self.0.keys().chain(now.0.keys()).collect();
        let changed = names.into_iter().filter(|name| self.0.get(*name) != now.0.get(*name));
        let changed: Vec<_> = changed.map(|name| (name, self.0.get(name), now.0.get(name))).collect();
        assert!(changed.is_empty(), "{context}: {changed:#?}");
    }
}

fn walk(path: &std::path::Path, found: &mut BTreeMap<String, String>) {
    let name = path.display().to_string();
    let Ok(entries) = fs::read_dir(path) else {
        // Some sysctls can only be written.
        found.insert(name, fs::read_to_string(path).unwrap_or_default());
        return;
    };
    entries.for_each(|entry| walk(&entry.unwrap().path(), found));
}

/// Calls `job` with a host that does nothing from step `number` on, as if the process had been killed before it. Returns whether
/// the job did all its steps.
fn stopped_before<T>(number: u32, job: impl FnOnce(&Host) -> T) -> bool {
    let steps = Cell::new(0);
    let gate = |_: &str| {
        steps.set(steps.get() + 1);
        if steps.get() < number { Ok(()) } else { Err(io::Error::other("the process is gone")) }
    };
    job(&Host::new(&gate));
    steps.get() < number
}

/// Rolls back on a whole host. A tune that was stopped before its record was on disk has changed nothing.
fn restored(context: &str) {
    match roll_back(&host()) {
        Ok(ended) => assert_eq!(text::left(&ended), [""; 0], "{context}"),
        Err(why) => assert_eq!(why, NO_RECORD, "{context}"),
    }
}

#[test]
fn tune_changes_what_the_path_wants_and_rollback_restores_it() {
    in_namespace(|| {
        let before = Snapshot::take();
        assert_eq!(tuned(&host(), 1), Ok(true));
        assert_eq!(value("net.ipv4.tcp_rmem"), "8192 131072 31500000");
        assert_eq!(value("net.ipv4.tcp_wmem"), "4096 16384 15750000");
        assert_eq!(value("net.ipv4.tcp_sack"), "1");
        let route = ValuePlace::Route(NETWORK.into()).value().unwrap().unwrap();
        assert!(route.contains("mtu lock 1400") && route.contains("window 65536"), "{route}");
        let file = fs::read_to_string(FILE).unwrap();
        assert!(file.contains("\nnet.ipv4.tcp_rmem = 8192 131072 31500000\n"), "{file}");
        let all_in_file = |name: &str| file.lines().any(|line| line.split(" = ").next() == Some(name));
        let record = Record::read().unwrap().unwrap();
        for change in &record.changes {
            assert!(
                !matches!(&change.place, ValuePlace::Sysctl(name) if !all_in_file(name)),
                "{change:?} is not in {file}"
            );
        }
        // The second time nothing is left to do.
        assert_eq!((tuned(&host(), 1), Record::read().unwrap()), (Ok(false), Some(record)));
        restored("once");
        before.assert_same("rolled back");
        assert!(!std::path::Path::new(FOLDER).exists());
        assert_eq!(roll_back(&host()).unwrap_err(), NO_RECORD);
    });
}

#[test]
fn a_second_tune_lowers_nothing_and_keeps_the_first_record() {
    in_namespace(|| {
        let before = Snapshot::take();
        assert_eq!((tuned(&host(), 1), tuned(&host(), 10)), (Ok(true), Ok(true)));
        assert_eq!(value("net.ipv4.tcp_wmem"), "4096 16384 157500000");
        assert!(fs::read_to_string(FILE).unwrap().contains("\nnet.ipv4.tcp_wmem = 4096 16384 157500000\n"));
        // A smaller path needs nothing more.
        let record = Record::read().unwrap();
        assert_eq!((tuned(&host(), 1), Record::read().unwrap()), (Ok(false), record));
        // A value of somebody else in between is raised, and the record has the value before both.
        set("net.ipv4.tcp_wmem", "4096 16384 5000000");
        assert_eq!(tuned(&host(), 10), Ok(true));
        restored("three times");
        before.assert_same("rolled back");
    });
}

#[test]
fn stopped_between_any_two_steps_everything_can_be_restored() {
    in_namespace(|| {
        let before = Snapshot::take();
        let undo = |context: &str| {
            restored(context);
            before.assert_same(context);
        };
        let steps = (1..).take_while(|step| {
            let is_done = stopped_before(*step, |host| tuned(host, 1));
            undo(&format!("tune, stopped before step {step}"));
            !is_done
        });
        let steps = steps.count() as u32;
        assert!(steps > 20, "{steps} steps");
        // The rollback is stopped as well. Every third step of tune, and without the route, because all pairs take a minute.
        for (tune_step, step) in (1..=steps).step_by(3).flat_map(|first| (1..=steps).map(move |second| (first, second)))
        {
            stopped_before(tune_step, |host| tune(host, &path(1), None, |_| true));
            stopped_before(step, roll_back);
            undo(&format!("tune, stopped before step {tune_step}, rollback before step {step}"));
        }
    });
}

#[test]
fn a_second_tune_and_its_rollback_can_be_stopped_too() {
    in_namespace(|| {
        let before = Snapshot::take();
        for step in 1.. {
            tuned(&host(), 1).unwrap();
            let is_done = stopped_before(step, |host| tuned(host, 10));
            stopped_before(step, roll_back);
            // And tune once more, instead of a rollback.
            stopped_before(step, |host| tuned(host, 100));
            restored("stopped three times");
            before.assert_same(&format!("stopped before step {step}"));
            if is_done {
                break;
            }
        }
    });
}

#[test]
fn a_reboot_in_between_changes_nothing() {
    in_namespace(|| {
        for step in 1.. {
            // A new network namespace has the values of a machine that has just started.
            let boot = || {
                NetNs::create().unwrap();
                let route = ["route", "add", NETWORK, "dev", "lo"];
                assert!(Command::new("ip").args(["link", "set", "lo", "up"]).status().unwrap().success());
                assert!(Command::new("ip").args(route).status().unwrap().success());
            };
            boot();
            let before = Snapshot::take();
            let is_done = stopped_before(step, |host| tuned(host, 10));
            boot();
            // systemd-sysctl(8) sets what the file says.
            let file = fs::read_to_string(FILE).unwrap_or_default();
            let lines = file.lines().filter_map(|line| line.split_once(" = "));
            lines.for_each(|(name, value)| set(name, value));
            restored(&format!("rebooted before step {step}"));
            before.assert_same(&format!("rebooted before step {step}"));
            if is_done {
                break;
            }
        }
    });
}

#[test]
fn a_step_that_fails_undoes_all_others() {
    in_namespace(|| {
        let (before, failing) = (Snapshot::take(), Cell::new(0));
        for first in [true, false] {
            if !first {
                tuned(&host(), 1).unwrap();
            }
            let earlier = Snapshot::take();
            for number in 1.. {
                failing.set(number);
                let gate = |_: &str| {
                    failing.set(failing.get() - 1);
                    if failing.get() == 0 { Err(io::Error::other("disk on fire")) } else { Ok(()) }
                };
                match tuned(&Host::new(&gate), 10) {
                    Err(why) => assert!(why.contains("disk on fire"), "{why}"),
                    Ok(true) => break,
                    Ok(false) => panic!("step {number}: nothing to change"),
                }
                earlier.assert_same(&format!("step {number} failed"));
            }
            restored("after a failure");
            before.assert_same("after a failure");
        }
    });
}

#[test]
fn a_value_that_does_not_hold_undoes_all_others() {
    in_namespace(|| {
        let (before, is_changed) = (Snapshot::take(), Cell::new(false));
        let gate = |step: &str| {
            if step == "read back net.ipv4.tcp_mtu_probing" && !is_changed.replace(true) {
                set("net.ipv4.tcp_mtu_probing", "2");
            }
            Ok(())
        };
        let why = tuned(&Host::new(&gate), 1).unwrap_err();
        assert_eq!(why, "net.ipv4.tcp_mtu_probing: read back, it is 2; every value is as it was before");
        before.assert_same("read back");
    });
}

#[test]
fn a_value_that_changes_during_the_question_stops_it() {
    in_namespace(|| {
        set("net.ipv4.tcp_wmem", "4096 16384 1000000000");
        let before = Snapshot::take();
        set("net.ipv4.tcp_wmem", "4096 16384 4000000");
        let is_agreed = |_: &Plan| {
            set("net.ipv4.tcp_wmem", "4096 16384 1000000000");
            true
        };
        let why = tune(&host(), &path(1), None, is_agreed).unwrap_err();
        assert_eq!(why, "net.ipv4.tcp_wmem has changed meanwhile; nothing was changed; run it again");
        before.assert_same("changed during the question");
    });
}

#[test]
fn a_foreign_value_stays_and_is_named() {
    in_namespace(|| {
        let before = Snapshot::take();
        tuned(&host(), 1).unwrap();
        set("net.ipv4.tcp_rmem", "1000 2000 3000");
        // A file that somebody has changed would set its values again at boot: nothing is restored before it is gone.
        let written = fs::read(FILE).unwrap();
        let edited = [&written[..], b"# L\xe4nge\n"].concat();
        fs::write(FILE, &edited).unwrap();
        let (tuned_wmem, record) = (value("net.ipv4.tcp_wmem"), Record::read().unwrap());
        let why = roll_back(&host()).unwrap_err();
        assert!(why.starts_with("nothing was restored: ") && why.contains(FILE), "{why}");
        assert_eq!((value("net.ipv4.tcp_wmem"), fs::read(FILE).unwrap()), (tuned_wmem, edited));
        assert_eq!(Record::read().unwrap(), record);
        fs::remove_file(FILE).unwrap();
        let left = text::left(&roll_back(&host()).unwrap());
        let of_value = "net.ipv4.tcp_rmem is 1000 2000 3000, and stays: the value of tune is 8192 131072 31500000, and before it was 8192 \
                        65536 7000000; ";
        assert!(left[0].starts_with(of_value) && left.len() == 1, "{left:#?}");
        assert_eq!(value("net.ipv4.tcp_rmem"), "1000 2000 3000");
        // The others are restored, and the record has the one that is left.
        assert_eq!(value("net.ipv4.tcp_wmem"), "4096 16384 4000000");
        assert_eq!(Record::read().unwrap().unwrap().changes.len(), 1);
        set("net.ipv4.tcp_rmem", "8192 131072 31500000");
        // Somebody puts the file back.
        fs::write(FILE, &written).unwrap();
        assert!(roll_back(&host()).unwrap_err().starts_with("nothing was restored: "));
        fs::remove_file(FILE).unwrap();
        restored("again");
        before.assert_same("restored");
    });
}

#[test]
fn what_the_namespace_does_not_own_is_left_out() {
    in_namespace(|| {
        let plan = Plan::new(&path(1), None, None).unwrap();
        let why = |name: &str| plan.left_out.iter().find(|(left, _)| left == name).map(|(_, why)| why.as_str());
        assert_eq!(why("net.core.default_qdisc"), Some("missing in this kernel or network namespace"));
        assert!(why("net.core.rmem_max").is_some_and(|why| why.ends_with(" in this network namespace")));
        assert_eq!(tuned(&host(), 1), Ok(true));
        assert!(!fs::read_to_string(FILE).unwrap().contains("net.core."));
        assert!(!fs::read_to_string(RECORD).unwrap().contains("net.core."));
        restored("without them");
    });
}

#[test]
fn the_sysctls_of_relays_are_changed_where_longhaul_is_installed() {
    in_namespace(|| {
        let shipped = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/90-longhaul.conf");
        fs::copy(shipped, "/etc/sysctl.d/90-longhaul.conf").unwrap();
        fs::write("/etc/sysctl.d/91-a.conf", "net.ipv4.tcp_wmem = 4096 16384 300000000\n").unwrap();
        fs::write("/etc/sysctl.d/99-mine.conf", "net.ipv4.tcp_sack = 0\n").unwrap();
        set("net.ipv4.ip_local_port_range", "1024 60999");
        set("net.core.somaxconn", "8192");
        let before = Snapshot::take();
        let plan = Plan::new(&path(1), None, None).unwrap();
        let late =
            "At boot, /etc/sysctl.d/99-mine.conf sets net.ipv4.tcp_sack, too. It is read later, so its value counts.";
        assert!(plan.notes.iter().any(|note| note == late), "{:?}", plan.notes);
        assert_eq!(tuned(&host(), 1), Ok(true));
        for (name, wanted) in [
            // As `longhaul advise` says for relays: twice the buffers of a host, and not below those of the file.
            ("net.ipv4.tcp_rmem", "8192 131072 536870912"),
            ("net.ipv4.tcp_wmem", "4096 16384 300000000"),
            ("net.ipv4.ip_local_port_range", "1024 65535"),
            ("net.ipv4.tcp_tw_reuse", "1"),
            ("net.core.somaxconn", "8192"),
            ("net.ipv4.tcp_max_syn_backlog", "4096"),
        ] {
            assert_eq!(value(name), wanted, "{name}");
        }
        restored("a relay");
        before.assert_same("a relay");
    });
}

#[test]
fn a_value_that_suffices_is_kept_where_a_file_lowers_it_at_boot() {
    in_namespace(|| {
        set("net.ipv4.tcp_rmem", "8192 131072 400000000");
        fs::write("/etc/sysctl.d/50-x.conf", "net.ipv4.tcp_rmem = 4096 131072 6291456\n").unwrap();
        let before = Snapshot::take();
        assert_eq!(tuned(&host(), 1), Ok(true));
        assert!(fs::read_to_string(FILE).unwrap().contains("net.ipv4.tcp_rmem = 8192 131072 400000000\n"));
        assert_eq!(tuned(&host(), 1), Ok(false), "a second time");
        // The earlier file is raised: tune's own, which is read later, must not lower that.
        fs::write("/etc/sysctl.d/50-x.conf", "net.ipv4.tcp_rmem = 4096 131072 900000000\n").unwrap();
        assert_eq!(tuned(&host(), 1), Ok(true), "its file");
        assert!(fs::read_to_string(FILE).unwrap().contains("net.ipv4.tcp_rmem = 8192 131072 900000000\n"));
        // After a boot that value is in force. It is tune's own.
        fs::write("/etc/sysctl.d/50-x.conf", "net.ipv4.tcp_rmem = 4096 131072 6291456\n").unwrap();
        set("net.ipv4.tcp_rmem", "8192 131072 900000000");
        restored("kept");
        before.assert_same("kept");
    });
}

/// A file that does not hold what tune wrote stays, and one with nothing left to set lowers no later value of somebody else.
#[test]
fn the_file_of_tune_sets_only_what_is_tune_s() {
    in_namespace(|| {
        // All but one suffice.
        for change in Plan::new(&path(1), None, None).unwrap().changes {
            match &change.place {
                ValuePlace::Sysctl(name) if name != "net.ipv4.tcp_rmem" => set(name, &change.value),
                _ => {}
            }
        }
        assert_eq!(tuned(&host(), 1), Ok(true));
        let written = fs::read_to_string(FILE).unwrap();
        assert_eq!(written.matches('=').count(), 1, "{written}");
        fs::write(FILE, format!("{written}net.ipv4.tcp_fin_timeout = 20\n")).unwrap();
        let why = tuned(&host(), 1).unwrap_err();
        assert!(why.starts_with(FILE) && why.contains("is not as tune wrote it"), "{why}");
        // As the message says.
        fs::remove_file(FILE).unwrap();
        assert_eq!(tuned(&host(), 1), Ok(true), "without the file");
        assert_eq!(fs::read_to_string(FILE).unwrap(), written);
        set("net.ipv4.tcp_rmem", "8192 131072 900000000");
        assert_eq!(tuned(&host(), 1), Ok(true), "its file");
        let text = fs::read_to_string(FILE).unwrap();
        assert!(!text.contains('='), "{text}");
        assert_eq!(tuned(&host(), 1), Ok(false), "a second time");
        roll_back(&host()).unwrap();
        assert!(!std::path::Path::new(FILE).exists());
        // Without a record, nobody knows whose a file is.
        fs::remove_file(RECORD).unwrap();
        fs::write(FILE, &written).unwrap();
        let why = tuned(&host(), 1000).unwrap_err();
        assert!(why.contains("is not as tune wrote it"), "{why}");
        assert_eq!(fs::read_to_string(FILE).unwrap(), written);
    });
}

/// tune neither lowers a better value, nor keeps one that somebody else has set.
#[test]
fn a_value_of_somebody_else_or_a_better_one_is_not_taken_over() {
    in_namespace(|| {
        fs::write("/etc/sysctl.d/50-x.conf", "net.ipv4.tcp_rmem = 4096 131072 6291456\n").unwrap();
        fs::write("/etc/sysctl.d/51-x.conf", "net.ipv4.tcp_adv_win_scale = 2\nnet.ipv4.tcp_timestamps = 2\n").unwrap();
        // The kernel refuses this one, so it sets nothing.
        fs::write("/etc/sysctl.d/52-x.conf", "net.ipv4.tcp_rmem = 4096 131072 2147483648\n").unwrap();
        fs::write("/etc/sysctl.d/99-x.conf", "net.ipv4.tcp_wmem = 4096 16384 4194304\n").unwrap();
        // Its value has to change, and at boot the better one of the file is to stay.
        set("net.ipv4.tcp_timestamps", "0");
        set("net.ipv4.tcp_adv_win_scale", "5");
        set("net.ipv4.tcp_wmem", "4096 16384 400000000");
        assert_eq!(tuned(&host(), 1), Ok(true));
        assert_eq!(value("net.ipv4.tcp_adv_win_scale"), "5");
        let text = fs::read_to_string(FILE).unwrap();
        assert!(!text.contains("tcp_adv_win_scale") && text.contains("tcp_timestamps = 2\n"), "{text}");
        let plan = Plan::new(&path(1), None, Record::read().unwrap().as_ref()).unwrap();
        let late =
            "net.ipv4.tcp_wmem: /etc/sysctl.d/99-x.conf sets it to 4096 16384 4194304 at boot, and is read last.";
        assert!(plan.notes.iter().any(|note| note == late), "{:?}", plan.notes);
        // An administrator raises it further. A second tune has nothing to do with that, and the rollback says so.
        set("net.ipv4.tcp_rmem", "8192 131072 700000000");
        let record = Record::read().unwrap();
        let plan = Plan::new(&path(1), None, record.as_ref()).unwrap();
        let since = "net.ipv4.tcp_rmem: somebody else has set it since, so tune does not keep it; /etc/sysctl.d/50-x.conf sets it to \
            4096 131072 6291456 at boot.";
        assert!(plan.notes.iter().any(|note| note == since), "{:?}", plan.notes);
        tuned(&host(), 1).unwrap();
        let left = text::left(&roll_back(&host()).unwrap());
        assert!(
            left.len() == 1 && left[0].starts_with("net.ipv4.tcp_rmem is 8192 131072 700000000, and stays"),
            "{left:?}"
        );
    });
}

#[test]
fn the_sysctls_of_linux_were_tried() {
    let untried = values::rows("sysctl").filter(|row| !row.verified).map(|row| row.name);
    assert_eq!(untried.collect::<Vec<_>>(), [""; 0], "text.rs does not say unverified");
}

#[test]
fn a_second_process_is_refused_while_the_first_works() {
    in_namespace(|| {
        let before = Snapshot::take();
        let mut first = child("tune", "net.ipv4.tcp_wmem", "wait");
        let mut lines = io::BufReader::new(first.stdout.take().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap().contains(WAITS)));
        let busy = "another longhaul changes the sysctls of this host now; wait until it has ended";
        assert_eq!(
            (tuned(&host(), 1).unwrap_err(), roll_back(&host()).unwrap_err()),
            (busy.to_string(), busy.to_string())
        );
        first.kill().unwrap();
        first.wait().unwrap();
        restored("the first was killed");
        before.assert_same("the first was killed");
    });
}

#[test]
fn a_process_that_is_killed_at_any_step_leaves_enough_to_restore() {
    in_namespace(|| {
        let before = Snapshot::take();
        for job in ["tune", "roll back"] {
            for step in 1.. {
                if job == "roll back" {
                    tuned(&host(), 1).unwrap();
                }
                let ended = child(job, &step.to_string(), "kill").wait().unwrap();
                let is_killed = std::os::unix::process::ExitStatusExt::signal(&ended) == Some(9);
                assert!(is_killed || ended.success(), "{job} before step {step}: {ended}");
                restored(&format!("{job}, killed before step {step}"));
                before.assert_same(&format!("{job}, killed before step {step}"));
                if !is_killed {
                    assert!(step > 20, "{job}: {step} steps");
                    break;
                }
            }
        }
    });
}

/// Starts a process that does `job`, and is stopped at a step: that of the number `step`, or the first that names `step`.
fn child(job: &str, step: &str, stop: &str) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["tune::tests::in_child", "--exact", "--nocapture"]).stdout(Stdio::piped()).stderr(Stdio::null());
    command.env(CHILD, format!("{job},{step},{stop}")).spawn().unwrap()
}

/// The process that [`child`] starts.
#[test]
fn in_child() {
    let Ok(order) = std::env::var(CHILD) else { return };
    let words: Vec<&str> = order.split(',').collect();
    let [job, step, stop] = words[..] else { panic!("{order}") };
    let number = Cell::new(0);
    let gate = |name: &str| {
        number.set(number.get() + 1);
        if step.parse() != Ok(number.get()) && !(name.contains(step) && stop == "wait") {
            return Ok(());
        }
        match stop {
            "kill" => longhaul_sys::process::end(std::process::id(), longhaul_sys::process::EndSignal::Kill).unwrap(),
            _ => println!("{WAITS}"),
        }
        loop {
            std::thread::park();
        }
    };
    match job {
        "tune" => drop(tuned(&Host::new(&gate), 1).unwrap()),
        _ => drop(roll_back(&Host::new(&gate)).unwrap()),
    }
}

const WAITS: &str = "the step waits";
const CHILD: &str = "LONGHAUL_TUNE_CHILD";
const NETWORK: &str = "10.20.0.0/16";
