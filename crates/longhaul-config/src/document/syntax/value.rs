//! Explains why the text after the = of a line is not a TOML value.

use toml::de::DeTable;

/// State of the lines below a mistake.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Below {
    /// The lines can be read.
    Readable,
    /// The lines are inside an unclosed bracket or string, so errors in them mean nothing.
    Unreadable,
}

/// A mistake in a value.
pub(super) struct Wrong {
    /// Names the mistake and what to write.
    pub(super) text: String,
    /// Whether the lines below can be read.
    pub(super) below: Below,
}

/// Clause about text without quotes, the most common mistake.
pub(super) const NEEDS_QUOTES: &str = "a text needs quotes";
/// Clause about another sign in place of the =.
pub(super) const EQUALS: &str = "key and value are separated by one =";

/// Finds the mistake in `given`, the value of `key`.
pub(super) fn explain(key: &str, given: &str) -> Wrong {
    let key = &shown(key);
    let wrong = |text: String| Wrong { text, below: Below::Readable };
    let write = |why: &str, meant: &str| wrong(format!("{why}: write {}", line(key, meant)));
    let Some(first) = given.chars().next() else { return wrong(format!("{key} has no value; write {key} = VALUE")) };
    if given.starts_with('#') {
        return wrong(format!("{key} has no value before the #; write {key} = VALUE"));
    }
    if TYPOGRAPHIC.contains(&first) {
        return write("TOML has only straight quotes", &given.replace(TYPOGRAPHIC, "\""));
    }
    match first {
        '=' | '>' => write(EQUALS, &as_meant(given.trim_start_matches(['=', '>']).trim())),
        '"' | '\'' => in_quotes(key, given, first),
        '[' if is_address(given) => write(NEEDS_QUOTES, &quoted(without_comment(given))),
        '[' => list(key, given),
        '{' => table(key, given),
        _ => bare(key, given),
    }
}

/// Returns the line to write: `KEY = MEANT`, or only its form if the guess is not TOML either.
pub(super) fn line(key: &str, meant: &str) -> String {
    match DeTable::parse(&format!("{key} = {meant}")) {
        Ok(_) => format!("{} = {}", shown(key), shown(meant)),
        Err(_) => format!("{} = VALUE", shown(key)),
    }
}

/// Returns the corrected form of `given`: bare text gets quotes, typographic quotes become straight, a comma or semicolon at
/// the end goes.
pub(super) fn as_meant(given: &str) -> String {
    let given = given.replace(TYPOGRAPHIC, "\"");
    let given = given.trim_end_matches([',', ';']);
    match given.chars().next() {
        None => "VALUE".into(),
        // Only the quote at one end of a text: the other one was forgotten.
        Some(quote @ ('"' | '\'')) if given.matches(quote).count() == 1 => quoted(without_comment(given)),
        Some('"' | '\'') => given.into(),
        Some('{') => table_as_meant(given),
        Some('[') if !is_address(given) => given.into(),
        Some(_) if is_plain_value(given) => given.into(),
        Some(_) => {
            let bare = without_comment(given);
            switch(bare).map_or_else(|| quoted(bare), Into::into)
        }
    }
}

/// Returns the table `given` with `=` in every pair and with its values [as meant](as_meant), or `given` if a pair has no value.
/// A table within it stays as it is, so a line with many braces uses little stack.
fn table_as_meant(given: &str) -> String {
    let inside = given[1..].split('}').next().unwrap_or_default();
    let pairs = inside.split(',').map(str::trim).filter(|pair| !pair.is_empty()).map(|pair| {
        let (name, value) = pair.split_once(['=', ':'])?;
        let value = value.trim_start_matches(['=', ':', '>', ' ']);
        let meant = if value.starts_with('{') { value.into() } else { as_meant(value) };
        Some(format!("{} = {meant}", name.trim().trim_matches('"')))
    });
    pairs.collect::<Option<Vec<_>>>().map_or_else(|| given.into(), |pairs| format!("{{ {} }}", pairs.join(", ")))
}

/// Returns `true` or `false` for a word that means it, such as `yes` or `Off`.
fn switch(word: &str) -> Option<&'static str> {
    match word.trim_end_matches(['.', '}']).to_ascii_lowercase().as_str() {
        "true" | "yes" | "on" => Some("true"),
        "false" | "no" | "off" => Some("false"),
        _ => None,
    }
}

