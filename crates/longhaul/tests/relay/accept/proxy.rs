//! Tests PROXY headers: between two relays, from and to HAProxy and nginx, whole, in parts, and wrong ones.

use crate::carry::endings::{OVER_ALL_BUFFERS, SMALL_BUFFERS};
use crate::harness::*;
use longhaul_core::proxy_header::{self, Ends, Version};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::process::{Command, Stdio};

/// Flags of a relay that reads headers of both versions from this host.
const READS: &[&str] = &["--proxy-in=any", "--allow=127.0.0.1"];

fn client() -> Ends {
    Ends { client: "192.0.2.7:51234".parse().unwrap(), to: "198.51.100.1:6000".parse().unwrap() }
}

/// Returns a header of version 2 with two unknown TLVs.
fn with_tlvs() -> Vec<u8> {
    let mut header = proxy_header::write(Version::V2, Some(client()));
    header.extend([0xee, 0, 2, 1, 2, 0xef, 0, 0]);
    header[15] += 8;
    header
}

/// Reads as many bytes as `wanted` has, and asserts that they are these.
fn expect(mut socket: &TcpStream, wanted: &[u8]) {
    let mut got = vec![0; wanted.len()];
    socket.read_exact(&mut got).unwrap();
    assert_eq!(got.escape_ascii().to_string(), wanted.escape_ascii().to_string());
}

#[test]
fn a_header_split_at_any_byte_is_consumed_exactly() {
    let path = Path::new(1, READS);
    for header in [proxy_header::write(Version::V1, Some(client())), with_tlvs()] {
        for split in 0..=header.len() {
            let mut client = path.dial();
            client.write_all(&header[..split]).unwrap();
            send_all(&client, &[&header[split..], b"payload"].concat());
            let server = accept(path.server());
            assert_eq!(read_to_end(&server), (b"payload".to_vec(), Ending::Fin));
            (&server).write_all(b"answer").unwrap();
            drop(server);
            assert_eq!(read_to_end(&client), (b"answer".to_vec(), Ending::Fin));
            let line = path.relays[0].wait_log("flow ended");
            assert_eq!((&line["peer"], &line["how"]), (&"192.0.2.7:51234".into(), &"finished".into()), "{line}");
            assert_eq!((&line["up_bytes"], &line["down_bytes"]), (&7.into(), &6.into()), "{line}");
            assert_eq!(line["proxy"], client.local_addr().unwrap().to_string(), "{line}");
        }
    }
    assert_eq!(path.relays[0].counters()["refused"], 0);
}

#[test]
fn bulk_behind_a_header_is_carried() {
    for flags in [&[][..], &["--no-splice"]] {
        let path = Path::new(1, &[READS, flags].concat());
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let server = accept(path.server());
                assert_whole(&server, &pattern(3, 5_000_000));
            });
            let client = path.dial();
            send_all(&client, &[with_tlvs(), pattern(3, 5_000_000)].concat());
            assert_eq!(read_to_end(&client), (Vec::new(), Ending::Fin));
        });
        assert_eq!(path.relays[0].flow_end(), (5_000_000, 0, "finished".into()));
    }
}

/// The kernel counts the header's bytes as received, so that they could be taken for the bytes and the FIN after it.
#[test]
fn a_client_that_is_reset_behind_a_full_path_ends_in_a_reset() {
    let path = Path::new(1, &[READS, SMALL_BUFFERS].concat());
    let mut client = path.dial();
    client.write_all(&with_tlvs()).unwrap();
    let server = accept(path.server());
    let bytes = pattern(5, OVER_ALL_BUFFERS);
    fill_up(&client, &bytes);
    reset(client);
    let (got, ending) = read_to_end(&server);
    assert_same(&got, &bytes[..got.len()]);
    assert_eq!(ending, Ending::Reset);
    assert_eq!(path.relays[0].flow_end().2, "reset by the accept leg");
}

