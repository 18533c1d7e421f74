//! The operating systems, a file each.

mod aix;
mod ibmi;
mod linux;
mod row;
mod solaris;
mod vios;
mod windows;

pub(super) use aix::AIX;
pub(super) use ibmi::IBMI;
pub(super) use linux::LINUX;
pub(super) use solaris::SOLARIS;
pub(super) use vios::VIOS;
pub(super) use windows::WINDOWS;
