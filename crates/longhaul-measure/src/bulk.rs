//! Bulk on one connection of a run: the sender and the receiver.
//!
//! The sender always has bytes, so whatever holds it back is the path, a window or a buffer. It ends with RST: bytes that wait in a
//! queue of the path would make the end of a run last.

use crate::look::{Look, sample};
use crate::message::{Ran, Run};
use crate::talk::TICK;
use longhaul_core::path::Sample;
use longhaul_sys::cgroup;
use longhaul_sys::poll;
use longhaul_sys::sockopt;
use longhaul_sys::tcp_info::TcpInfo;
use socket2::SockRef;
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

/// Prepares `stream` to send its part of `run`.
///
/// # Errors
/// The kernel refuses the congestion control or the rate.
pub fn prepare(stream: &TcpStream, run: &Run) -> io::Result<()> {
    stream.set_nonblocking(true)?;
    if let Some(name) = &run.congestion {
        sockopt::set_congestion(stream.as_fd(), name).map_err(io::Error::other)?;
    }
    if let Some(rate) = run.max_rate {
        sockopt::set_pacing(stream.as_fd(), (rate / u64::from(run.connections)).max(1)).map_err(io::Error::other)?;
    }
    Ok(())
}

/// Sends bulk on `stream` until the run's time is over, its bytes are acknowledged, the peer ends the connection, or `stop`. Then resets it.
pub fn send(stream: &TcpStream, run: &Run, stop: &AtomicBool) -> Ran {
    let payload = payload();
    let (began, computed, throttled) = (Instant::now(), poll::thread_cpu_time(), cgroup::throttled_time());
    let until = began + Duration::from_secs_f64(run.seconds);
    let max_bytes = run.max_bytes / u64::from(run.connections);
    let mut ran = Ran { number: run.number, ..Ran::default() };
    let mut next_look = began;
    let mut is_blocked = false;
    while !stop.load(Relaxed) && (ran.bytes < max_bytes || ran.acked < max_bytes) {
        let now = Instant::now();
        if now >= next_look {
            next_look = now + BETWEEN_LOOKS;
            ran.look(stream, now - began, is_blocked);
        }
        if now >= until {
            break;
        }
        let room = usize::try_from(max_bytes - ran.bytes).unwrap_or(usize::MAX).min(payload.len());
        if room == 0 {
            // The last bytes are on the way.
            thread::sleep(next_look.min(until).saturating_duration_since(now));
            continue;
        }
        is_blocked = false;
        match { stream }.write(&payload[..room]) {
            Ok(sent) => ran.bytes += sent as u64,
            Err(err) if err.kind() == ErrorKind::WouldBlock => {
                is_blocked = true;
                let wait = next_look.min(until).saturating_duration_since(now);
                // An error of the wait is one of the socket, which the next write has, too.
                let _ = poll::writable(stream.as_fd(), wait);
            }
            Err(err) if err.kind() == ErrorKind::Interrupted => {}
            Err(_) => break,
        }
    }
    ran.look(stream, began.elapsed(), is_blocked);
    ran.congestion = sockopt::congestion(stream.as_fd()).unwrap_or_default();
    ran.note_cpu(began, computed, throttled);
    reset(stream);
    ran
}

/// Receives bulk on `stream` until the peer ends it, `stop`, or the run's time and some more is over. Calls `each` with the number of
/// bytes of each read.
pub fn receive(stream: &TcpStream, run: &Run, stop: &AtomicBool, mut each: impl FnMut(u64)) -> Ran {
    let (began, computed, throttled) = (Instant::now(), poll::thread_cpu_time(), cgroup::throttled_time());
    let until = began + Duration::from_secs_f64(run.seconds) + PATIENCE;
    let mut buffer = vec![0; BUFFER];
    let mut ran = Ran { number: run.number, ..Ran::default() };
    // The sender ends there. One that goes on does not keep to what was agreed.
    let max_bytes = run.max_bytes / u64::from(run.connections);
    while !stop.load(Relaxed) && Instant::now() < until && ran.bytes <= max_bytes {
        match { stream }.read(&mut buffer) {
            Ok(0) => break,
            Ok(got) => {
                ran.bytes += got as u64;
                each(got as u64);
            }
            Err(err) if err.kind() == ErrorKind::WouldBlock => {
                let _ = poll::readable(&[stream.as_fd()], TICK);
            }
            Err(err) if err.kind() == ErrorKind::Interrupted => {}
            Err(_) => break,
        }
    }
    ran.note_cpu(began, computed, throttled);
    reset(stream);
    ran
}

