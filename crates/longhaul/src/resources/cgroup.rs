//! Limits by control groups (cgroups(7)), version 2 and 1. A group's limit holds for the groups below it, too.

use super::files::Files;
use super::parse::{cpu_max, field, number, quotient};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Limits of the control groups of this process.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Groups {
    /// The limit of memory that is nearest.
    pub(super) memory: Option<Memory>,
    /// The smallest limit of processor time.
    pub(super) cpu: Option<Cpu>,
}

/// A group's memory, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Memory {
    /// In use: processes, sockets and pipes, without the file cache that can be dropped.
    pub(super) used: u64,
    /// The limit.
    pub(super) limit: u64,
}

/// A group's processor time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Cpu {
    /// Number of CPUs.
    pub(super) limit: f64,
    /// Time for which the group's threads had to wait because of the limit, since it was made.
    pub(super) throttled: Duration,
}

impl Groups {
    /// Reads the limits. What cannot be read is left out.
    pub(super) fn read(files: &Files) -> Groups {
        let (Some(mounts), Some(own)) = (files.read("/proc/self/mountinfo"), files.read("/proc/self/cgroup")) else {
            return Groups::default();
        };
        let folders = |controller| folders(&mounts, &own, controller);
        let (unified, memory, cpu) = (folders(None), folders(Some("memory")), folders(Some("cpu")));
        let memory_2 = unified.iter().filter_map(|folder| memory_in(files, folder, MEMORY_2));
        let memory_1 = memory.iter().filter_map(|folder| memory_in(files, folder, MEMORY_1));
        let cpu_2 = unified.iter().filter_map(|folder| cpu_2(files, folder));
        let cpu_1 = cpu.iter().filter_map(|folder| cpu_1(files, folder));
        let memory = memory_2.chain(memory_1).max_by(|a, b| a.share().total_cmp(&b.share()));
        let cpu = cpu_2.chain(cpu_1).min_by(|a, b| a.limit.total_cmp(&b.limit));
        Groups { memory, cpu }
    }
}

impl Memory {
    fn share(&self) -> f64 {
        self.used as f64 / self.limit as f64
    }
}

/// Returns the folders of the group of this process and of those above it. `controller` is one of version 1, and `None` is
/// version 2.
fn folders(mounts: &str, own: &str, controller: Option<&str>) -> Vec<PathBuf> {
    let Some((root, point)) = mounts.lines().find_map(|line| mount(line, controller)) else { return Vec::new() };
    let of_ours = |line: &&str| {
        let names = line.split(':').nth(1).unwrap_or_default();
        controller.map_or(names.is_empty(), |controller| names.split(',').any(|name| name == controller))
    };
    let group = own.lines().find(of_ours).and_then(|line| line.splitn(3, ':').nth(2)).unwrap_or("/");
    // In a container, the path may be one of the host, of which only the root of the mount is seen.
    let below = Path::new(group).strip_prefix(root).unwrap_or(Path::new(""));
    let is_plain = below.components().all(|part| matches!(part, std::path::Component::Normal(_)));
    let below = if is_plain { below } else { Path::new("") };
    below.ancestors().map(|part| Path::new(point).join(part)).collect()
}

/// Returns the root and the mount point of a line of mountinfo, if it is the hierarchy of `controller`.
fn mount<'m>(line: &'m str, controller: Option<&str>) -> Option<(&'m str, &'m str)> {
    // proc_pid_mountinfo(5): the fields after the dash are the type, the source and the options of the super block.
    let (front, back) = line.split_once(" - ")?;
    let mut back = back.split(' ');
    let (kind, options) = (back.next()?, back.nth(1)?);
    let is_it = match controller {
        None => kind == "cgroup2",
        Some(controller) => kind == "cgroup" && options.split(',').any(|option| option == controller),
    };
    let mut front = front.split(' ').skip(3);
    is_it.then(|| Some((front.next()?, front.next()?)))?
}

fn text(files: &Files, folder: &Path, name: &str) -> Option<String> {
    files.read(folder.join(name).to_str()?)
}

/// Returns the memory of the group at `folder`. `names`: those of a version.
fn memory_in(files: &Files, folder: &Path, names: [&str; 3]) -> Option<Memory> {
    let [limit, all, cache] = names;
    let limit = number(&text(files, folder, limit)?)?;
    let all = number(&text(files, folder, all)?)?;
    let cache = text(files, folder, "memory.stat").and_then(|stat| field(&stat, cache)).unwrap_or(0);
    (limit > 0 && limit < NO_LIMIT).then(|| Memory { used: all.saturating_sub(cache), limit })
}

fn cpu_2(files: &Files, folder: &Path) -> Option<Cpu> {
    let limit = cpu_max(&text(files, folder, "cpu.max")?)?;
    let throttled = text(files, folder, "cpu.stat").and_then(|stat| field(&stat, "throttled_usec")).unwrap_or(0);
    Some(Cpu { limit, throttled: Duration::from_micros(throttled) })
}

