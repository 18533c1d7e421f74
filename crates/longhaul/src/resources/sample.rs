//! One sample: the figures of every resource, as they were read.

use super::cgroup::{Groups, Memory};
use super::files::Files;
use super::parse;
use super::process::ProcessFigures;
use longhaul_relay::Load;
use std::time::{Duration, Instant};

/// Figures of every resource at one moment. `None` where this kernel or container does not show them.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct ResourceSample {
    /// Use of the relay's own limits.
    pub(super) load: Load,
    /// Number of open descriptors.
    pub(super) descriptors: Option<u64>,
    /// Limit of descriptors.
    pub(super) nofile: Option<u64>,
    /// net.ipv4.tcp_rmem: smallest, first and largest receive buffer, in bytes.
    pub(super) tcp_rmem: Option<[u64; 3]>,
    /// net.ipv4.tcp_wmem: the same of the send buffer.
    pub(super) tcp_wmem: Option<[u64; 3]>,
    /// net.ipv4.tcp_mem: number of pages of all TCP sockets below which nothing is done, from which on the kernel makes
    /// windows smaller, and which are never exceeded.
    pub(super) tcp_mem: Option<[u64; 3]>,
    /// Number of pages of all TCP sockets of the host.
    pub(super) tcp_pages: Option<u64>,
    /// Number of connections that the firewall tracks.
    pub(super) conntrack: Option<u64>,
    /// Maximum number of these.
    pub(super) max_conntrack: Option<u64>,
    /// Number of ports that the kernel may choose for a dial.
    pub(super) ports: Option<u64>,
    /// The congestion controls that the kernel offers, separated by spaces.
    pub(super) controls: Option<String>,
    /// Number of CPUs that the process used since the last sample.
    pub(super) cpus_used: Option<f64>,
    /// Number of CPUs that it may use.
    pub(super) cpus: Option<f64>,
    /// Time since the last sample, and the part of it for which a control group held threads back, summed over threads.
    pub(super) throttled: Option<Throttled>,
    /// Resident memory of the process, in bytes.
    pub(super) rss: Option<u64>,
    /// Memory that the host can still give, in bytes.
    pub(super) available: Option<u64>,
    /// Memory of the control group.
    pub(super) group: Option<Memory>,
}

/// Time for which a control group has held threads back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Throttled {
    /// The sum over the group's threads.
    pub(super) time: Duration,
    /// Time since the last sample.
    pub(super) of: Duration,
}

/// Takes samples. Keeps the last processor times.
#[derive(Debug)]
pub(super) struct Sampler {
    files: Files,
    last: Option<Times>,
}

/// Processor times at one moment.
#[derive(Clone, Copy, Debug)]
struct Times {
    at: Instant,
    used: Duration,
    throttled: Option<Duration>,
}

impl Sampler {
    /// Returns a sampler that reads `files`.
    pub(super) fn new(files: Files) -> Sampler {
        Sampler { files, last: None }
    }

    /// Takes a sample. `load` is the relay's part of it, and `process` that of the process.
    pub(super) fn sample(&mut self, load: Load, process: ProcessFigures, now: Instant) -> ResourceSample {
        let files = &self.files;
        let three = |name| parse::three(&files.sysctl(name)?);
        let number = |name| parse::number(&files.sysctl(name)?);
        let status = files.read("/proc/self/status").unwrap_or_default();
        let groups = Groups::read(files);
        let ports = || {
            let reserved = files.sysctl("net/ipv4/ip_local_reserved_ports").unwrap_or_default();
            parse::free_ports(&files.sysctl("net/ipv4/ip_local_port_range")?, &reserved)
        };
        let allowed = parse::cpus_allowed(&status).map(|cpus| cpus as f64);
        let limit = groups.cpu.map(|cpu| cpu.limit);
        let mut sample = ResourceSample {
            load,
            descriptors: process.descriptors,
            nofile: files.read("/proc/self/limits").and_then(|text| parse::nofile(&text)),
            tcp_rmem: three("net/ipv4/tcp_rmem"),
            tcp_wmem: three("net/ipv4/tcp_wmem"),
            tcp_mem: three("net/ipv4/tcp_mem"),
            tcp_pages: files.read("/proc/net/sockstat").and_then(|text| parse::tcp_pages(&text)),
            conntrack: number("net/netfilter/nf_conntrack_count"),
            max_conntrack: number("net/netfilter/nf_conntrack_max"),
            ports: ports(),
            controls: files.sysctl("net/ipv4/tcp_available_congestion_control").map(|text| text.trim().into()),
            cpus: limit.map_or(allowed, |limit| Some(allowed.map_or(limit, |cpus| cpus.min(limit)))),
            rss: process.resident,
            available: files.read("/proc/meminfo").and_then(|text| parse::kilobytes(&text, "MemAvailable")),
            group: groups.memory,
            ..ResourceSample::default()
        };
        let throttled = groups.cpu.map(|cpu| cpu.throttled);
        self.processor(&mut sample, Times { at: now, used: process.cpu, throttled });
        sample
    }

