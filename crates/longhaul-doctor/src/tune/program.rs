//! Programs of the host: ip(8) and modprobe(8).

use std::io;
use std::process::Command;

/// Returns the standard output of a program that ended well. If this process is killed, so is the program: a rollback that follows
/// must not be overtaken by its change.
///
/// # Errors
/// It does not start, or fails, with the first line of what it says.
pub(super) fn output(command: &mut Command) -> io::Result<String> {
    let program = command.get_program().to_string_lossy().into_owned();
    longhaul_sys::process::end_with_this(command);
    let ended = command.output().map_err(|err| io::Error::new(err.kind(), format!("{program}: {err}")))?;
    if ended.status.success() {
        return Ok(String::from_utf8_lossy(&ended.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&ended.stderr);
    let said = said.lines().next().map_or_else(|| ended.status.to_string(), str::to_string);
    Err(io::Error::other(format!("{program}: {said}")))
}

/// Returns whether a module of the kernel is loaded or built in; `None` if the kernel does not have it, or modprobe(8) cannot tell.
pub(super) fn module(name: &str) -> Option<bool> {
    // modprobe(8): a dry run prints the command that would load it.
    let commands = output(Command::new("modprobe").args(["--dry-run", "--verbose", name])).ok()?;
    Some(!commands.contains("insmod "))
}
