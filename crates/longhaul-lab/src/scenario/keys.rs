//! The keys of a scenario as tables. A row reads one key. To add a key, add a row, and its line in docs/lab.md, which a test
//! checks.

use crate::carrier::row::Carrier;
use crate::carrier::table as carriers;
use crate::error::unknown;
use crate::plan::host::HostSpec;
use crate::plan::law;
use crate::plan::link::{LinkSpec, rtt_like};
use crate::plan::outside::Outside;
use crate::plan::place::Direction;
use crate::plan::profile::Sysctls;
use crate::plan::setup::{Setup, Topology};
use crate::scenario::model::{Expect, Published, Run, Times};
use crate::traffic as kinds;
use crate::traffic::row::Traffic;
use longhaul_config::document::{Fault, Key, Written, fault, inner, key, one, several};
use longhaul_config::options::Value;
use longhaul_config::options::{self, LegOptions};
use longhaul_link::{Change, Setting, StageError, row};
use longhaul_units::{Bytes, Rate, percentage};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

/// The part of a file before the first `[[run]]`.
pub(crate) struct Head {
    pub(crate) about: String,
    pub(crate) source: String,
    pub(crate) rounds: u32,
    pub(crate) setup: Setup,
}

impl Default for Head {
    fn default() -> Head {
        let link = LinkSpec::new(Duration::from_millis(63), Some(Rate(1_000_000_000)));
        let setup = Setup {
            topology: Topology::Wan,
            link,
            host: HostSpec::default(),
            relay: HostSpec::default(),
            set: Vec::new(),
            options: Vec::new(),
        };
        Head { about: String::new(), source: String::new(), rounds: 1, setup }
    }
}

/// Returns a run with only the settings of `head`.
pub(crate) fn blank(head: &Head) -> Run {
    Run {
        id: String::new(),
        at: String::new(),
        what: String::new(),
        setup: head.setup.clone(),
        carriers: Vec::new(),
        traffic: Traffic {
            kind: &kinds::ROWS[0],
            connections: 1,
            time: Duration::from_secs(6),
            size: None,
            rate: None,
            direction: Direction::Out,
            outside: None,
        },
        published: Published::default(),
        computed: None,
        expect: Expect::default(),
        quick: None,
        skip: None,
        note: None,
    }
}

/// The keys of the file before its runs.
pub(crate) const HEAD: &[Key<Head>] = &[
    Key {
        name: "about",
        required: Some("about = \"what this shows\""),
        read: |head, given| one(given, sentence).map(|text| head.about = text),
    },
    Key {
        name: "source",
        required: Some("source = \"where its figures come from\""),
        read: |head, given| one(given, sentence).map(|text| head.source = text),
    },
    key("rounds", |head, given| one(given, |text| count(text, 1, 100)).map(|rounds| head.rounds = rounds)),
    key("topology", |head, given| {
        one(given, |text| word_of(TOPOLOGIES, text)).map(|topology| head.setup.topology = topology)
    }),
    key("link", |head, given| link_of(&mut head.setup.link, given)),
    key("host", |head, given| inner(HOST, given, &mut head.setup.host)),
    key("relay", |head, given| inner(HOST, given, &mut head.setup.relay)),
];

