//! The scenarios that are built in: the files of `lab/`.

use super::scenario::{self, Scenario};

/// Name and text of each.
pub(super) const FILES: &[(&str, &str)] = &[
    ("mitre", include_str!("../../../../lab/mitre.toml")),
    ("kurtcms", include_str!("../../../../lab/kurtcms.toml")),
    ("ornl", include_str!("../../../../lab/ornl.toml")),
    ("hunt", include_str!("../../../../lab/hunt.toml")),
    ("skytap", include_str!("../../../../lab/skytap.toml")),
    ("geo-satellite", include_str!("../../../../lab/geo-satellite.toml")),
    ("transatlantic-lossy", include_str!("../../../../lab/transatlantic-lossy.toml")),
    ("policed", include_str!("../../../../lab/policed.toml")),
    ("bufferbloat", include_str!("../../../../lab/bufferbloat.toml")),
    ("vpn-blackhole", include_str!("../../../../lab/vpn-blackhole.toml")),
    ("flapping", include_str!("../../../../lab/flapping.toml")),
];

/// The scenario of that name, if there is one.
///
/// # Errors
/// Every error of the file, a line each.
pub(super) fn load(name: &str) -> Option<Result<Scenario, Vec<String>>> {
    let (name, text) = FILES.iter().find(|(known, _)| *known == name)?;
    Some(scenario::read(name, &format!("lab/{name}.toml"), text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_is_good_and_in_the_list() {
        for (name, _) in FILES {
            let scenario = load(name).unwrap().unwrap_or_else(|lines| panic!("{}", lines.join("\n")));
            assert!(scenario.runs.iter().any(|run| run.quick.is_some()), "{name} has no quick form");
        }
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../lab");
        for file in std::fs::read_dir(folder).unwrap() {
            let path = file.unwrap().path();
            if path.is_dir() {
                continue;
            }
            let name = path.file_stem().unwrap().to_str().unwrap().to_string();
            assert!(FILES.iter().any(|(known, _)| *known == name), "{name} is missing from the table");
        }
    }
}
