//! What an application measures of its workers, tasks and stores, in Kafka Streams' words: to be read in the program, and as Prometheus text.
//!
//! Each worker, task and store has numbers of its own behind a lock of its own, which its worker takes once for a slice of records or a commit, and
//! who reads takes for a copy. Nothing is counted or allocated for a single record here.
//!
//! Rates, averages and extremes are of the last 30 to 60 s, as Kafka's are (two windows of 30 s); totals are since the worker, the task or the store came
//! to this process. What was undone later is counted too.
//!
//! **What it does not know**: what a task does, when somebody reads.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use atonce_kernel::TopicPartition;
use atonce_streams_core::TaskId;
use atonce_streams_core::store::StoreCounts;
use atonce_streams_core::task::RecordTimes;

use crate::state::{ApplicationState, StateBoard};

/// One of two windows that rates, averages and extremes are taken from: Kafka's `metrics.sample.window.ms`.
const WINDOW: Duration = Duration::from_secs(30);

/// Something that happens again and again, and takes its time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Measured {
    /// How often it has happened.
    pub total: u64,
    /// How often in a second.
    pub rate: f64,
    /// How long one took on average.
    pub latency_avg: Duration,
    /// How long the slowest took.
    pub latency_max: Duration,
}

/// A time that differs from record to record.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Spread {
    /// The average.
    pub avg: Duration,
    /// The least.
    pub min: Duration,
    /// The greatest.
    pub max: Duration,
}

/// A worker's numbers: Kafka Streams' metrics of a thread.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct WorkerMetrics {
    /// Commits that stand.
    pub commit: Measured,
    /// Polls of the consumer; their latency holds the wait for records.
    pub poll: Measured,
    /// Records processed; the latency is of one record, averaged over those that were processed together.
    pub process: Measured,
    /// Punctuations by the wall clock, with what they led to; the latency is of all that were due together.
    pub punctuate: Measured,
    /// Tasks that it was given.
    pub task_created_total: u64,
    /// Tasks that it gave up.
    pub task_closed_total: u64,
}

/// A task's numbers.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct TaskMetrics {
    /// The worker that has it.
    pub worker: usize,
    /// Records processed; the latency is of one record, averaged over those that were processed together.
    pub process: Measured,
    /// Punctuations, by either clock.
    pub punctuate_total: u64,
    /// How far records were behind stream time when they were processed.
    pub record_lateness: Spread,
    /// From a record's time to when it has passed all processors of its task.
    pub record_e2e_latency: Spread,
    /// Records dropped because they had no key, or no value where one is needed.
    pub dropped_records_total: u64,
    /// Records that failed and were left out.
    pub skipped_records_total: u64,
    /// Records that failed and were put into a dead-letter topic.
    pub dead_letters_total: u64,
    /// Records that wait in its queues.
    pub active_buffer_count: usize,
    /// For each partition that it reads, how many offsets lie between its position and the end that was seen last. Unknown until something was read.
    pub lag: BTreeMap<TopicPartition, Option<i64>>,
    /// Records of change logs taken in.
    pub restore_total: u64,
    /// The same, in a second.
    pub restore_rate: f64,
    /// Offsets of change logs that are still to be taken in.
    pub restore_remaining_records_total: i64,
    /// Its stores.
    pub stores: BTreeMap<String, StoreMetrics>,
}

impl TaskMetrics {
    /// Its lag over all partitions of which it is known.
    #[must_use]
    pub fn lag_sum(&self) -> i64 {
        self.lag.values().flatten().sum()
    }
}

