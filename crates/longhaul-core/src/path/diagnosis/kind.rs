//! The limits of a transfer, by the names that documents and metrics use.

use std::fmt;

/// The limit of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// The receive window that the receiver offers.
    ReceiverWindow,
    /// The send buffer of the host that sends to us.
    PeerSendBuffer,
    /// Our own send buffer.
    OwnSendBuffer,
    /// The program that sends or reads.
    Application,
    /// The window of the application's own protocol, such as OpenSSH's.
    ApplicationWindow,
    /// Loss at random, to which the congestion control responds.
    RandomLoss,
    /// A queue that other traffic fills.
    CongestedQueue,
    /// A policer: it drops what exceeds its rate.
    Policer,
    /// The rate of the line.
    LinkRate,
    /// A cap of ours.
    Cap,
    /// Full segments vanish on the path, and no ICMP tells of it.
    MtuBlackHole,
    /// Fragments are lost.
    Fragmentation,
    /// Segments that overtake each other.
    Reordering,
    /// The processor of this relay.
    Cpu,
    /// The peer acknowledges nothing.
    Stalled,
    /// Not known.
    Unknown,
}

impl Kind {
    /// All kinds, in the order in which views list them.
    pub const ALL: [Kind; 16] = [
        Kind::ReceiverWindow,
        Kind::PeerSendBuffer,
        Kind::OwnSendBuffer,
        Kind::Application,
        Kind::ApplicationWindow,
        Kind::RandomLoss,
        Kind::CongestedQueue,
        Kind::Policer,
        Kind::LinkRate,
        Kind::Cap,
        Kind::MtuBlackHole,
        Kind::Fragmentation,
        Kind::Reordering,
        Kind::Cpu,
        Kind::Stalled,
        Kind::Unknown,
    ];

    /// Returns its name, as documents and metrics have it.
    pub fn name(self) -> &'static str {
        match self {
            Kind::ReceiverWindow => "receiver-window",
            Kind::PeerSendBuffer => "peer-send-buffer",
            Kind::OwnSendBuffer => "own-send-buffer",
            Kind::Application => "application",
            Kind::ApplicationWindow => "application-window",
            Kind::RandomLoss => "random-loss",
            Kind::CongestedQueue => "congested-queue",
            Kind::Policer => "policer",
            Kind::LinkRate => "link-rate",
            Kind::Cap => "cap",
            Kind::MtuBlackHole => "mtu-black-hole",
            Kind::Fragmentation => "fragmentation",
            Kind::Reordering => "reordering",
            Kind::Cpu => "cpu",
            Kind::Stalled => "stalled",
            Kind::Unknown => "unknown",
        }
    }

    /// Whether it is of the path itself, whatever the hosts and their programs are.
    pub fn is_of_path(self) -> bool {
        let of_path = [
            Kind::CongestedQueue,
            Kind::Policer,
            Kind::MtuBlackHole,
            Kind::Fragmentation,
            Kind::Reordering,
            Kind::Stalled,
        ];
        of_path.contains(&self)
    }

    /// Returns the kind called `name`.
    pub fn named(name: &str) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_stands_for_one_kind() {
        for kind in Kind::ALL {
            assert_eq!(Kind::named(kind.name()), Some(kind));
        }
        assert_eq!(Kind::named("-"), None);
    }
}
