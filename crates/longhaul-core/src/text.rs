//! Text that somebody else wrote, for logs and views.

/// Whether a terminal shows `character` and does nothing else by it: no control character, no mark that turns the direction of the text
/// (U+202E), no separator of lines (U+2028). An accent that joins the letter before it is printable.
pub fn is_printable(character: char) -> bool {
    // Behind a letter, because `escape_debug` escapes an accent that is the first character.
    let behind_a_letter = |character: char| String::from_iter(['x', character]).escape_debug().count() == 2;
    matches!(character, ' '..='~') || !character.is_ascii() && behind_a_letter(character)
}

/// Returns `text` with `?` for each character that cannot be [printed](is_printable), or that stands for bytes that are no text.
pub fn printable(text: &str) -> impl Iterator<Item = char> {
    let is_shown = |character| is_printable(character) && character != char::REPLACEMENT_CHARACTER;
    text.chars().map(move |character| if is_shown(character) { character } else { '?' })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_accents_and_emoji_are_printable_and_marks_of_direction_are_not() {
        for character in " ~\"'\\=äß漢字\u{301}🚀".chars() {
            assert!(is_printable(character), "{character:?}");
        }
        for character in
            "\0\t\n\r\u{1b}\u{7f}\u{85}\u{a0}\u{ad}\u{200b}\u{202e}\u{2028}\u{2066}\u{feff}\u{e000}".chars()
        {
            assert!(!is_printable(character), "{character:?}");
        }
        assert_eq!(printable("ä\u{202e}b\n\u{fffd}").collect::<String>(), "ä?b??");
    }
}
