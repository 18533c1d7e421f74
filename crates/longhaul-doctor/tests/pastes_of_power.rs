//! Pastes of AIX, IBM i and VIOS in tests/pastes, as administrators have them: with CRLF, in UTF-16 and code page 850, with
//! tabs in place of columns, wrapped or cut at 80 columns, in two columns, with prompts and colours, as 5250 screens with and
//! without frames. Each row says what the audit finds in one of them; the figures are computed here, by the law alone.

#![allow(clippy::unwrap_used)]

use longhaul_doctor::{Reports, audit_text};
use longhaul_units::Rate;
use proptest::prelude::*;
use serde_json::Value;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

/// What the audit finds in a paste, on a path of 63 ms and 1 Gbit/s.
struct Row {
    /// Name of the file, without `.txt`.
    file: &'static str,
    /// Name of the host; `paste` if the paste has none.
    name: &'static str,
    /// Effective window in bytes.
    window: Option<u64>,
    /// Setting, place and value of all findings, in their order (what caps others first), with what each costs.
    findings: &'static [(&'static str, &'static str, &'static str, Cost)],
    /// Commands that are still missing.
    missing: &'static [&'static str],
}

/// What a finding costs.
#[derive(Clone, Copy)]
enum Cost {
    /// Windows of this size are left.
    Window(u64),
    /// Rate, but nobody can say how much.
    Unknown,
    /// None.
    Nothing,
}
use Cost::{Nothing, Unknown, Window};

