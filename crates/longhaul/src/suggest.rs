//! The word that somebody probably meant.

/// The word of `known` nearest to `word`, when one is near enough to be meant: a letter wrong, missing, added or
/// swapped for every three.
pub fn nearest<'k>(word: &str, known: impl Iterator<Item = &'k str>) -> Option<&'k str> {
    // Nobody mistypes a word into one this long, and the distance costs the product of both lengths.
    if word.len() > 40 {
        return None;
    }
    let plain = word.to_lowercase().replace('_', "-");
    known
        .map(|known| (strsim::damerau_levenshtein(&plain, &known.replace('_', "-")), known))
        .filter(|(distance, known)| *distance <= known.len().div_ceil(3))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, known)| known)
}

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
}
