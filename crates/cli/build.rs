//! Puts the repository's documentation into one text, which the demo counts when it is given no file.

use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// It is made from the binary, and would change it.
const GENERATED: &str = "command-line.md";

fn main() -> io::Result<()> {
    let crate_folder = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let root = crate_folder.join("../..");
    let mut text = String::new();
    for name in ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "STYLE.md"] {
        append(&root.join(name), &mut text)?;
    }
    append_folder(&root.join("docs"), &mut text)?;
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    fs::write(out.join("documentation.txt"), text)
}

/// Appends every Markdown file below `folder`, in the order of their names.
fn append_folder(folder: &Path, text: &mut String) -> io::Result<()> {
    println!("cargo::rerun-if-changed={}", folder.display());
    let Ok(entries) = fs::read_dir(folder) else { return Ok(()) };
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.map(|e| e.path())).collect::<io::Result<_>>()?;
    paths.sort();
    for path in paths {
        if path.is_dir() {
            append_folder(&path, text)?;
        } else if path.extension().is_some_and(|extension| extension == "md") && !path.ends_with(GENERATED) {
            append(&path, text)?;
        }
    }
    Ok(())
}

/// Appends a file; one that is not there is left out, so that the crate also builds outside its repository.
fn append(path: &Path, text: &mut String) -> io::Result<()> {
    match fs::read_to_string(path) {
        Ok(content) => {
            println!("cargo::rerun-if-changed={}", path.display());
            text.push_str(&content);
            text.push('\n');
            Ok(())
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}
