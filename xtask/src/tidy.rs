//! What must always hold and the compiler does not check. Run as a test; each rule is a function from the
//! workspace's texts to the faults it found.
//!
//! A fault says where, what, and what to do.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::{fs, io};

use crate::ci::root;

mod manifest;

use manifest::Manifest;

/// Checks the workspace.
///
/// Errors: the faults, one a line.
pub fn run() -> Result<(), String> {
    let texts = Texts::read(root()).map_err(|error| format!("cannot read the workspace: {error}"))?;
    let mut faults = faults(&texts);
    if let Err(stale) = crate::generate::check() {
        faults.push(format!("{stale:#}"));
    }
    if faults.is_empty() { Ok(()) } else { Err(faults.join("\n")) }
}

fn faults(texts: &Texts) -> Vec<String> {
    let rules = [
        arrows_point_down,
        pure_crates_are_fenced,
        crates_say_what_they_do_not_know,
        nothing_is_called_common,
        every_api_file_has_its_header,
        every_dependency_has_its_reason,
        links_lead_somewhere,
        no_place_of_one_machine_is_named,
        the_changelog_has_an_entry,
        lints_are_the_workspace_s,
        tests_of_the_ledger_of_faults_exist,
    ];
    rules.iter().flat_map(|rule| rule(texts)).collect()
}

/// The workspace as its texts: path from the root, with `/`, to content.
struct Texts(BTreeMap<String, String>);

impl Texts {
    fn read(root: &Path) -> io::Result<Self> {
        let mut texts = BTreeMap::new();
        Self::read_folder(root, "", &mut texts)?;
        Ok(Self(texts))
    }

    fn read_folder(folder: &Path, prefix: &str, texts: &mut BTreeMap<String, String>) -> io::Result<()> {
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = format!("{prefix}{name}");
            let kind = entry.file_type()?;
            if kind.is_dir() {
                if !matches!(name.as_str(), "target" | ".git" | "node_modules" | ".venv")
                    && !name.starts_with("mutants.out")
                {
                    Self::read_folder(&entry.path(), &format!("{path}/"), texts)?;
                }
            } else if prefix.split('/').any(|part| part == "testdata") {
                // That it is there counts; what is in it was written by others, in part.
                texts.insert(path, String::new());
            } else if kind.is_file()
                // In a work tree of Git's, `.git` is a file.
                && name != ".git"
                && let Ok(text) = String::from_utf8(fs::read(entry.path())?)
            {
                texts.insert(path, text);
            }
        }
        Ok(())
    }

    fn get(&self, path: &str) -> Option<&str> {
        self.0.get(path).map(String::as_str)
    }

    /// Every file whose path starts and ends like this.
    fn like<'a>(&'a self, start: &'a str, end: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.0
            .iter()
            .filter(move |(path, _)| path.starts_with(start) && path.ends_with(end))
            .map(|(path, text)| (path.as_str(), text.as_str()))
    }

    /// The shipped crates: folder name and manifest.
    fn crates(&self) -> impl Iterator<Item = (&str, Manifest<'_>)> {
        self.like("crates/", "/Cargo.toml").filter_map(|(path, text)| {
            let folder = path.strip_prefix("crates/")?.strip_suffix("/Cargo.toml")?;
            (!folder.contains('/')).then(|| (folder, Manifest::parse(text)))
        })
    }

    /// Whether `path` is a file or a folder.
    fn exists(&self, path: &str) -> bool {
        self.0.contains_key(path) || self.0.range(format!("{path}/")..).next().is_some_and(|(p, _)| p.starts_with(path))
    }
}

/// A crate's place in the order: which of ours it may name, and whether it is pure.
struct Place {
    folder: &'static str,
    package: &'static str,
    purity: Purity,
    may_name: &'static [&'static str],
}

/// Whether a crate does I/O; if not, which foreign crates it may name.
enum Purity {
    Pure { foreign: &'static [&'static str] },
    DoesIo,
}

