//! The ways to carry traffic between the hosts. [`table`] has a row for each carrier, and [`row`] defines a row.
//!
//! A carrier leads connections to port [`PORT`](row::PORT) of host B. A carrier on relays runs the same program on each relay: the near
//! relay connects to the far one, and the far one to B. A single relay host connects to B. With [`Protocol::Ftp`](row::Protocol::Ftp), data connections
//! to [`DATA_PORTS`](row::DATA_PORTS) belong to the traffic, too.

pub(crate) mod row;
pub(crate) mod table;
