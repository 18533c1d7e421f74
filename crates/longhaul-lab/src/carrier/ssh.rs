//! A port forward of ssh from the near relay to the far one, or to B itself where there is one relay only.

use crate::carrier::row::{Carrier, PORT, Started};
use crate::plan::place::Host;
use crate::problem::Problem;
use crate::world::ssh;
use crate::world::user::User;
use crate::world::wan::Wan;
use std::net::SocketAddr;
use std::process::{Command, Stdio};

/// At its defaults; no compression.
pub(crate) const SSH: Carrier = Carrier {
    name: "ssh",
    what: "a port forward",
    hosts: |_, _| {},
    congestion: None,
    start: |wan, user, _| start(wan, user),
};

fn start(wan: &Wan, user: &User) -> Result<Started, Problem> {
    let far = if wan.has_link() { Host::Far } else { Host::B };
    let server = ssh::Server::start(wan, far, SocketAddr::new(far.wan(), SSH_PORT), user)?;
    let mut command = Command::new("ssh");
    command.arg("-N").args(["-L", &format!("{}:{PORT}:{}:{PORT}", Host::Near.lan(), Host::B.lan())]);
    command.args(ssh::client_options()).args(["-o", "ExitOnForwardFailure=yes", "-o", "LogLevel=DEBUG1"]);
    command.arg(server.login(far.wan()));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let client = wan.spawn(Host::Near, command)?;
    let shown = vec![format!("{}: {}", Host::Near.name(), client.name()), server.shown];
    // It says so when it has logged in and listens.
    let client = client.wait_for("Entering interactive session")?;
    Ok(Started { entry: Host::Near, programs: vec![client, server.program], shown })
}

/// Where sshd listens.
pub(crate) const SSH_PORT: u16 = 22;
