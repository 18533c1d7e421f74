//! Tests the figures of a tunnel over time: in `/status.json`, on the dashboard in Chromium, and in `top`.

use crate::admin::browser::Browser;
use crate::admin::dashboard::{Echo, Site, WORD, assert_clean};
use crate::admin::top::Top;
use crate::harness::*;
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::TcpStream;

/// Returns the curve of the first tunnel, by the control socket. Null before the first look.
fn curve(watched: &Watched, span: &str) -> Value {
    let (code, body) = watched.get(&format!("/status.json?history={span}"));
    assert_eq!(code, 200, "{body}");
    serde_json::from_str::<Value>(&body).unwrap()["tunnels"][0]["curve"].take()
}

/// Returns the sum of a list of numbers, of which those that nobody has seen are none.
fn sum(curve: &Value, key: &str) -> f64 {
    curve[key].as_array().unwrap().iter().filter_map(Value::as_f64).sum()
}

#[test]
fn a_curve_has_what_the_tunnel_did_by_the_second_and_by_the_minute() {
    let closed = Port::reserve("127.0.0.1");
    let mut watched = Watched::start("bandwidth = \"800Mbit/s\"");
    // Without a look before it, nothing is known of a second.
    wait_until("the first looks", || curve(&watched, "10m")["flows"].as_array().is_some_and(|flows| !flows.is_empty()));
    let (mut client, mut server) = watched.flow();
    client.write_all(&pattern(1, 1_000_000)).unwrap();
    server.read_exact(&mut vec![0; 1_000_000]).unwrap();
    server.write_all(b"ok").unwrap();
    client.read_exact(&mut [0; 2]).unwrap();
    watched.to = vec![closed.address().to_string()];
    watched.reload("bandwidth = \"800Mbit/s\"");
    for _ in 0..3 {
        assert_eq!(read_to_end(&dial(&watched.port)), (Vec::new(), Ending::Reset));
    }
    wait_for_value("the failed dials", || sum(&curve(&watched, "10m"), "failed_dials"), |failed| *failed == 3.0);
    // A failed probe is a failed dial, too.
    watched.reload("bandwidth = \"800Mbit/s\"\nverify = \"1s\"\nverify_hops = 0");
    for span in ["10m", "1h", "24h"] {
        let is_complete = |curve: &Value| sum(curve, "failed_dials") > 3.0 && sum(curve, "verify_broken") > 0.0;
        let curve = wait_for_value(span, || curve(&watched, span), is_complete);
        let most = |key: &str| curve[key].as_array().unwrap().iter().filter_map(Value::as_f64).fold(0.0, f64::max);
        assert!(most("up_bits_per_second") > most("down_bits_per_second"), "{curve}");
        assert!(most("down_bits_per_second") > 0.0 && most("wan_rtt_ms") > 0.0, "{curve}");
        assert!(most("flows") >= 1.0 && most("cap_bits_per_second") == 800e6, "{curve}");
        assert_eq!(
            (curve["interval_seconds"].as_u64(), sum(&curve, "verify_whole")),
            (Some(if span == "10m" { 1 } else { 60 }), 0.0)
        );
        let incident = curve["incidents"].as_array().unwrap().last().unwrap();
        assert_eq!((&incident["health"], &incident["stage"]), (&"broken".into(), &"final host".into()), "{curve}");
    }
    // By HTTP as well, and only where it is asked for.
    let http = watched.http.address();
    assert!(by_http(http, "GET", "/status.json?history=10m").1.contains("\"curve\":"));
    assert!(!by_http(http, "GET", "/status.json").1.contains("\"curve\":"));
    let (code, why) = by_http(http, "GET", "/status.json?history=1m");
    assert!(code == 400 && why.contains("history=10m, history=1h or history=24h"), "{code} {why}");
    // A reload that removes the tunnel drops its curve.
    let text = watched.text("", "").replace("\"one\"", "\"other\"");
    assert_eq!(watched.daemon.reload(&text)["message"], "reloaded");
    wait_until("the other tunnel has its own", || curve(&watched, "24h")["failed_dials"].is_array());
    assert_eq!(sum(&curve(&watched, "24h"), "failed_dials"), 0.0);
}

