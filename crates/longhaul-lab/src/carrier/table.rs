//! The carriers: one row each, with the programs that it needs. To add a carrier, add a row.

use crate::carrier::row::{Carrier, DATA_PORTS, PORT, Protocol, Role, Running, SSH_PORT, Tunnel};
use crate::error::{LabError, unknown};
use crate::plan::law;
use crate::plan::place::Host;
use crate::world::requirement::Requirement;
use crate::world::ssh;
use crate::world::supervisor::WORKSHOP;
use crate::world::user::User;
use crate::world::wan::Wan;
use std::net::SocketAddr;
use std::process::{Command, Stdio};

/// All carriers.
pub(crate) const ROWS: &[Carrier] = &[
    Carrier { name: "direct", what: "no relay", role: Role::Direct, ..Carrier::ROUTED },
    Carrier {
        name: "tuned",
        what: "no relay, the hosts tuned",
        role: Role::Tuned,
        hosts: |host, link| *host = host.tuned(link),
        ..Carrier::ROUTED
    },
    Carrier {
        name: "socat",
        what: "socat on both relays",
        needs: &[SOCAT_PROGRAM],
        start: |wan, _, _| socat(wan, ""),
        ..Carrier::RELAYED
    },
    Carrier {
        name: "socat-nodelay",
        what: "socat with nodelay on both relays",
        needs: &[SOCAT_PROGRAM],
        start: |wan, _, _| socat(wan, ",nodelay"),
        ..Carrier::RELAYED
    },
    Carrier {
        name: "ssh",
        what: "a port forward of ssh between the relays",
        needs: &[ssh::SSH, ssh::SSHD, ssh::KEYGEN],
        law: Some(law::OPENSSH),
        start: |wan, user, _| port_forward(wan, user),
        ..Carrier::RELAYED
    },
    Carrier {
        name: "haproxy",
        what: "HAProxy in TCP mode with splicing, on both relays",
        needs: &[Requirement::program("haproxy", "haproxy", "haproxy")],
        start: |wan, _, _| haproxy(wan),
        ..Carrier::RELAYED
    },
    Carrier {
        name: "nginx",
        what: "nginx with its stream module, on both relays",
        needs: &[Requirement::program("nginx", "nginx-light", "nginx"), NGINX_STREAM],
        start: |wan, user, _| nginx(wan, user),
        ..Carrier::RELAYED
    },
    Carrier {
        name: "socket-proxyd",
        what: "systemd-socket-proxyd on both relays",
        needs: &[Requirement::program("systemd-socket-activate", "systemd", "systemd"), SOCKET_PROXYD],
        start: |wan, _, _| socket_proxyd(wan),
        ..Carrier::RELAYED
    },
    Carrier {
        name: "longhaul",
        what: "longhaul on both relays",
        role: Role::Longhaul,
        congestion: Some("bbr"),
        start: |wan, _, tunnel| longhaul(wan, tunnel),
        ..Carrier::RELAYED
    },
];

/// Returns the carrier called `name`.
///
/// # Errors
/// No carrier has this name.
pub(crate) fn find(name: &str) -> Result<&'static Carrier, String> {
    let names = ROWS.iter().map(|carrier| carrier.name);
    let known = ROWS.iter().find(|carrier| carrier.name == name);
    known.ok_or_else(|| unknown("such carrier", name, names, "the carriers are"))
}

const SOCAT_PROGRAM: Requirement = Requirement::program("socat", "socat", "socat");

/// Starts the hand-made recipe: the same socat command on both relays.
fn socat(wan: &Wan, options: &str) -> Result<Running, LabError> {
    Running::on_relays(wan, "listening", |_, next| {
        let mut command = Command::new("socat");
        // -d -d: socat reports when it listens.
        command.args(["-d", "-d"]);
        command.arg(format!("TCP4-LISTEN:{PORT},fork,reuseaddr{options}")).arg(format!("TCP4:{next}:{PORT}{options}"));
        Ok((command, String::new()))
    })
}

/// Starts an ssh port forward from the near relay to the far one, without compression. With one relay only, it leads to B.
fn port_forward(wan: &Wan, user: &User) -> Result<Running, LabError> {
    let far = if wan.has_link() { Host::Far } else { Host::B };
    let server = ssh::Server::start(wan, far, SocketAddr::new(far.wan(), SSH_PORT), user)?;
    let mut command = Command::new(ssh::SSH.name);
    command.arg("-N").args(["-L", &format!("{}:{PORT}:{}:{PORT}", Host::Near.lan(), Host::B.lan())]);
    command.args(ssh::client_options()).args(["-o", "ExitOnForwardFailure=yes", "-o", "LogLevel=DEBUG1"]);
    command.arg(server.login(far.wan()));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let client = wan.spawn(Host::Near, command)?;
    let shown = vec![format!("{}: {}", Host::Near.name(), client.name()), server.shown];
    // ssh prints this line when it has logged in and listens.
    let client = client.wait_for("Entering interactive session")?;
    Ok(Running { programs: vec![client, server.program], shown, ..Running::at(Host::Near) })
}

