//! DNS: asks the nameservers of /etc/resolv.conf for one name.
//!
//! Like libc, it asks them in the order written, and the next one when one cannot answer. Unlike libc, it asks the next
//! one after [`HEAD_START`], beside the first, which then has still time to answer. A nameserver that let that time
//! pass is asked last for [`DEMOTION`]. So a dead first nameserver costs one query a second, and the others nothing.

use super::files::{Files, ResolvConf, in_hosts};
use super::heard::{Heard, PARTIAL_TTL};
use super::order;
use super::target::{Question, Target};
use crate::lock::lock;
use hickory_resolver::TokioResolver;
use hickory_resolver::config::{NameServerConfig, NameServerConfigGroup, ResolveHosts, ResolverConfig};
use hickory_resolver::name_server::TokioConnectionProvider;
use hickory_resolver::proto::rr::rdata::SRV;
use hickory_resolver::proto::rr::{RData, RecordType};
use hickory_resolver::proto::xfer::Protocol;
use longhaul_core::names::search::candidates;
use longhaul_core::names::srv::Rank;
use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio::time::{sleep_until, timeout};

/// The nameservers, and how to ask them.
pub(super) struct Dns {
    /// The file that names them.
    pub(super) conf: ResolvConf,
    servers: Vec<Arc<Server>>,
    exchanges: Arc<Semaphore>,
}

/// One nameserver.
struct Server {
    address: SocketAddr,
    resolver: TokioResolver,
    /// The last moment at which [`HEAD_START`] passed without an answer. `None` once it has answered again.
    silent: Mutex<Option<Instant>>,
}

impl Dns {
    /// Returns the nameservers of `conf`. All of them together hold at most the permits of `exchanges` at once.
    pub(super) fn new(conf: ResolvConf, exchanges: Arc<Semaphore>) -> Dns {
        let servers = conf.servers.iter().map(|address| Arc::new(Server::new(*address, conf.timeout))).collect();
        Dns { conf, servers, exchanges }
    }

    /// Returns the answer to `question`, from the hosts file or a nameserver. A short name is tried in each domain of
    /// resolv.conf(5).
    pub(super) async fn resolve(&self, question: &Question, files: &Files) -> Heard<Vec<Target>> {
        let mut first: Option<Heard<Vec<Target>>> = None;
        if let Question::Host(name) = question {
            if let Some(addresses) = from_hosts(files, name) {
                return addresses.map(|addresses| vec![Target::of_host(addresses)]);
            }
        }
        for full in candidates(question.name(), self.conf.ndots, &self.conf.search) {
            let heard = match question {
                Question::Host(_) => self.host(&full).await.map(|addresses| vec![Target::of_host(addresses)]),
                Question::Srv(_) => self.srv(&full, files).await,
            };
            match heard {
                // As in libc: no nameserver will answer for the next domain either.
                Heard::Found { .. } | Heard::Silent(_) => return heard,
                // That one domain is broken does not mean that the name is not in another, nor that it does not exist.
                Heard::Refused(_) if !matches!(first, Some(Heard::Refused(_))) => first = Some(heard),
                _ => first = first.or(Some(heard)),
            }
        }
        first.unwrap_or(Heard::Absent { why: "the name is empty".into(), ttl: None })
    }

    /// Returns the addresses of the host `full`.
    async fn host(&self, full: &str) -> Heard<Vec<IpAddr>> {
        let (v6, v4) = tokio::join!(self.ask(full, RecordType::AAAA), self.ask(full, RecordType::A));
        let addresses = |records: Vec<RData>| records.iter().filter_map(RData::ip_addr).collect::<Vec<_>>();
        match v6.map(addresses).and(v4.map(addresses)) {
            Heard::Found { answer, ttl } if answer.is_empty() => {
                Heard::Absent { why: "the name has no address".into(), ttl: Some(ttl) }
            }
            Heard::Found { mut answer, ttl } => {
                order::sort(&mut answer);
                Heard::Found { answer, ttl }
            }
            failed => failed,
        }
    }

    /// Returns the targets of the SRV name `full`, with their addresses.
    async fn srv(&self, full: &str, files: &Files) -> Heard<Vec<Target>> {
        let heard = self.ask(full, RecordType::SRV).await.map(services);
        let Heard::Found { answer: services, mut ttl } = heard else { return heard.map(|_| Vec::new()) };
        if services.is_empty() {
            // RFC 2782: a target of "." means that the service is not available at this domain.
            return Heard::Absent { why: "the domain has no such service".into(), ttl: Some(ttl) };
        }
        let mut targets = Vec::with_capacity(services.len());
        let mut missing = None;
        for service in services {
            let host = service.target().to_utf8();
            let heard = match from_hosts(files, &host) {
                Some(addresses) => addresses,
                None => self.host(&host).await.said_by(&host),
            };
            match heard {
                Heard::Found { answer: addresses, ttl: of_host } => {
                    ttl = ttl.min(of_host);
                    let rank = Rank { priority: service.priority(), weight: service.weight() };
                    targets.push(Target { rank, port: Some(service.port()), addresses });
                }
                failed => {
                    ttl = ttl.min(PARTIAL_TTL);
                    missing = Some(failed);
                }
            }
        }
        match missing {
            Some(failed) if targets.is_empty() => failed.map(|_| Vec::new()),
            _ => Heard::Found { answer: targets, ttl },
        }
    }