/// Starts a site whose tunnel was broken for some seconds, and is whole again.
fn site_that_was_broken() -> Site {
    let mut site = Site::start();
    let seen = |site: &Site| curve(&site.watched, "10m");
    wait_until("the first looks", || seen(&site)["flows"].as_array().is_some_and(|flows| flows.len() >= 2));
    drop(site.echo.take());
    let long = |curve: &Value| {
        let incident = &curve["incidents"][0];
        let [from, until] =
            ["from", "until"].map(|end| incident[format!("{end}_unix_seconds")].as_f64().unwrap_or(0.0));
        until - from >= 3.0
    };
    wait_for_value("it is broken for three looks", || seen(&site), long);
    site.echo = Some(Echo::start(site.far.address()));
    wait_until("it is whole", || site.watched.status()["health"] == "good");
    let newest = |curve: &Value| {
        let (from, points) = (curve["from_unix_seconds"].as_f64().unwrap(), curve["flows"].as_array().unwrap().len());
        from + points as f64 > curve["incidents"][0]["until_unix_seconds"].as_f64().unwrap() + 1.5
    };
    wait_for_value("it is whole for two looks", || seen(&site), newest);
    site
}

#[test]
fn what_broke_before_the_page_was_opened_is_marked_in_its_curve() {
    let Some(mut browser) = Browser::start() else { return };
    let mut site = site_that_was_broken();
    browser.open(&site.url());
    browser.wait(&format!("{WORD} 'WHOLE'"));
    let marks = "[...document.querySelectorAll('.chart rect.mark.broken')].filter((mark) => mark.getAttribute('width') > 2).length === 1";
    browser.wait(marks);
    let told = |when: &str| {
        let text = "document.querySelector('.incidents').innerText";
        format!("/^✗ not well {when}: at worst broken at the next hop$/.test({text})")
    };
    browser.wait(&told(r"from \d\d:\d\d:\d\d to \d\d:\d\d:\d\d"));
    // The words of a moment in it, by the keyboard: the page was not open then.
    browser.value("document.querySelector('.drawing').focus()");
    let said = "document.querySelector('.drawing').getAttribute('aria-valuetext')";
    browser.press("Home");
    browser.wait(&format!("/^\\d\\d:\\d\\d:\\d\\d: up /.test({said})"));
    let found = (0..600).any(|_| {
        browser.press("ArrowRight");
        browser.text(said).ends_with("✗ not well: at worst broken at the next hop")
    });
    assert!(found, "{}", browser.text(said));
    browser.press("Escape");
    // A click chooses another time.
    for (button, span, words) in [(1, "1h", "1 h ago"), (2, "24h", "24 h ago"), (0, "10m", "min ago")] {
        browser.value(&format!("document.querySelectorAll('#spans button')[{button}].click()"));
        browser.wait(&format!("document.querySelector('#spans [aria-pressed=true]') === document.querySelectorAll('#spans button')[{button}]"));
        browser.wait(&format!("document.querySelector('.axis span').textContent.endsWith('{words}')"));
        browser.wait("document.querySelectorAll('.chart rect.mark.broken').length === 1");
        browser.wait("/up .*, down /.test(document.querySelector('.chart .words').textContent)");
        let asked = format!("history={span}");
        // After the answer that was under way at the click, which is drawn with the new time already.
        let mut requests = || {
            browser.value("0"); // takes the browser's events
            browser.requests()
        };
        wait_for_value(&asked, &mut requests, |requests| requests.iter().any(|request| request.ends_with(&asked)));
    }
    // One that goes on has no end, and the answers between those with the history tell it.
    drop(site.echo.take());
    browser.wait(&format!("{WORD} 'NOT WHOLE'"));
    browser.wait("/^✗ not well since \\d\\d:\\d\\d:\\d\\d, still: at worst broken at the next hop$/.test(document.querySelector('.incidents li').innerText)");
    assert_clean(&browser, &site.url());
}

/// Gives the tunnel four incidents, and holds the next answer back while `window.holds` is true.
const INCIDENTS: &str = r#"
    const ask = window.fetch;
    window.fetch = async (...all) => {
        const answer = await (await ask(...all)).json();
        // The same ones in each answer: the page counts one that begins at another time.
        window.now ??= Math.floor(answer.unix_seconds);
        const [tunnel, now] = [answer.tunnels[0], window.now];
        const incidents = [400, 300, 200, 100].map((ago) => ({ from_unix_seconds: now - ago, until_unix_seconds: now - ago + 50,
            goes_on: false, health: "doubtful", stage: "WAN" }));
        tunnel.last_incident = incidents[3];
        if (tunnel.curve) tunnel.curve.incidents = incidents;
        if (window.holds) await new Promise((release) => (window.release = release));
        return new Response(JSON.stringify(answer));
    };
