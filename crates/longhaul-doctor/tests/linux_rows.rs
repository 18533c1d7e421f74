//! Runs every command of every row of Linux: read, set, read back, undo, read back; and the permanent form with its undo.
//!
//! Each row runs in a network namespace of its own, with a file system in memory over /etc/sysctl.d. Nothing of this machine
//! changes. Needs root, of the system or of a user namespace, and sysctl(8), ip(8), nft(8) and ethtool(8). A test that cannot
//! run here prints SKIP and the reason; it fails if the environment variable CI is set.
//!
//! ```text
//!   e0 10.1.0.1/24 ── e1        route 10.2.0.0/16 via 10.1.0.2
//! ```

#![allow(clippy::unwrap_used)] // clippy.toml allows it in tests, but not in what tests call

use longhaul_core::advice::{Fill, Goal, Setting, System};
use longhaul_sys::netns::{NetNs, is_root, mount_tmpfs, own_mounts};
use longhaul_units::{Bytes, Rate};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::time::Duration;

/// A long path through a tunnel: every value that a row of Linux can want is wanted here.
const GOAL: Goal = Goal { window: Bytes(15_750_000), packet: 1294, is_packet_short: true, has_loss: true };

/// The rows of the whole machine: a network namespace shows them read-only, or not at all. Their commands run on files that
/// stand in for the kernel's.
const OF_THE_MACHINE: [&str; 3] = ["net.core.rmem_max", "net.core.wmem_max", "net.core.default_qdisc"];

#[test]
fn sysctls_are_read_set_and_undone() {
    for row in rows(|row| is_sysctl(row) && !OF_THE_MACHINE.contains(&row.name)) {
        in_namespace(&["sysctl"], || {
            let mut start = row.default;
            if row.name == "net.ipv4.tcp_congestion_control" {
                // This must load no module, and cubic may be chosen in a namespace only where it is the machine's default.
                let offered = shell("sysctl -n net.ipv4.tcp_available_congestion_control");
                if !words(&offered).contains(&"bbr") {
                    return skip("this kernel does not offer bbr");
                }
                start = "reno";
            }
            each_command_of_a_sysctl(row, start);
        });
    }
}

#[test]
fn sysctls_of_the_machine_are_read_set_and_undone() {
    for row in rows(|row| OF_THE_MACHINE.contains(&row.name)) {
        in_namespace(&["sysctl"], || {
            mount_tmpfs("/proc/sys/net/core", "size=1m").unwrap();
            fs::write(file_of(row), row.default).unwrap();
            each_command_of_a_sysctl(row, row.default);
        });
    }
}

/// [`OF_THE_MACHINE`] is neither too long nor too short.
#[test]
fn a_network_namespace_owns_all_sysctls_but_those_of_the_machine() {
    in_namespace(&["sysctl"], || {
        let is_owned =
            |row: &Setting| fs::metadata(file_of(row)).is_ok_and(|file| file.permissions().mode() & 0o200 != 0);
        let names: Vec<_> = rows(|row| is_sysctl(row) && !is_owned(row)).iter().map(|row| row.name).collect();
        assert_eq!(names, OF_THE_MACHINE);
    });
}

#[test]
fn the_metrics_of_a_route_are_read_set_and_undone() {
    let row = System::named("linux").unwrap().setting("route mtu").unwrap();
    in_namespace(&["ip"], || {
        let before = read(row);
        assert!(before.starts_with("10.2.0.0/16 via 10.1.0.2"), "{before}");
        let value = (row.want)(&GOAL).unwrap();
        run(row.set_now, &value, &before);
        let after = read(row);
        assert!(after.contains("mtu lock 1294") && after.contains("advmss 1254"), "{after}");
        run(row.undo, &value, &before);
        assert_eq!(read(row), before);
    });
}

/// What audit prints for a metric of a route is no row. `ip route show table 100` does not show the table, the note's command does.
#[test]
fn the_commands_of_audit_for_a_route_change_it_and_restore_it() {
    in_namespace(&["ip"], || {
        shell("ip route add 10.2.0.0/16 via 10.1.0.2 table 100 window 65536 initcwnd 20");
        let all = || shell("ip route show table all | grep ^10.2");
        let before = all();
        let old = before.lines().find(|line| line.contains("table 100")).unwrap().trim();
        let paste = format!("$ ip route show table 100\n{}\n", shell("ip route show table 100"));
        let reports =
            longhaul_doctor::audit_text(paste.as_bytes(), Duration::from_millis(63), Rate(1_000_000_000)).unwrap();
        let json: serde_json::Value = serde_json::from_str(&reports.json).unwrap();
        let finding = &json["hosts"][0]["findings"][0];
        let command = |field: &str| finding[field].as_str().unwrap().to_string();
        assert_eq!((command("setting"), &finding["verified"]), ("route window".into(), &true.into()));
        assert!(command("caveat").contains("`ip route show table all`"), "{finding}");
        shell(&command("set_now").replace("ROUTE", &old.replace(" window 65536", "")));
        assert_eq!(all(), before.replace(" window 65536", ""));
        shell(&command("undo").replace("OLD", old));
        assert_eq!(all(), before);
    });
}

