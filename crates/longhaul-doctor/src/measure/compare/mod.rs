//! `longhaul path --compare A B`: what has changed between two saved measurements.
//!
//! [`Comparison`] computes everything once; `text`, `json` and `page` show it.

mod comparison;
mod json;
mod page;
#[cfg(test)]
mod tests;
mod text;

pub(crate) use comparison::Comparison;
pub(crate) use json::json;
pub(crate) use page::page;
pub(crate) use text::text;