/// The keys of a `[[run]]`.
pub(crate) const RUN: &[Key<Run>] = &[
    Key {
        name: "id",
        required: Some("id = \"mitre-direct\""),
        read: |run, given| one(given, longhaul_config::value::name).map(|id| run.id = id),
    },
    key("what", |run, given| one(given, sentence).map(|text| run.what = text)),
    key("carriers", |run, given| carriers(given).map(|carriers| run.carriers = carriers)),
    key("traffic", |run, given| match given.get_ref() {
        toml::de::DeValue::Table(_) => inner(TRAFFIC, given, &mut run.traffic),
        _ => one(given, kinds::find).map(|kind| run.traffic.kind = kind),
    }),
    key("topology", |run, given| {
        one(given, |text| word_of(TOPOLOGIES, text)).map(|topology| run.setup.topology = topology)
    }),
    key("link", |run, given| link_of(&mut run.setup.link, given)),
    key("host", |run, given| inner(HOST, given, &mut run.setup.host)),
    key("relay", |run, given| inner(HOST, given, &mut run.setup.relay)),
    key("set", |run, given| options_of(given).map(|set| run.setup.set = set)),
    key("options", |run, given| one(given, words).map(|options| run.setup.options = options)),
    key("published", |run, given| renamed(given).and_then(|()| inner(PUBLISHED, given, &mut run.published))),
    key("computed", |run, given| one(given, law::find).map(|law| run.computed = Some(law))),
    key("expect", |run, given| renamed(given).and_then(|()| inner(EXPECT, given, &mut run.expect))),
    key("quick", |run, given| one(given, quick).map(|quick| run.quick = quick)),
    key("skip", |run, given| one(given, sentence).map(|why| run.skip = Some(why))),
    key("note", |run, given| one(given, sentence).map(|why| run.note = Some(why))),
];

/// The keys of `host` and `relay`.
pub(crate) const HOST: &[Key<HostSpec>] = &[
    key("window", |host, given| one(given, read_window).map(|window| host.window = Some(window))),
    key("buffers", |host, given| {
        one(given, |text| size(text, SMALLEST_BUFFER..=LARGEST_BUFFER)).map(|max| host.buffers = Some(max))
    }),
    key("congestion", |host, given| one(given, congestion).map(|name| host.congestion = name)),
    key("sack", |host, given| one(given, yes).map(|on| host.sack = on)),
    key("scaling", |host, given| one(given, yes).map(|on| host.scaling = on)),
    key("mtu", |host, given| one(given, |text| count(text, 576, 65_535)).map(|mtu| host.mtu = mtu)),
    key("mss", |host, given| one(given, |text| count(text, 88, 65_495)).map(|mss| host.mss = Some(mss))),
    key("offload", |host, given| one(given, yes).map(|on| host.offload = on)),
    key("sysctls", |host, given| one(given, |text| word_of(SYSCTLS, text)).map(|sysctls| host.sysctls = sysctls)),
];

/// The keys of `traffic` when it is a table.
pub(crate) const TRAFFIC: &[Key<Traffic>] = &[
    key("kind", |traffic, given| one(given, kinds::find).map(|kind| traffic.kind = kind)),
    key("connections", |traffic, given| {
        one(given, |text| count(text, 1, 100_000)).map(|count| traffic.connections = count)
    }),
    key("time", |traffic, given| one(given, lasting).map(|time| traffic.time = time)),
    key("size", |traffic, given| one(given, bytes).map(|size| traffic.size = Some(size))),
    key("rate", |traffic, given| one(given, frequency).map(|rate| traffic.rate = Some(rate))),
    key("direction", |traffic, given| {
        one(given, |text| word_of(DIRECTIONS, text)).map(|direction| traffic.direction = direction)
    }),
    key("outside", |traffic, given| one(given, Outside::read).map(|outside| traffic.outside = Some(outside))),
];

/// The keys of `published`.
pub(crate) const PUBLISHED: &[Key<Published>] = &[
    key("megabytes_per_s", |published, given| span(given).and_then(|speed| say_speed(published, speed, given))),
    key("megabits_per_s", |published, given| {
        span(given).and_then(|speed| say_speed(published, speed.start() / 8.0..=speed.end() / 8.0, given))
    }),
    key("gain", |published, given| span(given).map(|gain| published.gain = Some(gain))),
];

