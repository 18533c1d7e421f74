//! Checked-in results of the link: the same load over each stage's sample and over some combinations, in virtual time. A
//! change of behaviour shows as a line in a diff. A second test compares the manual's table of stages.
//! `UPDATE=1 cargo test -p longhaul-link --test link` writes both tables; read the diff.

use longhaul_link::{Change, Link, Packet, ROWS, Setting};
use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;
use std::{env, fs};

/// Compares `expected` with the file `path` of the repository, or with the file's part between the two lines of `between`.
/// With `UPDATE` in the environment, writes `expected` there instead.
fn compare(path: &str, between: Option<(&str, &str)>, expected: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    let text = fs::read_to_string(&file).unwrap_or_default();
    let (before, found, after) = match between {
        None => ("", text.as_str(), ""),
        Some((begin, end)) => {
            let (before, rest) = text.split_at(text.find(begin).expect("the first line") + begin.len());
            let (found, after) = rest.split_at(rest.find(end).expect("the last line"));
            (before, found, after)
        }
    };
    if env::var_os("UPDATE").is_some() {
        return fs::write(&file, [before, expected, after].concat()).expect("cannot write the file");
    }
    assert_eq!(found, expected, "{path}: run UPDATE=1 cargo test -p longhaul-link --test link and read the diff");
}

#[test]
fn the_manual_lists_every_stage() {
    let mut table = String::from("\n| key | sample | what it does | events |\n| --- | --- | --- | --- |\n");
    for row in ROWS {
        let events = row.events.unwrap_or("");
        let _ = writeln!(table, "| `{}` | `{} = {:?}` | {} | {events} |", row.key, row.key, row.sample, row.help);
    }
    table.push('\n');
    compare("docs/design/lab.md", Some(("<!-- stages -->\n", "<!-- /stages -->")), &table);
}

#[test]
fn results_match_the_checked_in_table() {
    let mut table = String::from(HEAD);
    let base = [("delay", "20ms"), ("rate", "100Mbit/s queue 250kB")];
    let _ = writeln!(table, "{}", measure("delay 20ms, rate 100Mbit/s queue 250kB: all below too", &base, &[]));
    for row in ROWS.iter().filter(|row| row.key != "down") {
        let mut settings = base.to_vec();
        settings.retain(|(key, _)| *key != row.key);
        settings.push((row.key, row.sample));
        let _ = writeln!(table, "{}", measure(&format!("{} {}", row.key, row.sample), &settings, &[]));
    }
    for more in COMBINATIONS {
        let name: Vec<String> = more.iter().map(|(key, value)| format!("{key} {value}").trim_end().into()).collect();
        let _ = writeln!(table, "{}", measure(&name.join(", "), &[&base, *more].concat(), &[]));
    }
    for lines in SCHEDULES {
        let _ = writeln!(table, "{}", measure(&lines.join(", "), &base, lines));
    }
    compare("crates/longhaul-link/tests/link/results.txt", None, &table);
}

/// Returns the load of five seconds: a super-packet of 21 segments every 3 ms (81 Mbit/s), a ping every 10 ms, and a
/// datagram of 4,000 bytes without DF every 40 ms.
fn load() -> Vec<Packet> {
    let mut packets = Vec::new();
    for millis in 0..5_000u32 {
        let (slot, at) = (packets.len() as u32, Duration::from_millis(millis.into()));
        if millis % 3 == 0 {
            let payload = 20 * 1448 + 500;
            packets.push(Packet { segments: 21, headers: 52, size: 1448, payload, ..Packet::single(slot, at, 0) });
        }
        if millis % 10 == 0 {
            packets.push(Packet::single(packets.len() as u32, at, 84));
        }
        if millis % 40 == 1 {
            packets.push(Packet { dont_fragment: false, ..Packet::single(packets.len() as u32, at, 4_000) });
        }
    }
    packets
}

/// Sends the load over one link; returns its line of the table.
fn measure(name: &str, settings: &[(&str, &str)], schedule: &[&str]) -> String {
    let read = |(key, value): &(&str, &str)| Setting::read(key, value).expect("a setting");
    let settings: Vec<Setting> = settings.iter().map(read).collect();
    let schedule: Vec<Change> = schedule.iter().map(|line| Change::read(line).expect("a line")).collect();
    let mut link = Link::scheduled(&settings, &schedule, 1);
    let (mut sent, mut began) = (0, Vec::new());
    for packet in load() {
        sent += packet.segments;
        began.push(packet.at);
        link.send(packet);
    }
    let counters: Vec<_> = link.counters().collect();
    let arrived: Vec<Packet> = std::iter::from_fn(|| link.receive(Duration::MAX)).collect();
    let mut delays: Vec<Duration> = arrived.iter().map(|packet| packet.at - began[packet.slot as usize]).collect();
    delays.sort();
    let bytes: u64 = arrived.iter().map(|packet| u64::from(packet.payload + packet.headers * packet.segments)).sum();
    let lost: u64 = counters.iter().map(|(_, counters)| counters.segments_lost()).sum();
    let events: u64 = counters.iter().map(|(_, counters)| counters.events).sum();
    let segments: u32 = arrived.iter().map(|packet| packet.segments).sum();
    let millis = |time: Option<&Duration>| time.map_or(0.0, |time| time.as_secs_f64() * 1e3);
    let (median, longest) = (millis(delays.get(delays.len() / 2)), millis(delays.last()));
    let goodput = bytes as f64 * 8.0 / 5e6;
    format!("{sent:>6} {segments:>8} {lost:>6} {events:>7} {median:>9.3} {longest:>9.3} {goodput:>9.3}  {name}")
}

const HEAD: &str = "  sent  arrived   lost  events median ms    max ms    Mbit/s  stages\n";

const COMBINATIONS: &[&[(&str, &str)]] = &[
    &[("mtu", "1400")],
    &[("encap", "esp-gcm"), ("fragment", "1350")],
    &[("encap", "esp-gcm"), ("fragment", "1350"), ("loss", "1%")],
    &[("encap", "esp-gcm"), ("fragment", "1350"), ("reorder", "1% by 1ms"), ("reassembly", "in-order")],
    &[("encap", "esp-gcm"), ("fragment", "1350"), ("reorder", "1% by 1ms"), ("reassembly", "within 500us")],
    &[("encap", "esp-gcm"), ("fragment", "1350"), ("duplicate", "1%"), ("loss", "1%")],
    &[("policer", "50Mbit/s burst 64kB"), ("loss", "0.1%")],
    &[("burst-loss", "p 0.1% r 5% bad 50%"), ("duplicate", "0.1%"), ("reorder", "0.1% by 5ms")],
];

const SCHEDULES: &[&[&str]] = &[
    &["at 1s down for 500ms"],
    &["at 1s rate 50Mbit/s queue 1MB for 1s", "at 3s loss 1%"],
    &["at 2s delay 40ms for 1s"],
];
