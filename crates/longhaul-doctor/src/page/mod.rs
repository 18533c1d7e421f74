//! One HTML file: the writer, tables, and charts.
//!
//! A page needs no other file, no network and no script. It follows the light or dark setting of the reader's system, can be
//! printed, and fits a telephone. All output goes through [`Html`], which escapes every text and closes every tag.

mod axis;
pub mod chart;
mod html;
pub mod table;

pub use axis::Axis;
pub use html::Html;

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
}