const ROWS: &[Row] = &[
    Row {
        file: "aix-no-a",
        name: "lpar07",
        window: Some(16_384),
        findings: &[
            ("sb_max", SYSTEM, "1048576", Window(1_048_576)),
            ("tcp_sendspace", SYSTEM, "16384", Window(16_384)),
            ("tcp_recvspace", SYSTEM, "16384", Window(16_384)),
            ("rfc1323", SYSTEM, "0", Window(65_535)),
            ("sack", SYSTEM, "0", Unknown),
        ],
        missing: &["ifconfig -a"],
    },
    Row {
        file: "aix-no-a-two-columns",
        name: "paste",
        window: Some(131_072),
        findings: &[
            ("sb_max", SYSTEM, "4194304", Window(4_194_304)),
            ("tcp_recvspace", SYSTEM, "131072", Window(131_072)),
            ("tcp_sendspace", SYSTEM, "262144", Window(262_144)),
        ],
        missing: &["ifconfig -a"],
    },
    Row {
        file: "aix-no-L",
        name: "oradb2",
        window: Some(65_536),
        findings: &[
            ("sb_max", SYSTEM, "4194304", Window(4_194_304)),
            ("tcp_recvspace", SYSTEM, "65536", Window(65_536)),
            ("tcp_sendspace", SYSTEM, "131072", Window(131_072)),
            ("sack", SYSTEM, "0", Unknown),
        ],
        missing: &["ifconfig -a"],
    },
    Row {
        file: "aix-no-L-tabs",
        name: "paste",
        window: Some(65_536),
        findings: &[
            ("sb_max", SYSTEM, "1048576", Window(1_048_576)),
            ("tcp_recvspace", SYSTEM, "65536", Window(65_536)),
            ("tcp_sendspace", SYSTEM, "131072", Window(131_072)),
            ("sack", SYSTEM, "0", Unknown),
        ],
        missing: &["ifconfig -a"],
    },
    Row {
        file: "aix-no-F-a",
        name: "paste",
        // With use_isno=0, the values of `no` count.
        window: Some(262_144),
        findings: &[
            ("sb_max", SYSTEM, "1048576", Window(1_048_576)),
            ("tcp_sendspace", SYSTEM, "262144", Window(262_144)),
            ("tcp_recvspace", SYSTEM, "262144", Window(262_144)),
            ("mtu_bypass", "en0", "off", Unknown),
        ],
        missing: &[],
    },
    Row {
        file: "aix-no-o",
        name: "oradb4",
        // Without scaling, whatever the spaces are.
        window: Some(65_535),
        findings: &[
            ("sb_max", SYSTEM, "2097152", Window(2_097_152)),
            ("rfc1323", SYSTEM, "0", Window(65_535)),
            ("tcp_sendspace", SYSTEM, "524288", Window(524_288)),
            ("tcp_recvspace", SYSTEM, "524288", Window(524_288)),
        ],
        missing: &["ifconfig -a"],
    },
    Row {
        file: "aix-ifconfig-80",
        name: "sapprd1",
        window: Some(262_144),
        findings: &[
            ("sb_max", SYSTEM, UNSEEN, Nothing),
            ("tcp_sendspace", "en0", "262144", Window(262_144)),
            ("tcp_recvspace", "en0", "262144", Window(262_144)),
        ],
        missing: &["no -o sb_max"],
    },
    Row {
        file: "aix-ifconfig-several",
        name: "nim01",
        // en1 is the lowest. en2 is down, and lo0 is loopback.
        window: Some(65_535),
        findings: &[
            ("sb_max", SYSTEM, "1048576", Window(1_048_576)),
            ("rfc1323", "en1", "0", Window(65_535)),
            ("tcp_recvspace", "en1", "65536", Window(65_536)),
            ("tcp_sendspace", "en1", "131072", Window(131_072)),
            ("tcp_sendspace", "en0", "262144", Window(262_144)),
            ("tcp_recvspace", "en0", "262144", Window(262_144)),
            ("mtu_bypass", "en0", "off", Unknown),
        ],
        missing: &[],
    },
    Row {
        file: "aix-ifconfig-cut",
        name: "sapprd2",
        // The value of rfc1323 is cut off on en1, and that of LARGESEND on both.
        window: Some(65_536),
        findings: &[
            ("sb_max", SYSTEM, UNSEEN, Nothing),
            ("tcp_sendspace", "en1", "65536", Window(65_536)),
            ("tcp_recvspace", "en1", "65536", Window(65_536)),
            ("tcp_sendspace", "en0", "262144", Window(262_144)),
            ("tcp_recvspace", "en0", "262144", Window(262_144)),
        ],
        missing: &["no -a"],
    },
    Row {
        file: "aix-lsattr",
        name: "paste",
        window: Some(65_536),
        findings: &[
            ("sb_max", SYSTEM, UNSEEN, Nothing),
            ("tcp_recvspace", "en0", "65536", Window(65_536)),
            ("tcp_sendspace", "en0", "131072", Window(131_072)),
            ("mtu_bypass", "en0", "off", Unknown),
        ],
        missing: &["no -o sb_max"],
    },
    Row {
        file: "aix-lsattr-empty",
        name: "paste",
        // The interface has no values of its own, so those of `no` count.
        window: Some(65_536),
        findings: &[
            ("sb_max", SYSTEM, "1048576", Window(1_048_576)),
            ("tcp_recvspace", SYSTEM, "65536", Window(65_536)),
            ("tcp_sendspace", SYSTEM, "262144", Window(262_144)),
        ],
        missing: &[],
    },
    Row {
        file: "aix-netstat-s",
        name: "paste",
        window: Some(16_384),
        findings: &[
            ("sb_max", SYSTEM, "1048576", Window(1_048_576)),
            ("tcp_sendspace", SYSTEM, "16384", Window(16_384)),
            ("tcp_recvspace", SYSTEM, "16384", Window(16_384)),
            ("rfc1323", SYSTEM, "0", Window(65_535)),
            // 20,559,568 of 3,064,597,202 packets.
            ("retransmitted", SYSTEM, "0.67%", Unknown),
        ],
        missing: &["ifconfig -a"],
    },
    // 0.07 % is fine.
    Row { file: "aix-netstat-p-tcp", name: "paste", window: None, findings: &[], missing: &["no -a", "ifconfig -a"] },
    Row {
        file: "aix-all-utf16",
        name: "paste",
        // The interface's values go before those of `no`, which are 16,384.
        window: Some(1_048_576),
        findings: &[
            // It serves the path, and not the larger spaces.
            ("sb_max", SYSTEM, "16777216", Window(16_777_216)),
            ("tcp_sendspace", "en0", "1048576", Window(1_048_576)),
            ("tcp_recvspace", "en0", "1048576", Window(1_048_576)),
        ],
        missing: &[],
    },
    Row {
        file: "ibmi-chgtcpa-frame",
        name: "paste",
        window: Some(65_535),
        findings: &[("TCPRCVBUF", SYSTEM, "65535", Window(65_535)), ("TCPSNDBUF", SYSTEM, "65535", Window(65_535))],
        missing: &[],
    },
    Row {
        file: "ibmi-chgtcpa-keywords",
        name: "paste",
        window: Some(1_048_576),
        findings: &[
            ("TCPRCVBUF", SYSTEM, "1048576", Window(1_048_576)),
            ("TCPSNDBUF", SYSTEM, "2097152", Window(2_097_152)),
            ("IPPATHMTU", SYSTEM, "*NO", Unknown),
        ],
        missing: &[],
    },
    Row { file: "ibmi-chgtcpa-command", name: "paste", window: Some(8_388_608), findings: &[], missing: &[] },
    Row {
        file: "ibmi-cfgtcp-3",
        name: "PRODBOX",
        window: Some(8_192),
        findings: &[("TCPRCVBUF", SYSTEM, "8192", Window(8_192)), ("TCPSNDBUF", SYSTEM, "8192", Window(8_192))],
        missing: &[],
    },
    Row {
        file: "ibmi-netstat-ifc",
        name: "AS400A",
        window: None,
        findings: &[("CHGTCPIFC MTU", "10.6.1.20", "576", Unknown)],
        missing: &["CHGTCPA, then F4"],
    },
    Row {
        file: "ibmi-netstat-rte",
        name: "AS400A",
        window: None,
        // The details of the second route follow its line in the list.
        findings: &[("CHGTCPRTE MTU", "*DFTROUTE", "576", Unknown), ("CHGTCPRTE MTU", "10.9.0.0", "1200", Unknown)],
        missing: &["CHGTCPA, then F4"],
    },
    Row {
        file: "ibmi-all",
        name: "AS400A",
        window: Some(4_194_304),
        findings: &[
            ("TCPRCVBUF", SYSTEM, "4194304", Window(4_194_304)),
            ("TCPSNDBUF", SYSTEM, "4194304", Window(4_194_304)),
            ("CHGTCPRTE MTU", "*DFTROUTE", "576", Unknown),
        ],
        missing: &[],
    },
    Row {
        file: "vios-lsdev",
        name: "vios1a",
        window: None,
        findings: &[("largesend", "ent5", "0", Unknown), ("large_receive", "ent5", "yes", Unknown)],
        missing: &[],
    },
    Row {
        file: "vios-lsdev-80",
        name: "vios2b",
        window: None,
        findings: &[("largesend", "ent9", "0", Unknown), ("large_receive", "ent9", "yes", Unknown)],
        missing: &[],
    },
    Row {
        file: "vios-lsattr",
        name: "paste",
        window: None,
        findings: &[("largesend", "ent12", "0", Unknown)],
        missing: &[],
    },
];

