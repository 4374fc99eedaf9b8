//! The fuzzer's corpus, and what is near its inputs.

use std::fs;
use std::path::Path;

use atonce_kernel::chance::Chance;

/// The inputs of a target, in a fixed order.
pub(crate) fn corpus(target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../dev/fuzz/corpus").join(target);
    let entries = fs::read_dir(folder).expect("each target has a corpus");
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("listed").path()).collect();
    paths.sort();
    paths.iter().map(|path| fs::read(path).expect("readable")).collect()
}

/// Some bytes replaced, the rest perhaps cut off, perhaps doubled.
pub(crate) fn neighbour(input: &[u8], chance: &mut Chance) -> Vec<u8> {
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

/// How many neighbours are made of each input: so many, or as many as the environment asks for.
pub(crate) fn neighbours(usually: u64) -> u64 {
    std::env::var("ATONCE_TEST_NEIGHBOURS").ok().and_then(|number| number.parse().ok()).unwrap_or(usually)
}

/// What chance begins with.
pub(crate) fn seed() -> u64 {
    std::env::var("ATONCE_TEST_SEED").ok().and_then(|number| number.parse().ok()).unwrap_or(0)
}
