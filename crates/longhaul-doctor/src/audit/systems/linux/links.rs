//! The network interfaces: `ip link`, `ip addr`, `tc qdisc`, `ethtool -k`.

use crate::audit::reader::{Facts, Shown};
use crate::audit::systems::values::{Bad, keep, number};

/// The interfaces that a paste shows.
#[derive(Default)]
pub(super) struct Links {
    links: Vec<Link>,
    /// Place of the interface whose lines follow, in `links`.
    current: Option<usize>,
}

/// One interface.
struct Link {
    name: String,
    is_loopback: bool,
    /// `None` until a paste shows it.
    is_up: Option<bool>,
    mtu: Option<u64>,
    qdisc: Option<String>,
    /// Offloads that are off and could be on.
    off: Vec<&'static Bad>,
    shown: Vec<Shown>,
}

impl Links {
    /// Reads one line.
    pub(super) fn read(&mut self, line: &str) -> bool {
        let words: Vec<&str> = line.split_ascii_whitespace().take(MAX_WORDS).collect();
        self.link(&words) || self.detail(&words) || self.qdisc(&words) || self.features(&words) || self.feature(line)
    }

    /// Reads the arguments of `ethtool -k`: with `grep` behind it, its output does not name the interface.
    pub(super) fn expect(&mut self, arguments: &[&str]) {
        let name = arguments.iter().find(|argument| !argument.starts_with('-'));
        self.current = name.and_then(|name| self.at(name));
    }

    /// Returns whether the interface `name` counts: it is neither loopback nor known to be down.
    pub(super) fn is_counting(&self, name: &str) -> bool {
        let known = self.links.iter().find(|link| link.name == name);
        name != "lo" && known.is_none_or(Link::is_counting)
    }

    /// Adds the values, and the findings.
    pub(super) fn add_to(&self, facts: &mut Facts) {
        for link in &self.links {
            facts.settings.extend(link.shown.iter().cloned());
            if !link.is_counting() {
                continue;
            }
            let mtu = link.mtu.filter(|mtu| *mtu < MIN_MTU);
            facts.hints.extend(mtu.map(|mtu| SMALL_MTU.hint(&mtu.to_string(), &link.name)));
            let shaper = link.qdisc.as_ref().filter(|kind| SHAPERS.contains(&kind.as_str()));
            facts.hints.extend(shaper.map(|kind| SHAPED.hint(kind, &link.name)));
            facts.hints.extend(link.off.iter().map(|bad| bad.hint("off", &link.name)));
        }
    }

    /// Reads the first line of an interface: `2: eth0@if3: <BROADCAST,UP,LOWER_UP> mtu 1500 qdisc mq state UP ..`.
    fn link(&mut self, words: &[&str]) -> bool {
        let [index, name, flags, rest @ ..] = words else { return false };
        let (Some(index), Some(name)) = (index.strip_suffix(':'), name.strip_suffix(':')) else { return false };
        let Some(flags) = flags.strip_prefix('<') else { return false };
        let name = name.split('@').next().unwrap_or_default();
        if number(index).is_none() {
            return false;
        }
        let Some(at) = self.at(name) else { return false };
        let has = |flag: &str| flags.trim_end_matches('>').split(',').any(|known| known == flag);
        let behind = |word: &str| rest.iter().skip_while(|known| **known != word).nth(1).copied();
        let from = format!("ip link {name}");
        let link = &mut self.links[at];
        link.is_loopback |= has("LOOPBACK");
        // A bridge without ports has UP and NO-CARRIER, and state DOWN.
        link.is_up = Some(has("UP") && !has("NO-CARRIER") && behind("state") != Some("DOWN"));
        if let Some(mtu) = behind("mtu").and_then(number) {
            link.mtu = Some(mtu);
            keep(&mut link.shown, "mtu", &mtu.to_string(), &from);
        }
        self.current = Some(at);
        true
    }

    /// Reads the other lines of an interface, which do not matter.
    fn detail(&self, words: &[&str]) -> bool {
        let first = words.first().copied().unwrap_or_default();
        let has = |word: &str| words.contains(&word);
        self.current.is_some()
            && (first.starts_with("link/") || first == "inet" && has("scope") || first == "inet6" && has("scope"))
            || first == "valid_lft"
    }

