//! Windows: `netsh interface tcp show global`, `show supplemental` and `show heuristics`, in English and German, and
//! `Get-NetTCPSetting` as a list and as a table.
//!
//! The autotuning level limits the receive window by its scale (Microsoft, windowsserverdocs, "Performance tuning network
//! adapters"): Normal 8, Restricted 4, HighlyRestricted 2, Experimental 14; Disabled is 65,535 bytes without scaling. Of
//! `Get-NetTCPSetting` and `show supplemental`, the template Internet counts: connections over a WAN have it, unless a filter says
//! otherwise (Microsoft, Set-NetTCPSetting), and those of a data centre serve round trips below 10 ms.

use super::values::{Bad, keep};
use crate::audit::reader::{Control, Facts, Reader, Shown, WHOLE_SYSTEM, WindowLimit};
use longhaul_core::advice::System;
use longhaul_core::path::laws::{LossResponse, MAX_UNSCALED_WINDOW};
use longhaul_units::Bytes;

/// Reads the pastes of one Windows host.
#[derive(Default)]
pub(super) struct Windows {
    global: Vec<Shown>,
    /// Whether the last command was about another template than Internet.
    is_other_template: bool,
    /// Whether `netsh` says that heuristics have changed the level.
    is_overridden: bool,
    templates: Vec<Template>,
    /// Place of the template whose list is being read, in `templates`.
    current: Option<usize>,
    table: Table,
}

/// One template of `Get-NetTCPSetting`.
struct Template {
    name: String,
    values: Vec<Shown>,
}

/// The table that is being read.
#[derive(Default)]
struct Table {
    /// The words of the last line with the name of a property.
    header: Vec<Option<&'static str>>,
    /// Begin and end of each column, in characters, by the line of dashes.
    columns: Vec<(usize, usize)>,
}

impl Reader for Windows {
    fn read(&mut self, line: &str) -> bool {
        self.command(line)
            || self.row(line)
            || self.override_note(line)
            || self.pair(line)
            || HEADINGS.contains(&line.trim())
    }

    fn facts(&self) -> Facts {
        let templates = self.templates.iter().flat_map(|template| &template.values);
        let settings = self.global.iter().chain(templates).cloned().collect();
        let mut facts = Facts { settings, ..Facts::default() };
        self.add_windows(&mut facts);
        self.add_control(&mut facts);
        self.add_hints(&mut facts);
        facts
    }
}

/// The lines.
impl Windows {
    /// Reads a command, as a prompt or a script shows it.
    fn command(&mut self, line: &str) -> bool {
        let words: Vec<String> = line.split_ascii_whitespace().take(8).map(str::to_ascii_lowercase).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        match words.as_slice() {
            ["netsh" | "netsh.exe", "int" | "interface", "tcp", "show", ..] => {}
            ["get-nettcpsetting" | "get-netoffloadglobalsetting", ..] => {}
            _ => return false,
        }
        let behind = |begin: &str| words.iter().skip_while(|word| !word.starts_with(begin)).nth(1);
        let known = |name: &str| TEMPLATES.iter().find(|known| known.eq_ignore_ascii_case(name)).copied();
        // A pipe or another command may follow, and quotes stand anywhere.
        let name = behind("sup").and_then(|word| word.split(['|', '>', '&', ';']).next()).unwrap_or_default();
        let name = name.replace(['"', '\''], "");
        let name = name.strip_prefix("template=").unwrap_or(&name);
        self.is_other_template = known(name).is_some_and(|name| name != INTERNET);
        self.current = behind("-settingname").and_then(|name| known(name)).and_then(|name| self.template(name));
        self.table = Table::default();
        true
    }

