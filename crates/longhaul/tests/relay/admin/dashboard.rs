//! Tests the dashboard in a real browser, Chromium, against a daemon with real flows.

use crate::admin::CHECKED;
use crate::admin::browser::Browser;
use crate::harness::*;
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::thread::JoinHandle;
use std::time::Duration;

/// A daemon whose next hop is checked and sends back what comes.
pub(super) struct Site {
    pub(super) watched: Watched,
    pub(super) far: Port,
    pub(super) echo: Option<Echo>,
}

impl Site {
    pub(super) fn start() -> Site {
        let far = Port::reserve("127.0.0.1");
        // Before the daemon, whose first check would find nobody.
        let echo = Some(Echo::start(far.address()));
        Site { watched: Watched::start_to(&[far.address()], CHECKED), far, echo }
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}/", self.watched.http.address())
    }

    /// Returns the answer to a request as text.
    fn get(&self, path: &str) -> String {
        ask(patient(TcpStream::connect(self.watched.http.address()).unwrap()), &format!("GET {path}"), "*/*")
    }
}

/// A server that sends back what comes. Dropping it closes its listener and its connections.
pub(super) struct Echo {
    listener: TcpListener,
    /// Returns the connections once the listener is closed.
    accepts: Option<JoinHandle<Vec<TcpStream>>>,
}

impl Echo {
    pub(super) fn start(address: SocketAddr) -> Echo {
        let listener = TcpListener::bind(address).unwrap();
        let ours = listener.try_clone().unwrap();
        let accepts = std::thread::spawn(move || {
            let mut accepted = Vec::new();
            while let Ok((stream, _)) = ours.accept() {
                accepted.push(stream.try_clone().unwrap());
                std::thread::spawn(move || echo_until_the_end(stream));
            }
            accepted
        });
        Echo { listener, accepts: Some(accepts) }
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        // Ends accept(2).
        let _ = socket2::SockRef::from(&self.listener).shutdown(Shutdown::Both);
        let accepted = self.accepts.take().map(JoinHandle::join).unwrap().unwrap_or_default();
        accepted.iter().for_each(|stream| drop(stream.shutdown(Shutdown::Both)));
    }
}

/// Sends back what comes, until either side has ended.
fn echo_until_the_end(mut stream: TcpStream) {
    // It fails if the other side has reset the connection.
    let _ = std::io::copy(&mut stream.try_clone().unwrap(), &mut stream);
    let _ = stream.shutdown(Shutdown::Both);
}

/// Flows through the tunnel that send and receive until the value is dropped.
struct Load {
    clients: Vec<TcpStream>,
    threads: Vec<JoinHandle<()>>,
}

impl Load {
    fn start(port: &Port, flows: usize) -> Load {
        let clients: Vec<TcpStream> = (0..flows).map(|_| dial(port)).collect();
        let run = |client: &TcpStream| {
            let mut client = client.try_clone().unwrap();
            std::thread::spawn(move || {
                let mut bytes = pattern(7, 32 * 1024);
                while client.write_all(&bytes).is_ok() && client.read_exact(&mut bytes).is_ok() {
                    // A pause, so that the load leaves the processor to the browser.
                    std::thread::sleep(Duration::from_millis(5));
                }
            })
        };
        let threads = clients.iter().map(run).collect();
        Load { clients, threads }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        for client in &self.clients {
            let _ = client.shutdown(Shutdown::Both);
        }
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
    }
}

/// The cells of the table of flows: one object for each row, from a column to its text.
const ROWS: &str = "[...document.querySelectorAll('#flows tbody tr')].map((row) => \
                    Object.fromEntries([...row.cells].map((cell) => [cell.dataset.label, cell.textContent])))";
/// Whether the page shows this word as the state.
pub(super) const WORD: &str = "document.getElementById('word').textContent === ";

/// Whether `text`, such as `1.23 MB`, is `number` with two decimals at most.
fn is(text: &str, number: f64) -> bool {
    let Some((digits, unit)) = text.split_once(' ') else { return false };
    let factor = match unit {
        "B" | "bit/s" | "ms" => 1.0,
        "kB" | "kbit/s" => 1e3,
        "MB" | "Mbit/s" => 1e6,
        "GB" | "Gbit/s" => 1e9,
        _ => return false,
    };
    let decimals = digits.split_once('.').map_or(0, |(_, decimals)| decimals.len());
    let shown: f64 = digits.parse().unwrap();
    (shown * factor - number).abs() <= 0.501 * factor * 0.1_f64.powi(decimals as i32)
}

