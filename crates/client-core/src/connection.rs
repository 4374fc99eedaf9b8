//! One connection: correlation ids, the versions that both sides know, and who waits for which answer until when.
//!
//! **What it does not know**: bytes on a socket, who asks. A broker answers in the order it was asked, so an answer that
//! is not the oldest one's is a broken peer. An answer that is late breaks the connection too: what comes after it could
//! not be told apart from it otherwise.
//!
//! Invariants: correlation ids are not used twice while one is waited for; every request ends exactly once, by its
//! answer or in [`Connection::close`].

use std::collections::{BTreeMap, VecDeque};
use std::ops::RangeInclusive;

use atonce_kernel::Monotonic;
use atonce_protocol::messages::api_versions_response::ApiVersionsResponse;
use atonce_protocol::{ApiKey, DecodeError, Reader, frame};
use bytes::Bytes;

/// What the broker can do, from its answer to ApiVersions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Versions {
    ranges: BTreeMap<i16, (i16, i16)>,
    features: BTreeMap<String, i16>,
    features_epoch: i64,
}

impl Versions {
    /// Reads the broker's answer.
    #[must_use]
    pub fn from_response(response: &ApiVersionsResponse) -> Self {
        let ranges = response.api_keys.iter().map(|key| (key.api_key, (key.min_version, key.max_version))).collect();
        let features = response.finalized_features.iter().map(|it| (it.name.clone(), it.max_version_level)).collect();
        Self { ranges, features, features_epoch: response.finalized_features_epoch }
    }

    /// The highest version of `key` that both sides know within `range`, if there is one.
    #[must_use]
    pub fn choose(&self, key: ApiKey, range: RangeInclusive<i16>) -> Option<i16> {
        let (low, high) = *self.ranges.get(&key.to_i16())?;
        let ours = key.versions();
        let low = low.max(*ours.start()).max(*range.start());
        let high = high.min(*ours.end()).min(*range.end());
        (low <= high).then_some(high)
    }

    /// The versions of `key` that the broker has.
    #[must_use]
    pub fn range(&self, key: ApiKey) -> Option<(i16, i16)> {
        self.ranges.get(&key.to_i16()).copied()
    }

    /// A feature's finalized level; 0 if it is not finalized.
    #[must_use]
    pub fn feature(&self, name: &str) -> i16 {
        self.features.get(name).copied().unwrap_or(0)
    }

    /// All finalized features.
    #[must_use]
    pub fn features(&self) -> &BTreeMap<String, i16> {
        &self.features
    }

    /// How new the features are: a higher one replaces a lower one; -1 if not known.
    #[must_use]
    pub fn features_epoch(&self) -> i64 {
        self.features_epoch
    }
}

/// What the peer did that no broker does.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Violation {
    /// An answer to nothing, or out of order.
    #[error("the broker answered request {found}, and {expected:?} was next")]
    OutOfOrder {
        /// The oldest that waits.
        expected: Option<i32>,
        /// What was answered.
        found: i32,
    },
    /// An answer that cannot be read.
    #[error("an answer cannot be read: {0}")]
    Unreadable(#[from] DecodeError),
}

#[derive(Clone, Copy, Debug)]
struct Waiting<T> {
    correlation_id: i32,
    key: ApiKey,
    version: i16,
    deadline: Monotonic,
    who: T,
}

/// An answer, and whose it is.
#[derive(Debug)]
pub struct Answer<T> {
    /// Who asked.
    pub who: T,
    /// The version that was asked in, and is answered in.
    pub version: i16,
    /// The message.
    pub body: Bytes,
}

/// See the module. `T` stands for whoever asks.
#[derive(Debug)]
pub struct Connection<T> {
    next_correlation_id: i32,
    waiting: VecDeque<Waiting<T>>,
}

impl<T> Default for Connection<T> {
    fn default() -> Self {
        Self { next_correlation_id: 0, waiting: VecDeque::new() }
    }
}

