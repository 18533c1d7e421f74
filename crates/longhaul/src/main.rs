//! The `longhaul` command.

#![forbid(unsafe_code)]

mod cli;
#[cfg(test)]
#[path = "../../../interface/check.rs"]
mod interface;

fn main() -> std::process::ExitCode {
    cli::main()
}
