//! Bytes that make no sense are refused: nothing panics, and no count sizes an allocation.

mod support;

use atonce_kernel::chance::Chance;
use atonce_protocol::messages::metadata_request::MetadataRequest;
use atonce_protocol::records::{BatchBuilder, BatchOptions, Compression, ProducedRules, batches, validate_produced};
use atonce_protocol::{AnyRequest, AnyResponse, ApiKey, DecodeError, Message, Reader, frame};
use bytes::{Bytes, BytesMut};
use proptest::prelude::*;
use support::sample::sample;
use support::{Frame, recorded_frames};
use xtask::schema::Declaration;

/// Decodes as a request and as a response. What can be read can be written, and then is a fixed point.
fn try_all(key: ApiKey, version: i16, bytes: &Bytes) {
    if let Ok(request) = AnyRequest::decode(key, &mut Reader::new(bytes.clone()), version) {
        let mut again = BytesMut::new();
        request.encode(&mut again, version).expect("what was read can be written");
        let back = AnyRequest::decode(key, &mut Reader::new(again.freeze()), version);
        assert_eq!(back.expect("what was written can be read"), request);
    }
    if let Ok(response) = AnyResponse::decode(key, &mut Reader::new(bytes.clone()), version) {
        let mut again = BytesMut::new();
        response.encode(&mut again, version).expect("what was read can be written");
        let back = AnyResponse::decode(key, &mut Reader::new(again.freeze()), version);
        assert_eq!(back.expect("what was written can be read"), response);
    }
}

fn any_key() -> impl Strategy<Value = ApiKey> {
    (0..ApiKey::ALL.len()).prop_map(|at| ApiKey::ALL[at])
}

