//! The name by which a browser came. A page elsewhere can give its own name the address of this host (DNS rebinding), and its scripts
//! could then read the addresses of the flows. So the HTTP listener answers only to names that are this machine's.

use hyper::header::HOST;
use hyper::http::request::Parts;
use hyper::{StatusCode, Version};
use longhaul_config::value::is_host_name;
use std::fs;
use std::net::IpAddr;

/// Returns the status code and the reason if the request with this head names no host, or one that is not among `hosts`. A request of
/// HTTP/1.0 without a name is no browser's.
pub(super) fn refusal(head: &Parts, hosts: &[String]) -> Option<(StatusCode, String)> {
    // RFC 9112 3.2
    let named = head.headers.get_all(HOST).iter().count();
    if named > 1 || (named == 0 && head.version > Version::HTTP_10) {
        return Some((StatusCode::BAD_REQUEST, format!("the request has {named} Host headers: it needs one")));
    }
    // RFC 9112 3.2.2: a whole address in the first line counts more than the header.
    let named = match head.uri.authority() {
        Some(authority) => authority.as_str().into(),
        None => String::from_utf8_lossy(head.headers.get(HOST)?.as_bytes()),
    };
    let name = without_dot(without_port(&named)).to_ascii_lowercase();
    let is_known = is_address(&name)
        || name == "localhost"
        || hosts.iter().any(|host| without_dot(host).eq_ignore_ascii_case(&name));
    match is_known {
        true => None,
        false if is_host_name(&name) => Some((
            StatusCode::MISDIRECTED_REQUEST,
            format!(
                "{name:?} is no name of this machine that the daemon knows: write hosts = [{name:?}] below [admin], and reload"
            ),
        )),
        // RFC 9112 3.2
        false => Some((
            StatusCode::BAD_REQUEST,
            format!(
                "the Host of the request is {name:?}, which is no host name: ask by the relay's address or by its name"
            ),
        )),
    }
}

/// Returns `name` without the dot that ends a fully qualified name.
fn without_dot(name: &str) -> &str {
    name.strip_suffix('.').unwrap_or(name)
}

fn without_port(named: &str) -> &str {
    match named.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) && !name.ends_with(':') => name,
        _ => named,
    }
}

fn is_address(name: &str) -> bool {
    let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
    bare.unwrap_or(name).parse::<IpAddr>().is_ok()
}

/// Returns the names that this machine has now.
pub(super) fn names_of_this_machine() -> Vec<String> {
    let own = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let hosts = String::from_utf8_lossy(&fs::read("/etc/hosts").unwrap_or_default()).into_owned();
    names_of(own.trim(), &hosts)
}

/// Returns the `own` name of a machine, its first part, and the names that stand with it or with loopback in `hosts`, the text of
/// hosts(5).
fn names_of(own: &str, hosts: &str) -> Vec<String> {
    let words = |line: &str| line.split('#').next().unwrap_or_default().split_whitespace().map(String::from).collect();
    let is_ours = |words: &Vec<String>| {
        let is_loopback = words.first().is_some_and(|word| word.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback()));
        is_loopback || words.iter().skip(1).any(|word| word.eq_ignore_ascii_case(own))
    };
    let of_lines = hosts.lines().map(words).filter(is_ours).flat_map(|words: Vec<String>| words.into_iter().skip(1));
    let first = own.split('.').next().unwrap_or_default();
    [own, first].map(String::from).into_iter().filter(|name| !name.is_empty()).chain(of_lines).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::Request;

    fn refused(uri: &str, host: Option<&str>) -> Option<u16> {
        let request = Request::builder().uri(uri);
        let request = host.into_iter().fold(request, |request, host| request.header(HOST, host));
        let head = request.body(()).unwrap().into_parts().0;
        refusal(&head, &["relay.example".into(), "dot.example.".into()]).map(|(code, _)| code.as_u16())
    }

    #[test]
    fn an_address_localhost_and_the_names_of_the_file_are_known() {
        for host in [
            "127.0.0.1", "127.0.0.1:9650", "[::1]:9650", "[2001:db8::1]", "LocalHost:9650", "relay.example:80",
            "relay.example.", "Relay.Example.:80", "dot.example", "dot.example.",
        ] {
            assert_eq!(refused("/", Some(host)), None, "{host}");
        }
        assert_eq!(refused("/", None), Some(400), "HTTP/1.1");
        let of = |request: hyper::http::request::Builder| refusal(&request.body(()).unwrap().into_parts().0, &[]);
        assert_eq!(of(Request::builder().version(Version::HTTP_10)), None);
        assert!(of(Request::builder().header(HOST, "127.0.0.1").header(HOST, "127.0.0.1")).is_some(), "two names");
        for host in ["evil.example", "evil.example:9650", "127.0.0.1.evil.example"] {
            assert_eq!(refused("/", Some(host)), Some(421), "{host}");
        }
        // `hosts` accepts none of them.
        for host in ["", ":9650", ".", "x:y", "::1:evil", "[::1]]]", "b\u{fc}cher.example"] {
            assert_eq!(refused("/", Some(host)), Some(400), "{host:?}");
        }
        assert_eq!(refused("http://evil.example/", Some("127.0.0.1")), Some(421));
    }

    #[test]
    fn a_machine_has_the_names_of_its_lines_in_hosts() {
        let hosts =
            "127.0.0.1 localhost a # old\n10.0.0.7 relay1.far.example relay1\n10.0.0.8 other.far.example relay2\n\n#";
        assert_eq!(names_of("RELAY1", hosts), ["RELAY1", "RELAY1", "localhost", "a", "relay1.far.example", "relay1"]);
        assert_eq!(names_of("relay1.far.example", ""), ["relay1.far.example", "relay1"]);
        assert!(names_of("", "10.0.0.8 other").is_empty());
    }
}
