//! A control connection of FTP whose client and server are the test, and the relays between them.

use crate::ftp::servers::{Chain, Mode};
use crate::harness::*;
use serde_json::Value;
use socket2::SockRef;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};

/// How a data connection is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// The client connects.
    Passive,
    /// The server connects.
    Active,
    /// The relay dials both: `ftp.mode = "passive"`, and a client in active mode.
    Dialled,
    /// Both connect: `ftp.mode = "active"`, and a client in passive mode.
    Met,
}

impl Form {
    pub(crate) const ALL: [Form; 4] = [Form::Passive, Form::Active, Form::Dialled, Form::Met];

    /// Returns the flags of relays for it.
    pub(crate) fn flags(self) -> &'static [&'static str] {
        match self {
            Form::Passive | Form::Active => &[],
            Form::Dialled => &["--ftp-mode", "passive"],
            Form::Met => &["--ftp-mode", "active"],
        }
    }
}

/// An end of a control connection.
pub(crate) struct Control(pub(crate) TcpStream);

impl Control {
    /// Connects to a real server and logs in.
    pub(crate) fn log_in(to: SocketAddr) -> Control {
        let control = Control(patient(TcpStream::connect(to).unwrap()));
        assert_eq!(code(&control.reply()), 220);
        for command in ["USER tester", "PASS secret", "TYPE I"] {
            control.say(command);
            control.reply();
        }
        control
    }

    /// Opens a data connection in this mode and sends `command`. Returns the data connection.
    pub(crate) fn begin(&self, mode: Mode, command: &str) -> TcpStream {
        if mode.is_passive() {
            let data = patient(TcpStream::connect(self.passive(mode)).unwrap());
            self.say(command);
            assert_eq!(code(&self.reply()), 150);
            return data;
        }
        let listener = server();
        let address = listener.local_addr().unwrap();
        self.say(&match mode {
            Mode::Port => format!("PORT {}", six(address)),
            _ => format!("EPRT |1|{}|{}|", address.ip(), address.port()),
        });
        assert_eq!(code(&self.reply()), 200);
        self.say(command);
        assert_eq!(code(&self.reply()), 150);
        accept(&listener)
    }

    pub(crate) fn passive(&self, mode: Mode) -> SocketAddr {
        self.say(if mode == Mode::Pasv { "PASV" } else { "EPSV" });
        self.named(&self.reply())
    }

    /// Returns the address in a reply to PASV or EPSV.
    pub(crate) fn named(&self, reply: &str) -> SocketAddr {
        let inside =
            reply.split_once('(').and_then(|(_, rest)| rest.split_once(')')).unwrap_or_else(|| panic!("{reply}")).0;
        match reply.starts_with("227 ") {
            true => from_six(inside),
            false => SocketAddr::new(self.0.peer_addr().unwrap().ip(), inside.trim_matches('|').parse().unwrap()),
        }
    }

    pub(crate) fn say(&self, line: &str) {
        (&self.0).write_all(format!("{line}\r\n").as_bytes()).unwrap();
    }

    /// Reads one line, without its end.
    pub(crate) fn line(&self) -> String {
        let mut line = Vec::new();
        while !line.ends_with(b"\r\n") {
            let mut byte = [0];
            let read = uninterrupted(|| (&self.0).read(&mut byte)).unwrap();
            assert_eq!(read, 1, "the end, after {:?}", line.escape_ascii().to_string());
            line.push(byte[0]);
        }
        line.truncate(line.len() - 2);
        String::from_utf8(line).unwrap()
    }

    /// Reads one reply; returns its last line.
    pub(crate) fn reply(&self) -> String {
        loop {
            let line = self.line();
            if line.as_bytes().get(3) == Some(&b' ') {
                return line;
            }
        }
    }

    /// Reads to the end; returns the ending.
    pub(crate) fn ending(&self) -> Ending {
        read_to_end(&self.0).1
    }
}

/// A client whose server is the test, too.
impl Control {
    /// Sends `command`, which `server` must get as `heard` and answers with `answer`; returns the reply that the client gets.
    pub(crate) fn ask(&self, server: &Control, command: &str, heard: &str, answer: &str) -> String {
        self.say(command);
        assert_eq!(server.line(), heard, "for {command}");
        server.say(answer);
        self.line()
    }

    /// Sends PASV, to which `server` names `data`; returns the address that the client gets.
    pub(crate) fn passive_to(&self, server: &Control, data: &TcpListener) -> SocketAddr {
        self.passive_to_address(server, data.local_addr().unwrap())
    }

