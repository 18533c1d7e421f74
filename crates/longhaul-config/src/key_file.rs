//! Reads the file with the shared key of probes.

use longhaul_core::wire::proof::{Key, MIN_KEY_BYTES};
use std::borrow::Cow;
use std::fmt;
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Why the file of a key is not used. The text names the path and the remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyError {
    text: String,
    is_denied: bool,
}

impl KeyError {
    /// Whether this process may not read the file. Another user may.
    pub fn is_denied(&self) -> bool {
        self.is_denied
    }
}

impl From<String> for KeyError {
    fn from(text: String) -> KeyError {
        KeyError { text, is_denied: false }
    }
}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Reads the key in the file at `path`: its bytes without white space at the end.
///
/// # Errors
/// It cannot be read, others may read it, or it is too short or too long.
pub fn load(path: &Path) -> Result<Key, KeyError> {
    let name = path.display();
    let failed = |err: io::Error| KeyError {
        text: format!("key file {name}: {err}{}", remedy(path, err.kind())),
        is_denied: err.kind() == ErrorKind::PermissionDenied,
    };
    // Opening a FIFO would wait for its writer.
    if !path.metadata().map_err(failed)?.is_file() {
        return Err(format!("key file {name}: it is not a regular file").into());
    }
    let file = File::open(path).map_err(failed)?;
    let mode = file.metadata().map_err(failed)?.mode();
    if mode & OTHERS != 0 {
        return Err(format!(
            "key file {name}: other users may read or change it (mode {:04o}): chmod o= {name}",
            mode & 0o7777
        )
        .into());
    }
    let mut bytes = Vec::new();
    file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(format!("key file {name}: it is longer than {MAX_FILE_BYTES} bytes").into());
    }
    let key = bytes.trim_ascii_end();
    Key::new(key).ok_or_else(|| {
        let has = key.len();
        format!(
            "key file {name}: a key of {has} bytes is too short; write {MIN_KEY_BYTES} or more: openssl rand -hex 32"
        )
        .into()
    })
}

/// Returns the clause that says how longhaul.service gets the key file at `path`, which its user cannot read.
pub fn handover(path: &Path) -> String {
    let (name, path) = (credential(path), path.display());
    format!(
        "write key_file = \"{CREDENTIALS}/longhaul.service/{name}\", and LoadCredential={name}:{path} in the unit (systemctl edit \
         longhaul)"
    )
}

/// Returns a clause with the remedy for an error of `kind` at the key file `path`; empty if it is not known.
fn remedy(path: &Path, kind: ErrorKind) -> String {
    match (kind, path.starts_with(CREDENTIALS)) {
        (ErrorKind::PermissionDenied, false) => format!("; for longhaul.service, {}", handover(path)),
        (ErrorKind::NotFound, false) => "; write it, or leave `key_file` out".into(),
        (ErrorKind::NotFound, true) => {
            let name = credential(path);
            format!("; the unit needs LoadCredential={name}:/etc/longhaul/{name}")
        }
        _ => String::new(),
    }
}

/// Returns the name of the credential that has the file at `path`.
fn credential(path: &Path) -> Cow<'_, str> {
    path.file_name().unwrap_or_default().to_string_lossy()
}

/// The folder with the credentials of units (systemd.exec(5) LoadCredential=).
pub const CREDENTIALS: &str = "/run/credentials";

/// Maximum length of the file in bytes.
const MAX_FILE_BYTES: u64 = 4096;

/// The rights of others in a file's mode.
const OTHERS: u32 = 0o007;

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_key_file_has_a_mode_and_a_length() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("probe.key");
        let with = |bytes: &[u8], mode| {
            fs::write(&path, bytes).unwrap();
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            load(&path)
        };
        assert!(load(&path).unwrap_err().to_string().contains("No such file"));
        assert_eq!(with(b"0123456789abcdef\n", 0o600), Ok(Key::new(b"0123456789abcdef").unwrap()));
        assert!(with(b"0123456789abcdef", 0o640).is_ok());
        assert!(with(b"0123456789abcde \n", 0o600).unwrap_err().to_string().contains("a key of 15 bytes is too short"));
        assert!(with(b"0123456789abcdef", 0o644).unwrap_err().to_string().contains("(mode 0644): chmod o= "));
        assert!(with(&[b'x'; 5000], 0o600).unwrap_err().to_string().contains("longer than 4096 bytes"));
        assert!(load(folder.path()).unwrap_err().to_string().contains("not a regular file"));
    }

    #[test]
    fn a_file_that_the_daemon_cannot_read_is_handed_over_by_the_unit() {
        let said = remedy(Path::new("/etc/longhaul/probe.key"), ErrorKind::PermissionDenied);
        let want = "; for longhaul.service, write key_file = \"/run/credentials/longhaul.service/probe.key\", and \
                    LoadCredential=probe.key:/etc/longhaul/probe.key in the unit (systemctl edit longhaul)";
        assert_eq!(said, want);
        let credential = Path::new("/run/credentials/longhaul.service/no.key");
        assert_eq!(remedy(credential, ErrorKind::PermissionDenied), "", "the unit hands it over already");
        let said = load(credential).unwrap_err().to_string();
        assert!(said.ends_with("; the unit needs LoadCredential=no.key:/etc/longhaul/no.key"), "{said}");
        assert_eq!(remedy(Path::new("/etc/no.key"), ErrorKind::NotFound), "; write it, or leave `key_file` out");
    }
}
