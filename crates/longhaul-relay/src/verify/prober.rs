//! The prober: a client of a tunnel that sends a preface.

use super::findings::{Echo, Findings, Relay};
use super::pattern::Pattern;
use super::plan::Plan;
use super::stream::{Lost, Patience, Reader, send};
use longhaul_core::health::{Cause, Stage, Trouble};
use longhaul_core::reload::covers_same;
use longhaul_core::wire::answer::{Dial, Frame, Next, Proof, Receipt, Report};
use longhaul_core::wire::probe::{Nonce, Preface};
use longhaul_core::wire::proof::Challenge;
use longhaul_sys::route::RouteSocket;
use longhaul_sys::sockets::has_connection;
use longhaul_units::show_duration;
use socket2::SockRef;
use std::future::pending;
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, SystemTime};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::{Instant, sleep, timeout_at};

/// Makes the probe `plan`, and returns how far it came.
pub async fn run(plan: &Plan) -> Findings {
    run_announced(plan, |_, _| ()).await
}

/// Like [`run`], and calls `announce` before each connection, with the nonce of its preface and the address that it comes
/// from. The result is dropped once the connection has ended.
///
/// A relay whose dial fails at once may reset the connection before the preface has come, so a connection that ends without
/// the report that is due is tried again. A report that the dial failed is a result: another dial would only fail, too. If a
/// relay then refuses the probe, because there were too many, the result before counts.
pub(crate) async fn run_announced<T>(plan: &Plan, announce: impl Fn(Nonce, SocketAddr) -> T) -> Findings {
    let patience = Patience::of(plan.limit, plan.total);
    let mut tries = 1;
    let mut before = None;
    loop {
        let mut findings = Findings::default();
        let trouble = walk(plan, patience, &announce, &mut findings).await.err();
        let may_be_early = trouble.as_ref().is_some_and(|trouble| trouble.is_certain && trouble.stage != Stage::Data);
        let is_reset = trouble.as_ref().is_some_and(|trouble| trouble.cause == Cause::Failed);
        let found = Findings { trouble, ..findings };
        if tries == MAX_TRIES || !may_be_early || !is_reset || found.has_last_report() {
            return before.filter(|_| found.refusal().is_some()).unwrap_or(found);
        }
        before = Some(found);
        tries += 1;
    }
}

/// Makes the probe `plan` on `stream`, a connection to the first relay, and returns how far it came. The caller closes the
/// connection, and must do so with RST if the probe has not finished.
pub(crate) async fn run_on(plan: &Plan, stream: &TcpStream) -> Findings {
    let patience = Patience::of(plan.limit, plan.total);
    let mut findings = Findings { prober: stream.local_addr().ok(), ..Findings::default() };
    let trouble = match longhaul_measure::random() {
        Ok(nonce) => converse(plan, stream, patience, nonce, &mut findings).await.err(),
        Err(err) => Some(Lost::Failed(err).at(Stage::Relay(0))),
    };
    Findings { trouble, ..findings }
}

async fn walk<T>(
    plan: &Plan,
    patience: Patience,
    announce: &impl Fn(Nonce, SocketAddr) -> T,
    findings: &mut Findings,
) -> Result<(), Trouble> {
    let first = Stage::Relay(0);
    let nonce: Nonce = longhaul_measure::random().map_err(|err| Lost::Failed(err).at(first))?;
    let start = Instant::now();
    let socket = open(plan)?;
    // A reset may come before the connected socket can be asked.
    findings.prober = socket.local_addr().ok().filter(|from| from.port() > 0);
    let _announced = findings.prober.map(|from| announce(nonce, from));
    let stream = connect(plan, socket, patience).await.map_err(|trouble| match trouble.cause {
        Cause::Failed => explain_end(trouble, plan, findings),
        Cause::Refused | Cause::NoAnswer => trouble,
    })?;
    findings.connected = Some(start.elapsed());
    findings.prober = stream.local_addr().ok().or(findings.prober);
    let talked = converse(plan, &stream, patience, nonce, findings).await;
    // A relay that asks for a key ends the flow of a prober that has none.
    if talked.is_ok() || findings.has_last_report() || findings.lacks_key {
        // This fails only on a socket that is gone.
        let _ = SockRef::from(&stream).set_linger(None);
    }
    talked
}

