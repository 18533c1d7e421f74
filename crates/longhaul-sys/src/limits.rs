//! Limits of this process: descriptors, pipe pages, buffer maxima.

use crate::{Result, SysError};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::ops::RangeInclusive;

/// Raises the soft limit of descriptors to the hard one and returns the new limit. A daemon that calls this needs no
/// `ulimit -n` before its start.
///
/// # Errors
/// EPERM if a security module forbids it.
pub fn raise_nofile() -> Result<u64> {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    setrlimit(Resource::Nofile, raised).map_err(|errno| SysError::new("setrlimit(RLIMIT_NOFILE)", errno))?;
    Ok(limit.maximum.unwrap_or(u64::MAX))
}

/// Returns the number of open descriptors.
///
/// # Errors
/// /proc is not mounted.
pub fn open_descriptors() -> Result<usize> {
    // proc_pid_fd(5): since Linux 6.2 the size of the directory is the number of descriptors. Before, it is 0.
    if let Some(number) = std::fs::metadata(OPEN_DESCRIPTORS).ok().map(|folder| folder.len()).filter(|size| *size > 0) {
        return Ok(usize::try_from(number).unwrap_or(usize::MAX));
    }
    let entries = std::fs::read_dir(OPEN_DESCRIPTORS).map_err(|err| SysError {
        call: format!("opendir({OPEN_DESCRIPTORS})"),
        errno: err.raw_os_error().unwrap_or(libc::EIO),
        hint: "mount /proc".into(),
    })?;
    Ok(entries.count().saturating_sub(1)) // without the one that reads the directory
}

/// Returns the number of pages that all pipes of an ordinary user may have before new pipes shrink to two (pipe(7)
/// `/proc/sys/fs/pipe-user-pages-soft`). Returns `None` if this process has no such limit: it has CAP_SYS_RESOURCE or
/// CAP_SYS_ADMIN, or the limit is off.
pub fn pipe_pages_soft() -> Option<u64> {
    let limit: u64 = sysctl("fs/pipe-user-pages-soft")?.parse().ok()?;
    let exempt = has_capability(Capability::SysResource) || has_capability(Capability::SysAdmin);
    (limit != 0 && !exempt).then_some(limit)
}

/// Returns the maximum number of slots of a pipe of this process: the pages of `fs.pipe-max-size` (pipe(7)), by default
/// 256 of 4 KiB or 16 of 64 KiB. Returns `None` with CAP_SYS_RESOURCE.
pub fn pipe_max_slots() -> Option<u32> {
    let bytes: usize = sysctl("fs/pipe-max-size")?.parse().ok()?;
    (!has_capability(Capability::SysResource)).then(|| pages(bytes, page_size()))
}

/// Returns the size of a page in bytes. One slot of a pipe counts as a page (F_SETPIPE_SZ).
pub fn page_size() -> usize {
    rustix::param::page_size()
}

/// Returns how many pages of `page` bytes are in `bytes`.
pub(crate) fn pages(bytes: usize, page: usize) -> u32 {
    u32::try_from(bytes / page).unwrap_or(u32::MAX)
}

/// The largest buffers that autotuning may give a TCP socket (tcp(7)), in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpBufferMaxima {
    /// Receive buffer: the third number of net.ipv4.tcp_rmem.
    pub receive: u64,
    /// Send buffer: the third number of net.ipv4.tcp_wmem.
    pub send: u64,
}

/// Returns the largest buffers that autotuning may give a TCP socket. Returns `None` if /proc/sys does not show them.
pub fn tcp_buffer_maxima() -> Option<TcpBufferMaxima> {
    let third = |name| sysctl(name)?.split_whitespace().nth(2)?.parse().ok();
    Some(TcpBufferMaxima { receive: third("net/ipv4/tcp_rmem")?, send: third("net/ipv4/tcp_wmem")? })
}

/// Returns the ports from which the kernel chooses when the program names none (ip(7) ip_local_port_range), in the
/// network namespace of the calling thread. Returns every port if /proc/sys does not show them.
pub fn local_ports() -> RangeInclusive<u16> {
    let read = || {
        let text = sysctl("net/ipv4/ip_local_port_range")?;
        let mut ports = text.split_whitespace().map(str::parse);
        Some(ports.next()?.ok()?..=ports.next()?.ok()?)
    };
    read().unwrap_or(0..=u16::MAX)
}

/// Whether this process has the capability in its effective set. True if that cannot be read, because then the answer
/// is unknown.
pub fn has_capability(capability: Capability) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    // proc(5) status: CapEff, hexadecimal.
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    effective
        .and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok())
        .is_none_or(|set| set >> capability as u32 & 1 == 1)
}

/// Returns the value of a sysctl, named by its path below /proc/sys, such as `net/core/wmem_max`. Returns `None` if
/// there is no such file.
pub fn sysctl(name: &str) -> Option<String> {
    std::fs::read_to_string(format!("/proc/sys/{name}")).ok().map(|text| text.trim().to_string())
}

/// The capabilities that longhaul checks (capabilities(7)), by their numbers in linux/capability.h.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capability {
    /// CAP_NET_BIND_SERVICE: `listen` below port 1024.
    NetBindService = 10,
    /// CAP_NET_ADMIN: marks, buffers beyond the sysctls, any congestion control.
    NetAdmin = 12,
    /// CAP_SYS_ADMIN: exempt from limits.
    SysAdmin = 21,
    /// CAP_SYS_RESOURCE: exempt from limits.
    SysResource = 24,
}

const OPEN_DESCRIPTORS: &str = "/proc/self/fd";

#[cfg(test)]
mod tests {
    use super::*;

    /// 1 MiB is the default of fs.pipe-max-size.
    #[test]
    fn a_pipe_has_fewer_slots_where_pages_are_larger() {
        assert_eq!((pages(1 << 20, 4096), pages(1 << 20, 65536)), (256, 16));
        assert_eq!((pages(65535, 65536), pages(usize::MAX, 4096)), (0, u32::MAX));
    }

    #[test]
    fn limits_are_what_the_kernel_says() {
        let before = open_descriptors().unwrap();
        let pipe = crate::splice::Pipe::new().unwrap();
        // Other tests of this process open descriptors too, so only a lower bound is certain.
        assert!(before >= 3 && pipe.slots() >= 2);
        assert!(raise_nofile().unwrap() >= before as u64);
        let maxima = tcp_buffer_maxima().unwrap();
        assert!(maxima.receive > 4096 && maxima.send > 4096);
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        assert!(local_ports().contains(&port));
    }
}
