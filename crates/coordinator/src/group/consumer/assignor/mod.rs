//! The assignors that run in the coordinator: from what members read and have to what they shall have.
//!
//! **What they do not know**: epochs, who has given up what, racks.
//!
//! Invariants: each partition of a topic that somebody reads has one owner, who reads the topic; the same input, the same result.

mod balancer;
mod range;
mod uniform;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use atonce_kernel::{GroupInstanceId, MemberId, TopicId};

use super::Partitions;
use super::topics::TopicsImage;

/// An assignor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Assignor {
    /// All members get the same number of partitions, as nearly as can be, and keep what they have.
    Uniform,
    /// Each topic is cut into as many ranges as it has readers: the same ranges of topics that belong together go to the same member.
    Range,
}

impl Assignor {
    /// The assignor of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "uniform" => Some(Self::Uniform),
            "range" => Some(Self::Range),
            _ => None,
        }
    }

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Uniform => "uniform",
            Self::Range => "range",
        }
    }

    /// Divides the partitions of all topics that are read.
    #[must_use]
    pub fn assign(self, group: &Group, topics: &TopicsImage) -> BTreeMap<MemberId, Partitions> {
        match self {
            Self::Uniform => uniform::assign(group, topics),
            Self::Range => range::assign(group, topics),
        }
    }
}

impl fmt::Display for Assignor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The members of a group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Group {
    /// Each with what it reads and has.
    pub members: BTreeMap<MemberId, Reader>,
}

/// A member, as an assignor sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reader {
    /// A static member's own name.
    pub instance: Option<GroupInstanceId>,
    /// The topics that it reads, all of them there.
    pub topics: BTreeSet<TopicId>,
    /// What the target assignment gave it so far.
    pub target: Partitions,
}

impl Group {
    /// Whether all read the same.
    fn is_homogeneous(&self) -> bool {
        let mut topics = self.members.values().map(|member| &member.topics);
        let first = topics.next();
        topics.all(|other| Some(other) == first)
    }

    /// All topics that are read.
    fn topics(&self) -> BTreeSet<TopicId> {
        self.members.values().flat_map(|member| member.topics.iter().copied()).collect()
    }
}

#[cfg(test)]
mod tests;