/// A store's numbers. Counts are of what processors asked; latencies of what the engine on disk did, for what is in memory takes none.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct StoreMetrics {
    /// Values read.
    pub get_total: u64,
    /// Values set.
    pub put_total: u64,
    /// Keys deleted.
    pub delete_total: u64,
    /// Scans begun.
    pub range_total: u64,
    /// Of the values read, the part that the engine was not asked for, from 0 to 1; 0 if none was read.
    pub hit_ratio: f64,
    /// Bytes of changes that wait for a commit.
    pub uncommitted_bytes: usize,
    /// Reads of the engine.
    pub engine_get: Measured,
    /// Pages of scans, read from the engine.
    pub engine_range: Measured,
    /// Batches that the engine took in: the changes of a commit, or of a change log.
    pub flush: Measured,
}

/// Everything at one moment.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Metrics {
    /// What the application does.
    pub state: ApplicationState,
    /// Workers that have not ended.
    pub alive_workers: usize,
    /// Workers by number.
    pub workers: BTreeMap<usize, WorkerMetrics>,
    /// The tasks that this process has.
    pub tasks: BTreeMap<TaskId, TaskMetrics>,
}

/// A window's sum, of so many events.
#[derive(Clone, Copy, Debug)]
struct Window {
    begun: Instant,
    count: u64,
    sum: Duration,
    min: Duration,
    max: Duration,
}

impl Window {
    fn new(begun: Instant) -> Self {
        Self { begun, count: 0, sum: Duration::ZERO, min: Duration::MAX, max: Duration::ZERO }
    }
}

/// What happens again and again: a total, and two windows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Series {
    total: u64,
    current: Window,
    before: Option<Window>,
}

impl Series {
    fn new(now: Instant) -> Self {
        Self { total: 0, current: Window::new(now), before: None }
    }

    /// `count` more, which took `sum` together, and each between `min` and `max`.
    fn record(&mut self, now: Instant, count: u64, sum: Duration, min: Duration, max: Duration) {
        if count == 0 {
            return;
        }
        self.roll(now);
        self.total += count;
        self.current.count += count;
        self.current.sum = self.current.sum.saturating_add(sum);
        self.current.min = self.current.min.min(min);
        self.current.max = self.current.max.max(max);
    }

    /// `count` more, which took so long together.
    pub(crate) fn record_together(&mut self, now: Instant, count: u64, took: Duration) {
        let each = u32::try_from(count).ok().and_then(|count| took.checked_div(count)).unwrap_or_default();
        self.record(now, count, took, each, each);
    }

    /// One more, which took so long.
    pub(crate) fn record_one(&mut self, now: Instant, took: Duration) {
        self.record(now, 1, took, took, took);
    }

    fn roll(&mut self, now: Instant) {
        let age = now.saturating_duration_since(self.current.begun);
        if age < WINDOW {
            return;
        }
        // Older than two windows: nothing has happened in the one before.
        self.before = (age < 2 * WINDOW).then_some(self.current);
        self.current = Window::new(now);
    }

    fn windows(mut self, now: Instant) -> impl Iterator<Item = Window> {
        self.roll(now);
        self.before.into_iter().chain([self.current])
    }

    #[expect(clippy::cast_precision_loss, reason = "a rate of events that fit a float")]
    fn rate(self, now: Instant) -> f64 {
        let (mut count, mut begun) = (0, now);
        for window in self.windows(now) {
            count += window.count;
            begun = begun.min(window.begun);
        }
        // As in Kafka: at least one whole window, so that the first record is not a rate of thousands.
        count as f64 / now.saturating_duration_since(begun).max(WINDOW).as_secs_f64()
    }

    fn spread(self, now: Instant) -> Spread {
        let (mut count, mut sum, mut spread) = (0_u64, Duration::ZERO, (Duration::MAX, Duration::ZERO));
        for window in self.windows(now) {
            count += window.count;
            sum = sum.saturating_add(window.sum);
            spread = (spread.0.min(window.min), spread.1.max(window.max));
        }
        let Some(nanoseconds) = sum.as_nanos().checked_div(u128::from(count)) else { return Spread::default() };
        let avg = Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX));
        Spread { avg, min: spread.0, max: spread.1 }
    }

    fn measured(self, now: Instant) -> Measured {
        let Spread { avg, max, .. } = self.spread(now);
        Measured { total: self.total, rate: self.rate(now), latency_avg: avg, latency_max: max }
    }
}

