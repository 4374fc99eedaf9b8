//! Any bytes as record batches. The first byte says whether length, format and checksum are set right before, so that
//! the search reaches codecs and records; what comes out never outgrows the limit.
#![no_main]

use atonce_protocol::records::{
    BATCH_HEADER_BYTES, BatchView, ProducedRules, batches, read_marker, set_log_append_time, validate_produced,
};
use libfuzzer_sys::fuzz_target;

const LIMIT: usize = 1 << 20;

fuzz_target!(|data: &[u8]| {
    let Some((&mode, body)) = data.split_first() else { return };
    let mut bytes = body.to_vec();
    if mode % 4 != 0 && bytes.len() >= BATCH_HEADER_BYTES {
        let length = i32::try_from(bytes.len() - 12).expect("short");
        bytes[8..12].copy_from_slice(&length.to_be_bytes());
        bytes[16] = 2;
        // Renews the checksum too.
        set_log_append_time(&mut bytes, 1);
        BatchView::new(&bytes).expect("the head is right").validate().err();
    }
    for batch in batches(&bytes) {
        let Ok(batch) = batch else { continue };
        let _ = batch.validate();
        let Ok(payload) = batch.decompress(LIMIT) else { continue };
        assert!(payload.len() <= LIMIT);
        for record in batch.records_in(&payload).flatten() {
            let _ = read_marker(&record);
            record.headers().for_each(|it| drop(it.key_text()));
        }
    }
    let _ = validate_produced(&bytes, ProducedRules { requires_keys: mode & 4 != 0, decompressed_bytes_max: LIMIT });
});
