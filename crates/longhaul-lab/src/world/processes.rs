//! Processor time and memory of the carrier's programs and of their child processes. socat and sshd, for example, start a
//! process for each connection.

use crate::error::LabError;
use crate::world::supervisor::Program;
use std::collections::{HashMap, HashSet};
use std::fs;
use std::time::Duration;

/// CPU time of programs and their child processes.
pub(crate) struct Cpu {
    /// The process groups to count.
    groups: Vec<u32>,
    /// Clock ticks of each process, by process number, at the last [`Cpu::look`].
    ticks: HashMap<u32, u64>,
    before: u64,
}

/// Memory and descriptors of one program and its children at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Held {
    /// Bytes of memory that no other process shares.
    pub(crate) private: u64,
    /// Open descriptors.
    pub(crate) descriptors: u64,
}

impl Cpu {
    /// Starts counting for `programs`.
    pub(crate) fn of(programs: &[Program]) -> Cpu {
        let groups = programs.iter().map(Program::id).collect();
        let mut cpu = Cpu { groups, ticks: HashMap::new(), before: 0 };
        cpu.look();
        cpu.before = cpu.ticks.values().sum();
        cpu
    }

    /// Reads the clock ticks of all processes. A process that starts and ends between two calls is not counted.
    pub(crate) fn look(&mut self) {
        if !self.groups.is_empty() {
            self.ticks.extend(members(&mut self.groups).into_iter().map(|process| (process.id, process.ticks)));
        }
    }

    /// Returns the processor time used since [`Cpu::of`].
    pub(crate) fn used(&self) -> Duration {
        let ticks = self.ticks.values().sum::<u64>().saturating_sub(self.before);
        Duration::from_millis(ticks * 1000 / TICKS_PER_SECOND)
    }
}

impl Held {
    /// Returns the memory and descriptors of the program with the process number `program` and of its children.
    ///
    /// # Errors
    /// A file below /proc cannot be read.
    pub(crate) fn by(program: u32) -> Result<Held, LabError> {
        let mut held = Held::default();
        for process in members(&mut vec![program]) {
            let path = format!("/proc/{}/smaps_rollup", process.id);
            let text = fs::read_to_string(&path).map_err(LabError::io(format!("reading {path}")))?;
            held.private += text.lines().filter_map(private_bytes).sum::<u64>();
            let path = format!("/proc/{}/fd", process.id);
            held.descriptors += fs::read_dir(&path).map_err(LabError::io(format!("reading {path}")))?.count() as u64;
        }
        Ok(held)
    }
}

/// One line of /proc/PID/stat.
struct Process {
    id: u32,
    parent: u32,
    group: u32,
    /// User and system time.
    ticks: u64,
    /// User and system time of children that have ended and were waited for, and of their children.
    reaped: u64,
}

/// Returns user and system time, in clock ticks, of this process and all its descendants, including those that have ended.
///
/// The time of an ended process is counted at its parent, so nothing is lost between two calls.
pub(crate) fn family_ticks() -> u64 {
    let own = fs::read_link("/proc/self").ok().and_then(|name| name.to_str()?.parse().ok());
    let all = all();
    let mut family = HashSet::from([own.unwrap_or_else(std::process::id)]);
    extend(&mut family, &all, |_| false);
    all.iter().filter(|one| family.contains(&one.id)).map(|one| one.ticks + one.reaped).sum()
}

/// Adds to `family` the processes of `all` that `belong` to it, and all their descendants. A child's number may be smaller than
/// its parent's, so the search repeats until it adds nothing.
fn extend(family: &mut HashSet<u32>, all: &[Process], belong: impl Fn(&Process) -> bool) {
    let mut known = usize::MAX;
    while known != family.len() {
        known = family.len();
        let is_in = |one: &&Process| belong(one) || family.contains(&one.parent);
        let more: Vec<u32> = all.iter().filter(is_in).map(|one| one.id).collect();
        family.extend(more);
    }
}

/// Returns every visible process.
fn all() -> Vec<Process> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let processes = entries.flatten().filter(|entry| entry.file_name().as_encoded_bytes()[0].is_ascii_digit());
    processes.filter_map(|entry| read(&fs::read_to_string(entry.path().join("stat")).ok()?)).collect()
}

