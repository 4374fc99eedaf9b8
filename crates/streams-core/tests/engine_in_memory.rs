//! The behaviour suite over the engine in memory.

mod behaviour;

use atonce_streams_core::store::MemoryEngine;

#[test]
fn the_engine_in_memory_behaves() {
    behaviour::run(MemoryEngine::default);
}
