//! Pastes of Linux, Windows and Solaris hosts in tests/pastes, as administrators have them: with CRLF, in UTF-16 and code page
//! 850, with tabs turned to blanks, wrapped or cut at 80 columns, with prompts and colours, in German. Each row says what the
//! audit finds in one of them.

#![allow(clippy::unwrap_used)] // clippy.toml allows it in tests, but not in what tests call

use longhaul_doctor::audit_text;
use longhaul_units::Rate;
use proptest::prelude::*;
use serde_json::Value;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

/// A path on which every limit is one: a second, and more than any window gives.
const EVERY_LIMIT: (Duration, Rate) = (Duration::from_secs(1), Rate(100_000_000_000_000));
/// A path with a bandwidth-delay product of 7,875,000 bytes.
const USUAL: (Duration, Rate) = (Duration::from_millis(63), Rate(1_000_000_000));

/// What the audit shows of a paste on a path where every limit is one.
struct Want {
    file: &'static str,
    /// Name of the host; `paste` if the paste has none.
    name: &'static str,
    /// Effective window in bytes.
    window: Option<u64>,
    /// Settings and values of all findings.
    findings: &'static [(&'static str, &'static str)],
    /// Some of the settings and values that are shown.
    settings: &'static [(&'static str, &'static str)],
}

const LINUX: &[Want] = &[
    Want {
        file: "linux-rhel7-sysctl",
        name: "oradb01",
        window: Some(3_145_728),
        findings: &[
            ("net.ipv4.tcp_rmem", "4096 87380 6291456"),
            ("net.ipv4.tcp_slow_start_after_idle", "1"),
            ("net.ipv4.tcp_wmem", "4096 16384 4194304"),
        ],
        settings: &[("kernel", "3.10.0-1160.el7.x86_64"), ("net.core.rmem_max", "212992")],
    },
    Want {
        file: "linux-sysctl-hardened",
        name: "sap-prd-02",
        // Without autotuning, three quarters of 131,072: tcp_adv_win_scale is 2.
        window: Some(98_304),
        findings: &[
            ("generic-receive-offload", "off"),
            ("net.ipv4.tcp_congestion_control", "reno"),
            ("net.ipv4.tcp_moderate_rcvbuf", "0"),
            ("net.ipv4.tcp_rmem", "4096 131072 8388608"),
            ("net.ipv4.tcp_sack", "0"),
            ("net.ipv4.tcp_timestamps", "0"),
            ("net.ipv4.tcp_wmem", "4096 16384 8388608"),
        ],
        settings: &[("net.ipv4.tcp_slow_start_after_idle", "0"), ("net.core.rmem_max", "8388608")],
    },
    Want {
        file: "linux-session",
        name: "web-fra-3",
        // Neither the route of the interface without carrier nor that interface counts.
        window: Some(262_144),
        findings: &[
            ("TcpRetransSegs", "0.200%"),
            ("generic-receive-offload", "off"),
            ("mtu", "1200"),
            ("qdisc", "tbf"),
            ("route window", "262144"),
            ("tcp-segmentation-offload", "off"),
        ],
        settings: &[("route window", "32768"), ("qdisc", "mq"), ("mtu", "576"), ("kernel", "5.15.0-105-generic")],
    },
    Want {
        file: "linux-session-80",
        name: "relay1",
        window: Some(131_072),
        findings: &[
            ("qdisc", "netem"),
            ("route advmss", "1210"),
            ("route cwnd", "20"),
            ("route window", "131072"),
            ("tcp-segmentation-offload", "off"),
        ],
        settings: &[("route advmss", "1220"), ("route mtu", "1500"), ("route initcwnd", "10"), ("mtu", "9000")],
    },
    SS_TIM,
    Want { file: "linux-ss-80", ..SS_TIM },
    Want {
        file: "linux-ss-old",
        name: "paste",
        // One connection has no window scale.
        window: Some(65_535),
        findings: &[
            ("net.ipv4.tcp_wmem", "425984 (held data back for 41.1% of the time)"),
            ("receive window of the peer", "held data back for 91.2% of the time"),
            ("window scale", "none"),
            ("window scale of the peer", "wscale:10"),
            ("window scale of this host", "wscale:2"),
        ],
        settings: &[],
    },
    Want {
        file: "linux-ss-cut",
        name: "paste",
        window: Some(65_535),
        // The rest is cut off.
        findings: &[
            ("window scale", "none"),
            ("window scale of the peer", "wscale:10"),
            ("window scale of this host", "wscale:2"),
        ],
        settings: &[],
    },
    Want {
        file: "linux-nstat",
        name: "backup",
        window: None,
        findings: &[("IpReasmFails", "4.383%"), ("TcpExtRcvPruned", "0.032%")],
        settings: &[("TcpRetransSegs", "42"), ("TcpExtTCPBacklogDrop", "3")],
    },
];

