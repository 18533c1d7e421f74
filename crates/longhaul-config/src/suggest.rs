//! Guesses which known word a misspelled or foreign word means.

/// Returns the word of `known` that `word` probably means: the one that other programs call `word`, the one with the most
/// similar spelling, or the first with `word` between its dashes. Tries them in this order.
pub fn nearest<'k>(word: &str, known: impl Iterator<Item = &'k str>) -> Option<&'k str> {
    // No known word is this long, and the cost of the distance is the product of both lengths.
    if word.len() > 40 {
        return None;
    }
    let plain = plain(word);
    let known: Vec<&str> = known.collect();
    called(&plain, &known).or_else(|| mistyped(&plain, &known)).or_else(|| shortened(&plain, &known))
}

/// Returns a sentence about a socat word without a counterpart, or a key that is gone: why it is not needed, or what to write.
pub fn advice(word: &str) -> Option<&'static str> {
    let plain = plain(word);
    ADVICE.iter().find(|(foreign, _)| *foreign == bare(&plain)).map(|(_, advice)| *advice)
}

/// Returns the word of `known` that equals `word` or that other programs call `word`.
pub fn named<'k>(word: &str, known: impl Iterator<Item = &'k str>) -> Option<&'k str> {
    called(&plain(word), &known.collect::<Vec<_>>())
}

/// Like [`named`], for a word from [`plain`]. The word may have the prefix of a system constant.
fn called<'k>(word: &str, known: &[&'k str]) -> Option<&'k str> {
    let bare = bare(word);
    let same = || known.iter().find(|known| plain(known) == bare).copied();
    translated(word, known).or_else(same).or_else(|| translated(bare, known))
}

/// Returns `word` without the prefix of socat and the kernel's headers: `so-sndbuf` is `sndbuf`, `tcp-nodelay` is `nodelay`.
fn bare(word: &str) -> &str {
    word.strip_prefix("tcp-").or_else(|| word.strip_prefix("so-")).unwrap_or(word)
}

/// Returns the word of `known` that other programs call `word`.
fn translated<'k>(word: &str, known: &[&'k str]) -> Option<&'k str> {
    let (meant, _) = FOREIGN.iter().find(|(_, foreign)| foreign.contains(&word))?;
    known.iter().find(|known| plain(known) == *meant).copied()
}

/// Returns the word of `known` that differs least from `word`, in at most one letter of three: wrong, missing, added or
/// swapped.
fn mistyped<'k>(word: &str, known: &[&'k str]) -> Option<&'k str> {
    let distances = known.iter().map(|known| (strsim::damerau_levenshtein(word, &plain(known)), *known));
    let near = distances.filter(|(distance, known)| *distance <= known.len().div_ceil(3));
    near.min_by_key(|(distance, _)| *distance).map(|(_, known)| known)
}

/// Returns the first word of `known` with `word` between its dashes.
fn shortened<'k>(word: &str, known: &[&'k str]) -> Option<&'k str> {
    known.iter().find(|known| plain(known).split('-').any(|part| part == word)).copied()
}

/// Returns the word in lower case, with dashes.
fn plain(word: &str) -> String {
    word.to_lowercase().replace('_', "-")
}

/// The keys and values that have another name in socat, HAProxy, nginx and others, each with those names.
const FOREIGN: &[(&str, &[&str])] = &[
    ("allow", &["acl", "allowlist", "range", "whitelist"]),
    ("bind-device", &["bindtodevice", "interface"]),
    ("congestion", &["cc"]),
    ("connect-timeout", &["timeout"]),
    ("keepalive-count", &["keepcnt"]),
    ("keepalive-idle", &["keepidle"]),
    ("keepalive-interval", &["keepintvl"]),
    ("least-flows", &["least-conn", "leastconn"]),
    ("listen", &["frontend"]),
    ("mark", &["fwmark"]),
    ("max-flows", &["max-children", "max-connections", "maxconn"]),
    ("mss", &["maxseg"]),
    ("policy", &["balance"]),
    ("proxy-in", &["accept-proxy"]),
    ("proxy-out", &["send-proxy", "send-proxy-v2"]),
    ("rcvbuf", &["rcvbuf-late"]),
    ("sndbuf", &["sndbuf-late"]),
    ("source-hash", &["ip-hash"]),
    ("to", &["backend", "connect", "destination", "proxy-pass", "remote", "server", "target", "upstream"]),
];

