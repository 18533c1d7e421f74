//! The word that somebody probably meant.

/// The word of `known` that was probably meant by `word`: what other programs call by it, the one nearest in letters, or the
/// first of which `word` is a part.
pub fn nearest<'k>(word: &str, known: impl Iterator<Item = &'k str>) -> Option<&'k str> {
    // Nobody mistypes a word into one this long, and the distance costs the product of both lengths.
    if word.len() > 40 {
        return None;
    }
    let plain = plain(word);
    let known: Vec<&str> = known.collect();
    translated(&plain, &known).or_else(|| mistyped(&plain, &known)).or_else(|| shortened(&plain, &known))
}

/// The word of `known` for what other programs call `word`.
fn translated<'k>(word: &str, known: &[&'k str]) -> Option<&'k str> {
    let here = |meant: &str| known.iter().find(|known| plain(known) == meant).copied();
    FOREIGN.iter().filter(|(foreign, _)| *foreign == word).find_map(|(_, meant)| here(meant))
}

/// The word of `known` with a letter wrong, missing, added or swapped for every three.
fn mistyped<'k>(word: &str, known: &[&'k str]) -> Option<&'k str> {
    let distances = known.iter().map(|known| (strsim::damerau_levenshtein(word, &plain(known)), *known));
    let near = distances.filter(|(distance, known)| *distance <= known.len().div_ceil(3));
    near.min_by_key(|(distance, _)| *distance).map(|(_, known)| known)
}

/// The first word of `known` with `word` between its dashes.
fn shortened<'k>(word: &str, known: &[&'k str]) -> Option<&'k str> {
    known.iter().find(|known| plain(known).split('-').any(|part| part == word)).copied()
}

/// A word without what people write differently.
fn plain(word: &str) -> String {
    word.to_lowercase().replace('_', "-")
}

/// Words of socat, HAProxy, nginx and others, and ours with dashes; the first that is known where somebody writes it.
const FOREIGN: &[(&str, &str)] = &[
    ("acl", "allow"),
    ("allowlist", "allow"),
    ("backend", "to"),
    ("balance", "policy"),
    ("bind", "listen"),
    ("cc", "congestion"),
    ("connect", "to"),
    ("destination", "to"),
    ("fork", "max-flows"),
    ("frontend", "listen"),
    ("fwmark", "mark"),
    ("interface", "bind-device"),
    ("max-children", "max-flows"),
    ("max-connections", "max-flows"),
    ("maxconn", "max-flows"),
    ("proxy-pass", "to"),
    ("range", "allow"),
    ("remote", "to"),
    ("server", "to"),
    ("so-bindtodevice", "bind-device"),
    ("target", "to"),
    ("tos", "dscp"),
    ("upstream", "to"),
    ("whitelist", "allow"),
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
        for (word, meant) in [
            ("range", "allow"),
            ("backend", "to"),
            ("MaxConn", "max_flows"),
            ("bind", "listen"),
            ("timeout", "connect_timeout"),
        ] {
            assert_eq!(nearest(word, keys()), Some(meant), "{word}");
        }
        assert_eq!(nearest("bbrr", ["reno", "cubic", "bbr"].into_iter()), Some("bbr"));
        assert_eq!(nearest("range", ["congestion", "mss"].into_iter()), None, "it is not called so there");
    }
}
