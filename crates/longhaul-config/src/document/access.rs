//! Explains why a file may not be read: which user was refused, by which file or directory, and what to do.

use std::fs::{self, Metadata};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Returns one clause that explains why this process may not read the file at `path`.
pub(super) fn refused(path: &Path) -> String {
    let user = fs::metadata("/proc/self").map(|own| own.uid());
    let who = user.as_ref().map_or("this user".into(), |uid| person(*uid));
    let Some(Closed { path, found, missing }) = closed(path) else {
        return format!("{who} may not read it; read it as root");
    };
    let (shown, mode) = (path.display(), found.permissions().mode() & 0o7777);
    let owner = format!("{}:{}", name(PASSWD, found.uid()), name(GROUP, found.gid()));
    let is_owner = user.is_ok_and(|uid| uid == found.uid());
    let (class, shift) = if is_owner { ('u', 6) } else { ('o', 0) };
    let refusal = format!("{who} may not read it; {shown} belongs to {owner} with mode {mode:04o}");
    match mode >> shift & missing.bit {
        0 => format!("{refusal}; run as root: chmod {class}+{} {shown}", missing.letter),
        // The mode allows it, so chmod would not help.
        _ => format!("{refusal}, which allows it: look for an ACL (getfacl {shown}), SELinux or AppArmor"),
    }
}

/// A right to a file or a directory.
struct Right {
    /// Its letter for chmod(1).
    letter: char,
    /// Its bit among the three bits of a class (user, group, others).
    bit: u32,
}

/// Right to read a file.
const READ: Right = Right { letter: 'r', bit: 4 };
/// Right to enter a directory.
const ENTER: Right = Right { letter: 'x', bit: 1 };

/// A file or a directory that this process has no right to.
struct Closed {
    path: PathBuf,
    /// Its owner and its mode.
    found: Metadata,
    missing: Right,
}

/// Returns the file itself, or the first directory above it that this process cannot enter.
fn closed(path: &Path) -> Option<Closed> {
    // path_resolution(7): stat needs no right on the file itself, but x on every directory above it.
    let path = std::path::absolute(path).ok()?;
    let (nth, found) = path.ancestors().enumerate().find_map(|(nth, path)| Some((nth, fs::metadata(path).ok()?)))?;
    let missing = if nth == 0 { READ } else { ENTER };
    Some(Closed { path: path.ancestors().nth(nth)?.into(), found, missing })
}

/// Describes the user `uid`: `user longhaul (uid 61234, a dynamic user of systemd)`.
fn person(uid: u32) -> String {
    let listed = lookup(PASSWD, uid);
    // systemd.exec(5): a dynamic user is not in /etc/passwd; its name is in the environment variable USER.
    let name = listed.or_else(|| std::env::var("USER").ok().filter(|name| !name.is_empty()));
    let dynamic = if DYNAMIC.contains(&uid) { ", a dynamic user of systemd" } else { "" };
    match name {
        Some(name) => format!("user {name} (uid {uid}{dynamic})"),
        None => format!("uid {uid}{dynamic}"),
    }
}

/// Returns the name of `id` in `file`, or the number if `file` does not have it.
fn name(file: &str, id: u32) -> String {
    lookup(file, id).unwrap_or_else(|| id.to_string())
}

/// Returns the name of `id` in `file`. The first three fields of both passwd(5) and group(5) are name, password and number.
fn lookup(file: &str, id: u32) -> Option<String> {
    let text = fs::read_to_string(file).ok()?;
    text.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(id)).then(|| name.into())
    })
}

const PASSWD: &str = "/etc/passwd";
const GROUP: &str = "/etc/group";
/// User numbers of systemd's dynamic users (docs/UIDS-GIDS.md of systemd).
const DYNAMIC: std::ops::RangeInclusive<u32> = 61184..=65519;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_named_and_a_dynamic_user_is_marked() {
        assert_eq!(person(0), "user root (uid 0)");
        assert!(person(61234).ends_with("(uid 61234, a dynamic user of systemd)") || person(61234).starts_with("uid"));
        assert_eq!(name(GROUP, 0), "root");
        assert_eq!(name(PASSWD, u32::MAX - 7), (u32::MAX - 7).to_string());
    }
}
