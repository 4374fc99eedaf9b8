//! Any bytes as any message: the first byte says which API, the second which version, the third request or response.
//! What can be read can be written, and is then a fixed point.
#![no_main]

use atonce_protocol::{AnyRequest, AnyResponse, ApiKey, Reader, frame};
use bytes::{Bytes, BytesMut};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((&[api, version, kind], body)) = data.split_first_chunk::<3>() else { return };
    let key = ApiKey::ALL[usize::from(api) % ApiKey::ALL.len()];
    let version = i16::from(version % 20);
    let mut reader = Reader::new(Bytes::copy_from_slice(body));
    match kind % 3 {
        0 => {
            let Ok(message) = AnyRequest::decode(key, &mut reader, version) else { return };
            let mut again = BytesMut::new();
            message.encode(&mut again, version).expect("what was read can be written");
            let back = AnyRequest::decode(key, &mut Reader::new(again.freeze()), version);
            assert_eq!(back.expect("what was written can be read"), message);
        }
        1 => {
            let Ok(message) = AnyResponse::decode(key, &mut reader, version) else { return };
            let mut again = BytesMut::new();
            message.encode(&mut again, version).expect("what was read can be written");
            let back = AnyResponse::decode(key, &mut Reader::new(again.freeze()), version);
            assert_eq!(back.expect("what was written can be read"), message);
        }
        _ => {
            let _ = frame::decode_request_header(&mut reader);
        }
    }
});