    /// Reads `qdisc tbf 8001: dev eth0 root refcnt 2 rate 100Mbit ..`.
    fn qdisc(&mut self, words: &[&str]) -> bool {
        let ["qdisc", kind, handle, "dev", name, parent, ..] = words else { return false };
        let Some(at) = self.at(name).filter(|_| handle.ends_with(':')) else { return false };
        let is_shaper = SHAPERS.contains(kind);
        let link = &mut self.links[at];
        // Below a root such as mq, each queue has its own; a shaper anywhere counts.
        if *parent == "root" || is_shaper {
            let kept = link.qdisc.as_ref().is_some_and(|kept| SHAPERS.contains(&kept.as_str()) && *parent != "root");
            let kind = if kept { link.qdisc.take().unwrap_or_default() } else { (*kind).to_string() };
            keep(&mut link.shown, "qdisc", &kind, &format!("tc qdisc {name}"));
            link.qdisc = Some(kind).filter(|kind| kind.len() <= MAX_NAME_BYTES);
        }
        true
    }

    /// Reads the first line of `ethtool -k`: `Features for eth0:`, before 2011 `Offload parameters for eth0:`.
    fn features(&mut self, words: &[&str]) -> bool {
        let (["Features", "for", name] | ["Offload", "parameters", "for", name]) = words else { return false };
        let Some(at) = name.strip_suffix(':').and_then(|name| self.at(name)) else { return false };
        self.current = Some(at);
        true
    }

    /// Reads a line of `ethtool -k`: `tcp-segmentation-offload: off [requested on]`. What is `[fixed]` cannot be changed.
    fn feature(&mut self, line: &str) -> bool {
        let Some((name, value)) = line.trim().split_once(':') else { return false };
        let mut words = value.split_ascii_whitespace();
        let (value, note) = (words.next(), words.next());
        let (Some(value @ ("on" | "off")), Some(at)) = (value, self.current) else { return false };
        // Old versions wrote blanks.
        let name = name.replace(' ', "-");
        let is_feature = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
        if let Some(bad) = OFFLOADS.iter().find(|bad| bad.setting == name) {
            let link = &mut self.links[at];
            keep(&mut link.shown, &name, value, &format!("ethtool -k {}", link.name));
            link.off.retain(|known| known.setting != bad.setting);
            if value == "off" && note != Some("[fixed]") {
                link.off.push(bad);
            }
        }
        is_feature
    }

    /// Returns the place of the interface called `name`, which is new the first time. `None` if there are too many.
    fn at(&mut self, name: &str) -> Option<usize> {
        if let Some(at) = self.links.iter().position(|link| link.name == name) {
            return Some(at);
        }
        if self.links.len() == MAX_LINKS || name.is_empty() || name.len() > MAX_NAME_BYTES {
            return None;
        }
        self.links.push(Link {
            name: name.into(),
            is_loopback: name == "lo",
            is_up: None,
            mtu: None,
            qdisc: None,
            off: Vec::new(),
            shown: Vec::new(),
        });
        Some(self.links.len() - 1)
    }
}

impl Link {
    fn is_counting(&self) -> bool {
        !self.is_loopback && self.is_up != Some(false)
    }
}

/// The offloads that save processor time (kernel, segmentation-offloads.rst). `large-receive-offload` is not among them: a
/// router must not have it.
const OFFLOADS: &[Bad] = &[
    offload("rx-checksumming", "The processor adds up every byte that arrives."),
    offload("tx-checksumming", "The processor adds up every byte that it sends, and segmentation offload is off, too."),
    offload("scatter-gather", "Every packet is copied before it is sent, and segmentation offload is off, too."),
    offload("tcp-segmentation-offload", "The processor cuts the data into packets."),
    offload("generic-segmentation-offload", "Every packet goes through the whole stack alone when it is sent."),
    offload("generic-receive-offload", "Every packet goes through the whole stack alone when it arrives."),
];
const SMALL_MTU: Bad = Bad {
    setting: "mtu",
    value: "",
    what: "Packets are smaller than the least that IPv6 needs: more headers, and a slower recovery from loss.",
    costs_rate: true,
};
const SHAPED: Bad = Bad {
    setting: "qdisc",
    value: "",
    what: "This queue limits or delays what the interface sends; no window lifts that.",
    costs_rate: true,
};
/// The queues with a rate or a delay of their own.
const SHAPERS: &[&str] = &["hfsc", "htb", "netem", "tbf"];
/// RFC 8200 5.
const MIN_MTU: u64 = 1280;
const MAX_LINKS: usize = 64;
/// IFNAMSIZ is 16 (netdevice(7)).
const MAX_NAME_BYTES: usize = 16;
const MAX_WORDS: usize = 32;

const fn offload(setting: &'static str, what: &'static str) -> Bad {
    Bad { setting, value: "off", what, costs_rate: true }
}
