//! Tables. A screen too narrow for columns shows each cell in a line, with the column's name beside it.

use super::html::Html;

/// Writes a table with a heading for each of `columns`: its name, and its class in the style sheet.
pub fn table(html: &mut Html, class: &str, columns: &[(&str, &str)], rows: impl FnOnce(&mut Html)) {
    html.node("table", &[("class", class)], |html| {
        html.node("thead", &[], |html| {
            html.node("tr", &[], |html| {
                columns.iter().for_each(|(column, class)| html.leaf("th", &[("class", class)], column))
            });
        });
        html.node("tbody", &[], rows);
    });
}

/// Writes a cell. A screen too narrow for columns shows the column's name beside it.
pub fn cell(html: &mut Html, column: &str, class: &str, text: &str) {
    let class = if text.is_empty() { format!("{class} none") } else { class.to_string() };
    let shown = if text.is_empty() { "–" } else { text };
    html.leaf("td", &[("data-name", column), ("class", class.trim())], shown);
}

/// Returns `262144` as `262,144`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