/// From the bottom up. `client` and `broker` never name each other: they meet in the protocol, in tests and in the cli.
const PLACES: &[Place] = &[
    Place { folder: "kernel", package: "atonce-kernel", purity: Purity::Pure { foreign: &[] }, may_name: &[] },
    Place {
        folder: "protocol",
        package: "atonce-protocol",
        purity: Purity::Pure { foreign: &["bytes", "crc32c", "flate2", "lz4_flex", "snap", "thiserror", "zstd"] },
        may_name: &["atonce-kernel"],
    },
    Place {
        folder: "log",
        package: "atonce-log",
        purity: Purity::Pure { foreign: &["bytes", "crc32c", "thiserror"] },
        may_name: &["atonce-kernel", "atonce-protocol"],
    },
    Place {
        folder: "coordinator",
        package: "atonce-coordinator",
        purity: Purity::Pure { foreign: &["bytes", "regex", "thiserror", "twox-hash"] },
        may_name: &["atonce-kernel", "atonce-protocol"],
    },
    Place {
        folder: "client-core",
        package: "atonce-client-core",
        purity: Purity::Pure { foreign: &["bytes", "thiserror"] },
        may_name: &["atonce-kernel", "atonce-protocol"],
    },
    Place {
        folder: "streams-core",
        package: "atonce-streams-core",
        purity: Purity::Pure { foreign: &["bytes", "crc32c", "postcard", "regex", "serde", "serde_json", "thiserror"] },
        may_name: &["atonce-kernel"],
    },
    Place {
        folder: "client",
        package: "atonce-client",
        purity: Purity::DoesIo,
        may_name: &["atonce-kernel", "atonce-protocol", "atonce-client-core"],
    },
    Place {
        folder: "broker",
        package: "atonce-broker",
        purity: Purity::DoesIo,
        may_name: &["atonce-kernel", "atonce-protocol", "atonce-log", "atonce-coordinator"],
    },
    Place {
        folder: "streams",
        package: "atonce",
        purity: Purity::DoesIo,
        may_name: &["atonce-kernel", "atonce-streams-core", "atonce-client", "atonce-broker"],
    },
    Place {
        folder: "cli",
        package: "atonce-cli",
        purity: Purity::DoesIo,
        may_name: &[
            "atonce-kernel",
            "atonce-protocol",
            "atonce-log",
            "atonce-coordinator",
            "atonce-client-core",
            "atonce-streams-core",
            "atonce-client",
            "atonce-broker",
            "atonce",
        ],
    },
];

fn place(folder: &str) -> Option<&'static Place> {
    PLACES.iter().find(|place| place.folder == folder)
}

fn arrows_point_down(texts: &Texts) -> Vec<String> {
    let mut faults = Vec::new();
    for (folder, manifest) in texts.crates() {
        let Some(place) = place(folder) else {
            faults.push(format!(
                "crates/{folder}: has no place in the order of crates; give it one in xtask/src/tidy.rs"
            ));
            continue;
        };
        if manifest.value("package", "name").as_deref() != Some(place.package) {
            faults.push(format!("crates/{folder}/Cargo.toml: the package should be named {}", place.package));
        }
        for dependency in manifest.section("dependencies") {
            let ours = PLACES.iter().any(|other| other.package == dependency.name);
            if ours && !place.may_name.contains(&dependency.name.as_str()) {
                faults.push(format!(
                    "crates/{folder}/Cargo.toml: may not name {}; it may name: {}",
                    dependency.name,
                    place.may_name.join(", ")
                ));
            }
            if folder == "streams"
                && dependency.name == "atonce-broker"
                && !dependency.value.contains("optional = true")
            {
                faults.push("crates/streams/Cargo.toml: atonce-broker only behind the feature `embedded`".to_owned());
            }
            if let Purity::Pure { foreign } = place.purity
                && !ours
                && !foreign.contains(&dependency.name.as_str())
            {
                faults.push(format!(
                    "crates/{folder}/Cargo.toml: a pure crate that names {}; take what it gives as an argument, or, if it does \
                     no I/O, add it to the crate's place in xtask/src/tidy.rs",
                    dependency.name
                ));
            }
        }
    }
    faults
}

fn pure_crates_are_fenced(texts: &Texts) -> Vec<String> {
    const LINTS: [&str; 3] = ["clippy::unwrap_used", "clippy::indexing_slicing", "clippy::wildcard_enum_match_arm"];
    const PATTERN: &str = "crates/kernel/clippy.toml";
    let mut faults = Vec::new();
    let pattern = texts.get(PATTERN).unwrap_or_default();
    for needed in ["Instant::now", "SystemTime::now", "thread::spawn", "Mutex", "HashMap", "RandomState"] {
        if !pattern.contains(needed) {
            faults.push(format!("{PATTERN}: does not forbid {needed}"));
        }
    }
    let pure = PLACES.iter().filter(|place| matches!(place.purity, Purity::Pure { .. }));
    for Place { folder, .. } in pure {
        if !texts.exists(&format!("crates/{folder}")) {
            continue;
        }
        if texts.get(&format!("crates/{folder}/clippy.toml")) != Some(pattern) {
            faults.push(format!("crates/{folder}/clippy.toml: is not {PATTERN}; copy it"));
        }
        let library = texts.get(&format!("crates/{folder}/src/lib.rs")).unwrap_or_default();
        let warned: String = library
            .lines()
            .filter(|line| (line.starts_with("#![") && line.contains("warn(")) || line.starts_with("    clippy::"))
            .collect();
        for lint in LINTS.iter().filter(|lint| !warned.contains(**lint)) {
            faults.push(format!("crates/{folder}/src/lib.rs: a pure crate without `#![warn({lint})]`"));
        }
    }
    faults
}