const SS_TIM: Want = Want {
    file: "linux-ss-tim",
    name: "kvm7",
    window: Some(262_144),
    findings: &[
        ("receive window of the peer", "262144 (held data back for 98.8% of the time)"),
        ("window scale of the peer", "wscale:7"),
        ("window scale of this host", "wscale:7"),
    ],
    settings: &[],
};

const WINDOWS: &[Want] = &[
    Want {
        file: "windows-netsh-en",
        name: "FILESRV02",
        window: Some(65_535 << 2),
        findings: &[("autotuninglevel", "highlyrestricted")],
        settings: &[("congestionprovider", "cubic"), ("timestamps", "disabled"), ("rss", "enabled")],
    },
    Want {
        file: "windows-netsh-2008",
        name: "paste",
        window: Some(65_535),
        findings: &[("autotuninglevel", "disabled"), ("heuristics", "in force"), ("rss", "disabled")],
        settings: &[("heuristics", "enabled")],
    },
    Want {
        file: "windows-netsh-de",
        name: "paste",
        window: Some(65_535 << 4),
        findings: &[("autotuninglevel", "restricted"), ("rsc", "disabled")],
        settings: &[("timestamps", "disabled"), ("rss", "enabled"), ("ecncapability", "enabled")],
    },
    Want {
        file: "windows-netsh-de-utf16",
        name: "paste",
        window: Some(65_535),
        findings: &[("autotuninglevel", "disabled"), ("rsc", "disabled")],
        settings: &[],
    },
    Want {
        file: "windows-nettcpsetting-list",
        name: "paste",
        window: Some(65_535 << 4),
        // The templates of data centres do not count.
        findings: &[("AutoTuningLevelLocal", "Restricted"), ("heuristics", "Enabled")],
        settings: &[("AutoTuningLevelLocal", "Disabled"), ("CongestionProvider", "DCTCP")],
    },
    Want {
        file: "windows-nettcpsetting-policy",
        name: "paste",
        window: Some(65_535 << 2),
        findings: &[("AutoTuningLevelGroupPolicy", "HighlyRestricted")],
        settings: &[("AutoTuningLevelLocal", "Normal"), ("AutoTuningLevelEffective", "GroupPolicy")],
    },
    Want {
        file: "windows-nettcpsetting-table",
        name: "sqlsrv1",
        window: Some(65_535 << 2),
        findings: &[("AutoTuningLevelLocal", "HighlyRestricted")],
        settings: &[("AutoTuningLevelLocal", "Disabled")],
    },
    Want {
        file: "windows-nettcpsetting-table-80",
        name: "paste",
        window: Some(65_535 << 8),
        findings: &[("AutoTuningLevelLocal", "Normal"), ("heuristics", "Enabled")],
        settings: &[
            ("AutoTuningLevelLocal", "HighlyRestricted"),
            ("Timestamps", "Disabled"),
            ("CongestionProvider", "CUBIC"),
        ],
    },
];

const SOLARIS: &[Want] = &[
    Want {
        file: "solaris-ipadm",
        name: "t5-ldom3",
        window: Some(49_152),
        findings: &[
            ("_cwnd_max", "1048576"),
            ("max_buf", "1048576"),
            ("recv_buf", "128000"),
            ("sack", "passive"),
            ("send_buf", "49152"),
        ],
        settings: &[],
    },
    Want {
        file: "solaris-ipadm-80",
        name: "zone7",
        window: Some(4_194_304),
        findings: &[
            ("_cwnd_max", "not shown"),
            ("max_buf", "16777216"),
            ("recv_buf", "4194304"),
            ("send_buf", "4194304"),
        ],
        settings: &[("cong_default", "cubic"), ("sack", "active")],
    },
    Want {
        file: "solaris-ipadm-c",
        name: "paste",
        // The values of udp are others.
        window: Some(524_288),
        findings: &[
            ("_cwnd_max", "2097152"),
            ("max_buf", "2097152"),
            ("recv_buf", "1048576"),
            ("sack", "never"),
            ("send_buf", "524288"),
        ],
        settings: &[("ecn", "passive"), ("_wscale_always", "1")],
    },
    Want {
        file: "solaris-ndd",
        name: "sol10-erp",
        window: Some(49_152),
        findings: &[("_cwnd_max", "1048576"), ("max_buf", "1048576"), ("recv_buf", "49152"), ("send_buf", "49152")],
        settings: &[("sack", "2")],
    },
    Want {
        file: "solaris-ndd-script",
        name: "paste",
        window: Some(400_000),
        findings: &[
            ("_cwnd_max", "2097152"),
            ("max_buf", "4194304"),
            ("recv_buf", "400000"),
            ("sack", "0"),
            ("send_buf", "400000"),
        ],
        settings: &[],
    },
];

