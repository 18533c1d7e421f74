//! A nameserver whose answers and silences the tests decide. It counts what it is asked.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::{Arc, Mutex, MutexGuard};

/// A nameserver at port 53 of a loopback address.
pub(crate) struct Nameserver {
    socket: UdpSocket,
    zone: Arc<Mutex<Zone>>,
}

/// Type of a record (RFC 1035 3.2.2).
pub(crate) const A: u16 = 1;
/// Type of a record (RFC 3596 2.1).
pub(crate) const AAAA: u16 = 28;
/// Type of a record (RFC 2782).
pub(crate) const SRV: u16 = 33;

#[derive(Default)]
struct Zone {
    is_silent: bool,
    records: Vec<Record>,
    asked: Vec<(String, u16)>,
    /// The queries that came while it was silent.
    held: Vec<(Vec<u8>, SocketAddr)>,
}

struct Record {
    name: String,
    kind: u16,
    ttl: u32,
    data: Vec<u8>,
}

/// An SRV record.
pub(crate) struct Service {
    pub(crate) priority: u16,
    pub(crate) weight: u16,
    pub(crate) port: u16,
    /// A full name with the final dot.
    pub(crate) target: &'static str,
}

impl Nameserver {
    /// Starts a nameserver without records at `ip`, an address of this network namespace.
    pub(crate) fn start(ip: &str) -> Nameserver {
        let socket = UdpSocket::bind((ip, 53)).expect("port 53");
        let zone = Arc::new(Mutex::new(Zone::default()));
        let (by_tcp, of_tcp) = (TcpListener::bind((ip, 53)).expect("port 53"), zone.clone());
        std::thread::spawn(move || by_tcp.incoming().flatten().for_each(|client| drop(serve(client, &of_tcp))));
        let (serving, shared) = (socket.try_clone().expect("a descriptor"), zone.clone());
        std::thread::spawn(move || {
            let mut packet = [0; 4096];
            while let Ok((len, from)) = serving.recv_from(&mut packet) {
                let mut zone = shared.lock().expect("no holder has panicked");
                zone.asked.push(question(&packet[..len]));
                match zone.is_silent {
                    true => zone.held.push((packet[..len].to_vec(), from)),
                    // The resolver may have closed its socket.
                    false => drop(serving.send_to(&zone.datagram(&packet[..len]), from)),
                }
            }
        });
        Nameserver { socket, zone }
    }

    /// Answers no query until [`answer`](Nameserver::answer).
    pub(crate) fn fall_silent(&self) {
        self.zone().is_silent = true;
    }

    /// Answers queries, also those that came during a silence.
    pub(crate) fn answer(&self) {
        let mut zone = self.zone();
        zone.is_silent = false;
        for (query, from) in std::mem::take(&mut zone.held) {
            let _ = self.socket.send_to(&zone.datagram(&query), from);
        }
    }

    /// Replaces the addresses of `name`, a full name without the final dot; without `addresses` the name does not exist.
    /// `ttl` is in seconds.
    pub(crate) fn set(&self, name: &str, ttl: u32, addresses: &[&str]) {
        let data = |ip: &&str| ip.parse::<Ipv4Addr>().expect("an IPv4 address").octets().to_vec();
        self.replace(name, A, ttl, addresses.iter().map(data).collect());
    }

    /// Replaces the SRV records of `name`. `ttl` is in seconds.
    pub(crate) fn set_services(&self, name: &str, ttl: u32, services: &[Service]) {
        let data = |service: &Service| {
            let Service { priority, weight, port, target } = service;
            let mut data: Vec<u8> =
                [priority, weight, port].into_iter().flat_map(|number| number.to_be_bytes()).collect();
            for label in target.split('.').filter(|label| !label.is_empty()) {
                data.push(label.len() as u8);
                data.extend_from_slice(label.as_bytes());
            }
            data.push(0);
            data
        };
        self.replace(name, SRV, ttl, services.iter().map(data).collect());
    }

    /// Returns how often it was asked for the records of `name` of type `kind`.
    pub(crate) fn asked(&self, name: &str, kind: u16) -> usize {
        self.zone().asked.iter().filter(|(asked, of)| asked == name && *of == kind).count()
    }

    fn replace(&self, name: &str, kind: u16, ttl: u32, data: Vec<Vec<u8>>) {
        let mut zone = self.zone();
        zone.records.retain(|record| (record.name.as_str(), record.kind) != (name, kind));
        zone.records.extend(data.into_iter().map(|data| Record { name: name.into(), kind, ttl, data }));
    }

    fn zone(&self) -> MutexGuard<'_, Zone> {
        self.zone.lock().expect("no holder has panicked")
    }
}

/// Answers the queries of one connection (RFC 1035 4.2.2).
fn serve(mut client: TcpStream, zone: &Mutex<Zone>) -> io::Result<()> {
    loop {
        let mut len = [0; 2];
        client.read_exact(&mut len)?;
        let mut query = vec![0; u16::from_be_bytes(len).into()];
        client.read_exact(&mut query)?;
        let reply = zone.lock().expect("no holder has panicked").reply(&query);
        client.write_all(&[&(reply.len() as u16).to_be_bytes(), &reply[..]].concat())?;
    }
}

impl Zone {
    /// Returns the reply to a datagram: without answers and with the bit TC if they do not fit (RFC 1035 4.2.1).
    fn datagram(&self, query: &[u8]) -> Vec<u8> {
        let reply = self.reply(query);
        if reply.len() <= 512 {
            return reply;
        }
        let mut cut = Zone::default().reply(query);
        cut[2] |= 0x02; // TC
        cut[3] &= 0xf0; // NOERROR
        cut
    }

    /// Returns the reply to `query` (RFC 1035 4.1).
    fn reply(&self, query: &[u8]) -> Vec<u8> {
        const QUESTION: usize = 12;
        let (name, kind) = question(query);
        let answers: Vec<&Record> =
            self.records.iter().filter(|record| record.name == name && record.kind == kind).collect();
        let exists = self.records.iter().any(|record| record.name == name);
        let code = if exists { 0 } else { 3 }; // NXDOMAIN
        let end = QUESTION + name.len() + 2 + 4;
        let mut reply = query[..2].to_vec();
        reply.extend([0x81, 0x80 | code, 0, 1, 0, answers.len() as u8, 0, 0, 0, 0]); // a response, recursion available
        reply.extend_from_slice(&query[QUESTION..end]);
        for Record { kind, ttl, data, .. } in answers {
            reply.extend([0xc0, QUESTION as u8]); // the name of the question
            reply.extend(kind.to_be_bytes());
            reply.extend([0, 1]); // IN
            reply.extend(ttl.to_be_bytes());
            reply.extend((data.len() as u16).to_be_bytes());
            reply.extend(data);
        }
        reply
    }
}

/// Returns the name and type that `query` asks for, in lower case without the final dot.
fn question(query: &[u8]) -> (String, u16) {
    let (mut at, mut labels) = (12, Vec::new());
    while query[at] > 0 {
        let label = &query[at + 1..][..query[at].into()];
        labels.push(String::from_utf8_lossy(label).to_ascii_lowercase());
        at += 1 + label.len();
    }
    (labels.join("."), u16::from_be_bytes([query[at + 1], query[at + 2]]))
}