    /// The same with any address, such as a reserved port on which nothing listens.
    pub(crate) fn passive_to_address(&self, server: &Control, data: SocketAddr) -> SocketAddr {
        let answer = format!("227 Entering Passive Mode ({}).", six(data));
        self.named(&self.ask(server, "PASV", "PASV", &answer))
    }

    /// Sends PORT with the address of `data`; returns the address that `server` gets.
    pub(crate) fn active_to(&self, server: &Control, data: &TcpListener) -> SocketAddr {
        self.active_to_address(server, data.local_addr().unwrap())
    }

    /// The same with any address.
    pub(crate) fn active_to_address(&self, server: &Control, data: SocketAddr) -> SocketAddr {
        self.say(&format!("PORT {}", six(data)));
        let to = server.asked();
        server.say("200 ok");
        assert_eq!(self.line(), "200 ok");
        to
    }

    /// Returns the address in PORT, which is the next line.
    pub(crate) fn asked(&self) -> SocketAddr {
        let heard = self.line();
        from_six(heard.strip_prefix("PORT ").unwrap_or_else(|| panic!("{heard}")))
    }

    /// Sends PORT with the address of `client`, to which `server` answers as to PASV with that of `data`.
    pub(crate) fn dialled_to(&self, server: &Control, client: SocketAddr, data: SocketAddr) {
        self.say(&format!("PORT {}", six(client)));
        assert_eq!(server.line(), "PASV");
        server.say(&format!("227 Entering Passive Mode ({}).", six(data)));
        assert_eq!(self.line(), "200 PORT command successful");
    }

    /// Sends PASV, to which `server` answers as to PORT. Returns the addresses for the client and for the server.
    pub(crate) fn meet(&self, server: &Control) -> (SocketAddr, SocketAddr) {
        self.say("PASV");
        let for_server = server.asked();
        server.say("200 ok");
        (self.named(&self.line()), for_server)
    }

    /// Opens a data connection, through relays with the [flags](Form::flags) of `form`; returns the client's end and the server's.
    pub(crate) fn data_to(&self, server: &Control, form: Form) -> (TcpStream, TcpStream) {
        let listener = crate::harness::server();
        let connect = |to| patient(TcpStream::connect(to).unwrap());
        match form {
            Form::Passive => (connect(self.passive_to(server, &listener)), accept(&listener)),
            Form::Active => {
                let server_end = connect(self.active_to(server, &listener));
                self.transfer(server);
                (accept(&listener), server_end)
            }
            Form::Dialled => {
                let data = crate::harness::server();
                self.dialled_to(server, listener.local_addr().unwrap(), data.local_addr().unwrap());
                let server_end = accept(&data);
                self.transfer(server);
                // No reply overtakes it.
                listener.set_nonblocking(true).unwrap();
                (patient(listener.accept().expect("the data connection is there").0), server_end)
            }
            Form::Met => {
                let (for_client, for_server) = self.meet(server);
                let server_end = connect(for_server);
                // Such a client waits for 150 before it connects.
                self.transfer(server);
                (connect(for_client), server_end)
            }
        }
    }

    /// Sends RETR; the transfer begins, and ends for the control connection.
    fn transfer(&self, server: &Control) {
        assert_eq!(self.ask(server, "RETR f", "RETR f", "150 begins"), "150 begins");
        server.say("226 ends");
        assert_eq!(self.line(), "226 ends");
    }
}

fn code(reply: &str) -> u16 {
    reply[..3].parse().unwrap()
}

/// Returns the six numbers of PORT and of the reply 227.
pub(crate) fn six(address: SocketAddr) -> String {
    let port = address.port();
    format!("{},{},{}", address.ip().to_string().replace('.', ","), port >> 8, port & 255)
}

pub(crate) fn from_six(text: &str) -> SocketAddr {
    let numbers: Vec<u8> = text.split(',').map(|number| number.trim().parse().unwrap()).collect();
    let [a, b, c, d, high, low] = numbers[..] else { panic!("{text}") };
    SocketAddr::from(([a, b, c, d], u16::from_be_bytes([high, low])))
}

/// A control connection between a client and a server of the test, through relays.
pub(crate) struct Dialogue {
    pub(crate) chain: Chain,
    pub(crate) client: Control,
    pub(crate) server: Control,
    pub(crate) listener: TcpListener,
}

impl Dialogue {
    pub(crate) fn begin(relays: usize, flags: &[&str]) -> Dialogue {
        Dialogue::begin_on(&vec!["127.0.0.1"; relays], flags)
    }

