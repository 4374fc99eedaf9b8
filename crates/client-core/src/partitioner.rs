//! Which partition a record goes to: by its key as Kafka's own clients choose, or stickily without one.
//!
//! **What it does not know**: batches. Whoever closes a batch says so, and the next records without a key go elsewhere.

use std::collections::BTreeMap;

use atonce_kernel::TopicName;
use atonce_kernel::chance::Chance;

/// Kafka's hash of keys: murmur2, 32 bits, with the seed that `Utils.murmur2` of its clients has.
#[must_use]
pub fn murmur2(data: &[u8]) -> u32 {
    const SEED: u32 = 0x9747_b28c;
    const M: u32 = 0x5bd1_e995;
    const R: u32 = 24;

    // The length goes in as Java has it: 32 bits.
    let mut hash = SEED ^ u32::try_from(data.len()).unwrap_or(u32::MAX);
    let (words, tail) = data.as_chunks::<4>();
    for word in words {
        let mut mixed = u32::from_le_bytes(*word).wrapping_mul(M);
        mixed ^= mixed >> R;
        hash = hash.wrapping_mul(M) ^ mixed.wrapping_mul(M);
    }
    if !tail.is_empty() {
        for (place, byte) in tail.iter().enumerate() {
            hash ^= u32::from(*byte) << (8 * place);
        }
        hash = hash.wrapping_mul(M);
    }
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(M);
    hash ^ (hash >> 15)
}

/// The partition of a key among `partitions`, as Kafka's default partitioner has it.
///
/// Panics: if there is no partition.
#[must_use]
pub fn partition_of_key(key: &[u8], partitions: i32) -> i32 {
    let hash = i32::try_from(murmur2(key) & 0x7fff_ffff).expect("31 bits are positive");
    hash.checked_rem(partitions).expect("a topic has partitions")
}

/// Chooses partitions for records without a key: one per topic until its batch is closed, then another by chance.
#[derive(Clone, Debug)]
pub struct StickyPartitioner {
    chance: Chance,
    current: BTreeMap<TopicName, i32>,
}

impl StickyPartitioner {
    /// A partitioner that draws from `chance`.
    #[must_use]
    pub fn new(chance: Chance) -> Self {
        Self { chance, current: BTreeMap::new() }
    }

    /// The partition for the next record of `topic` without a key.
    pub fn partition(&mut self, topic: &TopicName, partitions: i32) -> i32 {
        if let Some(current) = self.current.get(topic)
            && *current < partitions
        {
            return *current;
        }
        let drawn = self.draw(partitions);
        self.current.insert(topic.clone(), drawn);
        drawn
    }

    /// A batch of `topic` was closed: go elsewhere.
    pub fn handle_batch_closed(&mut self, topic: &TopicName, partition: i32, partitions: i32) {
        if self.current.get(topic) != Some(&partition) {
            return;
        }
        let mut drawn = self.draw(partitions);
        if drawn == partition {
            drawn = (drawn + 1) % partitions.max(1);
        }
        self.current.insert(topic.clone(), drawn);
    }

    fn draw(&mut self, partitions: i32) -> i32 {
        let bound = u64::try_from(partitions).unwrap_or(0);
        i32::try_from(self.chance.below(bound)).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The vectors of Kafka's own test of its hash.
    #[test]
    fn keys_hash_as_in_kafka() {
        for (key, expected) in [
            ("21", -973_932_308_i32),
            ("foobar", -790_332_482),
            ("a-little-bit-long-string", -985_981_536),
            ("a-little-bit-longer-string", -1_486_304_829),
            ("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58_897_971),
        ] {
            assert_eq!(murmur2(key.as_bytes()).cast_signed(), expected, "{key}");
        }
        assert_eq!(murmur2(b"abc").cast_signed(), 479_470_107);
    }

    #[test]
    fn records_without_a_key_stay_together_until_their_batch_is_closed() {
        let mut partitioner = StickyPartitioner::new(Chance::from_seed(1));
        let topic = TopicName::from("t");
        let first = partitioner.partition(&topic, 3);
        assert!((0..100).all(|_| partitioner.partition(&topic, 3) == first));
        partitioner.handle_batch_closed(&topic, (first + 1) % 3, 3);
        assert_eq!(partitioner.partition(&topic, 3), first, "another partition's batch changes nothing");
        partitioner.handle_batch_closed(&topic, first, 3);
        assert_ne!(partitioner.partition(&topic, 3), first);
    }

    #[test]
    fn one_partition_is_enough() {
        let mut partitioner = StickyPartitioner::new(Chance::from_seed(1));
        let topic = TopicName::from("t");
        assert_eq!(partitioner.partition(&topic, 1), 0);
        partitioner.handle_batch_closed(&topic, 0, 1);
        assert_eq!(partitioner.partition(&topic, 1), 0);
    }
}
