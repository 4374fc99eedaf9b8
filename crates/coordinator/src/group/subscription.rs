//! What consumers of a group read, as far as their subscriptions tell.
//!
//! Layout of a subscription's beginning, the same in all versions: `version i16 | count i32 | count × (length i16 | name) |
//! length i32 | user data`, big-endian; a length of −1 is no user data. The bytes come from clients; nothing is taken on trust.

use std::collections::BTreeSet;

use atonce_kernel::TopicName;
use bytes::Bytes;

/// The topics that a group's members read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Subscribed {
    /// These.
    To(BTreeSet<TopicName>),
    /// Consumers, but nobody knows yet what they read, or what they said cannot be read: it may be any topic.
    Unknown,
    /// Not consumers. What they do is theirs; topics are not what they subscribe to.
    Nothing,
}

impl Subscribed {
    pub(super) fn contains(&self, topic: &TopicName) -> bool {
        match self {
            Self::To(topics) => topics.contains(topic),
            Self::Unknown => true,
            Self::Nothing => false,
        }
    }
}

/// The topics of all these subscriptions, or `None` if one makes no sense.
pub(super) fn topics_of(subscriptions: impl IntoIterator<Item = Bytes>) -> Option<BTreeSet<TopicName>> {
    let mut all = BTreeSet::new();
    for subscription in subscriptions {
        all.extend(topics(subscription)?);
    }
    Some(all)
}

/// The topics of one subscription, or `None` if it makes no sense.
fn topics(subscription: Bytes) -> Option<Vec<TopicName>> {
    let mut rest: &[u8] = &subscription;
    let version = i16::from_be_bytes(take(&mut rest)?);
    let count = i32::from_be_bytes(take(&mut rest)?);
    if version < 0 || count < 0 {
        return None;
    }
    // No room is made for `count` names before they are seen.
    let mut names = Vec::new();
    for _ in 0..count {
        let length = usize::try_from(i16::from_be_bytes(take(&mut rest)?)).ok()?;
        let (name, after) = rest.split_at_checked(length)?;
        names.push(TopicName::from(std::str::from_utf8(name).ok()?));
        rest = after;
    }
    let user_data = i32::from_be_bytes(take(&mut rest)?);
    let is_whole = user_data == -1 || usize::try_from(user_data).is_ok_and(|length| length <= rest.len());
    is_whole.then_some(names)
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (head, after) = rest.split_first_chunk::<N>()?;
    *rest = after;
    Some(*head)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topics_are_read_from_the_part_that_all_versions_share() {
        let bytes = Bytes::from_static(b"\0\x03\0\0\0\x02\0\x02in\0\x03out\xff\xff\xff\xffanything");
        assert_eq!(topics(bytes), Some(vec![TopicName::from("in"), TopicName::from("out")]));
    }

    #[test]
    fn bytes_that_make_no_sense_are_none_and_size_nothing() {
        for bytes in [
            &b""[..],
            b"\0",
            b"\0\0\x7f\xff\xff\xff",
            b"\0\0\xff\xff\xff\xff",
            b"\xff\xff\0\0\0\0",
            b"\0\0\0\0\0\x01\0\x05in",
            b"\0\0\0\0\0\x01\xff\xff",
            b"\0\0\0\0\0\x01\0\x01\xff\xff\xff\xff\xff",
            b"\0\0\0\0\0\x01\0\x01x",
            b"\0\0\0\0\0\x01\0\x01x\0\0\0\x03ab",
            b"\0\0\0\0\0\x01\0\x01x\xff\xff\xff\xfe",
        ] {
            assert_eq!(topics(Bytes::from_static(bytes)), None, "{bytes:?}");
        }
        assert_eq!(topics(Bytes::from_static(b"\0\0\0\0\0\0\0\0\0\0")), Some(vec![]));
        assert_eq!(topics(Bytes::from_static(b"\0\0\0\0\0\0\0\0\0\x02ab")), Some(vec![]));
    }
}
