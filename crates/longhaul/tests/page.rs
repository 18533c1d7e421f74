//! Tests the pages of `longhaul lab run --html`, `longhaul advise --html` and `longhaul path --html` in a real browser: Chromium loads
//! and paints them, and the expected texts are in them.
//!
//! The lab needs root, of the system or of a user namespace; both need Chromium. A test that cannot run here prints SKIP and the reason; it
//! fails if the environment variable CI is set.

#![allow(clippy::unwrap_used)] // clippy.toml allows it in tests, but not in what tests call

#[path = "common/chromium.rs"]
mod browser;

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

const SCENARIO: &str = r#"
about = "a page <script>document.title = 'bad'</script> in a browser"
source = "a test"
link = { rtt = "10ms", rate = "100Mbit/s" }

[[run]]
id = "raw-both"
what = "a small window and a relay"
host = { window = "64KiB" }
carriers = ["direct", "longhaul"]
traffic = { kind = "raw", time = "1500ms" }
computed = "window"

[[run]]
id = "not-tried"
skip = "it cannot be emulated"
"#;

/// Prints that this machine cannot run the test, and why; fails in CI.
fn skip(why: &str) {
    assert!(std::env::var_os("CI").is_none(), "cannot run in CI: {why}");
    println!("SKIP: {why}");
}

fn longhaul(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_longhaul")).args(arguments).current_dir(folder).output().unwrap()
}

/// Runs Chromium on the page in `folder`; returns `None` if it is not installed.
fn chromium(folder: &Path, arguments: &[&str]) -> Option<Output> {
    let program = browser::program().map_err(skip).ok()?;
    let mut command = Command::new(program);
    // Chromium has no sandbox for root. No host name resolves, so a page that loads anything from the network lacks it.
    command.args(["--headless", "--no-sandbox", "--disable-gpu", "--host-resolver-rules=MAP * ~NOTFOUND"]);
    command.arg(format!("--user-data-dir={}", folder.join("profile").display())).args(arguments);
    command.arg(format!("file://{}", folder.join("page.html").display())).env("HOME", folder);
    Some(command.output().unwrap())
}

#[test]
fn a_browser_shows_the_page() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::write(folder.join("small.toml"), SCENARIO).unwrap();
    let run = longhaul(folder, &["lab", "run", "small.toml", "--html", "page.html"]);
    let stderr = String::from_utf8_lossy(&run.stderr).into_owned();
    if stderr.contains("the lab cannot be built") || stderr.contains("not permitted") || stderr.contains("/dev/net/tun")
    {
        return skip(&stderr);
    }
    assert!(run.status.success(), "{stderr}{}", String::from_utf8_lossy(&run.stdout));

    let Some(dom) = chromium(folder, &["--dump-dom"]) else { return };
    let text = String::from_utf8_lossy(&dom.stdout).into_owned();
    for expected in [
        "<title>longhaul lab: small</title>",
        "a page &lt;script&gt;document.title = 'bad'&lt;/script&gt; in a browser",
        "With longhaul this TCP transfer is",
        "3 runs: 2 without an expectation, 1 left out.",
        "64 KiB window",
        "10 ms round trip",
        "– left out: it cannot be emulated",
        "Throughput, MB/s",
        "Round trip as TCP sees it, ms",
        "longhaul relay --listen 6000 --to 10.99.0.2:6000",
        "longhaul lab run small.toml --html page.html",
    ] {
        assert!(text.contains(expected), "{expected:?} is missing: {text}\n{}", String::from_utf8_lossy(&dom.stderr));
    }
    assert!(!text.contains("<script"), "{text}");
    paints(folder);
}

/// Paints the page in `folder` for a wide and a narrow screen.
fn paints(folder: &Path) {
    for (name, width) in [("wide.png", 1200), ("narrow.png", 500)] {
        let shot = folder.join(name);
        let arguments = [format!("--screenshot={}", shot.display()), format!("--window-size={width},1600")];
        let Some(painted) = chromium(folder, &[&arguments[0], &arguments[1]]) else { return };
        let size = fs::metadata(&shot).map_or(0, |file| file.len());
        // An empty page of 1200 by 1600 is 9 kB.
        assert!(size > 30_000, "{name}: {size} bytes; {}", String::from_utf8_lossy(&painted.stderr));
    }
}

#[test]
fn a_browser_shows_the_advice() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let flags = ["--rtt", "63ms", "--rate", "10Gbit/s", "--os", "aix", "--app", "ssh", "--bytes", "2TB"];
    let run = longhaul(folder, &[&["advise", "--html", "page.html"], &flags[..]].concat());
    assert!(run.status.success() && run.stderr.is_empty(), "{}", String::from_utf8_lossy(&run.stderr));
    let plain = longhaul(folder, &[&["advise"], &flags[..]].concat());
    assert_eq!(run.stdout, plain.stdout, "the page comes besides the text");

    let Some(dom) = chromium(folder, &["--dump-dom"]) else { return };
    let text = String::from_utf8_lossy(&dom.stdout).into_owned();
    for expected in [
        "<title>longhaul advise: 63ms, 10Gbit/s, no loss, MTU 1500</title>",
        "with a relay at each site 33.3&nbsp;MB/s.",
        "Rate of one connection, MB/s",
        "Slow start: rate in the first 30 s, MB/s",
        ">63 ms</text>",
        "293 connections: 1217 MB/s",
        "<pre>no -o sb_max</pre>",
        "unverified",
    ] {
        assert!(text.contains(expected), "{expected:?} is missing: {text}\n{}", String::from_utf8_lossy(&dom.stderr));
    }
    paints(folder);
}

