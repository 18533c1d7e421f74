//! The names of the configuration, and the last answer for each. Flows share an answer and the query for it.

use super::resolver::Resolver;
use super::target::{Question, Targets, addresses};
use crate::live::counters::Counters;
use crate::lock::lock;
use longhaul_config::{NextHop, Resolver as Choice};
use longhaul_core::health::{NameFacts, Noted};
use longhaul_core::names::{Absence, Answer, Ask, Cached, Outage, Outcome, Reply};
use longhaul_units::show_duration;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use tokio::time::{sleep_until, timeout, timeout_at};
use tracing::{info, warn};

/// The names of the next hops of every tunnel that is served.
#[derive(Debug)]
pub(crate) struct Names(Mutex<Known>);

#[derive(Debug)]
struct Known {
    resolver: Arc<Resolver>,
    names: HashMap<Question, Arc<Name>>,
}

/// One name.
#[derive(Debug)]
struct Name {
    question: Question,
    resolver: Arc<Resolver>,
    cached: Mutex<Cached<Targets>>,
    /// Notified when a query has ended.
    answered: Notify,
}

impl Default for Names {
    fn default() -> Names {
        Names(Mutex::new(Known { resolver: Arc::new(Resolver::new(None)), names: HashMap::new() }))
    }
}

impl Names {
    /// Replaces the names by those of `next_hops`, and begins to ask for each, so that the first flow finds an answer
    /// and an outage finds a last good one. Forgets the others. Answers for names that stay have expired: a reload asks
    /// again. Call it in a runtime.
    pub(crate) fn serve<'a>(&self, next_hops: impl Iterator<Item = &'a NextHop>, choice: Option<Choice>) {
        let (resolver, now) = (Arc::new(Resolver::new(choice)), now());
        let mut known = lock(&self.0);
        let before = std::mem::take(&mut known.names);
        let questions = next_hops.filter(|hop| hop.address().is_none()).map(Question::of);
        known.names = questions
            .map(|question| {
                let last = before.get(&question).map(|name| lock(&name.cached).expired(now));
                (question.clone(), Name::new(question, &resolver, last.unwrap_or_default()))
            })
            .collect();
        known.resolver = resolver;
        let names: Vec<Arc<Name>> = known.names.values().cloned().collect();
        drop(known);
        for name in names {
            name.ask();
        }
    }

    /// Returns how names are resolved.
    pub(crate) fn choice(&self) -> Option<Choice> {
        lock(&self.0).resolver.choice
    }

    /// Returns the addresses of `next_hop` in the order in which to dial them. Waits for an answer for up to `patience`,
    /// and only if there is none from before. Counts in `counters` an answer that has expired.
    ///
    /// # Errors
    /// The name has no address, or none is known and no resolver answers. The text says which.
    pub(crate) async fn addresses(
        &self,
        next_hop: &NextHop,
        patience: Duration,
        counters: &Counters,
    ) -> Result<Vec<SocketAddr>, String> {
        if let Some(address) = next_hop.address() {
            return Ok(vec![address]);
        }
        let name = self.name(Question::of(next_hop));
        match timeout(patience, name.targets(counters)).await {
            Ok(targets) => targets.map(|targets| addresses(&targets, next_hop.port)),
            Err(_) => Err(format!("no answer in {}; see /etc/resolv.conf", show_duration(patience))),
        }
    }

    /// Returns what is known of the name of `next_hop`. `None` if the hop is an address, or if no tunnel has it any more.
    pub(crate) fn view(&self, next_hop: &NextHop) -> Option<NameFacts> {
        if next_hop.address().is_some() {
            return None;
        }
        let name = lock(&self.0).names.get(&Question::of(next_hop)).cloned()?;
        let cached = lock(&name.cached);
        let targets = cached.last_good();
        let noted = |why: &String, since: Instant| Noted { why: why.clone().into(), age: since.elapsed() };
        Some(NameFacts {
            has_address: targets.is_some_and(|targets| targets.iter().any(|target| !target.addresses.is_empty())),
            outage: cached.outage().map(|Outage { why, since, .. }| noted(why, *since)),
            absence: cached.absence().map(|Absence { why, since, .. }| noted(why, *since)),
        })
    }

    /// Returns the name of `question`. A flow of a tunnel that was removed may ask for a name that is no longer kept;
    /// it is then resolved for this flow alone.
    fn name(&self, question: Question) -> Arc<Name> {
        let known = lock(&self.0);
        let kept = known.names.get(&question).cloned();
        kept.unwrap_or_else(|| Name::new(question, &known.resolver, Cached::default()))
    }
}

