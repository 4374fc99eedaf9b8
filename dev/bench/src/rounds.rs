//! Runs contenders in turn, round by round, and tells how far it is.
//!
//! It does not know what a run is. Invariants: every contender runs once in a round; who begins changes with each round; the
//! first round, in which caches and compilers warm up, is not counted.

use std::io::{IsTerminal as _, Write as _};
use std::time::Instant;

use anyhow::{Context as _, Result};

use crate::figures::{Figure, Sample};
use crate::table::number;

/// As [`interleave_all`], of as many as are written down.
pub(crate) fn interleave<T, const N: usize>(
    sides: &mut [T; N],
    counted: usize,
    run: impl FnMut(&mut T, Round) -> Result<Sample>,
) -> Result<[Vec<Sample>; N]> {
    let mut samples = interleave_all(sides, counted, run)?.into_iter();
    Ok(std::array::from_fn(|_| samples.next().unwrap_or_default()))
}

/// Runs each of `sides` once in each of `counted` rounds, after one that is not counted. The samples stand in the order of `sides`.
pub(crate) fn interleave_all<T>(
    sides: &mut [T],
    counted: usize,
    run: impl FnMut(&mut T, Round) -> Result<Sample>,
) -> Result<Vec<Vec<Sample>>> {
    rounds(sides, 0, counted, run)
}

/// As [`interleave_all`], where nothing warms up: every round is counted.
pub(crate) fn in_turn<T>(
    sides: &mut [T],
    counted: usize,
    run: impl FnMut(&mut T, Round) -> Result<Sample>,
) -> Result<Vec<Vec<Sample>>> {
    rounds(sides, 1, counted, run)
}

fn rounds<T>(
    sides: &mut [T],
    first: usize,
    counted: usize,
    mut run: impl FnMut(&mut T, Round) -> Result<Sample>,
) -> Result<Vec<Vec<Sample>>> {
    let mut samples = vec![Vec::new(); sides.len()];
    for number in first..=counted {
        for turn in 0..sides.len() {
            let side = (turn + number) % sides.len();
            let sample = run(&mut sides[side], Round { number, of: counted })?;
            if number > 0 {
                samples[side].push(sample);
            }
        }
    }
    Ok(samples)
}

/// Which round it is; 0 is the one that is not counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Round {
    pub number: usize,
    pub of: usize,
}

/// Says on stderr what is being done, so that a long run is seen to be alive. One line, written over, where a person looks.
#[derive(Debug)]
pub(crate) struct Progress {
    start: Instant,
    /// What a run of all that was asked for takes, about.
    expected_seconds: u64,
    rewrites: bool,
}

impl Progress {
    pub(crate) fn new(expected_seconds: u64) -> Self {
        Self { start: Instant::now(), expected_seconds, rewrites: std::io::stderr().is_terminal() }
    }

    /// A run begins.
    pub(crate) fn say(&self, what: &str) {
        let (elapsed, expected) = (self.start.elapsed().as_secs(), self.expected_seconds);
        let line = format!("[{elapsed} s of about {expected}] {what}");
        // Progress that nobody can see must not end a measurement.
        let _ = if self.rewrites {
            write!(std::io::stderr(), "\r\x1b[2K{line}")
        } else {
            writeln!(std::io::stderr(), "{line}")
        };
    }

    /// A run of one side in one round, told before and after.
    pub(crate) fn run(
        &self,
        what: &str,
        side: &str,
        round: Round,
        run: impl FnOnce() -> Result<Sample>,
    ) -> Result<Sample> {
        let place = match round.number {
            0 => "warming up".to_owned(),
            number => format!("round {number} of {}", round.of),
        };
        self.say(&format!("{what} · {place} · {side}"));
        let sample = run().with_context(|| format!("{what}, {side}"))?;
        if let Some(value) = sample.get(Figure::Main) {
            self.say(&format!("{what} · {place} · {side}: {}", number(value)));
        }
        Ok(sample)
    }

    pub(crate) fn end(&self) {
        if self.rewrites {
            let _ = writeln!(std::io::stderr());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_begins_changes_and_the_first_round_is_not_counted() {
        let mut order = Vec::new();
        let mut sides = ["ours", "theirs"];
        let samples = interleave(&mut sides, 3, |side, round| {
            order.push((*side, round.number));
            Ok(Sample::of(round.number as f64 + if *side == "ours" { 10.0 } else { 0.0 }))
        })
        .unwrap();
        let expected = [
            ("ours", 0),
            ("theirs", 0),
            ("theirs", 1),
            ("ours", 1),
            ("ours", 2),
            ("theirs", 2),
            ("theirs", 3),
            ("ours", 3),
        ];
        assert_eq!(order, expected);
        let values = samples.map(|of| of.iter().map(|sample| sample.get(Figure::Main).unwrap()).collect::<Vec<_>>());
        assert_eq!(values, [vec![11.0, 12.0, 13.0], vec![1.0, 2.0, 3.0]]);
    }

    #[test]
    fn a_run_that_fails_ends_it() {
        let mut runs = 0;
        let result = interleave(&mut [(), ()], 3, |(), _| {
            runs += 1;
            anyhow::ensure!(runs < 3, "broken");
            Ok(Sample::of(1.0))
        });
        assert_eq!(result.unwrap_err().to_string(), "broken");
        assert_eq!(runs, 3);
    }
}
