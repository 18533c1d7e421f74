//! The keys of `[admin]`.

use crate::config::Admin;
use crate::document::Severity;
use crate::remark::{Remark, Syntax, no_remarks};
use crate::row::{KeyDefault, KeyValue, Row, no_line};
use crate::value;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

/// The keys of `[admin]`, in the order of the manual.
pub const ADMIN: &[Row<Admin>] = &[
    Row {
        name: "socket",
        default: KeyDefault::Value("\"/run/longhaul/admin.sock\""),
        example: "\"/run/longhaul/admin.sock\"",
        flag: None,
        value: KeyValue::One(|admin, text| socket(text).map(|path| admin.socket = Some(path))),
        show: |admin| admin.socket.as_ref().map(|path| format!("is controlled through {}", path.display())),
        check: no_remarks,
        doc: "Absolute path of the control socket, shorter than 108 bytes. Only root and the user of the daemon may use it. \
              Without this key, the daemon uses the default if it can, and otherwise logs a warning. With it, the daemon \
              does not start without the socket. `longhaul relay` and the instances have `/run/longhaul/NAME.sock`, with \
              the name of the tunnel.",
    },
    Row {
        name: "listen",
        default: KeyDefault::Words("none"),
        example: "\"127.0.0.1:9650\"",
        flag: None,
        value: KeyValue::One(|admin, text| listen(text).map(|address| admin.listen = Some(address))),
        show: |admin| admin.listen.map(|address| format!("serves its state by HTTP on {address}")),
        check: open_to_others,
        doc: "Address and port of the HTTP listener. It is read-only: nothing can be changed through it. A port alone \
              listens on 127.0.0.1. Whoever reaches another address can read the names of the tunnels and the addresses \
              of the flows.",
    },
    Row {
        name: "hosts",
        default: KeyDefault::Words("none"),
        example: "[\"relay.example\"]",
        flag: None,
        value: KeyValue::Several { add: add_host, empty: "leave the key out" },
        show: no_line,
        check: names_of_nothing,
        doc: "Names by which the HTTP listener may be reached, such as that of a service address. An address, `localhost` and \
              the names of this machine (its host name, and those beside it or beside a loopback address in `/etc/hosts`, read \
              at the start and at each reload) need no entry. By any other name it answers 421, because a page on the web could \
              read the state through a name of its own (DNS rebinding). `/readyz` and `/healthz` answer by any name.",
    },
];

fn add_host(admin: &mut Admin, text: &str) -> Result<(), String> {
    if !value::is_host_name(text) {
        return Err(NO_HOST.into());
    }
    admin.hosts.push(text.into());
    Ok(())
}

/// Returns a warning about names without an HTTP listener.
fn names_of_nothing(admin: &Admin, _: Syntax) -> Vec<Remark> {
    if admin.hosts.is_empty() || admin.listen.is_some() {
        return Vec::new();
    }
    vec![Remark::warning("hosts", "without listen it has no effect; write listen = \"9650\", or remove it".into())]
}

/// Returns a note if other hosts may read the HTTP listener.
fn open_to_others(admin: &Admin, _: Syntax) -> Vec<Remark> {
    let open = admin.listen.filter(|address| !address.ip().is_loopback());
    let text = "other hosts can read the tunnels and the addresses of the flows; 127.0.0.1 keeps it on this host";
    open.map(|_| Remark { severity: Severity::Note, key: "listen".into(), text: text.into() }).into_iter().collect()
}

/// Parses the address of the HTTP listener: as [`value::listen`], but `PORT` alone means 127.0.0.1.
///
/// # Errors
/// As [`value::listen`].
fn listen(text: &str) -> Result<SocketAddr, String> {
    let address = value::listen(text)?;
    let is_port = text.bytes().all(|byte| byte.is_ascii_digit());
    Ok(if is_port { SocketAddr::from((Ipv4Addr::LOCALHOST, address.port())) } else { address })
}

fn socket(text: &str) -> Result<PathBuf, String> {
    let form = "write an absolute path shorter than 108 bytes, such as \"/run/longhaul/admin.sock\"";
    value::path(text, SUN_PATH_MAX, form)
}

const NO_HOST: &str = "write a host name without a port, of letters, digits, `-` and `.`, such as \"relay.example\"; an address needs no \
                       entry, and there are no patterns";
/// unix(7): sun_path has room for 108 bytes, and the last one is NUL.
const SUN_PATH_MAX: usize = 108;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn admin_hosts() {
        let mut admin = Admin::default();
        assert!(add_host(&mut admin, "relay.example").is_ok() && admin.hosts == ["relay.example"]);
        assert!(add_host(&mut admin, "relay.example:9650").is_err() && add_host(&mut admin, "http://a").is_err());
    }

    #[test]
    fn admin_addresses() {
        assert_eq!(listen("9650"), Ok("127.0.0.1:9650".parse().unwrap()));
        assert_eq!(listen("[::]:9650"), Ok("[::]:9650".parse().unwrap()));
        assert!(listen("localhost:9650").is_err() && listen("").is_err());
        assert_eq!(socket("/run/x.sock"), Ok("/run/x.sock".into()));
        for bad in ["", "x.sock", "/run/\0", &format!("/{}", "x".repeat(107))] {
            assert!(socket(bad).is_err(), "{bad}");
        }
    }
}
