//! `longhaul man` and `longhaul completions`: written from the command line's own definition.

use clap::{Args, Command};

#[derive(Args)]
pub(super) struct Shell {
    /// bash, elvish, fish, powershell or zsh
    #[arg(value_name = "SHELL", value_enum, hide_possible_values = true)]
    shell: clap_complete::Shell,
}

#[derive(Args)]
pub(super) struct Man {
    /// The page of this command, such as `lab run` [default: longhaul]
    #[arg(value_name = "COMMAND")]
    command: Vec<String>,
}

impl Shell {
    /// The completion script of `cli` for this shell.
    pub(super) fn script(&self, mut cli: Command) -> String {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut cli, "longhaul", &mut script);
        String::from_utf8_lossy(&script).into_owned()
    }
}

impl Man {
    /// The manual page in roff: longhaul(1), or longhaul-COMMAND(1).
    ///
    /// # Errors
    /// There is no such command.
    pub(super) fn page(&self, mut cli: Command) -> Result<String, String> {
        // Gives every command the global flags and its full name.
        cli.build();
        // Built, a command shows as longhaul-COMMAND, the name under which man(1) finds its page.
        let mut page = cli;
        for name in &self.command {
            let command = page.get_subcommands().find(|command| command.get_name() == name).cloned();
            let whole = self.command.join(" ");
            page = command.ok_or_else(|| format!("error: there is no command {whole}; `longhaul -h` lists them"))?;
        }
        for name in WITHOUT_PAGE {
            if page.find_subcommand(name).is_some() {
                page = page.mut_subcommand(name, |command| command.hide(true));
            }
        }
        let mut roff = Vec::new();
        let page =
            clap_mangen::Man::new(page).source(concat!("longhaul ", env!("CARGO_PKG_VERSION"))).manual("longhaul");
        page.render(&mut roff).map_err(|err| format!("error: manual page: {err}"))?;
        Ok(String::from_utf8_lossy(&roff).into_owned())
    }
}

/// Commands whose pages `make install` does not install, so no page lists them.
const WITHOUT_PAGE: [&str; 3] = ["completions", "man", "help"];
