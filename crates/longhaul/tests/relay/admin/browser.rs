//! A headless Chromium for tests of pages, driven by the DevTools protocol
//! (<https://chromedevtools.github.io/devtools-protocol/>). The messages go through two pipes, and each ends with a zero byte.

use crate::chromium;
use crate::harness::*;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::process::{ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A browser with one page.
pub(crate) struct Browser {
    process: Running,
    commands: ChildStdin,
    messages: Receiver<Value>,
    /// Names the page in each message.
    session: String,
    /// Number of the last command.
    number: u64,
    /// Events of the page, the oldest first.
    events: Vec<Value>,
    _profile: TempDir,
}

impl Browser {
    /// Starts a browser with an empty page of 1280 by 900. Prints SKIP and returns `None` if there is none on this machine.
    pub(crate) fn start() -> Option<Browser> {
        let program = chromium::program().map_err(skip).ok()?;
        let profile = tempfile::tempdir().unwrap();
        // --remote-debugging-pipe reads commands from descriptor 3, and writes messages to descriptor 4.
        let mut command = Command::new("sh");
        command.args(["-c", r#"exec "$0" "$@" 3<&0 4>&1 </dev/null >/dev/null 2>&1"#, program]);
        // Chromium has no sandbox for root. No host name resolves, and its own services stay silent.
        command.args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
        ]);
        command.args(["--disable-background-networking", "--no-first-run", "--remote-debugging-pipe"]);
        command.arg(format!("--user-data-dir={}", profile.path().display())).arg("about:blank");
        command.env("HOME", profile.path()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = Running(command.spawn().unwrap());
        let (commands, answers) = (process.0.stdin.take().unwrap(), process.0.stdout.take().unwrap());
        let (sender, messages) = channel();
        std::thread::spawn(move || {
            for message in BufReader::new(answers).split(0).map_while(Result::ok) {
                drop(sender.send(serde_json::from_slice(&message).expect("a message is JSON")));
            }
        });
        let (session, events) = (String::new(), Vec::new());
        let mut browser = Browser { process, commands, messages, session, number: 0, events, _profile: profile };
        let target = browser.call("Target.createTarget", json!({"url": "about:blank"}))["targetId"].clone();
        let attached = browser.call("Target.attachToTarget", json!({"targetId": target, "flatten": true}));
        browser.session = attached["sessionId"].as_str().unwrap().into();
        for domain in ["Page", "Runtime", "Log", "Network"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        browser.resize(1280, 900);
        Some(browser)
    }

    /// Runs a command of the protocol; returns its result.
    pub(crate) fn call(&mut self, method: &str, parameters: Value) -> Value {
        self.try_call(method, parameters).unwrap_or_else(|err| panic!("{method}: {err}"))
    }

    /// Like [`Browser::call`].
    ///
    /// # Errors
    /// The browser cannot do it.
    pub(crate) fn try_call(&mut self, method: &str, parameters: Value) -> Result<Value, Value> {
        self.number += 1;
        let mut command = json!({"id": self.number, "method": method, "params": parameters});
        if !self.session.is_empty() {
            command["sessionId"] = self.session.clone().into();
        }
        self.commands.write_all(format!("{command}\0").as_bytes()).expect("the browser runs");
        loop {
            let message = self.messages.recv_timeout(TIMEOUT).unwrap_or_else(|err| panic!("{method}: {err}"));
            if message["id"] != self.number {
                self.events.push(message);
            } else if message["error"].is_object() {
                return Err(message["error"].clone());
            } else {
                return Ok(message["result"].clone());
            }
        }
    }

    /// Loads a page.
    pub(crate) fn open(&mut self, url: &str) {
        let opened = self.call("Page.navigate", json!({"url": url}));
        assert_eq!(opened["errorText"], Value::Null, "{opened}");
    }

    /// Sets the size of the page in CSS pixels.
    pub(crate) fn resize(&mut self, width: u32, height: u32) {
        let size = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500});
        self.call("Emulation.setDeviceMetricsOverride", size);
    }

    /// Evaluates an expression of JavaScript in the page; returns its value.
    pub(crate) fn value(&mut self, expression: &str) -> Value {
        let parameters = json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let answer = self.call("Runtime.evaluate", parameters);
        assert_eq!(answer["exceptionDetails"], Value::Null, "{expression}");
        answer["result"]["value"].clone()
    }

    /// Like [`Browser::value`], for a text.
    pub(crate) fn text(&mut self, expression: &str) -> String {
        self.value(expression).as_str().unwrap_or_default().into()
    }

    /// Waits until `expression` is true in the page. It may fail before.
    pub(crate) fn wait(&mut self, expression: &str) {
        // The page looks itself, because a loop of commands would take the processor from it.
        let look = format!(
            "new Promise((done) => {{ \
                 const end = performance.now() + 1000; \
                 const is = () => {{ try {{ return {expression}; }} catch {{ return false; }} }}; \
                 const look = () => (is() || performance.now() > end ? done(is()) : setTimeout(look, 20)); \
                 look(); }})"
        );
        let parameters = json!({"expression": look, "returnByValue": true, "awaitPromise": true});
        wait_for(expression, || match self.try_call("Runtime.evaluate", parameters.clone()) {
            Ok(answer) if answer["result"]["value"] == true => Ok(()),
            // The text of the page says why not.
            _ => Err(self.text("document.body?.innerText.slice(0, 1500)")),
        });
    }

    /// Presses a key, such as `Tab`.
    pub(crate) fn press(&mut self, key: &str) {
        let code = match key {
            "Tab" => 9,
            "Enter" => 13,
            _ => 0,
        };
        for kind in ["keyDown", "keyUp"] {
            let mut event = json!({"type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code});
            if key == "Enter" && kind == "keyDown" {
                event["text"] = "\r".into();
            }
            self.call("Input.dispatchKeyEvent", event);
        }
    }

    /// Returns the events of this name so far.
    pub(crate) fn events(&self, method: &str) -> Vec<Value> {
        let of_name = self.events.iter().filter(|event| event["method"] == method);
        of_name.map(|event| event["params"].clone()).collect()
    }

    /// Returns the addresses that the page has asked for, in order.
    pub(crate) fn requests(&self) -> Vec<String> {
        let address = |event: Value| event["request"]["url"].as_str().unwrap().to_string();
        self.events("Network.requestWillBeSent").into_iter().map(address).collect()
    }

    /// Returns the JSON documents that came from paths with this end, the oldest first. The browser may have forgotten old ones.
    pub(crate) fn documents(&mut self, end: &str) -> Vec<Value> {
        let sent = self.events("Network.requestWillBeSent");
        let path = |event: &Value| event["request"]["url"].as_str().unwrap().split('?').next().unwrap().to_string();
        let wanted: Vec<Value> =
            sent.iter().filter(|event| path(event).ends_with(end)).map(|event| event["requestId"].clone()).collect();
        let whole: Vec<Value> =
            self.events("Network.loadingFinished").iter().map(|event| event["requestId"].clone()).collect();
        let mut documents = Vec::new();
        for id in wanted.iter().filter(|id| whole.contains(id)) {
            let Ok(body) = self.try_call("Network.getResponseBody", json!({"requestId": id})) else { continue };
            documents.extend(serde_json::from_str::<Value>(body["body"].as_str().unwrap()).ok());
        }
        documents
    }

    /// Returns the errors and warnings of the page: those on its console, and exceptions.
    pub(crate) fn complaints(&self) -> Vec<Value> {
        let mut complaints = self.events("Runtime.exceptionThrown");
        complaints.extend(self.events("Runtime.consoleAPICalled"));
        complaints.extend(self.events("Log.entryAdded"));
        complaints
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // It ends its other processes, and then itself.
        let _ = self.commands.write_all(b"{\"id\":0,\"method\":\"Browser.close\"}\0");
        let end = Instant::now() + Duration::from_secs(10);
        while Instant::now() < end && self.process.0.try_wait().is_ok_and(|ended| ended.is_none()) {
            std::thread::yield_now();
        }
    }
}
