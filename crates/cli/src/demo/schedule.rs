//! When to strike: the moments of the kills, drawn from a seed. Pure: it says what to do next, and others do it.

use std::time::Duration;

use atonce_kernel::chance::Chance;

/// What happens to the worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Strike {
    /// SIGKILL, then a start.
    Kill,
    /// SIGSTOP, a second worker takes over, SIGCONT.
    Zombie,
}

/// From when the wait before a strike is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Since {
    /// The worker's start: the strike may fall while it joins, settles or restores.
    Start,
    /// The worker's first commit: the strike falls while it works, most of the time inside a transaction.
    FirstCommit,
}

/// The next strike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    pub strike: Strike,
    pub since: Since,
    pub wait: Duration,
}

/// Strikes until all that were ordered have counted.
#[derive(Clone, Debug)]
pub(crate) struct Schedule {
    chance: Chance,
    ordered: u32,
    counted: u32,
    zombie_at: Option<u32>,
    wait_ms_max: u64,
}

impl Schedule {
    /// `kills` strikes, of which the middle one is a zombie if there are at least two. Waits are drawn evenly from
    /// `0..=wait_ms_max`.
    pub(crate) fn new(seed: u64, kills: u32, wait_ms_max: u64) -> Self {
        let zombie_at = (kills >= 2).then_some(kills / 2);
        Self { chance: Chance::from_seed(seed), ordered: kills, counted: 0, zombie_at, wait_ms_max }
    }

    /// The next strike, or `None` if all have counted.
    pub(crate) fn plan(&mut self) -> Option<Plan> {
        if self.is_done() {
            return None;
        }
        let strike = if self.zombie_at == Some(self.counted) { Strike::Zombie } else { Strike::Kill };
        // One in six falls anywhere after the start, so that recovery is interrupted too. Never twice as often:
        // a worker that is always killed before it commits gets nowhere.
        let early = self.chance.one_in(1, 6) && strike == Strike::Kill;
        let wait = Duration::from_millis(self.chance.below(self.wait_ms_max + 1));
        Some(Plan { strike, since: if early { Since::Start } else { Since::FirstCommit }, wait })
    }

    /// The last strike found work undone, so it counts.
    pub(crate) fn count(&mut self) {
        self.counted += 1;
    }

    /// Strikes that have counted.
    pub(crate) fn counted(&self) -> u32 {
        self.counted
    }

    /// Whether all have counted.
    pub(crate) fn is_done(&self) -> bool {
        self.counted >= self.ordered
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_ordered_strike_comes_and_the_middle_one_is_the_zombie() {
        let mut schedule = Schedule::new(3, 10, 500);
        let mut strikes = Vec::new();
        while let Some(plan) = schedule.plan() {
            assert!(plan.wait <= Duration::from_millis(500));
            strikes.push(plan.strike);
            schedule.count();
        }
        assert_eq!(strikes.len(), 10);
        assert_eq!(strikes.iter().position(|s| *s == Strike::Zombie), Some(5));
        assert_eq!(strikes.iter().filter(|s| **s == Strike::Zombie).count(), 1);
    }

    #[test]
    fn a_strike_that_does_not_count_is_planned_again() {
        let mut schedule = Schedule::new(3, 1, 500);
        assert!(schedule.plan().is_some());
        assert!(schedule.plan().is_some(), "the first did not count");
        schedule.count();
        assert_eq!(schedule.plan(), None);
        assert_eq!(schedule.counted(), 1);
    }

    #[test]
    fn one_seed_gives_one_schedule() {
        let plans = |seed| {
            let mut schedule = Schedule::new(seed, 20, 500);
            std::iter::from_fn(move || {
                let plan = schedule.plan()?;
                schedule.count();
                Some(plan)
            })
            .collect::<Vec<_>>()
        };
        assert_eq!(plans(1), plans(1));
        assert_ne!(plans(1), plans(2));
        assert!(plans(1).iter().any(|plan| plan.since == Since::Start));
    }

    #[test]
    fn no_kills_no_schedule() {
        assert_eq!(Schedule::new(1, 0, 500).plan(), None);
    }
}
