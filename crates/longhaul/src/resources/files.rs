//! The files of /proc and /sys.

use std::fs;
use std::io::Read;
use std::path::PathBuf;

/// The files below a folder: `/`, or that of a test.
#[derive(Debug)]
pub(super) struct Files {
    root: PathBuf,
}

impl Files {
    /// Returns the files of this system.
    pub(super) fn new() -> Files {
        Files { root: "/".into() }
    }

    /// Returns the files below `root`.
    #[cfg(test)]
    pub(super) fn below(root: PathBuf) -> Files {
        Files { root }
    }

    /// Returns the text of the file at `path`, which begins with a slash. `None` if there is none, or if it is not text. A
    /// container need not have every file.
    pub(super) fn read(&self, path: &str) -> Option<String> {
        let mut text = String::new();
        let file = fs::File::open(self.root.join(path.trim_start_matches('/'))).ok()?;
        file.take(MAX_BYTES).read_to_string(&mut text).ok()?;
        Some(text)
    }

    /// Returns the text of the sysctl at `name`, such as `net/ipv4/tcp_mem`.
    pub(super) fn sysctl(&self, name: &str) -> Option<String> {
        self.read(&format!("/proc/sys/{name}"))
    }
}

/// Maximum number of bytes of a file that is read. mountinfo is the longest.
const MAX_BYTES: u64 = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_there_is_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let files = Files::below(folder.path().into());
        assert_eq!(files.read("/proc/self/status"), None);
        fs::write(folder.path().join("binary"), [0xff, 0xfe]).unwrap();
        assert_eq!(files.read("/binary"), None);
        fs::write(folder.path().join("text"), "yes\n").unwrap();
        assert_eq!(files.read("/text").as_deref(), Some("yes\n"));
    }
}