/// Words of socat that have no single counterpart, without the prefix of a system constant (docs/from-socat.md), and keys that are
/// gone.
const ADVICE: &[(&str, &str)] = &[
    ("backlog", "the listen queue always has room for 4096 connections; leave it out"),
    (
        "bind",
        "the address to listen on is part of `--listen ADDR:PORT`, the address to dial from is `--source ADDR` (in a file: \
         `listen`, `source`)",
    ),
    (
        "check-timeout",
        "it is gone: a check has 3s with tcp, and check_interval, 5s to 1min, with verify; delete the line",
    ),
    (
        "fork",
        "not needed: connections are served at the same time; `--max-flows` limits their number (in a file: `max_flows`)",
    ),
    ("ftp.low-ports", "it is gone, because ports below 1024 are always refused (RFC 2577); delete the line"),
    ("keepalive", "keepalive is always on; keepalive-idle, keepalive-interval and keepalive-count change its times"),
    ("linger", "not needed: SO_LINGER is 0 on both legs, so a truncated stream ends in a reset"),
    ("reuseaddr", "not needed: a listener always has SO_REUSEADDR"),
    ("sourceport", "with one fixed source port, only one flow could exist; leave it out"),
    (
        "syn-retries",
        "it is gone: connect_timeout limits a dial, and net.ipv4.tcp_synack_retries the accept leg; delete it",
    ),
    ("syncnt", "`--connect-timeout` limits the time of a dial (in a file: `connect_timeout`)"),
    ("tos", "`tos=T` is dscp, T divided by 4: tos=184 is dscp=46 (ef)"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typing_errors_are_corrected_and_nonsense_is_not() {
        let keys = || ["listen", "to", "allow", "max_flows", "window-clamp"].into_iter();
        assert_eq!(nearest("lisen", keys()), Some("listen"));
        assert_eq!(nearest("max-flows", keys()), Some("max_flows"));
        assert_eq!(nearest("window_clamp", keys()), Some("window-clamp"));
        assert_eq!(nearest("Allow", keys()), Some("allow"));
        assert_eq!(nearest("quux", keys()), None);
        assert_eq!(nearest(&"x".repeat(1_000_000), keys()), None);
    }

    #[test]
    fn words_of_other_programs_and_parts_of_ours_are_known() {
        let keys = || ["listen", "to", "allow", "max_flows", "connect_timeout"].into_iter();
        for (word, meant) in
            [("range", "allow"), ("backend", "to"), ("MaxConn", "max_flows"), ("timeout", "connect_timeout")]
        {
            assert_eq!(nearest(word, keys()), Some(meant), "{word}");
        }
        assert_eq!(nearest("bbrr", ["reno", "cubic", "bbr"].into_iter()), Some("bbr"));
        let options =
            || ["mss", "nodelay", "sndbuf", "rcvbuf", "mark", "keepalive-idle", "keepalive-count"].into_iter();
        for (word, meant) in [
            ("keepidle", "keepalive-idle"),
            ("TCP_KEEPCNT", "keepalive-count"),
            ("so-mark", "mark"),
            ("so-rcvbuf", "rcvbuf"),
            ("TCP_NODELAY", "nodelay"),
            ("sndbuf-late", "sndbuf"),
            ("tcp-maxseg", "mss"),
        ] {
            assert_eq!(nearest(word, options()), Some(meant), "{word}");
        }
        assert_eq!(nearest("range", ["congestion", "mss"].into_iter()), None, "its counterpart is not among them");
    }

    #[test]
    fn socat_words_without_a_counterpart_get_a_sentence() {
        for word in ["linger", "so-linger", "SO_REUSEADDR", "bind", "fork", "tos", "sourceport", "backlog", "keepalive"]
        {
            assert!(advice(word).is_some(), "{word}");
        }
        assert_eq!(advice("mss"), None);
    }
}
