//! An outage of the WAN between two relays: what their views say of it without a probe, and that no byte is lost.

use crate::carry::wan::wan_of;
use crate::harness::*;
use longhaul_lab::{Host, LinkSpec, Wan};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Drops what comes over the WAN to either relay.
const DARK: &str = "add table inet dark; add chain inet dark in { type filter hook input priority 0; }; \
                    add rule inet dark in iifname wan0 drop";

/// Whether the problems and the curve say that the clients do not answer.
fn are_clients_silent(status: &Value) -> bool {
    let is_told = |told: &Value| told["stage"] == "clients" && told["health"] == "failing";
    problems(status).any(is_told) && is_told(&status["tunnels"][0]["last_incident"])
}

/// Of each pair of relays, one sends over the WAN and has no acknowledgement. The other one only receives, and has no answer to its
/// keepalive probes.
#[test]
fn views_of_both_relays_say_that_the_wan_is_dark_and_no_byte_is_lost() {
    let Some(wan) = wan_of(&LinkSpec::new(Duration::from_millis(40), "100Mbit/s".parse().ok())) else { return };
    let (up, down) = (Pair::start(&wan, 7700), Pair::start(&wan, 7701));
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let flows = [(&up.client, &up.server), (&down.server, &down.client)].map(|(from, to)| {
            let is_over = &is_over;
            (scope.spawn(move || send_until(from, is_over)), scope.spawn(move || read_to_end(to)))
        });
        // The sweep looks at a flow from its fourth second on.
        for pair in [&up, &down] {
            wait_for_value(
                "the flow is old enough",
                || pair.near.status()["flows"][0]["age_seconds"].clone(),
                |age| age.as_f64().is_some_and(|age| age > 5.0),
            );
        }
        let is_good = |status: &Value| status["tunnels"][0]["next_hops"][0]["health"] == "good" && no_problem(status);
        for relay in [&up.near, &up.far, &down.near, &down.far] {
            wait_for_value("no problem is known", || relay.status(), is_good);
        }
        [Host::Near, Host::Far].iter().for_each(|host| drop(wan.output(*host, "nft", &[DARK]).unwrap()));
        for pair in [&up, &down] {
            wait_for_value("the near relay's next hop is stalled", || pair.near.status(), is_stalled);
            let (_, metrics) = pair.near.get("/metrics");
            assert!(metrics.lines().any(|line| line.starts_with("longhaul_next_hop_up{") && line.ends_with(" 0")));
            let text = stdout(&pair.near.command(&["status"]));
            assert!(text.starts_with("WHOLE, but DOUBTFUL: tunnel one, next hop: "), "{text}");
            let silent =
                |party: &str| format!("{party} does not answer flows that carry bytes: is the path to it whole? ");
            assert!(text.contains(&silent(&pair.near.to[0])), "{text}");
            assert_eq!(text.lines().nth(1).map(|line| line.matches(", for ").count()), Some(1), "{text}");
            wait_for_value("the far relay's clients are stalled", || pair.far.status(), are_clients_silent);
            let text = stdout(&pair.far.command(&["status"]));
            assert!(text.contains(&silent(&Host::Near.wan().to_string())), "{text}");
            for (relay, stage, party) in [
                (&pair.near, "next hop", pair.near.to[0].clone()),
                (&pair.far, "clients", Host::Near.wan().to_string()),
            ] {
                let line = relay.daemon.relay.wait_log("problem found");
                assert_eq!((&line["stage"], &line["tunnel"]), (&stage.into(), &"one".into()));
                assert!(line["why"].as_str().unwrap().starts_with(&silent(&party)), "{line}");
            }
        }
        [Host::Near, Host::Far].iter().for_each(|host| {
            wan.output(*host, "nft", &["delete table inet dark"]).unwrap();
        });
        for relay in [&up.near, &up.far, &down.near, &down.far] {
            wait_for_value("no problem is known any more", || relay.status(), is_good);
        }
        is_over.store(true, Relaxed);
        for (sends, receives) in flows {
            let (sent, (got, ending)) = (sends.join().unwrap(), receives.join().unwrap());
            assert!(got == pattern(7, sent) && ending == Ending::Fin, "{} of {sent} bytes, {ending:?}", got.len());
        }
    });
}

/// Drops what either relay sends over the WAN. Its kernel knows that, and keeps the bytes as unsent.
const OWN: &str = "add table inet dark; add chain inet dark out { type filter hook output priority 0; }; \
                   add rule inet dark out oifname wan0 drop";

