//! The keys of `[admin]`.

use crate::keys::remark::no_remarks;
use crate::keys::row::{KeyDefault, KeyValue, Row, no_line};
use crate::value;

/// The values of an `[admin]` table: this version checks them and keeps none.
#[derive(Default)]
pub(crate) struct Admin;

/// The keys of `[admin]`, in the order of the manual.
pub(crate) const ADMIN: &[Row<Admin>] = &[
    Row {
        name: "socket",
        default: KeyDefault::Words("none"),
        example: "\"/run/longhaul/admin.sock\"",
        flag: None,
        value: KeyValue::One(|_, text| {
            match text.starts_with('/') && text.len() < SUN_PATH_MAX && !text.contains('\0') {
                true => Ok(()),
                false => {
                    Err("write an absolute path shorter than 108 bytes, such as \"/run/longhaul/admin.sock\"".into())
                }
            }
        }),
        show: no_line,
        check: no_remarks,
        doc: "Absolute path of the control socket.",
    },
    Row {
        name: "listen",
        default: KeyDefault::Words("none"),
        example: "\"127.0.0.1:9650\"",
        flag: None,
        value: KeyValue::One(|_, text| value::listen(text).map(drop)),
        show: no_line,
        check: no_remarks,
        doc: "Address of the read-only HTTP listener.",
    },
];

/// unix(7): sun_path has room for 108 bytes, and the last one is NUL.
const SUN_PATH_MAX: usize = 108;
