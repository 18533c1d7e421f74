//! Flows on loopback: directly between their ends, and through relays with one fault each.

use super::*;
use std::net::TcpListener;

/// A fault of a relay.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    None,
    /// A reset of one leg becomes FIN on the other.
    FinForReset,
    /// A FIN of one leg becomes a reset on both.
    ResetForFin,
    /// FIN cuts off the server's bytes.
    Truncates,
    /// One of the server's bytes is changed.
    WrongByte,
    /// No byte of the server is forwarded, and no ending.
    Silent,
}

/// The endings of a flow with this plan and fault.
#[derive(Debug, PartialEq)]
enum Effect {
    Right,
    Wrong,
    /// Depends on the bytes sent before the reset.
    Open,
}

impl Fault {
    fn effect(self, plan: &Plan) -> Effect {
        match (self, plan.reset) {
            (Fault::None, _) | (Fault::FinForReset, None) | (Fault::ResetForFin, Some((Side::Client, _))) => {
                Effect::Right
            }
            (Fault::FinForReset, Some(_)) | (_, None) => Effect::Wrong,
            // The client sends FIN only with the last byte that it got.
            (Fault::ResetForFin, Some((Side::Server, _))) => Effect::Open,
            (_, Some((_, after))) if after <= plan.up => Effect::Right,
            (_, Some((Side::Client, _))) => Effect::Wrong,
            (_, Some((Side::Server, _))) => Effect::Open,
        }
    }
}

/// Carries a flow to `server`.
async fn relay(accept: tokio::net::TcpStream, server: SocketAddr, fault: Fault) {
    let dial = tokio::net::TcpStream::connect(server).await.unwrap();
    accept.set_nodelay(true).unwrap();
    dial.set_nodelay(true).unwrap();
    let both = |one: Fault, other: Fault| (pump(&accept, &dial, one), pump(&dial, &accept, other));
    let (up, down) = both(if fault == Fault::ResetForFin { fault } else { Fault::None }, fault);
    if tokio::try_join!(up, down).is_ok() {
        return;
    }
    for leg in [&accept, &dial] {
        match fault {
            // A leg that was reset has no peer, so errors are ignored.
            Fault::FinForReset => drop(fin(leg)),
            _ => socket2::SockRef::from(leg).set_linger(Some(Duration::ZERO)).unwrap(),
        }
    }
    if fault == Fault::FinForReset {
        let _ = tokio::join!(drain(&accept), drain(&dial));
    }
}

/// Carries one direction. The greeting is forwarded unchanged.
async fn pump(from: &tokio::net::TcpStream, to: &tokio::net::TcpStream, fault: Fault) -> io::Result<()> {
    let (mut buffer, mut greeting) = (vec![0; PIECE], 8);
    loop {
        let got = read(from, &mut buffer[..if greeting > 0 { greeting } else { PIECE }]).await?;
        match fault {
            _ if greeting > 0 => {}
            Fault::ResetForFin if got == 0 => return Err(ErrorKind::ConnectionReset.into()),
            Fault::Silent => std::future::pending().await,
            Fault::WrongByte => buffer[0] ^= 1,
            _ => {}
        }
        if got == 0 || (greeting == 0 && fault == Fault::Truncates) {
            fin(to)?;
            return drain(from).await;
        }
        greeting -= greeting.min(got);
        let mut sent = 0;
        while sent < got {
            to.writable().await?;
            match to.try_write(&buffer[sent..got]) {
                Err(err) if err.kind() == ErrorKind::WouldBlock => {}
                written => sent += written?,
            }
        }
    }
}

async fn read(from: &tokio::net::TcpStream, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        from.readable().await?;
        match from.try_read(buffer) {
            Err(err) if err.kind() == ErrorKind::WouldBlock => {}
            got => return got,
        }
    }
}

/// Reads the remaining bytes.
async fn drain(from: &tokio::net::TcpStream) -> io::Result<()> {
    let mut buffer = vec![0; PIECE];
    while read(from, &mut buffer).await? > 0 {}
    Ok(())
}

fn fin(to: &tokio::net::TcpStream) -> io::Result<()> {
    socket2::SockRef::from(to).shutdown(Shutdown::Write)
}

/// Runs `flows` flows through a relay with `fault`.
fn run_through(fault: Fault, flows: u64, patience: Duration) -> Endings {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = listener.local_addr().unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let entry = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
    let address = entry.local_addr().unwrap();
    runtime.spawn(async move {
        while let Ok((accept, _)) = entry.accept().await {
            tokio::spawn(relay(accept, server, fault));
        }
    });
    let endings = Endings::new(patience);
    std::thread::scope(|scope| {
        scope.spawn(|| (0..flows).for_each(|_| endings.serve(listener.accept().unwrap().0).unwrap()));
        (1..=flows).for_each(|seed| endings.request(address, seed << 40).unwrap());
    });
    runtime.shutdown_background();
    endings
}

