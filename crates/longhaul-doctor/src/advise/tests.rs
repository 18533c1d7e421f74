//! The advice for paths whose answer is known.

use super::*;
use crate::path::Path;
use clap::Parser;
use serde_json::Value;

/// The command line, as the program reads it.
#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    advise: Advise,
}

/// Returns the advice for a command line.
pub(super) fn advice(line: &str) -> Advice {
    let words = ["advise"].into_iter().chain(line.split_whitespace());
    let cli = Cli::try_parse_from(words).unwrap_or_else(|err| panic!("{line}: {err}"));
    cli.advise.advice().unwrap_or_else(|why| panic!("{line}: {why}"))
}

/// Returns the document for a command line.
pub(super) fn document(line: &str) -> Value {
    let advice = advice(line);
    // Nothing panics in the text either.
    assert!(text::text(&advice).contains("MB/s"));
    serde_json::from_str(&json::text(&advice)).unwrap()
}

/// Returns why a command line is refused.
fn refused(line: &str) -> String {
    let words = ["advise"].into_iter().chain(line.split_whitespace());
    match Cli::try_parse_from(words) {
        Ok(cli) => cli.advise.advice().err().unwrap_or_else(|| panic!("{line} is not refused")),
        Err(err) => err.to_string(),
    }
}

/// Returns a field of the row called `what`.
pub(super) fn row<'v>(document: &'v Value, what: &str, field: &str) -> &'v Value {
    let rows = document["rows"].as_array().unwrap();
    &rows.iter().find(|row| row["what"] == what).unwrap()[field]
}

fn mbps(document: &Value, what: &str) -> f64 {
    row(document, what, "mbps").as_f64().unwrap()
}

#[test]
fn a_window_of_aix_over_a_long_path() {
    let document = document("--rtt 63ms --rate 10Gbit/s --os aix --bytes 2TB");
    assert_eq!(document["longhaul"], "advise");
    assert_eq!(document["format"], 1);
    assert_eq!(document["bdp_bytes"], 78_750_000);
    assert_eq!(document["window_bytes"], 157_500_000);
    assert_eq!(document["window_scale"], 12);
    assert_eq!([&document["mss"], &document["mss_clamp"]], [1460, 1460]);
    assert_eq!(mbps(&document, "hosts"), 33.288127);
    // 2 TB at 4.16 MB/s are 5 days, 13 hours and a half; slow start adds less than a second.
    let seconds = row(&document, "hosts", "seconds").as_f64().unwrap();
    assert!((480_651.0..480_653.0).contains(&seconds), "{seconds}");
    assert_eq!(row(&document, "hosts", "limited_by"), "window");
    assert_eq!(row(&document, "hosts-tuned", "limited_by"), "line");
    // 1460 of 1500 bytes.
    assert_eq!(mbps(&document, "relay"), 9733.333333);
    // 9733.3 / 33.288 = 292.4.
    assert_eq!(document["connections"], 293);
    assert_eq!(row(&document, "connections", "limited_by"), "line");
    let verdict = document["verdict"].to_string();
    assert!(verdict.contains("gives 16.6 MB/s without a relay"), "{verdict}");
}

#[test]
fn aix_gets_sb_max_before_the_spaces_and_a_certain_scaling() {
    let document = document("--rtt 63ms --rate 1Gbit/s --os aix");
    let settings = document["systems"][0]["settings"].as_array().unwrap();
    let at =
        |name: &str| settings.iter().position(|setting| setting["name"] == name).unwrap_or_else(|| panic!("{name}"));
    assert!(at("sb_max") < at("tcp_sendspace").min(at("tcp_recvspace")));
    assert_eq!(settings[at("sb_max")]["value"], "31500000");
    let text = text::text(&advice("--rtt 63ms --rate 1Gbit/s --os aix"));
    let commands = "   now        ifconfig en0 tcp_sendspace 15750000\n   permanent  chdev -l en0 -a tcp_sendspace=15750000\n   \
        undo       chdev -l en0 -a tcp_sendspace=OLD\n";
    assert!(text.contains(commands), "{text}");
    let space = &settings[at("tcp_sendspace")];
    assert_eq!(space["set_permanent"], "chdev -l en0 -a tcp_sendspace=15750000");
    assert_eq!(
        [&space["undo"], &space["verified"]],
        [&Value::from("chdev -l en0 -a tcp_sendspace=OLD"), &Value::from(false)]
    );
    assert_eq!(settings[at("rfc1323")]["value"], "1");
}