impl<T> Connection<T> {
    /// How many requests wait for their answers.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.waiting.len()
    }

    /// A request is being sent; returns its correlation id.
    pub fn register(&mut self, key: ApiKey, version: i16, deadline: Monotonic, who: T) -> i32 {
        let correlation_id = self.next_correlation_id;
        self.next_correlation_id = correlation_id.checked_add(1).unwrap_or(0);
        self.waiting.push_back(Waiting { correlation_id, key, version, deadline, who });
        correlation_id
    }

    /// A frame came. The connection is of no use after an error.
    pub fn handle_frame(&mut self, bytes: Bytes) -> Result<Answer<T>, Violation> {
        let found = frame::correlation_id_of(&bytes)?;
        let expected = self.waiting.front().map(|waiting| waiting.correlation_id);
        if expected != Some(found) {
            return Err(Violation::OutOfOrder { expected, found });
        }
        let Some(oldest) = self.waiting.pop_front() else {
            return Err(Violation::OutOfOrder { expected, found });
        };
        let mut reader = Reader::new(bytes);
        match frame::decode_response_header(&mut reader, oldest.key, oldest.version) {
            Ok(_) => Ok(Answer { who: oldest.who, version: oldest.version, body: reader.rest() }),
            Err(error) => {
                // It is still owed an end: let `close` give it.
                self.waiting.push_front(oldest);
                Err(error.into())
            }
        }
    }

    /// When the first of those that wait has waited too long.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Monotonic> {
        self.waiting.iter().map(|waiting| waiting.deadline).min()
    }

    /// Ends: all that wait get no answer.
    pub fn close(&mut self) -> impl Iterator<Item = T> + '_ {
        self.waiting.drain(..).map(|waiting| waiting.who)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use atonce_protocol::messages::api_versions_response::ApiVersion;
    use atonce_protocol::messages::heartbeat_response::HeartbeatResponse;

    use super::*;

    fn at(ms: u64) -> Monotonic {
        Monotonic::at(Duration::from_millis(ms))
    }

    fn answer(correlation_id: i32) -> Bytes {
        let frame = frame::encode_response(ApiKey::Heartbeat, 4, correlation_id, &HeartbeatResponse::default());
        frame.unwrap().freeze().slice(4..)
    }

    #[test]
    fn answers_go_to_those_who_asked_in_order() {
        let mut connection = Connection::default();
        let first = connection.register(ApiKey::Heartbeat, 4, at(10), "first");
        let second = connection.register(ApiKey::Heartbeat, 4, at(5), "second");
        assert_eq!(connection.poll_timeout(), Some(at(5)));
        assert_eq!(connection.handle_frame(answer(first)).unwrap().who, "first");
        assert_eq!(connection.handle_frame(answer(second)).unwrap().who, "second");
        assert_eq!(connection.poll_timeout(), None);
    }

    #[test]
    fn an_answer_out_of_order_breaks_the_connection_and_all_are_told() {
        let mut connection = Connection::default();
        let first = connection.register(ApiKey::Heartbeat, 4, at(10), 1);
        connection.register(ApiKey::Heartbeat, 4, at(10), 2);
        let violation = connection.handle_frame(answer(first + 1)).unwrap_err();
        assert_eq!(violation, Violation::OutOfOrder { expected: Some(first), found: first + 1 });
        assert_eq!(connection.close().collect::<Vec<_>>(), [1, 2]);
        assert!(matches!(connection.handle_frame(answer(0)), Err(Violation::OutOfOrder { expected: None, found: 0 })));
    }

    #[test]
    fn a_frame_too_short_for_its_header_breaks_the_connection() {
        let mut connection = Connection::default();
        connection.register(ApiKey::Heartbeat, 4, at(10), ());
        assert!(matches!(connection.handle_frame(Bytes::from_static(b"ab")), Err(Violation::Unreadable(_))));
        // A flexible header lacks its tagged fields here.
        let id = Bytes::copy_from_slice(&0_i32.to_be_bytes());
        assert!(matches!(connection.handle_frame(id), Err(Violation::Unreadable(_))));
        assert_eq!(connection.close().count(), 1);
    }

    #[test]
    fn the_highest_common_version_is_chosen() {
        let key = |api_key: ApiKey, min_version, max_version| ApiVersion {
            api_key: api_key.to_i16(),
            min_version,
            max_version,
            ..ApiVersion::default()
        };
        let response = ApiVersionsResponse {
            api_keys: vec![key(ApiKey::Produce, 0, 99), key(ApiKey::Fetch, 30, 31)],
            ..ApiVersionsResponse::default()
        };
        let versions = Versions::from_response(&response);
        assert_eq!(versions.choose(ApiKey::Produce, 0..=i16::MAX), Some(13));
        assert_eq!(versions.choose(ApiKey::Produce, 0..=11), Some(11));
        assert_eq!(versions.choose(ApiKey::Fetch, 0..=i16::MAX), None);
        assert_eq!(versions.choose(ApiKey::Metadata, 0..=i16::MAX), None);
        assert_eq!((versions.range(ApiKey::Fetch), versions.range(ApiKey::Metadata)), (Some((30, 31)), None));
        assert_eq!(versions.feature("transaction.version"), 0);
    }
}