/// Sends the preface on `stream`, and notes what comes back.
async fn converse(
    plan: &Plan,
    stream: &TcpStream,
    patience: Patience,
    nonce: Nonce,
    findings: &mut Findings,
) -> Result<(), Trouble> {
    let preface = Preface { hops: plan.hops, echo_bytes: plan.echo_bytes, nonce };
    let sent = Instant::now();
    // The tunnel may have reset the connection already. The first read reports why.
    let _ = send(stream, &[&plan.header[..], &preface.bytes()].concat(), patience).await;
    let mut reader = Reader::new(stream, patience);
    loop {
        let at = findings.relays.len();
        let mut was_asked = false;
        let mut deadline = patience.deadline();
        let report = loop {
            match reader.frame(deadline).await {
                Ok(Frame::Report(report)) if report.nonce == nonce => break report,
                // A relay asks once.
                Ok(Frame::Challenge(challenge)) if challenge.nonce == nonce && !was_asked => {
                    was_asked = true;
                    findings.lacks_key = plan.key.is_none();
                    let proof = prove(plan, &challenge, at)?;
                    // If this fails, the next read reports why.
                    let _ = send(stream, &proof, patience).await;
                    deadline = patience.deadline();
                }
                Ok(_) => {}
                Err(lost) => return Err(explain(lost, Stage::Relay(at), plan, findings)),
            }
        };
        let clock_ahead_us = i64::try_from(report.clock_us).unwrap_or(i64::MAX).saturating_sub(clock_us());
        findings.came_back = comes_back(plan, &report).await;
        let round = findings.came_back.map(|to| round(&report, to, at));
        let (next, trouble) = (report.next, round.or_else(|| trouble_of(&report, at)));
        findings.relays.push(Relay { report, after: sent.elapsed(), clock_ahead_us });
        match (trouble, next) {
            (Some(trouble), _) => return Err(trouble),
            (None, Next::Echo) => break,
            (None, _) if at > usize::from(plan.hops) => {
                return Err(uncertain(Stage::Relay(at), "it passes probes on that have no hops to go"));
            }
            (None, _) => {}
        }
    }
    let last = Stage::Relay(findings.relays.len().saturating_sub(1));
    findings.echo = Some(echo(plan, stream, reader, &nonce, last).await?);
    Ok(())
}

/// Returns the proof for the challenge of the relay `at`.
fn prove(plan: &Plan, challenge: &Challenge, at: usize) -> Result<Vec<u8>, Trouble> {
    let Some(key) = &plan.key else {
        let flag = if plan.is_own { "" } else { ", or pass --key-file" };
        let why = format!("it answers only who proves its key; write `[probe] key_file`{flag}");
        return Err(uncertain(Stage::Relay(at), &why));
    };
    let mac = key.prove(challenge, plan.echo_bytes);
    Ok(Frame::Proof(Proof { nonce: challenge.nonce, mac }).bytes())
}

/// Opens the prober's socket, on the listener's host with the listener's own address, which `allow` can name. By itself the kernel
/// takes the primary address to reach a secondary one, and 127.0.0.1 to reach another loopback address. The socket's close
/// sends RST: behind a FIN, the flow of an unfinished probe would last as long as a next hop hangs, and fill the tunnel.
///
/// # Errors
/// There is no socket or port for it, or the daemon's own probe would go to the listener of another host.
fn open(plan: &Plan) -> Result<TcpSocket, Trouble> {
    let first = Stage::Relay(0);
    // bind(2) would not tell where net.ipv4.ip_nonlocal_bind is 1.
    let is_here = RouteSocket::new().and_then(|mut routes| routes.is_here(plan.address)).unwrap_or(true);
    if plan.is_own && !is_here {
        return Err(uncertain(first, &format!("{} is not an address of this host now", plan.address.ip())));
    }
    let mut from = plan.address; // with its zone
    from.set_port(0);
    let socket = if from.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() };
    let bound = socket.and_then(|socket| {
        SockRef::from(&socket).set_linger(Some(Duration::ZERO))?;
        if is_here {
            socket.bind(from)?;
        }
        Ok(socket)
    });
    // Such as no free port or descriptor: this says nothing about the tunnel.
    bound.map_err(|err| uncertain(first, &format!("no socket at {}: {err}", from.ip())))
}

