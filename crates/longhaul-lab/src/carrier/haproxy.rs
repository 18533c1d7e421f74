//! HAProxy in TCP mode, told to splice.

use crate::carrier::row::{Carrier, PORT, Started};
use std::process::Command;

/// With time for long transfers and room for many flows.
pub(crate) const HAPROXY: Carrier = Carrier {
    name: "haproxy",
    what: "mode tcp, splicing",
    hosts: |_, _| {},
    congestion: None,
    start: |wan, _, _| {
        Started::when_they_listen(wan, |relay, next| {
            let config = CONFIG.replace("PORT", &PORT.to_string()).replace("NEXT", &next.to_string());
            let path = wan.write(&format!("haproxy-{}.cfg", relay.name()), &config)?;
            let mut command = Command::new("haproxy");
            // -db: it stays in the foreground.
            command.args(["-db", "-f", &path]);
            Ok((command, config))
        })
    },
};

const CONFIG: &str = "\
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
