//! Tries the next hops in the order of the config file, as an administrator expects of a list.

use super::policy::Policy;

pub(super) const POLICY: Policy = Policy {
    name: "in-order",
    help: "the first that answers, in the order written",
    uses_weights: false,
    is_sticky: false,
    order: |choice| (0..choice.hops.len()).collect(),
};