#[test]
fn each_paste_shows_its_limits() {
    for (system, wants) in [("linux", LINUX), ("windows", WINDOWS), ("solaris", SOLARIS)] {
        for want in wants {
            let host = host(&paste(want.file), EVERY_LIMIT).unwrap();
            let file = want.file;
            assert_eq!((&host["os"], &host["name"]), (&system.into(), &want.name.into()), "{file}");
            assert_eq!(host["window_bytes"], serde_json::json!(want.window), "{file}");
            let mut findings = pairs(&host["findings"], "setting");
            findings.sort();
            assert_eq!(findings, want.findings, "{file}");
            let settings = pairs(&host["settings"], "name");
            for setting in want.settings {
                assert!(settings.contains(setting), "{file}: {setting:?} in {settings:?}");
            }
        }
    }
}

#[test]
fn every_paste_has_a_row() {
    let prefixes = ["linux-", "windows-", "solaris-"];
    let files = fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut files: Vec<String> = files.filter(|file| prefixes.iter().any(|prefix| file.starts_with(prefix))).collect();
    let mut rows: Vec<String> = rows().map(|want| format!("{}.txt", want.file)).collect();
    files.sort();
    rows.sort();
    assert_eq!(files, rows);
}

/// On a usual path, a scale of 7 and a level of Normal limit nothing.
#[test]
fn a_limit_above_the_path_is_no_finding() {
    let findings = |file| pairs(&host(&paste(file), USUAL).unwrap()["findings"], "setting").len();
    assert_eq!((findings("linux-ss-tim"), findings("windows-nettcpsetting-table")), (1, 1));
    // A scale of 10 does not, a scale of 2 does.
    assert_eq!(findings("linux-ss-old"), 4);
    // Without a connection that waits, `ss` does not show the window.
    let calm = String::from_utf8(paste("linux-ss-tim")).unwrap().replace("98.8%", "14.9%");
    let host = host(calm.as_bytes(), USUAL).unwrap();
    assert_eq!(
        (&host["window_bytes"], &host["mbps"], host["findings"].as_array().unwrap().len()),
        (&Value::Null, &Value::Null, 0)
    );
}

/// A send buffer that holds data back below the limit of autotuning is set by the application. At the limit it is the sysctl,
/// which is a finding of its own, once.
#[test]
fn a_send_buffer_is_the_systems_or_the_applications() {
    let text = String::from_utf8(paste("linux-ss-old")).unwrap();
    for (largest, setting, value) in [
        (425_984, "net.ipv4.tcp_wmem", "4096 16384 425984"),
        (425_985, "SO_SNDBUF", "425984 (held data back for 41.1% of the time)"),
    ] {
        let text = format!("{text}\n$ sysctl net.ipv4.tcp_wmem\nnet.ipv4.tcp_wmem = 4096 16384 {largest}\n");
        let host = host(text.as_bytes(), USUAL).unwrap();
        let findings = pairs(&host["findings"], "setting");
        assert!(findings.contains(&(setting, value)), "{findings:?}");
        assert!(findings.iter().filter(|(name, _)| *name == "net.ipv4.tcp_wmem").count() <= 1, "{findings:?}");
    }
}

#[test]
fn every_system_has_two_pastes_at_least() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/pastes");
    let names: Vec<String> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    for system in longhaul_core::advice::SYSTEMS {
        let count = names.iter().filter(|name| name.starts_with(&format!("{}-", system.name))).count();
        assert!(count >= 2, "{}: {count}", system.name);
    }
}

/// Returns setting, place, value wanted and command of each finding.
fn changes(host: &Value) -> Vec<[&str; 4]> {
    let fields = ["setting", "place", "want", "set_now"];
    let findings = host["findings"].as_array().unwrap().iter();
    findings.map(|finding| fields.map(|field| finding[field].as_str().unwrap())).collect()
}

