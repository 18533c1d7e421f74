//! Processor time and memory of the carrier's programs and of the processes that they start, such as socat's and sshd's for
//! each connection.

use crate::error::LabError;
use crate::world::supervisor::Program;
use std::collections::{HashMap, HashSet};
use std::fs;
use std::time::Duration;

/// CPU time of programs and of what they start.
pub(crate) struct Cpu {
    /// The process groups that are looked for.
    groups: Vec<u32>,
    /// Clock ticks of each process when it was last seen.
    ticks: HashMap<u32, u64>,
    before: u64,
}

/// Memory and descriptors of one program and its children at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Held {
    /// Bytes of memory that nobody else uses.
    pub(crate) private: u64,
    /// Open descriptors.
    pub(crate) descriptors: u64,
}

impl Cpu {
    /// Counts from now on.
    pub(crate) fn of(programs: &[Program]) -> Cpu {
        let groups = programs.iter().map(Program::id).collect();
        let mut cpu = Cpu { groups, ticks: HashMap::new(), before: 0 };
        cpu.look();
        cpu.before = cpu.ticks.values().sum();
        cpu
    }

    /// A process that starts and ends between two looks is not seen.
    pub(crate) fn look(&mut self) {
        if !self.groups.is_empty() {
            self.ticks.extend(members(&mut self.groups).into_iter().map(|process| (process.id, process.ticks)));
        }
    }

    /// Returns the processor time that they have used since.
    pub(crate) fn used(&self) -> Duration {
        let ticks = self.ticks.values().sum::<u64>().saturating_sub(self.before);
        Duration::from_millis(ticks * 1000 / TICKS_PER_SECOND)
    }
}

impl Held {
    /// By the program with that number and its children.
    ///
    /// # Errors
    /// The kernel does not let us look.
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
    /// The same of its children that have ended and whose end it has seen, and of theirs.
    reaped: u64,
}

/// User and system time, in clock ticks, of this process, of everything below it, and of what has ended there.
///
/// A process that has ended is counted by its parent, so that nothing is lost between two looks.
pub(crate) fn family_ticks() -> u64 {
    let own = fs::read_link("/proc/self").ok().and_then(|name| name.to_str()?.parse().ok());
    let all = all();
    let mut family = HashSet::from([own.unwrap_or_else(std::process::id)]);
    extend(&mut family, &all, |_| false);
    all.iter().filter(|one| family.contains(&one.id)).map(|one| one.ticks + one.reaped).sum()
}

/// Adds to `family` the processes of `all` that `belong` to it, and every child of one that is in it. A child's number may be
/// smaller than its parent's: looks until nobody is added.
fn extend(family: &mut HashSet<u32>, all: &[Process], belong: impl Fn(&Process) -> bool) {
    let mut known = usize::MAX;
    while known != family.len() {
        known = family.len();
        let is_in = |one: &&Process| belong(one) || family.contains(&one.parent);
        let more: Vec<u32> = all.iter().filter(is_in).map(|one| one.id).collect();
        family.extend(more);
    }
}

/// Every process that can be seen.
fn all() -> Vec<Process> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let processes = entries.flatten().filter(|entry| entry.file_name().as_encoded_bytes()[0].is_ascii_digit());
    processes.filter_map(|entry| read(&fs::read_to_string(entry.path().join("stat")).ok()?)).collect()
}

/// The processes of `groups`, and their children in groups of their own, which become groups to look for: sshd gives each
/// connection one.
fn members(groups: &mut Vec<u32>) -> Vec<Process> {
    members_of(groups, all())
}

/// [`members`] among the processes `all`.
fn members_of(groups: &mut Vec<u32>, mut all: Vec<Process>) -> Vec<Process> {
    let mut family = HashSet::new();
    loop {
        extend(&mut family, &all, |one| groups.contains(&one.group));
        // Of a group that is new somebody may be there whose parent has ended.
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

/// From a line of /proc/PID/stat (proc_pid_stat(5)).
fn read(stat: &str) -> Option<Process> {
    let id = stat.split_whitespace().next()?.parse().ok()?;
    // The name in parentheses may hold anything; what follows the last one does not.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
    let small = |field| u32::try_from(number(field)?).ok();
    let (ticks, reaped) = (number(14)? + number(15)?, number(16)? + number(17)?);
    Some(Process { id, parent: small(4)?, group: small(5)?, ticks, reaped })
}

/// From a line of /proc/PID/smaps_rollup (proc_pid_smaps(5)): memory that only this process has.
fn private_bytes(line: &str) -> Option<u64> {
    let value = line.strip_prefix("Private_Clean:").or_else(|| line.strip_prefix("Private_Dirty:"))?;
    Some(value.split_whitespace().next()?.parse::<u64>().ok()? * 1024)
}

/// USER_HZ, which is 100 on every architecture that Linux runs relays on.
const TICKS_PER_SECOND: u64 = 100;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_read_whatever_its_name() {
        let process = read("17 (a ) b) S 1 42 42 0 -1 4194560 100 0 0 0 250 31 7 5 20 0 1").unwrap();
        let Process { id, parent, group, ticks, reaped } = process;
        assert_eq!((id, parent, group, ticks, reaped), (17, 1, 42, 281, 12));
        assert!(read("nonsense").is_none());
    }

    #[test]
    fn what_a_child_has_used_stays_with_its_parent() {
        let before = family_ticks();
        // A tenth of a second or more, two levels down, and ended.
        let script = "sh -c 'i=0; while [ $i -lt 500000 ]; do i=$((i + 1)); done'; true";
        assert!(std::process::Command::new("sh").args(["-c", script]).status().unwrap().success());
        assert!(family_ticks() >= before + 5);
    }

    #[test]
    fn a_child_is_found_whatever_stands_before_it() {
        let process = |id, parent, group| Process { id, parent, group, ticks: 0, reaped: 0 };
        // Numbers begin anew after pid_max: 3 is a child of 40, which is a child of 20, and 7 is left over from the group of 3.
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
        // Its group is that of whoever started the tests; that of its child is its own.
        let mut child = std::process::Command::new("cat");
        std::os::unix::process::CommandExt::process_group(&mut child, 0);
        let mut child = child.stdin(std::process::Stdio::piped()).spawn().unwrap();
        let held = Held::by(child.id()).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(held.private > 0 && held.descriptors >= 3, "{held:?}");
    }
}