#[test]
fn a_client_without_a_valid_header_is_reset_and_nothing_is_dialled() {
    let path = Path::new(1, READS);
    let whole = proxy_header::write(Version::V2, Some(client()));
    let mut oversized = whole.clone();
    oversized[14] = 16; // 4096 bytes after the first 16
    oversized.resize(16 + 4096 + 12, 0);
    let mut malformed = whole.clone();
    malformed[12] = 0x31;
    let bad: [&[u8]; 6] =
        [b"GET / HTTP/1.1\r\n\r\n", b"SSH-2.0-x\r\n", b"PROXY TCP4 1 2 3 4\r\n", &[b'P'; 200], &oversized, &malformed];
    for bytes in bad {
        let mut client = path.dial();
        client.write_all(bytes).unwrap();
        assert_eq!(read_to_end(&client), (Vec::new(), Ending::Reset), "{}", bytes.escape_ascii());
    }
    // Every truncation, and the end of the stream after it.
    for end in 1..whole.len() {
        let client = path.dial();
        send_all(&client, &whole[..end]);
        assert_eq!(read_to_end(&client), (Vec::new(), Ending::Reset), "{end} bytes");
    }
    let line = path.relays[0].wait_log("refused: no valid PROXY header");
    assert_eq!(line["why"], "the first bytes are no PROXY header");
    assert!(line["peer"].as_str().unwrap().starts_with("127.0.0.1:"), "{line}");
    let counters = path.relays[0].counters();
    let refused = bad.len() + whole.len() - 1;
    assert_eq!((&counters["bad_proxy_headers"], &counters["refused"]), (&refused.into(), &refused.into()));
    assert_eq!((&counters["accepted"], &counters["flows_now"]), (&0.into(), &0.into()), "{counters}");
    assert_not_dialled(path.server());
}

#[test]
fn one_version_is_refused_where_the_other_is_asked_for() {
    for (asked, sent) in [("v1", Version::V2), ("v2", Version::V1)] {
        let path = Path::new(1, &["--proxy-in", asked, "--allow=127.0.0.1"]);
        let mut client = path.dial();
        client.write_all(&proxy_header::write(sent, Some(self::client()))).unwrap();
        assert_eq!(read_to_end(&client), (Vec::new(), Ending::Reset));
        let why = path.relays[0].wait_log("refused: no valid PROXY header")["why"].clone();
        assert_eq!(why, format!("a header of {}, which proxy_in does not accept", sent.name()));
    }
}

#[test]
fn a_header_does_not_help_a_proxy_that_is_not_allowed() {
    let path = Path::new(1, &["--proxy-in=any", "--allow=192.0.2.0/24"]);
    reset_by(path.entry());
    path.relays[0].wait_log("refused: not in `allow`");
    assert_eq!(path.relays[0].counters()["bad_proxy_headers"], 0);
    assert_not_dialled(path.server());
}

#[test]
fn a_header_without_a_client_keeps_the_address_of_its_sender() {
    let path = Path::new(1, READS);
    let mut local = proxy_header::write(Version::V2, Some(client()));
    local[12] = 0x20;
    for header in [&local[..], b"PROXY UNKNOWN\r\n"] {
        let mut client = path.dial();
        client.write_all(header).unwrap();
        let server = accept(path.server());
        talk(&client, &server);
        let peer = client.local_addr().unwrap().to_string();
        drop((client, server));
        let line = path.relays[0].wait_log("flow ended");
        assert!(line["peer"] == peer && line["proxy"].is_null(), "{line}");
    }
}

