//! Frames: a length, a header, a message.
//!
//! Layout of a request: `length i32 | api_key i16 | api_version i16 | correlation_id i32 | client_id string |
//! tagged fields if the version is flexible | message`. Of a response: `length i32 | correlation_id i32 |
//! tagged fields if flexible, and never for ApiVersions | message`. The length does not count itself.
//!
//! **What it does not know**: which request a response answers. The caller keeps the version that it asked
//! with, by correlation id.

use bytes::{Buf, BufMut, Bytes, BytesMut};

use crate::wire::{
    DecodeError, EncodeError, Message, RawTaggedField, Reader, Request, TaggedFields, Writer, put_nullable_string,
};
use crate::{AnyRequest, AnyResponse, ApiKey};

/// What stands before a request.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct RequestHeader {
    /// The API, perhaps one that we do not know.
    pub api_key: i16,
    /// The version that the rest is written in.
    pub api_version: i16,
    /// Comes back with the answer.
    pub correlation_id: i32,
    /// What the client calls itself.
    pub client_id: Option<String>,
    /// Tagged fields that this code does not know.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

impl RequestHeader {
    /// The header of a request of that kind.
    #[must_use]
    pub fn new(key: ApiKey, version: i16, correlation_id: i32, client_id: Option<&str>) -> Self {
        Self {
            api_key: key.to_i16(),
            api_version: version,
            correlation_id,
            client_id: client_id.map(str::to_owned),
            unknown_tagged_fields: Vec::new(),
        }
    }

    /// The API, if we know it.
    #[must_use]
    pub fn key(&self) -> Option<ApiKey> {
        ApiKey::from_i16(self.api_key)
    }
}

/// Reads a request's header and leaves `reader` at the message.
///
/// The header of an API we do not know is read up to the client id: enough to say who asked for what.
pub fn decode_request_header(reader: &mut Reader) -> Result<RequestHeader, DecodeError> {
    let mut header = RequestHeader {
        api_key: reader.i16()?,
        api_version: reader.i16()?,
        correlation_id: reader.i32()?,
        // Never compact, so that a broker can read the header of an ApiVersions request from the future.
        client_id: reader.nullable_string(false)?,
        unknown_tagged_fields: Vec::new(),
    };
    if header.key().is_some_and(|key| key.request_header_version(header.api_version) >= 2) {
        reader.tagged_fields(&mut header.unknown_tagged_fields, |_, _| Ok(false))?;
    }
    Ok(header)
}

/// Writes a whole frame: length, header, request.
///
/// Panics: if the header names another API than the request's: a mistake of the caller.
pub fn encode_request<R: Request>(header: &RequestHeader, request: &R) -> Result<BytesMut, EncodeError> {
    assert_eq!(header.api_key, R::KEY.to_i16(), "the header is not that of a {}", R::NAME);
    framed(|writer| {
        encode_request_header(header, R::KEY, writer)?;
        request.encode(writer, header.api_version)
    })
}

/// [`encode_request`], for a request of any API.
pub fn encode_any_request(header: &RequestHeader, request: &AnyRequest) -> Result<BytesMut, EncodeError> {
    framed(|writer| {
        encode_request_header(header, request.key(), writer)?;
        request.encode(writer, header.api_version)
    })
}

fn encode_request_header(header: &RequestHeader, key: ApiKey, writer: &mut BytesMut) -> Result<(), EncodeError> {
    writer.put_i16(key.to_i16());
    writer.put_i16(header.api_version);
    writer.put_i32(header.correlation_id);
    put_nullable_string(writer, header.client_id.as_deref(), false)?;
    if key.request_header_version(header.api_version) >= 2 {
        TaggedFields::default().write(writer, &header.unknown_tagged_fields)?;
    }
    Ok(())
}

/// What stands before a response.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct ResponseHeader {
    /// That of the request.
    pub correlation_id: i32,
    /// Tagged fields that this code does not know.
    pub unknown_tagged_fields: Vec<RawTaggedField>,
}

/// Reads a response's header, and leaves `reader` at the message. Key and version are those of the request.
pub fn decode_response_header(reader: &mut Reader, key: ApiKey, version: i16) -> Result<ResponseHeader, DecodeError> {
    let mut header = ResponseHeader { correlation_id: reader.i32()?, unknown_tagged_fields: Vec::new() };
    if key.response_header_version(version) >= 1 {
        reader.tagged_fields(&mut header.unknown_tagged_fields, |_, _| Ok(false))?;
    }
    Ok(header)
}

