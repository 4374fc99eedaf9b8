//! What users of this crate can name, kept as a text: a change of it is seen in the review, and is a decision. And what they
//! could name in the version before (`testdata/public_api_VERSION.txt`, a copy that is made when a version is released): it may go
//! or change only in a version that says so by its number.
//!
//! What a text cannot see: a bound of a generic that became narrower in another place, a trait that a type implements no longer
//! (`impl … for` is not in it), a new variant of an enum that users match whole.
//!
//! `ATONCE_REGENERATE=1 cargo test -p atonce-client --test public_api` writes it anew. It is read off the sources line by
//! line, as `cargo fmt` leaves them; what other crates of ours add stands there as `pub use`.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    let mut entries: Vec<PathBuf> =
        fs::read_dir(folder).expect("can be read").map(|entry| entry.expect("is an entry").path()).collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// What of a block stands in the text.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Block {
    /// Every line: variants, methods of a trait.
    All,
    /// Fields and methods that are public.
    Public,
    /// None: a block inside a function, or of something private.
    Nothing,
}

fn is_public(line: &str) -> bool {
    line.starts_with("pub ")
}

fn public_lines(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut block = Block::Nothing;
    let mut header = String::new();
    let mut item = String::new();
    // How deep the body is that is being passed over.
    let mut body_depth = 0;
    let mut is_in_attribute = false;
    for raw in text.lines().take_while(|line| *line != "#[cfg(test)]") {
        let line = raw.trim();
        if is_in_attribute {
            is_in_attribute = !line.ends_with(")]");
            continue;
        }
        if line.is_empty() || line.starts_with("//") || line.starts_with('#') {
            is_in_attribute = line.starts_with("#[") && !line.ends_with(']');
            continue;
        }
        let indent = raw.len() - raw.trim_start().len();
        if body_depth > 0 {
            if indent < body_depth || (indent == body_depth - 4 && line.starts_with('}')) {
                body_depth = 0;
            }
            if body_depth > 0 || line.starts_with('}') {
                continue;
            }
        }
        if indent == 0 && line.starts_with('}') && item.is_empty() {
            block = Block::Nothing;
            continue;
        }
        if item.is_empty() {
            let begins = match (indent, block) {
                (0, _) => is_public(line) || line.starts_with("impl"),
                (4.., Block::All) => true,
                (4, Block::Public) => is_public(line),
                _ => false,
            };
            if !begins {
                if line.ends_with('{') && indent >= 4 {
                    body_depth = indent + 4;
                }
                continue;
            }
        } else {
            item.push(' ');
        }
        item.push_str(line);
        let is_use = item.starts_with("pub use ");
        let is_member =
            indent >= 4 && line.ends_with(',') && (!item.contains('(') || (indent == 4 && !item.ends_with("(")));
        let is_whole = line.ends_with(';') || (!is_use && (line.ends_with(['{', '}']) || is_member));
        if !is_whole {
            continue;
        }
        let done = std::mem::take(&mut item);
        if indent == 0 || raw.starts_with("impl") {
            let opens = done.ends_with('{');
            block = if !opens {
                Block::Nothing
            } else if done.starts_with("pub enum") || done.starts_with("pub trait") {
                Block::All
            } else if done.starts_with("pub struct") || (done.starts_with("impl") && !done.contains(" for ")) {
                Block::Public
            } else {
                Block::Nothing
            };
            let text = done.trim_end_matches([' ', '{', ';']).to_owned();
            if block == Block::Public && done.starts_with("impl") {
                // Named before its first public method, if it has one.
                header = text;
            } else {
                header.clear();
                lines.push(text);
            }
        } else {
            if !header.is_empty() {
                lines.push(std::mem::take(&mut header));
            }
            if done.ends_with('{') && block == Block::Public {
                body_depth = indent + 4;
            }
            if !done.starts_with('}') {
                lines.push(format!("    {}", done.trim_end_matches([' ', '{', ';', ','])));
            }
        }
    }
    lines
}

