//! The fuzzer's corpus, replayed, and neighbours of every input: a stable compiler's share of `dev/fuzz`.

use atonce_kernel::chance::Chance;

mod corpus;
use corpus::{corpus, neighbour, neighbours, seed};

#[expect(unreachable_pub, reason = "the fuzzer's own package takes it as a library")]
#[path = "../../../dev/fuzz/src/lib.rs"]
mod targets;

/// Inputs made from each one of the corpus.
const NEIGHBOURS: u64 = 20;

/// The same inputs each time, unless `ATONCE_TEST_SEED` asks for others. What fails says which it was.
#[test]
fn the_corpus_and_its_neighbours_harm_no_decoder() {
    let seed = seed();
    for (name, target) in targets::TARGETS {
        let corpus = corpus(name);
        assert!(corpus.len() >= 10, "{name}: {} inputs", corpus.len());
        for (place, input) in corpus.iter().enumerate() {
            let _said = SaidInPanic(format!("{name}, input {place}"));
            target(input);
            let mut chance = Chance::from_seed(seed.wrapping_add(place as u64 + 1));
            for number in 0..neighbours(NEIGHBOURS) {
                let _said =
                    SaidInPanic(format!("{name}, neighbour {number} of input {place}, ATONCE_TEST_SEED={seed}"));
                let other = &corpus[usize::try_from(chance.below(corpus.len() as u64)).expect("short")];
                target(&if number % 4 == 3 {
                    spliced(input, other, &mut chance)
                } else {
                    neighbour(input, &mut chance)
                });
            }
        }
    }
}

/// The beginning of one input and the end of another.
fn spliced(input: &[u8], other: &[u8], chance: &mut Chance) -> Vec<u8> {
    let mut cut = |bytes: &[u8]| usize::try_from(chance.below(bytes.len() as u64 + 1)).expect("short");
    [&input[..cut(input)], &other[cut(other)..]].concat()
}

/// Says what was tried if that panics.
struct SaidInPanic(String);

impl Drop for SaidInPanic {
    #[expect(clippy::print_stderr, reason = "the panic says what went wrong, and not with what")]
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("while it was trying {}", self.0);
        }
    }
}
