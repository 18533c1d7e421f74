//! Why a session refused a command or a reply.

use super::side::Side;
use crate::text::printable;
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
    /// The port that a side named is below 1024.
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
    /// The caller could not connect to the address that the client named. It says why.
    ClientPort(String),
}

impl Refused {
    /// Returns its name, the `reason` of the log.
    pub fn name(&self) -> &'static str {
        self.row().0
    }

    /// Whether an administrator should look at it. Otherwise the client has another command for the same, or the command is odd.
    pub fn is_problem(&self) -> bool {
        self.row().2
    }

    /// Returns the code of the reply to a refused command.
    pub(super) fn code(&self) -> u16 {
        self.row().1
    }

    /// Returns its name, its code, whether it is a problem, and its line.
    fn row(&self) -> (&'static str, u16, bool, String) {
        let (name, code, is_problem, line) = match self {
            // RFC 2577 3: 504.
            Refused::ThirdHost(side, ip) => {
                let line = format!("Address {ip} is neither the {side}'s own nor in ftp.data_from");
                return ("third-host", 504, true, line);
            }
            Refused::NotAllowed(ip) => return ("not-allowed", 504, true, format!("Address {ip} is not in allow")),
            Refused::LowPort(port) => return ("low-port", 504, true, format!("Port {port} is below 1024")),
            Refused::BadAddress => ("bad-address", 501, false, "No valid address and port"),
            Refused::Unspecified(side, ip) => {
                let line = format!("The {side} named {ip}, which is no host's address");
                return ("bad-address", 501, true, line);
            }
            // RFC 2428 2: 522.
            Refused::BadFamily(families) => {
                let line = format!("Network protocol not supported, use {families}");
                return ("bad-family", 522, false, line);
            }
            Refused::OtherVersion(ip) => {
                let line = format!("The server named {ip}, of another IP version than its control connection");
                return ("bad-family", 425, true, line);
            }
            Refused::NeedsEpsv => ("needs-epsv", 425, false, "PASV cannot name an IPv6 address, use EPSV"),
            Refused::EpsvOnly => ("epsv-only", 503, false, "EPSV ALL was accepted, use EPSV"),
            // RFC 1639: 521. The families 4 and 6 are IPv4 and IPv6.
            Refused::LongForm => ("long-form", 521, false, "Supported address families are (4,6), by EPRT and EPSV"),
            Refused::LongLine => ("long-line", 500, false, "The line is too long"),
            Refused::Hidden => ("hidden", 500, false, "A byte 255 stands before the end of the command's name"),
            Refused::BareReturn => ("bare-return", 501, false, "A carriage return stands inside the command"),
            Refused::ImplicitTls => {
                ("implicit-tls", 421, true, "TLS without AUTH needs a tunnel without protocol = \"ftp\"")
            }
            Refused::Unasked => ("unasked", 425, false, "The server names an address that nobody asked for"),
            Refused::NoListener(why) => return ("no-listener", 425, true, format!("No data listener: {why}")),
            // RFC 959 5.4: 425, the data connection cannot be opened.
            Refused::ClientPort(why) => return ("client-port", 425, true, format!("Cannot connect to {why}")),
        };
        (name, code, is_problem, line.to_string())
    }

    /// Returns the reply with this code that says why.
    pub(super) fn reply(&self, code: u16) -> String {
        let why: String = printable(&self.to_string()).take(MAX_REASON_CHARS).collect();
        format!("{code} {why}\r\n")
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.row().3)
    }
}

const MAX_REASON_CHARS: usize = 200;
