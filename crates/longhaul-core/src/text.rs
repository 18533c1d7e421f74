//! Text that somebody else wrote, for logs and views.

use std::ops::RangeInclusive;

/// Whether a terminal shows `character` and does nothing else by it: no control character, no mark that turns the direction of the text
/// (U+202E), no separator of lines (U+2028), nothing that is invisible (U+3164). An accent that joins the letter before it is printable.
pub fn is_printable(character: char) -> bool {
    // Behind a letter, because `escape_debug` escapes an accent that is the first character.
    let behind_a_letter = |character: char| String::from_iter(['x', character]).escape_debug().count() == 2;
    let is_invisible = || INVISIBLE.iter().any(|range| range.contains(&character));
    matches!(character, ' '..='~') || !character.is_ascii() && behind_a_letter(character) && !is_invisible()
}

/// Characters that show nothing by themselves: Default_Ignorable_Code_Point of Unicode 17.0 (DerivedCoreProperties.txt), and U+2800, the
/// Braille pattern without a dot.
const INVISIBLE: &[RangeInclusive<char>] = &[
    '\u{ad}'..='\u{ad}',
    '\u{34f}'..='\u{34f}',
    '\u{61c}'..='\u{61c}',
    '\u{115f}'..='\u{1160}',
    '\u{17b4}'..='\u{17b5}',
    '\u{180b}'..='\u{180f}',
    '\u{200b}'..='\u{200f}',
    '\u{202a}'..='\u{202e}',
    '\u{2060}'..='\u{206f}',
    '\u{2800}'..='\u{2800}',
    '\u{3164}'..='\u{3164}',
    '\u{fe00}'..='\u{fe0f}',
    '\u{feff}'..='\u{feff}',
    '\u{ffa0}'..='\u{ffa0}',
    '\u{fff0}'..='\u{fff8}',
    '\u{1bca0}'..='\u{1bca3}',
    '\u{1d173}'..='\u{1d17a}',
    '\u{e0000}'..='\u{e0fff}',
];

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
        // Fillers of Hangul, joiners, selectors of a variant, tags, and Braille without a dot.
        for character in "\u{3164}\u{ffa0}\u{115f}\u{34f}\u{180b}\u{200d}\u{fe0f}\u{e0100}\u{e0041}\u{2800}".chars() {
            assert!(!is_printable(character), "{character:?}");
        }
        assert_eq!(printable("ä\u{202e}b\n\u{fffd}").collect::<String>(), "ä?b??");
    }
}