async fn connect(plan: &Plan, socket: TcpSocket, patience: Patience) -> Result<TcpStream, Trouble> {
    let trouble = |cause, why| Trouble { stage: Stage::Relay(0), cause, why, is_certain: true };
    let stream = match timeout_at(patience.deadline(), socket.connect(plan.address)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(err)) if err.kind() == io::ErrorKind::ConnectionRefused => {
            let why = format!("nobody listens on {}: longhaul does not run, or it drains", plan.address);
            return Err(trouble(Cause::Refused, why));
        }
        Ok(Err(err)) => return Err(trouble(Cause::Failed, format!("connect to {}: {err}", plan.address))),
        Err(_) => {
            let why = format!(
                "{} did not accept in {}; it hangs, or a firewall drops the connection",
                plan.address,
                show_duration(plan.limit)
            );
            return Err(trouble(Cause::NoAnswer, why));
        }
    };
    // A small message must not wait for the acknowledgement of the one before it. This fails only on a connection that is
    // gone.
    let _ = stream.set_nodelay(true);
    Ok(stream)
}

/// Returns the trouble that the relay at `stage` did not report because of `lost`.
fn explain(lost: Lost, stage: Stage, plan: &Plan, findings: &Findings) -> Trouble {
    let advice = match (stage, &lost) {
        (Stage::Relay(0), Lost::Silent { said: true, .. }) => {
            "; does an older longhaul listen there, or another program?"
        }
        (Stage::Relay(0), Lost::Silent { .. }) => {
            "; the tunnel may be full (`max_flows`), or its dials take longer than the probe waits; or the relay hangs, or is \
             an older longhaul"
        }
        (Stage::Relay(0), _) => return explain_end(lost.at(stage), plan, findings),
        // A final host that gets the header, and says something about it, hides the fault.
        (_, Lost::Silent { said: true, .. }) if plan.has_proxy_out => {
            "; this tunnel has `proxy_out`, and whoever answers may not expect that header: does the next hop have `proxy_in`? \
             Only if the next hop is the final host, and expects it, write `verify_hops = 0` in this tunnel"
        }
        (_, Lost::Silent { said: true, .. }) => {
            "; if it is the final host or another program, write `verify_hops = 0` in this tunnel"
        }
        (_, Lost::Silent { .. }) if plan.are_known => "; it hangs, or its dials take longer: see the log of that relay",
        // Without a relay that hangs in its path, a tunnel looks whole. So this remedy has its condition first.
        (_, Lost::Silent { .. }) => {
            "; it hangs, its dials take longer, or it is no relay: see its log. Only if the next hop is the final host, \
             write `verify_hops = 0` in this tunnel"
        }
        _ => {
            "; see the log of that relay: does its `allow` contain this one? Do `proxy_out` here and `proxy_in` there agree?"
        }
    };
    let mut trouble = lost.at(stage);
    trouble.why += advice;
    trouble
}

/// Returns `trouble`, which is that the first relay ended the connection, with the reason or where to find it. Of a host that is not in
/// `allow`, such as the far relay's own, nobody knows how clients are served.
fn explain_end(mut trouble: Trouble, plan: &Plan, findings: &Findings) -> Trouble {
    match findings.prober.filter(|prober| !plan.allows(prober.ip())) {
        Some(prober) => {
            trouble.is_certain = false;
            trouble.why = format!(
                "`allow` does not contain {}, from which this probe comes, so it cannot tell how clients are served: run \
                 `longhaul verify` on the near relay, or add the address",
                prober.ip()
            );
        }
        None => trouble.why += "; see the log of this relay",
    }
    trouble
}

