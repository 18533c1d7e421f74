//! The data connections of a control connection, at most [`DATA_CONNECTIONS`]. The control connection's permit is for them, too.
//! Those that outlive it keep a permit of their own.

use crate::relay::lock::lock;
use crate::relay::permits::{DATA_CONNECTIONS, Gate};
use std::sync::{Arc, Mutex};
use tokio::sync::Notify;

/// The places for the data connections of one control connection.
#[derive(Debug)]
pub(super) struct Places {
    /// The tunnel's gate.
    gate: Arc<Gate>,
    state: Mutex<State>,
    /// Notified when one comes back.
    freed: Notify,
}

#[derive(Debug)]
struct State {
    /// Number of places that data connections have.
    taken: usize,
    /// Whether the control connection is over.
    is_left: bool,
}

/// The right to one data connection. Dropping it gives it back.
#[derive(Debug)]
pub(crate) struct Place {
    places: Arc<Places>,
}

impl Places {
    /// Returns the places of a new control connection of the tunnel of `gate`.
    pub(super) fn new(gate: &Arc<Gate>) -> Arc<Places> {
        Arc::new(Places {
            gate: gate.clone(),
            state: Mutex::new(State { taken: 0, is_left: false }),
            freed: Notify::new(),
        })
    }

    /// Takes one place.
    ///
    /// # Errors
    /// All places are taken. The text goes to the client.
    pub(super) fn one(self: &Arc<Places>) -> Result<Place, String> {
        let mut state = lock(&self.state);
        if state.taken >= usize::from(DATA_CONNECTIONS) {
            return Err(format!("{DATA_CONNECTIONS} data connections are open already"));
        }
        state.taken += 1;
        Ok(Place { places: self.clone() })
    }

    /// Ends when a place has come back.
    pub(super) async fn freed(&self) {
        self.freed.notified().await;
    }

    /// Returns the number of places that are taken.
    pub(super) fn taken(&self) -> usize {
        lock(&self.state).taken
    }

    /// Notes that the control connection is over. Call it once, before its permit is dropped: the data connections go on.
    pub(super) fn leave(&self) {
        let mut state = lock(&self.state);
        state.is_left = true;
        self.gate.keep_apart(state.taken);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let Places { gate, state, freed } = &*self.places;
        let mut state = lock(state);
        state.taken -= 1;
        if state.is_left {
            gate.give_back_apart();
        }
        drop(state);
        freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::relay::Relay;
    use longhaul_config::Protocol;
    use std::time::Duration;
    use tokio::time::timeout;

    const LONG: Duration = Duration::from_secs(60);

    #[tokio::test]
    async fn control_connections_cannot_starve_their_data_connections() {
        let relay = Relay::new(1000);
        let gate = relay.gate();
        relay.permit([(&gate, None)]);
        let all = relay.max_flows();
        gate.carry(Protocol::Ftp);
        let mut controls = Vec::new();
        while let Ok(control) = gate.try_enter() {
            controls.push((control, Places::new(&gate)));
        }
        assert_eq!(controls.len(), all / 3, "a control connection needs three permits");
        let full: Vec<_> = controls.iter().map(|(_, places)| [places.one().unwrap(), places.one().unwrap()]).collect();
        assert_eq!(controls[0].1.one().unwrap_err(), "2 data connections are open already");
        drop(full);
        assert!(controls[0].1.taken() == 0 && controls[0].1.one().is_ok(), "they have come back");
        // Data connections that outlive their control connection keep a permit.
        let orphans = controls.split_off(all / 3 - 3).into_iter().map(|(control, places)| {
            let place = places.one().unwrap();
            places.leave();
            drop(control);
            place
        });
        let orphans: Vec<_> = orphans.collect();
        let more: Vec<_> = std::iter::from_fn(|| gate.try_enter().ok()).collect();
        assert_eq!(more.len(), (all - 3 * controls.len() - orphans.len()) / 3);
        drop((controls, more));
        assert!(timeout(Duration::ZERO, relay.ended()).await.is_err(), "a drain waits for them");
        drop(orphans);
        timeout(LONG, relay.ended()).await.unwrap();
    }

    #[test]
    fn data_connections_do_not_count_in_max_flows() {
        let relay = Relay::new(1000);
        let gate = relay.gate();
        relay.permit([(&gate, None)]);
        relay.limit_flows(Some(2));
        gate.carry(Protocol::Ftp);
        let mut controls: Vec<_> = std::iter::from_fn(|| gate.try_enter().ok()).collect();
        assert_eq!(controls.len(), 2);
        let places = Places::new(&gate);
        let _data = [places.one().unwrap(), places.one().unwrap()];
        assert!(gate.try_enter().is_err(), "two control connections are all");
        controls.pop();
        assert!(gate.try_enter().is_ok(), "the data connections have no part in them");
    }
}