    /// Reads `Receive Window Auto-Tuning Level    : normal`, or a line of a list: `AutoTuningLevelLocal            : Normal`.
    fn pair(&mut self, line: &str) -> bool {
        let Some((label, value)) = line.split_once(':').map(|(label, value)| (label.trim(), value.trim())) else {
            return false;
        };
        if label == "SettingName" {
            self.current = self.template(value);
            return true;
        }
        if let Some(property) = PROPERTIES.iter().find(|property| label == **property) {
            self.keep_property(property, value);
            return true;
        }
        // A list has lines that are not kept, such as `MinRto(ms)`.
        if self.current.is_some() && label.len() <= MAX_NAME_CHARS && !label.contains(char::is_whitespace) {
            return true;
        }
        if label.len() > MAX_NAME_CHARS || !is_word(value) {
            return false;
        }
        let label = label.to_lowercase();
        let Some(known) = LABELS.iter().find(|known| known.has(&label)) else { return false };
        if let Some(name) = known.name.filter(|name| *name != CONGESTION || !self.is_other_template) {
            keep(&mut self.global, name, value, "netsh interface tcp");
        }
        true
    }

    /// Reads the note below the table of `netsh`.
    fn override_note(&mut self, line: &str) -> bool {
        let text = line.to_lowercase();
        let is_note = text.trim_start().starts_with("**") && text.contains("autotuninglevel");
        self.is_overridden |= is_note;
        is_note || text.trim().starts_with("overriding any local/policy configuration")
    }

    /// Reads a line of a table: its header, its dashes, or a template.
    fn row(&mut self, line: &str) -> bool {
        let words: Vec<(usize, &str)> = words(line);
        let is_header = words.first().is_some_and(|(_, word)| *word == "SettingName") && !line.contains(':');
        if is_header {
            let header = words.iter().map(|(_, word)| property(word)).collect();
            self.table = Table { header, columns: Vec::new() };
            self.current = None;
            return true;
        }
        let is_dashes = words.iter().all(|(_, word)| word.bytes().all(|byte| byte == b'-'));
        if is_dashes && !words.is_empty() && words.len() == self.table.header.len() {
            self.table.columns = words.iter().map(|(at, word)| (*at, at + word.len())).collect();
            return true;
        }
        let name = words
            .first()
            .and_then(|(_, name)| TEMPLATES.iter().find(|known| *known == name || is_cut_form(known, name)));
        let Some(name) = name.filter(|_| !self.table.columns.is_empty()) else { return false };
        self.cells(name, &words)
    }

    /// Reads a template of a table. Numbers and enumerations stand at the right of their columns, and a cell may be empty, so
    /// each word belongs to the column that it overlaps.
    fn cells(&mut self, name: &str, words: &[(usize, &str)]) -> bool {
        self.current = self.template(name);
        let is_complete = words.len() == self.table.columns.len();
        for (number, (begin, word)) in words.iter().enumerate().skip(1) {
            let end = begin + word.chars().count();
            let overlaps = |(from, to): &(usize, usize)| begin < to && *from < end;
            let column = if is_complete { Some(number) } else { self.table.columns.iter().position(overlaps) };
            let property = column.and_then(|column| *self.table.header.get(column)?);
            if let Some(property) = property {
                self.keep_property(property, word);
            }
        }
        self.current = None;
        true
    }

    /// Keeps a property of the template that is being read.
    fn keep_property(&mut self, property: &str, value: &str) {
        if OFFLOADS.contains(&property) && is_word(value) {
            return keep(&mut self.global, property, value, "Get-NetOffloadGlobalSetting");
        }
        let at = self.current.or_else(|| self.template(UNNAMED));
        let Some(template) = at.map(|at| &mut self.templates[at]) else { return };
        // A cell that does not fit ends in dots.
        let whole = LEVELS.iter().map(|level| level.0).find(|level| is_cut_form(level, value)).unwrap_or(value);
        if is_word(whole) {
            let from = format!("Get-NetTCPSetting {}", template.name);
            keep(&mut template.values, property, whole, from.trim_end());
        }
    }

    /// Returns the place of the template called `name`, which is new the first time. `None` if there are too many.
    fn template(&mut self, name: &str) -> Option<usize> {
        if let Some(at) = self.templates.iter().position(|template| template.name == name) {
            return Some(at);
        }
        let is_room = self.templates.len() < MAX_TEMPLATES && (name.is_empty() || is_word(name));
        is_room.then(|| self.templates.push(Template { name: name.into(), values: Vec::new() }))?;
        Some(self.templates.len() - 1)
    }
}