/// `ip route` leaves out words that its arguments say, so no command has a route of the paste in it.
#[test]
fn the_commands_for_a_route_have_no_route_of_the_paste() {
    let text = "$ ip route\ndefault via 10.0.0.1 dev e0 proto dhcp metric 100 window 65536 mtu lock 576\n\
        2001:db8::/32 metric 1024 advmss 536 pref medium\n  nexthop via fe80::1 dev e0 weight 1\n";
    let found = host(text.as_bytes(), USUAL).unwrap();
    assert_eq!(
        changes(&found),
        [
            ["route window", "route default dev e0 metric 100", "none", "ip route change ROUTE"],
            ["route mtu", "route default dev e0 metric 100", "none", "ip route change ROUTE"],
            ["route advmss", "route 2001:db8::/32 metric 1024", "none", "ip -6 route change ROUTE"],
        ]
    );
    for finding in found["findings"].as_array().unwrap() {
        assert_eq!((&finding["source"], &finding["verified"]), (&"ip-route(8)".into(), &true.into()));
        assert!(finding["undo"].as_str().unwrap().ends_with("route change OLD"), "{finding}");
    }
}

/// Routes of other tables are other routes, whether the lines or the command say it.
#[test]
fn routes_of_several_tables_are_told_apart() {
    let of_line =
        "$ ip route show table all\ndefault via 10.9.0.1 dev e0 table 100 window 65536\ndefault via 10.0.0.1 dev e0\n";
    let of_command = "$ ip route\ndefault via 10.0.0.1 dev e0\n$ ip r s t 100\ndefault via 10.9.0.1 dev e0 window 65536\n\
        $ ip route show table main\ndefault via 10.0.0.1 dev e0\n";
    for text in [of_line, of_command] {
        let found = host(text.as_bytes(), USUAL).unwrap();
        assert_eq!(pairs(&found["findings"], "place"), [("route default dev e0 table 100", "65536")], "{text}");
    }
}

/// Connections over a WAN have the template Internet. Other ones neither count nor overwrite its values.
#[test]
fn of_windows_the_template_internet_counts() {
    let template = |name: &str, level: &str| format!("SettingName : {name}\nAutoTuningLevelLocal : {level}\n\n");
    let text =
        format!("PS> Get-NetTCPSetting\n{}{}", template("Internet", "Normal"), template("InternetCustom", "Disabled"));
    let found = host(text.as_bytes(), USUAL).unwrap();
    assert_eq!((&found["window_bytes"], changes(&found).len()), (&(65_535u64 << 8).into(), 0), "{found}");
    // What belongs to no template counts besides.
    let of_all = "PS> Get-NetOffloadGlobalSetting\nReceiveSideScaling : Disabled\n";
    let other =
        "PS> Get-NetTCPSetting -SettingName Datacenter | fl AutoTuningLevelLocal\nAutoTuningLevelLocal : Restricted\n";
    let add_on = "C:\\>netsh int tcp show global\nAdd-On Congestion Control Provider : none\n";
    let found = host(format!("{text}{of_all}{other}{add_on}").as_bytes(), USUAL).unwrap();
    assert_eq!(pairs(&found["findings"], "setting"), [("ReceiveSideScaling", "Disabled")]);
    let netsh = "C:\\>netsh int tcp show supplemental | findstr Provider\nCongestion Control Provider : cubic\n\
        C:\\>netsh int tcp show supplemental template=internetcustom\nCongestion Control Provider : newreno\n\
        C:\\>netsh int tcp show supplemental \"template=datacenter\"|more\nCongestion Control Provider : dctcp\n\
        C:\\>netsh int tcp show global\nReceive Window Auto-Tuning Level : normal\nAdd-On Congestion Control Provider : none\n";
    let found = host(netsh.as_bytes(), USUAL).unwrap();
    let shown = pairs(&found["settings"], "name");
    assert!(shown.contains(&("congestionprovider", "cubic")), "{shown:?}");
    assert!(shown.contains(&("add-on congestionprovider", "none")), "{shown:?}");
}

#[test]
fn what_is_not_in_the_paste_is_unknown() {
    for (text, window) in [
        ("net.ipv4.tcp_rmem = 4096 131072", Value::Null),
        ("net.ipv4.tcp_rmem = 4096 131072 6291456", 3_145_728.into()),
        ("net.ipv4.tcp_rmem = 4096\t131072\t6291456\nnet.ipv4.tcp_adv_win_scale = -2", 1_572_864.into()),
        ("net.ipv4.tcp_rmem = 4096\t131072\t6291456\nnet.ipv4.tcp_adv_win_scale = 0", 6_291_456.into()),
        ("net.ipv4.tcp_wmem = 4096 16384 4194304\nnet.ipv4.tcp_window_scaling = 0", 65_535.into()),
        // Neither caps autotuning.
        ("net.core.rmem_max = 212992\nnet.core.wmem_max = 212992", Value::Null),
        ("tcp   send_buf   rw   49152   --   49152   4096-1048576", 49_152.into()),
        ("udp   send_buf   rw   49152   --   49152   4096-1048576", Value::Null),
        ("Receive Window Auto-Tuning Level    : norm", Value::Null),
        ("AutoTuningLevelLocal : Experimental", (65_535u64 << 14).into()),
    ] {
        // Without any value that is known, nothing is understood.
        let found = host(text.as_bytes(), USUAL).map_or(Value::Null, |mut host| host["window_bytes"].take());
        assert_eq!(found, window, "{text}");
    }
}

