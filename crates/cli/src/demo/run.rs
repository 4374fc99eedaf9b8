//! One guarantee, from its empty topics to its verdict.
//!
//! A loader and a reader run beside; here the worker is started, struck when the schedule says so, and started again, until every strike has
//! counted and all input is counted. A strike counts if, once the worker is dead or stopped, there is input that it has not committed:
//! read or unread, inside a transaction or before one, that work is undone.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use atonce_client::{
    Client, ConsumerEvent, GroupId, GroupInstanceId, Isolation, NewTopic, Offset, OffsetSpec, Position, TopicName,
    TopicPartition,
};
use indicatif::{ProgressBar, ProgressStyle};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use super::loader::{Loader, is_input_left};
use super::reader::{Ask, Readings, read};
use super::report::{Report, ZombieOutcome};
use super::schedule::{Plan, Schedule, Since, Strike};
use super::worker_process::{Status, WorkerProcess};
use super::{Guarantee, Setup, worker};
use crate::failure::{Failure, OrFailure};

/// How long nothing may happen (no result read, nothing committed) before the demo says that it is stuck. Longer than a session and a
/// transaction that must time out, one after the other, with Apache Kafka's ten seconds between two looks at the latter.
const STUCK_AFTER: Duration = Duration::from_secs(90);
/// How long a zombie that woke up has for being refused. It may first have to notice that its connections are gone.
const REFUSAL_LIMIT: Duration = Duration::from_secs(40);
/// How long a worker has for ending cleanly.
const END_LIMIT: Duration = Duration::from_secs(30);
/// How often conditions on the cluster are looked at.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

const CLUSTER_NEXT: &str = "see the cause above; is the cluster up?";

/// Runs one guarantee.
pub(crate) async fn run(setup: &Setup, guarantee: Guarantee) -> Result<Report, Failure> {
    let scene = Scene::set(setup, guarantee).await?;
    let bar = progress_bar(guarantee);
    let result = scene.play(&bar).await;
    bar.finish_and_clear();
    if !setup.arguments.keep && result.is_ok() {
        setup.cluster.delete_topics(&scene.prefix).await?;
    }
    result
}

/// Where one guarantee is played.
struct Scene<'a> {
    setup: &'a Setup,
    guarantee: Guarantee,
    client: Client,
    prefix: String,
    lines: TopicName,
    word_counts: TopicName,
    /// The application's id; also its group's, and what its internal topics' names begin with.
    application: String,
    group: GroupId,
}

impl<'a> Scene<'a> {
    async fn set(setup: &'a Setup, guarantee: Guarantee) -> Result<Self, Failure> {
        let prefix = format!("{}.{}", setup.arguments.prefix, guarantee.name());
        let lines = TopicName::from(format!("{prefix}.lines"));
        let word_counts = TopicName::from(format!("{prefix}.word-counts"));
        let application = format!("{prefix}.{}", setup.run_id);
        let topics = [&lines, &word_counts].map(|name| NewTopic::new(name.clone(), setup.arguments.partitions));
        setup.cluster.fresh_topics(&prefix, &topics).await?;
        let group = GroupId::from(&application);
        Ok(Self {
            setup,
            guarantee,
            client: setup.cluster.client().clone(),
            prefix,
            lines,
            word_counts,
            application,
            group,
        })
    }

