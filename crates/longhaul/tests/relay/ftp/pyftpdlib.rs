//! Runs the functional tests of pyftpdlib, of which each reaches its server through a relay. `pyftpdlib_relay.py` has the exceptions.

use crate::ftp::servers::copies;
use crate::harness::*;
use std::env::join_paths;
use std::path::Path;
use std::process::Command;

#[test]
fn the_functional_tests_of_pyftpdlib_pass_through_a_relay() {
    let Ok(suite) = copies().join("pyftpdlib").canonicalize() else {
        return skip("pyftpdlib is not installed; scripts/deps test gets it");
    };
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/relay/ftp");
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new("timeout")
        .args(["--signal=KILL", "900", "python3", "-m", "pytest", "-c", "/dev/null", "-p", "no:cacheprovider"])
        .args(["-p", "pyftpdlib_relay", "--tb=short", "-rfE", "--rootdir"])
        .args([&suite, &suite.join("tests/test_functional.py")])
        .env("PYTHONPATH", join_paths([&here, &suite]).unwrap())
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("LONGHAUL", env!("CARGO_BIN_EXE_longhaul"))
        // Longer timeouts (tests/__init__.py).
        .env("GITHUB_ACTIONS", "1")
        .current_dir(folder.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}{}", stdout(&output), stderr(&output));
}
