//! The results of a scenario: [`run`] is one run over one carrier, with its [`verdict`] and the [`reason`] for it, and
//! [`json`] is the whole. [`table`] prints it, [`page`] makes a page of it; [`topology`] and [`repeat`] say in it what was
//! built and how to do it again.

pub(crate) mod json;
pub(crate) mod page;
pub(crate) mod reason;
pub(crate) mod repeat;
pub(crate) mod run;
pub(crate) mod table;
pub(crate) mod topology;
pub(crate) mod verdict;
