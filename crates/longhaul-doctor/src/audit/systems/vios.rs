//! VIOS: `lsdev -dev ent5 -attr` of a shared Ethernet adapter, and `lsattr -El ent5`.
//!
//! The adapter forwards the frames of its clients, so its attributes set no window.

use crate::audit::reader::{Facts, Hint, Reader, Shown};

/// Reads the pastes of one VIOS.
#[derive(Default)]
pub(super) struct Vios {
    /// The adapter whose attributes are being read, from the command.
    adapter: Option<String>,
    /// A command asked for this attribute alone: its value stands in a line of its own.
    asked: Option<&'static str>,
    /// The attributes are those of a shared Ethernet adapter: others have jumbo_frames, too.
    is_shared: bool,
    values: Vec<Value>,
}

/// An attribute of an adapter.
struct Value {
    adapter: String,
    row: &'static Row,
    value: String,
}

/// An attribute that is read.
struct Row {
    name: &'static str,
    values: &'static [&'static str],
    /// The value that hurts, and how.
    bad: Option<(&'static str, &'static str)>,
}

impl Reader for Vios {
    fn read(&mut self, line: &str) -> bool {
        let words: Vec<&str> = line.split_ascii_whitespace().take(MAX_WORDS).collect();
        match words.as_slice() {
            [] => false,
            [name, rest @ ..] => self.command(name, rest) || self.alone(&words) || self.attribute(&words),
        }
    }

    fn facts(&self) -> Facts {
        let shown = |value: &Value| Shown {
            name: value.row.name.into(),
            value: value.value.clone(),
            from: format!("lsdev {}", value.adapter),
        };
        let hint = |value: &Value| {
            let (_, what) = value.row.bad.filter(|(bad, _)| *bad == value.value)?;
            let (setting, place) = (value.row.name, value.adapter.clone());
            Some(Hint { setting, value: value.value.clone(), place, what, costs_rate: true })
        };
        Facts {
            settings: self.values.iter().map(shown).collect(),
            hints: self.values.iter().filter_map(hint).collect(),
            ..Facts::default()
        }
    }
}

impl Vios {
    /// Reads `lsdev -dev ent5 -attr`, with an attribute or without, and `lsattr -El ent5`.
    fn command(&mut self, name: &str, rest: &[&str]) -> bool {
        let behind = |flag: &str| rest.iter().skip_while(|word| **word != flag).nth(1);
        let device = match name.rsplit('/').next() {
            Some("lsdev") => behind("-dev"),
            Some("lsattr") => behind("-l").or(behind("-El")),
            _ => None,
        };
        let Some(device) = device else { return false };
        if !is_adapter(device) {
            return false;
        }
        self.is_shared = rest.contains(&"-attr");
        self.asked = behind("-attr").and_then(|asked| ROWS.iter().map(|row| row.name).find(|name| name == asked));
        self.adapter = Some((*device).into());
        true
    }

    /// Reads the value of the only attribute that a command asked for.
    fn alone(&mut self, words: &[&str]) -> bool {
        match (self.asked, words) {
            (Some(_), ["value"]) => true,
            (Some(name), [value]) => {
                self.asked = None;
                self.keep(name, value)
            }
            _ => false,
        }
    }

    /// Reads a line of the table: name, value, description, and whether it may be set.
    fn attribute(&mut self, words: &[&str]) -> bool {
        let [name, value, _, ..] = words else { return false };
        let is_settable = words.last().is_some_and(|last| ["True", "False"].contains(last));
        if !is_settable && !self.is_shared {
            return false;
        }
        self.is_shared |= SHARED.contains(name);
        self.is_shared && self.keep(name, value)
    }

    fn keep(&mut self, name: &str, value: &str) -> bool {
        let Some(row) = ROWS.iter().find(|row| row.name == name && row.values.contains(&value)) else { return false };
        let adapter = self.adapter.clone().unwrap_or_else(|| UNNAMED.into());
        let is_room = self.values.len() < MAX_VALUES;
        let known = self.values.iter_mut().find(|known| known.row.name == name && known.adapter == adapter);
        match known {
            Some(known) => known.value = value.into(),
            None if is_room => self.values.push(Value { adapter, row, value: value.into() }),
            None => return false,
        }
        true
    }
}

fn is_adapter(word: &str) -> bool {
    let number = word.strip_prefix("ent").unwrap_or_default();
    (1..=4).contains(&number.len()) && number.bytes().all(|byte| byte.is_ascii_digit())
}

const ROWS: &[Row] = &[
    Row {
        name: "largesend",
        values: &["0", "1"],
        bad: Some(("0", "The adapter does not take large segments, so that its clients cut each segment themselves.")),
    },
    Row {
        name: "large_receive",
        values: &["no", "yes"],
        bad: Some(("yes", "Clients with Linux or IBM i drop the joined frames, which are larger than their MTU.")),
    },
    Row { name: "jumbo_frames", values: &["no", "yes"], bad: None },
];
/// Attributes that only a shared Ethernet adapter has.
const SHARED: &[&str] = &["ctl_chan", "ha_mode", "largesend", "pvid_adapter", "real_adapter", "virt_adapters"];
/// The name of an adapter whose command is not in the paste.
const UNNAMED: &str = "ADAPTER";
const MAX_VALUES: usize = 64;
/// More words than a line of the table has.
const MAX_WORDS: usize = 24;