#[test]
fn the_window_of_the_application_caps_every_row() {
    let document = document("--rtt 63ms --rate 10Gbit/s --os aix --app ssh");
    for what in ["hosts-tuned", "relay", "relay-and-tuned"] {
        assert_eq!(mbps(&document, what), 266.305016, "{what}");
        assert_eq!(row(&document, what, "limited_by"), "application", "{what}");
        assert_eq!(row(&document, what, "then_limited_by"), "line", "{what}");
        assert_eq!(row(&document, what, "seconds"), &Value::Null);
    }
    assert_eq!(row(&document, "hosts", "limited_by"), "window");
}

#[test]
fn a_relay_that_gains_nothing_is_not_advised() {
    let verdict = |line: &str| document(line)["verdict"][0].as_str().unwrap().to_string();
    assert!(verdict("--rtt 5ms --rate 100Mbit/s --os linux").starts_with("No relay is needed: the hosts as they are"));
    assert!(
        verdict("--rtt 63ms --rate 100Mbit/s --os aix").starts_with("No relay is needed if both hosts can be tuned")
    );
    assert!(verdict("--rtt 63ms --rate 1Gbit/s --os aix --loss 0.1%").starts_with("A relay gives"));
}

#[test]
fn loss_limits_hosts_and_not_the_relay() {
    let with = |os: &str| document(&format!("--rtt 100ms --rate 1Gbit/s --window 16MiB --loss 0.01% --os {os}"));
    // Reno: 1.2 / sqrt(0.0001) = 120 segments; CUBIC: 1.054 x 1000^0.75 = 187.4.
    assert_eq!(mbps(&with("aix"), "hosts"), 14.016);
    assert!((21.8..22.0).contains(&mbps(&with("linux"), "hosts")), "{}", mbps(&with("linux"), "hosts"));
    assert_eq!(row(&with("aix"), "hosts", "limited_by"), "loss");
    assert_eq!(row(&with("aix"), "relay", "limited_by"), "line");
    assert_eq!(mbps(&with("aix,linux"), "hosts"), 14.016, "the slower of the two");
}

#[test]
fn a_time_that_never_ends_is_null() {
    let never = document("--rtt 60s --rate 1kbit/s --loss 99.99% --bytes 2TB --os aix");
    assert_eq!(row(&never, "hosts", "seconds"), &Value::Null);
    assert!(never["verdict"].to_string().contains("Above 1 % of loss"));
    // More connections than bits in a second share the line's rate.
    let shared = document("--rtt 63ms --rate 1000bit/s --connections 4294967295 --bytes 1460B --os aix");
    let seconds = row(&shared, "connections", "seconds").as_f64().unwrap();
    assert!((1.0..20.0).contains(&seconds), "{seconds}");
}

#[test]
fn the_lan_limits_a_relay_only_if_its_round_trip_is_given() {
    let document = document("--rtt 63ms --rate 10Gbit/s --os aix --lan-rtt 1ms");
    assert_eq!(row(&document, "relay", "limited_by"), "lan");
    assert_eq!(mbps(&document, "relay"), 2097.152);
    assert_eq!(row(&document, "relay-and-tuned", "limited_by"), "line");
}

#[test]
fn several_connections_share_the_line() {
    let document = document("--rtt 63ms --rate 10Gbit/s --window 64KiB --connections 8 --bytes 1GB");
    assert!((mbps(&document, "connections") - 8.0 * mbps(&document, "hosts")).abs() < 1e-5);
    assert_eq!(row(&document, "connections", "limited_by"), "window");
    let [one, eight] = ["hosts", "connections"].map(|what| row(&document, what, "seconds").as_f64().unwrap());
    assert!((7.9..8.0).contains(&(one / eight)), "slow start counts once for each: {}", one / eight);
}

#[test]
fn the_encapsulation_is_inside_the_mtu_of_the_link() {
    let clamp = |line: &str| {
        document(&format!("--rtt 34ms --rate 1Gbit/s --window 1MiB {line}"))["mss_clamp"].as_u64().unwrap()
    };
    let cases = [
        ("--mtu 1350 --encap esp-gcm", 1254),
        ("--mtu 1350 --encap esp-cbc", 1238),
        ("--encap gre", 1436),
        ("--encap vxlan", 1410),
        ("--encap wireguard", 1400),
        ("--encap expressroute", 1410),
        ("--mtu 576 --encap esp-gcm", 482),
        ("--mtu 9000", 8960),
    ];
    for (flags, mss) in cases {
        assert_eq!(clamp(flags), mss, "{flags}");
    }
}

