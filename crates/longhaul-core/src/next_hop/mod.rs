//! Policies that decide which of a tunnel's next hops is dialled first.
//!
//! A policy is one file here and one row of [`POLICIES`]. It orders the next hops, and the relay dials them in that
//! order until one answers.

mod in_order;

/// One way to order a group's next hops.
#[derive(Debug)]
pub struct Policy {
    /// Its name in a config file.
    pub name: &'static str,
    /// One line of help.
    pub help: &'static str,
    /// Returns the order in which to try `count` next hops: each of the indices `0..count` once.
    pub order: fn(count: usize) -> Vec<usize>,
}

impl PartialEq for Policy {
    fn eq(&self, other: &Policy) -> bool {
        self.name == other.name
    }
}

/// Every policy; the first is the default.
pub static POLICIES: &[Policy] = &[in_order::POLICY];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_policy_tries_every_next_hop_once() {
        for policy in POLICIES {
            for count in 0..20 {
                let mut order = (policy.order)(count);
                order.sort_unstable();
                assert_eq!(order, (0..count).collect::<Vec<_>>(), "{}", policy.name);
            }
        }
    }
}