/// Documentation/scheduler/sched-bwc.rst.
fn cpu_1(files: &Files, folder: &Path) -> Option<Cpu> {
    let limit = quotient(&text(files, folder, "cpu.cfs_quota_us")?, &text(files, folder, "cpu.cfs_period_us")?)?;
    let throttled = text(files, folder, "cpu.stat").and_then(|stat| field(&stat, "throttled_time")).unwrap_or(0);
    Some(Cpu { limit, throttled: Duration::from_nanos(throttled) })
}

/// Documentation/admin-guide/cgroup-v2.rst: the files of the limit and of the use, and the file cache in memory.stat.
const MEMORY_2: [&str; 3] = ["memory.max", "memory.current", "inactive_file"];
/// Documentation/admin-guide/cgroup-v1/memory.rst: the same.
const MEMORY_1: [&str; 3] = ["memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"];
/// A limit of version 1 from here on is none: the kernel shows the largest multiple of a page.
const NO_LIMIT: u64 = 1 << 60;

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use tempfile::TempDir;

    fn write(root: &TempDir, path: &str, text: &str) {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn read(root: &TempDir) -> Groups {
        Groups::read(&Files::below(root.path().into()))
    }

    #[test]
    fn the_nearest_limit_of_the_groups_above_counts() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(read(&root), Groups::default());
        write(
            &root,
            "proc/self/mountinfo",
            "25 1 0:22 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n",
        );
        write(&root, "proc/self/cgroup", "0::/system.slice/longhaul.service\n");
        assert_eq!(read(&root), Groups::default());
        let unit = "sys/fs/cgroup/system.slice/longhaul.service";
        write(&root, &format!("{unit}/memory.max"), "max\n");
        write(&root, &format!("{unit}/cpu.max"), "150000 100000\n");
        write(&root, &format!("{unit}/cpu.stat"), "usage_usec 9\nthrottled_usec 2000000\n");
        write(&root, "sys/fs/cgroup/system.slice/memory.max", "1000000\n");
        write(&root, "sys/fs/cgroup/system.slice/memory.current", "900000\n");
        write(&root, "sys/fs/cgroup/system.slice/memory.stat", "anon 1\ninactive_file 100000\n");
        write(&root, "sys/fs/cgroup/system.slice/cpu.max", "max 100000\n");
        let cpu = Cpu { limit: 1.5, throttled: Duration::from_secs(2) };
        let want = Groups { memory: Some(Memory { used: 800_000, limit: 1_000_000 }), cpu: Some(cpu) };
        assert_eq!(read(&root), want);
    }

    #[test]
    fn version_1_has_one_hierarchy_for_each_controller() {
        let root = tempfile::tempdir().unwrap();
        let mounts = "30 1 0:1 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n\
                      31 1 0:2 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n\
                      32 1 0:3 / /sys/fs/cgroup/cpu,cpuacct ro - cgroup cgroup rw,cpu,cpuacct\n";
        write(&root, "proc/self/mountinfo", mounts);
        write(&root, "proc/self/cgroup", "4:memory:/docker/abc/x\n3:cpu,cpuacct:/../other\n0::/\n");
        write(&root, "sys/fs/cgroup/memory/x/memory.limit_in_bytes", "9223372036854771712\n");
        write(&root, "sys/fs/cgroup/memory/x/memory.usage_in_bytes", "5\n");
        write(&root, "sys/fs/cgroup/memory/memory.limit_in_bytes", "4096\n");
        write(&root, "sys/fs/cgroup/memory/memory.usage_in_bytes", "1024\n");
        write(&root, "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "50000\n");
        write(&root, "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
        write(&root, "sys/fs/cgroup/cpu,cpuacct/cpu.stat", "nr_periods 1\nnr_throttled 1\nthrottled_time 3000000000\n");
        let cpu = Cpu { limit: 0.5, throttled: Duration::from_secs(3) };
        let want = Groups { memory: Some(Memory { used: 1024, limit: 4096 }), cpu: Some(cpu) };
        assert_eq!(read(&root), want);
    }

    #[test]
    fn damaged_files_are_left_out() {
        let root = tempfile::tempdir().unwrap();
        write(&root, "proc/self/mountinfo", "25 1\n - \n25 1 0:22 / /sys/fs/cgroup - cgroup2 cgroup2 rw\n");
        write(&root, "proc/self/cgroup", "0\n::\n:::\n");
        write(&root, "sys/fs/cgroup/memory.max", "lots\n");
        write(&root, "sys/fs/cgroup/cpu.max", "\n");
        assert_eq!(read(&root), Groups::default());
        write(&root, "sys/fs/cgroup/memory.max", "0\n");
        write(&root, "sys/fs/cgroup/memory.current", "0\n");
        assert_eq!(read(&root), Groups::default());
    }
}