/// Returns the processes of `groups` and their descendants. Adds new groups of descendants to `groups`: sshd creates one for
/// each connection.
fn members(groups: &mut Vec<u32>) -> Vec<Process> {
    members_of(groups, all())
}

/// Does the work of [`members`] for the processes `all`.
fn members_of(groups: &mut Vec<u32>, mut all: Vec<Process>) -> Vec<Process> {
    let mut family = HashSet::new();
    loop {
        extend(&mut family, &all, |one| groups.contains(&one.group));
        // A new group may have members whose parent has ended.
        let mut is_new = false;
        for process in all.iter().filter(|one| family.contains(&one.id)) {
            if !groups.contains(&process.group) {
                groups.push(process.group);
                is_new = true;
            }
        }
        if !is_new {
            all.retain(|one| family.contains(&one.id));
            return all;
        }
    }
}

/// Reads a line of /proc/PID/stat (proc_pid_stat(5)).
fn read(stat: &str) -> Option<Process> {
    let id = stat.split_whitespace().next()?.parse().ok()?;
    // The name in parentheses may contain anything. After the last parenthesis come numbers.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
    let small = |field| u32::try_from(number(field)?).ok();
    let (ticks, reaped) = (number(14)? + number(15)?, number(16)? + number(17)?);
    Some(Process { id, parent: small(4)?, group: small(5)?, ticks, reaped })
}

/// Reads a line of /proc/PID/smaps_rollup (proc_pid_smaps(5)). Returns bytes of memory that only this process has.
fn private_bytes(line: &str) -> Option<u64> {
    let value = line.strip_prefix("Private_Clean:").or_else(|| line.strip_prefix("Private_Dirty:"))?;
    Some(value.split_whitespace().next()?.parse::<u64>().ok()? * 1024)
}

/// USER_HZ. It is 100 on every architecture on which Linux runs relays.
const TICKS_PER_SECOND: u64 = 100;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_with_any_name_is_read() {
        let process = read("17 (a ) b) S 1 42 42 0 -1 4194560 100 0 0 0 250 31 7 5 20 0 1").unwrap();
        let Process { id, parent, group, ticks, reaped } = process;
        assert_eq!((id, parent, group, ticks, reaped), (17, 1, 42, 281, 12));
        assert!(read("nonsense").is_none());
    }

    #[test]
    fn time_of_an_ended_child_stays_with_its_parent() {
        let before = family_ticks();
        // A grandchild uses a tenth of a second or more, and ends.
        let script = "sh -c 'i=0; while [ $i -lt 500000 ]; do i=$((i + 1)); done'; true";
        assert!(std::process::Command::new("sh").args(["-c", script]).status().unwrap().success());
        assert!(family_ticks() >= before + 5);
    }

    #[test]
    fn a_child_is_found_in_any_order_of_numbers() {
        let process = |id, parent, group| Process { id, parent, group, ticks: 0, reaped: 0 };
        // Numbers start again after pid_max: 3 is a child of 40, and 40 of 20. 7 is left over from the group of 3.
        let all =
            vec![process(3, 40, 3), process(7, 1, 3), process(20, 1, 20), process(40, 20, 20), process(50, 1, 50)];
        let mut groups = vec![20];
        let found: Vec<u32> = members_of(&mut groups, all).iter().map(|one| one.id).collect();
        assert_eq!((found, groups), (vec![3, 7, 20, 40], vec![20, 3]));
    }

    #[test]
    fn private_memory_is_read() {
        assert_eq!(private_bytes("Private_Dirty:       12 kB"), Some(12_288));
        assert_eq!(private_bytes("Shared_Dirty:        12 kB"), None);
    }

    #[test]
    fn this_process_holds_something() {
        // The group of this process belongs to the caller of the tests, so the child gets its own group.
        let mut child = std::process::Command::new("cat");
        std::os::unix::process::CommandExt::process_group(&mut child, 0);
        let mut child = child.stdin(std::process::Stdio::piped()).spawn().unwrap();
        let held = Held::by(child.id()).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(held.private > 0 && held.descriptors >= 3, "{held:?}");
    }
}