impl Name {
    fn new(question: Question, resolver: &Arc<Resolver>, cached: Cached<Targets>) -> Arc<Name> {
        Arc::new(Name { question, resolver: resolver.clone(), cached: Mutex::new(cached), answered: Notify::new() })
    }

    /// Waits until there is an answer, and returns it.
    async fn targets(self: &Arc<Name>, counters: &Counters) -> Result<Targets, String> {
        loop {
            // Before the question, because notify_waiters wakes every `Notified` that exists by then.
            let answered = self.answered.notified();
            match self.ask() {
                Answer::Fresh(targets) => return Ok(targets),
                Answer::Stale(targets) => {
                    counters.count(|counters| &counters.stale_answers);
                    return Ok(targets);
                }
                Answer::Absent(why) | Answer::Unanswered(why) => return Err(why),
                Answer::Wait { until: None } => answered.await,
                Answer::Wait { until: Some(until) } => drop(timeout_at(until.into(), answered).await),
            }
        }
    }

    /// Returns what is known. Begins a query if one is due.
    fn ask(self: &Arc<Name>) -> Answer<Targets> {
        let Ask { answer, begin } = lock(&self.cached).ask(now());
        if begin {
            tokio::spawn(query(Arc::downgrade(self), self.question.clone(), self.resolver.clone()));
        }
        answer
    }

    /// Stores the reply to a query. Returns the next step, if it found nothing.
    fn answer(&self, reply: Reply<Targets>) -> Option<Again> {
        let why = match &reply {
            Reply::Failed { why } | Reply::Absent { why, .. } => why.clone(),
            Reply::Found { .. } => String::new(),
        };
        let (outcome, again, is_served) = {
            let mut cached = lock(&self.cached);
            let outcome = cached.answered(reply, now());
            let ask = || cached.absence().map(|absence| Again::Ask(absence.until));
            (outcome, cached.again().map(Again::Repeat).or_else(ask), cached.last_good().is_some())
        };
        let name = &self.question;
        // One line for each begin and each end, not for each retry: resolvers can be down for hours.
        if let Outcome::Recovered(failed) | Outcome::AbsenceBegins(failed @ 1..) | Outcome::AbsenceEnds(failed @ 1..) =
            outcome
        {
            info!(%name, failed, "a resolver answers again");
        }
        match outcome {
            Outcome::OutageBegins if is_served => {
                warn!(%name, %why, "no resolver answers; the last good answer serves")
            }
            Outcome::OutageBegins => warn!(%name, %why, "no resolver answers, and nothing is known of the name"),
            Outcome::AbsenceBegins(_) => warn!(%name, %why, "a name of a next hop leads nowhere"),
            Outcome::AbsenceEnds(_) => info!(%name, "a name of a next hop leads somewhere now"),
            Outcome::Answered | Outcome::Recovered(_) | Outcome::OutageGoesOn => {}
        }
        self.answered.notify_waiters();
        again
    }
}

/// The next step after a query that found nothing.
enum Again {
    /// It is repeated at this moment.
    Repeat(Instant),
    /// The name is asked for at this moment, unless a flow has done so.
    Ask(Instant),
}

/// Asks until there is an answer, or until nobody wants one any more.
async fn query(name: Weak<Name>, question: Question, resolver: Arc<Resolver>) {
    loop {
        let once = {
            let (question, resolver) = (question.clone(), resolver.clone());
            async move { resolver.resolve(&question).await }
        };
        // On a task of its own, so that a panic is a failed query: no flow must wait for ever.
        let reply = tokio::spawn(once).await;
        let reply = reply.unwrap_or_else(|err| Reply::Failed { why: format!("the query has failed: {err}") });
        match name.upgrade().and_then(|name| name.answer(reply)) {
            None => return,
            Some(Again::Repeat(at)) => sleep_until(at.into()).await,
            Some(Again::Ask(at)) => {
                sleep_until(at.into()).await;
                if let Some(name) = name.upgrade() {
                    name.ask();
                }
                return;
            }
        }
    }
}

/// Returns the time of the runtime, which tests can advance.
fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}
