//! One HTML file: the writer, tables, and charts.
//!
//! A page needs no other file, no network and no script. It follows the light or dark setting of the reader's system, can be
//! printed, and fits a telephone. All output goes through [`Html`], which escapes every text and closes every tag.

mod axis;
pub mod chart;
#[cfg(test)]
pub(crate) mod checks;
mod html;
pub mod table;

pub use axis::{Axis, power};
pub use html::Html;

use std::path::Path;

/// Returns a whole page with the content that `body` writes.
pub fn document(title: &str, body: impl FnOnce(&mut Html)) -> String {
    let mut html = Html::default();
    html.node("html", &[("lang", "en")], |html| {
        html.node("head", &[], |html| {
            html.empty("meta", &[("charset", "utf-8")]);
            html.empty("meta", &[("name", "viewport"), ("content", "width=device-width, initial-scale=1")]);
            html.empty("meta", &[("name", "color-scheme"), ("content", "light dark")]);
            html.leaf("title", &[], title);
            html.leaf("style", &[], STYLE);
        });
        html.node("body", &[], |html| {
            html.node("main", &[], body);
        });
    });
    format!("<!DOCTYPE html>\n{}", html.into_text())
}

/// Writes a section with its heading.
pub fn section(html: &mut Html, title: &str, inside: impl FnOnce(&mut Html)) {
    html.node("section", &[], |html| {
        html.leaf("h3", &[], title);
        inside(html);
    });
}

/// Writes a paragraph. Words between backticks are commands.
pub fn paragraph(html: &mut Html, class: &str, text: &str) {
    let class = [("class", class)];
    html.node("p", if class[0].1.is_empty() { &[] } else { &class }, |html| prose(html, text));
}

/// Writes text. Words between backticks are commands.
pub fn prose(html: &mut Html, text: &str) {
    for (index, words) in text.split('`').enumerate() {
        if index % 2 == 0 { html.text(words) } else { html.leaf("code", &[], words) }
    }
}

/// Writes commands to copy, each with its name. A command that is empty does not exist.
pub(crate) fn commands(html: &mut Html, commands: &[(&str, &String)]) {
    html.node("div", &[("class", "commands")], |html| {
        for (name, command) in commands.iter().filter(|(_, command)| !command.is_empty()) {
            html.leaf("div", &[("class", "name")], name);
            html.leaf("pre", &[], command);
        }
    });
}

/// Writes the document that says so.
pub(crate) fn source(html: &mut Html, source: &str) {
    paragraph(html, "source", &format!("Source: {source}"));
}

/// Writes the mark of what was not tried; nothing for what was.
pub(crate) fn mark(html: &mut Html, verified: bool) {
    if !verified {
        html.text(" ");
        html.leaf("span", &[("class", "unverified")], "unverified");
    }
}

/// Writes a page to `file`.
///
/// # Errors
/// The file cannot be written: a sentence that says what to write instead.
pub(crate) fn write(file: &Path, page: &str) -> Result<(), String> {
    check_name(file)?;
    std::fs::write(file, page).map_err(|err| unwritable(file, &err))
}

/// Checks that a page can be written to `file`, before work that takes long. Removes the file if it did not exist before, so that an
/// interrupted run leaves no empty page.
///
/// # Errors
/// The file cannot be written: a sentence that says what to write instead.
pub fn writable(file: &Path) -> Result<(), String> {
    check_name(file)?;
    let existed = file.exists();
    let opened = std::fs::File::options().write(true).create(true).truncate(false).open(file);
    opened.map_err(|err| unwritable(file, &err))?;
    if existed { Ok(()) } else { std::fs::remove_file(file).map_err(|err| unwritable(file, &err)) }
}

fn check_name(file: &Path) -> Result<(), String> {
    match file.as_os_str() == "-" {
        true => Err("it does not write to standard output; name a file, such as page.html or path.json".into()),
        false => Ok(()),
    }
}

fn unwritable(file: &Path, err: &std::io::Error) -> String {
    format!(
        "{} cannot be written: {err}; name a file in a folder that exists and that you can write to",
        file.display()
    )
}

/// The style sheet of every page.
pub const STYLE: &str = include_str!("style.css");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_style_sheet_needs_no_escapes() {
        // A browser does not undo them in <style>.
        let mut html = Html::default();
        html.text(STYLE);
        assert_eq!(html.into_text(), STYLE);
    }

    #[test]
    fn words_between_backticks_are_commands() {
        let mut html = Html::default();
        paragraph(&mut html, "", "Write `a <b>`, or `c`");
        paragraph(&mut html, "note", "`d");
        let expected =
            "<p>Write <code>a &lt;b&gt;</code>, or <code>c</code></p>\n<p class=\"note\"><code>d</code></p>\n";
        assert_eq!(html.into_text(), expected);
    }
}
