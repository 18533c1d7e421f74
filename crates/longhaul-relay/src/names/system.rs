//! getaddrinfo(3): every source of /etc/nsswitch.conf, without a TTL.

use super::heard::Heard;
use dns_lookup::{AddrInfoHints, LookupErrorKind, SockType, getaddrinfo};
use std::io;
use std::net::IpAddr;
use std::time::Duration;
use tokio::task::spawn_blocking;

/// Returns the addresses of the host `name` in the order of getaddrinfo(3). A thread that carries no bytes waits for
/// it, without a limit, because the call cannot be stopped.
pub(super) async fn addresses(name: String) -> Heard<Vec<IpAddr>> {
    let looked_up = spawn_blocking(move || look_up(&name)).await;
    looked_up.unwrap_or_else(|err| Heard::Silent(format!("getaddrinfo: {err}")))
}

fn look_up(name: &str) -> Heard<Vec<IpAddr>> {
    let hints = AddrInfoHints { socktype: SockType::Stream.into(), ..AddrInfoHints::default() };
    match getaddrinfo(Some(name), None, Some(hints)) {
        Ok(found) => {
            let answer: Vec<IpAddr> = found.filter_map(Result::ok).map(|info| info.sockaddr.ip()).collect();
            match answer.is_empty() {
                true => Heard::Absent { why: "getaddrinfo: no address".into(), ttl: None },
                false => Heard::Found { answer, ttl: TTL },
            }
        }
        Err(err) => {
            let is_absent = matches!(err.kind(), LookupErrorKind::NoName | LookupErrorKind::NoData);
            let why = format!("getaddrinfo: {}", io::Error::from(err));
            if is_absent { Heard::Absent { why, ttl: None } } else { Heard::Silent(why) }
        }
    }
}

/// Time for which an answer is good. A relay must notice a changed address without a restart; and with 30 s a resolver
/// is asked twice a minute for each name, however many flows there are.
const TTL: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn localhost_is_found_and_an_invalid_name_is_not() {
        let Heard::Found { answer, ttl } = addresses("localhost".into()).await else { panic!("not found") };
        assert!(answer.iter().all(IpAddr::is_loopback) && !answer.is_empty() && ttl == TTL);
        // RFC 6761: no resolver has it; one that does not answer fails.
        assert!(!matches!(addresses("nosuch.invalid".into()).await, Heard::Found { .. }));
    }
}
