//! Tries the next hops in the order of the config file, as an administrator expects of a list.

use super::Policy;

pub(super) const POLICY: Policy = Policy {
    name: "in-order",
    help: "the first that answers, in the order written",
    order: |count| (0..count).collect(),
};
