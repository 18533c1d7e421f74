//! The built-in scenarios: the files of `lab/`.

use crate::scenario::model::Scenario;
use crate::scenario::read as file;
use longhaul_config::Refused;
use std::path::Path;

/// Name and text of each scenario.
pub(crate) const FILES: &[(&str, &str)] = &[
    ("demo", include_str!("../../../../lab/demo.toml")),
    ("mitre", include_str!("../../../../lab/mitre.toml")),
    ("kurtcms", include_str!("../../../../lab/kurtcms.toml")),
    ("ornl", include_str!("../../../../lab/ornl.toml")),
    ("neighbours", include_str!("../../../../lab/neighbours.toml")),
    ("ornl-ftp", include_str!("../../../../lab/ornl-ftp.toml")),
    ("hunt", include_str!("../../../../lab/hunt.toml")),
    ("skytap", include_str!("../../../../lab/skytap.toml")),
    ("ibmi-ftp", include_str!("../../../../lab/ibmi-ftp.toml")),
    ("geo-satellite", include_str!("../../../../lab/geo-satellite.toml")),
    ("transatlantic-lossy", include_str!("../../../../lab/transatlantic-lossy.toml")),
    ("policed", include_str!("../../../../lab/policed.toml")),
    ("bufferbloat", include_str!("../../../../lab/bufferbloat.toml")),
    ("vpn-blackhole", include_str!("../../../../lab/vpn-blackhole.toml")),
    ("flapping", include_str!("../../../../lab/flapping.toml")),
    ("resets", include_str!("../../../../lab/resets.toml")),
];

/// Reads the built-in scenario `name`; `None` if there is none.
///
/// # Errors
/// Every error of the file.
pub(crate) fn load(name: &str) -> Option<Result<Scenario, Refused>> {
    let (name, text) = FILES.iter().find(|(known, _)| *known == name)?;
    Some(file::read(name, &format!("lab/{name}.toml"), text))
}

/// Reads a built-in scenario or a file. A name with a dot or a slash is a file.
///
/// # Errors
/// Every error of the file, one per line; or that the name is unknown, with a suggestion.
pub(crate) fn find(name: &str) -> Result<Scenario, Vec<String>> {
    let is_file = name.contains(['/', '.']);
    let found = load(name).or_else(|| is_file.then(|| file::load(Path::new(name))));
    found.map_or_else(|| Err(vec![unknown(name)]), |read| read.map_err(|refused| refused.lines()))
}

/// Returns the text of a built-in scenario.
///
/// # Errors
/// No built-in scenario has this name.
pub(crate) fn text(name: &str) -> Result<&'static str, String> {
    let found = FILES.iter().find(|(known, _)| *known == name).map(|(_, text)| *text);
    found.ok_or_else(|| match Path::new(name).is_file() {
        true => format!("error: {name} is a file, not a built-in scenario; to read it: cat {name}"),
        false => unknown(name),
    })
}

fn unknown(name: &str) -> String {
    let near = longhaul_config::suggest::nearest(name, FILES.iter().map(|(name, _)| *name));
    let meant = match near {
        Some(near) => format!("did you mean {near}?"),
        None if Path::new(name).is_file() => format!("for the file of this name write ./{name}"),
        None => "`longhaul lab list` shows them".to_string(),
    };
    format!("error: there is no scenario {name:?}; {meant}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_is_good_and_in_the_list() {
        for (name, _) in FILES {
            let scenario = load(name).unwrap().unwrap_or_else(|refused| panic!("{refused}"));
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