    async fn play(&self, bar: &ProgressBar) -> Result<Report, Failure> {
        let started = Instant::now();
        let (written_sender, written) = watch::channel(0);
        let (read_sender, records_read) = watch::channel(0);
        let (all_struck_sender, all_struck) = watch::channel(false);
        let (asks, asked) = mpsc::unbounded_channel();
        let loader = Loader {
            client: self.client.clone(),
            topic: self.lines.clone(),
            partitions: self.setup.arguments.partitions,
            group: self.group.clone(),
            guarantee: self.guarantee,
            lines: Arc::clone(&self.setup.lines),
            written: written_sender,
        };
        let mut loader = Aside::start(loader.run(all_struck));
        let mut reader =
            Aside::start(read(self.client.clone(), self.partitions(&self.word_counts), asked, read_sender));
        let shown = Shown { bar, words_per_line: self.words_per_line(), written, records_read: records_read.clone() };

        let mut play = Play {
            scene: self,
            worker: self.start_worker(&process_id(0))?,
            takeovers: 0,
            schedule: Schedule::new(self.setup.seed, self.setup.arguments.kills, self.setup.arguments.kill_wait_ms_max),
            totals: Status::default(),
            zombie: ZombieOutcome::None,
            asks,
        };
        let strikes = play.strike_all(&shown);
        tokio::select! {
            done = strikes => done?,
            failure = loader.failed() => return Err(failure),
            failure = reader.failed() => return Err(failure),
        }
        all_struck_sender.send_replace(true);

        let repeats = play.worker.alive(loader.result()).await??;
        tokio::select! {
            drained = play.drain(&shown, &records_read) => drained?,
            failure = reader.failed() => return Err(failure),
        }
        let elapsed = started.elapsed();
        let (totals, schedule, zombie) = play.end().await?;
        let Readings { checker, recoveries } = reader.result().await?;

        let direct = &self.setup.direct;
        let verdict = checker.verdict(direct, repeats);
        Ok(Report {
            guarantee: self.guarantee,
            verdict,
            repeats,
            kills: schedule.counted(),
            zombie,
            committed: totals.committed,
            aborted: totals.aborted,
            fenced: totals.fenced,
            recoveries,
            elapsed,
            faults: checker.faults(direct, repeats, 10),
            seed: self.setup.seed,
        })
    }

    fn words_per_line(&self) -> u64 {
        (self.setup.direct.words() / self.setup.lines.len().max(1) as u64).max(1)
    }

    fn partitions(&self, topic: &TopicName) -> Vec<TopicPartition> {
        (0..self.setup.arguments.partitions).map(|index| TopicPartition::new(topic.clone(), index)).collect()
    }

    fn start_worker(&self, process_id: &str) -> Result<WorkerProcess, Failure> {
        let arguments = &self.setup.arguments;
        let folder = self.setup.cluster.workers_folder().join(&self.application).join(process_id);
        std::fs::create_dir_all(&folder).or_failure(
            || format!("cannot make {}", folder.display()),
            "name a folder that can be written with --data-dir",
        )?;
        let log = folder.with_extension("log");
        let command_line = worker::Arguments {
            bootstrap_servers: self.setup.cluster.bootstrap_servers().to_owned(),
            application_id: self.application.clone(),
            process_id: process_id.to_owned(),
            source: self.lines.to_string(),
            sink: self.word_counts.to_string(),
            guarantee: self.guarantee,
            workers: arguments.workers,
            state_dir: folder,
            commit_interval_ms: arguments.commit_interval_ms,
            session_timeout_ms: arguments.session_timeout_ms,
            transaction_timeout_ms: arguments.transaction_timeout_ms,
        };
        WorkerProcess::start(process_id, &command_line.to_command_line(), &log)
    }

    async fn is_input_left(&self) -> Result<bool, Failure> {
        is_input_left(&self.client, &self.group, &self.lines, self.setup.arguments.partitions).await
    }

    async fn ends(
        &self,
        partitions: &[TopicPartition],
        isolation: Isolation,
    ) -> Result<BTreeMap<TopicPartition, Offset>, Failure> {
        let asked: Vec<_> = partitions.iter().map(|partition| (partition.clone(), OffsetSpec::Latest)).collect();
        let listed = self.client.admin().list_offsets(&asked, isolation).await;
        let listed = listed.or_failure(|| "cannot look up the ends of topics".into(), CLUSTER_NEXT)?;
        Ok(listed.into_iter().map(|(partition, listed)| (partition, listed.offset.unwrap_or_default())).collect())
    }

    /// The partitions that the application reads from: the lines, and the words between its two halves.
    async fn sources(&self) -> Result<Vec<TopicPartition>, Failure> {
        let admin = self.client.admin();
        let failed = || "cannot look up the application's topics".to_owned();
        let topics = admin.list_topics().await.or_failure(failed, CLUSTER_NEXT)?;
        let own = format!("{}-", self.application);
        let repartition = topics
            .into_iter()
            .filter(|topic| topic.name.as_str().starts_with(&own) && topic.name.as_str().ends_with("-repartition"))
            .flat_map(|topic| (0..topic.partitions).map(move |index| TopicPartition::new(topic.name.clone(), index)));
        Ok(self.partitions(&self.lines).into_iter().chain(repartition).collect())
    }

