//! The CPU quota of this process's control group (cgroups(7)).

use std::fs;
use std::time::Duration;

/// Returns the time for which CPU quotas have held back the threads of this process's control group, and of those above it, so far. Each
/// CPU of a group counts by itself, so two may add up to more than the time that has passed. Zero without a quota, and where /sys/fs/cgroup
/// does not show it.
pub fn throttled_time() -> Duration {
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let stats = groups.lines().filter_map(folder).flat_map(|(root, group)| {
        let folders = group.match_indices('/').map(|(end, _)| &group[..end]).chain([group]);
        folders.filter_map(|above| fs::read_to_string(format!("{root}{above}/cpu.stat")).ok()).collect::<Vec<_>>()
    });
    stats.map(|stat| throttled(&stat)).max().unwrap_or_default()
}

/// Returns where the groups of a hierarchy with CPU quotas are mounted, and the path of this process's group among them, from a line of
/// /proc/PID/cgroup: `0::/system.slice/longhaul.service`, or `4:cpu,cpuacct:/longhaul` of version 1.
fn folder(line: &str) -> Option<(&'static str, &str)> {
    let mut parts = line.splitn(3, ':');
    let (_, controllers, group) = (parts.next()?, parts.next()?, parts.next()?);
    let group = group.trim_end_matches('/');
    match controllers {
        "" => Some(("/sys/fs/cgroup", group)),
        // Every distribution has links from `cpu` to the folder of both controllers.
        list if list.split(',').any(|one| one == "cpu") => Some(("/sys/fs/cgroup/cpu", group)),
        _ => None,
    }
}

/// Returns the time of a cpu.stat: `throttled_usec` in µs, or `throttled_time` of version 1 in ns.
fn throttled(stat: &str) -> Duration {
    let number = |key: &str| -> Option<u64> {
        stat.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' '))?.trim().parse().ok()
    };
    let micros = number("throttled_usec").map(Duration::from_micros);
    micros.or_else(|| number("throttled_time").map(Duration::from_nanos)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions_tell_the_time() {
        assert_eq!(folder("0::/system.slice/x.service"), Some(("/sys/fs/cgroup", "/system.slice/x.service")));
        assert_eq!(folder("0::/"), Some(("/sys/fs/cgroup", "")));
        assert_eq!(folder("4:cpu,cpuacct:/a:b"), Some(("/sys/fs/cgroup/cpu", "/a:b")));
        assert_eq!(folder("2:cpuacct:/"), None);
        assert_eq!(folder("nonsense"), None);
        let version_2 = "usage_usec 5\nnr_throttled 3\nthrottled_usec 1500\n";
        let version_1 = "nr_periods 9\nnr_throttled 3\nthrottled_time 2500000\n";
        assert_eq!(throttled(version_2), Duration::from_micros(1500));
        assert_eq!(throttled(version_1), Duration::from_micros(2500));
        assert_eq!(throttled(""), Duration::ZERO);
        throttled_time();
    }
}