/// Carries flows over two relays. The far one learns the client's address from the near one.
fn chain(version: &str, near: &[&str], far: &[&str]) {
    let server = server();
    let far = Hop::new(&[server.local_addr().unwrap()], &[READS, far].concat());
    let near = Hop::new(&[far.port.address()], &[&["--proxy-out", version], near].concat());
    for flow in 0..8 {
        // More and less than a SYN carries. The server of every second flow speaks first.
        let bytes = pattern(flow, 1 + 30_000 * flow as usize);
        let client = near.dial();
        let peer = client.local_addr().unwrap().to_string();
        let greeting: &[u8] = if flow % 2 == 0 { b"220 ready" } else { b"" };
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let accepted = accept(&server);
                (&accepted).write_all(greeting).unwrap();
                echo_one(&accepted);
            });
            expect(&client, greeting);
            round_trip(client, &bytes);
        });
        let ends = [&near, &far].map(|hop| hop.relay.wait_log("flow ended"));
        for line in &ends {
            assert_eq!((&line["peer"], &line["how"]), (&peer.clone().into(), &"finished".into()), "{line}");
            assert_eq!(line["up_bytes"], bytes.len(), "{line}");
        }
        assert!(ends[0]["proxy"].is_null(), "{}", ends[0]);
        assert_eq!(ends[1]["proxy"], ends[0]["dial_local"]);
    }
}

#[test]
fn the_far_relay_learns_the_client_from_the_near_one() {
    chain("v1", &[], &[]);
    chain("v2", &["--no-splice"], &["--no-splice"]);
}

#[test]
fn fast_open_sends_the_header_before_the_first_bytes() {
    for version in ["v1", "v2"] {
        in_own_network(|| {
            set_sysctl("net/ipv4/tcp_fastopen", "3");
            chain(version, &["--set=dial.fastopen=true"], &["--set=accept.fastopen=64"]);
            chain(version, &["--set=dial.fastopen=true"], &[]);
        });
    }
}

#[test]
fn a_header_is_passed_on_with_the_address_that_the_client_connected_to() {
    let server = server();
    let middle = Hop::new(&[server.local_addr().unwrap()], &[READS, &["--proxy-out=v2"]].concat());
    let near = Hop::new(&[middle.port.address()], &["--proxy-out=v1"]);
    let client = near.dial();
    let ends = Ends { client: client.local_addr().unwrap(), to: near.port.address() };
    let accepted = accept(&server);
    // The client has sent nothing yet.
    expect(&accepted, &proxy_header::write(Version::V2, Some(ends)));
    talk(&client, &accepted);
}

#[test]
fn the_next_hop_that_answers_gets_the_header_once() {
    let (dead, server) = (Port::reserve("127.0.0.1"), server());
    for flags in [&[][..], &["--set=dial.fastopen=true"]] {
        let hops = [dead.address(), server.local_addr().unwrap()];
        let hop = Hop::new(&hops, &[&["--proxy-out=v1"], flags].concat());
        let mut client = hop.dial();
        client.write_all(b"hello").unwrap();
        let ends = Ends { client: client.local_addr().unwrap(), to: hop.port.address() };
        client.shutdown(Shutdown::Write).unwrap();
        let header = proxy_header::write(Version::V1, Some(ends));
        let accepted = accept(&server);
        assert_eq!(read_to_end(&accepted), ([&header[..], b"hello"].concat(), Ending::Fin));
        drop(accepted);
        assert_eq!(hop.relay.flow_end(), (5, 0, "finished".into()));
    }
}

#[test]
fn a_header_over_ipv6_has_ipv6_addresses() {
    let (server, port) = (server_at("[::1]"), Port::reserve("[::]"));
    let (listen, to) = (port.address().port().to_string(), server.local_addr().unwrap().to_string());
    let _relay = Relay::start(&["relay", "--listen", &listen, "--to", &to, "--proxy-out=v1", "--allow=::1,127.0.0.1"]);
    for (ip, family) in [("::1", "TCP6"), ("127.0.0.1", "TCP4")] {
        let client = patient(TcpStream::connect((ip, port.address().port())).unwrap());
        let from = client.local_addr().unwrap().port();
        let accepted = accept(&server);
        expect(&accepted, format!("PROXY {family} {ip} {ip} {from} {listen}\r\n").as_bytes());
        talk(&client, &accepted);
    }
}