"#;

#[test]
fn a_chart_says_how_many_incidents_there_were_and_that_it_waits_for_its_figures() {
    let Some(mut browser) = Browser::start() else { return };
    let site = Site::start();
    browser.call("Page.addScriptToEvaluateOnNewDocument", json!({"source": INCIDENTS}));
    browser.open(&site.url());
    let words = "document.querySelector('.chart .words').textContent";
    browser.wait(&format!("/^now: up /.test({words})"));
    browser.wait("document.querySelectorAll('.incidents li').length === 3");
    assert_eq!(
        browser.text("document.querySelector('.incidents').nextElementSibling.innerText"),
        "not well 4 times; the last 3 are shown"
    );
    // A click while an answer for the other time is under way.
    browser.value("window.holds = true");
    browser.wait("Boolean(window.release)");
    browser.value("document.querySelectorAll('#spans button')[1].click()");
    assert_eq!(browser.text(words), "loading the figures");
    assert_eq!(browser.value("document.querySelectorAll('.incidents li, .chart rect').length"), 0);
    assert_eq!(browser.text("document.querySelector('.axis span').textContent"), "1 h ago");
    browser.value("window.holds = false; window.release()");
    browser.wait(&format!("/up .*, down /.test({words})"));
    assert!(browser.requests().iter().any(|asked| asked.ends_with("history=1h")), "{:?}", browser.requests());
    assert_clean(&browser, &site.url());
}

#[test]
fn top_shows_the_curves_and_where_the_tunnel_was_broken() {
    let mut site = site_that_was_broken();
    let mut client = dial(&site.watched.port);
    client.write_all(&pattern(1, 100_000)).unwrap();
    client.read_exact(&mut vec![0; 100_000]).unwrap();
    let mut top = Top::start(&site.watched);
    top.wait("WHOLE: no problem is known");
    top.press("t");
    top.wait("TUNNELS AND NEXT HOPS, the last 10 minutes (c: hour)");
    top.wait("  up       ");
    top.wait("  not well ");
    top.wait("  not well from ");
    top.wait(": at worst broken at the next hop");
    top.press("c");
    top.wait("TUNNELS AND NEXT HOPS, the last hour (c: 24 hours)");
    top.press("c");
    top.wait("the last 24 hours (c: 10 minutes)");
    top.wait(": at worst broken at the next hop");
    drop(site.echo.take());
    top.wait("  not well since ");
    top.wait(", still: at worst broken at the next hop");
    top.press("q");
    top.ends();
}

/// Asserts that the cap of a flow is no column, but a line below the others.
fn assert_cap_is_a_line(browser: &mut Browser) {
    let mut side = |label: &str, side: &str| {
        let cell = format!("document.querySelector('#flows td[data-label=\"{label}\"]')");
        browser.value(&format!("{cell}.getBoundingClientRect().{side}")).as_f64().unwrap()
    };
    assert!(side("cap", "top") > side("flow", "top") + 10.0);
    let between = side("accept RTT", "left") - side("gain", "right");
    assert!(between.abs() < 2.0, "{between}");
}