#[test]
fn check_accepts_the_files_of_both_relays() {
    for line in ["", "--encap esp-cbc", "--near-listen 6000 --far-listen [2001:db8::2]:6000 --target db.example:1521"] {
        let document = document(&format!("--rtt 63ms --rate 1Gbit/s --os aix {line}"));
        for side in ["near", "far"] {
            let text = document["longhaul_toml"][side].as_str().unwrap();
            let loaded = longhaul_config::parse("longhaul.toml", text).unwrap_or_else(|err| panic!("{err:?}\n{text}"));
            assert_eq!(loaded.config.tunnels.len(), 1);
        }
    }
    let near = document("--rtt 63ms --rate 1Gbit/s --os aix --encap esp-cbc")["longhaul_toml"]["near"].to_string();
    assert!(near.contains("mss = 1398"), "{near}");
}

#[test]
fn every_profile_says_what_is_wrong_with_it() {
    for profile in PROFILES {
        let document = document(&format!("--profile {}", profile.name));
        assert!(!document["profile"]["contradictions"].as_array().unwrap().is_empty());
        assert_eq!(document["hosts"]["window_bytes"], 2 << 20);
    }
    let vpn = document("--profile skytap-vpn");
    assert_eq!(vpn["mss_clamp"], 1254);
    assert_eq!(document("--profile skytap-vpn --mtu 1400 --rtt 50ms --os ibmi")["path"]["rtt_ms"], 50.0);
    let Path { rtt, .. } = PROFILES[3].path();
    assert_eq!(rtt.as_millis(), 33);
}

#[test]
fn each_relay_gets_its_own_file_and_buffers_of_four_products() {
    let line = "--rtt 63ms --rate 10Gbit/s --os aix --near-listen 10.1.0.2:7000 --far-listen 10.2.0.2:7000 --target 10.2.0.9:22";
    let text = text::text(&advice(line));
    for site in ["near", "far"] {
        let head = format!("The {site} relay\n\n# /etc/longhaul/longhaul.toml of the {site} relay");
        assert!(text.contains(&head), "{text}");
    }
    let files = document(line)["longhaul_toml"].clone();
    let has = |site: &str, part: &str| files[site].as_str().unwrap().contains(part);
    assert!(has("near", "to     = [\"10.2.0.2:7000\"]") && has("far", "to     = [\"10.2.0.9:22\"]"), "{files}");
    assert!(has("far", "allow  = [\"10.1.0.2/32\"]") && !has("near", "\nallow"), "{files}");
    let sysctl = |line: &str, name: &str| {
        let sysctls = advice(line).relays.sysctls;
        sysctls.iter().find(|(known, _)| *known == name).unwrap().1.clone()
    };
    // 78,750,000 bytes are the product, and half of the receive buffer is window.
    assert_eq!(sysctl(line, "net.ipv4.tcp_wmem"), "4096 16384 315000000");
    assert_eq!(sysctl(line, "net.ipv4.tcp_rmem"), "4096 131072 630000000");
    // A short path gets the buffers of 90-longhaul.conf.
    assert_eq!(sysctl("--rtt 1ms --rate 1Gbit/s --os aix", "net.ipv4.tcp_wmem"), "4096 16384 268435456");
}

#[test]
fn no_relay_is_faster_than_the_largest_window_of_tcp() {
    let document = document("--rtt 10s --rate 100Gbit/s --os aix");
    let most = MAX_WINDOW.0 as f64 * 8.0 / 10.0 / 1e6;
    assert!((mbps(&document, "relay") - most).abs() < 1.0, "{}", mbps(&document, "relay"));
    assert_eq!(row(&document, "relay", "limited_by"), "window");
}

#[test]
fn a_window_below_the_default_of_linux_gets_the_buffers_that_make_it_larger() {
    let document = document("--rtt 63ms --rate 100Mbit/s --os linux --window 64KiB");
    let settings = document["systems"][0]["settings"].as_array().unwrap();
    for name in ["net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"] {
        assert!(settings.iter().any(|setting| setting["name"] == name), "{name}");
    }
}

