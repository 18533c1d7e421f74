//! Parses any text as an entry of an allow-list. Parsing never panics. An accepted network has no bits to the right of its
//! prefix and is not IPv4-mapped. Printing and parsing it again gives the same network.

#![no_main]

use libfuzzer_sys::fuzz_target;
use longhaul_config::value;

fuzz_target!(|text: &str| {
    match value::network(text) {
        Ok(net) => {
            assert_eq!(net.trunc(), net);
            assert_eq!(value::network(&net.to_string()), Ok(net));
        }
        Err(why) => assert!(!why.is_empty()),
    }
});
