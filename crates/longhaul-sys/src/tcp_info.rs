//! State of a connection in the kernel: TCP_INFO (tcp(7), linux/tcp.h `struct tcp_info`).
//!
//! The struct has grown with every kernel. It is read by offset from the bytes that this kernel has filled in. So a
//! field that an old kernel does not have is 0, and nothing depends on the size of a C struct.

use crate::{Result, SysError};
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::OnceLock;
use std::time::Duration;

/// State of a connection at one moment, as the kernel reports it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpInfo {
    /// State of the connection (RFC 9293 3.3.2).
    pub state: State,
    /// State of the congestion control, `enum tcp_ca_state` of `linux/tcp.h`: 0 without losses, 3 in recovery.
    pub ca_state: u8,
    /// Probes (keepalive or window) sent since the peer last acknowledged anything.
    pub probes: u8,
    /// Retransmission timeout: the time after which the kernel sends unacknowledged bytes again (RFC 6298).
    pub rto: Duration,
    /// Whether each segment carries timestamps, which take 12 bytes of it (RFC 7323).
    pub has_timestamps: bool,
    /// Number of timeouts in a row after which the oldest bytes were sent again. 0 after an acknowledgement.
    pub backoff: u8,
    /// Payload bytes of a full segment that we send.
    pub snd_mss: u32,
    /// Segments sent and not yet acknowledged.
    pub unacked_segments: u32,
    /// Number of those that the peer has reported by SACK; without SACK, an estimate from duplicate acknowledgements.
    pub sacked_segments: u32,
    /// Time since payload was last sent.
    pub last_data_sent: Duration,
    /// Time since payload was last received.
    pub last_data_received: Duration,
    /// Time since an acknowledgement was last received.
    pub last_ack_received: Duration,
    /// Smoothed round-trip time; zero when it was never measured.
    pub rtt: Duration,
    /// Mean deviation of the round-trip time (RFC 6298).
    pub rtt_var: Duration,
    /// The smallest round-trip time seen (kernel 4.6).
    pub min_rtt: Duration,
    /// Congestion window at which slow start ends, in segments; 2^31 - 1 before the first loss.
    pub snd_ssthresh: u32,
    /// Congestion window, in segments.
    pub snd_cwnd: u32,
    /// Round-trip time measured by payload that arrives; zero when it was never measured.
    pub rcv_rtt: Duration,
    /// Number of bytes that the program read in the best round trip so far, which the kernel's receive autotuning goes by.
    /// At first the window of the handshake.
    pub rcv_space: u32,
    /// Rate at which the kernel paces the segments, in bytes per second (3.15). At most the next one.
    pub pacing_rate: u64,
    /// Largest pacing rate, SO_MAX_PACING_RATE, in bytes per second (3.15). `None` means that none is set.
    pub max_pacing_rate: Option<u64>,
    /// Bytes that the peer acknowledged; a FIN counts as one, and so does the SYN of a connection that we made (4.1).
    pub bytes_acked: u64,
    /// Payload bytes received, read or not; a FIN counts as one byte (4.1).
    pub bytes_received: u64,
    /// Segments received, those without payload too. Wraps around.
    pub segments_received: u32,
    /// Payload bytes retransmitted (4.19).
    pub bytes_retrans: u64,
    /// Bytes written by the program and not yet sent; a FIN counts as one byte (4.6).
    pub notsent_bytes: u32,
    /// The latest delivery rate, in bytes per second (4.9).
    pub delivery_rate: u64,
    /// Whether the sender had less to send than the path could take while `delivery_rate` was measured. The rate then
    /// says nothing about the path (4.9). True before the first measurement.
    pub is_app_limited: bool,
    /// Time with data in flight. Includes the next two (4.10).
    pub busy_time: Duration,
    /// Time during which the peer's receive window limited the sender (4.10).
    pub rwnd_limited: Duration,
    /// Time during which our send buffer limited the sender (4.10).
    pub sndbuf_limited: Duration,
    /// Number of duplicates that the peer reported by DSACK: segments that were sent again for nothing (RFC 2883; 4.19).
    pub dsack_dups: u32,
    /// Number of times that reordering was seen (4.19).
    pub reorderings: u32,
    /// Number of segments received out of order, because others before them were lost or came later (5.4).
    pub out_of_order: u32,
    /// The peer's advertised window, scaled, in bytes (5.4).
    pub snd_wnd: u32,
    /// The peer's window scale (RFC 7323 2.2). `None` if the handshake agreed on none.
    pub snd_wscale: Option<u8>,
}