#[test]
fn wrong_flags_get_what_to_write() {
    let cases = [
        ("--rtt 63ms --rate 1Gbit/s", "the hosts are unknown: add --os"),
        ("", "or --window 256KiB; --rtt and --rate are missing: add --rtt 63ms --rate 1Gbit/s"),
        ("--os aix --rate 1Gbit/s", "--rtt is missing: add --rtt 63ms"),
        ("--os aix --rtt 63ms", "--rate is missing"),
        ("--os aix --rtt 63 --rate 1Gbit/s", "it has no unit; write for example 63ms"),
        ("--os aix --rtt 63,5ms --rate 1Gbit/s", "write 63.5ms"),
        ("--os aix --rtt 63ms --rate 1,000Mbit/s", "write 1000Mbit/s or 1.000Mbit/s"),
        ("--os aix --app scp --rtt 63ms --rate 1Gbit/s", "did you mean ssh?"),
        ("--os aix --rtt 0ms --rate 1Gbit/s", "from 10us to 1min"),
        ("--os aix --rtt 365d --rate 1Gbit/s", "from 10us to 1min"),
        ("--os aix --rtt 63ms --rate 0bit/s", "from 1kbit/s to 10000Gbit/s"),
        ("--os aix --rtt 63ms --rate 1Gbit/s --loss 100%", "nothing gets through"),
        ("--os aix --rtt 63ms --rate 1Gbit/s --loss 0.1", "such as 0.1%"),
        ("--os aix --rtt 63ms --rate 1Gbit/s --mtu 575", "from 576 to 65535"),
        ("--os aix --rtt 63ms --rate 1Gbit/s --encap esp-gmc", "did you mean esp-gcm?"),
        ("--os aix --rtt -5ms --rate 1Gbit/s", "write for example 63ms"),
        ("--os aix --rtt 63ms --rate 1Gbit/s --loss -1%", "such as 0.1%"),
        ("--os AS400 --rtt 63ms --rate 1Gbit/s", "did you mean ibmi?"),
        ("--os axi --rtt 63ms --rate 1Gbit/s", "did you mean aix?"),
        ("--os aix --app sshd --rtt 63ms --rate 1Gbit/s", "did you mean ssh?"),
        ("--profile skytap-vnp", "did you mean skytap-vpn?"),
        ("--window 2GiB --rtt 63ms --rate 1Gbit/s", "no window above 1GiB"),
        ("--window 256 --rtt 63ms --rate 1Gbit/s", "512 bytes or more"),
        ("--os aix --bytes 0 --rtt 63ms --rate 1Gbit/s", "0 bytes take no time"),
        ("--os aix --connections 0 --rtt 63ms --rate 1Gbit/s", "0 is not in"),
        ("--os aix --rtt 63ms --rate 1Gbit/s --far-listen 6000", "the near relay dials it"),
        ("--os aix --rtt 63ms --rate 1Gbit/s --target x", "--target cannot be used"),
        ("--os aix --rtt 63ms --rate 1Gbit/s --near-listen 1\"2", "write ADDR:PORT"),
        ("--os aix --from /nowhere.json", "/nowhere.json: No such file"),
    ];
    for (line, want) in cases {
        let why = refused(line);
        assert!(why.contains(want), "{line}\n{why}");
    }
}

#[test]
fn a_measured_path_is_filled_in_by_flags() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("path.json");
    std::fs::write(
        &file,
        r#"{"longhaul": "path", "format": 1, "rtt_ms": {"min": 63}, "rate_mbps": {"up": 1000, "down": null},
            "loss": {"up": 0.0001}, "path_mtu": {"up": 1400, "down": 1500}, "mss": 1360, "bdp_bytes": 7875000, "findings": []}"#,
    )
    .unwrap();
    let with = |flags: &str| format!("--from {} {flags}", file.display());
    let up = document(&with(""));
    assert_eq!([&up["path"]["rate_mbps"], &up["path"]["loss"], &up["path"]["rtt_ms"]], [1000.0, 0.0001, 63.0]);
    assert_eq!([&up["path"]["mtu"], &up["bdp_bytes"]], [1400, 7_875_000]);
    assert!(up["hosts"]["window_from"].as_str().unwrap().contains("default of Linux"));
    assert!(refused(&with("--direction down")).contains("does not have it: --rate is missing; add --rate 1Gbit/s"));
    let down = document(&with("--direction down --rate 200Mbit/s --os ibmi"));
    assert_eq!([&down["path"]["rate_mbps"], &down["path"]["loss"]], [200.0, 0.0]);
    assert!(refused("--rtt 63ms --rate 1Gbit/s --window 1MiB --direction up").contains("--from"));
}

