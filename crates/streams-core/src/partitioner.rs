//! Which partition a key belongs to: murmur2, as the Java producer computes it. Topics written by a JVM application and by ours are
//! co-partitioned because of this function; it may never change.

/// The partition of `key` among `partitions`.
///
/// Panics: if `partitions` is not positive; a topic has at least one.
#[must_use]
pub fn partition_for_key(key: &[u8], partitions: i32) -> i32 {
    assert!(partitions > 0, "a topic has partitions");
    // The sign bit is dropped, not negated: `i32::MIN` has no absolute value.
    (murmur2(key) & 0x7fff_ffff).rem_euclid(partitions)
}

/// Murmur2 in 32 bits with the seed that Kafka uses.
///
/// Source: Austin Appleby's MurmurHash2, public domain; the seed is Kafka's (`0x9747b28c`).
#[must_use]
pub fn murmur2(data: &[u8]) -> i32 {
    const SEED: u32 = 0x9747_b28c;
    const MULTIPLIER: u32 = 0x5bd1_e995;
    // The algorithm takes the length in 32 bits; a record's key is far below.
    #[expect(clippy::cast_possible_truncation, reason = "the algorithm is defined modulo 2^32")]
    let mut hash = SEED ^ data.len() as u32;
    let (words, rest) = data.as_chunks::<4>();
    for word in words {
        let mut k = u32::from_le_bytes(*word).wrapping_mul(MULTIPLIER);
        k ^= k >> 24;
        hash = hash.wrapping_mul(MULTIPLIER) ^ k.wrapping_mul(MULTIPLIER);
    }
    if !rest.is_empty() {
        for (place, byte) in rest.iter().enumerate() {
            hash ^= u32::from(*byte) << (8 * place);
        }
        hash = hash.wrapping_mul(MULTIPLIER);
    }
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(MULTIPLIER);
    hash ^= hash >> 15;
    hash.cast_signed()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `org.apache.kafka.common.utils.Utils.murmur2` answers.
    #[test]
    fn murmur2_is_kafkas() {
        for (text, hash) in [
            ("21", -973_932_308),
            ("foobar", -790_332_482),
            ("a-little-bit-long-string", -985_981_536),
            ("a-little-bit-longer-string", -1_486_304_829),
            ("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58_897_971),
        ] {
            assert_eq!(murmur2(text.as_bytes()), hash, "{text}");
        }
    }

    #[test]
    fn partitions_are_never_negative() {
        assert!((0..1000_i32).all(|key| (0..7).contains(&partition_for_key(&key.to_be_bytes(), 7))));
    }
}
