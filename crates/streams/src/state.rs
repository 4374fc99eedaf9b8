//! What an application does, as seen from outside: of its workers' states one, in Kafka Streams' words, told to a listener as it changes.
//!
//! **What it does not know**: why a worker does what it does.
//!
//! Invariant: a listener hears every change, in order, each once.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

/// What a worker does, as seen from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum WorkerState {
    /// Joining the group.
    Joining,
    /// Bringing its stores up to their change logs.
    Restoring,
    /// Processing.
    Running,
    /// Over.
    Ended,
}

/// What an application does: Kafka Streams' states, with their meanings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum ApplicationState {
    /// No worker has begun yet.
    Created,
    /// A worker joins the group, or brings stores up to their change logs.
    Rebalancing,
    /// All workers process.
    Running,
    /// It was told to stop.
    PendingShutdown,
    /// It has stopped.
    NotRunning,
    /// A worker could not go on, and the others stop.
    PendingError,
    /// It has stopped because a worker could not go on.
    Error,
}

impl ApplicationState {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Created,
        Self::Rebalancing,
        Self::Running,
        Self::PendingShutdown,
        Self::NotRunning,
        Self::PendingError,
        Self::Error,
    ];

    /// As Kafka Streams writes it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Created => "CREATED",
            Self::Rebalancing => "REBALANCING",
            Self::Running => "RUNNING",
            Self::PendingShutdown => "PENDING_SHUTDOWN",
            Self::NotRunning => "NOT_RUNNING",
            Self::PendingError => "PENDING_ERROR",
            Self::Error => "ERROR",
        }
    }
}

impl std::fmt::Display for ApplicationState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// Told the new state, then the old one.
pub(crate) type StateListener = dyn Fn(ApplicationState, ApplicationState) + Send + Sync;

/// The states of all workers, and what they come to.
pub(crate) struct StateBoard {
    board: Mutex<Board>,
    /// Held while the listener is told, so that it hears changes in order; it may look at the state meanwhile.
    telling: Mutex<()>,
    listener: Option<Arc<StateListener>>,
}

struct Board {
    workers: BTreeMap<usize, WorkerState>,
    is_stopping: bool,
    has_failed: bool,
    told: ApplicationState,
}

impl Board {
    fn state(&self) -> ApplicationState {
        // One that has ended and is to be replaced counts for nothing meanwhile.
        let behind = self.workers.values().filter(|state| **state != WorkerState::Ended).min();
        match (behind, self.has_failed, self.is_stopping) {
            (Some(_), true, _) => ApplicationState::PendingError,
            (Some(_), false, true) => ApplicationState::PendingShutdown,
            (Some(WorkerState::Joining | WorkerState::Restoring), false, false) => ApplicationState::Rebalancing,
            (Some(WorkerState::Running | WorkerState::Ended), false, false) => ApplicationState::Running,
            (None, false, true) => ApplicationState::NotRunning,
            // None has begun, or all were taken away.
            (None, false, false) if self.workers.is_empty() => ApplicationState::Created,
            // All have ended, and nobody told them to.
            (None, true, _) | (None, false, false) => ApplicationState::Error,
        }
    }
}

impl StateBoard {
    pub(crate) fn new(listener: Option<Arc<StateListener>>) -> Self {
        let board =
            Board { workers: BTreeMap::new(), is_stopping: false, has_failed: false, told: ApplicationState::Created };
        Self { board: Mutex::new(board), telling: Mutex::default(), listener }
    }

    pub(crate) fn state(&self) -> ApplicationState {
        self.board().state()
    }

    /// Of the workers, how many are at work.
    pub(crate) fn alive_workers(&self) -> usize {
        self.board().workers.values().filter(|state| **state != WorkerState::Ended).count()
    }

    /// All are told to stop.
    pub(crate) fn stop(&self) {
        self.change(|board| board.is_stopping = true);
    }

    /// A worker could not go on and is not replaced.
    pub(crate) fn fail(&self) {
        self.change(|board| board.has_failed = true);
    }

    /// A worker is taken away: what it says from now on does not count.
    pub(crate) fn forget(&self, worker: usize) {
        self.change(|board| {
            board.workers.remove(&worker);
        });
    }

    fn change(&self, change: impl FnOnce(&mut Board)) {
        let _order = self.telling.lock().unwrap_or_else(PoisonError::into_inner);
        let (new, old) = {
            let mut board = self.board();
            change(&mut board);
            let new = board.state();
            (new, std::mem::replace(&mut board.told, new))
        };
        if new == old {
            return;
        }
        tracing::info!("{old} -> {new}");
        if let Some(listener) = &self.listener {
            listener(new, old);
        }
    }