/// The state of a connection, as in `include/net/tcp_states.h`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum State {
    /// Neither side has sent FIN.
    Established,
    /// Our FIN is not acknowledged. The peer has sent none.
    FinWait1,
    /// Our FIN is acknowledged. The peer has sent none.
    FinWait2,
    /// The peer has sent FIN. We have not.
    CloseWait,
    /// The peer has sent FIN, then we have. Ours is not acknowledged.
    LastAck,
    /// We have sent FIN, then the peer has. Ours is not acknowledged.
    Closing,
    /// The connection is gone: both FINs are acknowledged, or it was reset or given up.
    Closed,
    /// A state without data: the handshake has not ended, or the socket listens.
    #[default]
    Other,
}

impl State {
    fn of(number: u8) -> State {
        match number {
            1 => State::Established,
            4 => State::FinWait1,
            5 => State::FinWait2,
            8 => State::CloseWait,
            9 => State::LastAck,
            11 => State::Closing,
            // 6 is TIME_WAIT. The kernel keeps it elsewhere, so no socket is ever seen in it.
            6 | 7 => State::Closed,
            _ => State::Other,
        }
    }
}

impl TcpInfo {
    /// Returns the MSS that the two ends agreed on (RFC 9293, 3.7.1): the payload of a full segment, and its timestamps.
    pub fn mss(&self) -> u32 {
        self.snd_mss + if self.has_timestamps { 12 } else { 0 }
    }

    /// Whether this kernel fills in [`bytes_retrans`](TcpInfo::bytes_retrans): since Linux 4.19. False if no socket can be made.
    pub fn tells_retransmitted_bytes() -> bool {
        TcpInfo::length().is_some_and(|length| length >= 216)
    }