#[test]
fn the_public_api_is_what_its_text_says() {
    let crate_folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    sources(&crate_folder.join("src"), &mut files);
    let mut found = String::new();
    for path in files {
        let lines = public_lines(&fs::read_to_string(&path).expect("can be read"));
        // A file of which nothing but implementations for its own types is left is private.
        if lines.iter().any(|line| line.trim_start().starts_with("pub ")) {
            let name = path.strip_prefix(crate_folder).expect("lies in it").display().to_string();
            found.push_str(&format!("# {name}\n\n{}\n\n", lines.join("\n")));
        }
    }
    let kept_at = crate_folder.join("testdata/public_api.txt");
    if std::env::var_os("ATONCE_REGENERATE").is_some() {
        fs::write(&kept_at, &found).expect("can be written");
    }
    let kept = fs::read_to_string(&kept_at).unwrap_or_default();
    let different = found.lines().zip(kept.lines()).find(|(found, kept)| found != kept);
    assert!(
        found == kept,
        "the public API has changed: {different:?}; if that is meant, say so in CHANGELOG.md and write the text anew with \
         ATONCE_REGENERATE=1"
    );
}

/// Items, and members with the item they belong to; in which file they stand is nobody's concern.
fn promises(text: &str) -> BTreeSet<(&str, &str)> {
    let mut header = "";
    let mut found = BTreeSet::new();
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if line.starts_with(' ') {
            found.insert((header, line.trim()));
        } else {
            header = line;
            found.insert((line, ""));
        }
    }
    found
}

/// Whether a program made for one version may be given the other: Cargo's rule.
fn is_compatible(one: &str, other: &str) -> bool {
    let leading = |version: &str| {
        let mut numbers = version.split('.').map(|number| number.parse::<u64>().expect("a version has numbers"));
        let (major, minor) = (numbers.next(), numbers.next());
        (major, if major == Some(0) { minor } else { None })
    };
    leading(one) == leading(other)
}

/// What a version took away though its number says that it took nothing.
fn broken<'old>(old: (&str, &'old str), new: (&str, &str)) -> Vec<(&'old str, &'old str)> {
    if !is_compatible(old.0, new.0) {
        return Vec::new();
    }
    let still = promises(new.1);
    promises(old.1).into_iter().filter(|it| !still.contains(it)).collect()
}

#[test]
fn what_could_be_named_goes_only_in_a_version_that_says_so() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata");
    let now = fs::read_to_string(folder.join("public_api.txt")).expect("is there");
    let mut versions = 0;
    for entry in fs::read_dir(&folder).expect("can be read") {
        let path = entry.expect("is an entry").path();
        let name = path.file_stem().and_then(|name| name.to_str()).expect("is text");
        let Some(version) = name.strip_prefix("public_api_") else { continue };
        versions += 1;
        let old = fs::read_to_string(&path).expect("can be read");
        let broken = broken((version, &old), (env!("CARGO_PKG_VERSION"), &now));
        assert_eq!(
            broken,
            [],
            "users of {version} can name this no longer: keep it, or raise the version in Cargo.toml (0.x: the second number) and \
             keep a new testdata/public_api_VERSION.txt; while {version} itself is not released, its text may change with it"
        );
    }
    assert!(versions > 0, "the text of a version is kept");
}

#[test]
fn what_is_gone_is_found_unless_the_version_says_so() {
    let old = "# a.rs\n\npub struct A\n    pub x: i32\npub fn f()\n";
    let moved = "# b.rs\n\npub fn f()\npub struct A\n    pub x: i32\n    pub y: i32\n";
    assert_eq!(broken(("0.1.0", old), ("0.1.1", moved)), []);
    let changed = "# a.rs\n\npub struct A\n    pub x: i64\npub fn f()\n";
    assert_eq!(broken(("0.1.0", old), ("0.1.1", changed)), [("pub struct A", "pub x: i32")]);
    assert_eq!(broken(("0.1.0", old), ("0.2.0", changed)), []);
    assert_eq!(broken(("1.1.0", old), ("1.2.0", "pub struct A\n    pub x: i32\n")), [("pub fn f()", "")]);
    assert_eq!(broken(("1.1.0", old), ("2.0.0", "")), []);
}
