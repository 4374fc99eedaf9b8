//! Names of things, each its own type, so that two of them cannot change places in a call.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

/// Makes a cheap-to-clone text newtype. The text is shared, so a clone costs one counter.
macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// The text as it stands on the wire.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self(Arc::from(text))
            }
        }

        impl From<String> for $name {
            fn from(text: String) -> Self {
                Self(Arc::from(text))
            }
        }

        impl From<&String> for $name {
            fn from(text: &String) -> Self {
                Self(Arc::from(text.as_str()))
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> Self {
                id.0.as_ref().to_owned()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.0, f)
            }
        }
    };
}

text_id! {
    /// A topic's name. A topic deleted and made again keeps the name and gets another [`TopicId`].
    TopicName
}
text_id! {
    /// The stable name of a transactional producer; it outlives every instance that uses it.
    TransactionalId
}
text_id! {
    /// A consumer group's name.
    GroupId
}
text_id! {
    /// A member of a group, as its coordinator named it (or as it named itself, KIP-848).
    MemberId
}
text_id! {
    /// A static member's own name (KIP-345): it survives a restart, so no rebalance is needed.
    GroupInstanceId
}

/// A partition, by the name of its topic. Ordered by topic, then by index.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicPartition {
    /// The topic.
    pub topic: TopicName,
    /// The index in the topic, from 0.
    pub partition: i32,
}

impl TopicPartition {
    /// The partition `partition` of `topic`.
    pub fn new(topic: impl Into<TopicName>, partition: i32) -> Self {
        Self { topic: topic.into(), partition }
    }
}

impl fmt::Display for TopicPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.topic, self.partition)
    }
}

impl fmt::Debug for TopicPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.topic, self.partition)
    }
}

/// A 128-bit id, big-endian, as Kafka sends it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Uuid(pub [u8; 16]);

impl Uuid {
    /// All zero: "no id".
    pub const ZERO: Self = Self([0; 16]);

    /// Whether this is "no id".
    #[must_use]
    pub fn is_zero(&self) -> bool {
        *self == Self::ZERO
    }
}

/// Kafka prints ids in URL-safe base 64 without padding (`Uuid#toString`); so do we.
impl fmt::Display for Uuid {
    #[expect(clippy::indexing_slicing, reason = "six bits index 64 characters")]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
        let mut bits = u128::from_be_bytes(self.0);
        // 22 characters: 21 of six bits and a last one of two, which stand at its upper end.
        let mut text = [0_u8; 22];
        text[21] = ALPHABET[((bits & 0b11) << 4) as usize];
        bits >>= 2;
        for place in text[..21].iter_mut().rev() {
            *place = ALPHABET[(bits & 0b11_1111) as usize];
            bits >>= 6;
        }
        f.write_str(std::str::from_utf8(&text).expect("the alphabet is ASCII"))
    }
}

impl fmt::Debug for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A topic's id: never used twice, whatever the name.
pub type TopicId = Uuid;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuid_prints_as_kafka_does() {
        assert_eq!(Uuid::ZERO.to_string(), "AAAAAAAAAAAAAAAAAAAAAA");
        assert_eq!(Uuid([0xff; 16]).to_string(), "_____________________w");
        assert_eq!(Uuid([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]).to_string(), "AAAAAAAAAAAAAAAAAAAAAQ");
    }

    #[test]
    fn partitions_sort_by_topic_then_index() {
        let mut partitions =
            vec![TopicPartition::new("b", 0), TopicPartition::new("a", 10), TopicPartition::new("a", 2)];
        partitions.sort();
        assert_eq!(format!("{partitions:?}"), "[a-2, a-10, b-0]");
    }
}
