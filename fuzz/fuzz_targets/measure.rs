//! Reads any bytes as a message of either end of a measuring session, and as a datagram. Reading never panics. What is read is written
//! and read again: it is the same.

#![no_main]

use libfuzzer_sys::fuzz_target;
use longhaul_measure::answer::unhex;
use longhaul_measure::datagram::Datagram;
use longhaul_measure::message::{Ask, Tell};

fuzz_target!(|bytes: &[u8]| {
    if let Some(datagram) = Datagram::parse(bytes) {
        assert_eq!(Datagram::parse(&datagram.bytes(bytes.len())), Some(datagram));
    }
    if let Ok(ask) = serde_json::from_slice::<Ask>(bytes) {
        let written = serde_json::to_vec(&ask).expect("it was read");
        assert_eq!(serde_json::from_slice::<Ask>(&written).expect("it was written"), ask);
        match ask {
            Ask::Run(run) => drop(run.is_valid()),
            Ask::Train(train) => drop((train.is_valid(), train.bytes())),
            Ask::Proof(proof) => drop(unhex::<32>(&proof)),
            Ask::Echo(_) | Ask::Arrived(_) => {}
        }
    }
    if let Ok(tell) = serde_json::from_slice::<Tell>(bytes) {
        let written = serde_json::to_vec(&tell).expect("it was read");
        // A float may lose its last digit.
        assert!(serde_json::from_slice::<Tell>(&written).is_ok());
    }
});