/// Writes a measured path with one finding, and returns the advice for it.
fn of_finding(direction: &str, kind: &str, more: &str, flags: &str) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("path.json");
    // serde_json keeps the last of two values, so `more` replaces those before it.
    let text = format!(
        r#"{{"longhaul": "path", "format": 1, "address": "10.20.20.20:7000", "rtt_ms": {{"min": 63}}, "rate_mbps": {{"up": 100, "down": 100}},
            "loss": {{"up": 0.001, "down": 0.001}}, "path_mtu": {{"up": 1500, "down": 1500}}, "mss": 1460,
            "findings": [{{"kind": "{kind}", "direction": "{direction}", "evidence": "seen", "what_if_mbps": 90.5, "advice": "old"}}],
            "runs": [{{"direction": "{direction}", "payload_mbps": 8, "peer_window_bytes": 65536}}] {more}}}"#
    );
    let value: Value = serde_json::from_str(&text).unwrap();
    std::fs::write(&file, value.to_string()).unwrap();
    document(&format!("--from {} {flags}", file.display()))
}

/// Returns the names of the settings that lift the limit, which are the first ones of the only system.
fn lifting(document: &Value) -> Vec<&str> {
    let settings = document["systems"][0]["settings"].as_array().unwrap();
    let count = settings.iter().filter(|setting| setting["first"] == true).count();
    let names = settings[..count].iter().filter(|setting| setting["first"] == true);
    names.map(|setting| setting["name"].as_str().unwrap()).collect()
}

#[test]
fn the_first_advice_lifts_the_first_finding() {
    let (rmem, wmem, control) = ("net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem", "net.ipv4.tcp_congestion_control");
    for (direction, kind, host, setting, text) in [
        ("up", "receiver-window", "far", rmem, "Raise the receive buffer of the far host, 10.20.20.20."),
        (
            "down",
            "receiver-window",
            "here",
            rmem,
            "Raise the receive buffer of the host that measured the path to 10.20.20.20.",
        ),
        ("up", "own-send-buffer", "here", wmem, "Raise the send buffer of the host that measured"),
        ("down", "peer-send-buffer", "far", wmem, "Raise the send buffer of the far host"),
        ("up", "random-loss", "here", control, "BBR"),
        ("down", "random-loss", "far", control, "BBR"),
    ] {
        let document = of_finding(direction, kind, "", "");
        let first = &document["first"];
        assert_eq!([&first["kind"], &first["direction"], &first["host"]], [kind, direction, host], "{document}");
        assert_eq!(first["what_if_mbps"], 90.5);
        assert_eq!(first["address"].is_null(), host == "here");
        assert!(first["text"].as_str().unwrap().contains(text), "{first}");
        assert_eq!(lifting(&document)[0], setting, "{kind}");
        // The loss is one at random only where that is the limit.
        assert_eq!(document["path"]["loss"], if kind == "random-loss" { 0.001 } else { 0.0 }, "{kind}");
    }
    // A measured window is worth a change although the default of the system would do.
    let small = of_finding("up", "receiver-window", "", "--os aix");
    assert_eq!(lifting(&small)[0], "sb_max", "what caps the others is to be set before them");
    assert!(lifting(&small).contains(&"tcp_recvspace") && !lifting(&small).contains(&"tcp_sendspace"));
    assert_eq!(small["hosts"]["window_bytes"], 65_536);
    let aix = of_finding("up", "random-loss", "", "--os aix");
    assert!(
        lifting(&aix).is_empty() && aix["verdict"].to_string().contains("No setting of AIX 7 is known here"),
        "{aix}"
    );
    let buffer = of_finding("up", "own-send-buffer", "", "");
    assert_eq!(
        [&buffer["hosts"]["window_bytes"], &buffer["hosts"]["window_from"]],
        [&Value::from(63_000), &"measured".into()]
    );
}

