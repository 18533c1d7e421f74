//! Guesses the word that was probably meant.

/// Returns the word of `known` that `word` probably means: the one that other programs call so, the one nearest in letters, or
/// the first that has `word` as a part.
pub fn nearest<'k>(word: &str, known: impl Iterator<Item = &'k str>) -> Option<&'k str> {
    // Nobody mistypes a word into one this long, and the distance costs the product of both lengths.
    if word.len() > 40 {
        return None;
    }
    let plain = plain(word);
    let known: Vec<&str> = known.collect();
    called(&plain, &known).or_else(|| mistyped(&plain, &known)).or_else(|| shortened(&plain, &known))
}

/// Returns a sentence for a word of socat without a counterpart here: why it is not needed, or what to write.
pub fn advice(word: &str) -> Option<&'static str> {
    let plain = plain(word);
    ADVICE.iter().find(|(foreign, _)| *foreign == bare(&plain)).map(|(_, advice)| *advice)
}

/// Returns the word of `known` that is `word`, or that other programs call `word`.
pub fn named<'k>(word: &str, known: impl Iterator<Item = &'k str>) -> Option<&'k str> {
    called(&plain(word), &known.collect::<Vec<_>>())
}

/// Like [`named`]; also with the prefix of the system constant.
fn called<'k>(word: &str, known: &[&'k str]) -> Option<&'k str> {
    let bare = bare(word);
    let same = || known.iter().find(|known| plain(known) == bare).copied();
    translated(word, known).or_else(same).or_else(|| translated(bare, known))
}

/// Returns `so-sndbuf` and `tcp-nodelay`, as socat and the kernel's headers have them, without their prefix.
fn bare(word: &str) -> &str {
    word.strip_prefix("tcp-").or_else(|| word.strip_prefix("so-")).unwrap_or(word)
}

/// Returns the word of `known` that other programs call `word`.
fn translated<'k>(word: &str, known: &[&'k str]) -> Option<&'k str> {
    let here = |meant: &str| known.iter().find(|known| plain(known) == meant).copied();
    FOREIGN.iter().filter(|(foreign, _)| *foreign == word).find_map(|(_, meant)| here(meant))
}

/// Returns the word of `known` that differs from `word` in at most one letter of three: wrong, missing, added or swapped.
fn mistyped<'k>(word: &str, known: &[&'k str]) -> Option<&'k str> {
    let distances = known.iter().map(|known| (strsim::damerau_levenshtein(word, &plain(known)), *known));
    let near = distances.filter(|(distance, known)| *distance <= known.len().div_ceil(3));
    near.min_by_key(|(distance, _)| *distance).map(|(_, known)| known)
}

/// Returns the first word of `known` with `word` between its dashes.
fn shortened<'k>(word: &str, known: &[&'k str]) -> Option<&'k str> {
    known.iter().find(|known| plain(known).split('-').any(|part| part == word)).copied()
}

/// Returns a word in small letters, with dashes.
fn plain(word: &str) -> String {
    word.to_lowercase().replace('_', "-")
}

/// Words of socat, HAProxy, nginx and others, and the words here; the first that is known in its place counts.
const FOREIGN: &[(&str, &str)] = &[
    ("acl", "allow"),
    ("allowlist", "allow"),
    ("backend", "to"),
    ("balance", "policy"),
    ("cc", "congestion"),
    ("connect", "to"),
    ("destination", "to"),
    ("frontend", "listen"),
    ("fwmark", "mark"),
    ("interface", "bind-device"),
    ("keepcnt", "keepalive-count"),
    ("keepidle", "keepalive-idle"),
    ("keepintvl", "keepalive-interval"),
    ("maxseg", "mss"),
    ("max-children", "max-flows"),
    ("max-connections", "max-flows"),
    ("maxconn", "max-flows"),
    ("proxy-pass", "to"),
    ("range", "allow"),
    ("rcvbuf-late", "rcvbuf"),
    ("remote", "to"),
    ("server", "to"),
    ("bindtodevice", "bind-device"),
    ("sndbuf-late", "sndbuf"),
    ("syncnt", "syn-retries"),
    ("target", "to"),
    ("upstream", "to"),
    ("whitelist", "allow"),
];

/// Words of socat without one counterpart, without the prefix of a system constant: docs/from-socat.md.
const ADVICE: &[(&str, &str)] = &[
    ("backlog", "the listen queue always has room for 4096 connections; leave it out"),
    (
        "bind",
        "the address to listen on is part of `--listen ADDR:PORT`, the address to dial from is `--source ADDR` (in a file: \
         `listen`, `source`)",
    ),
    (
        "fork",
        "not needed: connections are served at the same time; `--max-flows` limits their number (in a file: `max_flows`)",
    ),
    ("keepalive", "keepalive is always on; keepalive-idle, keepalive-interval and keepalive-count change its times"),
    ("linger", "not needed: SO_LINGER is 0 on both legs, so that a stream that was cut ends in a reset"),
    ("reuseaddr", "not needed: a listener always has SO_REUSEADDR"),
    ("sourceport", "with one fixed source port, only one flow could exist; leave it out"),
    ("tos", "`tos=T` is dscp, T divided by 4: tos=184 is dscp=46 (ef)"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typing_errors_are_guessed_and_nonsense_is_not() {
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
        assert_eq!(nearest("range", ["congestion", "mss"].into_iter()), None, "it is not called so there");
    }

    #[test]
    fn words_of_socat_without_an_equal_get_a_sentence() {
        for word in ["linger", "so-linger", "SO_REUSEADDR", "bind", "fork", "tos", "sourceport", "backlog", "keepalive"]
        {
            assert!(advice(word).is_some(), "{word}");
        }
        assert_eq!(advice("mss"), None);
    }
}