/// The correlation id at the head of a response frame: to find the request, and with it the version.
pub fn correlation_id_of(response: &[u8]) -> Result<i32, DecodeError> {
    let first = response.first_chunk::<4>();
    let missing = DecodeError::Truncated { position: 0, needed: 4, remaining: response.len() };
    first.map(|bytes| i32::from_be_bytes(*bytes)).ok_or(missing)
}

/// Writes a whole frame: length, header, response. Key and version are those of the request.
pub fn encode_response(
    key: ApiKey,
    version: i16,
    correlation_id: i32,
    response: &impl Message,
) -> Result<BytesMut, EncodeError> {
    framed(|writer| {
        encode_response_header(key, version, correlation_id, writer);
        response.encode(writer, version)
    })
}

/// [`encode_response`], of which some record batches stay elsewhere: in the message's `records` fields, in their order, so many
/// bytes (0: the field is written as it is). What comes back is the frame without them: a piece before the first of them, one
/// before each other, and the rest.
pub fn encode_response_around(
    key: ApiKey,
    version: i16,
    correlation_id: i32,
    response: &impl Message,
    lengths: &[usize],
) -> Result<Vec<BytesMut>, EncodeError> {
    let mut writer = Writer::new(BytesMut::with_capacity(256));
    writer.put_i32(0);
    encode_response_header(key, version, correlation_id, &mut writer);
    writer.set_apart(lengths.iter().copied());
    response.write(&mut writer, version)?;
    let (mut frame, places) = writer.into_parts();
    let apart = lengths.iter().filter(|length| **length > 0).count();
    assert_eq!(places.len(), apart, "the message has not as many records fields");
    let length = lengths.iter().fold(frame.len() - LENGTH_BYTES, |sum, length| sum.saturating_add(*length));
    put_frame_length(&mut frame, length)?;
    let mut pieces = Vec::with_capacity(places.len() + 1);
    let mut begin = 0;
    for place in places {
        pieces.push(frame.split_to(place - begin));
        begin = place;
    }
    pieces.push(frame);
    Ok(pieces)
}

/// [`encode_response`], for a response of any API.
pub fn encode_any_response(version: i16, correlation_id: i32, response: &AnyResponse) -> Result<BytesMut, EncodeError> {
    framed(|writer| {
        encode_response_header(response.key(), version, correlation_id, writer);
        response.encode(writer, version)
    })
}

fn encode_response_header(key: ApiKey, version: i16, correlation_id: i32, writer: &mut BytesMut) {
    writer.put_i32(correlation_id);
    if key.response_header_version(version) >= 1 {
        writer.put_u8(0);
    }
}

/// Bytes of the length before a frame.
const LENGTH_BYTES: usize = 4;

fn framed(write: impl FnOnce(&mut BytesMut) -> Result<(), EncodeError>) -> Result<BytesMut, EncodeError> {
    let mut frame = BytesMut::with_capacity(256);
    frame.put_i32(0);
    write(&mut frame)?;
    let length = frame.len() - LENGTH_BYTES;
    put_frame_length(&mut frame, length)?;
    Ok(frame)
}

fn put_frame_length(frame: &mut BytesMut, length: usize) -> Result<(), EncodeError> {
    let prefix = i32::try_from(length).map_err(|_| EncodeError::TooLong { length })?.to_be_bytes();
    if let Some(place) = frame.first_chunk_mut::<LENGTH_BYTES>() {
        *place = prefix;
    }
    Ok(())
}

/// A length before a frame that nobody means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FrameError {
    /// Below zero.
    #[error("a frame says that it is {length} bytes long; this peer does not speak Kafka's protocol")]
    NegativeLength {
        /// What it says.
        length: i32,
    },
    /// Above what we accept.
    #[error("a frame says that it is {length} bytes long, and {max} is the most accepted here")]
    TooLong {
        /// What it says.
        length: usize,
        /// What we accept.
        max: usize,
    },
}

/// Cuts a stream of bytes into frames.
#[derive(Clone, Copy, Debug)]
pub struct FrameSplitter {
    frame_bytes_max: usize,
}

impl FrameSplitter {
    /// Accepts frames up to `frame_bytes_max`, their length not counted.
    #[must_use]
    pub fn new(frame_bytes_max: usize) -> Self {
        Self { frame_bytes_max }
    }

