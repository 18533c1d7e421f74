//! An option with its value: told to the kernel, read back, and its error with a remedy.

use super::row::{Kind, Row, Value};
use longhaul_sys::{Result, SysError};
use std::borrow::Cow;
use std::fmt;
use std::os::fd::BorrowedFd;

/// An option and the value that it is to have.
#[derive(Clone, Debug)]
pub struct Setting {
    /// The option.
    pub row: &'static Row,
    /// Its value, in the unit of the row.
    pub value: Value,
}

/// An option that did not take effect as asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// The option's key.
    pub key: &'static str,
    /// The value that was asked for.
    pub asked: Value,
    /// The kernel's value instead, in the same unit.
    pub got: Value,
    /// Remedy; empty when none is known.
    pub remedy: &'static str,
}

impl Setting {
    /// Sets the option on `socket` and reads it back: `Ok(None)` when the kernel has what was asked for.
    ///
    /// # Errors
    /// The kernel refused to set or to tell it; the hint says what would help.
    pub fn apply(&self, socket: BorrowedFd<'_>) -> Result<Option<Mismatch>> {
        self.tell(socket)?;
        let got = match self.row.read(socket)? {
            Some(got) if !(self.row.agrees)(&self.value, &got) => got,
            _ => return Ok(None),
        };
        Ok(Some(Mismatch { key: self.row.key, asked: self.value.clone(), got, remedy: self.row.clamped }))
    }

    /// Sets the option on `socket` without reading it back: for every connection after the first of its kind.
    ///
    /// # Errors
    /// The kernel refused; the hint says what would help.
    pub fn tell(&self, socket: BorrowedFd<'_>) -> Result<()> {
        let told = match (self.row.kind, &self.value) {
            (Kind::Protocol { .. } | Kind::Relay, _) => Ok(()),
            (Kind::Int(opt), Value::Switch(on)) => opt.set_switch(socket, *on),
            (Kind::Int(opt), Value::Number(number)) => opt.set(socket, *number),
            (Kind::Number { set, .. }, Value::Number(number)) => set(socket, *number),
            (Kind::Word { set, .. }, Value::Name(word)) => set(socket, word),
            (_, value) => Err(misfit(self.row.key, value)),
        };
        told.map_err(|err| self.remedied(err))
    }

    /// Returns `err` with a remedy, unless it has one.
    fn remedied(&self, err: SysError) -> SysError {
        if !err.hint.is_empty() {
            return err;
        }
        let (min, max) = self.row.range;
        match self.row.remedies.iter().find(|(errno, _)| *errno == err.errno) {
            Some((_, remedy)) => err.hint(*remedy),
            None if err.errno == libc::EINVAL && max > 0 => {
                let hint = format!("{} takes {min} to {max}", self.row.key);
                err.hint(Cow::Owned(hint))
            }
            None => err,
        }
    }
}

/// Returns the error of a value of another unit than the option's.
fn misfit(key: &str, value: &Value) -> SysError {
    SysError { call: format!("setsockopt({key}, {value})"), errno: libc::EINVAL, hint: Cow::Borrowed("") }
}

impl PartialEq for Setting {
    fn eq(&self, other: &Setting) -> bool {
        std::ptr::eq(self.row, other.row) && self.value == other.value
    }
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: asked {}, got {}", self.key, self.asked, self.got)
    }
}