/// Whether `rows` show the flows of `answer`, and the rates since `before`.
fn shows(rows: &[Value], before: &Value, answer: &Value) -> bool {
    let flows = answer["flows"].as_array().unwrap();
    let seconds = answer["uptime_seconds"].as_f64().unwrap() - before["uptime_seconds"].as_f64().unwrap();
    let digits = |number: &Value| number.to_string();
    let row_shows = |row: &Value| {
        let cell = |label: &str| row[label].as_str().unwrap();
        let of = |document: &Value| {
            let flows = document["flows"].as_array().unwrap();
            flows.iter().find(|flow| digits(&flow["flow"]) == cell("flow")).cloned()
        };
        let (Some(flow), Some(old)) = (of(answer), of(before)) else { return false };
        let number = |flow: &Value, key: &str| flow[key].as_f64().unwrap();
        let rate = |key: &str| (number(&flow, key) - number(&old, key)) * 8.0 / seconds;
        cell("client") == flow["peer"]
            && cell("next hop") == flow["next_hop_address"]
            && cell("tunnel") == "one"
            && cell("state") == "open"
            && cell("limited by") == flow["finding"]["kind"]
            && is(cell("up"), number(&flow, "up_bytes"))
            && is(cell("down"), number(&flow, "down_bytes"))
            && is(cell("rate up"), rate("up_bytes"))
            && is(cell("rate down"), rate("down_bytes"))
            && ["accept", "dial"].iter().all(|leg| {
                is(cell(&format!("{leg} RTT")), number(&flow[leg], "rtt_ms"))
                    && cell(&format!("{leg} cwnd")) == digits(&flow[leg]["cwnd_segments"])
                    && is(cell(&format!("{leg} retrans")), number(&flow[leg], "retrans_bytes"))
                    && cell(&format!("{leg} control")) == flow[leg]["congestion"]
                    && flow[leg]["delivery_bits_per_second"]
                        .as_f64()
                        .is_none_or(|rate| is(cell(&format!("{leg} delivery")), rate))
            })
    };
    seconds > 0.0 && rows.len() == flows.len() && rows.iter().all(row_shows)
}

/// Asserts that the page has written nothing on the console and has asked nobody but its own daemon.
pub(super) fn assert_clean(browser: &Browser, url: &str) {
    assert_eq!(browser.complaints(), Vec::<Value>::new());
    let strangers: Vec<String> = browser.requests().into_iter().filter(|asked| !asked.starts_with(url)).collect();
    assert_eq!(strangers, Vec::<String>::new());
}

#[test]
fn the_figures_move_and_are_those_of_status_json() {
    let Some(mut browser) = Browser::start() else { return };
    let site = Site::start();
    let load = Load::start(&site.watched.port, 6);
    browser.open(&site.url());
    browser.wait(&format!("{WORD} 'WHOLE'"));
    browser.wait("document.querySelectorAll('#flows tbody tr').length === 6");
    // They move.
    let up = "document.querySelector('#flows tbody tr').cells[8].textContent";
    let first = browser.text(up);
    browser.wait(&format!("{up} !== '{first}' && !/^(-|0 bit)/.test(document.querySelector('#facts dd').textContent)"));
    browser.wait("/now: up [1-9]/.test(document.querySelector('.chart .words').textContent)");
    browser.wait("document.querySelector('.line.up').getAttribute('d').includes('H')");
    // They stand still, and are those of one answer.
    browser.value("document.getElementById('hold').click()");
    let rows = browser.value(ROWS);
    let rows = rows.as_array().unwrap();
    let answers = browser.documents("/status.json");
    assert!(answers.len() >= 2, "{}", answers.len());
    let shown = answers.windows(2).any(|pair| shows(rows, &pair[0], &pair[1]));
    assert!(shown, "{rows:#?}\n{:#?}", answers.last());
    browser.value("document.getElementById('hold').click()");
    // The table follows when the flows end.
    drop(load);
    browser.wait("document.querySelectorAll('#flows tbody tr').length === 0");
    browser.wait("document.getElementById('flow-count').textContent === '0 flows'");
    assert_clean(&browser, &site.url());
}

