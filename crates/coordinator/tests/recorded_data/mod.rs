//! What was recorded of Apache Kafka 4.4 and real clients: the protocol crate's test data.

#![allow(dead_code, reason = "each test uses its part")]

use std::collections::BTreeMap;
use std::io::Read;
use std::path::PathBuf;

use atonce_protocol::{ApiKey, Reader, frame};
use bytes::Bytes;

/// A file of the test data, unpacked.
pub(crate) fn unpacked(name: &str) -> Vec<u8> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../protocol/testdata").join(name);
    let file = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut bytes = Vec::new();
    flate2::read::GzDecoder::new(file.as_slice()).read_to_end(&mut bytes).expect("gzip");
    bytes
}

/// The partitions of `__consumer_offsets` that were kept.
pub(crate) const OFFSETS_PARTITIONS: [i32; 8] = [1, 11, 15, 18, 29, 33, 42, 45];

/// A request with its answer.
pub(crate) struct Exchange {
    pub(crate) place: String,
    pub(crate) key: ApiKey,
    pub(crate) version: i16,
    pub(crate) client_id: String,
    /// The request behind its header, and the answer behind its.
    pub(crate) request: Reader,
    pub(crate) response: Reader,
    /// When they were seen, in milliseconds.
    pub(crate) asked_ms: i64,
    pub(crate) answered_ms: i64,
}

/// A conversation, in the order of the requests.
pub(crate) fn conversation(name: &str) -> Vec<Exchange> {
    let text = String::from_utf8(unpacked(&format!("conversations/{name}.jsonl.gz"))).expect("text");
    let mut asked = BTreeMap::new();
    let mut exchanges = BTreeMap::new();
    for (line, number) in text.lines().zip(1..) {
        let line: serde_json::Value = serde_json::from_str(line).expect("JSON");
        let Some(hex) = line["x"].as_str() else { continue };
        let mut reader = Reader::new(Bytes::from(unhex(hex)));
        let (connection, ms) = (line["c"].as_i64().expect("a connection"), line["ms"].as_i64().expect("a time"));
        if line["d"] == ">" {
            let header = frame::decode_request_header(&mut reader).expect("a header");
            asked.insert((connection, header.correlation_id), (number, ms, header, reader));
        } else {
            let correlation_id = frame::correlation_id_of(&reader.rest()).expect("a correlation id");
            let (place, asked_ms, header, request) = asked.remove(&(connection, correlation_id)).expect("it was asked");
            let key = header.key().expect("a key we know");
            frame::decode_response_header(&mut reader, key, header.api_version).expect("a header");
            exchanges.insert(
                place,
                Exchange {
                    place: format!("{name}:{place}"),
                    key,
                    version: header.api_version,
                    client_id: header.client_id.unwrap_or_default(),
                    request,
                    response: reader,
                    asked_ms,
                    answered_ms: ms,
                },
            );
        }
    }
    exchanges.into_values().collect()
}

fn unhex(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.chars().map(|it| it.to_digit(16).expect("hex") as u8).collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}
