//! The broker's topics, as far as groups need them: names, ids, partition counts. The host hands a new picture in when topics change.
//!
//! **What it does not know**: racks (one node has none), who may read what.

use std::collections::{BTreeMap, BTreeSet};

use atonce_kernel::{TopicId, TopicName};
use twox_hash::XxHash3_64;

/// All topics, at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct TopicsImage {
    version: i64,
    by_name: BTreeMap<TopicName, TopicShape>,
    by_id: BTreeMap<TopicId, TopicName>,
}

/// What an assignor needs to know of a topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TopicShape {
    /// Its id.
    pub id: TopicId,
    /// How many partitions it has.
    pub partitions: i32,
}

impl TopicsImage {
    /// The picture of `topics`. Another `version` says that something may be different.
    pub fn new(version: i64, topics: impl IntoIterator<Item = (TopicName, TopicShape)>) -> Self {
        let by_name: BTreeMap<_, _> = topics.into_iter().collect();
        let by_id = by_name.iter().map(|(name, shape)| (shape.id, name.clone())).collect();
        Self { version, by_name, by_id }
    }

    /// Which picture this is.
    #[must_use]
    pub fn version(&self) -> i64 {
        self.version
    }

    /// The topic of that name.
    #[must_use]
    pub fn by_name(&self, name: &str) -> Option<TopicShape> {
        self.by_name.get(name).copied()
    }

    /// The name of the topic with that id.
    #[must_use]
    pub fn name_of(&self, id: TopicId) -> Option<&TopicName> {
        self.by_id.get(&id)
    }

    /// How many partitions the topic with that id has; none if there is no such topic.
    #[must_use]
    pub fn partitions_of(&self, id: TopicId) -> i32 {
        let shape = self.by_id.get(&id).and_then(|name| self.by_name.get(name));
        shape.map_or(0, |shape| shape.partitions)
    }

    /// All names.
    pub fn names(&self) -> impl Iterator<Item = &TopicName> {
        self.by_name.keys()
    }

    /// Those of `names` that exist, by id.
    #[must_use]
    pub fn ids_of<'a>(&self, names: impl IntoIterator<Item = &'a TopicName>) -> BTreeSet<TopicId> {
        names.into_iter().filter_map(|name| self.by_name.get(name)).map(|shape| shape.id).collect()
    }

    /// What Kafka hashes `names` to: another number means that the group needs another assignment. Topics that are not there do not
    /// count. Source: KIP-1101.
    #[must_use]
    pub fn metadata_hash<'a>(&self, names: impl IntoIterator<Item = &'a TopicName>) -> i64 {
        let names: BTreeSet<&TopicName> = names.into_iter().collect();
        let mut bytes = Vec::new();
        for (name, shape) in names.into_iter().filter_map(|name| Some((name, self.by_name.get(name)?))) {
            bytes.extend(topic_hash(name, *shape).to_le_bytes());
        }
        if bytes.is_empty() { 0 } else { XxHash3_64::oneshot(&bytes).cast_signed() }
    }
}

/// Layout, little-endian: `0 i8 | upper and lower half of the id i64 | UTF-16 units of the name | their count i32 | partitions i32 |
/// index of each partition i32` (each followed by its racks, where brokers have racks).
fn topic_hash(name: &TopicName, shape: TopicShape) -> u64 {
    let (upper, lower) = shape.id.0.split_at(8);
    let mut bytes = vec![0];
    bytes.extend(upper.iter().rev());
    bytes.extend(lower.iter().rev());
    bytes.extend(name.as_str().encode_utf16().flat_map(u16::to_le_bytes));
    let units = name.as_str().encode_utf16().count();
    bytes.extend(i32::try_from(units).unwrap_or(i32::MAX).to_le_bytes());
    bytes.extend(shape.partitions.to_le_bytes());
    bytes.extend((0..shape.partitions).flat_map(i32::to_le_bytes));
    XxHash3_64::oneshot(&bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `lPzwcd9ARm2bNKm8cPVDwA` and `rJuXOfT5Q4qUGjDH9UxqJA`, as a recorded cluster had them.
    const IN: TopicId = atonce_kernel::Uuid([
        0x94, 0xfc, 0xf0, 0x71, 0xdf, 0x40, 0x46, 0x6d, 0x9b, 0x34, 0xa9, 0xbc, 0x70, 0xf5, 0x43, 0xc0,
    ]);
    const OUT: TopicId = atonce_kernel::Uuid([
        0xac, 0x9b, 0x97, 0x39, 0xf4, 0xf9, 0x43, 0x8a, 0x94, 0x1a, 0x30, 0xc7, 0xf5, 0x4c, 0x6a, 0x24,
    ]);

    #[test]
    fn topics_hash_to_what_apache_kafka_recorded() {
        assert_eq!(
            (IN.to_string(), OUT.to_string()),
            ("lPzwcd9ARm2bNKm8cPVDwA".into(), "rJuXOfT5Q4qUGjDH9UxqJA".into())
        );
        let names = [TopicName::from("in"), TopicName::from("out"), TopicName::from("not there")];
        let image = TopicsImage::new(
            1,
            [
                (names[0].clone(), TopicShape { id: IN, partitions: 2 }),
                (names[1].clone(), TopicShape { id: OUT, partitions: 3 }),
            ],
        );
        assert_eq!(image.metadata_hash([&names[0]]), 7_661_274_691_761_755_443);
        assert_eq!(image.metadata_hash(&names), -3_225_003_705_043_527_089);
        assert_eq!(image.metadata_hash([&names[2]]), 0);
    }
}
