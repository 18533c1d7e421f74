//! Tests the counters of each tunnel, and `/metrics` with the tools that read it.

use crate::harness::*;
use serde_json::Value;
use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// The samples of a page: each line up to its value, and the value.
type Samples = std::collections::BTreeMap<String, f64>;

/// Returns the samples of `/metrics` at this moment. By HTTP they may be a second old.
fn metrics(of: &Watched) -> Samples {
    let stream = UnixStream::connect(of.socket()).expect("the daemon listens");
    let answer = ask(stream, "GET /metrics", "application/openmetrics-text;version=1.0.0,*/*;q=0.1");
    samples(answer.split_once("\r\n\r\n").expect("an answer").1)
}

/// Returns the head and the body of the answer to a request for `path`.
fn get(address: SocketAddr, path: &str, accept: &str) -> (String, String) {
    let stream = patient(TcpStream::connect(address).expect("the daemon listens"));
    let answer = ask(stream, &format!("GET {path}"), accept);
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {answer:?}"));
    assert!(head.starts_with("HTTP/1.1 200 "), "{answer}");
    (head.to_ascii_lowercase(), body.into())
}

fn samples(page: &str) -> Samples {
    let lines = page.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| line.rsplit_once(' ').map(|(name, value)| (name.into(), value.parse().unwrap())).unwrap())
        .collect()
}

#[test]
fn a_leg_whose_peer_does_not_read_is_limited_by_it() {
    let watched = Watched::start("");
    let (client, _server) = watched.flow();
    client.set_nonblocking(true).unwrap();
    wait_until("the server's window is full", || {
        while (&client).write(&[7; 1 << 16]).is_ok() {}
        watched.status()["flows"][0]["dial"]["limit"] == "receive window"
    });
    let limited = r#"longhaul_legs{tunnel="one",leg="dial",limit="receive window"}"#;
    wait_until("the metrics say so too", || metrics(&watched)[limited] == 1.0);
}

#[test]
fn each_tunnel_has_its_own_counters() {
    let watched = Watched::start("");
    let (port, closed) = (Port::reserve("127.0.0.1"), Port::reserve("127.0.0.1"));
    let two = |allow: &str| tunnel_to("two", port.address(), &[closed.address()], &format!("allow = [\"{allow}\"]\n"));
    let reset = || assert_eq!(read_to_end(&dial(&port)), (Vec::new(), Ending::Reset));
    let (mut client, mut server) = watched.flow();
    client.write_all(b"seven b").unwrap();
    server.read_exact(&mut [0; 7]).unwrap();
    watched.reload(&two("127.0.0.0/8"));
    reset(); // its next hop refuses
    watched.reload(&two("192.0.2.0/24"));
    reset(); // it is not allowed
    let count = |status: &Value, tunnel: usize, names: [&str; 6]| {
        names.map(|name| status["tunnels"][tunnel]["counters"][name].as_u64().unwrap())
    };
    let names = ["flows_now", "accepted", "refused", "dials_failed", "reset", "bytes_up"];
    wait_until("the flow of the second tunnel has ended", || {
        let status = watched.status();
        count(&status, 0, names) == [1, 1, 0, 0, 0, 7] && count(&status, 1, names) == [0, 1, 1, 1, 1, 0]
    });
    let all = names.map(|name| watched.status()["counters"][name].as_u64().unwrap());
    assert_eq!(all, [1, 2, 1, 1, 1, 7], "the process counts both");
    // The bytes stay when their flow ends, and a tunnel that comes back begins anew.
    drop((client, server));
    wait_until("it has ended", || count(&watched.status(), 0, names) == [0, 1, 0, 0, 0, 7]);
    watched.reload("");
    assert_eq!(watched.status()["tunnels"].as_array().unwrap().len(), 1);
    watched.reload(&two("127.0.0.0/8"));
    assert_eq!(count(&watched.status(), 1, names), [0; 6]);
}