    /// Whether the group has committed all records of its sources. Committed offsets may stop short of the end where only the marker of a
    /// transaction follows, so what lies between is looked at.
    async fn is_drained(&self) -> Result<bool, Failure> {
        let sources = self.sources().await?;
        let ends = self.ends(&sources, Isolation::ReadUncommitted).await?;
        let committed = self.client.admin().committed_offsets(&self.group, &sources, false).await;
        let committed =
            committed.or_failure(|| format!("cannot read what {} has committed", self.group), CLUSTER_NEXT)?;
        let mut short = Vec::new();
        for (partition, end) in ends {
            let at = committed.get(&partition).map_or(0, |committed| committed.offset);
            if at < end {
                if partition.topic == self.lines {
                    return Ok(false);
                }
                short.push((partition, at, end));
            }
        }
        self.hold_no_records(short).await
    }

    /// Whether there is no record in any of these ranges, once they are stable.
    async fn hold_no_records(&self, ranges: Vec<(TopicPartition, Offset, Offset)>) -> Result<bool, Failure> {
        if ranges.is_empty() {
            return Ok(true);
        }
        let failed = || "cannot read the application's topics".to_owned();
        let places = ranges.iter().map(|(partition, at, _)| (partition.clone(), Position::Offset(*at)));
        let mut consumer = self
            .client
            .consumer()
            .isolation(Isolation::ReadCommitted)
            .assign(places)
            .await
            .or_failure(failed, CLUSTER_NEXT)?;
        let until = Instant::now() + Duration::from_secs(2);
        loop {
            let at_end = |(partition, _, end): &(TopicPartition, Offset, Offset)| {
                consumer.position(partition).is_some_and(|at| at >= *end)
            };
            if ranges.iter().all(at_end) {
                return Ok(true);
            }
            match consumer.next_event(LOOK_INTERVAL).await.or_failure(failed, CLUSTER_NEXT)? {
                Some(ConsumerEvent::Batch(batch)) if !batch.is_empty() => return Ok(false),
                Some(_) | None if Instant::now() > until => return Ok(false),
                Some(_) | None => {}
            }
        }
    }
}

/// The strikes, and what they have led to so far.
struct Play<'a> {
    scene: &'a Scene<'a>,
    worker: WorkerProcess,
    /// How often another worker took over from a zombie: each has a process id, and a folder, of its own.
    takeovers: u32,
    schedule: Schedule,
    /// What workers that are gone have reported.
    totals: Status,
    zombie: ZombieOutcome,
    asks: mpsc::UnboundedSender<Ask>,
}

