//! The same records under another compression, as a topic may ask for (`compression.type`).

use bytes::Bytes;

use super::batch::{CRC_END, LENGTH_END};
use super::{BATCH_HEADER_BYTES, BatchView, Compression, RecordError, compress};

/// The batch with its records compressed by `compression`, whatever they were before. All else stays as it is.
///
/// Errors: records that cannot be unpacked to at most `limit` bytes, or a codec that is left out of this build.
pub fn recompress(batch: &BatchView<'_>, compression: Compression, limit: usize) -> Result<Bytes, RecordError> {
    const ATTRIBUTES_END: usize = CRC_END + 2;
    let payload = batch.decompress(limit)?;
    let head = batch.bytes().get(..BATCH_HEADER_BYTES).unwrap_or_default();
    let mut bytes = Vec::with_capacity(BATCH_HEADER_BYTES + payload.len() / 2);
    bytes.extend_from_slice(head);
    compress::compress(compression, &payload, &mut bytes)
        .map_err(|refusal| refusal.of_batch(batch.base_offset(), compression, payload.len()))?;
    let length = i32::try_from(bytes.len() - LENGTH_END).unwrap_or(i32::MAX);
    if let Some(place) = bytes.get_mut(LENGTH_END - 4..LENGTH_END) {
        place.copy_from_slice(&length.to_be_bytes());
    }
    // The codec stands in the last three bits.
    if let Some(low) = bytes.get_mut(ATTRIBUTES_END - 1) {
        *low = *low & !0b111 | u8::try_from(compression.codec()).unwrap_or(0);
    }
    let crc = crc32c::crc32c(bytes.get(CRC_END..).unwrap_or_default());
    if let Some(place) = bytes.get_mut(CRC_END - 4..CRC_END) {
        place.copy_from_slice(&crc.to_be_bytes());
    }
    Ok(Bytes::from(bytes))
}

#[cfg(test)]
mod tests {
    use atonce_kernel::{ProducerIdentity, Sequence};

    use super::*;
    use crate::records::{BatchBuilder, BatchOptions, ProducedRules, validate_produced};

    #[test]
    fn every_codec_becomes_every_other_and_nothing_else_changes() {
        let all = [Compression::None, Compression::Gzip, Compression::Snappy, Compression::Lz4, Compression::Zstd];
        let build = |compression| {
            let mut builder = BatchBuilder::default();
            for number in 0..20 {
                let value = "value ".repeat(number);
                let headers = [(&b"h"[..], Some(&b"1"[..])), (&b"h"[..], None)];
                builder.append(1000 + number as i64, Some(b"key"), Some(value.as_bytes()), headers).expect("it fits");
            }
            let options = BatchOptions {
                producer: ProducerIdentity::new(7, 3),
                base_sequence: Sequence(40),
                is_transactional: true,
                compression,
                ..BatchOptions::default()
            };
            builder.finish(&options).expect("a batch")
        };
        let rules = ProducedRules { requires_keys: true, decompressed_bytes_max: 1 << 20 };
        let plain = build(Compression::None);
        let plain = BatchView::new(&plain).expect("a batch");
        for from in all {
            let batch = build(from);
            let view = BatchView::new(&batch).expect("a batch");
            for to in all {
                let bytes = recompress(&view, to, 1 << 20).expect("recompressed");
                let again = validate_produced(&bytes, rules).expect("a good batch").batch;
                assert_eq!(again.compression(), Ok(to));
                assert_eq!(&*again.decompress(1 << 20).expect("unpacks"), plain.payload(), "{from} to {to}");
                let mut header = *again.header();
                let expected = plain.header();
                (header.batch_length, header.crc, header.attributes) =
                    (expected.batch_length, expected.crc, expected.attributes);
                assert_eq!(&header, expected);
            }
            assert!(matches!(recompress(&view, Compression::Zstd, 100), Err(RecordError::TooLargeDecompressed { .. })));
        }
    }
}
