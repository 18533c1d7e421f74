//! TUN devices: a network interface on one side, a descriptor that reads and writes its packets on the other.
//!
//! The device speaks IFF_VNET_HDR with TCP segmentation and checksum offload, so that a read or a write moves a
//! super-packet of up to 64 KiB. Each frame is a virtio-net header of [`VNET`] bytes and an IP packet. The device
//! vanishes when its descriptor is closed, even if the process is killed.

use crate::{Result, SysError};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::io::IoSlice;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// Length in bytes of the virtio-net header before each packet: the legacy header, without a count of merged buffers.
pub const VNET: usize = 10;

/// Maximum length in bytes of a frame: the header and an IP packet of 64 KiB.
pub const FRAME_MAX: usize = VNET + 65_536;

/// A TUN device. It exists until this is dropped.
#[derive(Debug)]
pub struct Tun {
    fd: OwnedFd,
}

/// Why [`Tun::wait`] returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Woken {
    /// A frame can be read.
    Frame,
    /// The time is up.
    Time,
    /// The other descriptor is readable, or its other end was closed.
    Stop,
}

impl Tun {
    /// Creates the device `name`, of at most 15 bytes, in the network namespace of the calling thread. It is down and
    /// has no address yet.
    ///
    /// # Errors
    /// /dev/net/tun is missing or may not be opened, the name is taken, or the kernel lacks an offload.
    pub fn create(name: &str) -> Result<Tun> {
        let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let opened = rustix::fs::open("/dev/net/tun", flags, Mode::empty());
        let fd = opened.map_err(|errno| SysError::new("open(/dev/net/tun)", errno).hint(open_hint(errno)))?;
        let tun = Tun { fd };
        tun.set_interface(name)?;
        let size = VNET as libc::c_int;
        // SAFETY: `size` outlives the call, which reads one int from the pointer.
        let done = unsafe { libc::ioctl(tun.fd.as_raw_fd(), libc::TUNSETVNETHDRSZ, &raw const size) };
        checked(done, "ioctl(TUNSETVNETHDRSZ)")?;
        let offloads =
            libc::c_ulong::from(libc::TUN_F_CSUM | libc::TUN_F_TSO4 | libc::TUN_F_TSO6 | libc::TUN_F_TSO_ECN);
        // SAFETY: TUNSETOFFLOAD takes its flags by value.
        let done = unsafe { libc::ioctl(tun.fd.as_raw_fd(), libc::TUNSETOFFLOAD, offloads) };
        checked(done, "ioctl(TUNSETOFFLOAD, CSUM|TSO4|TSO6|TSO_ECN)")?;
        Ok(tun)
    }

    /// Reads the next frame. Returns `None` when there is none now. A frame longer than `frame` is truncated, so pass
    /// [`FRAME_MAX`] bytes.
    ///
    /// # Errors
    /// The device is gone.
    pub fn read(&self, frame: &mut [u8]) -> Result<Option<usize>> {
        match rustix::io::read(&self.fd, frame) {
            Ok(length) => Ok(Some(length)),
            // EINTR is only a delay, because the caller tries again.
            Err(Errno::AGAIN | Errno::INTR) => Ok(None),
            Err(errno) => Err(SysError::new("read(tun)", errno)),
        }
    }

