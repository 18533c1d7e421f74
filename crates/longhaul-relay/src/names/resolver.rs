//! One query: by DNS or by getaddrinfo(3), as configured.

use super::dns::Dns;
use super::files::{Files, is_files_and_dns, resolv_conf};
use super::heard::Heard;
use super::system;
use super::target::{Question, Target, Targets};
use crate::lock::lock;
use longhaul_config::Resolver as Choice;
use longhaul_core::names::Reply;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

/// Resolves names as configured.
pub(super) struct Resolver {
    /// How names are resolved. `None`: as /etc/nsswitch.conf says.
    pub(super) choice: Option<Choice>,
    /// The nameservers of the last query.
    dns: Mutex<Option<Arc<Dns>>>,
    exchanges: Arc<Semaphore>,
}

impl Resolver {
    /// Returns a resolver. Without a `choice`, /etc/nsswitch.conf decides at each query.
    pub(super) fn new(choice: Option<Choice>) -> Resolver {
        Resolver { choice, dns: Mutex::default(), exchanges: Arc::new(Semaphore::new(MAX_EXCHANGES)) }
    }

    /// Asks for `question`. DNS has [`QUERY_LIMIT`]; getaddrinfo(3) has no limit.
    pub(super) async fn resolve(&self, question: &Question) -> Reply<Targets> {
        // A panic of a read is as good as files that cannot be read.
        let files = spawn_blocking(Files::read).await.unwrap_or_default();
        let of_libc = match self.choice {
            Some(choice) => choice == Choice::System,
            None => !is_files_and_dns(&files.nsswitch),
        };
        let heard = match question {
            Question::Host(name) if of_libc => {
                system::addresses(name.clone()).await.map(|answer| vec![Target::of_host(answer)])
            }
            _ => {
                let dns = self.dns(&files);
                let heard = timeout(QUERY_LIMIT, dns.resolve(question, &files)).await;
                heard.unwrap_or_else(|_| Heard::Silent(format!("no answer in {QUERY_LIMIT:?}")))
            }
        };
        heard.map(Targets::from).into()
    }

    /// Returns the nameservers of /etc/resolv.conf, the same as long as it does not change.
    fn dns(&self, files: &Files) -> Arc<Dns> {
        let conf = resolv_conf(&files.resolv_conf);
        let mut kept = lock(&self.dns);
        match &*kept {
            Some(dns) if dns.conf == conf => dns.clone(),
            _ => kept.insert(Arc::new(Dns::new(conf, self.exchanges.clone()))).clone(),
        }
    }
}

impl fmt::Debug for Resolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resolver").field("choice", &self.choice).finish_non_exhaustive()
    }
}

/// Maximum number of exchanges with nameservers at once, each with one descriptor: 320 a second with nameservers that
/// take 50 ms.
const MAX_EXCHANGES: usize = 16;
/// Time limit of a query by DNS, with every domain of resolv.conf(5) and every attempt. Without it, many names could
/// wait for minutes for the exchanges of each other with dead nameservers.
const QUERY_LIMIT: Duration = Duration::from_secs(30);
