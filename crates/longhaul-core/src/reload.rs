//! Decides what a reload does with each tunnel, before anything is opened or closed.
//!
//! ```text
//! same name, the listener can go on     same settings      stays
//!                                       other settings     changes
//! same name, another listener           settings, state    listens anew
//! new name                                                 begins
//! old name alone                                           ends
//! ```
//! A port that another listener has refuses a reload as a whole. So what can be refused is done first: addresses that nobody
//! has, then those that pass from one listener to another, and last the sockets that a service manager holds, which get
//! their options at once. An address that passes over is never without a listener: the old one goes on until the new one has it.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

/// A tunnel of a configuration. Two are equal if all of their settings are.
pub trait Listens: PartialEq {
    /// Returns the name. It is unique in a configuration.
    fn name(&self) -> &str;
    /// Returns the address that it listens on. No other tunnel of a configuration has one that [conflicts](covers_same).
    fn listen(&self) -> SocketAddr;
    /// Whether the listener of this tunnel can serve `next`, which listens on the same address.
    fn can_become(&self, next: &Self) -> bool;
}

/// What listens before a reload.
#[derive(Clone, Debug)]
pub struct Before<'a, T> {
    /// The tunnels, each with whether it listens. In a drain none does.
    pub tunnels: Vec<(&'a T, bool)>,
    /// Addresses of listeners that an earlier reload has replaced, and that serve for a moment more.
    pub leaving: Vec<SocketAddr>,
    /// Addresses of the sockets that a service manager holds.
    pub held: Vec<SocketAddr>,
}

/// What a reload does. The numbers are indices: of the new tunnels, and of those before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The step of each new tunnel, in the order in which to take them.
    pub steps: Vec<(usize, ReloadStep)>,
    /// The old tunnels that end.
    pub ended: Vec<usize>,
}

/// What a reload does with a new tunnel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReloadStep {
    /// The old tunnel is the same, and its listener goes on.
    Stays(usize),
    /// The listener of the old tunnel goes on with other settings.
    Changes(usize),
    /// The old tunnel has a new listener.
    ListensAnew(usize, Opens),
    /// There was no tunnel of this name.
    Begins(Opens),
}

/// How a new listener gets its address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Opens {
    /// Nobody of this process has it.
    Free,
    /// It conflicts with those of these old tunnels, or of listeners that leave, and passes over from them.
    Beside(Vec<usize>),
    /// A service manager holds this socket.
    Held(usize),
}

impl Plan {
    /// Plans the change to the tunnels `after`.
    pub fn new<T: Listens>(before: &Before<'_, T>, after: &[&T]) -> Plan {
        let old: HashMap<&str, usize> =
            before.tunnels.iter().enumerate().map(|(index, (tunnel, _))| (tunnel.name(), index)).collect();
        let step = |new: &T| match old.get(new.name()).map(|index| (*index, before.tunnels[*index])) {
            Some((index, (old, true))) if old == new => ReloadStep::Stays(index),
            Some((index, (old, true))) if old.listen() == new.listen() && old.can_become(new) => {
                ReloadStep::Changes(index)
            }
            Some((index, _)) => ReloadStep::ListensAnew(index, before.opens(new.listen())),
            None => ReloadStep::Begins(before.opens(new.listen())),
        };
        let mut steps: Vec<(usize, ReloadStep)> =
            after.iter().enumerate().map(|(index, new)| (index, step(new))).collect();
        steps.sort_by_key(|(_, step)| step.rank());
        let is_kept = |index: &usize| steps.iter().any(|(_, step)| step.old() == Some(*index));
        let ended = (0..before.tunnels.len()).filter(|index| !is_kept(index)).collect();
        Plan { steps, ended }
    }
}

impl ReloadStep {
    /// Returns the old tunnel of the same name.
    pub fn old(&self) -> Option<usize> {
        match self {
            ReloadStep::Stays(old) | ReloadStep::Changes(old) | ReloadStep::ListensAnew(old, _) => Some(*old),
            ReloadStep::Begins(_) => None,
        }
    }