    /// Returns how many bytes of TCP_INFO this kernel fills in. `None` if no socket can be made. The first answer holds.
    pub fn length() -> Option<usize> {
        static ANSWER: OnceLock<Option<usize>> = OnceLock::new();
        *ANSWER.get_or_init(|| {
            let socket = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).ok()?;
            TcpInfo::read(socket.as_fd()).ok().map(|(_, length)| length)
        })
    }

    /// Reads TCP_INFO of `socket`.
    ///
    /// # Errors
    /// ENOPROTOOPT, EOPNOTSUPP: not a TCP socket.
    pub fn of(socket: BorrowedFd<'_>) -> Result<TcpInfo> {
        TcpInfo::read(socket).map(|(raw, _)| TcpInfo::parse(&raw))
    }

    /// Returns the bytes of TCP_INFO, and how many of them this kernel has filled in.
    fn read(socket: BorrowedFd<'_>) -> Result<([u8; 256], usize)> {
        let mut raw = [0u8; 256];
        let mut len = raw.len() as libc::socklen_t;
        // SAFETY: the descriptor is borrowed, so open; `raw` is writable for `len` bytes, and the kernel writes no more.
        let ret = unsafe {
            libc::getsockopt(socket.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_INFO, raw.as_mut_ptr().cast(), &mut len)
        };
        if ret == 0 { Ok((raw, len as usize)) } else { Err(SysError::last("getsockopt(TCP_INFO)")) }
    }

    /// Returns the fields of `raw`, by their offsets in `linux/tcp.h`. The kernel only ever appends fields.
    fn parse(raw: &[u8; 256]) -> TcpInfo {
        let u32_at = |at: usize| u32::from_ne_bytes([raw[at], raw[at + 1], raw[at + 2], raw[at + 3]]);
        let u64_at = |at: usize| {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(&raw[at..at + 8]);
            u64::from_ne_bytes(bytes)
        };
        let micros = |number: u64| Duration::from_micros(number);
        let millis = |number: u32| Duration::from_millis(number.into());
        // A value that was never measured is all ones (net/ipv4/tcp.c, minmax of tcp_min_rtt).
        let min_rtt = if u32_at(148) == u32::MAX { 0 } else { u32_at(148) };
        TcpInfo {
            state: State::of(raw[0]),
            ca_state: raw[1],
            probes: raw[3],
            backoff: raw[4],
            has_timestamps: raw[5] & TIMESTAMPS != 0,
            rto: micros(u32_at(8).into()),
            snd_mss: u32_at(16),
            unacked_segments: u32_at(24),
            sacked_segments: u32_at(28),
            last_data_sent: millis(u32_at(44)),
            last_data_received: millis(u32_at(52)),
            last_ack_received: millis(u32_at(56)),
            rtt: micros(u32_at(68).into()),
            rtt_var: micros(u32_at(72).into()),
            snd_ssthresh: u32_at(76),
            snd_cwnd: u32_at(80),
            rcv_rtt: micros(u32_at(92).into()),
            rcv_space: u32_at(96),
            pacing_rate: u64_at(104),
            // All bits are set without a limit (net/core/sock.c).
            max_pacing_rate: Some(u64_at(112)).filter(|rate| !matches!(*rate, 0 | u64::MAX)),
            bytes_acked: u64_at(120),
            bytes_received: u64_at(128),
            segments_received: u32_at(140),
            notsent_bytes: u32_at(144),
            min_rtt: micros(min_rtt.into()),
            delivery_rate: u64_at(160),
            is_app_limited: raw[7] & APP_LIMITED != 0,
            busy_time: micros(u64_at(168)),
            rwnd_limited: micros(u64_at(176)),
            sndbuf_limited: micros(u64_at(184)),
            bytes_retrans: u64_at(208),
            dsack_dups: u32_at(216),
            reorderings: u32_at(220),
            out_of_order: u32_at(224),
            snd_wnd: u32_at(228),
            snd_wscale: Some(first_half(raw[6])).filter(|_| raw[5] & OPTION_WSCALE != 0),
        }
    }
}

/// Bit of `tcpi_delivery_rate_app_limited`, the first bit field of its byte: the lowest bit on a little-endian machine,
/// the highest bit on a big-endian one.
const APP_LIMITED: u8 = if cfg!(target_endian = "little") { 1 } else { 1 << 7 };

/// `TCPI_OPT_TIMESTAMPS` of linux/tcp.h.
const TIMESTAMPS: u8 = 1;

/// `TCPI_OPT_WSCALE` of `linux/tcp.h`: both sides have announced a window scale.
const OPTION_WSCALE: u8 = 4;

/// Returns the first bit field of a byte with two of four bits each: the low bits on a little-endian machine, the high ones on a big-endian
/// one.
fn first_half(byte: u8) -> u8 {
    if cfg!(target_endian = "little") { byte & 0xf } else { byte >> 4 }
}

/// Returns the number of bytes written to `socket` and not yet acknowledged by the peer. A FIN that was sent counts as
/// one byte (tcp(7) SIOCOUTQ).
///
/// # Errors
/// EINVAL: a listening socket.
pub fn unacknowledged(socket: BorrowedFd<'_>) -> Result<u32> {
    queued(socket, libc::TIOCOUTQ, "ioctl(SIOCOUTQ)") // the same number
}