#[test]
fn a_browser_shows_the_comparison() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let before = fs::read_to_string("../longhaul-doctor/tests/page/path.json").unwrap();
    fs::write(folder.join("before.json"), &before).unwrap();
    fs::write(folder.join("after.json"), before.replace("\"payload_mbps\":5.45", "\"payload_mbps\":415.0")).unwrap();
    let run = longhaul(folder, &["path", "--compare", "before.json", "after.json", "--html", "page.html"]);
    assert!(run.status.success() && run.stderr.is_empty(), "{}", String::from_utf8_lossy(&run.stderr));

    let Some(dom) = chromium(folder, &["--dump-dom"]) else { return };
    let text = String::from_utf8_lossy(&dom.stdout).into_owned();
    for expected in [
        "<title>longhaul path: 10.20.20.10:7000, before and after</title>",
        "Up, one connection carries 415&nbsp;Mbit/s, 76.1 times the 5.45&nbsp;Mbit/s before.",
        "Up: from this host to the far one, Mbit/s",
        "x 76.1",
    ] {
        assert!(text.contains(expected), "{expected:?} is missing: {text}\n{}", String::from_utf8_lossy(&dom.stderr));
    }
    paints(folder);
}

/// A saved result and one of the lab are enough for the page: nothing is measured.
#[test]
fn a_browser_shows_the_result_of_the_lab() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::copy("../longhaul-doctor/tests/page/path.json", folder.join("path.json")).unwrap();
    let run = |carrier: &str, speed: f64| {
        format!(r#"{{"carrier": "{carrier}", "what": "one connection", "rtt_ms": 63.1, "measured_MBps": {speed}}}"#)
    };
    let runs = format!("{}, {}", run("direct", 4.1), run("longhaul", 29.0));
    let lab = format!(r#"{{"scenario": "mine", "kernel": "6.18.5", "cpus": 2, "runs": [{runs}]}}"#);
    fs::write(folder.join("lab.json"), lab).unwrap();
    let page = |more: &[&str]| longhaul(folder, &[&["path", "--from", "path.json"], more].concat());
    let written = page(&["--lab", "lab.json", "--html", "page.html"]);
    assert!(written.status.success() && written.stderr.is_empty(), "{}", String::from_utf8_lossy(&written.stderr));
    for (words, why) in [
        (&["--lab", "lab.json"][..], "--html <FILE>"),
        (&["--lab", "path.json", "--html", "page.html"], "--lab: path.json: it is no report of the lab"),
        (&["--lab", "none.json", "--html", "page.html"], "--lab: none.json: No such file"),
    ] {
        let refused = page(words);
        let stderr = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(refused.status.code() == Some(2) && stderr.contains(why), "{stderr}");
    }

    let Some(dom) = chromium(folder, &["--dump-dom"]) else { return };
    let text = String::from_utf8_lossy(&dom.stdout).into_owned();
    let expected = "This path, these hosts: direct 4.10, longhaul 29.0&nbsp;MB/s, measured in the lab.";
    assert!(text.contains(expected), "{text}\n{}", String::from_utf8_lossy(&dom.stderr));
    paints(folder);
}

#[test]
fn advice_without_its_page_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let flags = ["advise", "--rtt", "63ms", "--rate", "10Gbit/s", "--os", "aix", "--html", "no-such-folder/page.html"];
    let run = longhaul(folder, &flags);
    let stderr = String::from_utf8_lossy(&run.stderr).into_owned();
    assert_eq!((run.status.code(), run.stdout.len()), (Some(2), 0), "{stderr}");
    assert!(stderr.starts_with("error: --html: no-such-folder/page.html cannot be written: "), "{stderr}");
    assert!(stderr.contains("name a file in a folder that exists"), "{stderr}");
}

#[test]
fn an_unwritable_page_is_an_error_before_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::write(folder.join("small.toml"), SCENARIO).unwrap();
    for place in ["no-such-folder/page.html", "."] {
        let run = longhaul(folder, &["lab", "run", "small.toml", "--html", place]);
        let stderr = String::from_utf8_lossy(&run.stderr).into_owned();
        assert_eq!(run.status.code(), Some(2), "{stderr}");
        assert!(stderr.contains("error: --html") && stderr.contains("name a file in a folder that exists"), "{stderr}");
        // Only one line: no run was begun.
        assert_eq!(stderr.lines().count(), 1, "{stderr}");
    }
    assert_eq!(fs::read_dir(folder).unwrap().count(), 1, "the command left a file");
}
