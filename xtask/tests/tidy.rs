//! The workspace is tidy: run with every `cargo test`.

#[test]
fn the_workspace_is_tidy() {
    if let Err(faults) = xtask::tidy::run() {
        panic!("{faults}");
    }
}