impl Play<'_> {
    /// Strikes until every strike has counted.
    async fn strike_all(&mut self, shown: &Shown<'_>) -> Result<(), Failure> {
        while let Some(plan) = self.schedule.plan() {
            shown.show(self.schedule.counted(), self.scene.setup.arguments.kills);
            self.wait_for(plan, shown).await?;
            // A worker that has nothing to do is not worth a strike: the loader will bring more.
            if !self.worker.alive(self.scene.is_input_left()).await?? {
                self.worker.alive(tokio::time::sleep(LOOK_INTERVAL)).await?;
                continue;
            }
            match plan.strike {
                Strike::Kill => self.kill().await?,
                Strike::Zombie => self.zombie(shown).await?,
            }
        }
        shown.show(self.schedule.counted(), self.scene.setup.arguments.kills);
        Ok(())
    }

    async fn wait_for(&mut self, plan: Plan, shown: &Shown<'_>) -> Result<(), Failure> {
        match plan.since {
            Since::Start => {}
            Since::FirstCommit => {
                let until = Instant::now() + STUCK_AFTER;
                // In slices, so that the bar moves.
                while !self.worker.until(Duration::from_millis(200), |status| status.committed > 0).await? {
                    shown.show(self.schedule.counted(), self.scene.setup.arguments.kills);
                    if Instant::now() > until {
                        return Err(self.stuck("commits nothing").await);
                    }
                }
            }
        }
        self.worker.alive(tokio::time::sleep(plan.wait)).await
    }

    /// SIGKILL, and a new start under the same process id: it rejoins at once.
    async fn kill(&mut self) -> Result<(), Failure> {
        let at = Instant::now();
        self.totals = self.totals.plus(self.worker.kill().await?);
        let counts = self.scene.is_input_left().await?;
        let results = self.scene.partitions(&self.scene.word_counts);
        let ends = self.scene.ends(&results, Isolation::ReadUncommitted).await?;
        // Its successor aborts it, before it does anything else; the dead one could not report that.
        let left_open = self.scene.ends(&results, Isolation::ReadCommitted).await? != ends;
        self.totals.aborted += u64::from(left_open);
        self.worker = self.scene.start_worker(&process_id(self.takeovers))?;
        if counts {
            self.schedule.count();
            // The reader ends only when it was told to, or has failed: then the demo ends with its failure.
            let _ = self.asks.send(Ask::Killed { at, ends });
        }
        Ok(())
    }

    /// SIGSTOP; another worker, with a process id of its own, takes over; SIGCONT, and the first must be refused.
    async fn zombie(&mut self, shown: &Shown<'_>) -> Result<(), Failure> {
        self.worker.stop()?;
        let fenced_before = self.worker.status().fenced;
        let counts = self.scene.is_input_left().await?;
        let first_id = process_id(self.takeovers);
        self.takeovers += 1;
        let mut second = self.scene.start_worker(&process_id(self.takeovers))?;
        let until = Instant::now() + STUCK_AFTER;
        while !second.until(Duration::from_millis(200), |status| status.committed > 0).await? {
            shown.show(self.schedule.counted(), self.scene.setup.arguments.kills);
            if Instant::now() > until {
                std::mem::swap(&mut self.worker, &mut second);
                return Err(self.stuck("was to take over from a stopped worker, and commits nothing").await);
            }
        }
        self.worker.wake()?;
        let refused = self.worker.until(REFUSAL_LIMIT, |status| status.fenced > fenced_before).await?;
        // It joins again after that, as it should; the demo goes on with the second alone.
        std::mem::swap(&mut self.worker, &mut second);
        let mut first = second;
        let (status, _) = first.end(END_LIMIT).await?;
        self.totals = self.totals.plus(status);
        self.remove_from_group(&first_id).await;
        // Otherwise it had nothing left to do when it was stopped, and there is another one.
        if counts {
            self.schedule.count();
        }
        self.zombie = if refused { ZombieOutcome::Refused } else { ZombieOutcome::NotRefused };
        Ok(())
    }

    /// A static member that comes back no more keeps its partitions until its session ends, unless it is taken out of the group. If it has
    /// left by itself, there is nothing to take out.
    async fn remove_from_group(&self, process_id: &str) {
        let instances: Vec<GroupInstanceId> =
            (0..self.scene.setup.arguments.workers).map(|index| worker::instance_id(process_id, index)).collect();
        if let Err(error) = self.scene.client.admin().remove_group_members(&self.scene.group, &instances).await {
            tracing::debug!(%error, process_id, "not taken out of the group; its session will end");
        }
    }

    /// Waits until all input is committed.
    async fn drain(&mut self, shown: &Shown<'_>, records_read: &watch::Receiver<u64>) -> Result<(), Failure> {
        let mut seen = (*records_read.borrow(), self.worker.status());
        let mut since = Instant::now();
        while !self.worker.alive(self.scene.is_drained()).await?? {
            shown.show(self.schedule.counted(), self.scene.setup.arguments.kills);
            let now = (*records_read.borrow(), self.worker.status());
            if now != seen {
                (seen, since) = (now, Instant::now());
            } else if since.elapsed() > STUCK_AFTER {
                return Err(self.stuck("has input left and makes no progress").await);
            }
            self.worker.alive(tokio::time::sleep(LOOK_INTERVAL)).await?;
        }
        Ok(())
    }

    /// Ends the last worker and lets the reader read to the end.
    async fn end(mut self) -> Result<(Status, Schedule, ZombieOutcome), Failure> {
        let (status, clean) = self.worker.end(END_LIMIT).await?;
        if !clean {
            let last_words = self.worker.last_words();
            return Err(Failure::new(
                format!(
                    "the worker {} did not end cleanly at SIGTERM; its last words:\n{last_words}",
                    process_id(self.takeovers)
                ),
                "that should not happen: please report it with the words above",
            ));
        }
        let results = self.scene.partitions(&self.scene.word_counts);
        // An aborted transaction of a killed worker may still have to be ended where nobody took its id over.
        let until = Instant::now() + STUCK_AFTER;
        let ends = loop {
            let stable = self.scene.ends(&results, Isolation::ReadCommitted).await?;
            let ends = self.scene.ends(&results, Isolation::ReadUncommitted).await?;
            if stable == ends {
                break ends;
            }
            if Instant::now() > until {
                return Err(Failure::new(
                    format!(
                        "a transaction on {} is still open, with no worker left that could end it",
                        self.scene.word_counts
                    ),
                    "that should not happen: the coordinator should have timed it out; please report it",
                ));
            }
            tokio::time::sleep(LOOK_INTERVAL).await;
        };
        // If the reader is gone it has failed, and its failure is what the demo ends with.
        let _ = self.asks.send(Ask::ReadTo(ends));
        Ok((self.totals.plus(status), self.schedule, self.zombie))
    }

    async fn stuck(&self, what: &str) -> Failure {
        let ends = match self.scene.sources().await {
            Ok(sources) => {
                let ends = self.scene.ends(&sources, Isolation::ReadUncommitted).await.unwrap_or_default();
                let stable = self.scene.ends(&sources, Isolation::ReadCommitted).await.unwrap_or_default();
                let committed = self
                    .scene
                    .client
                    .admin()
                    .committed_offsets(&self.scene.group, &sources, false)
                    .await
                    .unwrap_or_default();
                let describe = |(partition, end): (&TopicPartition, &Offset)| {
                    let committed = committed.get(partition).map_or(0, |committed| committed.offset);
                    let stable = stable.get(partition).copied().unwrap_or_default();
                    format!("  {partition}: committed {committed}, last stable {stable}, end {end}")
                };
                ends.iter().map(describe).collect::<Vec<_>>().join("\n")
            }
            Err(failure) => failure.to_string(),
        };
        Failure::new(
            format!(
                "the worker {} {what}, for {} seconds; it says {:?}\n{ends}\nits last words:\n{}",
                process_id(self.takeovers),
                STUCK_AFTER.as_secs(),
                self.worker.status(),
                self.worker.last_words()
            ),
            format!(
                "that should not happen: please report it with the words above, and seed {}",
                self.scene.setup.seed
            ),
        )
    }
}