/// Returns `text` in quotes, without any quotes at its ends. The quotes are single if `text` has a backslash or a double
/// quote: in double quotes a backslash begins an escape.
pub(super) fn quoted(text: &str) -> String {
    let text = text.trim_matches(['"', '\'']);
    let quote = if text.contains(['\\', '"']) { '\'' } else { '"' };
    format!("{quote}{text}{quote}")
}

/// Returns the unquoted text at the start of `element`, a line of a list; `None` if there is none.
pub(super) fn bare_element(element: &str) -> Option<&str> {
    let text = element.split([',', '#', ']']).next().unwrap_or_default().trim();
    let is_bare = !text.is_empty() && !text.starts_with(['"', '\'', '[', '{', '}']) && !is_plain_value(text);
    is_bare.then_some(text)
}

/// Explains a value that begins with a quote.
fn in_quotes(key: &str, given: &str, quote: char) -> Wrong {
    let wrong = |text: String| Wrong { text, below: Below::Readable };
    let write = |why: &str, meant: &str| wrong(format!("{why}: write {}", line(key, meant)));
    let triple: String = [quote; 3].iter().collect();
    if given.starts_with(&triple) {
        let text = format!("the text that begins here is not closed; write {triple} at its end");
        return Wrong { text, below: Below::Unreadable };
    }
    let inside = &given[1..];
    if quote == '"' && inside.contains('\\') {
        let text = inside.trim_end_matches(['"', ' ']);
        return write("in double quotes a backslash begins an escape; use single quotes", &format!("'{text}'"));
    }
    let Some(end) = inside.find(quote) else {
        let text = without_comment(inside).trim_end_matches(['"', '\'', ',', ';']).trim_end();
        return write("the closing quote is missing", &format!("{quote}{text}{quote}"));
    };
    let (text, rest) = (&given[..end + 2], inside[end + 1..].trim());
    match rest.trim_end_matches(['"', '\'', ',', ';', '.']) {
        "" if rest.starts_with(['"', '\'']) => write("there is one quote too many", text),
        "" if rest.is_empty() => wrong(format!("this is not TOML; write {key} = VALUE")),
        "" => write(&format!("`{rest}` does not belong at the end of a line"), text),
        _ if rest.starts_with("//") || rest.starts_with(';') => wrong("a comment begins with #".into()),
        more if more.contains('=') => wrong("write each KEY = VALUE on a line of its own".into()),
        _ if rest.starts_with(',') => {
            write("several values are a list", &format!("[{}]", without_comment(given).trim_end_matches(']')))
        }
        _ if rest.ends_with(['"', '\'']) => {
            let text = given[1..].trim_end_matches(quote).replace(quote, "");
            write("a quote inside a text ends it; leave the inner quotes out", &format!("{quote}{text}{quote}"))
        }
        _ => wrong(format!("`{}` does not belong after the closing quote; a comment begins with #", shown(rest))),
    }
}

/// Explains a value that begins with `[`.
fn list(key: &str, given: &str) -> Wrong {
    let wrong = |text: String| Wrong { text, below: Below::Readable };
    let inside = given[1..].split(']').next().unwrap_or_default();
    let is_closed = given.contains(']');
    let elements: Vec<&str> = inside.split(',').map(str::trim).collect();
    if elements.iter().any(|element| bare_element(element).is_some()) {
        let meant: Vec<String> = elements.iter().map(|element| as_meant(element.trim_end_matches(';'))).collect();
        let written = match is_closed {
            true => line(key, &format!("[{}]", meant.join(", "))),
            false => format!("{key} = {}", shown(&format!("[{}, ..", meant.join(", ")))),
        };
        return wrong(format!("{NEEDS_QUOTES}: write {written}"));
    }
    let two_texts = |element: &str| element.matches('"').count() > 2;
    if let Some(element) = elements.iter().copied().find(|element| two_texts(element)) {
        let meant = element.split('"').map(str::trim).filter(|text| !text.is_empty()).map(quoted).collect::<Vec<_>>();
        return wrong(format!("a comma is missing: write {key} = [.. {} ..]", shown(&meant.join(", "))));
    }
    if elements.iter().rev().skip(1).any(|element| element.is_empty()) {
        return wrong(format!("there is one comma too many in the list; write {key} = [VALUE, VALUE]"));
    }
    match is_closed {
        true => wrong(format!("this is not a list; write {key} = [VALUE, VALUE], and nothing after it")),
        false => Wrong {
            text: "the list that begins here is not closed; write ] at its end".into(),
            below: Below::Unreadable,
        },
    }
}

