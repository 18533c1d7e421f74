//! The rows. Adding an option touches this file and no other.

use super::{Legs, Row, Unit, Value, When};
use crate::{Result, SysError};
use rustix::net::sockopt;
use std::os::fd::BorrowedFd;

/// Every option, in the order of docs/options.md.
pub static ROWS: &[Row] = &[Row {
    key: "nodelay",
    unit: Unit::Switch,
    range: (0, 0),
    when: When::Start,
    legs: Legs::Both,
    default: "true",
    help: "Send small messages at once (no Nagle). Without it, small reverse messages wait a WAN round trip.",
    source: "tcp(7) TCP_NODELAY",
    sample: "true",
    set: |fd, value| {
        sockopt::set_tcp_nodelay(fd, *value == Value::Switch(true))
            .map_err(|errno| SysError::new(format!("setsockopt(TCP_NODELAY, {value})"), errno))
    },
    get: nodelay,
    agrees: |asked, got| asked == got,
}];

fn nodelay(fd: BorrowedFd<'_>) -> Result<Value> {
    sockopt::tcp_nodelay(fd).map(Value::Switch).map_err(|errno| SysError::new("getsockopt(TCP_NODELAY)", errno))
}
