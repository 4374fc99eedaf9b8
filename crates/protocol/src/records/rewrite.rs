//! A batch written anew: by compaction, with fewer records; for a producer that numbered its records otherwise, with their right numbers.
//!
//! **What it does not know**: which records go, and why.
//!
//! In a compaction offsets stay: the base offset and the last one, records or not, because sequences and positions are counted by them.

use bytes::Bytes;

use super::batch::{DELETE_HORIZON, LOG_APPEND_TIME};
use super::{BatchBuilder, BatchOptions, BatchView, Compression, RecordError, RecordView, TimestampType};

/// `batch` with the records `kept` of it alone, compressed as it was.
///
/// A delete horizon takes the place of the base timestamp (KIP-534); records keep their own times. Without one, the batch keeps
/// the one it has. With no record left, an empty batch stands for the offsets and sequences that were there.
///
/// Errors: a codec that is left out of this build, or a time too far from the horizon.
pub fn rewrite_batch(
    batch: &BatchView<'_>,
    kept: &[RecordView<'_>],
    delete_horizon_ms: Option<i64>,
) -> Result<Bytes, RecordError> {
    let header = batch.header();
    let horizon = delete_horizon_ms.or(batch.delete_horizon_ms()).filter(|_| !kept.is_empty());
    let mut builder = BatchBuilder::with_capacity(batch.payload().len());
    if let Some(horizon) = horizon {
        builder.count_from(horizon);
    }
    for record in kept {
        let headers = record.headers().map(|header| (header.key, header.value));
        builder.append_at(record.offset_delta, record.timestamp, record.key, record.value, headers)?;
    }
    let mut attributes = 0;
    if batch.timestamp_type() == TimestampType::LogAppendTime {
        attributes |= LOG_APPEND_TIME;
    }
    if horizon.is_some() {
        attributes |= DELETE_HORIZON;
    }
    let keeps_max_timestamp = kept.is_empty() || batch.timestamp_type() == TimestampType::LogAppendTime;
    let options = BatchOptions {
        producer: header.producer,
        base_sequence: header.base_sequence,
        is_transactional: batch.is_transactional(),
        is_control: batch.is_control(),
        compression: if kept.is_empty() { Compression::None } else { batch.compression()? },
        base_offset: header.base_offset,
        partition_leader_epoch: header.partition_leader_epoch,
    };
    builder.finish_rewritten(
        &options,
        attributes,
        header.last_offset_delta,
        keeps_max_timestamp.then_some(header.max_timestamp),
    )
}

/// `batch` with its records numbered 0, 1, 2 … in their order, compressed as it was.
///
/// Errors: records that cannot be read, or unpacked to at most `limit` bytes; a codec that is left out of this build.
pub fn renumber(batch: &BatchView<'_>, limit: usize) -> Result<Bytes, RecordError> {
    let payload = batch.decompress(limit)?;
    let mut records = batch.records_in(&payload).collect::<Result<Vec<_>, _>>()?;
    for (record, number) in records.iter_mut().zip(0..) {
        record.offset_delta = number;
    }
    rewrite_batch(batch, &records, None)
}

#[cfg(test)]
mod tests {
    use atonce_kernel::{ProducerIdentity, Sequence};

    use super::*;
    use crate::records::set_log_append_time;

    fn batch(compression: Compression) -> Bytes {
        let mut builder = BatchBuilder::default();
        for (number, value) in [Some(b"one"), None, Some(b"six")].into_iter().enumerate() {
            let headers = [(&b"h"[..], Some(&b"1"[..])), (&b"h"[..], None)];
            let key = [b'a' + number as u8];
            builder
                .append(1000 + number as i64, Some(&key), value.map(|it| &it[..]), headers)
                .expect("a small record fits");
        }
        let options = BatchOptions {
            producer: ProducerIdentity::new(7, 1),
            base_sequence: Sequence(20),
            is_transactional: true,
            compression,
            base_offset: 100,
            partition_leader_epoch: 3,
            ..BatchOptions::default()
        };
        builder.finish(&options).expect("finishes")
    }

    fn records<'a>(view: &BatchView<'_>, payload: &'a [u8]) -> Vec<RecordView<'a>> {
        view.records_in(payload).collect::<Result<_, _>>().expect("they were written so")
    }

    #[test]
    fn offsets_sequences_headers_and_times_stay_in_every_compression() {
        let all = [Compression::None, Compression::Gzip, Compression::Snappy, Compression::Lz4, Compression::Zstd];
        for compression in all.into_iter().filter(|it| it.is_built()) {
            let bytes = batch(compression);
            let view = BatchView::new(&bytes).expect("a batch");
            let payload = view.decompress(1 << 20).expect("small");
            let all = records(&view, &payload);
            let rewritten = rewrite_batch(&view, &all[1..2], None).expect("rewrites");
            let again = BatchView::new(&rewritten).expect("a batch");
            again.validate().expect("its checksum fits");
            assert_eq!((again.base_offset(), again.last_offset(), again.records_count()), (100, 102, 1));
            assert_eq!((again.last_sequence(), again.producer()), (Sequence(22), ProducerIdentity::new(7, 1)));
            assert_eq!(again.compression().expect("known"), compression);
            assert_eq!((again.partition_leader_epoch(), again.max_timestamp()), (3, 1001));
            assert!(again.is_transactional() && !again.is_control() && again.delete_horizon_ms().is_none());
            let payload = again.decompress(1 << 20).expect("small");
            let left = records(&again, &payload);
            assert_eq!((left[0].offset, left[0].timestamp, left[0].value), (101, 1001, None));
            assert_eq!(left[0].headers().count(), 2);
        }
    }

    #[test]
    fn a_horizon_stands_in_the_base_timestamp_and_stays_when_rewritten_again() {
        let bytes = batch(Compression::None);
        let view = BatchView::new(&bytes).expect("a batch");
        let all = records(&view, view.payload());
        let rewritten = rewrite_batch(&view, &all, Some(50_000)).expect("rewrites");
        let view = BatchView::new(&rewritten).expect("a batch");
        assert_eq!(
            (view.delete_horizon_ms(), view.base_timestamp(), view.max_timestamp()),
            (Some(50_000), 50_000, 1002)
        );
        let times: Vec<i64> = records(&view, view.payload()).iter().map(|record| record.timestamp).collect();
        assert_eq!(times, [1000, 1001, 1002]);
        let all = records(&view, view.payload());
        let again = rewrite_batch(&view, &all[..1], None).expect("rewrites");
        let again = BatchView::new(&again).expect("a batch");
        assert_eq!(again.delete_horizon_ms(), Some(50_000));
        assert_eq!(records(&again, again.payload())[0].timestamp, 1000);
    }

    #[test]
    fn the_time_of_append_stays() {
        let mut bytes = batch(Compression::None).to_vec();
        set_log_append_time(&mut bytes, 9000);
        let view = BatchView::new(&bytes).expect("a batch");
        let all = records(&view, view.payload());
        for kept in [&all[..0], &all[..1]] {
            let again = rewrite_batch(&view, kept, None).expect("rewrites");
            let again = BatchView::new(&again).expect("a batch");
            assert_eq!((again.timestamp_type(), again.max_timestamp()), (TimestampType::LogAppendTime, 9000));
        }
    }

    #[test]
    fn an_empty_batch_keeps_who_and_where() {
        let bytes = batch(Compression::Gzip);
        let view = BatchView::new(&bytes).expect("a batch");
        let empty = rewrite_batch(&view, &[], Some(1)).expect("rewrites");
        let empty = BatchView::new(&empty).expect("a batch");
        empty.validate().expect("its checksum fits");
        assert_eq!((empty.records_count(), empty.size_bytes()), (0, 61));
        assert_eq!((empty.base_offset(), empty.last_offset()), (100, 102));
        assert_eq!((empty.last_sequence(), empty.max_timestamp()), (Sequence(22), 1002));
        assert_eq!((empty.delete_horizon_ms(), empty.base_timestamp()), (None, -1));
    }
}
