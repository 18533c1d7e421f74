//! A path for tests: client, one or two relays, server, on loopback or between the hosts of the lab.

use crate::harness::relay::{Relay, longhaul};
use crate::harness::sockets::{echo, listen, patient, round_trip};
use longhaul_lab::{Host, Wan};
use socket2::{Domain, SockRef, Socket, Type};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;

/// A reserved port: the kernel gives it to nobody else while this value lives. The socket is bound but does not listen, so the
/// kernel lets a socket with SO_REUSEADDR listen on the same port.
pub(crate) struct Port(Socket);

impl Port {
    /// Reserves a free port of the loopback address `ip`.
    pub(crate) fn reserve(ip: &str) -> Port {
        let address: SocketAddr = format!("{ip}:0").parse().expect("an address");
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, None);
        let socket = socket.expect("a socket");
        socket.set_reuse_address(true).expect("SO_REUSEADDR");
        socket.bind(&address.into()).expect("a port");
        Port(socket)
    }

    /// Returns the reserved address and port.
    pub(crate) fn address(&self) -> SocketAddr {
        self.0.local_addr().expect("a name").as_socket().expect("an IP address")
    }
}

/// A relay from flags, whose clients and next hops are any.
pub(crate) struct Hop {
    pub(crate) relay: Relay,
    pub(crate) port: Port,
}

impl Hop {
    /// Starts a relay on 127.0.0.1 with the next hops `to`.
    pub(crate) fn new(to: &[impl ToString], flags: &[&str]) -> Hop {
        let port = Port::reserve("127.0.0.1");
        let to: Vec<String> = to.iter().map(ToString::to_string).collect();
        let (listen, to) = (port.address().to_string(), to.join(","));
        Hop { relay: Relay::start(&[&["relay", "--listen", &listen, "--to", &to], flags].concat()), port }
    }

    /// Connects a client.
    pub(crate) fn dial(&self) -> TcpStream {
        patient(TcpStream::connect(self.port.address()).expect("the relay listens"))
    }
}

/// Client, relays and server.
pub(crate) struct Path {
    /// The relays, the near one first.
    pub(crate) relays: Vec<Relay>,
    wan: Option<Arc<Wan>>,
    _ports: Vec<Port>,
    entry: SocketAddr,
    server: Option<TcpListener>,
}

impl Path {
    /// Builds a path of `count` relays on loopback, with `flags` for each.
    pub(crate) fn new(count: usize, flags: &[&str]) -> Path {
        Path::on("127.0.0.1", count, flags)
    }

    /// Like [`Path::new`], on another loopback address such as `[::1]`.
    pub(crate) fn on(ip: &str, count: usize, flags: &[&str]) -> Path {
        // Reserved, so that no other test gets the port when the server is dropped.
        let (mut relays, mut ports) = (Vec::new(), vec![Port::reserve(ip)]);
        let mut next = ports[0].address();
        let server = listen(next);
        for _ in 0..count {
            let port = Port::reserve(ip);
            let (listen, to) = (port.address().to_string(), next.to_string());
            let args = [&["relay", "--listen", &listen, "--to", &to], flags].concat();
            relays.insert(0, Relay::start(&args));
            next = port.address();
            ports.push(port);
        }
        Path { relays, wan: None, _ports: ports, entry: next, server: Some(server) }
    }

    /// Builds a path from host A to host B of the lab, on `port` of each host: over the near relay and, if `count` is 2, the
    /// far one.
    pub(crate) fn across(wan: &Arc<Wan>, port: u16, count: usize, flags: &[&str]) -> Path {
        let server = wan.on(Host::B, move || Ok(listen((Host::B.lan(), port))));
        let server = server.join().expect("no panic").expect("the host is there");
        let mut next = Host::B.lan();
        let mut relays = Vec::new();
        for host in [Host::Far, Host::Near].into_iter().skip(2 - count) {
            let mut command = longhaul();
            command.args(["relay", "--listen", &port.to_string(), "--to", &format!("{next}:{port}")]).args(flags);
            relays.insert(0, Relay::spawn_in(wan, host, command));
            next = host.wan();
        }
        let entry = SocketAddr::new(Host::Near.lan(), port);
        Path { relays, wan: Some(wan.clone()), _ports: Vec::new(), entry, server: Some(server) }
    }

    /// Opens a flow through the path; returns the client's end and the server's.
    pub(crate) fn connect(&self) -> (TcpStream, TcpStream) {
        let client = self.dial();
        (client, patient(self.server().accept().expect("the relay dials").0))
    }

    /// Opens a flow for each of `payloads` at once. Asserts that its bytes come back from the server, followed by FIN.
    pub(crate) fn echo_all(&self, payloads: impl ExactSizeIterator<Item = Vec<u8>>) {
        std::thread::scope(|scope| {
            let flows = payloads.len();
            scope.spawn(move || echo(self.server(), flows));
            payloads.for_each(|bytes| drop(scope.spawn(move || round_trip(self.dial(), &bytes))));
        });
    }

    /// Connects a client; returns its end.
    pub(crate) fn dial(&self) -> TcpStream {
        let entry = self.entry;
        patient(match &self.wan {
            None => TcpStream::connect(entry).expect("the relay accepts"),
            Some(wan) => {
                let client = wan.on(Host::A, move || Ok(TcpStream::connect(entry).expect("the relay accepts")));
                client.join().expect("no panic").expect("the host is there")
            }
        })
    }

    /// Returns the address that clients connect to.
    pub(crate) fn entry(&self) -> SocketAddr {
        self.entry
    }

    /// Returns the server's listener.
    pub(crate) fn server(&self) -> &TcpListener {
        self.server.as_ref().expect("the server was not dropped")
    }

    /// Closes the server, so that dials are refused.
    pub(crate) fn drop_server(&mut self) {
        let server = self.server.take().expect("the server was not dropped");
        // Closing our descriptor is not enough: a process that another test is just starting has a copy until execve(2).
        SockRef::from(&server).shutdown(Shutdown::Both).expect("it listens");
    }
}