/// What follows from them.
impl Windows {
    fn add_windows(&self, facts: &mut Facts) {
        let global = self.global.iter().find(|shown| shown.name == LEVEL);
        facts.windows.extend(global.and_then(|shown| limit(LEVEL, &shown.value, WHOLE_SYSTEM)));
        for template in self.counting() {
            let place = template.place();
            // AutoTuningLevelEffective names the level that is in force: Local or GroupPolicy.
            let effective = template.value("AutoTuningLevelEffective").unwrap_or_default();
            let source = match effective {
                "GroupPolicy" => POLICY,
                _ => "AutoTuningLevelLocal",
            };
            let level = template.value(source).and_then(|level| limit(source, level, &place));
            facts.windows.extend(level.or_else(|| limit("AutoTuningLevelEffective", effective, &place)));
        }
        if facts.windows.is_empty() {
            facts.missing.push("netsh interface tcp show global");
        }
    }

    /// Adds the congestion control: that of the template, else the one that releases without templates have.
    fn add_control(&self, facts: &mut Facts) {
        let of_template = |is_named: bool| {
            let mut templates = self.counting().filter(|template| (template.name != UNNAMED) == is_named);
            templates.find_map(|template| Some(Control::new(PROVIDER, template.value(PROVIDER)?, &template.place())))
        };
        let global = |name: &str| self.global.iter().find(|shown| shown.name == name);
        let of_netsh = || Some(Control::new(CONGESTION, &global(CONGESTION)?.value, WHOLE_SYSTEM));
        let added = || {
            let value = &global(ADD_ON).filter(|shown| shown.value != "default")?.value;
            let control = Control::new(ADD_ON, value, WHOLE_SYSTEM);
            // Without one, it is NewReno.
            let response = if value == NONE { Some(LossResponse::Reno) } else { control.response };
            Some(Control { response, ..control })
        };
        let has_templates =
            self.templates.iter().any(|template| template.name != UNNAMED && !template.values.is_empty());
        let added = || added().filter(|_| !has_templates);
        facts.control = of_template(true).or_else(of_netsh).or_else(|| of_template(false)).or_else(added);
        let row = System::named("windows").and_then(System::congestion_control);
        let of_netsh = row.and_then(|row| row.elsewhere).map(|elsewhere| elsewhere.read);
        facts.control_read = of_netsh.filter(|_| !has_templates).or(row.map(|row| row.read));
    }

    fn add_hints(&self, facts: &mut Facts) {
        let of_templates = self.counting();
        let of_templates =
            of_templates.flat_map(|template| template.values.iter().map(|shown| (template.place(), shown)));
        // The control of releases without templates hurts only if it is in force.
        let is_in_force = facts.is_control(ADD_ON);
        let of_all = self.global.iter().filter(|shown| shown.name != ADD_ON || is_in_force);
        let all = of_all.map(|shown| (WHOLE_SYSTEM.to_string(), shown)).chain(of_templates);
        for (place, shown) in all {
            // One switch has two names.
            let is_switch = [OVERRIDDEN.setting, "ScalingHeuristics"].contains(&shown.name.as_str());
            let (name, place) =
                if is_switch { (OVERRIDDEN.setting, WHOLE_SYSTEM) } else { (shown.name.as_str(), &*place) };
            // The note of `netsh` says more than the switch.
            let is_told = is_switch && (self.is_overridden || facts.hints.iter().any(|hint| hint.setting == name));
            let bad = BAD.iter().find(|bad| bad.setting == name && shown.value.eq_ignore_ascii_case(bad.value));
            facts.hints.extend(bad.filter(|_| !is_told).map(|bad| bad.hint(&shown.value, place)));
        }
        if self.is_overridden {
            facts.hints.push(OVERRIDDEN.hint("in force", WHOLE_SYSTEM));
        }
    }
}

impl Windows {
    /// Returns the templates that count: Internet, else those that may serve a WAN.
    fn counting(&self) -> impl Iterator<Item = &Template> {
        let is_shown = |template: &Template| template.name == INTERNET && !template.values.is_empty();
        let has_internet = self.templates.iter().any(is_shown);
        let counts = move |template: &&Template| match has_internet {
            true => template.name == INTERNET,
            false => !["Compat", "Datacenter", "DatacenterCustom"].contains(&template.name.as_str()),
        };
        self.templates.iter().filter(counts)
    }
}