/// The figures of a page agree with each other, and grow while a flow lives.
#[test]
fn a_scrape_shows_the_state_of_the_moment() {
    let watched = Watched::start("");
    let (mut client, mut server) = watched.flow();
    client.write_all(&pattern(1, 100_000)).unwrap();
    server.read_exact(&mut vec![0; 100_000]).unwrap();
    let up = r#"longhaul_tunnel_bytes_total{tunnel="one",direction="up"}"#;
    let used = r#"longhaul_resource_used{resource="descriptors"}"#;
    // The daemon answers before its first sample of the resources.
    let is_whole = |page: &Samples| page[up] == 100_000.0 && page.contains_key(used);
    let page = wait_for_value("the bytes are counted", || metrics(&watched), is_whole);
    let version = format!(r#"longhaul_build_info{{version="{}"}}"#, env!("CARGO_PKG_VERSION"));
    let hop = format!(r#"{{tunnel="one",next_hop="{}"}}"#, watched.far.local_addr().unwrap());
    for (name, value) in [
        (version.as_str(), 1.0),
        ("longhaul_ready", 1.0),
        ("longhaul_problems", 0.0),
        (r#"longhaul_process_bytes_total{direction="up"}"#, 100_000.0),
        (r#"longhaul_tunnel_ready{tunnel="one"}"#, 1.0),
        (r#"longhaul_tunnel_flows{tunnel="one"}"#, 1.0),
        (r#"longhaul_tunnel_flows_accepted_total{tunnel="one"}"#, 1.0),
        (r#"longhaul_tunnel_flow_ends_total{tunnel="one",how="finished"}"#, 0.0),
        (r#"longhaul_tunnel_dial_seconds_count{tunnel="one"}"#, 1.0),
        (r#"longhaul_tunnel_dial_seconds_bucket{le="+Inf",tunnel="one"}"#, 1.0),
        (r#"longhaul_legs{tunnel="one",leg="dial",limit="application"}"#, 1.0),
        (&format!("longhaul_next_hop_up{hop}"), 1.0),
        (&format!("longhaul_next_hop_flows{hop}"), 1.0),
    ] {
        assert_eq!(page.get(name), Some(&value), "{name} in {page:#?}");
    }
    let used = page[used];
    assert!(used > 0.0 && page[r#"longhaul_resource_limit{resource="descriptors"}"#] >= used, "{page:#?}");
    for name in ["process_cpu_seconds_total", "process_resident_memory_bytes", "process_open_fds"] {
        assert!(page[&format!("longhaul_{name}")] > 0.0, "{name}");
    }
    drop((client, server));
    let ends = |page: &Samples| -> f64 {
        page.iter()
            .filter(|(name, _)| name.starts_with("longhaul_tunnel_flow_ends_total"))
            .map(|(_, value)| value)
            .sum()
    };
    wait_until("the flow has ended", || ends(&metrics(&watched)) == 1.0);
    assert_eq!(metrics(&watched)[up], 100_000.0, "the bytes stay");
}

#[test]
fn a_removed_tunnel_disappears_and_a_client_chooses_the_format() {
    let watched = Watched::start("");
    let other = Port::reserve("127.0.0.1");
    let of_two = || metrics(&watched).keys().filter(|name| name.contains(r#"tunnel="two""#)).count();
    watched.reload(&tunnel("two", other.address(), &watched.far, ""));
    assert!(of_two() > 20);
    watched.reload("");
    assert_eq!(of_two(), 0);
    let (head, new) = get(watched.http.address(), "/metrics", "application/openmetrics-text;version=1.0.0");
    assert!(head.contains("\r\ncontent-type: application/openmetrics-text; version=1.0.0; charset=utf-8"), "{head}");
    assert!(new.ends_with("\n# EOF\n") && new.contains("# UNIT longhaul_tunnel_bytes bytes\n"), "{new}");
    let (head, old) = get(watched.http.address(), "/metrics", "text/plain");
    assert!(head.contains("\r\ncontent-type: text/plain; version=0.0.4; charset=utf-8"), "{head}");
    assert!(old.contains("# TYPE longhaul_tunnel_bytes_total counter\n") && !old.contains("# EOF"), "{old}");
    let names = |page: &str| samples(page).into_keys().collect::<Vec<_>>();
    assert_eq!(names(&old), names(&new));
}

/// Returns the path of a file of the repository.
fn repository(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(file)
}

/// Runs promtool with `args` and `input`, which it must accept without a word on stderr. Returns false if it is not
/// installed.
fn promtool(args: &[&str], input: &str) -> bool {
    let mut command = Command::new("promtool");
    command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = match command.spawn() {
        Err(err) if err.kind() == ErrorKind::NotFound => {
            skip("promtool is not installed; it comes with the package prometheus");
            return false;
        }
        child => child.unwrap(),
    };
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "promtool {args:?}: {output:?}");
    true
}

#[test]
fn promtool_accepts_the_metrics_and_the_rules() {
    let watched = Watched::start("");
    let _flow = watched.flow();
    wait_until("it is open", || metrics(&watched)[r#"longhaul_tunnel_dial_seconds_count{tunnel="one"}"#] == 1.0);
    let page = get(watched.http.address(), "/metrics", "*/*").1;
    let file = |name| repository(name).display().to_string();
    let _ = promtool(&["check", "metrics"], &page)
        && promtool(&["check", "rules", &file("packaging/prometheus/rules.yml")], "")
        && promtool(&["test", "rules", &file("crates/longhaul/tests/metrics/rules_test.yml")], "");
}

/// A Prometheus server. Dropping it ends it.
struct Prometheus {
    _process: Running,
    address: SocketAddr,
    _port: Port,
    _folder: TempDir,
}

impl Prometheus {
    /// Starts a server with the packaged configuration, which scrapes `target` each second. Returns `None` if Prometheus is
    /// not installed.
    fn start(target: SocketAddr) -> Option<Prometheus> {
        let (folder, port) = (tempfile::tempdir().unwrap(), Port::reserve("127.0.0.1"));
        let packaged = fs::read_to_string(repository("packaging/prometheus/scrape.yml")).unwrap();
        let config = packaged.replace("127.0.0.1:9650", &target.to_string()).replace("_interval: 15s", "_interval: 1s");
        fs::write(folder.path().join("prometheus.yml"), config).unwrap();
        fs::copy(repository("packaging/prometheus/rules.yml"), folder.path().join("rules.yml")).unwrap();
        let address = port.address();
        let at = |name: &str| folder.path().join(name).display().to_string();
        let mut command = Command::new("prometheus");
        command.arg(format!("--config.file={}", at("prometheus.yml")));
        command.arg(format!("--storage.tsdb.path={}", at("data"))).arg(format!("--web.listen-address={address}"));
        command.stdout(Stdio::null()).stderr(fs::File::create(folder.path().join("log")).unwrap());
        match command.spawn() {
            Err(err) if err.kind() == ErrorKind::NotFound => {
                skip("prometheus is not installed; it comes with the package prometheus");
                None
            }
            process => Some(Prometheus { _process: Running(process.unwrap()), address, _port: port, _folder: folder }),
        }
    }

    /// Returns the answer to a query, or why there is none.
    fn query(&self, query: &str) -> Result<Value, String> {
        let escaped: String = query.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let stream = TcpStream::connect(self.address).map_err(|err| err.to_string())?;
        let answer = ask(patient(stream), &format!("GET /api/v1/query?query={escaped}"), "*/*");
        let (_, body) = answer.split_once("\r\n\r\n").ok_or_else(|| answer.clone())?;
        // The body may be chunked; it is one object in any case.
        let object = body.find('{').zip(body.rfind('}')).map(|(begin, end)| &body[begin..=end]);
        let answer: Value = object.and_then(|text| serde_json::from_str(text).ok()).ok_or_else(|| answer.clone())?;
        match answer["status"] == "success" {
            true => Ok(answer["data"]["result"].clone()),
            false => Err(format!("{query}: {answer}")),
        }
    }
}

/// The packaged configuration makes a real Prometheus read the figures, and it understands each query of the dashboard.
#[test]
fn prometheus_scrapes_a_daemon() {
    let watched = Watched::start("");
    let (mut client, mut server) = watched.flow();
    let Some(prometheus) = Prometheus::start(watched.http.address()) else { return };
    client.write_all(&pattern(1, 70_000)).unwrap();
    server.read_exact(&mut vec![0; 70_000]).unwrap();
    let value = |query: &str| prometheus.query(query).map(|found| found[0]["value"][1].as_str().map(String::from));
    for (query, wanted) in [
        (r#"up{job="longhaul"}"#, "1"),
        (r#"longhaul_tunnel_bytes_total{tunnel="one",direction="up"}"#, "70000"),
        (r#"longhaul_tunnel_dial_seconds_count{tunnel="one"}"#, "1"),
        ("longhaul_ready", "1"),
        // A recording rule.
        (r#"count(tunnel_direction:longhaul_tunnel_bytes:rate5m{direction="up"})"#, "1"),
    ] {
        wait_for(query, || match value(query) {
            Ok(Some(found)) if found == wanted => Ok(()),
            other => Err(other),
        });
    }
    assert_eq!(prometheus.query("ALERTS{alertstate=\"firing\"}").unwrap(), serde_json::json!([]));
    let dashboard = fs::read_to_string(repository("packaging/grafana/longhaul.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&dashboard).unwrap();
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let targets: Vec<&Value> = panels.filter_map(|panel| panel["targets"].as_array()).flatten().collect();
    assert!(targets.len() > 30, "{}", targets.len());
    for target in targets {
        let query = target["expr"].as_str().unwrap();
        let query = query.replace("$instance", ".*").replace("$tunnel", ".*").replace("$__rate_interval", "1m");
        prometheus.query(&query).unwrap();
    }
}
