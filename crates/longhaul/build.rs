//! Tells the program what it is made from, for `longhaul --version --verbose`.

use std::env;
use std::error::Error;
use std::fs;
use std::process::Command;

/// The libraries that see bytes of the network or of the configuration. The SBOM of a package lists all.
const LIBRARIES: [&str; 9] = ["clap", "hyper", "mio", "rustix", "serde_json", "socket2", "tokio", "toml", "tracing"];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=../../Cargo.lock");
    println!("cargo:rerun-if-env-changed=LONGHAUL_COMMIT");
    let rustc = Command::new(env::var("RUSTC")?).arg("--version").output()?.stdout;
    println!("cargo:rustc-env=LONGHAUL_TOOLCHAIN={}", String::from_utf8(rustc)?.trim());
    println!("cargo:rustc-env=LONGHAUL_TARGET={}", env::var("TARGET")?);
    // The Makefile sets it. cargo alone would have to build the program again after each commit.
    let commit = env::var("LONGHAUL_COMMIT").unwrap_or_else(|_| "unknown".into());
    println!("cargo:rustc-env=LONGHAUL_COMMIT={commit}");
    let lock = fs::read_to_string("../../Cargo.lock")?;
    let libraries: Vec<_> = LIBRARIES.iter().filter_map(|name| version(&lock, name)).collect();
    println!("cargo:rustc-env=LONGHAUL_LIBRARIES={}", libraries.join(", "));
    Ok(())
}

/// Returns `NAME VERSION` of a package of Cargo.lock.
fn version(lock: &str, name: &str) -> Option<String> {
    // Of several versions, longhaul itself has the last one.
    let (_, package) = lock.rsplit_once(&format!("name = \"{name}\"\nversion = \""))?;
    Some(format!("{name} {}", package.split_once('"')?.0))
}
