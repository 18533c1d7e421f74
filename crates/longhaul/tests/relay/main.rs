//! Tests the relay from outside: real `longhaul` processes, real sockets, exact bytes, and the ending that each end of the
//! connection sees.
//!
//! | file | tests |
//! | --- | --- |
//! | `endings` | the matrix of FIN, RST, kill -9, slow reader and dead next hop |
//! | `states` | the end of a relay in every state of TCP |
//! | `many` | many flows, many messages, urgent data, addresses |
//! | `hops` | several next hops: policies, racing dials, ejection |
//! | `limits` | few descriptors, pipes and pipe pages |
//! | `ha` | keepalived and HAProxy before two near relays; `site` builds the machines |
//! | `resources` | resources that run short: log, status, problems |
//! | `sources` | limits of a source, and of the process |
//! | `proxy` | PROXY headers, also of HAProxy and nginx |
//! | `names` | names: TTL, outages of the resolver, SRV; `nameserver` answers |
//! | `logs` | a stderr that fails or blocks |
//! | `daemon` | reload and systemd |
//! | `reload` | reloads in quick succession |
//! | `drain` | SIGTERM |
//! | `options` | every option of the table |
//! | `caps` | bandwidth caps |
//! | `fast_open` | data in the SYN |
//! | `ftp` | FTP with servers and clients of others, which `ftp_servers` runs |
//! | `ftp_control` | control connections of FTP: first bytes, half-open ones, resets, attacks by them |
//! | `ftp_rules` | FTP between a client and a server of the test, which are in `ftp_dialogue`: addresses, ports, endings, attacks |
//! | `ftp_listeners` | FTP's data listeners: their ports and descriptors, how long they wait, what limits them |
//! | `ftp_flows` | data connections of FTP as flows of their tunnel: caps, options, `allow`, views; ends of the control connection |
//! | `ftp_killed` | FTP with servers and clients of others while a relay is killed |
//! | `ftp_modes` | clients of FTP in active mode, and servers in passive mode |
//! | `ftp_words` | the refusals of FTP, in words: the log and the replies |
//! | `ftp_places` | FTP behind a NAT, between two servers, and the ports of `ftp.ports` that are not reserved |
//! | `admin` | the control socket and the HTTP listener |
//! | `status` | `longhaul status` and the problems that it tells |
//! | `metrics` | /metrics and the counters of each tunnel; promtool and Prometheus |
//! | `dashboard` | the page of the HTTP listener, in Chromium; `browser` drives it |
//! | `verify` | probes: whole paths, broken stages, bad prefaces |
//! | `verified` | tunnels with `verify`: the daemon's own probes |
//! | `probe_key` | a key for probes: wrong ones, replays, bad files |
//! | `segments` | each segment of a path broken in each way, between the hosts of the lab |
//! | `wan` | the matrix again, with 300 ms of RTT |

#![allow(clippy::unwrap_used)] // clippy.toml allows it in tests, but not in what tests call

mod admin;
mod browser;
mod caps;
#[path = "../common/chromium.rs"]
mod chromium;
mod daemon;
mod dashboard;
mod drain;
mod endings;
mod fast_open;
mod ftp;
mod ftp_control;
mod ftp_dialogue;
mod ftp_flows;
mod ftp_killed;
mod ftp_listeners;
mod ftp_modes;
mod ftp_places;
mod ftp_rules;
mod ftp_servers;
mod ftp_words;
mod ha;
mod harness;
mod hops;
mod limits;
mod logs;
mod many;
mod metrics;
mod names;
mod nameserver;
mod options;
mod probe_key;
mod proxy;
mod reload;
mod resources;
mod segments;
mod site;
mod sources;
mod states;
mod status;
mod top;
mod verified;
mod verify;
mod wan;
