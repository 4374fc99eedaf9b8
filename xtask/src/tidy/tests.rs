//! Each rule finds the fault that is planted for it, and nothing in a workspace without one.

use super::*;

const TIDY: &[(&str, &str)] = &[
    (
        "Cargo.toml",
        "[workspace.package]\nversion = \"0.1.0\"\n[workspace.dependencies]\natonce-kernel = { path = \"x\" }\nbytes = \"1\"\n",
    ),
    ("CHANGELOG.md", "# Changelog\n\n## Unreleased\n\n- It is there.\n"),
    ("README.md", "[why](docs/design/dependencies.md#bytes) [site](https://example.org)\n```\n[not](a-link)\n```\n"),
    ("docs/design/dependencies.md", "| `bytes` | slices that share |\n[up](../../README.md)\n"),
    ("crates/kernel/Cargo.toml", "[package]\nname = \"atonce-kernel\"\n[lints]\nworkspace = true\n[dependencies]\n"),
    ("crates/kernel/clippy.toml", "Instant::now SystemTime::now thread::spawn Mutex HashMap RandomState"),
    (
        "crates/kernel/src/lib.rs",
        "//! Words. It does not know the clock.\n#![warn(clippy::unwrap_used, clippy::indexing_slicing, clippy::wildcard_enum_match_arm)]\n",
    ),
    (
        "crates/broker/Cargo.toml",
        "[package]\nname = \"atonce-broker\"\n[lints]\nworkspace = true\n[dependencies]\natonce-kernel.workspace = true\n\
         tokio.workspace = true\n[dev-dependencies]\natonce-client.workspace = true\n",
    ),
    ("crates/broker/src/lib.rs", "//! A broker. It does not know its clients.\n"),
    ("crates/broker/src/api/produce.rs", "//! Produce. Key 0, versions 3–13.\n"),
    ("crates/broker/src/api/mod.rs", "mod produce;\n"),
];

/// The tidy workspace with these files put in or replaced, and what is said of it.
fn check(planted: &[(&str, &str)]) -> Vec<String> {
    let files = TIDY.iter().chain(planted).map(|(path, text)| ((*path).to_owned(), (*text).to_owned()));
    // Of two files with one path, the planted one comes last and stays.
    faults(&Texts(files.collect()))
}

/// Planting this gives one fault, which names these.
fn finds(planted: &[(&str, &str)], names: &[&str]) {
    let faults = check(planted);
    assert_eq!(faults.len(), 1, "{faults:#?}");
    for name in names {
        assert!(faults[0].contains(name), "{name} in {}", faults[0]);
    }
}

#[test]
fn a_tidy_workspace_has_no_fault() {
    assert_eq!(check(&[]), Vec::<String>::new());
}

#[test]
fn an_arrow_that_points_up_is_found() {
    let broker = "[package]\nname = \"atonce-broker\"\n[lints]\nworkspace = true\n[dependencies]\natonce-client.workspace = true\n";
    finds(&[("crates/broker/Cargo.toml", broker)], &["crates/broker/Cargo.toml", "atonce-client"]);
    let table = "[package]\nname = \"atonce-broker\"\n[lints]\nworkspace = true\n[dependencies.atonce-client]\npath = \"../client\"\n";
    finds(&[("crates/broker/Cargo.toml", table)], &["crates/broker/Cargo.toml", "atonce-client"]);
}

#[test]
fn a_pure_crate_that_names_the_runtime_is_found() {
    let kernel =
        "[package]\nname = \"atonce-kernel\"\n[lints]\nworkspace = true\n[dependencies]\ntokio.workspace = true\n";
    finds(&[("crates/kernel/Cargo.toml", kernel)], &["crates/kernel", "tokio"]);
}

#[test]
fn a_crate_without_a_place_is_found() {
    let manifest = "[package]\nname = \"atonce-extra\"\n[lints]\nworkspace = true\n";
    finds(
        &[("crates/extra/Cargo.toml", manifest), ("crates/extra/src/lib.rs", "//! It does not know why.\n")],
        &["crates/extra", "no place"],
    );
}

#[test]
fn streams_with_a_broker_always_inside_is_found() {
    let streams =
        "[package]\nname = \"atonce\"\n[lints]\nworkspace = true\n[dependencies]\natonce-broker.workspace = true\n";
    let library = ("crates/streams/src/lib.rs", "//! It does not know the wire.\n");
    finds(&[("crates/streams/Cargo.toml", streams), library], &["embedded"]);
    let optional = "[package]\nname = \"atonce\"\n[lints]\nworkspace = true\n[dependencies]\n\
                    atonce-broker = { workspace = true, optional = true }\n";
    assert!(check(&[("crates/streams/Cargo.toml", optional), library]).is_empty());
}