/// A program of others, stopped when this value is dropped.
struct Other {
    _child: Running,
    port: Port,
    _folder: tempfile::TempDir,
}

impl Other {
    /// Runs `program` with `args` and the configuration `config`, in which LISTEN is its address and FOLDER a directory.
    /// Returns `None`, after a line about it, when the program is not installed.
    fn start(program: &str, args: &[&str], config: &str) -> Option<Other> {
        let (port, folder) = (Port::reserve("127.0.0.1"), tempfile::tempdir().unwrap());
        let file = folder.path().join("config");
        let place = folder.path().to_str().unwrap();
        let config = config.replace("LISTEN", &port.address().to_string()).replace("FOLDER", place);
        std::fs::write(&file, config).unwrap();
        let mut command = Command::new(program);
        command.args(args).arg(&file).stdin(Stdio::null()).stdout(Stdio::null());
        match command.spawn() {
            Ok(child) => {
                let other = Other { _child: Running(child), port, _folder: folder };
                wait_until(program, || is_listening(other.port.address()));
                Some(other)
            }
            Err(err) => {
                skip(&format!("{program}: {err}"));
                None
            }
        }
    }

    /// Starts HAProxy, which takes connections with the options `bind` and passes them to `to` with the options `server`.
    fn haproxy(bind: &str, to: SocketAddr, server: &str) -> Option<Other> {
        let config = format!(
            "global\n maxconn 100\ndefaults\n mode tcp\n timeout connect 1m\n timeout client 1m\n timeout server 1m\n\
             listen relay\n bind LISTEN {bind}\n server next {to} {server}\n"
        );
        Other::start("haproxy", &["-db", "-f"], &config)
    }

    /// Starts nginx, whose stream server has the lines `server`.
    fn nginx(server: &str) -> Option<Other> {
        const PLACES: [&str; 2] =
            ["/usr/lib/nginx/modules/ngx_stream_module.so", "/usr/lib64/nginx/modules/ngx_stream_module.so"];
        let Some(module) = PLACES.into_iter().find(|place| std::path::Path::new(place).exists()) else {
            skip("nginx has no stream module here");
            return None;
        };
        let config = format!(
            "load_module {module};\ndaemon off;\nmaster_process off;\npid FOLDER/pid;\nerror_log stderr;\n\
             events {{ worker_connections 100; }}\nstream {{ server {{ {server} }} }}\n"
        );
        Other::start("nginx", &["-e", "stderr", "-c"], &config)
    }

    fn dial(&self) -> TcpStream {
        patient(TcpStream::connect(self.port.address()).unwrap())
    }
}

/// Whether a socket of this host listens on the IPv4 address (proc_net_tcp(5): state 0A).
fn is_listening(address: SocketAddr) -> bool {
    let table = std::fs::read_to_string("/proc/thread-self/net/tcp").unwrap();
    let port = format!(":{:04X}", address.port());
    table.lines().map(str::split_whitespace).any(|mut words| {
        let (local, state) = (words.nth(1), words.nth(1));
        local.is_some_and(|local| local.ends_with(&port)) && state == Some("0A")
    })
}

/// Sends a flow through `before` to a relay that reads headers. The relay must see the client.
fn sees_the_client_behind(before: impl Fn(SocketAddr) -> Option<Other>) {
    let server = server();
    let hop = Hop::new(&[server.local_addr().unwrap()], READS);
    let Some(proxy) = before(hop.port.address()) else { return };
    let client = proxy.dial();
    let peer = client.local_addr().unwrap().to_string();
    let bytes = pattern(11, 1_000_000);
    std::thread::scope(|scope| {
        scope.spawn(|| echo_one(&accept(&server)));
        scope.spawn(|| (&client).write_all(&bytes).unwrap());
        // The FIN comes after the answer, because nginx ends both directions at the first FIN.
        let mut got = vec![0; bytes.len()];
        (&client).read_exact(&mut got).unwrap();
        assert_same(&got, &bytes);
        client.shutdown(Shutdown::Write).unwrap();
        assert_eq!(read_to_end(&client), (Vec::new(), Ending::Fin));
    });
    let line = hop.relay.wait_log("flow ended");
    assert!(line["peer"] == peer && line["up_bytes"] == 1_000_000, "{line}");
    assert!(line["proxy"].as_str().unwrap().starts_with("127.0.0.1:"), "{line}");
}