/// The keys of `expect`.
pub(crate) const EXPECT: &[Key<Expect>] = &[
    key("within", |expect, given| one(given, share).map(|within| expect.within = Some(within))),
    key("megabytes_per_s", |expect, given| span(given).map(|speed| expect.speed = Some(speed))),
    key("gain", |expect, given| span(given).map(|gain| expect.gain = Some(gain))),
    key("times", |expect, given| {
        let mut times = Times { of: String::new(), by: 0.0..=f64::INFINITY };
        inner(TIMES, given, &mut times)?;
        let has = |key: &Key<_>| given.get_ref().get(key.name).is_some();
        if let Some(key) = TIMES.iter().find(|key| !has(key)) {
            return Err(fault(given, format!("it has no {}; write {{ of = \"RUN\", by = [5] }}", key.name)));
        }
        expect.times = Some(times);
        Ok(())
    }),
    key("cpu", |expect, given| one(given, share).map(|cpu| expect.cpu = Some(cpu))),
    key("figures", |expect, given| figures(&mut expect.figures, given)),
];

/// The keys of `expect.times`.
const TIMES: &[Key<Times>] = &[
    key("of", |times, given| one(given, word).map(|of| times.of = of)),
    key("by", |times, given| span(given).map(|by| times.by = by)),
];

/// The keys of `link` that are not the stages of the emulated WAN.
const LINK: &[&str] = &["rtt", "rate", "loss", "queue", "out", "back", "schedule"];
/// The keys of `link.out` and `link.back` that are not stages.
const ONE_WAY: &[&str] = &["schedule"];

/// Reads a `link` table: its own keys, the stages of both directions, and those of one direction below `out` and `back`.
fn link_of(spec: &mut LinkSpec, given: &Written<'_>) -> Result<(), Vec<Fault>> {
    let read = each(given, "{ rtt = \"63ms\", rate = \"1Gbit/s\" }", |name, value| match name {
        "rtt" => one(value, |text| rtt_like(text, "\"63ms\"")).map(|rtt| spec.rtt = rtt),
        "rate" => one(value, rate).map(|rate| spec.rate = rate),
        "loss" => one(value, |text| percentage(text).map_err(|err| err.to_string())).map(|loss| spec.loss = loss),
        "queue" => one(value, bytes).map(|queue| spec.queue = Some(queue)),
        "out" => direction(spec, Direction::Out, value),
        "back" => direction(spec, Direction::Back, value),
        _ => stage(spec, &Direction::BOTH, LINK, name, value),
    });
    let mut faults = read.err().unwrap_or_default();
    if let (Some(queue), None) = (given.get_ref().get("queue"), spec.rate) {
        let without = "without a rate nothing waits in a queue; leave it out, or write a rate";
        faults.extend(fault(queue, without).into_iter().map(|fault| below("queue", fault)));
    }
    if let (Some(down), Some(_)) = (given.get_ref().get("down"), given.get_ref().get("schedule")) {
        let beside = "it would replace the schedule; write it there, such as \"at 20s down for 40s\"";
        faults.extend(fault(down, beside).into_iter().map(|fault| below("down", fault)));
    }
    if faults.is_empty() { Ok(()) } else { Err(faults) }
}

/// Reads the stages and the schedule of one direction.
fn direction(spec: &mut LinkSpec, direction: Direction, given: &Written<'_>) -> Result<(), Vec<Fault>> {
    each(given, "{ loss = \"0.1%\" }", |name, value| stage(spec, &[direction], ONE_WAY, name, value))
}