impl Ran {
    /// Adds the result of another connection of the same run.
    pub fn add(&mut self, other: Ran) {
        self.bytes += other.bytes;
        self.acked += other.acked;
        self.retransmitted += other.retransmitted;
        self.cpu = self.cpu.max(other.cpu);
        self.throttled = self.throttled.max(other.throttled);
        if self.looks.is_empty() {
            (self.looks, self.congestion, self.mss) = (other.looks, other.congestion, other.mss);
        }
    }

    fn look(&mut self, stream: &TcpStream, at: Duration, is_blocked: bool) {
        // The connection may be gone.
        let Ok(info) = TcpInfo::of(stream.as_fd()) else { return };
        let sample: Sample = sample(&info);
        self.mss = info.mss();
        // After a reset, the kernel still tells what was acknowledged.
        (self.acked, self.retransmitted) = (sample.acked_bytes, sample.retransmitted_bytes);
        self.looks.push(Look::new(at, &sample, is_blocked));
    }

    fn note_cpu(&mut self, began: Instant, computed: Duration, throttled_before: Duration) {
        let lasted = began.elapsed().as_secs_f64();
        if lasted < LEAST_SECONDS {
            return;
        }
        self.cpu = (poll::thread_cpu_time().saturating_sub(computed).as_secs_f64() / lasted).min(1.0);
        self.throttled = (cgroup::throttled_time().saturating_sub(throttled_before).as_secs_f64() / lasted).min(1.0);
    }
}

/// Ends the connection with RST when its last descriptor is closed.
fn reset(stream: &TcpStream) {
    // This fails only on a connection that is gone.
    let _ = SockRef::from(stream).set_linger(Some(Duration::ZERO));
    let _ = stream.set_nonblocking(true);
}

/// Returns bytes that no box on the way can compress.
fn payload() -> Vec<u8> {
    // xorshift64 (Marsaglia, 2003).
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let words = std::iter::repeat_with(move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_ne_bytes()
    });
    words.take(BUFFER / 8).flatten().collect()
}

/// Bytes of one write or read at most.
const BUFFER: usize = 256 << 10;
/// Time from one look to the next: a decision needs eight in three seconds.
const BETWEEN_LOOKS: Duration = Duration::from_millis(100);
/// Length of a run in seconds from which on its share of the processor's time means something.
const LEAST_SECONDS: f64 = 1.0;
/// Time after the end of a run that its receiver waits for the end of a connection.
const PATIENCE: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::thread;

    #[test]
    fn a_run_ends_by_its_bytes_and_each_end_counts_them() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let far = listener.accept().unwrap().0;
        let run = Run { number: 3, connections: 1, seconds: 60.0, max_bytes: 1_000_001, ..Run::default() };
        let receiver = thread::spawn({
            let run = run.clone();
            move || {
                far.set_nonblocking(true).unwrap();
                let mut sum = 0;
                (receive(&far, &run, &AtomicBool::new(false), |bytes| sum += bytes), sum)
            }
        });
        prepare(&near, &run).unwrap();
        let sent = send(&near, &run, &AtomicBool::new(false));
        assert_eq!((sent.bytes, sent.number), (1_000_001, 3));
        assert!(sent.looks.len() >= 2 && !sent.congestion.is_empty(), "{sent:?}");
        // The end is a reset, which may discard what is on its way.
        drop(near);
        let (received, sum) = receiver.join().unwrap();
        assert!(received.bytes <= sent.bytes && received.bytes == sum);
    }

    #[test]
    fn a_receiver_takes_no_more_than_was_agreed() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let far = listener.accept().unwrap().0;
        far.set_nonblocking(true).unwrap();
        // The far end may close while it sends.
        let sending = thread::spawn(move || drop(near.write_all(&vec![7; 16 << 20])));
        let run = Run { connections: 2, seconds: 60.0, max_bytes: 20_000, ..Run::default() };
        let received = receive(&far, &run, &AtomicBool::new(false), |_| ()).bytes;
        assert!((10_001..=10_000 + BUFFER as u64).contains(&received), "{received}");
        drop(far);
        sending.join().unwrap();
    }

    #[test]
    fn a_stopped_run_ends() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        near.set_nonblocking(true).unwrap();
        let run = Run { connections: 1, seconds: 60.0, max_bytes: u64::MAX, ..Run::default() };
        assert_eq!(send(&near, &run, &AtomicBool::new(true)).bytes, 0);
        assert_eq!(receive(&near, &run, &AtomicBool::new(true), |_| ()).bytes, 0);
    }
}
