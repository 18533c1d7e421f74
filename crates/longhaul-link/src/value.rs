//! Splits the value of a stage into its parts.

/// Splits `1Gbit/s queue 8MB` into the text before the first of `words` and the text after each word. The parts are in the
/// order of `words`, whatever their order in the text, and are trimmed. Returns `None` if a word occurs twice.
pub(super) fn parts<'a, const N: usize>(text: &'a str, words: [&str; N]) -> Option<(&'a str, [Option<&'a str>; N])> {
    let mut head = "";
    let mut found = [None; N];
    let mut place = None;
    let mut start = 0;
    let mut end_of = |place: Option<usize>, part: &'a str| match place {
        None => head = part.trim(),
        Some(place) => found[place] = Some(part.trim()),
    };
    let mut seen = [false; N];
    for word in text.split_whitespace() {
        let Some(next) = words.iter().position(|name| *name == word) else { continue };
        if std::mem::replace(&mut seen[next], true) {
            return None;
        }
        // Offset of the word in the text; both are slices of the same string.
        let at = word.as_ptr() as usize - text.as_ptr() as usize;
        end_of(place, &text[start..at]);
        (place, start) = (Some(next), at + word.len());
    }
    end_of(place, &text[start..]);
    Some((head, found))
}

#[cfg(test)]
mod tests {
    use super::parts;

    #[test]
    fn parts_are_found_in_any_order() {
        assert_eq!(parts("1 Gbit/s queue 8 MB", ["queue"]), Some(("1 Gbit/s", [Some("8 MB")])));
        assert_eq!(parts(" 5ms ", ["jitter"]), Some(("5ms", [None])));
        assert_eq!(parts("r 2 p 1", ["p", "r"]), Some(("", [Some("1"), Some("2")])));
        assert_eq!(parts("in-order within", ["in-order", "within"]), Some(("", [Some(""), Some("")])));
        assert_eq!(parts("p 1 p 2", ["p"]), None);
    }
}
