//! No carrier: the relay hosts route. As the hosts are, and as they would be if they could be changed.

use crate::carrier::row::{Carrier, Started};

/// The hosts as the scenario describes them.
pub(crate) const DIRECT: Carrier = Carrier {
    name: "direct",
    what: "no relay",
    hosts: |_, _| {},
    congestion: None,
    start: |_, _, _| Ok(Started::nothing()),
};

/// The hosts alone, tuned as the advice for long paths would.
pub(crate) const TUNED: Carrier = Carrier {
    name: "tuned",
    what: "no relay, the hosts tuned",
    hosts: |host, link| *host = host.tuned(link),
    congestion: None,
    start: |_, _, _| Ok(Started::nothing()),
};
