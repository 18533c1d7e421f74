//! Writes HTML that is also well-formed XML: text and attributes are escaped, and every tag is closed.
//!
//! maud and askama do not fit. They neither close `meta` as XML requires nor replace control characters, and the test parses
//! the page as XML to check that every tag is closed.

/// A piece of a page.
#[derive(Debug, Default)]
pub struct Html {
    text: String,
}

/// The attributes of a tag: names and values.
type Attributes<'a> = [(&'a str, &'a str)];

impl Html {
    /// Writes a tag with the content that `inside` writes.
    pub fn node(&mut self, name: &str, attributes: &Attributes<'_>, inside: impl FnOnce(&mut Html)) {
        self.open(name, attributes);
        self.text.push('>');
        if BLOCKS.contains(&name) {
            self.text.push('\n');
        }
        inside(self);
        self.text.push_str("</");
        self.text.push_str(name);
        self.close(name, ">");
    }

    /// Writes a tag that contains only text.
    pub fn leaf(&mut self, name: &str, attributes: &Attributes<'_>, text: &str) {
        self.open(name, attributes);
        self.text.push('>');
        self.text(text);
        self.text.push_str("</");
        self.text.push_str(name);
        self.close(name, ">");
    }

    /// Writes an empty tag: `meta`, or a shape of SVG.
    pub fn empty(&mut self, name: &str, attributes: &Attributes<'_>) {
        self.open(name, attributes);
        self.close(name, "/>");
    }

    /// Writes text. Control characters, which HTML and XML do not allow, become blanks.
    pub fn text(&mut self, text: &str) {
        for c in text.chars() {
            match c {
                '&' => self.text.push_str("&amp;"),
                '<' => self.text.push_str("&lt;"),
                '>' => self.text.push_str("&gt;"),
                '"' => self.text.push_str("&quot;"),
                '\n' | '\t' => self.text.push(c),
                c if c.is_control() => self.text.push(' '),
                '\u{fffe}' | '\u{ffff}' => self.text.push(' '),
                c => self.text.push(c),
            }
        }
    }

    /// Returns the text written so far.
    pub fn into_text(self) -> String {
        self.text
    }

    fn open(&mut self, name: &str, attributes: &Attributes<'_>) {
        self.text.push('<');
        self.text.push_str(name);
        for (name, value) in attributes {
            self.text.push(' ');
            self.text.push_str(name);
            self.text.push_str("=\"");
            self.text(value);
            self.text.push('"');
        }
    }

    fn close(&mut self, name: &str, end: &str) {
        self.text.push_str(end);
        // Within a line of text, a line break would become a blank.
        if !WORDS.contains(&name) {
            self.text.push('\n');
        }
    }
}

/// Tags with content on separate lines.
const BLOCKS: &[&str] = &[
    "html", "head", "body", "main", "article", "section", "div", "ul", "table", "thead", "tbody", "tr", "svg", "figure",
];
/// Tags within a line of text.
const WORDS: &[&str] = &["code", "b", "span", "a", "text", "tspan", "title"];