    /// Takes the next frame, without its length, off the front of `received`; `None` until all of it is there.
    ///
    /// Nothing is reserved for a frame that was only announced: the buffer grows as bytes arrive.
    pub fn next_frame(&self, received: &mut BytesMut) -> Result<Option<Bytes>, FrameError> {
        let Some(prefix) = received.first_chunk::<LENGTH_BYTES>() else { return Ok(None) };
        let length = i32::from_be_bytes(*prefix);
        let Ok(length) = usize::try_from(length) else { return Err(FrameError::NegativeLength { length }) };
        if length > self.frame_bytes_max {
            return Err(FrameError::TooLong { length, max: self.frame_bytes_max });
        }
        if received.len() - LENGTH_BYTES < length {
            return Ok(None);
        }
        received.advance(LENGTH_BYTES);
        Ok(Some(received.split_to(length).freeze()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::api_versions_request::ApiVersionsRequest;
    use crate::messages::api_versions_response::ApiVersionsResponse;
    use crate::messages::fetch_response::{FetchResponse, FetchableTopicResponse, PartitionData};

    #[test]
    fn frames_are_cut_wherever_the_stream_is() {
        let header = RequestHeader::new(ApiKey::ApiVersions, 3, 7, Some("me"));
        let frame = encode_request(&header, &ApiVersionsRequest::default()).expect("encodes");
        let stream = [frame.as_ref(), frame.as_ref()].concat();
        for cut in 0..=stream.len() {
            let splitter = FrameSplitter::new(1000);
            let mut received = BytesMut::new();
            let mut frames = Vec::new();
            for part in [&stream[..cut], &stream[cut..]] {
                received.extend_from_slice(part);
                while let Some(frame) = splitter.next_frame(&mut received).expect("good lengths") {
                    frames.push(frame);
                }
            }
            assert_eq!(frames.len(), 2);
            let mut reader = Reader::new(frames[1].clone());
            assert_eq!(decode_request_header(&mut reader).expect("header"), header);
        }
    }

    #[test]
    fn a_response_around_records_is_the_response_with_them() {
        let data =
            |records: &'static [u8]| PartitionData { records: Some(Bytes::from_static(records)), ..Default::default() };
        let topic = |partitions| FetchableTopicResponse { topic: "t".to_owned(), partitions, ..Default::default() };
        let response = |partitions: [&'static [u8]; 4]| {
            let [a, b, c, d] = partitions.map(data);
            FetchResponse { responses: vec![topic(vec![a, b, c]), topic(vec![d])], ..Default::default() }
        };
        let elsewhere: [&[u8]; 2] = [b"first", &[7; 300]];
        for version in [4, 12] {
            let whole = response([elsewhere[0], b"here", b"", elsewhere[1]]);
            let whole = encode_response(ApiKey::Fetch, version, 7, &whole).expect("encodes");
            let around = response([b"", b"here", b"", b""]);
            let lengths = [elsewhere[0].len(), 0, 0, elsewhere[1].len()];
            let pieces = encode_response_around(ApiKey::Fetch, version, 7, &around, &lengths).expect("encodes");
            let joined = [&pieces[0], elsewhere[0], &pieces[1], elsewhere[1], &pieces[2]].concat();
            assert_eq!(joined, whole, "v{version}");
            // Nothing elsewhere: one piece, which is all of it.
            let alone = encode_response_around(ApiKey::Fetch, version, 7, &around, &[0; 4]).expect("encodes");
            assert_eq!(alone, [encode_response(ApiKey::Fetch, version, 7, &around).expect("encodes")]);
        }
    }

    #[test]
    fn lengths_that_nobody_means_are_refused() {
        let splitter = FrameSplitter::new(1000);
        let mut received = BytesMut::from(&(-1_i32).to_be_bytes()[..]);
        assert_eq!(splitter.next_frame(&mut received), Err(FrameError::NegativeLength { length: -1 }));
        let mut received = BytesMut::from(&b"GET / HTTP/1.1"[..]);
        assert!(matches!(splitter.next_frame(&mut received), Err(FrameError::TooLong { max: 1000, .. })));
    }

    #[test]
    fn the_answer_to_api_versions_has_the_oldest_header() {
        let response = ApiVersionsResponse::default();
        let frame = encode_response(ApiKey::ApiVersions, 3, 9, &response).expect("encodes");
        assert_eq!(correlation_id_of(&frame[4..]), Ok(9));
        assert_eq!(&frame[8..10], [0, 0], "the error code follows at once");
    }
}
