//! The options of one connection.

mod options;
