//! The data connections of a control connection, at most [`DATA_CONNECTIONS`]. The control connection's permit is for them, too.
//! They hold it, so a data connection that outlives its control connection still counts in every limit.

use crate::lock::lock;
use crate::state::served_tunnel::DATA_CONNECTIONS;
use std::any::Any;
use std::sync::{Arc, Mutex};
use tokio::sync::Notify;

/// The places for the data connections of one control connection.
#[derive(Debug)]
pub(super) struct DataPlaces {
    /// The permit of the control connection. Given back when the control connection and all its data connections are over.
    _permit: Arc<dyn Any + Send + Sync>,
    /// Number of places that data connections have.
    taken: Mutex<usize>,
    /// Notified when one comes back.
    freed: Notify,
}

/// The right to one data connection. Dropping it gives it back. Holds the control connection's permit.
#[derive(Debug)]
pub(crate) struct DataPlace {
    places: Arc<DataPlaces>,
}

impl DataPlaces {
    /// Returns the places of a new control connection that has `permit`.
    pub(super) fn new(permit: Arc<impl Any + Send + Sync>) -> Arc<DataPlaces> {
        Arc::new(DataPlaces { _permit: permit, taken: Mutex::default(), freed: Notify::new() })
    }

    /// Takes one place.
    ///
    /// # Errors
    /// All places are taken. The text goes to the client.
    pub(super) fn one(self: &Arc<DataPlaces>) -> Result<DataPlace, String> {
        let mut taken = lock(&self.taken);
        if *taken >= usize::from(DATA_CONNECTIONS) {
            return Err(format!("{DATA_CONNECTIONS} data connections are open already"));
        }
        *taken += 1;
        Ok(DataPlace { places: self.clone() })
    }

    /// Waits until a place comes back. The wait may be dropped.
    pub(super) async fn freed(&self) {
        self.freed.notified().await;
    }

    /// Returns the number of places that are taken.
    pub(super) fn taken(&self) -> usize {
        *lock(&self.taken)
    }
}

impl Drop for DataPlace {
    fn drop(&mut self) {
        *lock(&self.places.taken) -= 1;
        self.places.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::served_tunnel::ServedTunnel;
    use crate::state::shared::Relay;
    use longhaul_config::{Protocol, Tunnel};
    use longhaul_core::permits::Full;
    use longhaul_core::sources::{Crowded, Limits, Source};
    use std::net::IpAddr;
    use std::time::Duration;
    use tokio::time::timeout;

    const LONG: Duration = Duration::from_secs(60);

    fn ftp(relay: &Relay, max_flows: Option<usize>) -> Arc<ServedTunnel> {
        let settings = Tunnel::new("files", ([127, 0, 0, 1], 0).into(), Vec::new());
        let tunnel = relay.tunnels.open(Arc::new(Tunnel { protocol: Protocol::Ftp, max_flows, ..settings }));
        relay.tunnels.set(vec![tunnel.clone()]);
        tunnel
    }

    #[tokio::test]
    async fn control_connections_cannot_starve_their_data_connections() {
        let relay = Relay::new(1000);
        let tunnel = ftp(&relay, None);
        let all = relay.max_flows();
        // Bounded, so that broken code fails instead of hanging.
        let permits = std::iter::from_fn(|| tunnel.try_enter().ok()).take(all);
        let mut controls: Vec<_> = permits.map(|permit| DataPlaces::new(Arc::new(permit))).collect();
        assert_eq!(controls.len(), all / 3, "a control connection needs three permits");
        let full: Vec<_> = controls.iter().map(|places| [places.one().unwrap(), places.one().unwrap()]).collect();
        assert_eq!(controls[0].one().unwrap_err(), "2 data connections are open already");
        drop(full);
        assert!(controls[0].taken() == 0 && controls[0].one().is_ok(), "they have come back");
        // Data connections that outlive their control connection keep its permit.
        let mut orphans: Vec<_> = controls.split_off(all / 3 - 3).iter().map(|places| places.one().unwrap()).collect();
        assert!(orphans.len() == 3 && tunnel.try_enter().is_err());
        orphans.pop();
        let more: Vec<_> = std::iter::from_fn(|| tunnel.try_enter().ok()).collect();
        assert_eq!(more.len(), 1);
        drop((controls, more));
        assert!(timeout(Duration::ZERO, relay.ended()).await.is_err(), "a drain waits for them");
        drop(orphans);
        timeout(LONG, relay.ended()).await.unwrap();
    }

    /// The permit also has the source's slot, and the place in `max_flows`.
    #[test]
    fn a_client_that_leaves_its_data_connections_behind_keeps_its_place_in_the_limits() {
        let relay = Relay::new(1000);
        let tunnel = ftp(&relay, Some(2));
        let (source, limits) =
            (Source::from(IpAddr::from([192, 0, 2, 1])), Limits { max_flows: Some(1), ..Limits::default() });
        let (mut first, mut second) = (tunnel.try_enter().unwrap(), tunnel.try_enter().unwrap());
        first.note_source(source, limits).unwrap();
        let places = DataPlaces::new(Arc::new(first));
        let data = [places.one().unwrap(), places.one().unwrap()];
        drop(places);
        for place in data {
            assert_eq!(tunnel.try_enter().unwrap_err(), Full::MaxFlows);
            assert_eq!(second.note_source(source, limits), Err(Crowded::MaxFlows));
            drop(place);
        }
        assert!(tunnel.try_enter().is_ok(), "the last data connection is over");
        assert_eq!(second.note_source(source, limits), Ok(()));
    }
}
