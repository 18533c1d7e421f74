//! Why a session refused a command or a reply.

use super::side::Side;
use std::fmt;
use std::net::IpAddr;

/// Why a session refused a command of the client or a reply of the server. [`fmt::Display`] is one line for the log and for
/// the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The address that this side named is neither its own nor in [`super::Rules::data_from`].
    ThirdHost(Side, IpAddr),
    /// The address that the client named is in [`super::Rules::data_from`], but not in [`super::Rules::allow`].
    NotAllowed(IpAddr),
    /// The port that a side named is below 1024, and [`super::Rules::low_ports`] is not set.
    LowPort(u16),
    /// No address can be read in the command or the reply.
    BadAddress,
    /// The address that this side named is `0.0.0.0` or `::`, which no host has.
    Unspecified(Side, IpAddr),
    /// The address family that the client named is not one of these, which are written as in RFC 2428: `(1,2)`.
    BadFamily(&'static str),
    /// The server named an address of another IP version than its control connection.
    OtherVersion(IpAddr),
    /// PASV of a client of IPv6. The reply could not name an IPv6 address.
    NeedsEpsv,
    /// PASV, PORT or EPRT after EPSV ALL.
    EpsvOnly,
    /// LPRT or LPSV.
    LongForm,
    /// The line is longer than a session holds.
    LongLine,
    /// A byte 255 in the verb or before it hides the command from some servers and not from others.
    Hidden,
    /// CR stands inside the command, where some servers end it and others do not.
    BareReturn,
    /// The client begins with TLS.
    ImplicitTls,
    /// The server names an address although no PASV or EPSV waits.
    Unasked,
    /// The caller opened no data listener. It says why.
    NoListener(String),
}

impl Refused {
    /// Returns its name, the `reason` of the log.
    pub fn name(&self) -> &'static str {
        match self {
            Refused::ThirdHost(..) => "third-host",
            Refused::NotAllowed(_) => "not-allowed",
            Refused::LowPort(_) => "low-port",
            Refused::BadAddress | Refused::Unspecified(..) => "bad-address",
            Refused::BadFamily(_) | Refused::OtherVersion(_) => "bad-family",
            Refused::NeedsEpsv => "needs-epsv",
            Refused::EpsvOnly => "epsv-only",
            Refused::LongForm => "long-form",
            Refused::LongLine => "long-line",
            Refused::Hidden => "hidden",
            Refused::BareReturn => "bare-return",
            Refused::ImplicitTls => "implicit-tls",
            Refused::Unasked => "unasked",
            Refused::NoListener(_) => "no-listener",
        }
    }

    /// Whether an administrator should look at it. Otherwise the client has another command for the same, or the command is odd.
    pub fn is_problem(&self) -> bool {
        matches!(
            self,
            Refused::ThirdHost(..)
                | Refused::NotAllowed(_)
                | Refused::LowPort(_)
                | Refused::Unspecified(..)
                | Refused::OtherVersion(_)
                | Refused::ImplicitTls
                | Refused::NoListener(_)
        )
    }

    /// Returns the code of the reply to a refused command.
    pub(super) fn code(&self) -> u16 {
        match self {
            Refused::ThirdHost(..) | Refused::NotAllowed(_) | Refused::LowPort(_) => 504, // RFC 2577 3
            Refused::BadAddress | Refused::Unspecified(..) | Refused::BareReturn => 501,
            Refused::EpsvOnly => 503,
            Refused::BadFamily(_) => 522, // RFC 2428 2
            Refused::LongForm => 521,     // RFC 1639
            Refused::LongLine | Refused::Hidden => 500,
            Refused::ImplicitTls => 421,
            Refused::OtherVersion(_) | Refused::NeedsEpsv | Refused::Unasked | Refused::NoListener(_) => 425,
        }
    }

    /// Returns the reply with this code that says why.
    pub(super) fn reply(&self, code: u16) -> String {
        let why: String = self.to_string().chars().filter(|c| !c.is_control()).take(MAX_REASON_CHARS).collect();
        format!("{code} {why}\r\n")
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::ThirdHost(side, ip) => {
                write!(f, "Address {ip} is neither the {side}'s own nor in ftp.data_from")
            }
            Refused::NotAllowed(ip) => write!(f, "Address {ip} is not in allow"),
            Refused::LowPort(port) => write!(f, "Port {port} is below 1024"),
            Refused::BadAddress => f.write_str("No valid address and port"),
            Refused::Unspecified(side, ip) => {
                write!(f, "The {side} named {ip}, which is no host's address")
            }
            Refused::BadFamily(families) => write!(f, "Network protocol not supported, use {families}"),
            Refused::OtherVersion(ip) => {
                write!(f, "The server named {ip}, of another IP version than its control connection")
            }
            Refused::NeedsEpsv => f.write_str("PASV cannot name an IPv6 address, use EPSV"),
            Refused::EpsvOnly => f.write_str("EPSV ALL was accepted, use EPSV"),
            // RFC 1639: the families 4 and 6 are IPv4 and IPv6.
            Refused::LongForm => f.write_str("Supported address families are (4,6), by EPRT and EPSV"),
            Refused::LongLine => f.write_str("The line is too long"),
            Refused::Hidden => f.write_str("A byte 255 stands before the end of the command's name"),
            Refused::BareReturn => f.write_str("A carriage return stands inside the command"),
            Refused::ImplicitTls => f.write_str("TLS without AUTH needs a tunnel without protocol = \"ftp\""),
            Refused::Unasked => f.write_str("The server names an address that nobody asked for"),
            Refused::NoListener(why) => write!(f, "No data listener: {why}"),
        }
    }
}

const MAX_REASON_CHARS: usize = 200;