#[test]
fn a_pure_crate_without_its_fence_is_found() {
    finds(
        &[(
            "crates/kernel/src/lib.rs",
            "//! It does not know.\n#![warn(clippy::unwrap_used, clippy::indexing_slicing)]\n",
        )],
        &["wildcard_enum_match_arm"],
    );
    finds(
        &[("crates/kernel/clippy.toml", "Instant::now SystemTime::now thread::spawn HashMap RandomState")],
        &["does not forbid Mutex"],
    );
    let manifest = "[package]\nname = \"atonce-log\"\n[lints]\nworkspace = true\n";
    let library = "//! Knows nothing of topics.\n#![warn(clippy::unwrap_used, clippy::indexing_slicing, clippy::wildcard_enum_match_arm)]\n";
    finds(
        &[("crates/log/Cargo.toml", manifest), ("crates/log/src/lib.rs", library)],
        &["crates/log/clippy.toml", "copy"],
    );
}

#[test]
fn a_crate_that_says_nothing_of_its_limits_is_found() {
    finds(&[("crates/broker/src/lib.rs", "//! A broker.\n")], &["crates/broker/src/lib.rs"]);
}

#[test]
fn a_name_that_says_nothing_is_found() {
    finds(&[("crates/broker/src/utils.rs", "")], &["crates/broker/src/utils.rs"]);
    finds(&[("crates/broker/src/common/mod.rs", "")], &["common"]);
}

#[test]
fn an_api_file_without_its_header_is_found() {
    finds(&[("crates/broker/src/api/fetch.rs", "//! Fetch. Key 1.\n")], &["fetch.rs", "version"]);
    assert!(check(&[("crates/broker/src/api/fetch/tests.rs", "")]).is_empty());
}

#[test]
fn a_dependency_without_a_reason_and_a_reason_without_a_dependency_are_found() {
    finds(&[("docs/design/dependencies.md", "")], &["bytes"]);
    finds(&[("docs/design/dependencies.md", "| `bytes` | x |\n| `gone` | y |\n")], &["gone"]);
}

#[test]
fn a_link_that_leads_nowhere_is_found() {
    finds(&[("README.md", "[a](docs/nothing.md)")], &["README.md", "docs/nothing.md"]);
    finds(&[("README.md", "[a](../outside.md)")], &["outside"]);
    assert!(check(&[("README.md", "[a folder](docs/design) and [a place here](#here)")]).is_empty());
}

#[test]
fn a_place_of_one_machine_is_found() {
    let text = format!("see {}work{}x", '/', '/');
    finds(&[("docs/x.md", &text)], &["docs/x.md:1"]);
    let elsewhere = format!("https://example.org{}home{}x and ~{}work{}x", '/', '/', '/', '/');
    assert!(check(&[("docs/x.md", &elsewhere)]).is_empty());
}

#[test]
fn a_changelog_without_an_entry_is_found() {
    finds(&[("CHANGELOG.md", "# Changelog\n\n## Unreleased\n\n## 0.0.1\n\n- old\n")], &["CHANGELOG.md"]);
    assert!(check(&[("CHANGELOG.md", "## 0.1.0\n- first\n")]).is_empty());
}

#[test]
fn a_manifest_without_the_lints_is_found() {
    finds(&[("xtask/Cargo.toml", "[package]\nname = \"xtask\"\n")], &["xtask/Cargo.toml"]);
}

#[test]
fn a_test_that_the_ledger_of_faults_names_and_nobody_wrote_is_found() {
    let ledger = |cell: &str| format!("| fault | right | tests |\n|---|---|---|\n| lost | kept | {cell} |\n");
    let tests = ("crates/broker/tests/crash.rs", "#[tokio::test]\nasync fn kept() {}\n\n\n\n\nfn used() {}\n");
    let scenario = ("crates/broker/testdata/group/kept.txt", "");
    for cell in ["`broker: crash::kept`", "`broker: scenario group/kept`, `broker: crash::kept`", "`README.md`"] {
        let faults = check(&[("docs/faults.md", &ledger(cell)), tests, scenario]);
        assert_eq!(faults, Vec::<String>::new(), "{cell}");
    }
    for cell in [
        "`broker: crash::lost`",
        "`broker: crash::used`",
        "`broker: other::kept`",
        "`kernel: crash::kept`",
        "`broker: kept`",
        "`broker: scenario group/lost`",
        "`no/such/suite`",
        "kept",
    ] {
        finds(&[("docs/faults.md", &ledger(cell)), tests, scenario], &["docs/faults.md:3"]);
    }
}
