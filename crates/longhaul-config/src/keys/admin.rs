//! The keys of `[admin]`.

use crate::config::Admin;
use crate::document::Severity;
use crate::keys::remark::{Remark, Syntax, no_remarks};
use crate::keys::row::{KeyDefault, KeyValue, Row};
use crate::value;

/// The keys of `[admin]`, in the order of the manual.
pub(crate) const ADMIN: &[Row<Admin>] = &[
    Row {
        name: "socket",
        default: KeyDefault::Value("\"/run/longhaul/admin.sock\""),
        example: "\"/run/longhaul/admin.sock\"",
        flag: None,
        value: KeyValue::One(|admin, text| value::admin_socket(text).map(|path| admin.socket = Some(path))),
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
        value: KeyValue::One(|admin, text| value::admin_listen(text).map(|address| admin.listen = Some(address))),
        show: |admin| admin.listen.map(|address| format!("serves its state by HTTP on {address}")),
        check: open_to_others,
        doc: "Address and port of the HTTP listener. It is read-only: nothing can be changed through it. A port alone \
              listens on 127.0.0.1. Whoever reaches another address can read the names of the tunnels and the addresses \
              of the flows.",
    },
];

/// Returns a note if other hosts may read the HTTP listener.
fn open_to_others(admin: &Admin, _: Syntax) -> Vec<Remark> {
    let open = admin.listen.filter(|address| !address.ip().is_loopback());
    let text = "other hosts can read the tunnels and the addresses of the flows; 127.0.0.1 keeps it on this host";
    open.map(|_| Remark { severity: Severity::Note, key: "listen".into(), text: text.into() }).into_iter().collect()
}
