//! Crashes between any two steps of the commits of a small application, in each guarantee: every single one, and every pair.

#[expect(dead_code, reason = "the suite itself runs elsewhere")]
mod behaviour;

use std::collections::BTreeMap;

use atonce_streams_core::{Guarantee, TestDriver};
use behaviour::{counts, word_count};

/// What came out, against how often each word went in.
#[derive(Default, Debug, PartialEq, Eq)]
struct Verdict {
    lost: i64,
    repeated: i64,
}

fn judge(driver: &TestDriver, input: &BTreeMap<&str, i64>) -> Verdict {
    let mut verdict = Verdict::default();
    let counts = counts(driver);
    for (word, n) in input {
        let found = counts.get(*word).cloned().unwrap_or_default();
        let last = found.iter().copied().max().unwrap_or(0);
        verdict.lost += (n - last).max(0) + (1..=last.min(*n)).filter(|count| !found.contains(count)).count() as i64;
        verdict.repeated += (last - n).max(0);
        verdict.repeated += found.windows(2).filter(|pair| pair[1] <= pair[0]).count() as i64;
    }
    verdict
}

#[derive(Clone, Copy, Debug)]
enum Loss {
    Nothing,
    Answer,
    Request,
}

/// Runs the little application with crashes at the given steps; says what came of it, and whether every crash struck.
fn run(guarantee: Guarantee, crashes: [Option<u64>; 2], loss: Loss) -> (Verdict, bool) {
    let mut driver = TestDriver::builder(&word_count()).partitions(2).guarantee(guarantee).start();
    driver.input("lines").send("k", "a b a").send("l", "c a");
    driver.commit();
    let mut all_struck = true;
    for crash in crashes {
        match loss {
            Loss::Nothing => {}
            Loss::Answer => driver.lose_the_answer_of_commit(),
            Loss::Request => driver.lose_the_request_of_commit(),
        }
        if let Some(steps) = crash {
            driver.crash_after(steps);
        }
        driver.input("lines").send("k", "b a");
        driver.input("lines").send("l", "c c");
        driver.commit();
        all_struck &= !driver.is_crash_pending();
    }
    // Whatever is still to come comes now, and then the world is at rest.
    driver.input("lines").send("k", "a");
    driver.commit();
    let input = BTreeMap::from([("a", 6), ("b", 3), ("c", 5)]);
    (judge(&driver, &input), all_struck)
}

/// Every schedule of one crash and of two, until the crash no longer strikes.
fn explore(guarantee: Guarantee, mut check: impl FnMut(&Verdict, &str)) -> u32 {
    let mut schedules = 0;
    for loss in [Loss::Nothing, Loss::Answer, Loss::Request] {
        if guarantee != Guarantee::ExactlyOnce && !matches!(loss, Loss::Nothing) {
            continue;
        }
        for first in 0.. {
            let (verdict, struck) = run(guarantee, [Some(first), None], loss);
            check(&verdict, &format!("{guarantee}, {loss:?} lost, crash at {first}"));
            schedules += 1;
            for second in 0.. {
                let (verdict, both_struck) = run(guarantee, [Some(first), Some(second)], loss);
                check(&verdict, &format!("{guarantee}, {loss:?} lost, crashes at {first} and {second}"));
                schedules += 1;
                if !both_struck {
                    break;
                }
            }
            if !struck {
                break;
            }
        }
    }
    schedules
}

#[test]
fn exactly_once_loses_nothing_and_repeats_nothing_wherever_it_crashes() {
    let schedules = explore(Guarantee::ExactlyOnce, |verdict, schedule| {
        assert_eq!(*verdict, Verdict::default(), "{schedule}");
    });
    assert!(schedules > 500, "only {schedules} schedules were walked");
}

#[test]
fn at_least_once_loses_nothing_and_shows_repetition() {
    let mut repeated = 0;
    explore(Guarantee::AtLeastOnce, |verdict, schedule| {
        assert_eq!(verdict.lost, 0, "{schedule}");
        repeated += verdict.repeated;
    });
    assert!(
        repeated > 0,
        "a guarantee that never repeats would be exactly once for free: the exploration misses something"
    );
}

#[test]
fn at_most_once_repeats_nothing_and_shows_loss() {
    let mut lost = 0;
    explore(Guarantee::AtMostOnce, |verdict, schedule| {
        assert_eq!(verdict.repeated, 0, "{schedule}");
        lost += verdict.lost;
    });
    assert!(lost > 0, "a guarantee that never loses would be exactly once for free: the exploration misses something");
}

#[test]
fn without_crashes_all_three_are_exact() {
    for guarantee in Guarantee::ALL {
        let (verdict, _) = run(guarantee, [None, None], Loss::Nothing);
        assert_eq!(verdict, Verdict::default(), "{guarantee}");
    }
}