    /// Fills in the processor time since the last sample. `times` are those of now.
    fn processor(&mut self, sample: &mut ResourceSample, times: Times) {
        if let Some(last) = self.last {
            let of = times.at.saturating_duration_since(last.at);
            if !of.is_zero() {
                let used = times.used.saturating_sub(last.used);
                sample.cpus_used = Some(used.as_secs_f64() / of.as_secs_f64());
            }
            if let (Some(before), Some(after)) = (last.throttled, times.throttled) {
                sample.throttled = Some(Throttled { time: after.saturating_sub(before), of });
            }
        }
        self.last = Some(times);
    }
}

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

    #[test]
    fn an_empty_system_has_only_the_figures_of_the_relay() {
        let root = tempfile::tempdir().unwrap();
        let mut sampler = Sampler::new(Files::below(root.path().into()));
        let load = Load { flows: 7, ..Load::default() };
        let want = ResourceSample { load: load.clone(), ..ResourceSample::default() };
        assert_eq!(sampler.sample(load, ProcessFigures::default(), Instant::now()), want);
    }

    #[test]
    fn processor_time_is_of_the_interval() {
        let root = tempfile::tempdir().unwrap();
        let used = |millis| ProcessFigures { cpu: Duration::from_millis(millis), ..ProcessFigures::default() };
        write(&root, "proc/self/status", "Cpus_allowed_list:\t0-7\n");
        write(&root, "proc/self/mountinfo", "25 1 0:22 / /cg rw - cgroup2 cgroup2 rw\n");
        write(&root, "proc/self/cgroup", "0::/\n");
        write(&root, "cg/cpu.max", "200000 100000\n");
        write(&root, "cg/cpu.stat", "throttled_usec 1000000\n");
        let mut sampler = Sampler::new(Files::below(root.path().into()));
        let start = Instant::now();
        let first = sampler.sample(Load::default(), used(1500), start);
        assert_eq!((first.cpus_used, first.cpus, first.throttled), (None, Some(2.0), None));
        write(&root, "cg/cpu.stat", "throttled_usec 3000000\n");
        let of = Duration::from_secs(5);
        let second = sampler.sample(Load::default(), used(9000), start + of);
        assert_eq!(second.cpus_used, Some(1.5));
        assert_eq!(second.throttled, Some(Throttled { time: Duration::from_secs(2), of }));
        let third = sampler.sample(Load::default(), used(9000), start + of);
        assert_eq!(third.cpus_used, None, "no time has passed");
    }

    #[test]
    fn this_system_shows_the_usual_figures() {
        let process = ProcessFigures::now();
        let sample = Sampler::new(Files::new()).sample(Load::default(), process, Instant::now());
        assert!(sample.descriptors.is_some_and(|open| open >= 3));
        assert_eq!((sample.descriptors, sample.rss), (process.descriptors, process.resident));
        assert!(sample.cpus.is_some_and(|cpus| cpus > 0.0) && sample.ports.is_some_and(|ports| ports > 0));
    }
}