#[test]
fn the_state_turns_when_a_next_hop_dies_and_comes_back() {
    let Some(mut browser) = Browser::start() else { return };
    let mut site = Site::start();
    browser.open(&site.url());
    browser.wait(&format!("{WORD} 'WHOLE'"));
    drop(site.echo.take());
    browser.wait(&format!("{WORD} 'NOT WHOLE'"));
    let problem = browser.text("document.getElementById('problems').innerText");
    let what = format!("tunnel one, next hop: every next hop is down by its checks: {} (", site.far.address());
    assert!(problem.starts_with(&format!("✗ BROKEN {what}")) && problem.contains("since "), "{problem}");
    let said = browser.text("document.getElementById('announcement').textContent");
    assert!(said.starts_with(&format!("NOT WHOLE. {what}")), "{said}");
    assert!(browser.text("document.title").starts_with("✗ NOT WHOLE"));
    browser.wait("document.querySelector('.card .state').textContent === '✗ broken'");
    browser.wait("document.querySelector('.hops td:nth-child(2)').textContent === '✗ down'");
    site.echo = Some(Echo::start(site.far.address()));
    browser.wait(&format!("{WORD} 'WHOLE'"));
    browser.wait("document.getElementById('problems').children.length === 0");
    assert_clean(&browser, &site.url());
    // A file that is refused: its text is no markup.
    let bad = site.watched.text("", CHECKED).replace("\"one\"", "\"<img src=x>\"");
    assert_eq!(site.watched.daemon.reload(&bad)["message"], "reload refused: the old configuration stays");
    browser.wait("document.getElementById('problems').innerText.includes('<img src=x>')");
    // A daemon that is gone, and one that has come again.
    site.watched.kill();
    browser.wait(&format!("{WORD} 'NO ANSWER'"));
    let reason = browser.text("document.getElementById('reason').textContent");
    assert!(reason.contains("has not answered since") && reason.contains("when it was WHOLE"), "{reason}");
    assert_eq!(browser.value("document.getElementById('figures').classList.contains('old')"), true);
    site.watched.start_again(CHECKED);
    browser.wait(&format!("{WORD} 'WHOLE' && !document.querySelector('.old')"));
}

#[test]
fn the_keyboard_reaches_everything_in_order_and_the_focus_is_seen() {
    let Some(mut browser) = Browser::start() else { return };
    let site = Site::start();
    let _load = Load::start(&site.watched.port, 2);
    browser.open(&site.url());
    browser.wait("document.querySelectorAll('#flows tbody tr').length === 2");
    browser.wait("/now: up/.test(document.querySelector('.chart .words').textContent)");
    let focused = "(() => { const now = document.activeElement, style = getComputedStyle(now); \
                   if (now === document.body) return 'the end'; \
                   const seen = style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2; \
                   return (seen ? '' : 'unseen ') + (now.id || now.getAttribute('aria-label') || now.textContent); })()";
    let mut order = Vec::new();
    while order.len() < 100 {
        browser.press("Tab");
        match browser.text(focused).as_str() {
            "the end" => break,
            name => order.push(name.trim_end_matches([' ', '▲', '▼']).to_string()),
        }
    }
    let first =
        ["10 min", "1 h", "24 h", "figures of one over time", "filter", "sort", "direction", "hold", "flow-scroll"];
    let columns = "flow,tunnel,client,next hop,state,age,rate up,rate down,up,down,limited by,gain";
    let legs = ["accept", "dial"]
        .map(|leg| ["RTT", "cwnd", "retrans", "delivery", "control"].map(|column| format!("{leg} {column}")));
    let mut want: Vec<String> = first.iter().map(ToString::to_string).collect();
    want.extend(columns.split(',').map(Into::into));
    want.extend(legs.into_iter().flatten());
    assert_eq!(order, want);
    // An arrow key chooses a moment of the chart, and Escape leaves it.
    browser.value("document.querySelector('.drawing').focus()");
    browser.press("ArrowLeft");
    browser
        .wait("/^\\d\\d:\\d\\d:\\d\\d: up /.test(document.querySelector('.drawing').getAttribute('aria-valuetext'))");
    browser.press("Escape");
    browser.wait("/^now: /.test(document.querySelector('.chart .words').textContent)");
    // Enter on a column sorts by it.
    browser.value("document.querySelectorAll('#flows thead button')[2].focus()");
    browser.press("Enter");
    browser
        .wait("document.querySelectorAll('#flows thead th[scope=col]')[2].getAttribute('aria-sort') === 'ascending'");
    let clients = "[...document.querySelectorAll('#flows tbody tr')].map((row) => row.cells[2].textContent)";
    browser.wait(&format!("(({clients}) + '') === ({clients}).sort() + ''"));
    assert_clean(&browser, &site.url());
}

