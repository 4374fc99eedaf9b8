//! The commit of a worker, as a machine: which step comes next under each of the three guarantees, and what every answer leads to.
//!
//! **What it does not know**: records, stores, producers, offsets. It says *flush*, *send the offsets*, *end*, *ask what became of
//! it*, *apply*, *roll back*; the driver does that, and tells what came of it.
//!
//! ```text
//! exactly once     Idle → Flushing → SendingOffsets → Ending(commit) → Settled(Committed) → Idle
//!                            │             │               │
//!                            └── failed ───┴→ Ending(abort)│ → Settled(Aborted) → Idle
//!                                                          └ no answer → InDoubt → Settled(Committed | Aborted | Unknown)
//! at least once    Idle → Flushing → SendingOffsets → Settled(Committed)          a failure → Settled(Unknown)
//! at most once     Idle → SendingOffsets → Flushing → Settled(Committed)          a failure → Settled(Unknown)
//! ```
//!
//! Invariants: stores are touched in `Settled(Committed)` and in no other state; nothing is processed outside `Idle`; `InDoubt` is
//! left only by an answer; under exactly once an `Ending(commit)` is reached only when output is flushed and offsets are sent.

use atonce_kernel::Outcome;

/// What is promised about each input's effect in the committed output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, PartialOrd, Ord)]
pub enum Guarantee {
    /// Offsets first, then output: a crash between the two loses records, and repeats none. A worker commits the offsets of a batch before it
    /// processes any of it, so that what processors do outside is not repeated either.
    AtMostOnce,
    /// Output first, then offsets: a crash between the two repeats records, and loses none.
    AtLeastOnce,
    /// Both in one transaction: no crash loses or repeats anything, for whoever reads committed.
    #[default]
    ExactlyOnce,
}

impl Guarantee {
    /// All three.
    pub const ALL: [Self; 3] = [Self::AtMostOnce, Self::AtLeastOnce, Self::ExactlyOnce];

    /// As configurations spell it: `at_most_once`, `at_least_once`, `exactly_once`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::AtMostOnce => "at_most_once",
            Self::AtLeastOnce => "at_least_once",
            Self::ExactlyOnce => "exactly_once",
        }
    }
}

impl std::fmt::Display for Guarantee {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Where a commit stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// No commit runs: records are processed.
    Idle,
    /// Waiting until all output, change logs included, is acknowledged.
    Flushing,
    /// Waiting until the positions are with the group: inside the transaction, or plainly.
    SendingOffsets,
    /// Waiting for the end of the transaction.
    Ending(Outcome),
    /// The commit was asked for, and no answer tells whether it was done. Nothing is processed and no transaction begun.
    InDoubt,
    /// The outcome is known, and this side has still to follow it.
    Settled(Settlement),
}

/// What became of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Settlement {
    /// It stands: the stores follow.
    Committed,
    /// It is undone, wholly: everything goes back to the commit before, which the stores still hold.
    Aborted,
    /// No one can tell, or part of it may stand: everything goes back to what the group has committed, and the stores
    /// replay the tail of their change logs, which may hold what the overlay lost.
    Unknown,
}

/// What the driver has to do now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// Send what is left (the change logs; under at most once all output) and wait until all of it is acknowledged.
    Flush,
    /// Send the positions of what was processed, with the group's metadata as of the same records.
    SendOffsets,
    /// End the transaction so.
    End(Outcome),
    /// Find out what became of the commit: the same request again, else initialise again.
    AskOutcome,
    /// Apply the overlays to the stores, with the change logs' positions.
    ApplyStores,
    /// Drop overlays and queues, build the processors anew, rewind to the committed offsets; with `replay_changelogs`,
    /// bring the stores up to the end of their change logs first.
    RollBack {
        /// Whether the change logs may hold more than the stores.
        replay_changelogs: bool,
    },
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// The interval is over: commit.
    CommitWanted,
    /// A processor failed, the partitions are lost, or the transaction has failed on its own: give the interval up.
    AbortWanted,
    /// The step was done, and its answer says so.
    Done,
    /// The step was refused, or failed for good: it has taken no effect, or only such as an abort undoes.
    Failed,
    /// No answer: the step may have taken effect.
    Unanswered,
    /// The answer to [`Step::AskOutcome`].
    Learned(Settlement),
}

/// An event that cannot happen in this state: a fault in the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{event:?} cannot happen to a commit that is {state:?}")]
pub struct IllegalTransition {
    /// Where the commit stood.
    pub state: State,
    /// What was said to have happened.
    pub event: Event,
}

/// The machine. One for each worker, since its tasks commit together.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CommitMachine {
    guarantee: Guarantee,
    state: State,
}

impl CommitMachine {
    /// At rest.
    #[must_use]
    pub fn new(guarantee: Guarantee) -> Self {
        Self { guarantee, state: State::Idle }
    }

    /// What it promises.
    #[must_use]
    pub fn guarantee(&self) -> Guarantee {
        self.guarantee
    }

    /// Where it stands.
    #[must_use]
    pub fn state(&self) -> State {
        self.state
    }