/// A worker's own.
#[derive(Debug)]
pub(crate) struct WorkerNumbers {
    pub(crate) commit: Series,
    pub(crate) poll: Series,
    pub(crate) process: Series,
    pub(crate) punctuate: Series,
    task_created: u64,
    task_closed: u64,
}

/// A task's own.
#[derive(Debug)]
pub(crate) struct TaskNumbers {
    worker: usize,
    process: Series,
    lateness: Series,
    e2e: Series,
    restore: Series,
    /// What is looked up now and then.
    pub(crate) seen: TaskSeen,
    stores: BTreeMap<String, Arc<Mutex<StoreNumbers>>>,
}

/// What is looked up in a task now and then.
#[derive(Debug, Default)]
pub(crate) struct TaskSeen {
    pub(crate) punctuations: u64,
    pub(crate) dropped: u64,
    pub(crate) skipped: u64,
    pub(crate) dead_letters: u64,
    pub(crate) buffered: usize,
    pub(crate) lag: BTreeMap<TopicPartition, Option<i64>>,
    pub(crate) restore_remaining: i64,
}

/// A store's own.
#[derive(Debug)]
pub(crate) struct StoreNumbers {
    pub(crate) get: Series,
    pub(crate) range: Series,
    pub(crate) flush: Series,
    counts: StoreCounts,
    uncommitted_bytes: usize,
}

impl TaskNumbers {
    /// `processed` records took so long together.
    pub(crate) fn processed(&mut self, now: Instant, processed: u64, took: Duration) {
        self.process.record_together(now, processed, took);
    }

    /// These records have passed all processors at `wall_ms` by the wall clock.
    pub(crate) fn passed(&mut self, now: Instant, wall_ms: i64, times: &RecordTimes) {
        let ms = |ms: i64| Duration::from_millis(u64::try_from(ms).unwrap_or(0));
        let count = i64::try_from(times.records).unwrap_or(i64::MAX);
        let (lateness, most) = (ms(times.lateness_sum_ms), ms(times.lateness_max_ms));
        // Of several, the least late was not late: the one that stream time is from, or an earlier one.
        let least = if times.records == 1 { most } else { Duration::ZERO };
        self.lateness.record(now, times.records, lateness, least, most);
        let together = wall_ms.saturating_mul(count).saturating_sub(times.sum_ms);
        let (fastest, slowest) = (wall_ms.saturating_sub(times.latest.0), wall_ms.saturating_sub(times.earliest.0));
        self.e2e.record(now, times.records, ms(together), ms(fastest), ms(slowest));
    }

    /// So many records of its change logs were taken in.
    pub(crate) fn restored(&mut self, records: u64) {
        self.restore.record_together(Instant::now(), records, Duration::ZERO);
    }

    pub(crate) fn store(&self, store: &str) -> Option<&Arc<Mutex<StoreNumbers>>> {
        self.stores.get(store)
    }

    /// What was asked of a store so far.
    pub(crate) fn store_seen(&self, store: &str, counts: StoreCounts, uncommitted_bytes: usize) {
        if let Some(store) = self.stores.get(store) {
            let mut store = lock(store);
            (store.counts, store.uncommitted_bytes) = (counts, uncommitted_bytes);
        }
    }

    fn read(&self, now: Instant) -> TaskMetrics {
        TaskMetrics {
            worker: self.worker,
            process: self.process.measured(now),
            punctuate_total: self.seen.punctuations,
            record_lateness: self.lateness.spread(now),
            record_e2e_latency: self.e2e.spread(now),
            dropped_records_total: self.seen.dropped,
            skipped_records_total: self.seen.skipped,
            dead_letters_total: self.seen.dead_letters,
            active_buffer_count: self.seen.buffered,
            lag: self.seen.lag.clone(),
            restore_total: self.restore.total,
            restore_rate: self.restore.rate(now),
            restore_remaining_records_total: self.seen.restore_remaining,
            stores: self.stores.iter().map(|(name, store)| (name.clone(), lock(store).read(now))).collect(),
        }
    }
}