#[test]
fn every_view_says_which_cap_is_in_force() {
    let site = Site::start();
    let head = "bandwidth = \"200Mbit/s\"\nbandwidth_schedule = [\"00:00-24:00 120Mbit/s\"]";
    let keys =
        "bandwidth = \"4Mbit/s\"\nbandwidth_schedule = [\"00:00-12:00 8Mbit/s\"]\nflow_bandwidth = \"400Mbit/s\"";
    site.watched.reload_with(head, keys);
    let client = dial(&site.watched.port);
    let status = || site.watched.status();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_string();
    let of_all = "cap 120 Mbit/s by the schedule; ";
    let of_tunnel = |said: &str| {
        let before = said.starts_with("cap 8 Mbit/s by the schedule until 12:00, then 4 Mbit/s; ");
        // The test may run at any time of the day.
        let after = said.starts_with("cap 4 Mbit/s until ") && said.contains(" 00:00, then 8 Mbit/s; ");
        (before || after) && said.ends_with(" % used")
    };
    std::thread::scope(|scope| {
        scope.spawn(|| while (&client).write_all(&[0; 65_536]).is_ok() {});
        scope.spawn(|| while (&client).read(&mut [0; 65_536]).is_ok_and(|bytes| bytes > 0) {});
        let _end = ShutDown(&client);
        // All of them are in use.
        let is_said = |status: &Value| {
            let [all, tunnel, flow] =
                [&status["cap"], &status["tunnels"][0]["cap"], &status["flows"][0]["cap"]].map(text);
            let is_used = |said: &str| said.ends_with(" % used") && !said.ends_with("; 0 % used");
            let of_flow = flow.starts_with("cap ") && flow.contains(" Mbit/s of the tunnel's ") && is_used(&flow);
            all.starts_with(of_all) && is_used(&all) && of_tunnel(&tunnel) && is_used(&tunnel) && of_flow
        };
        let shown = wait_for_value("each says its cap", status, is_said);
        let cap = shown["tunnels"][0]["cap_bits_per_second"].as_u64().unwrap();
        assert!([4_000_000, 8_000_000].contains(&cap), "{shown}");
        let page = by_socket(&site.watched.socket(), "GET", "/metrics").1;
        for line in [
            "longhaul_process_cap_bytes_per_second 15000000.0\n".to_string(),
            format!("longhaul_tunnel_cap_bytes_per_second{{tunnel=\"one\"}} {}.0\n", cap / 8),
            "longhaul_tunnel_flow_cap_bytes_per_second{tunnel=\"one\"} 50000000.0\n".to_string(),
        ] {
            assert!(page.contains(&line), "{line}: {page}");
        }
        let said = stdout(&site.watched.command(&["status"]));
        assert!(
            said.contains(&format!("\nall tunnels: {of_all}")) && said.contains(" Mbit/s of the tunnel's "),
            "{said}"
        );
        assert!(said.contains("then 4 Mbit/s; ") || said.contains("then 8 Mbit/s; "), "{said}");
        let once = stdout(&site.watched.command(&["top", "--once", "--interval", "100ms"]));
        assert!(once.contains(of_all), "{once}");
        if let Some(mut browser) = Browser::start() {
            browser.open(&site.url());
            browser.wait("document.getElementById('facts').innerText.includes('cap 120 Mbit/s by the schedule; ')");
            browser.wait("/^cap [48] Mbit.s .* then [48] Mbit.s; \\d+ % used$/.test([...document.querySelectorAll('.card .about')].at(-1).textContent)");
            let cap = "document.querySelector('#flows td[data-label=cap]')";
            browser.wait(&format!("/^cap [0-9.]{{1,4}} Mbit.s of the tunnel's /.test({cap}.textContent)"));
            assert_cap_is_a_line(&mut browser);
            assert_clean(&browser, &site.url());
        }
    });
}

/// Shuts a connection down when it is dropped, so that the threads which use it end, also if an assertion fails.
struct ShutDown<'a>(&'a TcpStream);

impl Drop for ShutDown<'_> {
    fn drop(&mut self) {
        // It fails if the relay has reset the flow by now.
        let _ = self.0.shutdown(std::net::Shutdown::Both);
    }
}

#[test]
fn distributions_of_legs_that_never_carried_are_left_out() {
    let watched = Watched::start("");
    let page = || by_socket(&watched.socket(), "GET", "/metrics").1;
    let lines = |page: &str| page.lines().filter(|line| line.contains("tunnel=\"one\"")).count();
    let idle = page();
    for name in [
        "longhaul_leg_rtt", "longhaul_leg_delivery", "longhaul_leg_samples", "longhaul_legs",
        "longhaul_tunnel_dial_seconds",
    ] {
        assert!(!idle.contains(name), "{name}: {idle}");
    }
    assert!(
        idle.contains("longhaul_leg_retransmitted_bytes_total{tunnel=\"one\",leg=\"dial\"} 0\n"),
        "a counter stays"
    );
    assert!(lines(&idle) < 60, "{}: {idle}", lines(&idle));
    let (client, server) = watched.flow();
    wait_until("the dial is told", || page().contains("longhaul_tunnel_dial_seconds_count{tunnel=\"one\"} 1\n"));
    assert!(page().contains("longhaul_legs{tunnel=\"one\",leg=\"dial\",limit=\"application\"} 1\n"));
    talk(&client, &server);
}