#[test]
fn the_files_of_the_relays_lift_a_limit_of_packets_and_a_policer() {
    let near = |document: &Value| document["longhaul_toml"]["near"].as_str().unwrap().to_string();
    let cut = of_finding("up", "fragmentation", r#", "uncut_mss": {"up": 1254, "down": null}"#, "");
    assert!(near(&cut).contains("dial   = { mss = 1254 }"), "{}", near(&cut));
    assert_eq!(lifting(&cut), ["route mtu", "maxseg"], "a probe of the MTU does not see what is cut");
    let ipv6 = of_finding("up", "fragmentation", r#", "uncut_mss": {"up": 1234}, "address": "[fd00::1]:7000""#, "");
    assert!(near(&ipv6).contains("dial   = { mss = 1234 }"), "{}", near(&ipv6));
    let hole = of_finding("up", "mtu-black-hole", r#", "path_mtu": {"up": 1400}"#, "");
    assert!(near(&hole).contains("mss = 1360") && hole["first"]["text"].as_str().unwrap().contains("1360"));
    let policed = of_finding("up", "policer", "", "");
    assert_eq!(policed["first"]["host"], Value::Null);
    // 95 % of the payload of 100 Mbit/s.
    for file in ["near", "far"] {
        let text = policed["longhaul_toml"][file].as_str().unwrap();
        assert!(text.contains("bandwidth = \"92.466Mbit/s\""), "{text}");
    }
    for kind in ["link-rate", "congested-queue", "cap", "cpu", "stalled", "reordering"] {
        let document = of_finding("up", kind, "", "");
        assert!(document["first"]["host"].is_null() && lifting(&document).is_empty(), "{kind}");
        assert!(!near(&document).contains("bandwidth") && !near(&document).contains("mss"), "{kind}");
    }
    let older = of_finding("up", "fragmentation", "", "");
    assert!(older["first"]["text"].as_str().unwrap().starts_with("Measure again") && older["first"]["host"].is_null());
    for kind in ["unknown", "of-a-later-longhaul"] {
        assert_eq!(of_finding("up", kind, "", "")["first"], Value::Null);
    }
}

#[test]
fn what_was_measured_has_the_last_word_on_relays() {
    let mbps = |document: &Value, what: &str| row(document, what, "mbps").as_f64().unwrap();
    let verdict = |kind: &str, more: &str, flags: &str| of_finding("up", kind, more, flags)["verdict"].to_string();
    assert!(verdict("link-rate", "", "").contains("No relay is needed"));
    let least = r#", "line_reached": {"up": false}"#;
    for kind in ["link-rate", "application"] {
        let verdict = verdict(kind, least, "");
        assert!(verdict.contains("carries 100Mbit/s or more: nothing reached its limit"), "{verdict}");
    }
    assert!(!verdict("link-rate", least, "--rate 100Mbit/s").contains("or more"));
    assert!(verdict("receiver-window", least, "").contains("nothing reached the line's limit"));
    assert!(
        verdict("receiver-window", "", "").contains("A relay gives")
            && !verdict("receiver-window", "", "").contains("or more")
    );
    assert!(verdict("unknown", "", "").contains("names no limit") && verdict("cpu", "", "").contains("do not lift"));
    assert!(verdict("policer", "", "").contains("Relays lift the measured limit"));
    // The present rate is the measured one: the formulas know no send buffer's third, and no CPU.
    let loss = of_finding("up", "random-loss", "", "");
    assert_eq!(loss["hosts"]["measured_mbps"], 8.0);
    let times = mbps(&loss, "relay") / 8.0;
    assert!(loss["verdict"].to_string().contains(&format!("gives {times:.1} times the present rate")), "{loss}");
    // The hosts that measured run Linux.
    assert!(verdict("unknown", "", "--os linux").contains("names no limit"));
    // Other hosts have windows and a CPU of their own, and the same path.
    assert!(
        verdict("cpu", "", "--os ibmi").contains("A relay gives")
            && verdict("unknown", "", "--os ibmi").contains("A relay gives")
    );
    for flags in ["", "--os linux", "--os aix", "--window 1MiB"] {
        let hole = of_finding(
            "up",
            "mtu-black-hole",
            r#", "path_mtu": {"up": 1400}, "runs": [{"direction": "up", "payload_mbps": 0}]"#,
            flags,
        );
        assert_eq!(hole["hosts"]["measured_mbps"], 0.0);
        let verdict = hole["verdict"].to_string();
        assert!(
            verdict.contains("Relays lift the measured limit") && !verdict.contains("relay is needed"),
            "{flags}: {verdict}"
        );
        assert!(!verdict.contains("times"), "{flags}: {verdict}");
    }
}

#[test]
fn no_released_field_of_the_document_is_gone() {
    let of = |flags| of_finding("up", "receiver-window", "", flags);
    let documents = [of("--os linux"), of("--os linux --profile skytap-vpn --app ssh --encap gre --bytes 2TB")];
    crate::interface::check("advise", crate::interface::fields(&documents));
}