/// Returns the defects of each flow.
fn judged(endings: &Endings) -> Vec<(Plan, Option<String>)> {
    let ends = endings.ends.lock().unwrap();
    let seeds: BTreeSet<u64> = ends.keys().map(|(seed, _)| *seed).collect();
    let plans = seeds.into_iter().map(Plan::of);
    plans.map(|plan| (wrong(&plan, &ends), plan)).map(|(wrong, plan)| (plan, wrong)).collect()
}

/// Without a relay, the ends see the planned endings.
#[test]
fn every_flow_ends_as_planned() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let entry = listener.local_addr().unwrap();
    let endings = Endings::new(PATIENCE);
    const FLOWS: u64 = 60;
    std::thread::scope(|scope| {
        scope.spawn(|| (0..FLOWS).for_each(|_| endings.serve(listener.accept().unwrap().0).unwrap()));
        (1..=FLOWS).for_each(|seed| endings.request(entry, seed << 40).unwrap());
    });
    let measured = endings.measured(Duration::from_secs(1));
    assert_eq!(measured.wrong, Vec::<String>::new());
    let figure = |wanted| measured.figures.iter().find(|(name, _)| *name == wanted).unwrap().1;
    assert!(figure("flows") == FLOWS as f64 && figure("resets") > 20.0, "{:?}", measured.figures);
    assert!(figure("latest_s") < 60.0 && figure("wrong") == 0.0, "{:?}", measured.figures);
}

/// A reset is seen as a reset before the first byte, and after every byte and the client's FIN.
#[test]
fn a_reset_is_never_seen_as_fin_however_late_it_comes() {
    let endings = Endings::new(PATIENCE);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    for (by, after) in Side::BOTH.into_iter().flat_map(|by| [0, 64, 65, 127, 128].map(|after| (by, after))) {
        let plan =
            Plan { seed: after << 1 | u64::from(by == Side::Client), up: 64, down: 64, reset: Some((by, after)) };
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let server = listener.accept().unwrap().0;
        std::thread::scope(|scope| {
            scope.spawn(|| endings.note(End::new(client, &plan, Side::Client, endings.block)));
            endings.note(End::new(server, &plan, Side::Server, endings.block));
        });
        assert_eq!(wrong(&plan, &endings.ends.lock().unwrap()), None);
    }
}

#[test]
fn a_relay_is_wrong_where_its_fault_changes_an_ending_and_only_there() {
    for (fault, said) in [
        (Fault::None, ""),
        (Fault::FinForReset, "got FIN after"),
        (Fault::ResetForFin, "got a reset after"),
        (Fault::Truncates, "client got FIN after 0 of"),
        (Fault::WrongByte, "client got wrong bytes after 0 bytes"),
    ] {
        let endings = run_through(fault, 40, PATIENCE);
        let mut seen = 0;
        for (plan, wrong) in judged(&endings) {
            match (fault.effect(&plan), wrong) {
                (Effect::Right, None) | (Effect::Open, _) => {}
                (Effect::Wrong, Some(text)) if text.contains(said) => seen += 1,
                (wanted, wrong) => panic!("{fault:?}: {plan} is to be {wanted:?}: {wrong:?}"),
            }
        }
        assert!(seen > 5 || fault == Fault::None, "{fault:?}: {seen} flows");
    }
}

#[test]
fn a_flow_that_stalls_is_wrong_whether_or_not_a_reset_was_planned() {
    let endings = run_through(Fault::Silent, 20, Duration::from_millis(200));
    let mut seen = [0, 0];
    // The timing of other flows is not checked, because they may be late beside a busy core.
    for (plan, wrong) in judged(&endings).into_iter().filter(|(plan, _)| Fault::Silent.effect(plan) == Effect::Wrong) {
        let text = wrong.unwrap();
        assert!(text.contains("client heard nothing more after 0 bytes"), "{text}");
        seen[usize::from(plan.reset.is_some())] += 1;
    }
    assert!(seen[0] > 2 && seen[1] > 0, "{seen:?}");
}

#[test]
fn a_flow_that_only_one_end_knows_is_wrong() {
    let endings = Endings::new(PATIENCE);
    let seen = Seen { ending: Ending::Whole, at: Instant::now(), received: 5 };
    let plan = (1..).map(Plan::of).find(|plan| plan.reset.is_none()).unwrap();
    endings.ends.lock().unwrap().insert((plan.seed, Side::Client), seen);
    let text = &endings.measured(Duration::from_secs(1)).wrong[0];
    assert!(text.ends_with("no reset: client got FIN after all 5 bytes, server never came"), "{text}");
}
