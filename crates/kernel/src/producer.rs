//! Who writes: producer ids, epochs, sequences, and how a transaction ended.

use std::fmt;

/// A producer's id, handed out once and never again. `-1` on the wire means "none".
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProducerId(pub i64);

impl ProducerId {
    /// No producer: the batch is not idempotent.
    pub const NONE: Self = Self(-1);

    /// Whether this names a producer.
    #[must_use]
    pub fn is_some(self) -> bool {
        self.0 >= 0
    }
}

/// A producer's incarnation. It only rises; an older one is fenced.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProducerEpoch(pub i16);

impl ProducerEpoch {
    /// No epoch.
    pub const NONE: Self = Self(-1);
    /// The first one of a new producer id.
    pub const FIRST: Self = Self(0);
    /// The last one ever handed out to a producer. `i16::MAX` itself is kept for fencing: a
    /// transaction of an exhausted producer is ended under it (KIP-360, KIP-890).
    pub const LAST_USABLE: Self = Self(i16::MAX - 1);

    /// The epoch after this one.
    ///
    /// Panics: at `i16::MAX`, which no caller may raise.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0.checked_add(1).expect("an epoch at its end is rotated, not raised"))
    }

    /// Whether the next end of a transaction, or the next initialisation, needs a new producer id.
    #[must_use]
    pub fn is_exhausted(self) -> bool {
        self >= Self::LAST_USABLE
    }
}

/// A producer id and its epoch: what stands in every idempotent batch.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProducerIdentity {
    /// The id.
    pub id: ProducerId,
    /// The incarnation.
    pub epoch: ProducerEpoch,
}

impl ProducerIdentity {
    /// Nobody.
    pub const NONE: Self = Self { id: ProducerId::NONE, epoch: ProducerEpoch::NONE };

    /// From the two numbers of the wire.
    #[must_use]
    pub fn new(id: i64, epoch: i16) -> Self {
        Self { id: ProducerId(id), epoch: ProducerEpoch(epoch) }
    }
}

/// A record's number within (producer, epoch, partition). It wraps from `i32::MAX` to 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sequence(pub i32);

impl Sequence {
    /// No sequence: control batches and batches that are not idempotent.
    pub const NONE: Self = Self(-1);
    /// Where each new epoch begins.
    pub const FIRST: Self = Self(0);

    /// The sequence `count` records later; 0 follows `i32::MAX`.
    #[must_use]
    pub fn plus(self, count: i32) -> Self {
        let sum = i64::from(self.0) + i64::from(count);
        let span = i64::from(i32::MAX) + 1;
        Self(i32::try_from(sum.rem_euclid(span)).expect("a remainder of 2^31 fits"))
    }

    /// The one that must follow.
    #[must_use]
    pub fn next(self) -> Self {
        self.plus(1)
    }
}

/// How a transaction ends.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Outcome {
    /// All of it is visible.
    Commit,
    /// None of it ever is.
    Abort,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Commit => "commit",
            Self::Abort => "abort",
        })
    }
}

macro_rules! show_number {
    ($($name:ident),+) => {$(
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }
    )+};
}

show_number!(ProducerId, ProducerEpoch, Sequence);

impl fmt::Display for ProducerIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.id, self.epoch)
    }
}

impl fmt::Debug for ProducerIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequence_wraps_to_zero() {
        assert_eq!(Sequence(i32::MAX).next(), Sequence(0));
        assert_eq!(Sequence(i32::MAX - 1).plus(3), Sequence(1));
        assert_eq!(Sequence(5).plus(0), Sequence(5));
        assert_eq!(Sequence::NONE.next(), Sequence::FIRST);
    }

    #[test]
    fn epoch_is_exhausted_one_before_the_fencing_epoch() {
        assert!(!ProducerEpoch(32_765).is_exhausted());
        assert!(ProducerEpoch(32_766).is_exhausted());
        assert!(ProducerEpoch(32_767).is_exhausted());
        assert_eq!(ProducerEpoch(32_766).next(), ProducerEpoch(32_767));
    }
}
