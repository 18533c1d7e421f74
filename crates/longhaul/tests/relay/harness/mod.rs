//! A path for tests: client, one or two relays, server, on loopback or between the hosts of the lab. The relays are processes,
//! so that tests can kill them. Their logs are JSON, so that tests can compare fields.
//!
//! `daemon` starts a relay with a file; `path` builds relays from flags; `relay` is one process; `sockets` are the ends of a path.

mod daemon;
mod path;
mod relay;
mod sockets;

pub(crate) use daemon::*;
pub(crate) use path::*;
pub(crate) use relay::*;
pub(crate) use sockets::*;
use std::process::Command;
use std::time::Duration;

/// Timeout of every wait, longer than any step takes on a slow machine. A test that reaches it has failed.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);

/// The variable that names the folder of the default control socket (systemd.exec(5)).
pub(crate) const RUNTIME_DIRECTORY: &str = "RUNTIME_DIRECTORY";

/// Runs `test`, and the processes that it starts, in a new network namespace with nothing but loopback. Needs root.
pub(crate) fn in_own_network(test: impl FnOnce() + Send) {
    if !longhaul_sys::netns::is_root() {
        return skip("needs root, to create a network namespace");
    }
    let in_namespace = || {
        longhaul_sys::netns::NetNs::create().expect("a network namespace");
        ip("link set lo up");
        test();
    };
    if let Err(panic) = std::thread::scope(|scope| scope.spawn(in_namespace).join()) {
        std::panic::resume_unwind(panic);
    }
}

/// Runs ip(8) with the words of `arguments` in the calling thread's network namespace.
pub(crate) fn ip(arguments: &str) {
    let status = Command::new("ip").args(arguments.split(' ')).status();
    assert!(status.expect("ip(8) runs").success(), "ip {arguments}");
}

/// Writes a sysctl of the calling thread's network namespace. `name` is its path below /proc/sys.
pub(crate) fn set_sysctl(name: &str, value: &str) {
    std::fs::write(format!("/proc/sys/{name}"), value).unwrap_or_else(|err| panic!("{name}: {err}"));
}

/// Whether the calling thread's network namespace has this sysctl. Older kernels have some of them for the whole host alone.
pub(crate) fn has_sysctl(name: &str) -> bool {
    std::path::Path::new("/proc/sys").join(name).exists()
}

/// Prints that a test did not run, and why. In CI every test must run, so there it fails the test.
pub(crate) fn skip(why: &str) {
    assert!(std::env::var_os("CI").is_none(), "SKIP in CI: {why}");
    eprintln!("SKIP: {why}");
}