/// Returns the address of the plan's tunnel to which the relay with this report has connected for the probe, if it has. The addresses
/// alone do not tell that: another site may have the same ones. So the connection must be one of this host, too.
async fn comes_back(plan: &Plan, report: &Report) -> Option<SocketAddr> {
    let to: SocketAddr = report.next_hop.parse().ok().filter(|_| report.dial == Dial::Connected)?;
    let from = report.why.parse().ok().filter(|_| covers_same(plan.listen, to))?;
    for _ in 0..LOOKS {
        if has_connection(to, from) {
            return Some(to);
        }
        sleep(BETWEEN_LOOKS).await;
    }
    None
}

/// Returns the trouble that the relay `at`, which has sent `report`, has connected to the tunnel at `to`.
fn round(report: &Report, to: SocketAddr, at: usize) -> Trouble {
    let from = report.why.parse().map_or_else(|_| report.name.clone(), |from: SocketAddr| from.ip().to_string());
    let why = format!("the probe came back: {from} dials {to}, which is this tunnel; one of the two `to` is wrong");
    Trouble { stage: Stage::Relay(at), cause: Cause::Failed, why, is_certain: true }
}

/// Returns the trouble that the relay `at` reports, if it does.
fn trouble_of(report: &Report, at: usize) -> Option<Trouble> {
    let stage = match (report.dial, report.hops) {
        (Dial::Refused | Dial::PortSilent, 0) => Stage::FinalHost,
        (Dial::Refused | Dial::PortSilent, _) => Stage::Relay(at + 1),
        (_, 0) => Stage::Lan,
        _ => Stage::Link(at),
    };
    let cause = match report.dial {
        Dial::Refused => Cause::Refused,
        Dial::NoAnswer | Dial::PortSilent => Cause::NoAnswer,
        Dial::Failed | Dial::Connected | Dial::NotDialled => Cause::Failed,
    };
    match report.next {
        Next::Echo | Next::PassedOn => None,
        Next::DialFailed => Some(Trouble { stage, cause, why: report.why.clone(), is_certain: true }),
        Next::Busy => Some(uncertain(Stage::Relay(at), "it answers no more probes at the moment; try again")),
        Next::Unproven => {
            Some(uncertain(Stage::Relay(at), "it refuses the key; is the file of `[probe] key_file` the same there?"))
        }
        Next::NotPassedOn => Some(uncertain(
            Stage::Relay(at),
            "it passes on no probe of another host: write `verify_hops` in its tunnel, 0 if it dials the final host",
        )),
    }
}

fn uncertain(stage: Stage, why: &str) -> Trouble {
    Trouble { stage, cause: Cause::Failed, why: why.into(), is_certain: false }
}

/// Sends the bytes and compares their echo: first small messages one by one, for the round-trip time, then the rest. `last` is
/// the relay that echoes them.
async fn echo(
    plan: &Plan,
    stream: &TcpStream,
    mut reader: Reader<'_>,
    nonce: &Nonce,
    last: Stage,
) -> Result<Echo, Trouble> {
    let (patience, echo_bytes) = (reader.patience, plan.echo_bytes);
    let lost = |lost: Lost| explain_echo(patience.or_late(lost), plan, last);
    let (mut out, mut back) = (Pattern::new(nonce), Pattern::new(nonce));
    let (mut sent, mut is_same) = (0, true);
    let mut rtt = Duration::MAX;
    for _ in 0..PINGS {
        let (start, ping) = (Instant::now(), out.take(PING_BYTES));
        sent = crc32c::crc32c_append(sent, &ping);
        send(stream, &ping, patience).await.map_err(lost)?;
        reader.bytes(PING_BYTES, |piece| is_same &= back.is_next(piece)).await.map_err(lost)?;
        rtt = rtt.min(start.elapsed());
    }
    let start = Instant::now();
    let bulk = echo_bytes as usize - PINGS * PING_BYTES;
    let sending = async {
        let mut left = bulk;
        while left > 0 {
            let chunk = out.take(left.min(CHUNK));
            sent = crc32c::crc32c_append(sent, &chunk);
            match send(stream, &chunk, patience.to_the_end()).await {
                // The reader knows whether bytes still came.
                Err(Lost::Silent { .. }) => pending().await,
                sent => sent?,
            }
            left -= chunk.len();
        }
        Ok::<(), Lost>(())
    };
    tokio::try_join!(sending, reader.bytes(bulk, |piece| is_same &= back.is_next(piece))).map_err(lost)?;
    let bulk_time = start.elapsed();
    let Receipt { bytes, checksum, .. } = receipt(&mut reader, nonce).await.map_err(lost)?;
    let damaged = |way| {
        let why = format!("{echo_bytes} bytes were changed on the way {way}");
        Trouble { stage: Stage::Data, cause: Cause::Failed, why, is_certain: true }
    };
    match (bytes, checksum) == (echo_bytes, sent) {
        false => Err(damaged("there")),
        true if !is_same => Err(damaged("back")),
        true => Ok(Echo { bytes, rtt, bulk_bytes: bulk as u32, bulk_time, checksum }),
    }
}

