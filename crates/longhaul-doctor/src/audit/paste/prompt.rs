//! The prompt in front of a command: of Unix shells, PowerShell, cmd, and the command line of IBM i.

/// A line with a prompt.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Prompt<'l> {
    /// The host's name, if the prompt has it.
    pub(super) host: Option<&'l str>,
    /// The command behind the prompt; may be empty.
    pub(super) command: &'l str,
}

/// Returns the parts of a line with a prompt; `None` if it has none. A mail quotes prompts, too: `> # no -a`.
pub(super) fn prompt(line: &str) -> Option<Prompt<'_>> {
    let line = line.trim_start();
    let quoted = line.strip_prefix("> ").and_then(one);
    quoted.or_else(|| one(line))
}

fn one(line: &str) -> Option<Prompt<'_>> {
    let line = line.trim_start();
    powershell(line).or_else(|| drive(line)).or_else(|| bare(line)).or_else(|| shell(line))
}

/// `PS C:\Users\admin> `, and `[server]: PS C:\> ` of a remote session.
fn powershell(line: &str) -> Option<Prompt<'_>> {
    let (host, line) = match line.strip_prefix('[').and_then(|rest| rest.split_once("]: ")) {
        Some((host, rest)) => (name(host), rest),
        None => (None, line),
    };
    let (path, command) = line.strip_prefix("PS")?.split_once('>')?;
    let is_path = path.is_empty() || path.starts_with(' ') && path.contains('\\');
    is_path.then_some(Prompt { host, command: command.trim_start() })
}

/// `C:\Windows>` of cmd.
fn drive(line: &str) -> Option<Prompt<'_>> {
    let path = line.strip_prefix(|char: char| char.is_ascii_alphabetic())?;
    let (path, command) = path.strip_prefix(":\\")?.split_once('>')?;
    (path.len() <= MAX_PROMPT_BYTES).then_some(Prompt { host: None, command: command.trim_start() })
}

/// A sign alone: `# `, `$ `, `> ` of a quotation in a mail, `===> ` of IBM i.
fn bare(line: &str) -> Option<Prompt<'_>> {
    let signs = ["====>", "===>", "==>", "#", "$", "%", ">"];
    let (sign, command) = signs.iter().find_map(|sign| Some((*sign, line.strip_prefix(*sign)?)))?;
    let command = command.strip_prefix(' ').or(command.is_empty().then_some(command))?.trim_start();
    // `# net.ipv4.tcp_sack = 0` is a comment in a file, not a command: its value is not in force.
    let is_comment = sign == "#" && command.split_ascii_whitespace().take(2).any(|word| word.contains(['=', ':']));
    (!is_comment).then_some(Prompt { host: None, command })
}

/// `root@host:/ # `, `[root@host ~]# `, `host:/home/root $ `, `(0) root @ host: / # `, `[host][/home]> `, `bash-4.4$ `.
fn shell(line: &str) -> Option<Prompt<'_>> {
    let signs = line.char_indices().take(MAX_PROMPT_BYTES).filter(|(_, char)| ['#', '$', '%', '>'].contains(char));
    let ends = signs.map(|(at, _)| (&line[..at], &line[at + 1..]));
    let mut ends = ends.filter(|(_, rest)| rest.is_empty() || rest.starts_with(' '));
    let (before, command) = ends.next()?;
    let host = shell_host(before)?;
    Some(Prompt { host, command: command.trim_start() })
}

/// Returns the name of the host in a prompt, if it has one; `None` if the text is no prompt.
fn shell_host(before: &str) -> Option<Option<&str>> {
    if before.contains(['<', ',', '=', '"']) || before.split_ascii_whitespace().count() > MAX_PROMPT_WORDS {
        return None;
    }
    let inner = before.trim().trim_start_matches(['[', '(']);
    if let Some((_, place)) = inner.split_once('@') {
        let place = place.trim_start();
        let end = place.find([':', '/', ' ', '~', ']', ')', '\\']).unwrap_or(place.len());
        return Some(name(&place[..end])).filter(Option::is_some);
    }
    if let Some((host, path)) = inner.split_once(':') {
        let path = path.trim_start();
        let is_path = path.starts_with(['/', '~']);
        let host = host.split('(').next().unwrap_or_default();
        return is_path.then(|| name(host)).filter(Option::is_some);
    }
    if let Some((host, _)) = inner.split_once("][/") {
        return Some(name(host)).filter(Option::is_some);
    }
    // Directly before the sign, as `bash-4.4$` and `lpar1#`.
    let word = name(before).filter(|word| word.starts_with(|char: char| char.is_ascii_alphabetic() || char == '-'))?;
    let is_shell = ["bash", "sh", "ksh", "ksh93", "zsh", "csh", "tcsh", "root"]
        .contains(&word.trim_start_matches('-').split('-').next().unwrap_or_default());
    Some((!is_shell).then_some(word))
}

/// Returns `word` if it can be the name of a host.
pub(super) fn name(word: &str) -> Option<&str> {
    let is_name = !word.is_empty()
        && word.len() <= MAX_NAME_BYTES
        && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
    is_name.then_some(word)
}

const MAX_PROMPT_BYTES: usize = 120;
const MAX_PROMPT_WORDS: usize = 5;
/// RFC 1123 2.1: a label of a name has up to 63 characters.
const MAX_NAME_BYTES: usize = 63;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prompts_are_cut_off_and_tell_the_host() {
        for (line, host) in [
            ("root@lpar1:/ # no -a", "lpar1"),
            ("root@lpar1:/home/root> no -a", "lpar1"),
            ("[root@lpar1 ~]# no -a", "lpar1"),
            ("lpar1:/ # no -a", "lpar1"),
            ("(0) root @ lpar1: / # no -a", "lpar1"),
            ("admin@lpar1.example.com:~$ no -a", "lpar1.example.com"),
            ("lpar1# no -a", "lpar1"),
            ("lpar1(root):/ # no -a", "lpar1"),
            ("[lpar1][/home/admin]> no -a", "lpar1"),
            ("[lpar1]: PS C:\\Users\\admin> no -a", "lpar1"),
        ] {
            assert_eq!(prompt(line), Some(Prompt { host: Some(host), command: "no -a" }), "{line}");
        }
        for line in
            ["# no -a", "$ no -a", "  > no -a", "===> no -a", "bash-4.4$ no -a", "-bash-4.2$ no -a", "C:\\>no -a"]
        {
            assert_eq!(prompt(line), Some(Prompt { host: None, command: "no -a" }), "{line}");
        }
        assert_eq!(prompt("PS C:\\Program Files> no -a"), Some(Prompt { host: None, command: "no -a" }));
        assert_eq!(prompt("PS> no -a").map(|prompt| prompt.command), Some("no -a"));
        assert_eq!(prompt("root@lpar1:/ #"), Some(Prompt { host: Some("lpar1"), command: "" }));
    }

    #[test]
    fn lines_of_output_have_no_prompt() {
        for line in [
            "en0: flags=1e084863,814c0<UP,BROADCAST,RUNNING,CHAIN>",
            "3: eth0.10@eth0: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 1500 qdisc noqueue",
            "net.ipv4.tcp_rmem = 4096 131072 6291456",
            "# net.ipv4.tcp_rmem = 4096 131072 6291456",
            "#kernel",
            "          tcp_sendspace = 16384",
            "tcp:",
            "PSI is a word -> no prompt",
            "",
        ] {
            assert_eq!(prompt(line), None, "{line}");
        }
    }
}
