//! The places of this host that tune changes, and the only code that changes them.

use super::program::output;
use super::route;
use super::values::one_line;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::fs::{self, File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A place that holds one value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum ValuePlace {
    /// A sysctl, by its name with dots.
    Sysctl(String),
    /// The route to a network, as ip(8) shows it.
    Route(String),
    /// The file that keeps the sysctls: [`FILE`].
    File,
}

impl ValuePlace {
    /// Returns the present value; `None` if there is no such place.
    ///
    /// # Errors
    /// It exists, and cannot be read.
    pub(super) fn value(&self) -> io::Result<Option<String>> {
        let read = match self {
            ValuePlace::Sysctl(name) => fs::read_to_string(sysctl_path(name)).map(|text| one_line(&text)),
            ValuePlace::Route(network) => return route::read(network),
            // An administrator may have added what is no UTF-8.
            ValuePlace::File => fs::read(FILE).map(|text| String::from_utf8_lossy(&text).into_owned()),
        };
        match read {
            Err(err) if err.kind() == io::ErrorKind::NotFound => Ok(None),
            read => read.map(Some),
        }
    }

    /// Whether two values are the same. ip(8) shows the words of a route in an order of its own.
    pub(super) fn is_same(&self, one: Option<&str>, other: Option<&str>) -> bool {
        match (self, one, other) {
            (ValuePlace::Route(_), Some(one), Some(other)) => route::is_same(one, other),
            _ => one == other,
        }
    }
}

impl ValuePlace {
    /// Whether its name is one that tune gives. Another one in a damaged record might name any file.
    pub(super) fn is_plain(&self) -> bool {
        let is_word = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        match self {
            ValuePlace::Sysctl(name) => name.starts_with("net.") && !name.contains("..") && name.bytes().all(is_word),
            ValuePlace::Route(network) => network.bytes().all(|byte| is_word(byte) || b"/:".contains(&byte)),
            ValuePlace::File => true,
        }
    }
}

impl fmt::Display for ValuePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ValuePlace::Sysctl(name) => f.write_str(name),
            ValuePlace::Route(network) => write!(f, "route {network}"),
            ValuePlace::File => f.write_str(FILE),
        }
    }
}

/// This host, for changes. Each step is one system call or one program that changes something.
pub(super) struct Host<'g> {
    gate: &'g dyn Fn(&str) -> io::Result<()>,
}

