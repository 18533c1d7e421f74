//! A permit for each flow that descriptors allow, taken before accept(2), so that accept never fails for want of one.
//!
//! A reload may make them fewer than there are flows. No flow is touched then: the next ones to end pay the debt with
//! their permits, and until it is paid nobody gets one.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// All permits of the process. There are `all` and `debt` of them, and none is free while there is debt.
#[derive(Debug)]
pub(super) struct Permits {
    free: Arc<Semaphore>,
    all: AtomicUsize,
    debt: AtomicUsize,
}

/// One flow's permit; dropping it gives it back.
#[derive(Debug)]
pub(super) struct Permit {
    permits: Arc<Permits>,
    permit: Option<OwnedSemaphorePermit>,
}

impl Permits {
    pub(super) fn new(all: usize) -> Arc<Permits> {
        Arc::new(Permits { free: Arc::new(Semaphore::new(all)), all: all.into(), debt: AtomicUsize::new(0) })
    }

    /// How many flows there may be.
    pub(super) fn all(&self) -> usize {
        self.all.load(Relaxed)
    }

    /// Waits for one. It is safe to drop the wait.
    pub(super) async fn take(self: &Arc<Permits>) -> Option<Permit> {
        // None only from a closed semaphore, and this one is never closed.
        let permit = self.free.clone().acquire_owned().await.ok();
        permit.map(|permit| Permit { permits: self.clone(), permit: Some(permit) })
    }

    /// One that is free now.
    pub(super) fn try_take(self: &Arc<Permits>) -> Option<Permit> {
        let permit = self.free.clone().try_acquire_owned().ok();
        permit.map(|permit| Permit { permits: self.clone(), permit: Some(permit) })
    }

    /// From now on there are `all`, but for the flows that are there. Called by one task at a time.
    pub(super) fn set(self: &Arc<Permits>, all: usize) {
        let before = self.all.swap(all, Relaxed);
        if let Some(fewer) = before.checked_sub(all) {
            self.debt.fetch_add(fewer, Relaxed);
            // Those that are free pay at once: dropping one pays.
            while self.debt.load(Relaxed) > 0 && self.try_take().is_some() {}
        } else {
            let more = all - before;
            let debt = self.debt.fetch_update(Relaxed, Relaxed, |debt| Some(debt.saturating_sub(more)));
            let forgiven = debt.unwrap_or_default().min(more);
            self.free.add_permits(more - forgiven);
        }
    }

    /// Waits until every permit is back.
    pub(super) async fn returned(&self) {
        let all = u32::try_from(self.all()).unwrap_or(u32::MAX);
        // It fails only on a closed semaphore.
        drop(self.free.acquire_many(all).await);
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let paid = self.permits.debt.fetch_update(Relaxed, Relaxed, |debt| debt.checked_sub(1));
        if let (Ok(_), Some(permit)) = (paid, self.permit.take()) {
            permit.forget();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn fewer_permits_than_flows_are_paid_by_those_that_end() {
        let permits = Permits::new(5);
        let mut flows: Vec<Permit> = std::iter::from_fn(|| permits.try_take()).collect();
        assert_eq!(flows.len(), 5);
        permits.set(2);
        for _ in 0..3 {
            flows.pop();
            assert!(permits.try_take().is_none(), "{} flows", flows.len());
        }
        flows.pop();
        flows.push(permits.try_take().unwrap());
        assert!(permits.try_take().is_none());
        flows.clear();
        permits.returned().await;
        permits.set(4);
        assert_eq!(std::iter::from_fn(|| permits.try_take()).collect::<Vec<_>>().len(), 4);
    }

    #[tokio::test]
    async fn a_debt_is_forgiven_when_there_are_more_again() {
        let permits = Permits::new(5);
        let mut flows: Vec<Permit> = std::iter::from_fn(|| permits.try_take()).collect();
        permits.set(1);
        permits.set(4);
        assert!(permits.try_take().is_none());
        flows.truncate(3);
        flows.push(permits.try_take().unwrap());
        assert!(permits.try_take().is_none());
        flows.clear();
        permits.returned().await;
        assert_eq!(permits.all(), 4);
    }
}
