//! Sets an option with its value in the kernel and reads it back. Errors get a remedy.

use super::row::{Kind, Row, Value};
use longhaul_sys::{Result, SysError};
use std::borrow::Cow;
use std::os::fd::BorrowedFd;

/// An option and its wanted value.
#[derive(Clone, Debug)]
pub struct Setting {
    /// The option.
    pub row: &'static Row,
    /// The wanted value, in the unit of the row.
    pub value: Value,
}

/// An option that did not take effect as asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// The option's key.
    pub key: &'static str,
    /// The wanted value.
    pub asked: Value,
    /// The value in the kernel, in the same unit.
    pub got: Value,
    /// Remedy; empty if none is known.
    pub remedy: &'static str,
}

impl Setting {
    /// Sets the option on `socket` and reads it back. Returns `Ok(None)` if the kernel has the wanted value.
    ///
    /// # Errors
    /// The kernel refused to set or to read the option; the hint has the remedy.
    pub fn apply(&self, socket: BorrowedFd<'_>) -> Result<Option<Mismatch>> {
        self.tell(socket)?;
        let got = match self.row.read(socket)? {
            Some(got) if !(self.row.agrees)(&self.value, &got) => got,
            _ => return Ok(None),
        };
        Ok(Some(Mismatch { key: self.row.key, asked: self.value.clone(), got, remedy: self.row.clamped }))
    }

    /// Sets the option on `socket` without reading it back. Meant for every connection after the first of its kind.
    ///
    /// # Errors
    /// The kernel refused; the hint has the remedy.
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

    /// Adds a remedy to `err`, unless it already has a hint.
    fn remedied(&self, err: SysError) -> SysError {
        if !err.hint.is_empty() {
            return err;
        }
        match self.row.remedies.iter().find(|remedy| remedy.errno == err.errno) {
            Some(remedy) => err.hint((remedy.text)(&self.value)),
            None if err.errno == libc::EINVAL && *self.row.range.end() > 0 => {
                let (min, max) = (self.row.range.start(), self.row.range.end());
                err.hint(Cow::Owned(format!("{} takes {min} to {max}", self.row.key)))
            }
            None => err,
        }
    }
}

/// Returns the error about a value whose unit is not the option's.
fn misfit(key: &str, value: &Value) -> SysError {
    SysError { call: format!("setsockopt({key}, {value})"), errno: libc::EINVAL, hint: Cow::Borrowed("") }
}

impl PartialEq for Setting {
    fn eq(&self, other: &Setting) -> bool {
        std::ptr::eq(self.row, other.row) && self.value == other.value
    }
}
