//! The names that cannot be resolved now, for `longhaul check`.

use super::resolver::Resolver;
use super::target::Question;
use longhaul_config::{NextHop, Resolver as Choice};
use longhaul_core::names::Reply;
use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

/// A name that cannot be resolved now.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Unresolved {
    /// The host name, or an SRV name with `srv:` in front; in lower case.
    pub name: String,
    /// Why there is no answer.
    pub why: String,
}

/// Asks for the name of each of `next_hops` that is no address, all at once, for up to `patience`. Returns those
/// without an address, by name.
///
/// # Errors
/// No runtime can be started.
pub fn unresolved<'a>(
    next_hops: impl Iterator<Item = &'a NextHop>,
    choice: Option<Choice>,
    patience: Duration,
) -> io::Result<Vec<Unresolved>> {
    let names = next_hops.filter(|hop| hop.address().is_none()).map(Question::of);
    let no_answer = format!("no answer in {patience:?}");
    let mut open: HashMap<Question, String> = names.map(|question| (question, no_answer.clone())).collect();
    let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let resolver = Arc::new(Resolver::new(choice));
        let mut asked = JoinSet::new();
        for question in open.keys().cloned() {
            let resolver = resolver.clone();
            asked.spawn(async move {
                let reply = resolver.resolve(&question).await;
                (question, reply)
            });
        }
        let end = Instant::now() + patience;
        while let Ok(Some(answered)) = timeout_at(end, asked.join_next()).await {
            match answered {
                Ok((question, Reply::Found { .. })) => drop(open.remove(&question)),
                Ok((question, Reply::Absent { why, .. } | Reply::Failed { why })) => drop(open.insert(question, why)),
                Err(_panicked) => {} // stays without an answer
            }
        }
    });
    // Dropping the runtime would wait for getaddrinfo(3).
    runtime.shutdown_background();
    let mut found: Vec<Unresolved> =
        open.into_iter().map(|(question, why)| Unresolved { name: question.to_string(), why }).collect();
    found.sort();
    Ok(found)
}