impl StoreNumbers {
    #[expect(clippy::cast_precision_loss, reason = "a part of counts that fit a float")]
    fn read(&self, now: Instant) -> StoreMetrics {
        let counts = self.counts;
        StoreMetrics {
            get_total: counts.gets,
            put_total: counts.puts,
            delete_total: counts.deletes,
            range_total: counts.scans,
            hit_ratio: if counts.gets == 0 { 0.0 } else { counts.hits as f64 / counts.gets as f64 },
            uncommitted_bytes: self.uncommitted_bytes,
            engine_get: self.get.measured(now),
            engine_range: self.range.measured(now),
            flush: self.flush.measured(now),
        }
    }
}

/// The numbers of all workers and tasks of a process. Its own lock is taken when tasks come and go, and to read.
pub(crate) struct Registry {
    board: Arc<StateBoard>,
    workers: Mutex<BTreeMap<usize, Arc<Mutex<WorkerNumbers>>>>,
    tasks: Mutex<BTreeMap<TaskId, Arc<Mutex<TaskNumbers>>>>,
}

impl Registry {
    pub(crate) fn new(board: Arc<StateBoard>) -> Self {
        Self { board, workers: Mutex::default(), tasks: Mutex::default() }
    }

    /// A worker's numbers; those of the one that it replaces go on.
    pub(crate) fn worker(&self, index: usize) -> Arc<Mutex<WorkerNumbers>> {
        let new = || {
            let series = Series::new(Instant::now());
            let (commit, poll, process, punctuate) = (series, series, series, series);
            Mutex::new(WorkerNumbers { commit, poll, process, punctuate, task_created: 0, task_closed: 0 })
        };
        Arc::clone(lock(&self.workers).entry(index).or_insert_with(|| Arc::new(new())))
    }

    /// A worker has taken a task with these stores.
    pub(crate) fn add_task<'a>(
        &self,
        worker: usize,
        task: TaskId,
        stores: impl Iterator<Item = &'a str>,
    ) -> Arc<Mutex<TaskNumbers>> {
        let series = Series::new(Instant::now());
        let store = || StoreNumbers {
            get: series,
            range: series,
            flush: series,
            counts: StoreCounts::default(),
            uncommitted_bytes: 0,
        };
        let numbers = TaskNumbers {
            worker,
            process: series,
            lateness: series,
            e2e: series,
            restore: series,
            seen: TaskSeen::default(),
            stores: stores.map(|name| (name.to_owned(), Arc::new(Mutex::new(store())))).collect(),
        };
        let numbers = Arc::new(Mutex::new(numbers));
        lock(&self.tasks).insert(task, Arc::clone(&numbers));
        lock(&self.worker(worker)).task_created += 1;
        numbers
    }

    /// A worker has given a task up. Another of the process may have it by now.
    pub(crate) fn remove_task(&self, worker: usize, task: TaskId, numbers: &Arc<Mutex<TaskNumbers>>) {
        let mut tasks = lock(&self.tasks);
        if tasks.get(&task).is_some_and(|has| Arc::ptr_eq(has, numbers)) {
            tasks.remove(&task);
        }
        drop(tasks);
        lock(&self.worker(worker)).task_closed += 1;
    }

    pub(crate) fn read(&self) -> Metrics {
        let now = Instant::now();
        let workers = lock(&self.workers).clone();
        let tasks = lock(&self.tasks).clone();
        let worker = |numbers: &WorkerNumbers| WorkerMetrics {
            commit: numbers.commit.measured(now),
            poll: numbers.poll.measured(now),
            process: numbers.process.measured(now),
            punctuate: numbers.punctuate.measured(now),
            task_created_total: numbers.task_created,
            task_closed_total: numbers.task_closed,
        };
        Metrics {
            state: self.board.state(),
            alive_workers: self.board.alive_workers(),
            workers: workers.into_iter().map(|(index, numbers)| (index, worker(&lock(&numbers)))).collect(),
            tasks: tasks.into_iter().map(|(id, numbers)| (id, lock(&numbers).read(now))).collect(),
        }
    }
}

