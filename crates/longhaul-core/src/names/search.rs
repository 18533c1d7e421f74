//! The full names that a name in a configuration may mean (resolv.conf(5), `search` and `ndots`).

/// Returns the full names to ask for, in order, for `name`. Each ends with a dot. `search` are the domains and `ndots`
/// is the number of resolv.conf(5): a name with as many dots is asked for as it is before the domains are appended, and
/// another one after that. A name that ends with a dot is full already.
pub fn candidates(name: &str, ndots: usize, search: &[String]) -> Vec<String> {
    if name.ends_with('.') {
        return vec![name.to_owned()];
    }
    let domains = search.iter().map(|domain| domain.trim_matches('.'));
    let appended = domains.map(|domain| match domain {
        "" => format!("{name}."), // the root
        domain => format!("{name}.{domain}."),
    });
    let as_it_is = format!("{name}.");
    let is_first = name.matches('.').count() >= ndots;
    let mut all: Vec<String> = is_first.then(|| as_it_is.clone()).into_iter().collect();
    for full in appended.chain([as_it_is]) {
        if !all.contains(&full) {
            all.push(full);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_name_is_tried_in_each_domain() {
        let search = ["site.example".to_owned(), "example.".to_owned()];
        for (name, ndots, full) in [
            ("b", 1, &["b.site.example.", "b.example.", "b."][..]),
            ("b.lan", 1, &["b.lan.", "b.lan.site.example.", "b.lan.example."]),
            ("b.lan", 2, &["b.lan.site.example.", "b.lan.example.", "b.lan."]),
            ("b", 0, &["b.", "b.site.example.", "b.example."]),
            ("b.", 1, &["b."]),
        ] {
            assert_eq!(candidates(name, ndots, &search), full, "{name} ndots:{ndots}");
        }
        assert_eq!(candidates("b", 1, &[]), ["b."]);
        assert_eq!(candidates("b", 1, &[".".into()]), ["b."]);
    }
}