impl Template {
    fn value(&self, name: &str) -> Option<&str> {
        self.values.iter().find(|shown| shown.name == name).map(|shown| shown.value.as_str())
    }

    fn place(&self) -> String {
        match self.name.as_str() {
            UNNAMED => WHOLE_SYSTEM.into(),
            name => format!("template {name}"),
        }
    }
}

/// One label of `netsh`.
struct Label {
    /// Parts of the label, in lower case; one of them is in it. The parts have no umlauts, which code pages break.
    parts: &'static [&'static str],
    /// Name of the value; `None` if it is not kept.
    name: Option<&'static str>,
}

impl Label {
    fn has(&self, label: &str) -> bool {
        self.parts.iter().any(|part| label.contains(part))
    }
}

/// Returns the limit of the autotuning level `level`.
fn limit(setting: &'static str, level: &str, place: &str) -> Option<WindowLimit> {
    let (_, window) = LEVELS.iter().find(|(name, _)| name.eq_ignore_ascii_case(level))?;
    let what = if setting == POLICY { "A group policy sets it, and no command here overrides that." } else { "" };
    Some(WindowLimit { setting, value: level.into(), place: place.into(), window: Bytes(*window), what })
}

/// Returns the property that a header names, also if dots say that it is cut. Several may begin so: then it is none.
fn property(word: &str) -> Option<&'static str> {
    let mut found = PROPERTIES.iter().filter(|property| **property == word || is_cut_form(property, word));
    found.next().copied().filter(|_| found.next().is_none())
}

/// Returns whether `word` is `whole` with its end replaced by dots.
fn is_cut_form(whole: &str, word: &str) -> bool {
    let begin = word.strip_suffix("...").or_else(|| word.strip_suffix('…'));
    begin.is_some_and(|begin| !begin.is_empty() && whole.len() >= begin.len() && whole.starts_with(begin))
}

/// Returns the words of a line, each with its place in characters.
fn words(line: &str) -> Vec<(usize, &str)> {
    let mut words = Vec::new();
    let mut at = 0;
    for part in line.split_inclusive(char::is_whitespace).take(MAX_LINE_WORDS) {
        let word = part.trim_end();
        if !word.is_empty() {
            words.push((at, word));
        }
        at += part.chars().count();
    }
    words
}

/// Returns whether `text` is a word of these outputs.
fn is_word(text: &str) -> bool {
    let is_plain = text.chars().all(|char| char.is_alphanumeric() || char == '-');
    is_plain && !text.is_empty() && text.len() <= MAX_NAME_CHARS
}