#[test]
fn headers_of_haproxy_are_read() {
    for server in ["send-proxy", "send-proxy-v2", "send-proxy-v2 proxy-v2-options crc32c"] {
        sees_the_client_behind(|to| Other::haproxy("", to, server));
    }
}

/// The checks of two relays and of HAProxy: the relay behind them counts them, says nothing and dials nothing.
#[test]
fn health_checks_through_a_header_are_no_refusals() {
    let server = server();
    let far = Hop::new(&[server.local_addr().unwrap()], READS);
    // Waits until the far relay has counted this many, and returns how many it has. No line until then is about a connection.
    let checks = |least: u64| {
        let counted = || {
            let lines = far.relay.lines_to_counters();
            assert!(lines.iter().all(|line| line["peer"].is_null()), "{lines:?}");
            let counters = lines.last().unwrap();
            assert_eq!((&counters["refused"], &counters["accepted"]), (&0.into(), &0.into()), "{lines:?}");
            counters["health_checks"].as_u64().unwrap()
        };
        wait_for_value("the checks", counted, |counted| *counted >= least)
    };
    for version in ["v1", "v2"] {
        let so_far = checks(0);
        let keys = format!("proxy_out = \"{version}\"\ncheck = \"tcp\"\ncheck_interval = \"100ms\"");
        let _near = Watched::start_to(&[far.port.address()], &keys);
        checks(so_far + AFTER_THE_OTHER);
    }
    for server in ["send-proxy", "send-proxy-v2"] {
        let so_far = checks(0);
        let options = format!("{server} check inter 100ms check-send-proxy");
        let Some(_proxy) = Other::haproxy("", far.port.address(), &options) else { return };
        checks(so_far + AFTER_THE_OTHER);
    }
}

/// Number of checks after which some are of the new checker. The one before may have left one on its way.
const AFTER_THE_OTHER: u64 = 3;

#[test]
fn headers_of_nginx_are_read() {
    sees_the_client_behind(|to| Other::nginx(&format!("listen LISTEN; proxy_pass {to}; proxy_protocol on;")));
}

#[test]
fn haproxy_reads_our_headers() {
    for version in ["v1", "v2"] {
        let server = server();
        let Some(proxy) = Other::haproxy("accept-proxy", server.local_addr().unwrap(), "send-proxy") else { return };
        let hop = Hop::new(&[proxy.port.address()], &["--proxy-out", version]);
        let client = hop.dial();
        let ends = Ends { client: client.local_addr().unwrap(), to: hop.port.address() };
        let accepted = accept(&server);
        expect(&accepted, &proxy_header::write(Version::V1, Some(ends)));
        talk(&client, &accepted);
    }
}

#[test]
fn nginx_reads_our_headers() {
    const ANSWER: &str =
        "$proxy_protocol_addr:$proxy_protocol_port $proxy_protocol_server_addr:$proxy_protocol_server_port";
    for version in ["v1", "v2"] {
        let Some(proxy) = Other::nginx(&format!("listen LISTEN proxy_protocol; return \"{ANSWER}\";")) else { return };
        let hop = Hop::new(&[proxy.port.address()], &["--proxy-out", version]);
        let client = hop.dial();
        let answer = format!("{} {}", client.local_addr().unwrap(), hop.port.address());
        assert_eq!(read_to_end(&client), (answer.into_bytes(), Ending::Fin));
    }
}