impl std::fmt::Debug for Registry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Registry")
    }
}

/// Numbers are whole whenever the lock is free, so a panic elsewhere has broken nothing.
pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

mod measured_store;
mod page_server;
mod prometheus;

pub(crate) use measured_store::MeasuredStore;
pub(crate) use page_server::PageServer;
pub(crate) use prometheus::text;

#[cfg(test)]
mod tests {
    use super::*;
    use atonce_kernel::Timestamp;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_rate_is_of_the_last_two_windows_and_a_total_of_all() {
        let start = Instant::now();
        let mut series = Series::new(start);
        series.record_together(start + SECOND, 300, 3 * SECOND);
        // Not a rate of hundreds after the first second.
        assert_eq!(series.rate(start + SECOND), 10.0);
        series.record_one(start + 40 * SECOND, 7 * SECOND);
        let measured = series.measured(start + 40 * SECOND);
        assert_eq!((measured.total, measured.latency_max), (301, 7 * SECOND));
        assert_eq!(measured.rate, 301.0 / 40.0);
        assert_eq!(measured.latency_avg, 10 * SECOND / 301);
        // The first window is over, and later the second.
        let later = series.measured(start + 71 * SECOND);
        assert_eq!((later.total, later.latency_avg), (301, 7 * SECOND));
        let much_later = series.measured(start + 200 * SECOND);
        assert_eq!((much_later.total, much_later.rate, much_later.latency_max), (301, 0.0, Duration::ZERO));
    }

    #[test]
    fn lateness_is_behind_stream_time_and_latency_behind_the_clock() {
        let registry = Registry::new(Arc::new(StateBoard::new(None)));
        let id = TaskId { subtopology: 0, partition: 1 };
        let numbers = registry.add_task(3, id, ["s"].into_iter());
        let (earliest, latest) = (Timestamp(1000), Timestamp(4000));
        let times =
            RecordTimes { records: 3, earliest, latest, sum_ms: 7000, lateness_sum_ms: 3000, lateness_max_ms: 2000 };
        lock(&numbers).passed(Instant::now(), 5000, &times);
        let read = registry.read().tasks[&id].clone();
        assert_eq!((read.worker, read.stores.len()), (3, 1));
        let ms = Duration::from_millis;
        assert_eq!(read.record_lateness, Spread { avg: ms(1000), min: ms(0), max: ms(2000) });
        let avg = Duration::from_nanos(8_000_000_000 / 3);
        assert_eq!(read.record_e2e_latency, Spread { avg, min: ms(1000), max: ms(4000) });
    }

    #[test]
    fn a_task_that_moved_to_another_worker_stays_when_the_first_gives_it_up() {
        let registry = Registry::new(Arc::new(StateBoard::new(None)));
        let id = TaskId { subtopology: 0, partition: 0 };
        let first = registry.add_task(0, id, std::iter::empty());
        let second = registry.add_task(1, id, std::iter::empty());
        registry.remove_task(0, id, &first);
        assert_eq!(registry.read().tasks[&id].worker, 1);
        registry.remove_task(1, id, &second);
        let read = registry.read();
        assert_eq!(
            (read.tasks.len(), read.workers[&0].task_closed_total, read.workers[&1].task_created_total),
            (0, 1, 1)
        );
    }
}