/// Returns the trouble that the payload did not come back because of `lost`. `last` is the relay that echoes it.
fn explain_echo(lost: Lost, plan: &Plan, last: Stage) -> Trouble {
    let (stage, advice) = match lost {
        Lost::Late { .. } => (Stage::Data, "; pass a longer --timeout or a smaller --size"),
        Lost::Stopped => (last, "; try again, or pass a smaller --size"),
        _ => (Stage::Data, ""),
    };
    let mut trouble = lost.at(stage);
    if !plan.is_own {
        trouble.why += advice;
    }
    trouble
}

async fn receipt(reader: &mut Reader<'_>, nonce: &Nonce) -> Result<Receipt, Lost> {
    let deadline = reader.patience.deadline();
    loop {
        match reader.frame(deadline).await? {
            Frame::Receipt(receipt) if receipt.nonce == *nonce => return Ok(receipt),
            Frame::Report(Report { next: Next::Busy, .. }) => return Err(Lost::Stopped),
            _ => {}
        }
    }
}

fn clock_us() -> i64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_micros()).unwrap_or(i64::MAX)
}

/// Number of times that a probe is made when its connection ends without the report that is due.
const MAX_TRIES: u32 = 3;

/// Number of looks for a connection that has come back, and the time between them: its last packet may be late.
const LOOKS: u32 = 5;
const BETWEEN_LOOKS: Duration = Duration::from_millis(20);

/// Number and size in bytes of the messages that measure the round-trip time.
const PINGS: usize = 3;
const PING_BYTES: usize = 64;

/// Number of bytes that are sent at once.
const CHUNK: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use longhaul_config::Tunnel;
    use longhaul_core::proxy_header::Version;

    /// The advice `verify_hops = 0` hides a relay that hangs: without the relay, the tunnel looks whole.
    #[test]
    fn verify_hops_is_no_remedy_for_a_relay_that_has_answered_before() {
        let why = |are_known| {
            let tunnel = Tunnel::new("t", "127.0.0.1:1".parse().unwrap(), Vec::new());
            let plan = Plan { are_known, ..Plan::of_own(&tunnel) };
            let lost = Lost::Silent { after: plan.limit, said: false };
            explain(lost, Stage::Relay(1), &plan, &Findings::default()).why
        };
        assert!(
            why(true).ends_with("; it hangs, or its dials take longer: see the log of that relay"),
            "{}",
            why(true)
        );
        let (hangs, condition) =
            (why(false).find("it hangs"), why(false).find("Only if the next hop is the final host"));
        assert!(hangs.is_some() && hangs < condition, "{}", why(false));
    }

    #[test]
    fn a_final_host_that_answers_to_the_header_is_no_reason_for_verify_hops() {
        let tunnel =
            Tunnel { proxy_out: Some(Version::V2), ..Tunnel::new("t", "127.0.0.1:1".parse().unwrap(), Vec::new()) };
        let lost = Lost::Silent { after: Duration::from_secs(15), said: true };
        let says = explain(lost, Stage::Relay(1), &Plan::of_own(&tunnel), &Findings::default()).why;
        assert!(says.contains("does the next hop have `proxy_in`?"), "the final host answers to the header: {says}");
    }
}
