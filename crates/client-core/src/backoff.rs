//! How long to wait before something is tried again (KIP-580).
//!
//! **What it does not know**: what is tried, and whether it is worth it. Chance comes in as a salt, so that machines replay.

use std::time::Duration;

use atonce_kernel::chance::Chance;

/// Doubled with each failure, up to a maximum; a fifth more or less, so that those who failed together do not come back
/// together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    initial: Duration,
    max: Duration,
    jitter_percent: u32,
}

impl Backoff {
    /// From `initial` up to `max` (`retry.backoff.ms`, `retry.backoff.max.ms`).
    #[must_use]
    pub fn new(initial: Duration, max: Duration) -> Self {
        Self { initial, max: max.max(initial), jitter_percent: 20 }
    }

    /// Always the same.
    #[must_use]
    pub fn constant(duration: Duration) -> Self {
        Self { initial: duration, max: duration, jitter_percent: 0 }
    }

    /// The first one, without jitter: for what is not a failure of its own.
    #[must_use]
    pub fn initial(self) -> Duration {
        self.initial
    }

    /// How long to wait after so many failures in succession, counted from 1.
    #[must_use]
    pub fn after(self, failures: u32, salt: u64) -> Duration {
        // Beyond 30 doublings any maximum is reached.
        let doublings = failures.saturating_sub(1).min(30);
        let wait = self.initial.saturating_mul(1 << doublings).min(self.max);
        if self.jitter_percent == 0 {
            return wait;
        }
        let mut chance = Chance::from_seed(salt);
        let spread = 2 * u64::from(self.jitter_percent) + 1;
        let percent = u32::try_from(chance.below(spread)).unwrap_or(0) + 100 - self.jitter_percent;
        wait.saturating_mul(percent) / 100
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_doubles_up_to_its_maximum_and_is_spread_by_a_fifth() {
        let backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(1));
        for (failures, middle) in [(0, 100), (1, 100), (2, 200), (3, 400), (4, 800), (5, 1000), (u32::MAX, 1000)] {
            let waits: Vec<u128> = (0..200).map(|salt| backoff.after(failures, salt).as_millis()).collect();
            let (least, most) = (waits.iter().min().unwrap(), waits.iter().max().unwrap());
            assert!(*least >= middle * 8 / 10 && *most <= middle * 12 / 10, "{failures}: {least} to {most}");
            assert!(most - least > middle / 4, "{failures}: {least} to {most}");
        }
    }

    #[test]
    fn a_constant_one_is_constant() {
        let backoff = Backoff::constant(Duration::from_millis(20));
        assert!((0..50).all(|failures| backoff.after(failures, u64::from(failures)) == Duration::from_millis(20)));
    }
}
