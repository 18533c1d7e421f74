//! The files from which the sysctls are set at boot (sysctl.d(5)).

use super::place::FILE;
use super::values::one_line;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The files, in the order in which they are read. tune's own file is none of them.
#[derive(Debug)]
pub(super) struct BootFiles(Vec<BootFile>);

#[derive(Debug)]
struct BootFile {
    path: PathBuf,
    /// Names and values, in the order of the file.
    sysctls: Vec<(String, String)>,
}

impl BootFiles {
    /// Reads the files of this host. A file that cannot be read sets nothing.
    pub(super) fn read() -> BootFiles {
        BootFiles::of(FOLDERS.iter().map(Path::new))
    }

    /// Reads the files in `folders`. A file hides those of the same name in later folders.
    fn of<'f>(folders: impl Iterator<Item = &'f Path>) -> BootFiles {
        let mut paths = BTreeMap::new();
        for entry in folders.flat_map(fs::read_dir).flatten().flatten() {
            let path = entry.path();
            if path.extension().is_some_and(|end| end == "conf") && path != Path::new(FILE) {
                paths.entry(entry.file_name()).or_insert(path);
            }
        }
        let file = |path: PathBuf| {
            let text = fs::read(&path).unwrap_or_default();
            BootFile { path, sysctls: parse(&String::from_utf8_lossy(&text)) }
        };
        // sysctl(8), --system: /etc/sysctl.conf is read last.
        BootFiles(paths.into_values().chain([PathBuf::from(LATE)]).map(file).collect())
    }

    /// Returns names and values of the file that longhaul installs for relays; nothing where it is not installed.
    pub(super) fn of_relays(&self) -> &[(String, String)] {
        let file = self.0.iter().find(|file| file.path.ends_with(RELAYS));
        file.map(|file| file.sysctls.as_slice()).unwrap_or_default()
    }

    /// Returns the value that `name` has at boot before tune's own file is read, and the file that sets it, if one does.
    pub(super) fn value_before(&self, name: &str) -> Option<(&str, &Path)> {
        let early = self.0.iter().filter(|file| !file.is_late());
        early.filter_map(|file| Some((file.value(name)?, file.path.as_path()))).next_back()
    }

    /// Returns the value that `name` gets after tune's own file is read, and the file that sets it, if one does.
    pub(super) fn value_after(&self, name: &str) -> Option<(&str, &Path)> {
        let late = self.0.iter().filter(|file| file.is_late());
        late.filter_map(|file| Some((file.value(name)?, file.path.as_path()))).next_back()
    }
}

impl BootFile {
    fn value(&self, name: &str) -> Option<&str> {
        self.sysctls.iter().rev().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Whether the file is read after tune's own.
    fn is_late(&self) -> bool {
        self.path == Path::new(LATE) || self.path.file_name() > Path::new(FILE).file_name()
    }
}

/// Returns the names, with dots (sysctl.d(5) also allows `net/ipv4/tcp_rmem`), and the values.
fn parse(text: &str) -> Vec<(String, String)> {
    let lines = text.lines().map(str::trim).filter(|line| !line.starts_with(['#', ';']));
    let set = lines.filter_map(|line| line.trim_start_matches('-').split_once('='));
    let set = set.map(|(name, value)| (name.trim().replace('/', "."), one_line(value)));
    set.filter(|(name, value)| !is_refused(name, value)).collect()
}

/// Whether the kernel refuses a value of a buffer: its numbers have 31 bits (net/ipv4/sysctl_net_ipv4.c). Such a line sets nothing.
fn is_refused(name: &str, value: &str) -> bool {
    let is_buffer = ["net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"].contains(&name);
    is_buffer && value.split(' ').any(|word| word.parse::<i32>().is_err())
}

/// Folders of the files, by precedence.
pub(super) const FOLDERS: [&str; 5] =
    ["/etc/sysctl.d", "/run/sysctl.d", "/usr/local/lib/sysctl.d", "/usr/lib/sysctl.d", "/lib/sysctl.d"];
/// The file that is read behind all others.
pub(super) const LATE: &str = "/etc/sysctl.conf";
/// Name of the file that `make install` puts into /usr/lib/sysctl.d.
const RELAYS: &str = "90-longhaul.conf";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_read_by_name_and_hide_their_namesakes() {
        let folder = tempfile::tempdir().unwrap();
        let [etc, lib] = ["etc", "lib"].map(|name| folder.path().join(name));
        let write = |folder: &Path, name: &str, text: &str| {
            fs::create_dir_all(folder).unwrap();
            fs::write(folder.join(name), text).unwrap();
        };
        write(&lib, "50-a.conf", "net.a = 1\nnet.b = 1\n");
        write(
            &lib,
            RELAYS,
            "# no\n; no\n-net.ipv4.tcp_rmem =  4096\t131072  268435456 \nnet/core/somaxconn=4096\nno\n",
        );
        write(&lib, "99-z.conf", "net.b = 3\nnet.c = 3");
        write(&etc, "50-a.conf", "net.a = 2\n");
        write(&etc, "note.txt", "net.a = 9\n");
        let files = BootFiles::of([etc.as_path(), &lib].into_iter());
        let relays = [("net.ipv4.tcp_rmem", "4096 131072 268435456"), ("net.core.somaxconn", "4096")];
        assert_eq!(files.of_relays(), relays.map(|(name, value)| (name.to_string(), value.to_string())));
        let before = ["net.a", "net.b", "net.c"].map(|name| files.value_before(name));
        assert_eq!(before, [Some(("2", etc.join("50-a.conf").as_path())), None, None]);
        assert_eq!(files.value_after("net.b"), Some(("3", lib.join("99-z.conf").as_path())));
        assert_eq!(files.value_after("net.a"), None);
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics(text in "[-#;=./ \\n\\PC]*") {
            parse(&text);
        }
    }

    #[test]
    fn tune_s_file_is_read_after_that_of_relays_and_does_not_hide_it() {
        let name = Path::new(FILE).file_name().unwrap();
        assert!(name > Path::new(RELAYS).file_name().unwrap());
    }
}
