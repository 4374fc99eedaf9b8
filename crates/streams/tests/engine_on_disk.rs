//! The behaviour suite of store engines over the one on disk.

#[path = "../../streams-core/tests/behaviour/mod.rs"]
mod behaviour;

use atonce::DiskEngine;

#[test]
fn the_engine_on_disk_behaves() {
    let folder = tempfile::tempdir().unwrap();
    let next = std::cell::Cell::new(0);
    behaviour::run(|| {
        next.set(next.get() + 1);
        DiskEngine::open(folder.path().join(next.get().to_string())).unwrap()
    });
}
