//! The time of a partition, kept beside its committed offset, so that stream time goes on where it was after a restart.
//!
//! Layout, as Kafka Streams writes it: `base64(version u8 = 1 | time i64, big-endian)`; its version 2 has more behind that, which is not read
//! here.

use atonce_kernel::Timestamp;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

pub(crate) fn encode(time: Timestamp) -> String {
    let mut bytes = [1_u8; 9];
    bytes[1..].copy_from_slice(&time.0.to_be_bytes());
    STANDARD.encode(bytes)
}

/// `None`: the text says no time. It may be anybody's.
pub(crate) fn decode(text: &str) -> Option<Timestamp> {
    let bytes = STANDARD.decode(text).ok()?;
    let (version, rest) = bytes.split_first()?;
    let time = rest.first_chunk::<8>()?;
    matches!((version, rest.len()), (1, 8) | (2, _)).then(|| Timestamp(i64::from_be_bytes(*time)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_reads_back_and_the_text_is_kafka_streams() {
        let time = Timestamp(1_700_000_000_000);
        // What TopicPartitionMetadata of Kafka Streams decodes.
        assert_eq!(encode(time), "AQAAAYvP5WgA");
        assert_eq!(decode(&encode(time)), Some(time));
        // Its own, of a task without metadata of processors, and with some behind it.
        assert_eq!(decode("AgAAAYvP5WgA"), Some(time));
        assert_eq!(decode("AgAAAYvP5WgAAAAAAA=="), Some(time));
    }

    #[test]
    fn other_texts_say_no_time() {
        for text in ["", "hello", "AQ==", "AwAAAYvP5WgA", "AQAAAYvP5WgAAA=="] {
            assert_eq!(decode(text), None, "{text}");
        }
    }
}