impl<'g> Host<'g> {
    /// Returns this host. `gate` is called before each step, with its name. If it fails, so does the step. A test stops the
    /// process in it.
    pub(super) fn new(gate: &'g dyn Fn(&str) -> io::Result<()>) -> Host<'g> {
        Host { gate }
    }

    /// Calls the gate before `step`.
    ///
    /// # Errors
    /// Those of the gate.
    pub(super) fn announce(&self, step: &str) -> io::Result<()> {
        (self.gate)(step)
    }

    /// Sets the value of `place`, and reads it back. `None` removes the file.
    ///
    /// # Errors
    /// It cannot be set, or it has another value afterwards.
    pub(super) fn set(&self, place: &ValuePlace, value: Option<&str>) -> io::Result<()> {
        match (place, value) {
            (ValuePlace::Sysctl(name), Some(value)) => {
                self.announce(&format!("set {name}"))?;
                // One write(2): proc(5) takes a sysctl's value as a whole.
                File::options().write(true).truncate(true).open(sysctl_path(name))?.write_all(value.as_bytes())?;
            }
            (ValuePlace::Route(_), Some(route)) => {
                self.announce(&format!("change route {route}"))?;
                route::change(route)?;
            }
            (ValuePlace::File, Some(text)) => {
                let file = Path::new(FILE);
                // Small containers do not have it.
                self.make_folder(file.parent().unwrap_or(file))?;
                self.replace(file, text)?;
            }
            (ValuePlace::File, None) => self.remove(Path::new(FILE))?,
            (ValuePlace::Sysctl(_) | ValuePlace::Route(_), None) => {
                return Err(io::Error::other("it cannot be removed"));
            }
        }
        self.announce(&format!("read back {place}"))?;
        let now = place.value()?;
        match place.is_same(now.as_deref(), value) {
            true => Ok(()),
            false => Err(io::Error::other(format!("read back, it is {}", now.as_deref().unwrap_or("gone")))),
        }
    }

    /// Loads a kernel module.
    ///
    /// # Errors
    /// modprobe(8) fails, with what it says.
    pub(super) fn load(&self, module: &str) -> io::Result<()> {
        self.announce(&format!("load {module}"))?;
        output(Command::new("modprobe").arg(module)).map(drop)
    }

    /// Writes a file as a whole: a reader, also one after a crash, finds the old text or the new one.
    ///
    /// # Errors
    /// Those of the system calls.
    pub(super) fn replace(&self, path: &Path, text: &str) -> io::Result<()> {
        let new = unfinished(path);
        self.announce(&format!("create {}", new.display()))?;
        // A new file, with the rights of sysctl.d whatever the umask is: no link that somebody has put there is followed.
        match fs::remove_file(&new) {
            Err(err) if err.kind() != io::ErrorKind::NotFound => return Err(err),
            _ => {}
        }
        let mut file = File::options().write(true).create_new(true).open(&new)?;
        file.set_permissions(Permissions::from_mode(0o644))?;
        self.announce(&format!("write {}", new.display()))?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        self.announce(&format!("rename {}", new.display()))?;
        fs::rename(&new, path)?;
        self.sync_folder(path)
    }

    /// Removes a file. One that is gone already is no failure.
    ///
    /// # Errors
    /// Those of the system calls.
    pub(super) fn remove(&self, path: &Path) -> io::Result<()> {
        if !path.exists() {
            return Ok(());
        }
        self.announce(&format!("remove {}", path.display()))?;
        fs::remove_file(path)?;
        self.sync_folder(path)
    }

    /// Removes what a [`Host::replace`] of `path` has left that was stopped.
    ///
    /// # Errors
    /// Those of the system calls.
    pub(super) fn remove_unfinished(&self, path: &Path) -> io::Result<()> {
        self.remove(&unfinished(path))
    }

    /// Creates the folder `path`, unless it exists.
    ///
    /// # Errors
    /// Those of the system calls.
    pub(super) fn make_folder(&self, path: &Path) -> io::Result<()> {
        if path.is_dir() {
            return Ok(());
        }
        self.announce(&format!("create {}", path.display()))?;
        fs::create_dir_all(path)?;
        fs::set_permissions(path, Permissions::from_mode(0o755))?;
        self.sync_folder(path)
    }

    /// Removes a folder, unless it holds files.
    ///
    /// # Errors
    /// Those of the gate.
    pub(super) fn remove_empty_folder(&self, path: &Path) -> io::Result<()> {
        self.announce(&format!("remove {}", path.display()))?;
        drop(fs::remove_dir(path));
        Ok(())
    }

    /// Writes to disk that `path` is, or is no longer, in its folder (fsync(2)).
    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        self.announce(&format!("sync the folder of {}", path.display()))?;
        File::open(path.parent().unwrap_or(path))?.sync_all()
    }
}

/// Why this network namespace does not own a sysctl; `None` if it does.
pub(super) fn not_ours(name: &str) -> Option<&'static str> {
    use std::os::unix::fs::PermissionsExt;
    let path = sysctl_path(name);
    let Ok(found) = fs::metadata(&path) else { return Some("missing in this kernel or network namespace") };
    // open(2) alone changes nothing. An ordinary user sees what root may do in the mode.
    let refused = File::options().write(true).open(&path).err();
    let is_read_only = match refused.map(|err| err.kind()) {
        None => false,
        Some(io::ErrorKind::PermissionDenied) if !longhaul_sys::netns::is_root() => {
            found.permissions().mode() & 0o222 == 0
        }
        Some(_) => true,
    };
    is_read_only.then_some("read-only in this network namespace")
}

fn sysctl_path(name: &str) -> PathBuf {
    Path::new("/proc/sys").join(name.replace('.', "/"))
}

/// Returns the name under which a file is written before it is renamed to `path`. sysctl.d(5): only `*.conf` is read.
fn unfinished(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    name.into()
}

/// The file that keeps the sysctls. sysctl.d(5): it is read after /usr/lib/sysctl.d/90-longhaul.conf. A file of the same name would
/// hide that one.
pub(super) const FILE: &str = "/etc/sysctl.d/91-longhaul-tune.conf";
