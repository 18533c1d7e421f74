//! Which addresses a side may name.

use super::address;
use super::refused::Refused;
use super::side::{Ends, Side};
use ipnet::IpNet;
use std::net::{IpAddr, SocketAddr};

/// The addresses that may be dialled.
#[derive(Clone, Debug)]
pub struct Rules {
    /// The peers. Each may name its own address.
    pub ends: Ends<IpAddr>,
    /// Networks whose addresses both sides may name as well.
    pub data_from: Vec<IpNet>,
    /// Networks of the clients. If there are any, the client names no other host than itself outside of them.
    pub allow: Vec<IpNet>,
    /// Mode for which the server is asked.
    pub mode: Mode,
}

/// Mode for which the server is asked: which side opens the data connections there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// The mode for which the client asks.
    #[default]
    Client,
    /// Passive mode: the relay opens them, also those of clients in active mode.
    Passive,
    /// Active mode: the server opens them, also those of clients in passive mode.
    Active,
}

impl Rules {
    /// Returns the address if this side may name it, in its canonical form.
    ///
    /// # Errors
    /// It is no host's, or a third host's, or one that may be no client, or of another IP version, or its port is below 1024.
    pub(super) fn admit(&self, side: Side, address: SocketAddr) -> Result<SocketAddr, Refused> {
        let address = address::canonical(address);
        let ip = address.ip();
        if ip.is_unspecified() {
            // The relay would dial itself.
            return Err(Refused::Unspecified(side, ip));
        }
        self.admit_host(side, ip)?;
        if ip.is_ipv4() != self.ends[side].is_ipv4() {
            // It is dialled from the control connection's own address.
            return Err(match side {
                Side::Client => Refused::BadFamily(if ip.is_ipv4() { "(2)" } else { "(1)" }),
                Side::Server => Refused::OtherVersion(ip),
            });
        }
        if address.port() < FIRST_HIGH_PORT {
            return Err(Refused::LowPort(address.port()));
        }
        Ok(address)
    }

    /// Whether the host with this canonical address may have the end of a data connection on this side.
    ///
    /// # Errors
    /// It is a third host, or one that may be no client.
    pub fn admit_host(&self, side: Side, ip: IpAddr) -> Result<(), Refused> {
        let is_in = |nets: &[IpNet]| nets.iter().any(|net| net.contains(&ip));
        if ip == self.ends[side] {
            return Ok(());
        }
        if !is_in(&self.data_from) {
            return Err(Refused::ThirdHost(side, ip));
        }
        if side == Side::Client && !self.allow.is_empty() && !is_in(&self.allow) {
            return Err(Refused::NotAllowed(ip));
        }
        Ok(())
    }
}

/// RFC 2577 3: a server should not dial a port below this, because a client could make it connect to another service.
const FIRST_HIGH_PORT: u16 = 1024;
