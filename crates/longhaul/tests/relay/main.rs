//! The relay as its users meet it: real `longhaul` processes, real sockets, exact bytes, and the ending that each end of
//! the connection sees.
//!
//! `endings` is the matrix of FIN, RST, kill -9, slow reader and dead next hop; `states` is every state of TCP in which a
//! relay can end; `many` is flows in number; `limits` is little to live on; `names` is a resolver that does not answer;
//! `logs` is a stderr that fails or blocks; `daemon` is reload and systemd; `reload` is reloads that follow each other at
//! once; `drain` is SIGTERM; `options` is every option of the table; `fast_open` is data in the SYN; `wan` is the matrix
//! again with 300 ms of RTT.

#![allow(clippy::unwrap_used)] // clippy.toml allows it in tests, but not in what tests call

mod daemon;
mod drain;
mod endings;
mod fast_open;
mod harness;
mod limits;
mod logs;
mod many;
mod names;
mod options;
mod reload;
mod states;
mod wan;
