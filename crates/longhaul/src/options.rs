//! The socket options of one leg, as somebody asked for them: read from text by the table in
//! [`longhaul_sys::sockopt`], applied and read back when the leg comes up.

use longhaul_sys::sockopt::{Setting, When};

/// What was asked for one leg; at most one setting for each key, in the order of the table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LegOptions {
    settings: Vec<Setting>,
}

impl LegOptions {
    /// The settings that take effect at `when`.
    pub fn at(&self, when: When) -> impl Iterator<Item = &Setting> {
        self.settings.iter().filter(move |setting| setting.row.when == when)
    }

    /// The setting of `key`, where there is one.
    pub fn find(&self, key: &str) -> Option<&Setting> {
        self.settings.iter().find(|setting| setting.row.key == key)
    }
}
