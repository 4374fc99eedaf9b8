//! What several test files read: recorded conversations.

#![allow(dead_code, reason = "each test file uses its part")]

pub(crate) mod sample;

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use atonce_protocol::{ApiKey, Reader, frame};
use bytes::Bytes;

pub(crate) fn testdata(folder: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata").join(folder)
}

pub(crate) fn gunzip(path: &Path) -> Vec<u8> {
    let mut bytes = Vec::new();
    let file = fs::read(path).expect("the file is there");
    flate2::read::GzDecoder::new(file.as_slice()).read_to_end(&mut bytes).expect("gzip");
    bytes
}

/// The files of a folder of test data with that ending, sorted.
pub(crate) fn files(folder: &str, ending: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(testdata(folder)).expect("the folder is there");
    let mut files: Vec<PathBuf> = entries.map(|it| it.expect("an entry").path()).collect();
    files.retain(|it| it.to_string_lossy().ends_with(ending));
    files.sort();
    files
}

/// A frame without its length. For a response, key and version are those of its request.
pub(crate) struct Frame {
    pub(crate) place: String,
    pub(crate) is_request: bool,
    pub(crate) key: ApiKey,
    pub(crate) version: i16,
    pub(crate) bytes: Bytes,
}

/// All frames of all conversations.
pub(crate) fn recorded_frames() -> Vec<Frame> {
    let mut frames = Vec::new();
    for path in files("conversations", ".jsonl.gz") {
        let text = String::from_utf8(gunzip(&path)).expect("text");
        let mut asked: BTreeMap<(i64, i32), (ApiKey, i16)> = BTreeMap::new();
        for (line, number) in text.lines().zip(1..) {
            let line: serde_json::Value = serde_json::from_str(line).expect("JSON");
            let Some(hex) = line["x"].as_str() else { continue };
            let bytes = Bytes::from(unhex(hex));
            let place = format!("{}:{number}", path.file_name().expect("a file").to_string_lossy());
            let connection = line["c"].as_i64().expect("a connection");
            let is_request = line["d"] == ">";
            let (key, version) = if is_request {
                let header = frame::decode_request_header(&mut Reader::new(bytes.clone())).expect("a header");
                let key = header.key().unwrap_or_else(|| panic!("{place}: key {}", header.api_key));
                asked.insert((connection, header.correlation_id), (key, header.api_version));
                (key, header.api_version)
            } else {
                let correlation_id = frame::correlation_id_of(&bytes).expect("a correlation id");
                asked.remove(&(connection, correlation_id)).unwrap_or_else(|| panic!("{place}: nobody asked"))
            };
            frames.push(Frame { place, is_request, key, version, bytes });
        }
    }
    assert!(frames.len() > 500, "only {} frames", frames.len());
    frames
}

fn unhex(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.chars().map(|it| it.to_digit(16).expect("hex") as u8).collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}