/// Both clients send in the outage, nothing being in flight. The kernel's own probes would go out 0.2, 0.7, 1.7, 3.6, 7.4, 15 and 31 s
/// later, and with an rto-max of 1 s there are none after 16 s.
#[test]
fn bytes_that_the_relay_itself_cannot_send_move_soon_after_it_can() {
    let Some(wan) = wan_of(&LinkSpec::new(Duration::from_millis(40), "100Mbit/s".parse().ok())) else { return };
    let pair = Pair::start(&wan, 7702);
    // The sweep knows both legs of both flows by then.
    wait_for_value(
        "the flow is old enough",
        || pair.near.status()["flows"][0]["age_seconds"].clone(),
        |age| age.as_f64().is_some_and(|age| age > 5.0),
    );
    talk(&pair.client, &pair.server);
    quiet_for(&pair.server, Duration::from_millis(500));
    [Host::Near, Host::Far].iter().for_each(|host| drop(wan.output(*host, "nft", &[OWN]).unwrap()));
    let sent = pattern(3, 1000);
    [&pair.client, &pair.server].into_iter().for_each(|mut socket| socket.write_all(&sent).unwrap());
    let begin = Instant::now();
    wait_for_value("the near relay's next hop is stalled", || pair.near.status(), is_stalled);
    wait_for_value("the far relay's clients are stalled", || pair.far.status(), |status| !no_problem(status));
    quiet_for(&pair.server, Duration::from_secs(17).saturating_sub(begin.elapsed()));
    [Host::Near, Host::Far]
        .iter()
        .for_each(|host| drop(wan.output(*host, "nft", &["delete table inet dark"]).unwrap()));
    let dark = begin.elapsed();
    for mut socket in [&pair.server, &pair.client] {
        let mut got = vec![0; sent.len()];
        socket.read_exact(&mut got).unwrap();
        assert_same(&got, &sent);
    }
    // The kernel's own probe may be next on a machine that was too slow to end the outage soon.
    let is_soon = begin.elapsed() < Duration::from_secs(30);
    assert!(is_soon || dark > Duration::from_secs(20), "the kernel's own probe sent them: {:?}", begin.elapsed());
    for relay in [&pair.near, &pair.far] {
        wait_for_value("no problem is known any more", || relay.status(), no_problem);
    }
}

/// A path over two daemons with control sockets, and a flow on it.
struct Pair {
    near: Watched,
    far: Watched,
    client: TcpStream,
    server: TcpStream,
}

impl Pair {
    fn start(wan: &Arc<Wan>, port: u16) -> Pair {
        let server = wan.on(Host::B, move || Ok(listen((Host::B.lan(), port)))).join().unwrap().unwrap();
        let relay = |host: Host, to: IpAddr| {
            let to = vec![SocketAddr::new(to, port).to_string()];
            Setup { to, listen: &port.to_string(), ..Setup::default() }.start_by(|file| {
                let mut command = longhaul();
                command.args(["run", "-c", file]);
                Relay::spawn_in(wan, host, command)
            })
        };
        let far = relay(Host::Far, Host::B.lan());
        let near = relay(Host::Near, Host::Far.wan());
        let entry = SocketAddr::new(Host::Near.lan(), port);
        let client = wan.on(Host::A, move || Ok(TcpStream::connect(entry).expect("the relay accepts")));
        let client = patient(client.join().unwrap().unwrap());
        let server = patient(server.accept().unwrap().0);
        talk(&client, &server);
        Pair { near, far, client, server }
    }
}

/// Sends a little every 50 ms, and FIN once it `is_over`. Returns the number of bytes.
fn send_until(mut socket: &TcpStream, is_over: &AtomicBool) -> usize {
    const PIECE: usize = 1000;
    let (bytes, mut sent) = (pattern(7, 10_000_000), 0);
    while !is_over.load(Relaxed) && sent + PIECE < bytes.len() {
        socket.write_all(&bytes[sent..sent + PIECE]).unwrap();
        sent += PIECE;
        std::thread::sleep(Duration::from_millis(50));
    }
    socket.shutdown(Shutdown::Write).unwrap();
    sent
}

fn problems(status: &Value) -> impl Iterator<Item = &Value> {
    status["problems"].as_array().into_iter().flatten()
}

fn no_problem(status: &Value) -> bool {
    problems(status).next().is_none()
}

fn is_stalled(status: &Value) -> bool {
    let hop = &status["tunnels"][0]["next_hops"][0];
    let since = hop["stalled_seconds"].as_f64();
    hop["health"] == "doubtful"
        && since.is_some()
        && status["tunnels"][0]["health"] == "doubtful"
        && problems(status).any(|problem| problem["stage"] == "next hop" && problem["doubtful"] == true)
}
