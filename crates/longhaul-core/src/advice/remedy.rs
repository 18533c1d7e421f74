//! The remedy for each limit of a measured path: the host to change, the settings that lift it, and the effect of two relays.

use super::setting::Effect;
use crate::path::diagnosis::Kind;
use longhaul_units::Rate;

/// An end of one direction of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The host that sends.
    Sender,
    /// The host that receives.
    Receiver,
}

/// The remedy for one limit of a measured path. Its sentences may contain `{host}`, `{mss}` and `{rate}`.
#[derive(Debug)]
pub struct Remedy {
    /// The limit.
    pub kind: Kind,
    /// The end that has it.
    pub end: End,
    /// Effects of the settings of that host which lift it. Empty if none does.
    pub effects: &'static [Effect],
    /// The first step, in a sentence.
    pub first: &'static str,
    /// The effect of two relays, in a sentence. Empty if they do not lift the limit.
    pub relays: &'static str,
}

impl Remedy {
    /// Returns the remedy of `kind`; `None` if a measured path has no such limit, or the limit is not known.
    pub fn of(kind: Kind) -> Option<&'static Remedy> {
        REMEDIES.iter().find(|remedy| remedy.kind == kind)
    }

    /// Returns the first step and the effect of relays, in sentences about `host`, the one with the limit. `mss`: the largest that the path
    /// carries whole; `cap`: the rate that a policer lets through without loss. A step for which one of these is missing is another one.
    pub fn sentences(&self, host: &str, mss: Option<u32>, cap: Option<Rate>) -> (String, String) {
        let needs = |mark: &str| self.first.contains(mark);
        let (first, relays) = match () {
            () if needs("{mss}") && mss.is_none() => (NO_MSS, ""),
            () if needs("{rate}") && cap.is_none() => (NO_CAP, ""),
            () => (self.first, self.relays),
        };
        let (mss, cap) = (mss.unwrap_or_default().to_string(), cap.unwrap_or_default().to_string());
        let filled = |text: &str| text.replace("{host}", host).replace("{mss}", &mss).replace("{rate}", &cap);
        (filled(first), filled(relays))
    }

    /// Whether settings of a host lift the limit.
    pub fn is_of_host(&self) -> bool {
        !self.effects.is_empty()
    }
}

const NO_MSS: &str = "Measure again with more --seconds, and with UDP let through: the largest MSS that the path carries whole was not found.";
const NO_CAP: &str = "The policer's rate is below the least cap of a relay: ask for a higher rate.";
const SEND_BUFFER: &str = "Raise the send buffer of {host}.";
const OF_BUFFER: &str = "A relay at each site lifts it without a change on the hosts.";
const SENDS: &[Effect] = &[Effect::SendWindow, Effect::Ceiling, Effect::Scaling];

/// One row for each limit.
const REMEDIES: &[Remedy] = &[
    Remedy {
        kind: Kind::ReceiverWindow,
        end: End::Receiver,
        effects: &[Effect::ReceiveWindow, Effect::Ceiling, Effect::Scaling],
        first: "Raise the receive buffer of {host}.",
        relays: OF_BUFFER,
    },
    Remedy { kind: Kind::OwnSendBuffer, end: End::Sender, effects: SENDS, first: SEND_BUFFER, relays: OF_BUFFER },
    Remedy { kind: Kind::PeerSendBuffer, end: End::Sender, effects: SENDS, first: SEND_BUFFER, relays: OF_BUFFER },
    Remedy {
        kind: Kind::RandomLoss,
        end: End::Sender,
        effects: &[Effect::CongestionControl],
        first: "Give {host}, which sends, a congestion control that random loss slows less: BBR where the system has it.",
        relays: "A relay at each site lifts it without a change on the hosts: relays send with BBR over the WAN.",
    },
    Remedy {
        kind: Kind::MtuBlackHole,
        end: End::Sender,
        effects: &[Effect::PacketSize],
        first: "Set the MSS to {mss} on {host}; one end sets it for both directions.",
        relays: "A relay at each site lifts it with `mss = {mss}` on the WAN leg.",
    },
    Remedy {
        kind: Kind::Fragmentation,
        end: End::Sender,
        effects: &[Effect::PacketSize],
        first: "Set the MSS to {mss} on {host}, so that no packet is cut; one end sets it for both directions.",
        relays: "A relay at each site lifts it with `mss = {mss}` on the WAN leg.",
    },
    Remedy {
        kind: Kind::Policer,
        end: End::Sender,
        effects: &[],
        first: "Send a little less than the policer lets through: {rate}. No setting of the hosts does that.",
        relays: "A relay at each site does it with `bandwidth = \"{rate}\"`.",
    },
    Remedy {
        kind: Kind::Reordering,
        end: End::Sender,
        effects: &[],
        first: "Look for the box that lets segments overtake each other. No setting of the hosts is known here.",
        relays: "A relay at each site takes a late segment for no loss (RACK, BBR).",
    },
    Remedy {
        kind: Kind::CongestedQueue,
        end: End::Sender,
        effects: &[],
        first: "Give the other traffic on the line less, or send when it is quiet. No setting of the hosts lifts it.",
        relays: "",
    },
    Remedy {
        kind: Kind::LinkRate,
        end: End::Sender,
        effects: &[],
        first: "Change nothing for the rate: one connection already has that of the line.",
        relays: "",
    },
    Remedy {
        kind: Kind::Cap,
        end: End::Sender,
        effects: &[],
        first: "Measure again without --limit, or raise the cap in the near relay's file, if a note names one: that limit says nothing of the path.",
        relays: "",
    },
    Remedy {
        kind: Kind::Cpu,
        end: End::Sender,
        effects: &[],
        first: "Give that host more CPU, or raise its quota. No TCP setting lifts it.",
        relays: "",
    },
    Remedy {
        kind: Kind::Stalled,
        end: End::Sender,
        effects: &[],
        first: "Repair the path first: it carried nothing any more.",
        relays: "",
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advice::{Goal, SYSTEMS};
    use longhaul_units::Bytes;

    #[test]
    fn each_limit_of_a_path_has_one_remedy() {
        let without = [Kind::Application, Kind::ApplicationWindow, Kind::Unknown];
        for kind in Kind::ALL {
            let count = REMEDIES.iter().filter(|remedy| remedy.kind == kind).count();
            assert_eq!(count, usize::from(!without.contains(&kind)), "{kind}");
        }
    }

    /// On the systems that have none, `advise` says so.
    #[test]
    fn most_systems_have_a_setting_for_the_limit_of_a_host() {
        let goal = Goal { window: Bytes(8_000_000), packet: 1400, is_packet_short: true, has_loss: true };
        let mut without = Vec::new();
        for system in SYSTEMS.iter().filter(|system| system.has_window()) {
            for remedy in REMEDIES.iter().filter(|remedy| remedy.is_of_host()) {
                let lifts =
                    |row: &&crate::advice::Setting| remedy.effects.contains(&row.effect) && (row.want)(&goal).is_some();
                if !system.settings.iter().any(|row| lifts(&row)) {
                    without.push((system.name, remedy.kind.name()));
                }
            }
        }
        let of_packets = ["mtu-black-hole", "fragmentation"];
        let packets = |system| of_packets.map(|kind| (system, kind));
        let expected = [[("aix", "random-loss"), ("ibmi", "random-loss")], packets("solaris"), packets("windows")];
        assert_eq!(without, expected.concat());
    }
}