#[test]
fn many_flows_are_filtered_and_the_rest_is_counted() {
    let Some(mut browser) = Browser::start() else { return };
    let site = Site::start();
    let clients: Vec<TcpStream> = (0..210).map(|_| dial(&site.watched.port)).collect();
    browser.open(&site.url());
    let count = "document.getElementById('flow-count').textContent";
    browser.wait(&format!("{count} === '210 flows, the first 200 are shown, 10 are not'"));
    assert_eq!(browser.value("document.querySelectorAll('#flows tbody tr').length"), 200);
    let peer = clients[150].local_addr().unwrap();
    browser.value("document.getElementById('filter').focus()");
    browser.call("Input.insertText", json!({"text": format!("ONE {peer}")}));
    browser.wait(&format!("{count} === '1 of 210 flows match'"));
    assert_eq!(browser.value(ROWS)[0]["client"], peer.to_string());
    // Nobody looks: it does not ask. Somebody looks again: it asks at once.
    let look = |hidden: bool| {
        format!(
            "Object.defineProperty(document, 'hidden', {{ configurable: true, value: {hidden} }}); \
             document.dispatchEvent(new Event('visibilitychange'))"
        )
    };
    browser.value(&look(true));
    // A request that is under way ends.
    let idle = "performance.getEntriesByType('resource').at(-1).responseEnd + 500 < performance.now()";
    browser.wait(idle);
    let asked = browser.requests().len();
    // Absence has no event to wait for. Three intervals would show it.
    browser.value("new Promise((done) => setTimeout(done, 3000))");
    assert_eq!(browser.requests().len(), asked);
    browser.value(&look(false));
    wait_for("the page asks again", || {
        browser.value("0");
        if browser.requests().len() > asked { Ok(()) } else { Err(asked) }
    });
    assert_clean(&browser, &site.url());
}

/// Gives the tunnel results of verify, and the process resources, in each answer that the page gets.
const MORE_FIGURES: &str = r#"
    const ask = window.fetch;
    window.fetch = async (...all) => {
        const answer = await (await ask(...all)).json();
        const result = (whole, unix_seconds) => whole
            ? { unix_seconds, whole, seconds: 0.031, rtt_ms: 63.12, goodput_bits_per_second: 812.3e6 }
            : { unix_seconds, whole, seconds: 5, stage: "far relay", cause: "no answer" };
        answer.tunnels[0].verify = {
            state: "broken", health: "doubtful", since_unix_seconds: 1, interval_seconds: 30, stage: "far relay", cause: "no answer", why: "a:1",
            last_unix_seconds: 61, overdue: true, no_newer: "the daemon is draining and makes no probes",
            history: [result(true, 1), result(true, 31), result(false, 61)],
        };
        answer.resources = [
            { name: "congestion controls", unit: "", detail: "reno cubic" },
            { name: "cpu", used: 0.125, limit: 2, unit: "CPUs" },
            { name: "memory", used: 48e6, limit: 8e9, unit: "bytes" },
            { name: "descriptors", used: 900, limit: 1000, unit: "descriptors", warning: "few are left", remedy: "LimitNOFILE=262144" },
        ];
        return new Response(JSON.stringify(answer));
    };
"#;

#[test]
fn results_of_verify_and_resources_are_told_in_words() {
    let Some(mut browser) = Browser::start() else { return };
    let site = Site::start();
    browser.open(&site.url());
    browser.wait(&format!("{WORD} 'WHOLE'"));
    browser.wait("document.querySelectorAll('#resources li').length > 3");
    assert_eq!(
        browser.value("document.querySelector('.verify').checkVisibility()"),
        false,
        "no tunnel has the key verify"
    );
    browser.call("Page.addScriptToEvaluateOnNewDocument", json!({"source": MORE_FIGURES}));
    browser.open(&site.url());
    browser.wait("document.querySelectorAll('.strip rect.broken').length === 1");
    assert_eq!(browser.value("document.querySelectorAll('.strip rect.whole').length"), 2);
    let verify = browser.text("document.querySelector('.verify').innerText");
    for words in [
        "! broken at far relay: no answer (a:1) since 1970-01-01",
        "every 30s; last result ",
        " ago, no newer one: the daemon is draining and makes no probes",
        "took 5.0 s; 1 broken of 3 results",
    ] {
        assert!(verify.contains(words), "{words}: {verify}");
    }
    browser.value("document.querySelector('.strip').focus()");
    browser.press("Home");
    browser.wait("/1970-01-01 .*: whole, took 31 ms, RTT 63.1 ms, 812.30 Mbit\\/s$/.test(document.querySelector('.strip').getAttribute('aria-valuetext'))");
    let resources = browser.text("document.getElementById('resources').innerText");
    for words in [
        "reno cubic",
        "0.13 of 2.00 CPUs (6 %)",
        "48.00 MB of 8.00 GB (1 %)",
        "! descriptors",
        "900 of 1000 descriptors (90 %)",
        "few are left; LimitNOFILE=262144",
    ] {
        assert!(resources.contains(words), "{words}: {resources}");
    }
    assert_clean(&browser, &site.url());
}

