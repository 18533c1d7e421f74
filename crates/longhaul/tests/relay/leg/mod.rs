//! Tests the options of one connection.

mod options;
