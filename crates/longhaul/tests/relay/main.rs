//! Tests the relay from outside: real `longhaul` processes, real sockets, exact bytes, and the ending that each end of the
//! connection sees.
//!
//! The folders are those of the relay and of the program around it:
//!
//! | folder | tests |
//! | --- | --- |
//! | `accept` | `limits`: few descriptors, pipes and pipe pages; `sources`: limits of a source, and of the process; `proxy`: PROXY headers, also of HAProxy and nginx |
//! | `ftp` | FTP with servers and clients of others, which `servers` runs; `control`: first bytes, half-open connections, resets, attacks; `rules`: a client and a server of the test, which are in `dialogue`: addresses, ports, endings; `listeners`: data listeners; `flows`: data connections as flows of their tunnel; `killed`: a relay or a server is killed; `modes`: active and passive; `words`: refusals; `places`: two servers, ports |
//! | `carry` | `endings`: the matrix of FIN, RST, kill -9, slow reader and dead next hop; `states`: the end of a relay in every state of TCP; `wan`: the matrix again, with 300 ms; `many`: many flows and messages, urgent data, addresses |
//! | `probe` | `verify`: whole paths, broken stages, bad prefaces; `verified`: the daemon's own probes; `key`; `measure`: `longhaul path` and who answers it; `segments`: each segment of a path broken in each way |
//! | `reach` | `hops`: policies, racing dials, ejection; `fast_open`: data in the SYN |
//! | `caps` | bandwidth caps |
//! | `names` | TTL, outages of the resolver, SRV; `nameserver` answers |
//! | `leg` | every option of the table |
//! | `daemon` | reload and systemd; `reload`: in quick succession; `drain`: SIGTERM; `logs`: a stderr that fails or blocks; `resources` that run short; `ha`: keepalived and HAProxy before two near relays, which `site` builds |
//! | `admin` | the control socket and the HTTP listener; `status`: and the problems; `metrics`: promtool and Prometheus; `gain` over a WAN; `dashboard`: in Chromium, which `browser` drives; `top` |

#![allow(clippy::unwrap_used)] // clippy.toml allows it in tests, but not in what tests call

mod accept;
mod admin;
mod caps;
mod carry;
#[path = "../common/chromium.rs"]
mod chromium;
mod daemon;
mod ftp;
mod harness;
mod leg;
mod names;
mod probe;
mod reach;