fn crates_say_what_they_do_not_know(texts: &Texts) -> Vec<String> {
    texts
        .crates()
        .filter_map(|(folder, _)| {
            let root = if folder == "cli" { "main" } else { "lib" };
            let path = format!("crates/{folder}/src/{root}.rs");
            let text = texts.get(&path).unwrap_or_default();
            let head: String =
                text.lines().take_while(|line| line.starts_with("//!")).collect::<Vec<_>>().join(" ").to_lowercase();
            let said = head.contains("not know") || head.contains("knows nothing");
            (!said).then(|| format!("{path}: its module comment does not say what the crate does not know"))
        })
        .collect()
}

fn nothing_is_called_common(texts: &Texts) -> Vec<String> {
    const NAMES: [&str; 6] = ["common", "utils", "util", "types", "helpers", "misc"];
    texts
        .like("crates/", ".rs")
        .filter(|(path, _)| path.split('/').any(|part| NAMES.contains(&part.trim_end_matches(".rs"))))
        .map(|(path, _)| format!("{path}: a name that says nothing; name the concept that lives there"))
        .collect()
}

fn every_api_file_has_its_header(texts: &Texts) -> Vec<String> {
    texts
        .like("crates/broker/src/api/", ".rs")
        .filter(|(path, _)| !path.ends_with("/mod.rs") && path.matches('/').count() == 4)
        .filter_map(|(path, text)| {
            let head: String =
                text.lines().take_while(|line| line.starts_with("//!")).collect::<Vec<_>>().join("\n").to_lowercase();
            let missing: Vec<&str> = ["key", "version"].into_iter().filter(|word| !head.contains(word)).collect();
            (!missing.is_empty()).then(|| format!("{path}: its module comment does not name: {}", missing.join(", ")))
        })
        .collect()
}

fn every_dependency_has_its_reason(texts: &Texts) -> Vec<String> {
    const REASONS: &str = "docs/design/dependencies.md";
    let reasons = texts.get(REASONS).unwrap_or_default();
    // A row of the table: | `name` | … |
    let explained: BTreeSet<&str> =
        reasons.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`').map(|(name, _)| name)).collect();
    let workspace = Manifest::parse(texts.get("Cargo.toml").unwrap_or_default());
    let named: BTreeSet<String> = workspace
        .section("workspace.dependencies")
        .map(|dependency| dependency.name)
        .filter(|name| !PLACES.iter().any(|place| place.package == name) && name != "atonce-testkit")
        .collect();
    let unexplained = named.iter().filter(|name| !explained.contains(name.as_str()));
    let gone = explained.iter().filter(|name| !named.contains(**name));
    unexplained
        .map(|name| format!("{REASONS}: no reason for the dependency `{name}`; add a row"))
        .chain(gone.map(|name| format!("{REASONS}: explains `{name}`, which is no dependency; take the row out")))
        .collect()
}

fn links_lead_somewhere(texts: &Texts) -> Vec<String> {
    let mut faults = Vec::new();
    for (path, text) in texts.like("", ".md") {
        let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
        for target in links(text) {
            if target.contains("://") || target.starts_with('#') || target.starts_with("mailto:") {
                continue;
            }
            let file = target.split('#').next().unwrap_or_default();
            match resolve(folder, file) {
                Some(resolved) if texts.exists(&resolved) => {}
                Some(_) | None => faults.push(format!("{path}: links to {target}, which is not there")),
            }
        }
    }
    faults
}

/// The targets of Markdown's `[text](target)`, outside code blocks.
fn links(text: &str) -> Vec<&str> {
    let mut targets = Vec::new();
    let mut in_code = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
        }
        if in_code {
            continue;
        }
        let mut rest = line;
        while let Some((_, after)) = rest.split_once("](") {
            let Some((target, after)) = after.split_once(')') else { break };
            targets.push(target);
            rest = after;
        }
    }
    targets
}

/// `relative`, seen from `folder`, as a path from the root; `None` if it leaves the workspace.
fn resolve(folder: &str, relative: &str) -> Option<String> {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in relative.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

fn no_place_of_one_machine_is_named(texts: &Texts) -> Vec<String> {
    // Put together, so that this file does not name them.
    let places: Vec<String> = ["work", "root", "home", "Users"].iter().map(|name| format!("/{name}/")).collect();
    let mut faults = Vec::new();
    for (path, text) in &texts.0 {
        for (number, line) in text.lines().enumerate() {
            // Not within a longer path: `crates/x/work/y` and `https://host/home/` are somewhere else.
            let named = places.iter().find(|place| {
                line.match_indices(place.as_str()).any(|(at, _)| {
                    line[..at]
                        .chars()
                        .next_back()
                        .is_none_or(|before| !before.is_alphanumeric() && !"._-}$~*/".contains(before))
                })
            });
            if let Some(place) = named {
                faults.push(format!("{path}:{}: names {place}…, a place on one machine only", number + 1));
            }
        }
    }
    faults
}

