//! Owns an application's workers: starts them, replaces them, adds and removes them while the application runs, and ends them.
//!
//! One task, which everyone else sends commands to. It also looks for topics that match the topology's patterns.
//!
//! Invariants: a worker's number is free before another has it, so its names in the group and as a producer are never used twice at a time;
//! the state folder knows the highest number before its worker runs, so that the next life can settle what this one leaves.
//!
//! **What it does not know**: what a worker does.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

use atonce_kernel::GroupId;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;

use crate::application::ApplicationControl;
use crate::error::{Error, WorkerError};
use crate::internal_topics;
use crate::state::{StateBoard, StateSender, WorkerState};
use crate::statistics::add;
use crate::worker::{GroupMembership, Shared, Stop, Worker};

/// How much longer each replacement waits than the one before, and how long at most: what keeps failing must not keep the cluster busy.
const REPLACE_BACK_OFF: Duration = Duration::from_millis(100);
const REPLACE_BACK_OFF_MAX: Duration = Duration::from_secs(10);

/// How long the group may take to tell all of the application to stop. After that, this process stops by itself.
const SHUTDOWN_WITHIN: Duration = Duration::from_secs(30);

/// How long the group may take to let a worker go that has died.
const TAKE_OUT_WITHIN: Duration = Duration::from_secs(5);

pub(crate) type OnWorkerError = dyn Fn(&Error) -> WorkerVerdict + Send + Sync;

/// What an application does when one of its workers cannot go on (KIP-671).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WorkerVerdict {
    /// Another takes its place, which begins where the last commit stands. What fails for good fails again: count.
    Replace,
    /// The other workers of this process close, and [`Application::run_until`](crate::Application::run_until) returns the error.
    Stop,
    /// All processes of the application that are in the group now close: they hear it from the group. Here
    /// [`Application::run_until`](crate::Application::run_until) returns the error, elsewhere
    /// [`WorkerError::ShutdownRequested`](crate::error::WorkerError::ShutdownRequested).
    StopApplication,
}

/// What the supervisor is told.
pub(crate) enum Command {
    AddWorker(oneshot::Sender<Result<usize, Error>>),
    RemoveWorker(oneshot::Sender<Result<Option<usize>, Error>>),
    Close(GroupMembership),
    /// As if the process died.
    Crash,
}

/// The workers there are, for everyone to look at.
#[derive(Default)]
pub(crate) struct Seats {
    seats: Mutex<BTreeMap<usize, Seat>>,
}

struct Seat {
    state: StateSender,
    stop: watch::Sender<Stop>,
}

