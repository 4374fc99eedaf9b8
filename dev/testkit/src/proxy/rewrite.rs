//! The addresses that answers tell: the proxy's own in the place of the brokers'.
//!
//! An answer that tells none is passed on as it came, byte by byte. So that those that may tell some can be read, a client
//! is not told of versions of theirs that this code does not know.

use std::sync::Arc;

use atonce_protocol::frame::{decode_response_header, encode_any_response};
use atonce_protocol::messages::api_versions_response::ApiVersionsResponse;
use atonce_protocol::{AnyResponse, ApiKey, ErrorCode, Reader};
use bytes::{BufMut, Bytes, BytesMut};

use super::Shared;

/// The answers that may tell addresses.
const TELLING: [ApiKey; 5] =
    [ApiKey::Metadata, ApiKey::FindCoordinator, ApiKey::DescribeCluster, ApiKey::Produce, ApiKey::Fetch];

/// The frame, with its length, that the client gets for `answer`, which comes without.
pub(super) fn answer(shared: &Arc<Shared>, api: ApiKey, version: i16, answer: &Bytes) -> Result<BytesMut, String> {
    let changes = shared.changes_of(api);
    if changes.is_empty() && api != ApiKey::ApiVersions && !TELLING.contains(&api) {
        return Ok(framed(answer));
    }
    let mut reader = Reader::new(answer.clone());
    let failed = |what: &str| format!("{api:?} {version}: {what}");
    let header = decode_response_header(&mut reader, api, version).map_err(|error| failed(&error.to_string()))?;
    let body = reader.rest();
    // A broker that does not know the version of ApiVersions says so in version 0.
    let code = body.first_chunk::<2>().map(|code| ErrorCode::from_wire(i16::from_be_bytes(*code)));
    let version = if api == ApiKey::ApiVersions && code == Some(ErrorCode::UnsupportedVersion) { 0 } else { version };
    let mut message =
        AnyResponse::decode(api, &mut Reader::new(body), version).map_err(|error| failed(&error.to_string()))?;
    let before = message.clone();
    rewrite(shared, &mut message)?;
    for change in changes {
        change(&mut message, version);
    }
    if message == before {
        return Ok(framed(answer));
    }
    encode_any_response(version, header.correlation_id, &message).map_err(|error| failed(&error.to_string()))
}

pub(super) fn framed(bytes: &Bytes) -> BytesMut {
    let mut frame = BytesMut::with_capacity(bytes.len() + 4);
    // Frames come from a splitter that takes lengths of 31 bits.
    frame.put_u32(u32::try_from(bytes.len()).unwrap_or(u32::MAX));
    frame.put_slice(bytes);
    frame
}

fn rewrite(shared: &Arc<Shared>, message: &mut AnyResponse) -> Result<(), String> {
    let place = |host: &mut String, port: &mut i32| -> Result<(), String> {
        // No address, in answers that say that there is none.
        if host.is_empty() || *port < 0 {
            return Ok(());
        }
        let own = shared.port_for(&format!("{host}:{port}")).map_err(|error| error.to_string())?;
        (*host, *port) = ("127.0.0.1".to_owned(), i32::from(own));
        Ok(())
    };
    match message {
        AnyResponse::Metadata(it) => it.brokers.iter_mut().try_for_each(|it| place(&mut it.host, &mut it.port)),
        AnyResponse::DescribeCluster(it) => it.brokers.iter_mut().try_for_each(|it| place(&mut it.host, &mut it.port)),
        AnyResponse::FindCoordinator(it) => {
            place(&mut it.host, &mut it.port)?;
            it.coordinators.iter_mut().try_for_each(|it| place(&mut it.host, &mut it.port))
        }
        AnyResponse::Produce(it) => it.node_endpoints.iter_mut().try_for_each(|it| place(&mut it.host, &mut it.port)),
        AnyResponse::Fetch(it) => it.node_endpoints.iter_mut().try_for_each(|it| place(&mut it.host, &mut it.port)),
        AnyResponse::ApiVersions(it) => {
            cap(it);
            Ok(())
        }
        _ => Ok(()),
    }
}

fn cap(response: &mut ApiVersionsResponse) {
    for api in TELLING {
        for listed in response.api_keys.iter_mut().filter(|listed| listed.api_key == api.to_i16()) {
            listed.max_version = listed.max_version.min(*api.versions().end());
        }
    }
}
