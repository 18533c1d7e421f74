//! What tests of pages have in common.

use roxmltree::{Document, Node};

/// Fails where a tag is not closed or an attribute is not quoted.
pub(crate) fn parsed(page: &str) -> Document<'_> {
    let options = roxmltree::ParsingOptions { allow_dtd: true, ..Default::default() };
    Document::parse_with_options(page, options).unwrap_or_else(|err| panic!("{err}"))
}

/// Fails where a page runs a script, loads something, or shows a number that is none.
pub(crate) fn needs_nothing_from_elsewhere(page: &str) {
    for node in parsed(page).descendants().filter(Node::is_element) {
        let name = node.tag_name().name();
        assert!(!["script", "link", "img", "iframe", "object", "base", "image", "use"].contains(&name), "<{name}>");
        for attribute in node.attributes() {
            let name = attribute.name();
            assert!(!name.starts_with("on") && name != "src" && name != "href", "{name}");
        }
    }
    assert!(!page.contains("url(") && !page.contains("@import") && !page.contains('`'), "{page}");
    assert!(!page.contains("NaN") && !page.contains("inf,") && !page.contains(",inf"), "{page}");
}

/// Whether a node has a class of the style sheet.
pub(crate) fn has_class(node: &Node<'_, '_>, class: &str) -> bool {
    node.attribute("class").is_some_and(|classes| classes.split(' ').any(|word| word == class))
}

/// Returns the text in a node.
pub(crate) fn text(node: Node<'_, '_>) -> String {
    node.descendants().filter(Node::is_text).filter_map(|node| node.text()).collect()
}

/// Returns the texts of all nodes of a kind.
pub(crate) fn texts(document: &Document<'_>, name: &str) -> Vec<String> {
    document.descendants().filter(|node| node.has_tag_name(name)).map(text).collect()
}