const LEVEL: &str = "autotuninglevel";
const POLICY: &str = "AutoTuningLevelGroupPolicy";
const CONGESTION: &str = "congestionprovider";
/// That of `show global`, on releases without templates.
const ADD_ON: &str = "add-on congestionprovider";
const PROVIDER: &str = "CongestionProvider";
const NONE: &str = "none";
const INTERNET: &str = "Internet";
/// The autotuning levels, with the largest window of each.
const LEVELS: &[(&str, u64)] = &[
    ("Disabled", MAX_UNSCALED_WINDOW.0),
    ("HighlyRestricted", MAX_UNSCALED_WINDOW.0 << 2),
    ("Restricted", MAX_UNSCALED_WINDOW.0 << 4),
    ("Normal", MAX_UNSCALED_WINDOW.0 << 8),
    ("Experimental", MAX_UNSCALED_WINDOW.0 << 14),
];
/// The labels of `netsh interface tcp show global`, `show supplemental` and `show heuristics`. The German ones are from
/// github.com/MysticFoxDE/WINDOWS-OPTIMIZATIONS, issue 15.
const LABELS: &[Label] = &[
    Label { parts: &["receive window auto-tuning level", "autom. abstimmungsgrad"], name: Some(LEVEL) },
    Label { parts: &["add-on congestion", "add-on \""], name: Some(ADD_ON) },
    Label { parts: &["congestion control provider", "berlastungssteuerungsanbieter"], name: Some(CONGESTION) },
    Label { parts: &["rfc 1323 timestamps", "rfc 1323-zeitstempel"], name: Some("timestamps") },
    Label { parts: &["ecn capability", "ecn-funktion"], name: Some("ecncapability") },
    Label { parts: &["receive-side scaling state", "zustand der empfangsseitigen skalierung"], name: Some("rss") },
    Label { parts: &["receive segment coalescing state", "zustand der empfangssegmentzusammenf"], name: Some("rsc") },
    Label { parts: &["window scaling heuristics"], name: Some("heuristics") },
    Label {
        parts: &[
            "chimney offload state",
            "netdma state",
            "direct cache acc",
            "initial rto",
            "minimum rto",
            "non sack rtt resiliency",
            "max syn retransmissions",
            "fast open",
            "hystart",
            "proportional rate reduction",
            "pacing profile",
            "initial congestion window",
            "enable congestion window restart",
            "delayed ack",
            "enable rack",
            "enable tail loss probe",
            "tcp global default template",
            "qualifying destination threshold",
            "rto (anf",
            "mindest-rto",
            "nicht-sack-rtt-widerstandsf",
            "maximale syn-neu",
            "proportionale ratenreduzierung",
            "schrittsteuerungsprofil",
            "berlastungsfenster",
            "berlastungsfensters aktivieren",
            "gerte best",
            "rack aktiv",
            "globale tcp-standardvorlage",
        ],
        name: None,
    },
];
/// The properties of `Get-NetTCPSetting` and `Get-NetOffloadGlobalSetting`.
const PROPERTIES: &[&str] = &[
    "AutoTuningLevelEffective", "AutoTuningLevelGroupPolicy", "AutoTuningLevelLocal", PROVIDER, "EcnCapability",
    "ReceiveSegmentCoalescing", "ReceiveSideScaling", "ScalingHeuristics", "Timestamps",
];
/// Those of `Get-NetOffloadGlobalSetting`, which belong to no template.
const OFFLOADS: &[&str] = &["ReceiveSegmentCoalescing", "ReceiveSideScaling"];
const TEMPLATES: &[&str] = &["Automatic", "Compat", "Datacenter", "DatacenterCustom", "Internet", "InternetCustom"];
/// Values that hurt without a window. Timestamps are not among them: off is the default, and to be left (windowsserverdocs).
const BAD: &[Bad] = &[
    bad(ADD_ON, NONE, NEW_RENO),
    bad(CONGESTION, "newreno", NEW_RENO),
    bad(CONGESTION, "dctcp", DATA_CENTRE),
    bad(PROVIDER, "NewReno", NEW_RENO),
    bad(PROVIDER, "DCTCP", DATA_CENTRE),
    bad("heuristics", "enabled", HEURISTICS),
    bad("rss", "disabled", ONE_PROCESSOR),
    bad("ReceiveSideScaling", "Disabled", ONE_PROCESSOR),
    bad("rsc", "disabled", NO_COALESCING),
    bad("ReceiveSegmentCoalescing", "Disabled", NO_COALESCING),
];
const OVERRIDDEN: Bad = bad("heuristics", "", "Heuristics have changed the autotuning level that was set.");
const NEW_RENO: &str = "After a loss, a large window grows by one packet in each round trip.";
/// RFC 8257 1.
const DATA_CENTRE: &str = "DCTCP needs the marks of a data centre's switches and is not for a WAN.";
const HEURISTICS: &str = "Heuristics may lower the autotuning level of a network by themselves.";
const ONE_PROCESSOR: &str = "One processor takes all packets of an adapter.";
const NO_COALESCING: &str = "Every packet goes through the whole stack alone when it arrives.";
const HEADINGS: &[&str] = &[
    "Querying active state...",
    "TCP Global Parameters",
    "TCP Supplemental Parameters",
    "TCP Window Scaling heuristics Parameters",
    "Globale TCP-Parameter",
];
const UNNAMED: &str = "";
const MAX_TEMPLATES: usize = 16;
const MAX_NAME_CHARS: usize = 64;
const MAX_LINE_WORDS: usize = 256;

const fn bad(setting: &'static str, value: &'static str, what: &'static str) -> Bad {
    Bad { setting, value, what, costs_rate: true }
}
