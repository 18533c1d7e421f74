//! The dashboard: one page, with its styles and its modules of JavaScript, all of them in the binary.
//!
//! ```text
//! index.html   the parts of the page, from the first screen down
//! main.js      asks for /status.json each second; the state, its problems, the process
//!   history.js   what it knows of earlier times: rates, and the figures of the tunnels
//!   tunnels.js   a card for each tunnel, and the resources
//!     chart.js     figures over time and results of verify, drawn
//!   flows.js     the table of flows
//!     figures.js   the columns of the tables, written from the figures
//!   text.js      figures as text, and elements that hold text
//! ```
//! The page asks nobody else and changes nothing. Its headers make the browser refuse whatever is not one of these files,
//! so a name that a client or the configuration chose cannot become markup or a script.

use super::answer::{self, Answer};
use super::figures::{FLOWS, Figure, HOPS, LEGS, TUNNELS, Unit};
use hyper::header::{CONTENT_SECURITY_POLICY, HeaderValue, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS};
use serde_json::{Value, json};
use std::sync::LazyLock;

/// The files of the page. Each is served at its path, by GET.
pub(super) const FILES: &[File] = &[
    File { path: "/", kind: "text/html; charset=utf-8", text: || include_str!("index.html") },
    File { path: "/page/icon.svg", kind: "image/svg+xml", text: || include_str!("icon.svg") },
    File { path: "/page/style.css", kind: "text/css; charset=utf-8", text: || include_str!("style.css") },
    script("/page/main.js", || include_str!("main.js")),
    script("/page/history.js", || include_str!("history.js")),
    script("/page/tunnels.js", || include_str!("tunnels.js")),
    script("/page/chart.js", || include_str!("chart.js")),
    script("/page/flows.js", || include_str!("flows.js")),
    script("/page/figures.js", || &FIGURES),
    script("/page/text.js", || include_str!("text.js")),
];

/// A file of the page.
pub(super) struct File {
    /// Path in a request.
    pub(super) path: &'static str,
    /// Media type.
    kind: &'static str,
    /// Returns its content.
    text: fn() -> &'static str,
}

const fn script(path: &'static str, text: fn() -> &'static str) -> File {
    File { path, kind: "text/javascript; charset=utf-8", text }
}

impl File {
    /// Returns the file as an answer.
    pub(super) fn answer(&self) -> Answer {
        let mut answer = answer::document(self.kind, (self.text)());
        let headers = answer.headers_mut();
        headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
        headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
        answer
    }
}

/// The figures that the page shows: a list for each table, in the order of the columns.
static FIGURES: LazyLock<String> = LazyLock::new(|| {
    let lists = [("FLOWS", list(&FLOWS)), ("LEGS", list(&LEGS)), ("HOPS", list(&HOPS)), ("TUNNELS", list(&TUNNELS))];
    lists.map(|(name, figures)| format!("export const {name} = {figures};\n")).concat()
});

fn list<T>(figures: &[Figure<T>]) -> Value {
    let column = |figure: &Figure<T>| {
        let page = figure.page.as_ref()?;
        Some(json!({ "heading": page.heading, "path": page.path, "unit": figure.unit().map(Unit::name) }))
    };
    figures.iter().filter_map(column).collect()
}

/// The page may load its own files and ask its own daemon, and nothing else. No other page may frame it. With Trusted Types,
/// the browser refuses to parse a text as markup.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
                      require-trusted-types-for 'script'; trusted-types 'none'";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admin::manual_tests::states as named_states;
    use crate::admin::snapshot::{FlowStateName, HopState, Problem};
    use crate::admin::verdict::Words;
    use serde::de::DeserializeOwned;
    use serde_json::{from_value, json};

    fn file(path: &str) -> &'static File {
        FILES.iter().find(|file| file.path == path).unwrap()
    }

    /// Returns the line of a table in `script` whose key is `state`.
    fn row(script: &File, state: &str) -> Option<&'static str> {
        let keys = [format!("{state}: "), format!("\"{state}\": ")];
        (script.text)().lines().map(str::trim).find(|line| keys.iter().any(|key| line.starts_with(key)))
    }

    /// Returns the states that `T` can have, and their names in JSON. `key` is the field of the name, if `T` has fields.
    fn states<T: DeserializeOwned>(key: Option<&str>) -> Vec<(&'static str, T)> {
        let value = |name| key.map_or(json!(name), |key| json!({key: name}));
        named_states().into_iter().filter_map(|name| Some((name, from_value(value(name)).ok()?))).collect()
    }

    /// A state that is added or renamed must be so in the scripts, too.
    #[test]
    fn the_scripts_have_the_words_of_each_state() {
        let [main, tunnels, flow_table] = ["main", "tunnels", "flows"].map(|name| file(&format!("/page/{name}.js")));
        for state in named_states() {
            assert!([main, tunnels, flow_table].iter().any(|script| row(script, state).is_some()), "{state}");
        }
        let flows: Vec<(&str, FlowStateName)> = states(None);
        let hops: Vec<(&str, HopState)> = states(Some("state"));
        assert_eq!((flows.len(), hops.len()), (6, 4));
        for (name, state) in flows {
            assert!(row(flow_table, name).unwrap().ends_with(&format!(": \"{}\",", state.text())), "{name}");
        }
        for (name, hop) in hops {
            assert!(row(tunnels, name).unwrap().ends_with(&format!(": \"{}\",", hop.state.text())), "{name}");
        }
        let healths: Vec<(&str, Problem)> = states(Some("health"));
        assert_eq!(healths.len(), 7);
        for (name, problem) in healths {
            let word = format!("hop: \"{}\"", Words::of(problem.health).hop);
            assert!(row(tunnels, name).unwrap().contains(&word), "{name}: {word}");
        }
    }

    #[test]
    fn the_page_has_no_inline_script_and_no_address_of_another_host() {
        for file in FILES {
            // The namespace of SVG is a name and is not loaded.
            let text = (file.text)().replace("http://www.w3.org/2000/svg", "");
            for unwanted in
                ["http:", "https:", "\"//", "innerHTML", "insertAdjacentHTML", "eval(", " style=", " onclick="]
            {
                assert!(!text.contains(unwanted), "{}: {unwanted}", file.path);
            }
        }
        let index = (file("/").text)();
        assert!(!index.contains("<script>") && index.contains("longhaul status"));
    }
}