    /// Whether records may be processed.
    #[must_use]
    pub fn may_process(&self) -> bool {
        match self.state {
            State::Idle => true,
            State::Flushing | State::SendingOffsets | State::Ending(_) | State::InDoubt | State::Settled(_) => false,
        }
    }

    /// What to do next; `None` at rest.
    #[must_use]
    pub fn poll_step(&self) -> Option<Step> {
        match self.state {
            State::Idle => None,
            State::Flushing => Some(Step::Flush),
            State::SendingOffsets => Some(Step::SendOffsets),
            State::Ending(outcome) => Some(Step::End(outcome)),
            State::InDoubt => Some(Step::AskOutcome),
            State::Settled(Settlement::Committed) => Some(Step::ApplyStores),
            State::Settled(Settlement::Aborted) => Some(Step::RollBack { replay_changelogs: false }),
            State::Settled(Settlement::Unknown) => Some(Step::RollBack { replay_changelogs: true }),
        }
    }

    /// Takes in what happened.
    ///
    /// Shape: see the module's drawing.
    /// Errors: the event cannot happen here; nothing is changed then.
    pub fn handle(&mut self, event: Event) -> Result<(), IllegalTransition> {
        let next = match self.guarantee {
            Guarantee::ExactlyOnce => exactly_once(self.state, event),
            Guarantee::AtLeastOnce => without_transaction(self.state, event, &[State::Flushing, State::SendingOffsets]),
            Guarantee::AtMostOnce => without_transaction(self.state, event, &[State::SendingOffsets, State::Flushing]),
        };
        self.state = next.ok_or(IllegalTransition { state: self.state, event })?;
        Ok(())
    }
}

fn exactly_once(state: State, event: Event) -> Option<State> {
    Some(match (state, event) {
        (State::Idle, Event::CommitWanted) => State::Flushing,
        (State::Idle, Event::AbortWanted) => State::Ending(Outcome::Abort),

        (State::Flushing, Event::Done) => State::SendingOffsets,
        (State::SendingOffsets, Event::Done) => State::Ending(Outcome::Commit),
        // Whatever reached the broker is inside the transaction, answered or not: the abort undoes it.
        (State::Flushing | State::SendingOffsets, Event::Failed | Event::Unanswered | Event::AbortWanted) => {
            State::Ending(Outcome::Abort)
        }

        (State::Ending(Outcome::Commit), Event::Done) => State::Settled(Settlement::Committed),
        (State::Ending(Outcome::Commit), Event::Failed) => State::Settled(Settlement::Aborted),
        (State::Ending(Outcome::Commit), Event::Unanswered) => State::InDoubt,
        // No one asked for a commit, so there is none, answered or not; the broker's time-out ends what the abort did not.
        (State::Ending(Outcome::Abort), Event::Done | Event::Failed | Event::Unanswered) => {
            State::Settled(Settlement::Aborted)
        }

        (State::InDoubt, Event::Learned(settlement)) => State::Settled(settlement),
        // Still no answer: still in doubt. Time does not settle it.
        (State::InDoubt, Event::Unanswered) => State::InDoubt,

        (State::Settled(_), Event::Done) => State::Idle,
        (State::Idle, Event::Done | Event::Failed | Event::Unanswered | Event::Learned(_))
        | (State::Flushing | State::SendingOffsets, Event::CommitWanted | Event::Learned(_))
        | (State::Ending(_), Event::CommitWanted | Event::AbortWanted | Event::Learned(_))
        | (State::InDoubt, Event::CommitWanted | Event::AbortWanted | Event::Done | Event::Failed)
        | (
            State::Settled(_),
            Event::CommitWanted | Event::AbortWanted | Event::Failed | Event::Unanswered | Event::Learned(_),
        ) => return None,
    })
}