/// Reads the keys of a table by `read`. `sample` is an example for the error about another value.
fn each(
    given: &Written<'_>,
    sample: &str,
    mut read: impl FnMut(&str, &Written<'_>) -> Result<(), Vec<Fault>>,
) -> Result<(), Vec<Fault>> {
    let toml::de::DeValue::Table(table) = given.get_ref() else {
        return Err(fault(given, format!("it is no table; write {sample}")));
    };
    // A table is in alphabetical order. Tables inside it override its other keys, so they are read last.
    let is_table = |value: &Written<'_>| matches!(value.get_ref(), toml::de::DeValue::Table(_));
    let mut keys: Vec<_> = table.iter().collect();
    keys.sort_by_key(|(_, value)| is_table(value));
    let mut faults = Vec::new();
    for (name, value) in keys {
        let wrong = read(name.get_ref(), value).err().into_iter().flatten();
        faults.extend(wrong.map(|fault| below(name.get_ref(), fault)));
    }
    if faults.is_empty() { Ok(()) } else { Err(faults) }
}

/// Reads the schedule or a stage of the emulated WAN. `beside` are the other keys that are valid at the same place.
fn stage(
    spec: &mut LinkSpec,
    directions: &[Direction],
    beside: &[&str],
    name: &str,
    given: &Written<'_>,
) -> Result<(), Vec<Fault>> {
    if name == "schedule" {
        return several(given, change).map(|changes| spec.set_schedule(directions, &changes));
    }
    if name == "down" {
        return several(given, outage).map(|changes| spec.set_schedule(directions, &changes));
    }
    let Some(row) = row(name) else {
        let stages = longhaul_link::ROWS.iter().map(|row| row.key).filter(|key| !beside.contains(key));
        let text = match LINK.contains(&name) {
            true => "it cannot be set for one direction; write it in link".into(),
            false => unknown("such key", name, beside.iter().copied().chain(stages), "the keys here are"),
        };
        return Err(fault(given, text));
    };
    let read = |text: &str| Setting::read(row.key, text).map_err(|err| advised(err, &format!("{:?}", row.sample)));
    one(given, read).map(|stage| spec.set(directions, &stage))
}

/// Reads a line of a schedule.
fn change(text: &str) -> Result<Change, String> {
    Change::read(text).map_err(|err| advised(err, "\"at 30s loss 1% for 5s\""))
}

fn outage(text: &str) -> Result<Change, String> {
    Change::outage(text).map_err(|err| advised(err, "\"20s to 60s\""))
}

/// Returns the text of an error, with `sample` as an example unless the error has its own.
fn advised(err: StageError, sample: &str) -> String {
    match err {
        StageError::Unit(_) | StageError::NoRate | StageError::NoTime => {
            format!("{err}; write for example {sample}")
        }
        StageError::UnknownStage { .. }
        | StageError::Jitter
        | StageError::Length
        | StageError::Overhead { .. }
        | StageError::Form(_) => err.to_string(),
    }
}

fn below(name: &str, fault: Fault) -> Fault {
    Fault { below: format!(".{name}{}", fault.below), ..fault }
}

/// Reads one exact number, or a list of lowest and highest. `[6]` means at least 6.
fn span(given: &Written<'_>) -> Result<RangeInclusive<f64>, Vec<Fault>> {
    let is_list = matches!(given.get_ref(), toml::de::DeValue::Array(_));
    match several(given, number)?[..] {
        [exact] if !is_list => Ok(exact..=exact),
        [min] => Ok(min..=f64::INFINITY),
        [min, max] if min <= max => Ok(min..=max),
        _ => Err(fault(given, "write one number, [min] or [min, max]")),
    }
}

/// Reads one or more carriers, each at most once.
fn carriers(given: &Written<'_>) -> Result<Vec<&'static Carrier>, Vec<Fault>> {
    let before = RefCell::new(Vec::new());
    let carriers = several(given, |text| {
        let carrier = carriers::find(text)?;
        if before.borrow().contains(&carrier.name) {
            return Err("it is listed twice; write it once".to_string());
        }
        before.borrow_mut().push(carrier.name);
        Ok(carrier)
    })?;
    if carriers.is_empty() {
        return Err(fault(given, "the list is empty; write for example [\"direct\", \"longhaul\"]"));
    }
    Ok(carriers)
}

/// Reads options of `longhaul relay --set`, each at most once.
fn options_of(given: &Written<'_>) -> Result<Vec<String>, Vec<Fault>> {
    let legs = RefCell::new((LegOptions::default(), LegOptions::default()));
    several(given, |text| {
        let (accept, dial) = &mut *legs.borrow_mut();
        options::set(accept, dial, text)?;
        let (mut accept, mut dial) = (LegOptions::default(), LegOptions::default());
        options::set(&mut accept, &mut dial, text)?;
        let asked = accept.asked().chain(dial.asked()).find(|setting| setting.row.key == options::key::CONGESTION);
        match asked.map(|setting| &setting.value) {
            Some(Value::Name(name)) if name != options::AUTO => congestion(name).map(|_| text.into()),
            _ => Ok(text.into()),
        }
    })
}

/// Refuses the former names of the speeds, which differed only by case.
fn renamed(given: &Written<'_>) -> Result<(), Vec<Fault>> {
    let toml::de::DeValue::Table(table) = given.get_ref() else { return Ok(()) };
    let renamed = [("MBps", "megabytes_per_s"), ("Mbps", "megabits_per_s")].into_iter().filter_map(|(old, new)| {
        let value = table.get(old)?;
        Some(Fault {
            below: format!(".{old}"),
            span: value.span(),
            text: format!("this key has a new name; write {new}"),
        })
    });
    let faults: Vec<Fault> = renamed.collect();
    if faults.is_empty() { Ok(()) } else { Err(faults) }
}

fn say_speed(published: &mut Published, speed: RangeInclusive<f64>, given: &Written<'_>) -> Result<(), Vec<Fault>> {
    match published.speed.replace(speed) {
        Some(_) => Err(fault(given, "megabytes_per_s and megabits_per_s are the same figure; write one of them")),
        None => Ok(()),
    }
}

fn figures(figures: &mut BTreeMap<String, RangeInclusive<f64>>, given: &Written<'_>) -> Result<(), Vec<Fault>> {
    each(given, "{ p99_ms = [0, 100] }", |name, value| {
        figures.insert(name.to_string(), span(value)?);
        Ok(())
    })
}

fn sentence(text: &str) -> Result<String, String> {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if text.is_empty() { Err("write a sentence".into()) } else { Ok(text) }
}

/// Reads words with blanks between them, such as options of a command.
fn words(text: &str) -> Result<Vec<String>, String> {
    let words: Vec<String> = text.split_whitespace().map(String::from).collect();
    if words.is_empty() {
        Err("write options of longhaul relay, such as \"--bandwidth 190Mbit/s\"".into())
    } else {
        Ok(words)
    }
}

fn word(text: &str) -> Result<String, String> {
    let plain = !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
    if plain { Ok(text.into()) } else { Err("write one word of letters, digits, dots and dashes".into()) }
}

fn yes(text: &str) -> Result<bool, String> {
    text.parse().map_err(|_| "write true or false".into())
}

/// Reads `true` for the default quick time, `false`, or a time.
fn quick(text: &str) -> Result<Option<Duration>, String> {
    match text {
        "true" => Ok(Some(QUICK)),
        "false" => Ok(None),
        _ => lasting(text).map(Some).map_err(|err| format!("{err}, or true")),
    }
}

fn number(text: &str) -> Result<f64, String> {
    text.parse()
        .ok()
        .filter(|number| (0.0..f64::INFINITY).contains(number))
        .ok_or_else(|| "write a number such as 4.16".into())
}

fn frequency(text: &str) -> Result<f64, String> {
    number(text).ok().filter(|rate| *rate > 0.0).ok_or_else(|| "write a number per second, such as 20".into())
}

fn share(text: &str) -> Result<f64, String> {
    percentage(text).map_err(|_| "write a percentage such as \"15%\"".into())
}

fn count(text: &str, min: u32, max: u32) -> Result<u32, String> {
    let within = text.parse().ok().filter(|count| (min..=max).contains(count));
    within.ok_or_else(|| format!("write a whole number from {min} to {max}"))
}

fn bytes(text: &str) -> Result<Bytes, String> {
    let size = Bytes::from_str(text).map_err(|err| format!("{err}; write for example \"256KiB\""))?;
    if size.0 > 0 { Ok(size) } else { Err("a size must be above 0; write for example \"256KiB\"".into()) }
}

fn size(text: &str, range: RangeInclusive<Bytes>) -> Result<Bytes, String> {
    match bytes(text)? {
        size if size < *range.start() => Err(format!("write {} or more", range.start())),
        size if size > *range.end() => Err(format!("write {} or less", range.end())),
        size => Ok(size),
    }
}

/// Reads the window of a host.
///
/// # Errors
/// The text is not a size, or the window is smaller than the kernel's smallest buffer or larger than a buffer of the lab can
/// hold.
pub(crate) fn read_window(text: &str) -> Result<Bytes, String> {
    size(text, SMALLEST_BUFFER..=LARGEST_WINDOW)
}

/// Reads a congestion control that this kernel has. If the kernel does not list its congestion controls, building the lab shows
/// whether it exists.
fn congestion(text: &str) -> Result<String, String> {
    let name = word(text)?;
    match longhaul_sys::sockopt::available_congestion_controls() {
        Some(all) if !all.split(' ').any(|known| known == name) => {
            Err(format!("this kernel offers {all}; write one of them, or load it with modprobe tcp_{name}"))
        }
        _ => Ok(name),
    }
}

/// Reads the time of traffic, from 500 ms to 1 h.
fn lasting(text: &str) -> Result<Duration, String> {
    let range = Duration::from_millis(500)..=Duration::from_secs(3600);
    let time = time(text)?;
    if range.contains(&time) { Ok(time) } else { Err("write a time from 500ms to 1h".into()) }
}

fn time(text: &str) -> Result<Duration, String> {
    longhaul_units::duration(text).map_err(|err| format!("{err}; write for example \"63ms\""))
}

fn rate(text: &str) -> Result<Option<Rate>, String> {
    if text == "none" {
        return Ok(None);
    }
    let rate = Rate::from_str(text).map_err(|err| format!("{err}; write for example \"1Gbit/s\", or \"none\""))?;
    if rate.0 > 0 { Ok(Some(rate)) } else { Err("a rate must be above 0; write \"none\" for no limit".into()) }
}

/// The words of a key with their values, and the text to write instead of another word.
type Words<T> = (&'static [(&'static str, T)], &'static str);

const TOPOLOGIES: Words<Topology> = (
    &[("wan", Topology::Wan), ("one-hop", Topology::OneHop)],
    "write \"wan\", two relays and an emulated WAN between them, or \"one-hop\", one relay and no WAN",
);
const DIRECTIONS: Words<Direction> =
    (&[("up", Direction::Out), ("down", Direction::Back)], "write \"up\", from A to B, or \"down\"");
const SYSCTLS: Words<Sysctls> =
    (&[("shipped", Sysctls::Shipped)], "write \"shipped\", packaging/90-longhaul.conf, or leave it out");

fn word_of<T: Copy>((words, otherwise): Words<T>, text: &str) -> Result<T, String> {
    words.iter().find(|(word, _)| *word == text).map(|(_, value)| *value).ok_or_else(|| otherwise.into())
}

/// The largest window: a quarter of the largest buffer, because the kernel counts its overhead in the buffer.
pub(crate) const LARGEST_WINDOW: Bytes = Bytes(256 << 20);
/// The kernel's minimum of a buffer (tcp(7), tcp_rmem).
pub(crate) const SMALLEST_BUFFER: Bytes = Bytes(4096);
/// The largest power of two that fits tcp_wmem, which is an int.
const LARGEST_BUFFER: Bytes = Bytes(1 << 30);
/// Default time of a quick run: enough to measure the speed of a path of about 60 ms.
const QUICK: Duration = Duration::from_millis(2500);

#[cfg(test)]
mod tests {
    use super::*;

    const DOCUMENT: &str = include_str!("../../../../docs/lab.md");

    /// Returns the first column of the table below the heading that begins with `heading`.
    fn documented(heading: &str) -> Vec<&'static str> {
        let after = DOCUMENT.split_once(&format!("\n{heading}")).unwrap_or_else(|| panic!("{heading} is missing")).1;
        let section = after.split("\n#").next().unwrap().split("\n<!--").next().unwrap();
        section.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next()).collect()
    }

    fn names<T>(keys: &[Key<T>]) -> Vec<&'static str> {
        keys.iter().map(|key| key.name).collect()
    }

    #[test]
    fn a_congestion_control_that_this_kernel_does_not_have_is_refused() {
        assert_eq!(congestion("reno"), Ok("reno".into()));
        let why = congestion("swift").unwrap_err();
        assert!(why.contains("this kernel offers reno") && why.ends_with("modprobe tcp_swift"), "{why}");
    }

    #[test]
    fn an_unknown_congestion_control_of_relays_is_refused() {
        let told = |name: &str| {
            let run = "[[run]]\nid = \"a\"\ncarriers = \"longhaul\"";
            let set = format!("set = [\"dial.mss=1254\", \"accept.congestion={name}\"]");
            crate::parse("a", &format!("about = \"x\"\nsource = \"y\"\n{run}\n{set}"))
        };
        assert!(told("reno").is_ok() && told("auto").is_ok());
        let why = told("swift").unwrap_err().to_string();
        assert!(why.starts_with("a:6:25: error: set = \"accept.congestion=swift\": this kernel offers reno"), "{why}");
    }

    #[test]
    fn docs_lab_md_has_every_key_in_the_order_of_the_tables() {
        assert_eq!(documented("## Before the first run"), names(HEAD));
        assert_eq!(documented("## `[[run]]`"), names(RUN));
        assert_eq!(documented("## `host` and `relay`"), names(HOST));
        assert_eq!(documented("## `traffic`"), names(TRAFFIC));
        assert_eq!(documented("## `published`"), names(PUBLISHED));
        assert_eq!(documented("## `expect`"), names(EXPECT));
        assert_eq!(documented("## `link`"), LINK);
    }

    #[test]
    fn docs_lab_md_has_every_row_of_the_other_tables() {
        let rows = |rows: Vec<(&str, String)>| {
            rows.iter().fold(String::new(), |text, (name, what)| format!("{text}| `{name}` | {what} |\n"))
        };
        // The help of a stage without a value has its example.
        let example = |sample: &str| match sample {
            "" => String::new(),
            sample => format!(". Example: `\"{sample}\"`"),
        };
        let stages = longhaul_link::ROWS.iter().map(|row| (row.key, format!("{}{}", row.help, example(row.sample))));
        let carriers = carriers::ROWS.iter().map(|row| (row.name, row.what.to_string()));
        let kinds = kinds::ROWS.iter().map(|row| (row.name, row.what.to_string()));
        let laws = law::ROWS.iter().map(|row| (row.name, row.formula.to_string()));
        let mut document = DOCUMENT.to_string();
        for (name, text) in [
            ("stages", rows(stages.collect())),
            ("carriers", rows(carriers.collect())),
            ("traffic", rows(kinds.collect())),
            ("laws", rows(laws.collect())),
        ] {
            let (begin, end) = (format!("<!-- rows of {name} -->\n"), format!("<!-- end of {name} -->"));
            let before = document.split_once(&begin).unwrap_or_else(|| panic!("{begin} is missing")).0;
            let after = document.split_once(&end).unwrap_or_else(|| panic!("{end} is missing")).1;
            document = format!("{before}{begin}| name | what |\n| --- | --- |\n{text}{end}{after}");
        }
        if std::env::var_os("UPDATE").is_some() {
            return std::fs::write(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/lab.md"), document).unwrap();
        }
        assert!(document == DOCUMENT, "run UPDATE=1 cargo test -p longhaul-lab --lib docs_lab_md; read the diff");
    }
}
