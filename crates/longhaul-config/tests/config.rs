//! A corpus of good and bad config files. The messages about each file are checked-in text beside it.
//! `UPDATE=1 cargo test -p longhaul-config --test config` writes the current messages; read the diff.

use longhaul_config::{Loaded, Message, Refused, Severity};
use proptest::prelude::*;
use std::path::{Path, PathBuf};
use std::{env, fs};

/// Parses the files of tests/config/`folder`; returns the path and the result of each.
fn corpus(folder: &str) -> Vec<(PathBuf, Result<Loaded, Refused>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/config").join(folder);
    let files = fs::read_dir(&folder).expect("the corpus").map(|entry| entry.expect("an entry").path());
    let mut files: Vec<_> = files.filter(|path| path.extension().is_some_and(|ext| ext == "toml")).collect();
    files.sort();
    let parsed = |path: PathBuf| {
        let name = path.file_name().expect("a file").to_string_lossy().into_owned();
        let text = fs::read_to_string(&path).expect("a readable file");
        (path, longhaul_config::parse(&name, &text))
    };
    files.into_iter().map(parsed).collect()
}

/// Compares `got` with the text beside `path`; adds a difference to `wrong`. With `UPDATE` in the environment, writes `got`
/// there instead.
fn compare(path: &Path, got: &str, wrong: &mut Vec<String>) {
    let beside = path.with_extension("txt");
    if env::var_os("UPDATE").is_some() {
        return fs::write(&beside, got).expect("the text beside the file");
    }
    let expected = fs::read_to_string(&beside).unwrap_or_default();
    if expected != got {
        wrong.push(format!("{}\nexpected:\n{expected}\ngot:\n{got}", path.display()));
    }
}

#[test]
fn good_files_have_the_checked_in_summary() {
    let (mut wrong, corpus) = (Vec::new(), corpus("good"));
    assert!(corpus.len() >= 10, "only {} good files", corpus.len());
    for (path, parsed) in corpus {
        match parsed {
            Ok(loaded) => {
                let warnings: String = loaded.warnings.iter().map(|line| line.to_string() + "\n").collect();
                compare(&path, &(warnings + &longhaul_config::summary(&loaded.config)), &mut wrong);
            }
            Err(refused) => wrong.push(format!("{}: refused:\n{refused}", path.display())),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

#[test]
fn bad_files_are_refused_with_the_checked_in_messages() {
    let (mut wrong, corpus) = (Vec::new(), corpus("bad"));
    assert!(corpus.len() >= 35, "only {} bad files", corpus.len());
    for (path, parsed) in corpus {
        match parsed {
            Ok(_) => wrong.push(format!("{}: accepted", path.display())),
            Err(refused) => compare(&path, &(refused.to_string() + "\n"), &mut wrong),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

#[test]
fn the_example_of_the_document_is_good() {
    let document = include_str!("../../../docs/configuration.md");
    let example = document.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).expect("an example");
    assert_eq!(longhaul_config::parse("example", example).expect("it is good").config.tunnels.len(), 1);
}

#[test]
fn a_file_that_cannot_be_read_says_why() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("longhaul.toml");
    let error_of = |path: &Path| longhaul_config::load(path).expect_err("it cannot be read").to_string();
    assert!(
        error_of(&file)
            .ends_with("error: No such file or directory (os error 2); write the file, or name another with -c FILE")
    );
    fs::write(&file, b"# \xe4\xf6\nx").expect("a file");
    assert!(error_of(&file).ends_with("error: line 1 is not UTF-8; save the file as UTF-8"));
    assert!(error_of(dir.path()).contains("Is a directory"));
    assert!(error_of(Path::new("/dev/zero")).ends_with("error: it is larger than 1MiB; is this the right file?"));
}

proptest! {
    #[test]
    fn no_text_panics(text in "\\PC*") {
        let _ = longhaul_config::parse("any", &text);
    }

    #[test]
    fn no_mix_of_config_words_panics(words in prop::collection::vec(prop::sample::select(WORDS), 0..40)) {
        let read = longhaul_config::parse("mix", &words.concat());
        let is_refused = read.is_err();
        let messages = read.map_or_else(|refused| refused.messages, |loaded| loaded.warnings);
        let is_error = |message: &Message| message.severity == Severity::Error;
        prop_assert_eq!(is_refused, messages.iter().any(is_error));
    }

    #[test]
    fn no_truncated_or_altered_file_panics(file in 0usize..1000, cut in 0usize..2000, put in ".{0,3}") {
        let all: Vec<_> = corpus("good").into_iter().map(|(path, _)| path).collect();
        let text = fs::read_to_string(&all[file % all.len()]).expect("a readable file");
        let at = text.char_indices().map(|(at, _)| at).nth(cut).unwrap_or(text.len());
        let _ = longhaul_config::parse("cut", &text[..at]);
        let _ = longhaul_config::parse("put", &format!("{}{put}{}", &text[..at], &text[at..]));
    }
}

const WORDS: &[&str] = &[
    "[[tunnel]]\n", "[tunnel]\n", "[admin]\n", "[[admin]]\n", "name", "listen", "to", "allow", "dial", "accept",
    "splice", "drain_timeout", "policy", "source", " = ", "\"a\"\n", "\"b:1\"\n", "6000\n", "\"10.0.0.1:6000\"\n", "[",
    "]", "{", "}", ",", "\n", "mss", "true\n", "\"", "'''", "\\u0000", "-1", "1e9", "1979-05-27", "ä", "“", ":", ";",
    "//", "\"\"\"", "\\", " = b:1\n", ".", "#",
];

/// A line of a mebibyte with an error at each byte is explained once. The time for it must not grow with the square of its length.
#[test]
fn a_long_line_with_many_errors_is_one_message() {
    let braces = "{a:".repeat(1 << 18);
    let texts = [
        "=".repeat(1 << 20),
        format!("a=[{}", "x,".repeat(1 << 19)),
        "'".repeat(1 << 20),
        format!("a = {{b:{braces}"),
        format!("a = [x, {{b:{braces}"),
        format!("{} y = z", "x".repeat(1 << 19)),
        format!("{} =", "x".repeat(1 << 19)),
    ];
    for text in texts {
        let refused = longhaul_config::load_from("long", text.as_bytes()).unwrap_err();
        let said: Vec<String> = refused.messages.iter().map(ToString::to_string).collect();
        assert!(said.len() <= 2 && said.iter().all(|line| line.len() < 300), "{} messages", said.len());
    }
}
