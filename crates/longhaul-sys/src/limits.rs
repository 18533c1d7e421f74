//! Limits of this process: descriptors, pipe pages, buffer maxima. Read at start, respected and reported.

use crate::{Result, SysError};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::ops::RangeInclusive;

/// Raises the soft limit of descriptors to the hard one and returns the new limit. A daemon that asks for it needs no
/// `ulimit -n` before it.
///
/// # Errors
/// EPERM where a security module forbids it.
pub fn raise_nofile() -> Result<u64> {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    setrlimit(Resource::Nofile, raised).map_err(|errno| SysError::new("setrlimit(RLIMIT_NOFILE)", errno))?;
    Ok(limit.maximum.unwrap_or(u64::MAX))
}

/// Descriptors open now.
///
/// # Errors
/// /proc is not mounted.
pub fn open_descriptors() -> Result<usize> {
    let entries = std::fs::read_dir("/proc/self/fd").map_err(|err| SysError {
        call: "opendir(/proc/self/fd)".into(),
        errno: err.raw_os_error().unwrap_or(libc::EIO),
        hint: "mount /proc".into(),
    })?;
    Ok(entries.count().saturating_sub(1)) // the directory's own
}

/// Pages that all pipes of an ordinary user may have before new ones shrink to two (pipe(7)
/// `/proc/sys/fs/pipe-user-pages-soft`); `None` where nothing limits this process: it has CAP_SYS_RESOURCE or
/// CAP_SYS_ADMIN, or the limit is off.
pub fn pipe_pages_soft() -> Option<u64> {
    let limit: u64 = sysctl("fs/pipe-user-pages-soft")?.parse().ok()?;
    let exempt = has_capability(Capability::SysResource) || has_capability(Capability::SysAdmin);
    (limit != 0 && !exempt).then_some(limit)
}

/// Slots that a pipe of this process may have: `None` with CAP_SYS_RESOURCE, else the pages of `fs.pipe-max-size` (pipe(7)),
/// of which there are 256 of 4 KiB and 16 of 64 KiB by default.
pub fn pipe_max_slots() -> Option<u32> {
    let bytes: usize = sysctl("fs/pipe-max-size")?.parse().ok()?;
    (!has_capability(Capability::SysResource)).then(|| u32::try_from(bytes / page_size()).unwrap_or(u32::MAX))
}

/// Bytes of a page: what one slot of a pipe counts for (F_SETPIPE_SZ).
pub fn page_size() -> usize {
    rustix::param::page_size()
}

/// The largest buffers that autotuning may give a TCP socket, in bytes: `(tcp_rmem[2], tcp_wmem[2])` (tcp(7)).
/// `None` where /proc/sys does not show them.
pub fn tcp_buffer_maxima() -> Option<(u64, u64)> {
    let third = |name| sysctl(name)?.split_whitespace().nth(2)?.parse().ok();
    Some((third("net/ipv4/tcp_rmem")?, third("net/ipv4/tcp_wmem")?))
}

/// The ports from which the kernel chooses when nobody names one (ip(7) ip_local_port_range), in the network namespace of
/// the calling thread; every port where /proc/sys does not show them.
pub fn local_ports() -> RangeInclusive<u16> {
    let read = || {
        let text = sysctl("net/ipv4/ip_local_port_range")?;
        let mut ports = text.split_whitespace().map(str::parse);
        Some(ports.next()?.ok()?..=ports.next()?.ok()?)
    };
    read().unwrap_or(0..=u16::MAX)
}

/// Whether this process has the capability, in its effective set. Where that cannot be read, nobody can say no: true.
pub fn has_capability(capability: Capability) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    // proc(5) status: CapEff, hexadecimal.
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    effective
        .and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok())
        .is_none_or(|set| set >> capability as u32 & 1 == 1)
}

/// Returns the value of a sysctl, by its path below /proc/sys: `net/core/wmem_max`. `None` where there is no such file.
pub fn sysctl(name: &str) -> Option<String> {
    std::fs::read_to_string(format!("/proc/sys/{name}")).ok().map(|text| text.trim().to_string())
}

/// The capabilities that longhaul asks about (capabilities(7)), by their numbers in linux/capability.h.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capability {
    /// `listen` below port 1024.
    NetBindService = 10,
    /// Marks, buffers beyond the sysctls, any congestion control.
    NetAdmin = 12,
    /// CAP_SYS_ADMIN: limits do not bind.
    SysAdmin = 21,
    /// CAP_SYS_RESOURCE: limits do not bind.
    SysResource = 24,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_what_the_kernel_says() {
        let before = open_descriptors().unwrap();
        let pipe = crate::splice::Pipe::new().unwrap();
        // Other tests of this process open descriptors too, so only a lower bound holds.
        assert!(before >= 3 && pipe.slots() >= 2);
        assert!(raise_nofile().unwrap() >= before as u64);
        let (rmem, wmem) = tcp_buffer_maxima().unwrap();
        assert!(rmem > 4096 && wmem > 4096);
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        assert!(local_ports().contains(&port));
    }
}