/// What an attacker does to a frame: flips, cuts, repeats, and writes large numbers.
fn damage(bytes: &mut Vec<u8>, chance: &mut Chance) {
    for _ in 0..=chance.below(3) {
        if bytes.is_empty() {
            return;
        }
        let at = usize::try_from(chance.below(bytes.len() as u64)).unwrap();
        match chance.below(6) {
            0 => bytes[at] ^= 1 << chance.below(8),
            1 => bytes[at] = chance.next_u64() as u8,
            2 => bytes.truncate(at),
            3 => {
                let tail = bytes[at..].to_vec();
                bytes.extend(tail);
            }
            4 => {
                let end = bytes.len().min(at + 4);
                bytes[at..end].copy_from_slice(&[0x7f, 0xff, 0xff, 0xff][..end - at]);
            }
            _ => {
                bytes.splice(at..at, [0xff; 5]);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_bytes_are_no_message_or_one_that_holds(
        key in any_key(),
        version in -2_i16..20,
        bytes in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        try_all(key, version, &Bytes::from(bytes));
    }

    #[test]
    fn random_bytes_are_no_header(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
        let _ = frame::decode_request_header(&mut Reader::new(Bytes::from(bytes)));
    }

    #[test]
    fn random_bytes_are_no_batch(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        read_batches(&bytes);
    }
}

#[test]
fn damaged_samples_of_every_version_are_refused_or_hold() {
    let mut chance = Chance::from_seed(4);
    for declaration in xtask::generate::declarations().expect("declarations") {
        let Declaration::Api { key, request, response, .. } = &declaration else { continue };
        let key = ApiKey::from_i16(*key).expect("generated");
        for message in [request, response] {
            for version in message.versions.from..=message.versions.to {
                for _ in 0..60 {
                    let mut bytes = sample(message, version, &mut chance);
                    damage(&mut bytes, &mut chance);
                    try_all(key, version, &Bytes::from(bytes));
                }
            }
        }
    }
}

#[test]
fn damaged_recordings_are_refused_or_hold() {
    let mut chance = Chance::from_seed(5);
    for Frame { key, version, bytes, .. } in recorded_frames() {
        for _ in 0..10 {
            let mut bytes = bytes.to_vec();
            damage(&mut bytes, &mut chance);
            let bytes = Bytes::from(bytes);
            let mut reader = Reader::new(bytes.clone());
            if let Ok(header) = frame::decode_request_header(&mut reader)
                && let Some(key) = header.key()
            {
                try_all(key, header.api_version, &reader.rest());
            }
            let mut reader = Reader::new(bytes);
            if frame::decode_response_header(&mut reader, key, version).is_ok() {
                try_all(key, version, &reader.rest());
            }
        }
    }
}

#[test]
fn a_count_of_a_billion_in_four_bytes_is_refused_at_once() {
    let refused = MetadataRequest::decode_all(Bytes::from_static(&[0x3b, 0x9a, 0xca, 0x00]), 1);
    assert_eq!(refused, Err(DecodeError::CountTooLarge { position: 4, count: 1_000_000_000, remaining: 0 }));
    // The same in a flexible version: 2^28 - 2 elements.
    let refused = MetadataRequest::decode_all(Bytes::from_static(&[0xff, 0xff, 0xff, 0x7f]), 9);
    assert_eq!(refused, Err(DecodeError::CountTooLarge { position: 4, count: 268_435_454, remaining: 0 }));
}

#[test]
fn each_kind_of_nonsense_has_its_error() {
    let mut request = BytesMut::new();
    MetadataRequest { topics: None, ..MetadataRequest::default() }.encode(&mut request, 9).expect("encodes");
    let good = request.to_vec();
    let decode = |bytes: &[u8]| MetadataRequest::decode_all(Bytes::copy_from_slice(bytes), 9);
    assert!(decode(&good).is_ok());

    let trailing = [&good[..], &[0]].concat();
    assert!(matches!(decode(&trailing), Err(DecodeError::TrailingBytes { count: 1, .. })));
    assert!(matches!(decode(&good[..good.len() - 1]), Err(DecodeError::Truncated { needed: 1, .. })));
    let (body, _) = good.split_at(good.len() - 1);
    // One unknown field of three bytes, of which two are there.
    assert!(matches!(decode(&[body, &[1, 9, 3, 0, 0]].concat()), Err(DecodeError::Truncated { needed: 3, .. })));
    // Twice the same tag, and tags that fall.
    assert!(matches!(decode(&[body, &[2, 9, 0, 9, 0]].concat()), Err(DecodeError::TagOutOfOrder { tag: 9, .. })));
    assert!(matches!(decode(&[body, &[2, 9, 0, 8, 0]].concat()), Err(DecodeError::TagOutOfOrder { tag: 8, .. })));
    assert!(matches!(decode(&[0xff; 6]), Err(DecodeError::VarintTooLong { position: 0 })));
    assert!(matches!(decode(&[0xff, 0xff, 0xff, 0xff, 0x1f]), Err(DecodeError::VarintTooLong { position: 0 })));

    let old = |bytes: &[u8]| MetadataRequest::decode_all(Bytes::copy_from_slice(bytes), 1);
    assert!(matches!(old(&[0xff, 0xff, 0xff, 0xfe]), Err(DecodeError::NegativeLength { length: -2, .. })));
    assert!(matches!(old(&[0, 0, 0, 1, 0, 2, 0xc3, 0x28]), Err(DecodeError::InvalidUtf8 { position: 6 })));
    assert!(matches!(old(&[0, 0, 0, 1, 0xff, 0xff]), Err(DecodeError::UnexpectedNull { .. })));
    assert!(matches!(old(&[0, 0, 0, 1, 0, 9, b'x']), Err(DecodeError::Truncated { needed: 9, remaining: 1, .. })));
    let unknown = MetadataRequest::decode_all(Bytes::from(good), 99);
    assert_eq!(unknown, Err(DecodeError::UnsupportedVersion { message: "MetadataRequest", version: 99 }));
}

/// Reads whatever can be read. The limit is the most that may come out.
fn read_batches(bytes: &[u8]) {
    const LIMIT: usize = 1 << 16;
    for batch in batches(bytes) {
        let Ok(batch) = batch else { continue };
        let _ = batch.validate();
        if let Ok(payload) = batch.decompress(LIMIT) {
            assert!(payload.len() <= LIMIT);
            for record in batch.records_in(&payload).flatten() {
                for header in record.headers() {
                    let _ = header.key_text();
                }
            }
        }
    }
    let _ = validate_produced(bytes, ProducedRules { requires_keys: true, decompressed_bytes_max: LIMIT });
}

fn good_batch(compression: Compression) -> Vec<u8> {
    let mut builder = BatchBuilder::default();
    for at in 0..20_i64 {
        let value = [at as u8; 40];
        let headers = [(&b"h"[..], Some(&b"1"[..])), (&b"h"[..], None)];
        builder.append(1000 + at, Some(b"key"), Some(&value), headers).expect("small");
    }
    builder.finish(&BatchOptions { compression, ..BatchOptions::default() }).expect("finishes").to_vec()
}

#[test]
fn damaged_batches_are_refused_or_read_without_panic() {
    let mut chance = Chance::from_seed(6);
    let codecs = [Compression::None, Compression::Gzip, Compression::Snappy, Compression::Lz4, Compression::Zstd];
    for compression in codecs.into_iter().filter(|it| it.is_built()) {
        for _ in 0..3000 {
            let mut bytes = good_batch(compression);
            damage(&mut bytes, &mut chance);
            // As an attacker would, half of the time with the right length and checksum.
            if bytes.len() > 61 && chance.one_in(1, 2) {
                let length = i32::try_from(bytes.len() - 12).unwrap();
                bytes[8..12].copy_from_slice(&length.to_be_bytes());
                bytes[16] = 2;
                let crc = crc32c::crc32c(&bytes[21..]);
                bytes[17..21].copy_from_slice(&crc.to_be_bytes());
            }
            read_batches(&bytes);
        }
    }
}