    fn board(&self) -> MutexGuard<'_, Board> {
        self.board.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a worker says of itself.
#[derive(Clone)]
pub(crate) struct StateSender {
    worker: usize,
    sender: watch::Sender<WorkerState>,
    board: Arc<StateBoard>,
}

impl StateSender {
    /// For a worker that is about to begin.
    pub(crate) fn new(worker: usize, board: &Arc<StateBoard>) -> Self {
        let sender = watch::Sender::new(WorkerState::Joining);
        board.change(|board| {
            board.workers.insert(worker, WorkerState::Joining);
        });
        Self { worker, sender, board: Arc::clone(board) }
    }

    pub(crate) fn send_replace(&self, state: WorkerState) {
        self.board.change(|board| {
            // One that was forgotten stays so.
            if let Some(known) = board.workers.get_mut(&self.worker) {
                *known = state;
            }
        });
        self.sender.send_replace(state);
    }

    /// What waits for it.
    pub(crate) fn subscribe(&self) -> watch::Receiver<WorkerState> {
        self.sender.subscribe()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Heard = Arc<Mutex<Vec<(ApplicationState, ApplicationState)>>>;

    fn board() -> (Arc<StateBoard>, Heard) {
        let heard = Arc::new(Mutex::new(Vec::new()));
        let listener = {
            let heard = Arc::clone(&heard);
            move |new, old| heard.lock().unwrap().push((new, old))
        };
        (Arc::new(StateBoard::new(Some(Arc::new(listener)))), heard)
    }

    #[test]
    fn the_worker_that_is_furthest_behind_says_what_the_application_does() {
        use ApplicationState::*;
        let (board, heard) = board();
        assert_eq!(board.state(), Created);
        let first = StateSender::new(0, &board);
        let second = StateSender::new(1, &board);
        first.send_replace(WorkerState::Restoring);
        first.send_replace(WorkerState::Running);
        assert_eq!(board.state(), Rebalancing);
        second.send_replace(WorkerState::Running);
        second.send_replace(WorkerState::Joining);
        second.send_replace(WorkerState::Running);
        board.stop();
        first.send_replace(WorkerState::Ended);
        second.send_replace(WorkerState::Ended);
        let expected = [
            (Rebalancing, Created),
            (Running, Rebalancing),
            (Rebalancing, Running),
            (Running, Rebalancing),
            (PendingShutdown, Running),
            (NotRunning, PendingShutdown),
        ];
        assert_eq!(*heard.lock().unwrap(), expected);
    }

    #[test]
    fn one_that_cannot_go_on_is_told_apart_from_one_that_was_told_to_stop() {
        use ApplicationState::*;
        let (board, heard) = board();
        let first = StateSender::new(0, &board);
        let second = StateSender::new(1, &board);
        first.send_replace(WorkerState::Running);
        second.send_replace(WorkerState::Running);
        second.send_replace(WorkerState::Ended);
        assert_eq!((board.state(), board.alive_workers()), (Running, 1), "it may be replaced yet");
        board.fail();
        board.stop();
        first.send_replace(WorkerState::Ended);
        let expected = [(Rebalancing, Created), (Running, Rebalancing), (PendingError, Running), (Error, PendingError)];
        assert_eq!(*heard.lock().unwrap(), expected);
    }

    #[test]
    fn a_worker_that_is_taken_away_is_no_failure() {
        use ApplicationState::*;
        let (board, heard) = board();
        let only = StateSender::new(0, &board);
        only.send_replace(WorkerState::Running);
        board.forget(0);
        only.send_replace(WorkerState::Joining);
        only.send_replace(WorkerState::Ended);
        assert_eq!((board.state(), board.alive_workers()), (Created, 0));
        StateSender::new(0, &board).send_replace(WorkerState::Running);
        let expected = [
            (Rebalancing, Created),
            (Running, Rebalancing),
            (Created, Running),
            (Rebalancing, Created),
            (Running, Rebalancing),
        ];
        assert_eq!(*heard.lock().unwrap(), expected);
    }

    #[test]
    fn a_listener_may_look_at_the_state() {
        let seen = Arc::new(Mutex::new(None::<Arc<StateBoard>>));
        let looks = Arc::clone(&seen);
        let board = Arc::new(StateBoard::new(Some(Arc::new(move |new, _| {
            let board = looks.lock().unwrap().clone().unwrap();
            assert_eq!(board.state(), new);
        }))));
        *seen.lock().unwrap() = Some(Arc::clone(&board));
        board.stop();
        let sender = StateSender::new(0, &board);
        sender.send_replace(WorkerState::Ended);
        assert_eq!(board.state(), ApplicationState::NotRunning);
    }
}