/// The worst contrast of a text in the page, as WCAG 2.2 computes it, and that text.
const CONTRAST: &str = r"(() => {
    const parts = (color) => color.match(/[\d.]+/g).map(Number);
    const light = (color) => {
        const linear = (part) => (part / 255 <= 0.04045 ? part / 255 / 12.92 : ((part / 255 + 0.055) / 1.055) ** 2.4);
        const [red, green, blue] = parts(color).map(linear);
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
    };
    const behind = (node) => {
        const color = node ? getComputedStyle(node).backgroundColor : 'rgb(255, 255, 255)';
        return parts(color)[3] === 0 ? behind(node.parentElement) : color;
    };
    const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    let worst = [99, ''];
    while (texts.nextNode()) {
        const [node, text] = [texts.currentNode.parentElement, texts.currentNode.data.trim()];
        if (!text || node.closest('noscript') || !node.checkVisibility()) continue;
        const [one, two] = [light(getComputedStyle(node).color), light(behind(node))];
        const contrast = (Math.max(one, two) + 0.05) / (Math.min(one, two) + 0.05);
        if (contrast < worst[0]) worst = [contrast, text];
    }
    return worst;
})()";

#[test]
fn a_phone_and_the_dark_have_it_readable() {
    let Some(mut browser) = Browser::start() else { return };
    let mut site = Site::start();
    let _load = Load::start(&site.watched.port, 2);
    browser.open(&site.url());
    browser.wait("document.querySelectorAll('#flows tbody tr').length === 2");
    for width in [1400, 1000] {
        browser.resize(width, 900);
        assert_eq!(
            browser.value("document.scrollingElement.scrollWidth <= document.documentElement.clientWidth"),
            true,
            "{width}"
        );
        // The only card has the row, up to a width that can be read.
        let row = "document.getElementById('tunnels').clientWidth";
        let is_wide = format!("document.querySelector('.card').offsetWidth === Math.min(1024, {row})");
        assert_eq!(browser.value(&is_wide), true, "{width}");
    }
    browser.resize(360, 740);
    assert_eq!(browser.value("document.scrollingElement.scrollWidth"), 360, "nothing is cut off at the right");
    let labels = "getComputedStyle(document.querySelector('#flows tbody td'), '::before').content";
    assert_eq!(browser.text(labels), "\"flow \"");
    drop(site.echo.take());
    browser.wait(&format!("{WORD} 'NOT WHOLE'"));
    assert_eq!(browser.value("document.scrollingElement.scrollWidth"), 360);
    for scheme in ["light", "dark"] {
        browser.call(
            "Emulation.setEmulatedMedia",
            json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]}),
        );
        let worst = browser.value(CONTRAST);
        // WCAG 2.2, 1.4.3
        assert!(worst[0].as_f64().unwrap() >= 4.5, "{scheme}: {worst}");
    }
    assert_clean(&browser, &site.url());
}

#[test]
fn the_page_is_strict_and_says_what_to_use_without_scripts() {
    let site = Site::start();
    for (path, kind) in [("/", "text/html"), ("/page/main.js", "text/javascript"), ("/page/style.css", "text/css")] {
        let answer = site.get(path).to_lowercase();
        let head = answer.split_once("\r\n\r\n").unwrap().0;
        assert!(head.starts_with("http/1.1 200 ok") && head.contains(&format!("content-type: {kind}")), "{head}");
        for line in [
            "content-security-policy: default-src 'none'; script-src 'self';",
            "x-content-type-options: nosniff",
            "referrer-policy: no-referrer",
            "cache-control: no-store",
        ] {
            assert!(head.contains(line), "{path}: {line}: {head}");
        }
        assert!(!head.contains("unsafe"), "{head}");
    }
    let Some(mut browser) = Browser::start() else { return };
    browser.call("Emulation.setScriptExecutionDisabled", json!({"value": true}));
    browser.open(&site.url());
    wait_for("the page", || match browser.text("document.body?.innerText") {
        text if text.contains("longhaul status") => Ok(()),
        text => Err(text),
    });
    assert_eq!(browser.events("Runtime.exceptionThrown"), Vec::<Value>::new());
}
