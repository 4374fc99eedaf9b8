//! Writes the Rust code of `crates/protocol` from its declarations.
//!
//! One module per message in `src/messages`, `src/messages/mod.rs` with the list of them, and
//! `src/api_key.rs`. The result is committed, and a test holds it against what would be written.

mod message;
mod tables;

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::schema::{self, Declaration, snake_case};

/// The folder of the crate, wherever the command was called.
#[must_use]
pub fn protocol_crate() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/protocol")
}

/// All declarations, APIs first by key, then the other messages by name.
pub fn declarations() -> Result<Vec<Declaration>> {
    let folder = protocol_crate().join("declarations");
    let mut declarations = Vec::new();
    for entry in fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        let text = fs::read_to_string(&path)?;
        declarations.push(schema::parse(&text).with_context(|| path.display().to_string())?);
    }
    declarations.sort_by_key(|it| match it {
        Declaration::Api { key, .. } => (0, *key, String::new()),
        Declaration::Message(message) => (1, 0, message.name.clone()),
    });
    Ok(declarations)
}

/// What is to stand in the crate: path below `src`, and text. Not yet formatted.
pub fn files(declarations: &[Declaration]) -> Result<BTreeMap<PathBuf, String>> {
    let mut files = BTreeMap::new();
    for message in declarations.iter().flat_map(Declaration::messages) {
        let path = PathBuf::from("messages").join(format!("{}.rs", snake_case(&message.name)));
        files.insert(path, message::module(message).with_context(|| message.name.clone())?);
    }
    files.insert(PathBuf::from("messages/mod.rs"), tables::messages(declarations));
    files.insert(PathBuf::from("api_key.rs"), tables::api_key(declarations));
    Ok(files)
}

/// Writes the files, and removes modules of messages that are no longer declared.
pub fn write() -> Result<()> {
    let source = protocol_crate().join("src");
    let files = files(&declarations()?)?;
    fs::create_dir_all(source.join("messages"))?;
    for entry in fs::read_dir(source.join("messages"))? {
        let path = entry?.path();
        if !files.contains_key(path.strip_prefix(&source)?) {
            fs::remove_file(path)?;
        }
    }
    for (path, text) in files {
        fs::write(source.join(&path), format(&text).with_context(|| path.display().to_string())?)?;
    }
    Ok(())
}

/// Says which files are not what the declarations give.
pub fn check() -> Result<()> {
    let source = protocol_crate().join("src");
    let files = files(&declarations()?)?;
    let mut stale = Vec::new();
    for (path, text) in &files {
        if fs::read_to_string(source.join(path)).ok() != Some(format(text)?) {
            stale.push(format!("{}: not what its declaration gives", path.display()));
        }
    }
    for entry in fs::read_dir(source.join("messages"))? {
        let path = entry?.path();
        let name = path.strip_prefix(&source)?;
        if !files.contains_key(name) {
            stale.push(format!("{}: not declared", name.display()));
        }
    }
    ensure!(stale.is_empty(), "run cargo xtask generate:\n{}", stale.join("\n"));
    Ok(())
}

/// Runs rustfmt over `text`, as `cargo fmt` will.
pub fn format(text: &str) -> Result<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut rustfmt = Command::new("rustfmt")
        .args(["--edition", "2024", "--emit", "stdout", "--config-path"])
        .arg(root)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("rustfmt is needed: rustup component add rustfmt")?;
    rustfmt.stdin.take().context("rustfmt reads nothing")?.write_all(text.as_bytes())?;
    let output = rustfmt.wait_with_output()?;
    ensure!(output.status.success(), "rustfmt refused:\n{text}");
    Ok(String::from_utf8(output.stdout)?)
}
