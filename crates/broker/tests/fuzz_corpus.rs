//! The fuzzer's corpus, replayed, and neighbours of every input: a stable compiler's share of `dev/fuzz`.

use std::fs;
use std::path::Path;

use atonce_kernel::chance::Chance;

#[expect(unreachable_pub, reason = "the fuzzer's own package takes it as a library")]
#[path = "../../../dev/fuzz/src/lib.rs"]
mod targets;

/// Inputs made from each one of the corpus.
const NEIGHBOURS: u64 = 20;

#[test]
fn the_corpus_and_its_neighbours_harm_no_decoder() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../dev/fuzz/corpus");
    for (name, target) in targets::TARGETS {
        let mut inputs = 0;
        for entry in fs::read_dir(corpus.join(name)).expect("each target has a corpus") {
            let input = fs::read(entry.expect("listed").path()).expect("readable");
            inputs += 1;
            target(&input);
            let mut chance = Chance::from_seed(inputs);
            for _ in 0..NEIGHBOURS {
                target(&neighbour(&input, &mut chance));
            }
        }
        assert!(inputs >= 10, "{name}: {inputs} inputs");
    }
}

/// Some bytes replaced, the rest perhaps cut off, perhaps doubled.
fn neighbour(input: &[u8], chance: &mut Chance) -> Vec<u8> {
    let mut bytes = input.to_vec();
    for _ in 0..=chance.below(3) {
        let place = usize::try_from(chance.below(bytes.len() as u64 + 1)).expect("short");
        let value = chance.next_u64().to_le_bytes()[0];
        match (chance.below(4), bytes.get_mut(place)) {
            (0, _) => bytes.truncate(place),
            (1, _) => bytes.insert(place, value),
            (_, Some(at)) => *at = value,
            (_, None) => bytes.push(value),
        }
    }
    bytes
}
