//! The listeners of the process: their tasks, and the sockets that systemd has opened.

use crate::state::listening::Listening;
use crate::state::served_tunnel::ServedTunnel;
use longhaul_config::Tunnel;
use longhaul_core::reload::{Before, Plan};
use socket2::Socket;
use std::net::SocketAddr;
use std::sync::{Arc, Weak};
use tokio::task::{AbortHandle, JoinSet};

/// The listeners of the process.
#[derive(Debug, Default)]
pub(crate) struct Listeners {
    /// The tasks of the listeners, those included that others have replaced and that serve for a moment more.
    pub(crate) tasks: JoinSet<()>,
    /// The sockets of these tasks.
    open: Vec<Weak<Listening>>,
    /// Every socket from systemd, with or without a tunnel that listens on it.
    pub(crate) activated: Vec<Activated>,
}

/// A listening socket that systemd opened. It holds it too, so the socket stays open for the life of the process.
#[derive(Debug)]
pub(crate) struct Activated {
    pub(crate) socket: Socket,
    pub(crate) address: SocketAddr,
    /// The task that resets every connection while no tunnel listens here.
    pub(crate) refusing: Option<AbortHandle>,
}

impl Listeners {
    /// Plans the change from the tunnels `old` to those with the settings `new`.
    pub(crate) fn plan(&mut self, old: &[Arc<ServedTunnel>], new: &[Arc<Tunnel>]) -> Plan {
        self.open.retain(|listener| listener.strong_count() > 0);
        let leaves = |listener: &&Weak<Listening>| !old.iter().any(|tunnel| tunnel.listener.ptr_eq(listener));
        let leaving = self.open.iter().filter(leaves).filter_map(Weak::upgrade).filter(|listener| !listener.is_held);
        let before = Before {
            tunnels: old.iter().map(|tunnel| (&*tunnel.settings, tunnel.listens())).collect(),
            leaving: leaving.map(|listener| listener.listen).collect(),
            held: self.activated.iter().map(|socket| socket.address).collect(),
        };
        Plan::new(&before, &new.iter().map(|tunnel| &**tunnel).collect::<Vec<_>>())
    }

    /// Runs `task`, that of the listener `socket`.
    pub(crate) fn start(&mut self, socket: &Arc<Listening>, task: impl Future<Output = ()> + Send + 'static) {
        self.open.push(Arc::downgrade(socket));
        self.tasks.spawn(task);
    }
}
