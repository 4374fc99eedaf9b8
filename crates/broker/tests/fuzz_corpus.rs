//! The fuzzer's corpus, replayed, and neighbours of every input: a stable compiler's share of `dev/fuzz`.

use atonce_kernel::chance::Chance;

mod corpus;
use corpus::{corpus, neighbour, neighbours};

#[expect(unreachable_pub, reason = "the fuzzer's own package takes it as a library")]
#[path = "../../../dev/fuzz/src/lib.rs"]
mod targets;

/// Inputs made from each one of the corpus.
const NEIGHBOURS: u64 = 20;

#[test]
fn the_corpus_and_its_neighbours_harm_no_decoder() {
    for (name, target) in targets::TARGETS {
        let mut inputs = 0;
        for input in corpus(name) {
            inputs += 1;
            target(&input);
            let mut chance = Chance::from_seed(inputs);
            for _ in 0..neighbours(NEIGHBOURS) {
                target(&neighbour(&input, &mut chance));
            }
        }
        assert!(inputs >= 10, "{name}: {inputs} inputs");
    }
}