#[test]
fn other_texts_show_nothing() {
    for text in [
        "",
        "It was the best of times: it was the worst of times.\n\nThe ip is short.\nAutomatic   Normal\n",
        "key = value\ntcp: a protocol\nInternet : yes\n12345\n10.0.0.1\nmtu 1500\n7.2.0.0\n",
        "#!/bin/sh\n# net.ipv4.tcp_sack = 0\necho hello > /tmp/x\n",
        "1.2-3\n3.8-3.9\n",
        "{\"net\": {\"ipv4\": 1}}\n<html><body>cubic wscale:7,7 rto:204</body></html>\n",
    ] {
        assert!(audit_text(text.as_bytes(), USUAL.0, USUAL.1).is_none(), "{text}");
    }
}

proptest! {
    /// A paste with a piece cut out, doubled or overwritten panics nowhere.
    #[test]
    fn broken_pastes_do_no_harm(at in any::<prop::sample::Index>(), from in any::<prop::sample::Index>(), length in 0usize..300, put in ".{0,40}") {
        let wants: Vec<&Want> = rows().collect();
        let mut bytes = paste(at.get(&wants).file);
        let begin = from.index(bytes.len());
        let end = (begin + length).min(bytes.len());
        bytes.splice(begin..end, put.bytes());
        let _ = audit_text(&bytes, USUAL.0, USUAL.1);
    }

    /// Neither do the words of these commands in any order.
    #[test]
    fn words_in_any_order_do_no_harm(words in prop::collection::vec(prop::sample::select(WORDS), 0..60), gaps in prop::collection::vec(0u8..4, 60)) {
        let mut text = String::new();
        for (word, gap) in words.iter().zip(gaps) {
            text += word;
            text += ["", " ", "\t", "\n"][usize::from(gap)];
        }
        let _ = audit_text(text.as_bytes(), USUAL.0, USUAL.1);
    }
}

const WORDS: &[&str] = &[
    "ESTAB", "0", "10.0.0.1:22", "[::1]:22", "wscale:7,7", "wscale:99,1", "rto:204", "rwnd_limited:1ms(99%)",
    "snd_wnd:1", "skmem:(r0,tb1", ")", "net.ipv4.tcp_rmem", "=", "4096", "18446744073709551615",
    "net.ipv4.tcp_adv_win_scale", "-2147483648", "default", "via", "dev", "eth0", "mtu", "lock", "window", "cache",
    "2:", "eth0:", "<UP,LOWER_UP>", "qdisc", "tbf", "root", "Features for eth0:", "scatter-gather:", "off", "[fixed]",
    "TcpInSegs", "0.0", "IpReasmReqds", "sysctl -n", "cat /proc/sys/net", "SettingName", "-----------",
    "AutoTuningLevelLocal", ":", "Normal", "Internet", "...", "ipadm show-prop", "-co current", "-p", "max_buf", "tcp",
    "rw", "--", "PROPERTY", "CURRENT", "ndd /dev/tcp", "tcp_max_buf", "é", "\u{1b}[",
];

/// Returns what the audit shows of one paste as JSON; `None` if it understands nothing.
fn host(paste: &[u8], (rtt, rate): (Duration, Rate)) -> Option<Value> {
    let reports = audit_text(paste, rtt, rate)?;
    let mut document: Value = serde_json::from_str(&reports.json).unwrap();
    Some(document["hosts"][0].take())
}

/// Returns the names and values in an array of the document.
fn pairs<'v>(array: &'v Value, name: &str) -> Vec<(&'v str, &'v str)> {
    let text = |value: &'v Value| value.as_str().unwrap_or("not shown");
    array.as_array().unwrap().iter().map(|pair| (text(&pair[name]), text(&pair["value"]))).collect()
}

fn rows() -> impl Iterator<Item = &'static Want> {
    [LINUX, WINDOWS, SOLARIS].into_iter().flatten()
}

fn paste(file: &str) -> Vec<u8> {
    fs::read(folder().join(format!("{file}.txt"))).unwrap()
}

fn folder() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/pastes"))
}