    /// Sends one frame, given in parts, into the network.
    ///
    /// # Errors
    /// The kernel does not take it. EINVAL: its headers contradict each other. EIO: the interface is down.
    pub fn write(&self, parts: &[IoSlice<'_>]) -> Result<()> {
        rustix::io::writev(&self.fd, parts).map(drop).map_err(|errno| SysError::new("writev(tun)", errno))
    }

    /// Sleeps until a frame can be read, `stop` is readable, or the time is up. Without `time` there is no limit.
    ///
    /// # Errors
    /// ppoll(2) failed for another reason than a signal.
    pub fn wait(&self, stop: BorrowedFd<'_>, time: Option<Duration>) -> Result<Woken> {
        let mut fds = [PollFd::from_borrowed_fd(stop, PollFlags::IN), PollFd::new(&self.fd, PollFlags::IN)];
        wait_for(&mut fds, time)
    }

    /// Attaches the descriptor to the interface `name` (TUNSETIFF).
    fn set_interface(&self, name: &str) -> Result<()> {
        // SAFETY: ifreq is made of integers and unions of them, for which all zeroes is a value.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        // The last byte stays 0, because it ends the name.
        let room = request.ifr_name.len() - 1;
        for (to, from) in request.ifr_name[..room].iter_mut().zip(name.bytes()) {
            *to = from as libc::c_char;
        }
        request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI | libc::IFF_VNET_HDR) as libc::c_short;
        // SAFETY: `request` outlives the call, which reads and writes one ifreq.
        let done = unsafe { libc::ioctl(self.fd.as_raw_fd(), libc::TUNSETIFF, &raw mut request) };
        let hint = "making a TUN device needs CAP_NET_ADMIN: run as root or in a user namespace";
        checked(done, &format!("ioctl(TUNSETIFF, {name:?})")).map_err(|err| err.hint(hint))
    }
}

impl AsFd for Tun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Sleeps until `stop` is readable or the time is up. Devices do not wake it.
///
/// # Errors
/// ppoll(2) failed for another reason than a signal.
pub fn pause(stop: BorrowedFd<'_>, time: Duration) -> Result<Woken> {
    wait_for(&mut [PollFd::from_borrowed_fd(stop, PollFlags::IN)], Some(time))
}

/// Makes the calling thread's timeouts end when they are due. Otherwise the kernel may end them 50 microseconds late to
/// save wake-ups (prctl(2), PR_SET_TIMERSLACK).
///
/// # Errors
/// prctl(2) failed.
pub fn precise_timeouts() -> Result<()> {
    let nanoseconds: libc::c_ulong = 1;
    // SAFETY: PR_SET_TIMERSLACK takes its argument by value.
    let done = unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, nanoseconds) };
    checked(done, "prctl(PR_SET_TIMERSLACK, 1)")
}

/// Raises the priority of the calling thread, so that an emulated line does not wait for a processor. Returns whether
/// that was allowed (CAP_SYS_NICE).
pub fn run_before_others() -> bool {
    // setpriority(2): on Linux it affects only the calling thread.
    rustix::process::setpriority_process(None, LINE_PRIORITY).is_ok()
}

/// Calls ppoll(2) on `stop`, the first of `fds`, and a device.
fn wait_for(fds: &mut [PollFd<'_>], time: Option<Duration>) -> Result<Woken> {
    let timeout = time.map(|time| Timespec { tv_sec: time.as_secs() as i64, tv_nsec: time.subsec_nanos().into() });
    match poll(fds, timeout.as_ref()) {
        Ok(_) | Err(Errno::INTR) => {}
        Err(errno) => return Err(SysError::new("ppoll(tun)", errno)),
    }
    let first = fds.iter().position(|fd| !fd.revents().is_empty());
    Ok(match first {
        Some(0) => Woken::Stop,
        Some(_) => Woken::Frame,
        None => Woken::Time,
    })
}

fn open_hint(errno: Errno) -> &'static str {
    match errno {
        Errno::NOENT => "no TUN driver here: modprobe tun; in a container, give it --device /dev/net/tun",
        Errno::NODEV | Errno::NXIO => "no TUN driver in this kernel: modprobe tun",
        Errno::ACCESS | Errno::PERM => "run as root, or chmod 666 /dev/net/tun, as udev does by default",
        _ => "",
    }
}

fn checked(done: libc::c_int, call: &str) -> Result<()> {
    if done < 0 { Err(SysError::last(call)) } else { Ok(()) }
}

/// Nice value, three quarters of the way to the most urgent.
const LINE_PRIORITY: i32 = -15;