/// The name of the first worker, and of those who took over after it.
fn process_id(takeovers: u32) -> String {
    format!("worker-{takeovers}")
}

/// A task beside the play; it ends with its owner.
struct Aside<T> {
    task: JoinHandle<Result<T, Failure>>,
}

impl<T: Send + 'static> Aside<T> {
    fn start(work: impl Future<Output = Result<T, Failure>> + Send + 'static) -> Self {
        Self { task: tokio::spawn(work) }
    }

    /// Its failure, as soon as there is one; it must not end well before it is asked to.
    async fn failed(&mut self) -> Failure {
        match self.result().await {
            Err(failure) => failure,
            Ok(_) => std::future::pending().await,
        }
    }

    /// Its result; once.
    async fn result(&mut self) -> Result<T, Failure> {
        match (&mut self.task).await {
            Ok(result) => result,
            Err(error) => Err(error).or_failure(|| "a part of the demo broke".into(), "please report it"),
        }
    }
}

impl<T> Drop for Aside<T> {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// How far it is, for a person who waits.
struct Shown<'a> {
    bar: &'a ProgressBar,
    words_per_line: u64,
    written: watch::Receiver<u64>,
    records_read: watch::Receiver<u64>,
}

impl Shown<'_> {
    fn show(&self, counted: u32, kills: u32) {
        let loaded = *self.written.borrow() * self.words_per_line;
        let read = *self.records_read.borrow();
        self.bar.set_length(loaded.max(read));
        self.bar.set_position(read);
        self.bar.set_message(format!("kills {counted}/{kills}"));
    }
}

fn progress_bar(guarantee: Guarantee) -> ProgressBar {
    let bar = ProgressBar::new(0);
    let style = ProgressStyle::with_template("{prefix:13} {wide_bar} {human_pos}/{human_len} words, {msg}, {elapsed}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar.set_prefix(guarantee.name());
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}
