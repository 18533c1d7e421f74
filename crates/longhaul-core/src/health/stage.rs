//! The parts of the daemon and of a tunnel's path, and how one shows that it is broken.

/// The stage at which a path ends, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// The stage.
    pub stage: Stage,
    /// How it showed.
    pub cause: Cause,
    /// Details, and a remedy if there is one.
    pub why: String,
    /// Whether the stage is broken for certain. `false` if whoever is there may just not know probes.
    pub is_certain: bool,
}

/// How a broken stage shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The connection was refused: nobody listens there, or a firewall says no.
    Refused,
    /// No answer came in time.
    NoAnswer,
    /// The connection was reset or ended, or another error.
    Failed,
}

impl Cause {
    /// Returns the cause in words.
    pub fn name(self) -> &'static str {
        match self {
            Cause::Refused => "refused",
            Cause::NoAnswer => "no answer",
            Cause::Failed => "failed",
        }
    }
}

/// A part of the daemon or of a path. A probe ends at one of the first five.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The relay with this many relays before it.
    Relay(usize),
    /// The network between the relay with this many relays before it, and the next relay.
    Link(usize),
    /// The network between the last relay and the final host. A host that is off shows here, too.
    Lan,
    /// The final host.
    FinalHost,
    /// The payload, over the whole path.
    Data,
    /// The listener of a tunnel.
    Listener,
    /// The clients of a tunnel, or the relays through which they come.
    Clients,
    /// The next hops of a tunnel.
    NextHop,
    /// The FTP data connections of a tunnel.
    FtpData,
    /// The daemon's own probes of a tunnel.
    Verify,
    /// The limits of the process and of the host.
    Resources,
    /// The process.
    Process,
}

impl Stage {
    /// Returns the same stage of a path that begins one relay earlier.
    pub fn behind_a_relay(self) -> Stage {
        match self {
            Stage::Relay(before) => Stage::Relay(before + 1),
            Stage::Link(before) => Stage::Link(before + 1),
            stage => stage,
        }
    }

    /// Returns the stage's name in a path with `hops` relays after the first.
    pub fn name(self, hops: u8) -> String {
        match self {
            Stage::Relay(0) if hops == 0 => "relay".into(),
            Stage::Data => "data".into(),
            stage => stage.number(hops).unwrap_or_else(|| stage.part().into()),
        }
    }

    /// Returns the name of a relay between two others, and of one of several links: `relay 2`, `link 1`. `hops` is the number of
    /// relays after the first. `None` for the other stages, which [`part`](Stage::part) names.
    pub fn number(self, hops: u8) -> Option<String> {
        match self {
            Stage::Relay(before @ 1..) if before < hops.into() => Some(format!("relay {}", before + 1)),
            Stage::Link(before) if hops > 1 => Some(format!("link {}", before + 1)),
            _ => None,
        }
    }

    /// Returns the name of the part, as problems have it.
    pub fn part(self) -> &'static str {
        match self {
            Stage::Relay(0) => "near relay",
            Stage::Relay(_) => "far relay",
            Stage::Link(_) => "WAN",
            Stage::Lan => "LAN",
            Stage::FinalHost | Stage::Data => "final host",
            Stage::Listener => "listener",
            Stage::Clients => "clients",
            Stage::NextHop => "next hop",
            Stage::FtpData => "FTP data",
            Stage::Verify => "verify",
            Stage::Resources => "resources",
            Stage::Process => "process",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_have_the_names_of_the_manual() {
        let names = |hops, stages: &[Stage]| stages.iter().map(|stage| stage.name(hops)).collect::<Vec<_>>();
        assert_eq!(names(0, &[Stage::Relay(0), Stage::Lan, Stage::FinalHost]), ["relay", "LAN", "final host"]);
        assert_eq!(names(1, &[Stage::Relay(0), Stage::Link(0), Stage::Relay(1)]), ["near relay", "WAN", "far relay"]);
        let chain = [Stage::Relay(0), Stage::Link(0), Stage::Relay(1), Stage::Link(1), Stage::Relay(2)];
        assert_eq!(names(2, &chain), ["near relay", "link 1", "relay 2", "link 2", "far relay"]);
    }
}
