//! `longhaul man` and `longhaul completions`: written from the command line's own definition.

use super::{complain, print, say};
use clap::{Args, Command};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(Args)]
pub(super) struct Shell {
    /// bash, elvish, fish, powershell or zsh
    #[arg(value_name = "SHELL", value_enum, hide_possible_values = true)]
    shell: clap_complete::Shell,
}

#[derive(Args)]
pub(super) struct Man {
    /// Page of this command, such as `lab run` [default: longhaul]
    #[arg(value_name = "COMMAND")]
    command: Vec<String>,
    /// Write the pages of all commands into this folder
    #[arg(long, value_name = "DIR", conflicts_with = "command")]
    out: Option<PathBuf>,
}

impl Shell {
    /// Prints the completion script of `cli` for this shell.
    pub(super) fn run(&self, mut cli: Command) -> ExitCode {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut cli, "longhaul", &mut script);
        print(&String::from_utf8_lossy(&script))
    }
}

impl Man {
    /// Prints one page of `cli`, or writes all of them into a folder.
    pub(super) fn run(&self, mut cli: Command) -> ExitCode {
        // Gives every command the global flags and its full name.
        cli.build();
        let Some(folder) = &self.out else { return say(self.page(&cli)) };
        match fs::create_dir_all(folder).map_err(|err| cannot_write(folder, &err)).and_then(|()| write(&cli, folder)) {
            Ok(()) => ExitCode::SUCCESS,
            Err(why) => {
                complain(&[why]);
                ExitCode::FAILURE
            }
        }
    }

    /// Returns the page of the command that was asked for.
    fn page(&self, cli: &Command) -> Result<String, String> {
        let mut page = cli;
        for name in &self.command {
            let whole = self.command.join(" ");
            page = page
                .find_subcommand(name)
                .ok_or_else(|| format!("error: there is no command {whole}; `longhaul -h` lists them"))?;
        }
        Ok(roff(page))
    }
}

/// Writes the page of `command` and those of its subcommands into `folder`, as longhaul.1 and longhaul-COMMAND.1.
fn write(command: &Command, folder: &Path) -> Result<(), String> {
    let name = command.get_display_name().unwrap_or_else(|| command.get_name());
    let file = folder.join(format!("{name}.1"));
    fs::write(&file, roff(command)).map_err(|err| cannot_write(&file, &err))?;
    command.get_subcommands().filter(|inner| has_page(inner)).try_for_each(|inner| write(inner, folder))
}

fn cannot_write(path: &Path, err: &std::io::Error) -> String {
    format!("error: {}: {err}", path.display())
}

/// Returns the page of `command` in roff: longhaul(1), or longhaul-COMMAND(1), where man(1) finds it.
fn roff(command: &Command) -> String {
    let mut page = command.clone();
    for inner in command.get_subcommands().filter(|inner| !has_page(inner)) {
        page = page.mut_subcommand(inner.get_name(), |inner| inner.hide(true));
    }
    let mut roff = Vec::new();
    let page = clap_mangen::Man::new(page).source(concat!("longhaul ", env!("CARGO_PKG_VERSION"))).manual("longhaul");
    // Writing into memory cannot fail.
    let _ = page.render(&mut roff);
    String::from_utf8_lossy(&roff).into_owned()
}

/// Returns whether `man --out` writes a page for `command`. The others serve the installation of longhaul or are clap's own,
/// and no page lists them.
fn has_page(command: &Command) -> bool {
    ![COMPLETIONS, MAN, CLAPS_HELP].contains(&command.get_name())
}

/// Name of the command that [`Shell`] runs.
pub(super) const COMPLETIONS: &str = "completions";
/// Name of the command that [`Man`] runs.
pub(super) const MAN: &str = "man";
/// Name of the command that clap adds to every command with subcommands.
const CLAPS_HELP: &str = "help";
