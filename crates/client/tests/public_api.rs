//! What users of this crate can name, kept as a text: a change of it is seen in the review, and is a decision.
//!
//! `ATONCE_REGENERATE=1 cargo test -p atonce-client --test public_api` writes it anew. It is read off the sources line by
//! line, as `cargo fmt` leaves them; what other crates of ours add stands there as `pub use`.

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