/// Returns the number of bytes written to `socket` and not yet sent for the first time (linux/sockios.h SIOCOUTQNSD,
/// Linux 2.6.37). A FIN that waits counts as one byte.
///
/// # Errors
/// EINVAL: a listening socket.
pub fn unsent(socket: BorrowedFd<'_>) -> Result<u32> {
    queued(socket, SIOCOUTQNSD, "ioctl(SIOCOUTQNSD)")
}

/// Asks for a number of bytes by `request`, SIOCOUTQ or SIOCOUTQNSD.
fn queued(socket: BorrowedFd<'_>, request: libc::Ioctl, call: &str) -> Result<u32> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: the descriptor is borrowed, so open; both requests write one int to the pointer.
    let ret = unsafe { libc::ioctl(socket.as_raw_fd(), request, &mut bytes) };
    if ret == 0 { Ok(bytes.max(0) as u32) } else { Err(SysError::last(call)) }
}

/// linux/sockios.h; the same number on every architecture. The libc crate does not have it.
const SIOCOUTQNSD: libc::Ioctl = 0x894B;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits;
    use std::io::{Read, Write};
    use std::os::fd::AsFd;

    #[test]
    fn bulk_is_limited_by_the_path() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let mut near = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut far = listener.accept().unwrap().0;
        near.set_nonblocking(true).unwrap();
        // Nobody reads, so more is written than the path takes. Then enough is read for the kernel to measure a rate.
        while near.write(&[7; 1 << 16]).is_ok() {}
        for _ in 0..64 {
            far.read_exact(&mut [0; 1 << 14]).unwrap();
            while near.write(&[7; 1 << 14]).is_ok() {}
        }
        let info = TcpInfo::of(near.as_fd()).unwrap();
        if !TcpInfo::tells_retransmitted_bytes() {
            return println!("SKIP: before Linux 4.9 there is no delivery rate");
        }
        assert!(!info.is_app_limited && info.delivery_rate > 0, "{info:?}");
    }

    /// Nobody reads, so a part of what was written can never be sent.
    #[test]
    fn unsent_bytes_are_those_that_were_never_sent() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let mut near = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut far = listener.accept().unwrap().0;
        assert_eq!(unsent(near.as_fd()), Ok(0));
        near.set_nonblocking(true).unwrap();
        let mut written = 0;
        while let Ok(bytes) = near.write(&[7; 1 << 16]) {
            written += bytes as u32;
        }
        let waits = unsent(near.as_fd()).unwrap();
        assert!(waits > 0 && waits < written, "{waits} of {written}");
        assert!(waits <= unacknowledged(near.as_fd()).unwrap());
        far.read_exact(&mut vec![0; written as usize]).unwrap();
        assert_eq!(unsent(near.as_fd()), Ok(0), "the reader has every byte");
    }

    #[test]
    fn counts_what_went_over_the_wire() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let mut near = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut far = listener.accept().unwrap().0;
        near.write_all(&[7; 1000]).unwrap();
        far.read_exact(&mut [0; 1000]).unwrap();
        far.write_all(b"ok").unwrap();
        near.read_exact(&mut [0; 2]).unwrap();
        let info = TcpInfo::of(near.as_fd()).unwrap();
        assert_eq!(info.bytes_acked, 1001, "the SYN counts as acknowledged");
        assert!(info.rtt > Duration::ZERO && info.rto >= Duration::from_millis(1) && info.snd_mss > 500, "{info:?}");
        assert!(info.is_app_limited || info.delivery_rate == 0, "a message is all that there was: {info:?}");
        assert!(info.snd_wnd > 1000 || TcpInfo::length().unwrap() < 232, "before Linux 5.4 it is not told: {info:?}");
        let scales = limits::sysctl("net/ipv4/tcp_window_scaling").is_none_or(|value| value != "0");
        assert_eq!(info.snd_wscale.is_some(), scales, "{info:?}");
        assert!(u64::from(info.snd_wnd) <= 65_535 << info.snd_wscale.unwrap_or(0), "{info:?}");
        assert_eq!(unacknowledged(near.as_fd()), Ok(0));
    }
}
