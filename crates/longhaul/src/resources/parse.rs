//! Parsers of /proc and /sys. Each is pure, and returns `None` for a text that it does not understand.

use std::ops::RangeInclusive;

/// Returns the three numbers of a sysctl such as net.ipv4.tcp_rmem.
pub(super) fn three(text: &str) -> Option<[u64; 3]> {
    let numbers: Vec<u64> = text.split_whitespace().map(str::parse).collect::<Result<_, _>>().ok()?;
    numbers.try_into().ok()
}

/// Returns the number of a file that has nothing else.
pub(super) fn number(text: &str) -> Option<u64> {
    text.trim().parse().ok()
}

/// Returns the number of pages that all TCP sockets of the host hold, from /proc/net/sockstat.
pub(super) fn tcp_pages(sockstat: &str) -> Option<u64> {
    let mut words = sockstat.lines().find_map(|line| line.strip_prefix("TCP:"))?.split_whitespace();
    words.find(|word| *word == "mem")?;
    words.next()?.parse().ok()
}

/// Returns the soft limit of descriptors, from /proc/self/limits. `None` if there is none, too.
pub(super) fn nofile(limits: &str) -> Option<u64> {
    let values = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    values.split_whitespace().next()?.parse().ok()
}

/// Returns the number of ports in `range` (net.ipv4.ip_local_port_range) that `reserved`
/// (net.ipv4.ip_local_reserved_ports) leaves. Parts of `reserved` that cannot be read are ignored.
pub(super) fn free_ports(range: &str, reserved: &str) -> Option<u64> {
    let mut bounds = range.split_whitespace().map(str::parse::<u16>);
    let range = bounds.next()?.ok()?..=bounds.next()?.ok()?;
    let reserved: Vec<RangeInclusive<u16>> = ranges(reserved).collect();
    let is_free = |port: &u16| !reserved.iter().any(|part| part.contains(port));
    Some(range.filter(is_free).count() as u64)
}

/// Returns the number of CPUs in a list such as `0-3,8`, from `Cpus_allowed_list` of /proc/self/status.
pub(super) fn cpus_allowed(status: &str) -> Option<u64> {
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    let count: u64 = ranges(list).map(|range| range.count() as u64).sum();
    (count > 0).then_some(count)
}

/// Returns the ranges of a list such as `0-3,8`.
fn ranges(list: &str) -> impl Iterator<Item = RangeInclusive<u16>> {
    list.trim().split(',').filter_map(|part| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.parse().ok()?..=last.parse().ok()?)
    })
}

/// Returns the bytes of a line such as `MemAvailable:  1736 kB`, which `key` begins.
pub(super) fn kilobytes(text: &str, key: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
    let mut words = line.split_whitespace();
    let number: u64 = words.next()?.parse().ok()?;
    (words.next() == Some("kB")).then(|| number.checked_mul(1024))?
}

/// Returns the number of a line such as `throttled_usec 12`, which `key` begins.
pub(super) fn field(text: &str, key: &str) -> Option<u64> {
    let mut lines = text.lines().map(str::split_whitespace);
    let mut words = lines.find_map(|mut words| (words.next()? == key).then_some(words))?;
    words.next()?.parse().ok()
}

/// Returns the number of CPUs that a text of cpu.max allows. `None` without a limit, too.
pub(super) fn cpu_max(text: &str) -> Option<f64> {
    let (quota, period) = text.trim().split_once(' ')?;
    quotient(quota, period)
}

/// Returns the number of CPUs that a quota and a period, both in µs, allow. `None` without a limit, too.
pub(super) fn quotient(quota: &str, period: &str) -> Option<f64> {
    let (quota, period): (u64, u64) = (quota.trim().parse().ok()?, period.trim().parse().ok()?);
    (quota > 0 && period > 0).then(|| quota as f64 / period as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sysctls_are_read_or_left_out() {
        assert_eq!(three("4096\t131072\t33554432\n"), Some([4096, 131_072, 33_554_432]));
        for text in ["", "1 2", "1 2 3 4", "1 2 x", "1 2 -3", "99999999999999999999 1 1"] {
            assert_eq!(three(text), None, "{text:?}");
        }
        assert_eq!((number("262144\n"), number(""), number("max")), (Some(262_144), None, None));
    }

    #[test]
    fn sockstat_has_the_pages_of_tcp() {
        let text = "sockets: used 13\nTCP: inuse 1 orphan 0 tw 0 alloc 1 mem 214\nUDP: inuse 0 mem 179\n";
        assert_eq!(tcp_pages(text), Some(214));
        for text in ["", "TCP: inuse 1", "TCP: mem", "TCP: mem x", "UDP: mem 1", "TCP6: inuse 1 mem 3"] {
            assert_eq!(tcp_pages(text), None, "{text:?}");
        }
    }

    #[test]
    fn the_soft_limit_of_descriptors_counts() {
        let text = "Limit                     Soft Limit           Hard Limit           Units     \n\
                    Max processes             63432                63432                processes \n\
                    Max open files            1024                 524288               files     \n";
        assert_eq!(nofile(text), Some(1024));
        assert_eq!(nofile("Max open files   unlimited  unlimited  files"), None);
        assert_eq!((nofile(""), nofile("Max open files")), (None, None));
    }

    #[test]
    fn reserved_ports_are_not_free() {
        assert_eq!(free_ports("32768\t60999\n", "\n"), Some(28_232));
        assert_eq!(free_ports("10 19", "12,14-15,100-200,5-10"), Some(6));
        assert_eq!(free_ports("10 19", "x,-,12-,3000000,14"), Some(9));
        assert_eq!(free_ports("20 10", ""), Some(0));
        assert_eq!(free_ports("0 65535", ""), Some(65_536));
        for text in ["", "10", "10 x", "10 70000"] {
            assert_eq!(free_ports(text, ""), None, "{text:?}");
        }
    }

    #[test]
    fn memory_and_the_list_of_cpus_are_read() {
        let meminfo = "MemFree:  9 kB\nMemAvailable:    1736 kB\nBuffers:  8 kB\n";
        assert_eq!(kilobytes(meminfo, "MemAvailable"), Some(1736 * 1024));
        for text in ["Mem: 1 MB", "Mem: 1", "Mem: 18446744073709551615 kB", "MemFree: 1 kB", ""] {
            assert_eq!(kilobytes(text, "Mem"), None, "{text:?}");
        }
        assert_eq!(cpus_allowed("Cpus_allowed:\tff\nCpus_allowed_list:\t0-3,8\n"), Some(5));
        assert_eq!((cpus_allowed("Cpus_allowed_list:\t\n"), cpus_allowed("")), (None, None));
    }

    #[test]
    fn a_quota_of_max_or_minus_one_is_no_limit() {
        assert_eq!(cpu_max("150000 100000\n"), Some(1.5));
        assert_eq!((quotient("50000\n", "100000\n"), quotient("-1\n", "100000\n")), (Some(0.5), None));
        for text in ["max 100000\n", "", "1", "0 100000", "1 0", "x y"] {
            assert_eq!(cpu_max(text), None, "{text:?}");
        }
        let stat = "usage_usec 5\nthrottled_usec 77\nnr_bursts 0\n";
        assert_eq!((field(stat, "throttled_usec"), field(stat, "throttled")), (Some(77), None));
        assert_eq!(field("throttled_usec\n", "throttled_usec"), None);
    }
}
