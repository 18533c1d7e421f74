//! The emulated WAN.