/// Explains a value that begins with `{`.
fn table(key: &str, given: &str) -> Wrong {
    let wrong = |text: String| Wrong { text, below: Below::Readable };
    let inside = given[1..].split('}').next().unwrap_or_default();
    for pair in inside.split(',').map(str::trim).filter(|pair| !pair.is_empty()) {
        let Some((name, value)) = pair.split_once(['=', ':']) else {
            return wrong(format!("{} has no value; write {key} = {{ KEY = VALUE }}", shown(pair)));
        };
        let value = value.trim_start_matches(['=', ':', '>', ' ']);
        if value.contains('=') && !value.starts_with(['{', '[']) {
            return wrong(format!("a comma is missing after {}; write a comma between two values", shown(name.trim())));
        }
    }
    let meant = table_as_meant(given);
    if given.trim_end().ends_with('}') && meant.split_whitespace().ne(given.split_whitespace()) {
        let has_colon = inside.split(',').any(|pair| !pair.contains('=') && pair.contains(':'));
        let why = if has_colon { EQUALS } else { NEEDS_QUOTES };
        return wrong(format!("{why}: write {}", line(key, &meant)));
    }
    match given.contains('}') {
        true => wrong(format!("this is not a table; write {key} = {{ KEY = VALUE }}, and nothing after it")),
        false => Wrong {
            text: "the table that begins here is not closed; write } at its end".into(),
            below: Below::Unreadable,
        },
    }
}

/// Explains a value without quotes and brackets.
fn bare(key: &str, given: &str) -> Wrong {
    let write =
        |why: &str, meant: &str| Wrong { text: format!("{why}: write {}", line(key, meant)), below: Below::Readable };
    let whole = without_comment(given);
    let text = whole.trim_end_matches([',', ';', ']']).trim_end();
    let text = text.trim_matches(['(', ')', '<', '>', '"', '\'']);
    let digits: String = text.chars().filter(|c| !matches!(c, ',' | ' ' | '_' | '\'')).collect();
    if given.contains(" //") || given.contains(" ;") {
        return write("a comment begins with #", &as_meant(text.split(" ;").next().unwrap_or_default()));
    }
    if let Some(value) = switch(text) {
        return write("a switch is true or false, in lower case", value);
    }
    if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) {
        let number = digits.trim_start_matches('0');
        let number = if number.is_empty() { "0" } else { number };
        return match digits == text {
            true if digits == number => write("nothing may follow a number", number),
            true => write("a number does not begin with 0", number),
            false => write("a number has only digits", number),
        };
    }
    let parts: Vec<&str> = text.split(',').map(str::trim).collect();
    match parts.as_slice() {
        [_, second, ..] if second.contains('=') => Wrong {
            text: "write each KEY = VALUE on a line of its own, and a text in quotes".into(),
            below: Below::Readable,
        },
        [_, _, ..] => {
            let list: Vec<String> = parts.iter().map(|part| quoted(part)).collect();
            write("several texts are a list, each in quotes", &format!("[{}]", list.join(", ")))
        }
        _ => write(NEEDS_QUOTES, &quoted(text)),
    }
}

/// Returns whether `text` is a TOML integer or boolean.
fn is_plain_value(text: &str) -> bool {
    let digits = text.trim_start_matches(['-', '+']);
    matches!(text, "true" | "false")
        || !digits.is_empty()
            && digits.bytes().all(|byte| byte.is_ascii_digit())
            && (digits == "0" || !digits.starts_with('0'))
}

/// Returns whether `text` is an address such as `[::]:6000`, not a list.
fn is_address(text: &str) -> bool {
    let inside = text.strip_prefix('[').and_then(|rest| rest.split_once(']'));
    inside.is_some_and(|(host, rest)| host.contains(':') && !host.contains(['"', ',']) && rest.starts_with(':'))
}

/// Returns `text` without the comment at its end.
fn without_comment(text: &str) -> &str {
    let end = [" #", "\t#", " //"].iter().filter_map(|mark| text.find(mark)).min();
    text[..end.unwrap_or(text.len())].trim()
}

/// Cuts `text` to the length that a message repeats.
fn shown(text: &str) -> String {
    match text.chars().count() > SHOWN_MAX {
        true => text.chars().take(SHOWN_MAX).collect::<String>() + "..",
        false => text.into(),
    }
}

/// Maximum number of characters of a key or value that a message repeats.
pub(super) const SHOWN_MAX: usize = 60;
/// Quotes of word processors, and the backquote of shells and Markdown.
const TYPOGRAPHIC: [char; 9] = ['“', '”', '„', '‟', '‘', '’', '«', '»', '`'];