#[test]
fn each_paste_gives_its_window_its_rate_and_its_findings() {
    for row in ROWS {
        let host = host(&paste(row.file));
        let os = row.file.split('-').next().unwrap();
        assert_eq!((&host["name"], &host["os"]), (&row.name.into(), &os.into()), "{}", row.file);
        assert_eq!(host["window_bytes"].as_u64(), row.window, "{}", row.file);
        assert_near(&host["mbps"], row.window.map(rate), row.file);
        assert_eq!(host["missing"], serde_json::json!(row.missing), "{}", row.file);
        let findings = host["findings"].as_array().unwrap();
        let found: Vec<_> = findings
            .iter()
            .map(|f| ["setting", "place", "value"].map(|field| f[field].as_str().unwrap_or(UNSEEN)))
            .collect();
        let expected: Vec<_> =
            row.findings.iter().map(|(setting, place, value, _)| [*setting, *place, *value]).collect();
        assert_eq!(found, expected, "{}", row.file);
        for (finding, (setting, .., cost)) in findings.iter().zip(row.findings) {
            let effect = match cost {
                Window(bytes) => Some((LINE_MBPS - rate(*bytes)).max(0.0)),
                Unknown => None,
                Nothing => Some(0.0),
            };
            assert_near(&finding["effect_mbps"], effect, &format!("{} {setting}", row.file));
            // No such host was tried.
            assert_eq!(finding["verified"], Value::Bool(false), "{} {setting}", row.file);
        }
    }
}

#[test]
fn every_paste_has_a_row() {
    for entry in fs::read_dir(folder()).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let is_ours = ["aix-", "ibmi-", "vios-"].iter().any(|os| name.starts_with(os));
        let has_row = ROWS.iter().any(|row| format!("{}.txt", row.file) == name);
        assert!(has_row || !is_ours, "{name} has no row");
    }
}

