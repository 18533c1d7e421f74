//! Any text as an entry of an allow list: never a panic; what is accepted has no bits right of its prefix, is what IPv4
//! clients show as, and means the same when it is printed and read again.

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
