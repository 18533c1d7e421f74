//! Answers a probe of `longhaul verify`, as the last one of its path (docs/protocol.md): for `longhaul responder`, which dials nobody.

use crate::random;
use longhaul_core::wire::answer::{Dial, Frame, Frames, Next, PROOF_BYTES, Receipt, Report};
use longhaul_core::wire::probe::Preface;
use longhaul_core::wire::proof::{Challenge, Key};
use longhaul_sys::process;
use socket2::SockRef;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Answers the probe with `preface`, which was read, and ends the connection. `is_busy`: there is no place for it. Returns whether it was
/// echoed.
///
/// # Errors
/// The connection broke, or the prober is too slow.
pub fn answer(mut stream: &TcpStream, preface: &Preface, key: Option<&Key>, is_busy: bool) -> io::Result<bool> {
    stream.set_nonblocking(false)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let next = match key {
        Some(key) if !proves(stream, preface, key)? => Next::Unproven,
        _ if is_busy => Next::Busy,
        _ => Next::Echo,
    };
    stream.write_all(&Frame::Report(report(preface, next)).bytes())?;
    if next == Next::Echo {
        let receipt = echo(stream, preface)?;
        stream.write_all(&Frame::Receipt(receipt).bytes())?;
    }
    // FIN instead of RST, which would overtake the last frame.
    let _ = SockRef::from(stream).set_linger(None);
    stream.shutdown(Shutdown::Write)?;
    Ok(next == Next::Echo)
}

/// Asks for the proof of `key`. Returns whether it is right.
fn proves(mut stream: &TcpStream, preface: &Preface, key: &Key) -> io::Result<bool> {
    let challenge = Challenge { nonce: preface.nonce, hops: preface.hops, random: random()? };
    stream.write_all(&Frame::Challenge(challenge).bytes())?;
    let mut bytes = [0; PROOF_BYTES];
    stream.read_exact(&mut bytes)?;
    let mut frames = Frames::default();
    let found = bytes.into_iter().find_map(|byte| frames.take(byte).unwrap_or_default());
    Ok(matches!(found, Some(Frame::Proof(proof)) if key.proves(&proof.mac, &challenge, preface)))
}

/// Sends the bytes back that come.
fn echo(mut stream: &TcpStream, preface: &Preface) -> io::Result<Receipt> {
    let (mut buffer, mut echoed, mut checksum) = (vec![0; BUFFER], 0u32, 0);
    let (began, mut first) = (Instant::now(), None);
    while echoed < preface.echo_bytes {
        if began.elapsed() > ANSWER_TIME {
            return Err(ErrorKind::TimedOut.into());
        }
        let room = (preface.echo_bytes - echoed).min(BUFFER as u32) as usize;
        let got = stream.read(&mut buffer[..room])?;
        if got == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        first.get_or_insert_with(Instant::now);
        checksum = crc32c::crc32c_append(checksum, &buffer[..got]);
        echoed += got as u32;
        stream.write_all(&buffer[..got])?;
    }
    let time = first.map_or(Duration::ZERO, |first: Instant| first.elapsed());
    let time_us = u32::try_from(time.as_micros()).unwrap_or(u32::MAX);
    Ok(Receipt { nonce: preface.nonce, bytes: echoed, checksum, time_us })
}

fn report(preface: &Preface, next: Next) -> Report {
    // Whoever has not proved the key is told nothing of this host.
    let is_told = next != Next::Unproven;
    let clock = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let text = |text: &str| if is_told { text.to_string() } else { String::new() };
    Report {
        nonce: preface.nonce,
        hops: preface.hops,
        dial: Dial::NotDialled,
        next,
        clock_us: if is_told { u64::try_from(clock.as_micros()).unwrap_or_default() } else { 0 },
        dial_us: 0,
        rtt_us: 0,
        echo_bytes: if next == Next::Echo { preface.echo_bytes } else { 0 },
        name: text(&process::hostname()),
        version: text(env!("CARGO_PKG_VERSION")),
        next_hop: String::new(),
        why: String::new(),
    }
}

/// Time for each piece, and for the proof of the key.
const PATIENCE: Duration = Duration::from_secs(10);
/// Time for the echo.
const ANSWER_TIME: Duration = Duration::from_secs(120);
const BUFFER: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::thread;

    /// Answers on one end of a connection; returns the other one.
    fn answered(echo_bytes: u32, key: Option<&'static [u8]>, is_busy: bool) -> TcpStream {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let far = listener.accept().unwrap().0;
        thread::spawn(move || {
            let key = key.map(|key| Key::new(key).unwrap());
            answer(&far, &Preface { hops: 0, echo_bytes, nonce: [7; 16] }, key.as_ref(), is_busy)
        });
        near
    }

    /// Reads up to the end. Returns the frames, and the other bytes.
    fn read(mut stream: &TcpStream) -> (Vec<Frame>, usize) {
        let (mut bytes, mut found) = (Vec::new(), Vec::new());
        stream.read_to_end(&mut bytes).unwrap();
        let mut frames = Frames::default();
        found.extend(bytes.iter().filter_map(|byte| frames.take(*byte).unwrap()));
        let of_frames: usize = found.iter().map(|frame: &Frame| frame.bytes().len()).sum();
        (found, bytes.len() - of_frames)
    }

    #[test]
    fn a_probe_gets_its_report_its_bytes_and_a_receipt() {
        let mut near = answered(100_000, None, false);
        near.write_all(&[9; 100_000]).unwrap();
        let (frames, echoed) = read(&near);
        let [Frame::Report(report), Frame::Receipt(receipt)] = &frames[..] else { panic!("{frames:?}") };
        assert_eq!((report.next, report.dial, report.echo_bytes), (Next::Echo, Dial::NotDialled, 100_000));
        assert_eq!((echoed, receipt.bytes, receipt.checksum), (100_000, 100_000, crc32c::crc32c(&[9; 100_000])));
    }

    #[test]
    fn without_a_place_or_the_key_there_is_only_a_report() {
        let (frames, echoed) = read(&answered(10, None, true));
        assert!(matches!(&frames[..], [Frame::Report(Report { next: Next::Busy, echo_bytes: 0, .. })]) && echoed == 0);
        let mut near = answered(10, Some(b"0123456789abcdef"), false);
        near.write_all(&[1; PROOF_BYTES]).unwrap();
        let (frames, _) = read(&near);
        let [Frame::Challenge(_), Frame::Report(report)] = &frames[..] else { panic!("{frames:?}") };
        assert_eq!((report.next, report.name.as_str()), (Next::Unproven, ""));
    }
}