/// What a terminal, a mail program or a ticket system does to a paste changes nothing.
#[test]
fn the_form_of_a_paste_does_not_matter() {
    for row in ROWS.iter().filter(|row| !row.file.contains("utf16")) {
        let bytes = paste(row.file);
        let text: String = match String::from_utf8(bytes.clone()) {
            Ok(text) => text.replace("\r\n", "\n"),
            // The frame of code page 850 is no text of another encoding.
            Err(_) => continue,
        };
        let expected = without_lines(host(&bytes));
        let is_wrapped = row.file.ends_with("-80") || row.file.ends_with("-cut");
        for (form, changed) in [
            ("CRLF", text.replace('\n', "\r\n")),
            ("CR", text.replace('\n', "\r")),
            ("blanks at the end", text.replace('\n', "   \n")),
            ("tabs as blanks", text.replace('\t', "        ")),
            ("a byte order mark", format!("\u{feff}{text}")),
            ("colours", text.lines().map(|line| format!("\u{1b}[36m{line}\u{1b}[0m\n")).collect()),
            ("no-break spaces", text.replace("  ", " \u{a0}")),
        ] {
            assert_eq!(without_lines(host(changed.as_bytes())), expected, "{} with {form}", row.file);
        }
        if !is_wrapped {
            let framed: String = text.lines().map(|line| format!("│ {line:<100} │\n")).collect();
            assert_eq!(without_lines(host(framed.as_bytes())), expected, "{} in a frame", row.file);
        }
        let utf16: Vec<u8> = format!("\u{feff}{text}").encode_utf16().flat_map(u16::to_be_bytes).collect();
        assert_eq!(without_lines(host(&utf16)), expected, "{} in UTF-16", row.file);
    }
}

#[test]
fn commands_name_the_interface_and_undo_to_the_value_shown() {
    let command = |file: &str, setting: &str, what: &str| {
        let host = host(&paste(file));
        let found = host["findings"].as_array().unwrap().iter().find(|finding| finding["setting"] == setting);
        found.unwrap()[what].as_str().unwrap().to_string()
    };
    assert_eq!(command("aix-lsattr", "tcp_recvspace", "set_permanent"), "chdev -l en0 -a tcp_recvspace=15750000");
    assert_eq!(command("aix-lsattr", "tcp_recvspace", "undo"), "chdev -l en0 -a tcp_recvspace=65536");
    // The value before is set again, also where it is the default.
    assert_eq!(command("aix-no-a", "sb_max", "undo"), "no -p -o sb_max=1048576");
    assert_eq!(command("aix-no-o", "sb_max", "undo"), "no -p -o sb_max=2097152");
    assert_eq!(command("ibmi-cfgtcp-3", "TCPRCVBUF", "undo"), "CHGTCPA TCPRCVBUF(8192)");
    assert_eq!(command("ibmi-cfgtcp-3", "TCPRCVBUF", "want"), "8388608");
    assert_eq!(command("vios-lsdev", "largesend", "set_permanent"), "chdev -dev ent5 -attr largesend=1");
    // A value of `no` is changed there, and the interface keeps what it has.
    assert_eq!(command("aix-no-F-a", "tcp_sendspace", "set_now"), "no -o tcp_sendspace=15750000");
    assert_eq!(command("aix-no-F-a", "tcp_sendspace", "set_permanent"), "no -p -o tcp_sendspace=15750000");
    assert_eq!(command("aix-no-F-a", "tcp_sendspace", "undo"), "no -p -o tcp_sendspace=262144");
}

#[test]
fn nothing_is_found_in_nothing() {
    let novel = "Call me Ishmael. Some years ago - never mind how long precisely - having little or\nno money in my purse,\n\
        no -- nothing particular to interest me on shore,\ntcp: the watery part of the world\n\n    state of the soul, True\n\
        netstat is a word, and so is ifconfig\nContents . . . . . . . . . 12\nInternet address . . . . 5\n# a heading\n$ 5 only\n";
    let script = "#!/bin/ksh\nno -p -o sb_max=4194304\nno -p -o tcp_sendspace=1048576\nchdev -l en0 -a rfc1323=1\n";
    let program = fs::read(std::env::current_exe().unwrap()).unwrap();
    let pastes = [&b""[..], b"\n\r\n\x1b[0m", novel.as_bytes(), script.as_bytes(), b"\xff\xfe", b"\0\0\0\0"];
    for paste in pastes.into_iter().chain([&program[..program.len().min(4 << 20)]]) {
        assert_eq!(audit(paste), None, "{:?}", String::from_utf8_lossy(&paste[..paste.len().min(80)]));
    }
}

