//! Whether a tunnel is well.

mod stage;

pub use stage::{Cause, Stage, Trouble};
