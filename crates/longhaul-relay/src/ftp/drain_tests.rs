//! The times after which a drain ends a control connection, in virtual time: no test here depends on the machine's speed.

use crate::flow;
use crate::leg::stream::Stream;
use crate::state::shared::Relay;
use longhaul_config::{NextHop, Protocol, Tunnel};
use socket2::SockRef;
use std::net::Shutdown;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio::time::{Instant, interval, pause, resume};

/// A control connection with both its peers.
struct Carried {
    relay: Arc<Relay>,
    flow: JoinHandle<()>,
    client: TcpStream,
    server: TcpStream,
}

/// Begins a control connection whose server has greeted.
async fn begin() -> Carried {
    let [ours, next_hop] =
        [TcpListener::bind("127.0.0.1:0").await.unwrap(), TcpListener::bind("127.0.0.1:0").await.unwrap()];
    let to = next_hop.local_addr().unwrap();
    let to = vec![NextHop::new(to.ip().to_string(), to.port())];
    let tunnel = Tunnel { protocol: Protocol::Ftp, ..Tunnel::new("files", ours.local_addr().unwrap(), to) };
    let mut client = TcpStream::connect(tunnel.listen).await.unwrap();
    let (accept, peer) = ours.accept().await.unwrap();
    let accept = Stream::new(accept.into_std().unwrap().into()).unwrap();
    let relay = Relay::new(100);
    let flow = tokio::spawn(flow::run(relay.clone(), relay.tunnel(Arc::new(tunnel)), accept, peer, ()));
    let mut server = next_hop.accept().await.unwrap().0;
    server.write_all(b"220 ready\r\n").await.unwrap();
    until(&mut client, "220 ready\r\n").await;
    Carried { relay, flow, client, server }
}

/// Reads until what was read ends with `text`.
async fn until(stream: &mut TcpStream, text: &str) {
    let mut read = String::new();
    while !read.ends_with(text) {
        read.push(char::from(stream.read_u8().await.unwrap()));
    }
}

/// Dialogues after which nothing happens any more, and the time in seconds after which a drain ends them. `C`: the client sends this,
/// `S`: the server. A line that does not end is held.
const ROWS: &[(&[&str], u64)] = &[
    (&[], 5),
    (&["C NOOP\r\n", "S 200 ok\r\n"], 5),
    (&["C NOOP\r\n"], 30),
    (&["C P"], 30),
    (&["S 2"], 30),
    (&["S 220-x\r\n"], 30),
    (&["C STOR f\r\n"], 600),
    (&["C STOR f\r\n", "S 150 begins\r\n"], 600),
    (&["C STOR f\r\n", "S 150 begins\r\n", "C NOOP\r\n", "S 200 ok\r\n"], 600),
    (&["C STOR f\r\n", "S 150 begins\r\n", "C STAT\r\n", "S 211 well\r\n", "S 226 stored\r\n"], 5),
    (&["C STOR f\r\n", "S 550 no\r\n"], 5),
];

#[tokio::test]
async fn a_drain_ends_a_control_connection_once_nothing_is_to_come() {
    for (lines, seconds) in ROWS {
        let Carried { relay, flow, mut client, mut server } = begin().await;
        for line in *lines {
            let (from, to) =
                if line.starts_with('C') { (&mut client, &mut server) } else { (&mut server, &mut client) };
            from.write_all(&line.as_bytes()[2..]).await.unwrap();
            if line.ends_with('\n') {
                until(to, &line[2..]).await;
            }
        }
        pause();
        relay.drain(true);
        let before = Instant::now();
        until(&mut server, "QUIT\r\n").await;
        // The clock jumps to the next timer if the bytes are late, and that is 10 s later.
        let took = before.elapsed().as_secs();
        assert!((seconds - 1..seconds + 11).contains(&took), "{lines:?}: {took} s");
        until(&mut client, "421 The relay is going down, try again later\r\n").await;
        resume();
        drop((client, server));
        flow.await.unwrap();
    }
}

/// The client still sends commands, to which no reply can come.
#[tokio::test]
async fn a_drain_ends_a_control_connection_whose_server_has_sent_fin() {
    let Carried { relay, mut flow, mut client, server } = begin().await;
    SockRef::from(&server).shutdown(Shutdown::Write).unwrap();
    assert_eq!(client.read(&mut [0]).await.unwrap(), 0);
    pause();
    relay.drain(true);
    let (before, mut pings) = (Instant::now(), interval(Duration::from_secs(2)));
    loop {
        tokio::select! {
            biased;
            _ = &mut flow => break,
            _ = pings.tick() => drop(client.write_all(b"NOOP\r\n").await),
        }
    }
    let took = before.elapsed().as_secs();
    assert!((14..30).contains(&took), "{took} s");
}