    /// Begins through a relay on each of `ips`, the near one first.
    pub(crate) fn begin_on(ips: &[&str], flags: &[&str]) -> Dialogue {
        let listener = server();
        let chain = Chain::start(ips, listener.local_addr().unwrap(), flags);
        let (client, server) = Dialogue::connect(&chain, &listener);
        Dialogue { chain, client, server, listener }
    }

    /// Opens a control connection; returns the client's end and the server's.
    pub(crate) fn connect(chain: &Chain, listener: &TcpListener) -> (Control, Control) {
        let entry = chain.entry();
        let to =
            if entry.ip().is_unspecified() { SocketAddr::new(Ipv4Addr::LOCALHOST.into(), entry.port()) } else { entry };
        let client = Control(patient(TcpStream::connect(to).unwrap()));
        let server = Control(accept(listener));
        server.say("220 ready");
        assert_eq!(client.line(), "220 ready");
        (client, server)
    }

    /// See [`Control::ask`].
    pub(crate) fn ask(&self, command: &str, heard: &str, answer: &str) -> String {
        self.client.ask(&self.server, command, heard, answer)
    }

    /// See [`Control::passive_to`].
    pub(crate) fn passive(&self, data: &TcpListener) -> SocketAddr {
        self.client.passive_to(&self.server, data)
    }

    /// See [`Control::active_to`].
    pub(crate) fn active(&self, data: &TcpListener) -> SocketAddr {
        self.client.active_to(&self.server, data)
    }

    /// See [`Control::data_to`].
    pub(crate) fn data(&self, form: Form) -> (TcpStream, TcpStream) {
        self.client.data_to(&self.server, form)
    }

    /// Asserts that the control connection works.
    pub(crate) fn still_works(&self) {
        assert_eq!(self.ask("SYST", "SYST", "215 UNIX"), "215 UNIX");
    }

    pub(crate) fn near(&self) -> &Relay {
        &self.chain.relays[0]
    }

    pub(crate) fn counter(&self, name: &str) -> u64 {
        self.near().counters()[name].as_u64().unwrap()
    }
}

/// A daemon whose tunnel is one of FTP, and a control connection through it.
pub(crate) struct Shown {
    pub(crate) client: Control,
    pub(crate) server: Control,
    // Dropped last, so that no control connection holds up its end.
    pub(crate) watched: Watched,
}

impl Shown {
    /// Starts the daemon; the tunnel has `keys` besides `protocol`.
    pub(crate) fn begin(keys: &str) -> Shown {
        let watched = Watched::start(&Shown::keys(keys));
        let (client, server) = watched.flow();
        let (client, server) = (Control(client), Control(server));
        server.say("220 ready");
        assert_eq!(client.line(), "220 ready");
        Shown { client, server, watched }
    }

    /// Changes the tunnel's keys.
    pub(crate) fn reload(&self, keys: &str) {
        self.watched.reload(&Shown::keys(keys));
    }

    fn keys(more: &str) -> String {
        format!("protocol = \"ftp\"\n{more}")
    }

    /// Opens a data connection for `command`, which begins with the name of a verb. Returns the client's end and the server's.
    pub(crate) fn data(&self, form: Form, command: &str) -> (TcpStream, TcpStream) {
        let data = self.client.data_to(&self.server, form);
        assert_eq!(self.client.ask(&self.server, command, command, "150 here"), "150 here");
        data
    }

    /// Returns the state of the flow that `command` uses.
    pub(crate) fn flow(&self, command: &str) -> Value {
        let status = self.watched.status();
        let flows = status["flows"].as_array().unwrap();
        flows.iter().find(|flow| flow["transfer"] == command).unwrap_or_else(|| panic!("{status}")).clone()
    }

    /// Returns the tunnel's counters.
    pub(crate) fn counters(&self) -> Value {
        self.watched.status()["tunnels"][0]["counters"].clone()
    }
}

/// Asserts that nobody listens on `address`.
pub(crate) fn assert_closed(address: SocketAddr) {
    wait_until("the data listener is closed", || {
        TcpStream::connect(address).is_err_and(|err| err.kind() == std::io::ErrorKind::ConnectionRefused)
    });
}

/// Returns a listener whose listen queue is full, and the connection in it. The kernel drops the SYN of the next one, which is sent again a
/// second later.
pub(crate) fn full() -> (TcpListener, TcpStream) {
    let listener = server();
    // A queue for one connection (listen(2)).
    SockRef::from(&listener).listen(0).unwrap();
    let in_the_queue = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (listener, in_the_queue)
}