    /// Returns the records of `full` of type `kind`, from the first nameserver that answers.
    async fn ask(&self, full: &str, kind: RecordType) -> Heard<Vec<RData>> {
        let mut turns = self.turns(Instant::now());
        let mut asked = JoinSet::new();
        let mut last = Heard::Silent("there is no nameserver".into());
        let mut due = tokio::time::Instant::now();
        loop {
            let exchanges = self.exchanges.clone();
            let next = async move {
                sleep_until(due).await;
                exchanges.acquire_owned().await
            };
            // Both arms may be dropped: a set keeps its tasks, and the next turn is only waited for.
            tokio::select! {
                biased;
                Some(heard) = asked.join_next() => {
                    last = match heard {
                        Ok(heard) if Heard::is_answer(&heard) => return heard,
                        Ok(heard) => heard,
                        Err(_panicked) => Heard::Silent("asking has panicked, which is a bug".into()),
                    };
                    due = tokio::time::Instant::now();
                }
                Ok(permit) = next, if !turns.is_empty() => {
                    if let Some(server) = turns.pop_front() {
                        asked.spawn(server.exchange(full.to_owned(), kind, self.conf.timeout, permit));
                    }
                    due = tokio::time::Instant::now() + HEAD_START;
                }
                else => return last,
            }
        }
    }

    /// Returns the nameservers in the order in which to ask them, each as often as resolv.conf(5) says.
    fn turns(&self, now: Instant) -> VecDeque<Arc<Server>> {
        let mut servers = self.servers.clone();
        servers.sort_by_key(|server| server.is_silent(now));
        (0..self.conf.attempts).flat_map(|_| servers.iter().cloned()).collect()
    }
}

impl Server {
    fn new(address: SocketAddr, timeout: Duration) -> Server {
        let by = |protocol| {
            let mut server = NameServerConfig::new(address, protocol);
            server.trust_negative_responses = true; // as libc does
            server
        };
        // TCP is for answers that do not fit a datagram (RFC 7766).
        let both = NameServerConfigGroup::from(vec![by(Protocol::Udp), by(Protocol::Tcp)]);
        let config = ResolverConfig::from_parts(None, Vec::new(), both);
        let mut builder = TokioResolver::builder_with_config(config, TokioConnectionProvider::default());
        let options = builder.options_mut();
        options.timeout = timeout;
        options.attempts = 0; // `Dns::ask` repeats
        options.cache_size = 0; // `Cached` keeps
        options.use_hosts_file = ResolveHosts::Never; // `from_hosts` has looked
        Server { address, resolver: builder.build(), silent: Mutex::default() }
    }

    /// Asks once. The permit is held until the end, because each exchange has a descriptor.
    async fn exchange(
        self: Arc<Server>,
        full: String,
        kind: RecordType,
        limit: Duration,
        _permit: OwnedSemaphorePermit,
    ) -> Heard<Vec<RData>> {
        let mut lookup = Box::pin(self.resolver.lookup(full, kind));
        let result = match timeout(HEAD_START, &mut lookup).await {
            Ok(result) => result,
            Err(_) => {
                *lock(&self.silent) = Some(Instant::now());
                // A truncated answer is asked for again over TCP, which may take as long.
                match timeout(2 * limit, lookup).await {
                    Ok(result) => result,
                    Err(_) => return Heard::Silent("no answer".into()).said_by(self.address),
                }
            }
        };
        let heard = Heard::of(result, Instant::now());
        if !matches!(heard, Heard::Silent(_)) {
            *lock(&self.silent) = None;
        }
        heard.said_by(self.address)
    }

    fn is_silent(&self, now: Instant) -> bool {
        lock(&self.silent).is_some_and(|since| now.saturating_duration_since(since) < DEMOTION)
    }
}

/// Returns the addresses of `name` in the hosts file, or `None` if it has none.
fn from_hosts(files: &Files, name: &str) -> Option<Heard<Vec<IpAddr>>> {
    let mut answer = in_hosts(&files.hosts, name);
    order::sort(&mut answer);
    (!answer.is_empty()).then_some(Heard::Found { answer, ttl: HOSTS_TTL })
}

/// Returns the SRV records among `records`, those with the smallest priority first, without those of no host.
fn services(records: Vec<RData>) -> Vec<SRV> {
    let is_host = |service: &SRV| !service.target().is_root();
    let mut services: Vec<SRV> =
        records.into_iter().filter_map(|record| record.into_srv().ok()).filter(is_host).collect();
    services.sort_by_key(SRV::priority);
    services.truncate(MAX_TARGETS);
    services
}

/// Time after which the next nameserver is asked beside one that has not answered. A nameserver of the site answers in
/// milliseconds, or, when it has to ask others, in some tenths of a second.
const HEAD_START: Duration = Duration::from_secs(1);
/// Time for which a nameserver that let [`HEAD_START`] pass is asked last.
const DEMOTION: Duration = Duration::from_secs(30);
/// Time for which an answer of the hosts file is good. The file is then read again, which costs no query.
const HOSTS_TTL: Duration = Duration::from_secs(5);
/// Maximum number of targets of an SRV name that are used.
const MAX_TARGETS: usize = 32;