/// Starts HAProxy in TCP mode with splicing, with timeouts for long transfers and limits for many flows.
fn haproxy(wan: &Wan) -> Result<Running, LabError> {
    Running::when_they_listen(wan, |relay, next| {
        let config = HAPROXY_CONFIG.replace("PORT", &PORT.to_string()).replace("NEXT", &next.to_string());
        let path = wan.write(&format!("haproxy-{}.cfg", relay.name()), &config)?;
        let mut command = Command::new("haproxy");
        // -db: stay in the foreground.
        command.args(["-db", "-f", &path]);
        Ok((command, config))
    })
}

const HAPROXY_CONFIG: &str = "\
global
    nbthread 2
    maxconn 6000
defaults
    mode tcp
    option splice-request
    option splice-response
    timeout connect 10s
    timeout client 1h
    timeout server 1h
listen relay
    bind :PORT
    server next NEXT:PORT
";

/// Starts nginx with its stream module, at its defaults except for limits that allow many flows.
fn nginx(wan: &Wan, user: &User) -> Result<Running, LabError> {
    let module = NGINX_STREAM.find()?;
    Running::on_relays(wan, "start worker process", |relay, next| {
        let config = NGINX_CONFIG
            .replace("MODULE", &module.display().to_string())
            .replace("WORKSHOP", WORKSHOP)
            .replace("RELAY", relay.name())
            .replace("PORT", &PORT.to_string())
            .replace("NEXT", &next.to_string());
        let path = wan.write(&format!("nginx-{}.conf", relay.name()), &config)?;
        // Runs as the user: as root of a user namespace, nginx could not change to another user.
        let mut command = user.command("nginx");
        command.args(["-c", &path, "-e", "stderr"]);
        Ok((command, config))
    })
}

const NGINX_STREAM: Requirement = Requirement {
    name: "ngx_stream_module.so",
    // The paths on Debian and on RHEL.
    places: &["/usr/lib/nginx/modules/ngx_stream_module.so", "/usr/lib64/nginx/modules/ngx_stream_module.so"],
    debian: "libnginx-mod-stream",
    rhel: "nginx-mod-stream",
};

const NGINX_CONFIG: &str = "\
load_module MODULE;
daemon off;
user root;
worker_processes 2;
worker_rlimit_nofile 20000;
pid WORKSHOP/nginx-RELAY.pid;
error_log stderr notice;
events { worker_connections 10000; }
stream {
    server {
        listen PORT;
        proxy_pass NEXT:PORT;
    }
}
";

/// Starts systemd-socket-proxyd, which takes a listening socket from its parent process. The parent is systemd-socket-activate,
/// so systemd need not run. All settings are defaults, except that the maximum of connections is not 256.
fn socket_proxyd(wan: &Wan) -> Result<Running, LabError> {
    let program = SOCKET_PROXYD.find()?;
    Running::on_relays(wan, "Listening on", |_, next| {
        let mut command = Command::new("systemd-socket-activate");
        command.arg("-l").arg(PORT.to_string()).arg(&program);
        command.arg("--connections-max=6000").arg(format!("{next}:{PORT}"));
        command.env("SYSTEMD_LOG_TARGET", "console");
        Ok((command, String::new()))
    })
}

const SOCKET_PROXYD: Requirement = Requirement {
    name: "systemd-socket-proxyd",
    // The paths of systemd's internal programs.
    places: &["/lib/systemd/systemd-socket-proxyd", "/usr/lib/systemd/systemd-socket-proxyd"],
    debian: "systemd",
    rhel: "systemd",
};

/// Starts this program's own relay, at its defaults and as `tunnel` says.
fn longhaul(wan: &Wan, tunnel: &Tunnel<'_>) -> Result<Running, LabError> {
    let program = std::env::current_exe().map_err(LabError::io("finding this program"))?;
    // proc_pid_exe(5): the path of a file that was replaced ends with " (deleted)".
    std::fs::metadata(&program).map_err(LabError::io(format!(
        "starting {}, which was replaced after this command had begun; start the command again",
        program.display()
    )))?;
    Running::on_relays(wan, "listening", |relay, next| {
        let mut command = Command::new(&program);
        // Both relays see the same files, so each has a folder of its own for its control socket.
        command.env("RUNTIME_DIRECTORY", format!("{WORKSHOP}/{}", relay.name()));
        command.args(["relay", "--listen", &PORT.to_string(), "--to", &format!("{next}:{PORT}")]);
        if tunnel.protocol == Protocol::Ftp {
            let ports = format!("{}-{}", DATA_PORTS.start(), DATA_PORTS.end());
            command.args(["--protocol", "ftp", "--ftp-ports", &ports]);
        }
        command.args(tunnel.set.iter().flat_map(|setting| ["--set", setting])).args(tunnel.options);
        Ok((command, String::new()))
    })
}