/// A value is worth nothing if the shell that it is copied into reads it as more.
#[test]
fn no_text_of_a_paste_gets_into_a_command() {
    let paste = b"# lsattr -El en0;reboot\ntcp_sendspace 1;reboot Set True\nen0;id: flags=1<UP>\n tcp_sendspace 9 rfc1323 $(id)\n";
    let report = audit(paste);
    assert!(report.is_none_or(|report| !report.text.contains("reboot") && !report.text.contains("$(id)")));
    for interface in ["e;reboot", "*", "-K", "$(id)"] {
        let paste = format!("$ ethtool -k eth0\nFeatures for {interface}:\ntcp-segmentation-offload: off\n");
        let document: Value = serde_json::from_str(&audit(paste.as_bytes()).unwrap().json).unwrap();
        let finding = &document["hosts"][0]["findings"][0];
        // The finding names it, and the command does not.
        assert_eq!([&finding["place"], &finding["set_now"]], [interface, "ethtool -K INTERFACE tso on"]);
    }
}

proptest! {
    #[test]
    fn no_bytes_panic_and_random_text_shows_nothing(bytes in prop::collection::vec(any::<u8>(), 0..2000), text in "\\PC{0,500}") {
        let _ = audit(&bytes);
        prop_assert_eq!(audit(text.as_bytes()), None);
    }

    /// A paste that is cut, mixed with another or damaged gives reports that can be read, and no window above the one shown.
    #[test]
    fn a_damaged_paste_gives_whole_reports(
        first in 0..ROWS.len(), second in 0..ROWS.len(), cut in 0.0..1.0f64, damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..8)
    ) {
        let mut bytes = paste(ROWS[first].file);
        bytes.truncate((bytes.len() as f64 * cut) as usize);
        bytes.extend(paste(ROWS[second].file));
        for (at, byte) in damage {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Some(Reports { text, json, csv, html }) = audit(&bytes) {
            prop_assert!(!text.contains(|char: char| char.is_control() && char != '\n'), "{text}");
            let document: Value = serde_json::from_str(&json).unwrap();
            prop_assert!(document["hosts"][0]["lines"]["understood"].as_u64() > Some(0));
            prop_assert_eq!(csv.lines().count(), 2);
            prop_assert!(is_closed(&html), "{html}");
        }
    }
}

/// Returns whether every tag of a page is closed.
fn is_closed(page: &str) -> bool {
    let options = roxmltree::ParsingOptions { allow_dtd: true, ..Default::default() };
    roxmltree::Document::parse_with_options(page, options).is_ok()
}

const SYSTEM: &str = "whole system";
/// The value of a finding whose value is null.
const UNSEEN: &str = "not shown";
/// Payload of full segments on 1 Gbit/s: 1460 of 1500 bytes.
const LINE_MBPS: f64 = 1000.0 * 1460.0 / 1500.0;

/// Returns the rate of a window on the path, in 10^6 bit/s.
fn rate(window: u64) -> f64 {
    (window as f64 * 8.0 / 0.063 / 1e6).min(LINE_MBPS)
}

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/pastes")
}

fn paste(file: &str) -> Vec<u8> {
    fs::read(folder().join(format!("{file}.txt"))).unwrap_or_else(|err| panic!("{file}: {err}"))
}

fn audit(paste: &[u8]) -> Option<Reports> {
    audit_text(paste, Duration::from_millis(63), Rate(1_000_000_000))
}

/// Returns the only host of the JSON document.
fn host(paste: &[u8]) -> Value {
    let report = audit(paste).expect("something is understood");
    let mut document: Value = serde_json::from_str(&report.json).unwrap();
    document["hosts"][0].take()
}

fn without_lines(mut host: Value) -> Value {
    host["lines"].take();
    host
}

/// Rates in JSON are whole bits per second.
fn assert_near(found: &Value, expected: Option<f64>, what: &str) {
    match expected {
        Some(expected) => assert!((found.as_f64().unwrap() - expected).abs() < 3e-6, "{what}: {found}, not {expected}"),
        None => assert!(found.is_null(), "{what}: {found}"),
    }
}
