//! What can be read as a request in the fuzzer's corpus, and near it, put to a broker: decoders take it, so whatever else is odd about it
//! reaches what serves it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use atonce_kernel::chance::Chance;
use atonce_protocol::frame::{RequestHeader, encode_any_request};
use atonce_protocol::messages::metadata_request::MetadataRequest;
use atonce_protocol::{AnyRequest, ApiKey, Reader};
use bytes::Bytes;

mod corpus;
mod raw_client;
use corpus::{corpus, neighbour, neighbours, seed};
use raw_client::{RawClient, broker};

/// Requests made from each one of the corpus.
const NEIGHBOURS: u64 = 8;

/// How long an answer is waited for. Some wait for what will never come; they are hung up on.
const PATIENCE: Duration = Duration::from_millis(20);

/// Of any thread.
static PANICS: AtomicUsize = AtomicUsize::new(0);

#[tokio::test(flavor = "multi_thread")]
async fn whatever_can_be_read_of_the_corpus_leaves_a_broker_serving() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        PANICS.fetch_add(1, Ordering::SeqCst);
        before(panic);
    }));
    let broker = broker().await;
    let mut bystander = RawClient::of(&broker);
    bystander.create_topic("t", 2).await;
    let mut asked = 0;
    for (number, input) in (1..).zip(corpus("messages").into_iter().chain(almost_nothing())) {
        let mut chance = Chance::from_seed(seed().wrapping_add(number));
        let neighbours = (0..neighbours(NEIGHBOURS)).map(|_| neighbour(&input, &mut chance));
        let requests: Vec<Bytes> =
            std::iter::once(input.clone()).chain(neighbours).filter_map(|it| request(&it)).collect();
        for request in requests {
            asked += 1;
            let mut client = RawClient::of(&broker);
            client.send_bytes(&request).await;
            let _ = tokio::time::timeout(PATIENCE, client.receive_frame()).await;
            assert_eq!(PANICS.load(Ordering::SeqCst), 0, "over {request:?}");
        }
        let request = MetadataRequest { topics: Some(Vec::new()), ..Default::default() };
        let served = tokio::time::timeout(Duration::from_secs(60), bystander.call(9, &request)).await;
        assert_eq!(served.expect("others are served").brokers.len(), 1, "after {input:?}");
    }
    assert!(asked > 300, "{asked} requests");
}

/// A request of each API in its first version and its last, all of whose fields are nothing, or the least there is.
fn almost_nothing() -> Vec<Vec<u8>> {
    let versions = (0..=u8::MAX).filter_map(|api| {
        let versions = ApiKey::from_i16(i16::from(api))?.versions();
        let [first, last] = [*versions.start(), *versions.end()].map(|version| u8::try_from(version).ok());
        Some([(api, first?), (api, last?)])
    });
    let of = |(api, version), byte| [&[api, version, 0][..], &[byte; 64]].concat();
    versions.flatten().flat_map(|it| [of(it, 0), of(it, 1)]).collect()
}

/// The frame of what `messages` reads as a request, if it does.
fn request(input: &[u8]) -> Option<Bytes> {
    let (&[api, version, kind], body) = input.split_first_chunk::<3>()?;
    let (key, version) = (ApiKey::from_i16(i16::from(api))?, i16::from(version));
    if kind % 4 != 0 || !key.versions().contains(&version) {
        return None;
    }
    let message = AnyRequest::decode(key, &mut Reader::new(Bytes::copy_from_slice(body)), version).ok()?;
    let frame = encode_any_request(&RequestHeader::new(key, version, 1, Some("fuzz")), &message).ok()?;
    Some(frame.freeze())
}
