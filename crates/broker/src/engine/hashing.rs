//! Which partition of an internal topic an id belongs to: as in Kafka, so that its tools look in the right one.

/// `abs(id.hashCode()) % partitions`, with Java's hash of the UTF-16 units; the one number without an absolute value counts as 0.
pub(super) fn partition_for(id: &str, partitions: i32) -> i32 {
    let hash = id.encode_utf16().fold(0_i32, |hash, unit| hash.wrapping_mul(31).wrapping_add(i32::from(unit)));
    let absolute = if hash == i32::MIN { 0 } else { hash.abs() };
    absolute % partitions.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_hash_as_in_java() {
        // "hello".hashCode() == 99162322; "polygenelubricants".hashCode() == Integer.MIN_VALUE.
        assert_eq!(partition_for("hello", 50), 99_162_322 % 50);
        assert_eq!(partition_for("polygenelubricants", 50), 0);
        assert_eq!(partition_for("", 50), 0);
    }
}