#[test]
fn the_clamp_of_a_router_is_read_set_and_undone() {
    let row = System::named("linux").unwrap().setting("maxseg").unwrap();
    in_namespace(&["nft"], || {
        assert_eq!(read(row), "");
        let value = (row.want)(&GOAL).unwrap();
        run(row.set_now, &value, "");
        let after = read(row);
        assert!(after.contains("hook forward") && after.contains("maxseg size set 1254"), "{after}");
        run(row.undo, &value, "");
        assert_eq!(read(row), "");
    });
}

#[test]
fn offloads_are_read_set_and_undone() {
    for row in rows(is_offload) {
        in_namespace(&["ip", "ethtool"], || {
            let shown = |value: &str| format!("{}: {value}", row.name);
            run(row.set_now, "off", "on");
            assert_eq!(read(row), shown("off"));
            let value = (row.want)(&GOAL).unwrap();
            run(row.set_now, &value, "off");
            assert_eq!(read(row), shown(&value));
            run(row.undo, &value, "off");
            assert_eq!(read(row), shown("off"));
        });
    }
}

/// The tests above run all rows, and all their commands: only sysctls have a permanent form.
#[test]
fn no_command_is_left_out() {
    let others = rows(|row| !is_sysctl(row) && !is_offload(row));
    assert_eq!(others.iter().map(|row| row.name).collect::<Vec<_>>(), ["route mtu", "maxseg"]);
    for row in rows(|_| true) {
        assert_eq!(row.set_permanent.is_empty(), !is_sysctl(row), "{}", row.name);
        assert!(!row.set_now.is_empty(), "{}", row.name);
    }
}

/// Sets another value than `start`, and undoes it; then permanently.
fn each_command_of_a_sysctl(row: &Setting, start: &str) {
    let value = match (row.want)(&GOAL) {
        Some(value) if value != start => value,
        Some(_) => "0".into(),
        None => "131072".into(),
    };
    run(row.set_now, start, "");
    let before = read(row);
    assert_eq!(words(&before), words(start), "{}", row.name);
    for set in [row.set_now, row.set_permanent] {
        run(set, &value, &before);
        assert_eq!(words(&read(row)), words(&value), "{set}");
        assert_eq!(permanent_files(), usize::from(set == row.set_permanent), "{set}");
        run(row.undo, &value, &before);
        assert_eq!(words(&read(row)), words(&before), "{}", row.undo);
        assert_eq!(permanent_files(), 0, "{}", row.undo);
    }
}

fn rows(is_wanted: impl Fn(&Setting) -> bool) -> Vec<&'static Setting> {
    System::named("linux").unwrap().settings.iter().filter(|row| is_wanted(row)).collect()
}

fn is_sysctl(row: &Setting) -> bool {
    row.place == "sysctl"
}

fn is_offload(row: &Setting) -> bool {
    row.name.ends_with("-offload")
}

fn file_of(row: &Setting) -> String {
    format!("/proc/sys/{}", row.name.replace('.', "/"))
}

fn permanent_files() -> usize {
    fs::read_dir(SYSCTL_FOLDER).unwrap().count()
}

fn read(row: &Setting) -> String {
    run(row.read, "", "")
}

/// Runs a command of a row. Returns what it prints.
fn run(command: &str, value: &str, old: &str) -> String {
    // Of a route, the old value is the line that `read` shows.
    let fill = Fill { value, old, route: old, interface: "e0", network: "10.2.0.0/16", gateway: "10.1.0.2" };
    shell(&fill.into_command(command))
}

/// Runs `text` in a shell. Returns what it prints, without blanks at both ends.
fn shell(text: &str) -> String {
    let output = Command::new("sh").args(["-ec", text]).output().expect("sh");
    let stderr = String::from_utf8_lossy(&output.stderr);
    // sysctl of procps-ng 4.0.2 exits with 0 after an error.
    assert!(output.status.success() && stderr.is_empty(), "{text}: {stderr}");
    String::from_utf8_lossy(&output.stdout).trim().to_string()
}

fn words(text: &str) -> Vec<&str> {
    text.split_whitespace().collect()
}

/// Runs `test` on a thread in a network namespace of its own with the topology of this file, and with an empty
/// [`SYSCTL_FOLDER`]. Prints SKIP if it cannot run here.
fn in_namespace(programs: &[&str], test: impl FnOnce() + Send) {
    if !is_root() {
        return skip("needs root, to make network namespaces");
    }
    for program in programs {
        let found = Command::new("sh").args(["-c", &format!("command -v {program}")]).output().expect("sh");
        if !found.status.success() {
            return skip(&format!("{program}(8) is missing"));
        }
    }
    if !fs::exists(SYSCTL_FOLDER).unwrap_or(false) {
        return skip("there is no /etc/sysctl.d");
    }
    let inside = || {
        NetNs::create().unwrap();
        own_mounts().unwrap();
        mount_tmpfs(SYSCTL_FOLDER, "size=1m").unwrap();
        if programs.contains(&"ip") {
            shell(
                "ip link add e0 type veth peer name e1; ip link set e0 up; ip link set e1 up; \
                 ip address add 10.1.0.1/24 dev e0; ip route add 10.2.0.0/16 via 10.1.0.2",
            );
        }
        test();
    };
    std::thread::scope(|scope| scope.spawn(inside).join().expect("the test's thread"));
}

fn skip(why: &str) {
    assert!(std::env::var_os("CI").is_none(), "SKIP in CI: {why}");
    println!("SKIP: {why}");
}

const SYSCTL_FOLDER: &str = "/etc/sysctl.d";