    /// Returns how its new listener gets its address. `None` if it has none.
    pub fn opens(&self) -> Option<&Opens> {
        match self {
            ReloadStep::Stays(_) | ReloadStep::Changes(_) => None,
            ReloadStep::ListensAnew(_, opens) | ReloadStep::Begins(opens) => Some(opens),
        }
    }

    fn rank(&self) -> u8 {
        match self.opens() {
            Some(Opens::Free) => 0,
            None | Some(Opens::Beside(_)) => 1,
            Some(Opens::Held(_)) => 2,
        }
    }
}

impl<T: Listens> Before<'_, T> {
    fn opens(&self, listen: SocketAddr) -> Opens {
        if let Some(held) = self.held.iter().position(|held| *held == listen) {
            return Opens::Held(held);
        }
        let tunnels = self.tunnels.iter().enumerate();
        let conflict = tunnels.filter(|(_, (old, listens))| *listens && covers_same(old.listen(), listen));
        let beside: Vec<usize> = conflict.map(|(index, _)| index).collect();
        match beside.is_empty() && !self.leaving.iter().any(|leaving| covers_same(*leaving, listen)) {
            true => Opens::Free,
            false => Opens::Beside(beside),
        }
    }
}

/// Returns whether two listeners conflict: they have the same port, and one address covers the other.
pub fn covers_same(a: SocketAddr, b: SocketAddr) -> bool {
    let covers = |a: IpAddr, b: IpAddr| match a {
        // A relay that listens on [::] also takes IPv4.
        IpAddr::V6(any) if any.is_unspecified() => true,
        IpAddr::V4(any) if any.is_unspecified() => b.to_canonical().is_ipv4(),
        one => one.to_canonical() == b.to_canonical(),
    };
    a.port() == b.port() && (covers(a.ip(), b.ip()) || covers(b.ip(), a.ip()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    /// A tunnel whose listener can get options and lose none.
    #[derive(Clone, Debug, PartialEq)]
    struct Tunnel {
        name: String,
        listen: SocketAddr,
        options: u8,
        rest: u8,
    }

    impl Listens for Tunnel {
        fn name(&self) -> &str {
            &self.name
        }

        fn listen(&self) -> SocketAddr {
            self.listen
        }

        fn can_become(&self, next: &Tunnel) -> bool {
            self.options & !next.options == 0
        }
    }

    fn address() -> impl Strategy<Value = SocketAddr> {
        let ip = prop::sample::select(vec!["[::]", "0.0.0.0", "127.0.0.1", "127.0.0.2", "[::1]"]);
        (ip, 1..4_u16).prop_map(|(ip, port)| format!("{ip}:{port}").parse().unwrap())
    }

    /// A configuration: names are unique, and no two tunnels listen on the same address.
    fn configuration() -> impl Strategy<Value = Vec<Tunnel>> {
        let tunnel = (0..5_u8, address(), 0..4_u8, 0..2_u8);
        vec(tunnel, 0..6).prop_map(|tunnels| {
            let mut kept: Vec<Tunnel> = Vec::new();
            for (name, listen, options, rest) in tunnels {
                let name = format!("t{name}");
                if !kept.iter().any(|other| other.name == name || covers_same(other.listen, listen)) {
                    kept.push(Tunnel { name, listen, options, rest });
                }
            }
            kept
        })
    }

    /// Takes the steps on a set of listeners, by their addresses, as the kernel would: an address may have a second listener
    /// only if the plan names every listener in the way.
    fn listeners_after(before: &Before<'_, Tunnel>, after: &[Tunnel], plan: &Plan) -> Vec<SocketAddr> {
        let at = |index: &usize| before.tunnels[*index].0.listen;
        let old = before.tunnels.iter().filter(|(_, listens)| *listens).map(|(old, _)| old.listen);
        let own = old.filter(|listen| !before.held.contains(listen));
        let there: Vec<SocketAddr> = own.chain(before.leaving.iter().copied()).collect();
        let mut listeners = Vec::new();
        for (new, step) in &plan.steps {
            let listen = after[*new].listen;
            match step.opens() {
                Some(Opens::Held(held)) => assert_eq!(before.held[*held], listen),
                Some(Opens::Free) => {
                    assert!(!there.iter().any(|old| covers_same(*old, listen)), "{listen} is not free")
                }
                Some(Opens::Beside(old)) => {
                    let is_known =
                        |there: &SocketAddr| before.leaving.contains(there) || old.iter().any(|old| at(old) == *there);
                    assert!(there.iter().filter(|there| covers_same(**there, listen)).all(is_known));
                    let is_kept = |index: &usize| {
                        plan.steps.iter().any(|(_, step)| step.old() == Some(*index) && step.opens().is_none())
                    };
                    assert!(!old.iter().any(is_kept), "a listener that goes on is in the way of {listen}");
                }
                None => assert_eq!(step.old().map(|old| at(&old)), Some(listen)),
            }
            listeners.push(listen);
        }
        listeners
    }

    proptest! {
        #[test]
        fn each_tunnel_has_one_fate_and_nothing_listens_twice(
            old in configuration(), after in configuration(), listens: bool,
            leaving in vec(address(), 0..3), held in vec(address(), 0..2),
        ) {
            // A socket that the service manager holds is not ours to replace, and every other socket conflicts with it.
            let leaving = leaving.into_iter().filter(|left| !held.contains(left)).collect();
            let before = Before { tunnels: old.iter().map(|tunnel| (tunnel, listens)).collect(), leaving, held };
            let plan = Plan::new(&before, &after.iter().collect::<Vec<_>>());

            let mut new: Vec<usize> = plan.steps.iter().map(|(new, _)| *new).collect();
            new.sort();
            prop_assert_eq!(new, (0..after.len()).collect::<Vec<_>>());
            let kept = plan.steps.iter().filter_map(|(_, step)| step.old());
            let mut all: Vec<usize> = kept.chain(plan.ended.iter().copied()).collect();
            all.sort();
            prop_assert_eq!(all, (0..old.len()).collect::<Vec<_>>());
            for (new, step) in &plan.steps {
                let (new, was) = (&after[*new], step.old().map(|index| &old[index]));
                prop_assert_eq!(was, old.iter().find(|old| old.name == new.name), "a tunnel keeps its state by its name");
                let goes_on = listens && was.is_some_and(|was| was.listen == new.listen && was.can_become(new));
                prop_assert_eq!(step.opens().is_none(), goes_on);
                prop_assert_eq!(matches!(step, ReloadStep::Stays(_)), listens && was == Some(new));
            }
            prop_assert!(plan.steps.is_sorted_by_key(|(_, step)| step.rank()));

            let listeners = listeners_after(&before, &after, &plan);
            for (index, listen) in listeners.iter().enumerate() {
                prop_assert!(!listeners[..index].iter().any(|other| covers_same(*other, *listen)), "two listeners");
            }
        }
    }

    #[test]
    fn an_address_passes_from_one_name_to_another_beside_the_old_listener() {
        let tunnel = |name: &str, listen: &str| Tunnel {
            name: name.into(),
            listen: listen.parse().unwrap(),
            options: 0,
            rest: 0,
        };
        let old = [tunnel("a", "127.0.0.1:1"), tunnel("b", "127.0.0.1:2"), tunnel("c", "0.0.0.0:3")];
        let after = [
            tunnel("b", "127.0.0.1:1"),
            tunnel("a", "127.0.0.1:2"),
            tunnel("d", "127.0.0.2:3"),
            tunnel("e", "127.0.0.1:4"),
        ];
        let before =
            Before { tunnels: old.iter().map(|old| (old, true)).collect(), leaving: Vec::new(), held: Vec::new() };
        let plan = Plan::new(&before, &after.iter().collect::<Vec<_>>());
        let steps = vec![
            (3, ReloadStep::Begins(Opens::Free)),
            (0, ReloadStep::ListensAnew(1, Opens::Beside(vec![0]))),
            (1, ReloadStep::ListensAnew(0, Opens::Beside(vec![1]))),
            (2, ReloadStep::Begins(Opens::Beside(vec![2]))),
        ];
        assert_eq!(plan, Plan { steps, ended: vec![2] });
    }
}
