//! Time as a value. Nothing here reads a clock: the I/O crates do, and hand the result in.

use std::fmt;
use std::ops::{Add, Sub};
use std::time::Duration;

/// Wall-clock time in milliseconds since 1970, as Kafka writes it. `-1` on the wire means "none".
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// No time.
    pub const NONE: Self = Self(-1);

    /// This time, `ms` later. Saturates: a deadline beyond the end of time is never due.
    #[must_use]
    pub fn plus_ms(self, ms: i64) -> Self {
        Self(self.0.saturating_add(ms))
    }

    /// Milliseconds from `earlier` to here; negative if it was later.
    #[must_use]
    pub fn ms_since(self, earlier: Self) -> i64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// Time that never goes back, in microseconds since a start that the caller chose. For time-outs and
/// back-off inside machines: a wall clock that is set must not expire anything.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Monotonic(u64);

impl Monotonic {
    /// The start.
    pub const START: Self = Self(0);

    /// The point `since_start` after the start.
    #[must_use]
    pub fn at(since_start: Duration) -> Self {
        Self(u64::try_from(since_start.as_micros()).unwrap_or(u64::MAX))
    }

    /// Time since the start.
    #[must_use]
    pub fn since_start(self) -> Duration {
        Duration::from_micros(self.0)
    }

    /// Time from `earlier` to here, zero if it was later.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Monotonic {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)))
    }
}

impl Sub for Monotonic {
    type Output = Duration;

    fn sub(self, earlier: Self) -> Duration {
        self.since(earlier)
    }
}

impl fmt::Debug for Monotonic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.since_start())
    }
}