/// The two guarantees without a transaction: the same two steps, in one order or the other.
fn without_transaction(state: State, event: Event, order: &[State; 2]) -> Option<State> {
    let [first, second] = *order;
    Some(match (state, event) {
        (State::Idle, Event::CommitWanted) => first,
        // Output may be out already (at least once sends it as it comes), and with it changes in the change log.
        (State::Idle, Event::AbortWanted) => State::Settled(Settlement::Unknown),
        (State::Flushing | State::SendingOffsets, Event::Done) => {
            if state == first {
                second
            } else {
                State::Settled(Settlement::Committed)
            }
        }
        (State::Flushing | State::SendingOffsets, Event::Failed | Event::Unanswered | Event::AbortWanted) => {
            State::Settled(Settlement::Unknown)
        }
        (State::Settled(_), Event::Done) => State::Idle,
        (State::Idle, Event::Done | Event::Failed | Event::Unanswered | Event::Learned(_))
        | (State::Flushing | State::SendingOffsets, Event::CommitWanted | Event::Learned(_))
        | (State::Ending(_) | State::InDoubt, _)
        | (
            State::Settled(_),
            Event::CommitWanted | Event::AbortWanted | Event::Failed | Event::Unanswered | Event::Learned(_),
        ) => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    const EVENTS: [Event; 8] = [
        Event::CommitWanted,
        Event::AbortWanted,
        Event::Done,
        Event::Failed,
        Event::Unanswered,
        Event::Learned(Settlement::Committed),
        Event::Learned(Settlement::Aborted),
        Event::Learned(Settlement::Unknown),
    ];

    fn path(guarantee: Guarantee, events: &[Event]) -> Vec<State> {
        let mut machine = CommitMachine::new(guarantee);
        events
            .iter()
            .map(|event| {
                machine.handle(*event).unwrap();
                machine.state()
            })
            .collect()
    }

    #[test]
    fn exactly_once_flushes_sends_ends_and_applies_in_that_order() {
        assert_eq!(
            path(Guarantee::ExactlyOnce, &[Event::CommitWanted, Event::Done, Event::Done, Event::Done, Event::Done]),
            [
                State::Flushing,
                State::SendingOffsets,
                State::Ending(Outcome::Commit),
                State::Settled(Settlement::Committed),
                State::Idle
            ]
        );
    }

    #[test]
    fn at_least_once_puts_output_before_offsets_and_at_most_once_the_other_way() {
        let steps = [Event::CommitWanted, Event::Done, Event::Done];
        let committed = State::Settled(Settlement::Committed);
        assert_eq!(path(Guarantee::AtLeastOnce, &steps), [State::Flushing, State::SendingOffsets, committed]);
        assert_eq!(path(Guarantee::AtMostOnce, &steps), [State::SendingOffsets, State::Flushing, committed]);
    }

    #[test]
    fn a_commit_without_an_answer_is_in_doubt_until_one_comes() {
        let mut machine = CommitMachine::new(Guarantee::ExactlyOnce);
        for event in [Event::CommitWanted, Event::Done, Event::Done, Event::Unanswered, Event::Unanswered] {
            machine.handle(event).unwrap();
        }
        assert_eq!((machine.state(), machine.may_process()), (State::InDoubt, false));
        assert_eq!(
            machine.handle(Event::AbortWanted),
            Err(IllegalTransition { state: State::InDoubt, event: Event::AbortWanted })
        );
        machine.handle(Event::Learned(Settlement::Committed)).unwrap();
        assert_eq!(machine.poll_step(), Some(Step::ApplyStores));
    }

    /// Walks every sequence of events of every guarantee, and keeps what was done on the way.
    #[test]
    fn stores_follow_only_what_is_known_to_stand() {
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        struct Done {
            flushed: bool,
            offsets: bool,
            committed: bool,
        }
        for guarantee in Guarantee::ALL {
            let mut seen: BTreeSet<(String, Done)> = BTreeSet::new();
            let nothing = Done { flushed: false, offsets: false, committed: false };
            let mut open = vec![(CommitMachine::new(guarantee), nothing)];
            let mut applied = 0;
            while let Some((machine, done)) = open.pop() {
                if !seen.insert((format!("{:?}", machine.state()), done)) {
                    continue;
                }
                if machine.poll_step() == Some(Step::ApplyStores) {
                    applied += 1;
                    assert!(
                        done.flushed && done.offsets,
                        "{guarantee}: stores applied before output and offsets stand"
                    );
                    assert_eq!(done.committed, guarantee == Guarantee::ExactlyOnce);
                }
                assert_eq!(machine.may_process(), machine.poll_step().is_none());
                for event in EVENTS {
                    let mut next = machine.clone();
                    if next.handle(event).is_err() {
                        assert_eq!(next, machine, "a refused event changes nothing");
                        continue;
                    }
                    let mut after = done;
                    match (machine.poll_step(), event) {
                        (Some(Step::Flush), Event::Done) => after.flushed = true,
                        (Some(Step::SendOffsets), Event::Done) => after.offsets = true,
                        (Some(Step::End(Outcome::Commit)), Event::Done)
                        | (Some(Step::AskOutcome), Event::Learned(Settlement::Committed)) => after.committed = true,
                        _ => {}
                    }
                    if next.state() == State::Idle {
                        after = nothing;
                    }
                    open.push((next, after));
                }
            }
            assert!(applied > 0, "{guarantee}: no way leads to a commit");
        }
    }

    #[test]
    fn every_state_has_a_way_back_to_rest() {
        for guarantee in Guarantee::ALL {
            for first in [Event::CommitWanted, Event::AbortWanted] {
                for answer in [Event::Done, Event::Failed, Event::Unanswered] {
                    let mut machine = CommitMachine::new(guarantee);
                    machine.handle(first).unwrap();
                    for _ in 0..6 {
                        let event = match machine.poll_step() {
                            None => break,
                            Some(Step::AskOutcome) => Event::Learned(Settlement::Unknown),
                            Some(Step::ApplyStores | Step::RollBack { .. }) => Event::Done,
                            Some(Step::Flush | Step::SendOffsets | Step::End(_)) => answer,
                        };
                        machine.handle(event).unwrap();
                    }
                    assert_eq!(machine.state(), State::Idle, "{guarantee} {first:?} {answer:?}");
                }
            }
        }
    }
}
