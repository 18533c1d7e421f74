//! The file of the control socket.

use longhaul_sys::{errno_text, unix};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::{env, fs};

/// Returns the path of the control socket of a process without `[admin] socket`. `name` is `admin` for `longhaul run`, and
/// the name of the tunnel for `longhaul relay`. The folder is /run/longhaul, or the one that systemd has made for the
/// unit (systemd.exec(5) RuntimeDirectory=).
pub fn default_path(name: &str) -> PathBuf {
    // systemd.exec(5): several folders are separated by colons.
    let folders = env::var("RUNTIME_DIRECTORY").unwrap_or_default();
    let folder = folders.split(':').find(|folder| folder.starts_with('/')).unwrap_or(FOLDER);
    Path::new(folder).join(format!("{name}.sock"))
}

/// The file of a control socket that listens. Dropping it removes the file.
#[derive(Debug)]
pub(super) struct SocketFile {
    path: PathBuf,
    device: u64,
    inode: u64,
}

impl SocketFile {
    /// Listens at `path`, with mode 0600. Replaces a socket on which nobody listens.
    ///
    /// # Errors
    /// Why not, with the call and the errno: another process listens there, there is another kind of file, or the file
    /// cannot be made.
    pub(super) fn listen(path: &Path) -> Result<(UnixListener, SocketFile), String> {
        let listener = match unix::listen(path) {
            Err(err) if err.errno == libc::EADDRINUSE => {
                remove_stale(path)?;
                unix::listen(path)
            }
            listener => listener,
        };
        let listener = listener.map_err(|err| err.to_string())?;
        let found = fs::symlink_metadata(path).map_err(|err| failed("stat", path, &err))?;
        let file = SocketFile { path: path.into(), device: found.dev(), inode: found.ino() };
        Ok((listener.into(), file))
    }

    /// Makes the folder of a default path.
    pub(super) fn make_folder(path: &Path) {
        if let Some(folder) = path.parent() {
            // Without the folder, the socket cannot be made, and that error is reported.
            let _ = fs::DirBuilder::new().mode(0o755).create(folder);
        }
    }

    /// Returns the path.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the socket is reached by `path`.
    pub(super) fn is_at(&self, path: &Path) -> bool {
        self.path == path && self.is_there()
    }

    /// Whether the file is still there, and not replaced by another.
    fn is_there(&self) -> bool {
        fs::symlink_metadata(&self.path).is_ok_and(|found| (found.dev(), found.ino()) == (self.device, self.inode))
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if self.is_there() {
            // The next start replaces a file that cannot be removed.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Removes the socket at `path` if nobody listens on it.
fn remove_stale(path: &Path) -> Result<(), String> {
    let found = fs::symlink_metadata(path).map_err(|err| failed("stat", path, &err))?;
    if !found.file_type().is_socket() {
        return Err(format!("{} is another kind of file; remove it, or write another path", path.display()));
    }
    if unix::is_answered(path).map_err(|err| err.to_string())? {
        return Err(format!("another process listens on {}; write another path", path.display()));
    }
    fs::remove_file(path).map_err(|err| failed("unlink", path, &err))
}

fn failed(call: &str, path: &Path, err: &io::Error) -> String {
    format!("{call}({}): {}", path.display(), errno_text(err.raw_os_error().unwrap_or(libc::EIO)))
}

/// Folder of the default sockets.
const FOLDER: &str = "/run/longhaul";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stale_socket_is_replaced_and_a_live_one_or_another_file_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("admin.sock");
        let (listener, file) = SocketFile::listen(&path).unwrap();
        assert!(SocketFile::listen(&path).unwrap_err().starts_with("another process listens on "));
        assert!(file.is_there());
        std::mem::forget(file); // as when the process is killed
        drop(listener);
        let (_listener, file) = SocketFile::listen(&path).unwrap();
        drop(file);
        assert!(!path.exists());
        fs::write(&path, "notes").unwrap();
        assert!(SocketFile::listen(&path).unwrap_err().contains("is another kind of file"));
        assert_eq!(fs::read_to_string(&path).unwrap(), "notes");
    }

    #[test]
    fn a_replaced_file_is_left_to_its_new_owner() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("admin.sock");
        let (_old, file) = SocketFile::listen(&path).unwrap();
        fs::remove_file(&path).unwrap();
        let (_new, _file) = SocketFile::listen(&path).unwrap();
        assert!(!file.is_there());
        drop(file);
        assert!(path.exists());
    }
}
