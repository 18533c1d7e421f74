//! nginx with its stream module.

use crate::carrier::row::{Carrier, PORT, Started};
use crate::world::supervisor::{WORKSHOP, missing};
use std::path::Path;

/// At its defaults, with room for many flows.
pub(crate) const NGINX: Carrier = Carrier {
    name: "nginx",
    what: "stream, proxy_pass",
    hosts: |_, _| {},
    congestion: None,
    start: |wan, user, _| {
        let modules = MODULES.iter().map(Path::new);
        let Some(module) = modules.into_iter().find(|module| module.exists()) else {
            return Err(missing(MODULES[0].rsplit('/').next().unwrap_or_default()));
        };
        Started::on_relays(wan, "start worker process", |relay, next| {
            let config = CONFIG
                .replace("MODULE", &module.display().to_string())
                .replace("WORKSHOP", WORKSHOP)
                .replace("RELAY", relay.name())
                .replace("PORT", &PORT.to_string())
                .replace("NEXT", &next.to_string());
            let path = wan.write(&format!("nginx-{}.conf", relay.name()), &config)?;
            // As the user himself: where he only seems to be root, it could not change to another.
            let mut command = user.command("nginx");
            command.args(["-c", &path, "-e", "stderr"]);
            Ok((command, config))
        })
    },
};

/// Debian's place and RHEL's.
const MODULES: [&str; 2] =
    ["/usr/lib/nginx/modules/ngx_stream_module.so", "/usr/lib64/nginx/modules/ngx_stream_module.so"];

const CONFIG: &str = "\
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