fn the_changelog_has_an_entry(texts: &Texts) -> Vec<String> {
    const CHANGELOG: &str = "CHANGELOG.md";
    let version = Manifest::parse(texts.get("Cargo.toml").unwrap_or_default())
        .value("workspace.package", "version")
        .unwrap_or_default();
    let text = texts.get(CHANGELOG).unwrap_or_default();
    let heads = ["## Unreleased".to_owned(), format!("## {version}")];
    let section = heads
        .iter()
        .find_map(|head| text.split_once(head.as_str()))
        .map(|(_, after)| after.split("\n## ").next().unwrap_or_default());
    match section {
        Some(section) if section.lines().any(|line| line.starts_with("- ")) => Vec::new(),
        Some(_) | None => vec![format!("{CHANGELOG}: no entry under `## Unreleased` or `## {version}`")],
    }
}

fn lints_are_the_workspace_s(texts: &Texts) -> Vec<String> {
    texts
        .like("", "/Cargo.toml")
        .filter(|(path, _)| {
            path.starts_with("crates/")
                || path.starts_with("dev/bench/")
                || path.starts_with("dev/oracle/")
                || path.starts_with("dev/testkit/")
                || path.starts_with("xtask/")
        })
        .filter(|(_, text)| Manifest::parse(text).value("lints", "workspace").as_deref() != Some("true"))
        .map(|(path, _)| format!("{path}: does not take the workspace's lints; add `[lints]` with `workspace = true`"))
        .collect()
}

/// Each row of `docs/faults.md` names tests in its last cell, and each of them is there: the ledger cannot rot.
fn tests_of_the_ledger_of_faults_exist(texts: &Texts) -> Vec<String> {
    const LEDGER: &str = "docs/faults.md";
    let lines: Vec<&str> = texts.get(LEDGER).unwrap_or_default().lines().collect();
    let mut faults = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        let is_head = lines.get(index + 1).is_some_and(|next| next.starts_with("|---"));
        let Some(cells) = line.strip_prefix("| ").filter(|_| !is_head) else { continue };
        let at = format!("{LEDGER}:{}", index + 1);
        let cells = cells.trim_end().trim_end_matches('|');
        let last = cells.rsplit('|').next().unwrap_or_default();
        let tests: Vec<&str> = last.split('`').skip(1).step_by(2).collect();
        if tests.is_empty() {
            faults.push(format!("{at}: names no test in its last cell"));
        }
        let missing = tests.into_iter().filter(|test| !is_a_test(texts, test));
        faults.extend(missing.map(|test| {
            format!("{at}: `{test}` is no test; write `crate: file::name`, `crate: scenario folder/name` or a path")
        }));
    }
    faults
}

/// `crate: file::name` (modules may stand between), `crate: scenario folder/name`, or the path of a suite.
fn is_a_test(texts: &Texts, named: &str) -> bool {
    let Some((folder, test)) = named.split_once(": ") else { return texts.exists(named) };
    if let Some(scenario) = test.strip_prefix("scenario ") {
        return texts.exists(&format!("crates/{folder}/testdata/{scenario}.txt"));
    }
    let mut modules: Vec<&str> = test.split("::").collect();
    let Some(name) = modules.pop().filter(|_| !modules.is_empty()) else { return false };
    let head = format!("fn {name}(");
    ["crates", "dev"].iter().any(|place| {
        texts.like(&format!("{place}/{folder}/"), ".rs").any(|(path, text)| {
            let parts: BTreeSet<&str> = path.trim_end_matches(".rs").split('/').collect();
            let is_there = modules.iter().all(|module| *module == "tests" || parts.contains(module));
            is_there
                && text.match_indices(&head).any(|(at, _)| {
                    let before: Vec<&str> = text[..at].lines().rev().take(4).collect();
                    before.iter().any(|line| line.trim_start().starts_with("#[") && line.contains("test"))
                })
        })
    })
}

#[cfg(test)]
mod tests;