impl Seats {
    pub(crate) fn states(&self) -> Vec<watch::Receiver<WorkerState>> {
        self.lock().values().map(|seat| seat.state.subscribe()).collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<usize, Seat>> {
        self.seats.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(crate) struct Supervisor {
    shared: Arc<Shared>,
    on_worker_error: Option<Arc<OnWorkerError>>,
    commands: mpsc::UnboundedReceiver<Command>,
    seats: Arc<Seats>,
    board: Arc<StateBoard>,
    workers: JoinSet<Ended>,
    /// Workers that were told to go, and who waits for that.
    leaving: BTreeMap<usize, oneshot::Sender<Result<Option<usize>, Error>>>,
    replaced: u32,
}

/// A worker that has ended.
struct Ended {
    index: usize,
    result: Result<(), Error>,
}

impl Supervisor {
    /// With its first workers, which the state folder knows already.
    pub(crate) fn new(
        shared: Arc<Shared>,
        board: Arc<StateBoard>,
        on_worker_error: Option<Arc<OnWorkerError>>,
        workers: usize,
    ) -> (ApplicationControl, Self) {
        let (sender, commands) = mpsc::unbounded_channel();
        let seats = Arc::new(Seats::default());
        let control = ApplicationControl {
            shared: Arc::clone(&shared),
            commands: sender,
            seats: Arc::clone(&seats),
            board: Arc::clone(&board),
        };
        let mut supervisor = Self {
            shared,
            on_worker_error,
            commands,
            seats,
            board,
            workers: JoinSet::new(),
            leaving: BTreeMap::new(),
            replaced: 0,
        };
        for index in 0..workers {
            supervisor.start_worker(index, Duration::ZERO);
        }
        (control, supervisor)
    }

    /// Until it is told to end, or a worker cannot go on.
    pub(crate) async fn run(mut self) -> Result<(), Error> {
        let shared = Arc::clone(&self.shared);
        let mut topics = std::pin::pin!(internal_topics::follow(&shared));
        let failed = loop {
            tokio::select! {
                command = self.commands.recv() => match command {
                    Some(Command::AddWorker(answer)) => drop(answer.send(self.add_worker())),
                    Some(Command::RemoveWorker(answer)) => self.remove_worker(answer),
                    Some(Command::Close(membership)) => return self.close(membership).await,
                    Some(Command::Crash) | None => {
                        self.workers.shutdown().await;
                        return Ok(());
                    }
                },
                Some(ended) = self.workers.join_next(), if !self.workers.is_empty() => {
                    // An error is a cancelled task, which only a crash makes.
                    let Ok(ended) = ended else { continue };
                    if let Err(error) = self.worker_ended(ended).await {
                        break error;
                    }
                }
                error = &mut topics => break error,
            }
        };
        self.board.fail();
        let _ = self.close(GroupMembership::Leave).await;
        Err(failed)
    }

    /// Errors: the application cannot go on.
    async fn worker_ended(&mut self, Ended { index, result }: Ended) -> Result<(), Error> {
        if let Some(answer) = self.leaving.remove(&index) {
            self.seats.lock().remove(&index);
            let kept = self.shared.folder.write_workers(self.highest());
            let _ = answer.send(result.and(kept).map(|()| Some(index)));
            return Ok(());
        }
        let Err(error) = result else { return Ok(()) };
        let cause = match &error {
            Error::Worker { source, .. } => source,
            _ => return Err(error),
        };
        if matches!(cause, WorkerError::ShutdownRequested) {
            return Err(error);
        }
        if matches!(cause, WorkerError::Panicked(_)) {
            self.take_out(index).await;
        }
        let verdict = self.on_worker_error.as_ref().map_or(WorkerVerdict::Stop, |decide| decide(&error));
        match verdict {
            // One that panicked has not given its stores back.
            WorkerVerdict::Replace if !matches!(cause, WorkerError::Fenced { .. } | WorkerError::Panicked(_)) => {
                tracing::error!("{error}; another worker takes its place");
                self.replaced += 1;
                add(&self.shared.counters.replaced_workers, 1);
                let after = REPLACE_BACK_OFF.saturating_mul(self.replaced).min(REPLACE_BACK_OFF_MAX);
                self.start_worker(index, after);
                Ok(())
            }
            // Fenced, another process has its name, and is not to be put out of the group for that.
            WorkerVerdict::StopApplication if !matches!(cause, WorkerError::Fenced { .. }) => {
                tracing::error!("{error}; all of the application is asked to stop");
                self.stop_application(index).await;
                Err(error)
            }
            WorkerVerdict::Replace | WorkerVerdict::Stop | WorkerVerdict::StopApplication => Err(error),
        }
    }

    /// A worker that panicked has not left the group, which would wait for its session to end.
    async fn take_out(&self, index: usize) {
        let group = GroupId::from(self.shared.application_id.as_str());
        let (admin, instance_id) = (self.shared.client.admin(), self.shared.instance_id(index));
        let taken_out = admin.call_timeout(TAKE_OUT_WITHIN).remove_group_members(&group, &[instance_id]).await;
        if let Err(error) = taken_out {
            tracing::warn!("worker {index} cannot be taken out of the group ({error}); its session will end by itself");
        }
    }

    /// Has a worker that lives tell the group, or one that is made for it, and waits until the group has told all.
    async fn stop_application(&mut self, index: usize) {
        self.board.fail();
        self.shared.is_shutdown_asked.store(true, Ordering::Relaxed);
        if self.workers.is_empty() {
            self.start_worker(index, Duration::ZERO);
        }
        let all_ended = async { while self.workers.join_next().await.is_some() {} };
        if tokio::time::timeout(SHUTDOWN_WITHIN, all_ended).await.is_err() {
            tracing::error!("the group was not heard within {SHUTDOWN_WITHIN:?}; only this process stops for sure");
        }
    }

    fn start_worker(&mut self, index: usize, after: Duration) {
        let (stop, stopped) = watch::channel(Stop::No);
        let state = {
            let mut seats = self.seats.lock();
            let former = seats.remove(&index).map(|seat| seat.state);
            let state = former.unwrap_or_else(|| StateSender::new(index, &self.board));
            seats.insert(index, Seat { state: state.clone(), stop });
            state
        };
        state.send_replace(WorkerState::Joining);
        self.workers.spawn(work(Arc::clone(&self.shared), index, state, stopped, after));
    }

    /// How many workers the next life has to settle: one more than the highest number.
    fn highest(&self) -> usize {
        self.seats.lock().last_key_value().map_or(0, |(index, _)| index + 1)
    }

    fn add_worker(&mut self) -> Result<usize, Error> {
        let index = {
            let seats = self.seats.lock();
            (0..).find(|index| !seats.contains_key(index)).unwrap_or_default()
        };
        self.shared.folder.write_workers(self.highest().max(index + 1))?;
        self.start_worker(index, Duration::ZERO);
        Ok(index)
    }

    fn remove_worker(&mut self, answer: oneshot::Sender<Result<Option<usize>, Error>>) {
        let seats = self.seats.lock();
        let Some((index, seat)) = seats.iter().rfind(|(index, _)| !self.leaving.contains_key(index)) else {
            let _ = answer.send(Ok(None));
            return;
        };
        // From now on it says nothing of what the application does.
        self.board.forget(*index);
        seat.stop.send_replace(Stop::Yes(GroupMembership::Leave));
        self.leaving.insert(*index, answer);
    }

    /// Ends all workers, and says what the first one met that could not end well.
    async fn close(&mut self, membership: GroupMembership) -> Result<(), Error> {
        self.board.stop();
        for seat in self.seats.lock().values() {
            seat.stop.send_replace(Stop::Yes(membership));
        }
        let mut first = Ok(());
        while let Some(ended) = self.workers.join_next().await {
            let result = ended.map_or(Ok(()), |ended| ended.result);
            first = first.and(result);
        }
        first
    }
}

async fn work(
    shared: Arc<Shared>,
    index: usize,
    state: StateSender,
    mut stop: watch::Receiver<Stop>,
    after: Duration,
) -> Ended {
    let seen = state.clone();
    let life = async move {
        if tokio::time::timeout(after, stop.wait_for(|stop| *stop != Stop::No)).await.is_ok() {
            return Ok(());
        }
        Worker::start(shared, index, seen, stop).await?.run().await
    };
    let result = without_panic(life).await.map_err(|source| Error::Worker { worker: index, source });
    state.send_replace(WorkerState::Ended);
    Ended { index, result }
}

/// A panic of `work` as an error, so that it is known whose it was.
async fn without_panic(work: impl Future<Output = Result<(), WorkerError>>) -> Result<(), WorkerError> {
    let mut work = std::pin::pin!(work);
    std::future::poll_fn(|context| {
        // After a panic the future is not polled again, so what it left half done is never seen.
        match catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(context))) {
            Ok(poll) => poll,
            Err(panic) => {
                let message = panic.downcast_ref::<String>().map(String::as_str);
                let message = message.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("without a message");
                Poll::Ready(Err(WorkerError::Panicked(message.to_owned())))
            }
        }
    })
    .await
}
