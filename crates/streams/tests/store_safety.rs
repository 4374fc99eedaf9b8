//! Stores that are not what they should be, spoilt on purpose: each is set aside under a name that says so, rebuilt from its change log, and told of. What
//! comes out afterwards is right, though what lay in the store was wrong.

#[allow(dead_code, reason = "other tests use the rest")]
mod cluster;

use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use atonce::client::{Position, ProducerRecord, TopicPartition};
use atonce::error::WorkerError;
use atonce::{
    Application, DiskEngine, Error, RestoreListener, RestoringStore, TaskId, TopologyBuilder, WorkerVerdict, store,
};
use atonce_kernel::{Timestamp, Uuid};
use atonce_streams_core::Guarantee;
use atonce_streams_core::store::{Direction, StoreBatch, StoreEngine, StorePosition};
use cluster::{Cluster, assert_exact, total};

const PARTITIONS: i32 = 1;

/// The task that counts.
const TASK: TaskId = TaskId { subtopology: 1, partition: 0 };

/// A store that was set aside, why, and where it lies.
type Told = (String, String, Option<PathBuf>);

#[derive(Clone, Debug, Default)]
struct SetAside(Arc<Mutex<Vec<Told>>>);

impl RestoreListener for SetAside {
    fn on_store_set_aside(&self, store: &RestoringStore<'_>, reason: &str, kept: Option<&Path>) {
        let name = format!("{}.{}", store.task, store.store);
        self.0.lock().unwrap().push((name, reason.to_owned(), kept.map(Path::to_owned)));
    }
}

struct World {
    cluster: Cluster,
    state: tempfile::TempDir,
    lines: Vec<String>,
    all: Vec<String>,
}

impl World {
    /// Every line has been counted once.
    async fn start(test: &str, lines: Vec<String>) -> Self {
        let cluster = Cluster::start(test).await;
        cluster.create("lines", PARTITIONS).await;
        cluster.create("word-counts", PARTITIONS).await;
        let mut world = Self { cluster, state: tempfile::tempdir().unwrap(), lines, all: Vec::new() };
        assert_eq!(world.count_again(None).await, []);
        world
    }

    /// Counts all lines once more, and returns which stores were set aside.
    async fn count_again(&mut self, guarantee: Option<Guarantee>) -> Vec<Told> {
        let heard = SetAside::default();
        self.cluster.load(&self.lines, PARTITIONS).await;
        self.all.extend(self.lines.clone());
        let running = Application::builder(self.cluster.name("app"), self.cluster.word_count())
            .bootstrap_servers(self.cluster.bootstrap_servers.as_str())
            .guarantee(guarantee.unwrap_or(Guarantee::ExactlyOnce))
            .commit_interval(Duration::from_millis(30))
            .session_timeout(Duration::from_secs(6))
            .state_dir(self.state.path())
            .restore_listener(heard.clone())
            .start()
            .await
            .unwrap();
        assert_exact(&self.cluster.counts(total(&self.all)).await, &self.all);
        let heard = heard.0.lock().unwrap().clone();
        assert_eq!(running.statistics().rebuilt_stores, heard.len() as u64);
        running.close().await.unwrap();
        heard
    }

    fn stores(&self) -> PathBuf {
        self.state.path().join(self.cluster.name("app")).join("stores")
    }

    /// Makes all counts of the store wrong, and its position what `change` makes of it.
    fn spoil(&self, change: impl FnOnce(StorePosition) -> StorePosition) {
        let mut engine = DiskEngine::open(self.stores()).unwrap();
        let mut store = engine.open(TASK, "counts").unwrap();
        let entries = store.scan(Bound::Unbounded, Bound::Unbounded, Direction::Ascending, usize::MAX).unwrap();
        assert!(!entries.is_empty());
        let wrong = |value: &[u8]| [&value[..8], &1_000_000_i64.to_be_bytes()].concat().into();
        let changes = entries.into_iter().map(|(key, value)| (key, Some(wrong(&value)))).collect();
        let position = change(store.position().unwrap());
        store.apply(StoreBatch { changes, position: Some(position) }).unwrap();
        store.sync().unwrap();
    }

    /// The engine's own interface, below ours.
    fn below<T>(&self, work: impl FnOnce(&fjall::Database, &fjall::Keyspace) -> T) -> T {
        let database = fjall::Database::builder(self.stores()).open().unwrap();
        let keyspace = database.keyspace("1_0.counts", fjall::KeyspaceCreateOptions::default).unwrap();
        let worked = work(&database, &keyspace);
        database.persist(fjall::PersistMode::SyncAll).unwrap();
        worked
    }

    #[track_caller]
    fn assert_set_aside(&self, heard: &[Told], reason: &str) {
        let [(store, why, Some(kept))] = heard else { panic!("one store, and where it is kept: {heard:?}") };
        assert_eq!(store, "1_0.counts");
        assert!(why.contains(reason), "{why}");
        assert_eq!(*kept, self.stores().with_file_name("stores.untrusted").join("1_0.counts"));
        let told = std::fs::read_to_string(kept.join("reason.txt")).unwrap();
        assert_eq!(told.trim(), why);
        assert!(!files(kept, "tables").is_empty(), "what it held is kept");
    }
}

/// All files below `path` that lie in a folder of that name.
fn files(path: &Path, folder: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(path).unwrap() {
        let entry = entry.unwrap().path();
        if entry.is_dir() {
            found.extend(files(&entry, folder));
        } else if path.ends_with(folder) {
            found.push(entry);
        }
    }
    found
}

fn some_lines() -> Vec<String> {
    cluster::lines(3, 100)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_whose_position_cannot_be_trusted_is_set_aside_and_rebuilt_whatever_is_wrong_with_it() {
    let mut world = World::start("position", some_lines()).await;

    // It fails its checksum.
    world.spoil(|position| position);
    world.below(|_, keyspace| {
        let mut position = keyspace.get(b"\0position").unwrap().unwrap().to_vec();
        position[20] ^= 1;
        keyspace.insert(b"\0position", position).unwrap();
    });
    let heard = world.count_again(None).await;
    world.assert_set_aside(&heard, "it has data, but no readable position");

    // It lies beyond the end of its change log.
    world.spoil(|position| StorePosition { offset: position.offset + 1000, ..position });
    let heard = world.count_again(None).await;
    world.assert_set_aside(&heard, "it lies beyond its change log's end");

    // Its change log was another topic.
    world.spoil(|position| StorePosition { topic_id: Uuid([7; 16]), ..position });
    let heard = world.count_again(None).await;
    world.assert_set_aside(&heard, "its change log is another topic now");

    // It is behind, and older than half the time that its change log keeps tombstones, 24 h.
    let hours_ago = |position: StorePosition, hours: i64| Timestamp(position.written_at.0 - hours * 3_600_000);
    world.spoil(|position| StorePosition { offset: 0, written_at: hours_ago(position, 13), ..position });
    let heard = world.count_again(None).await;
    world.assert_set_aside(&heard, "ms old and behind: tombstones are kept for 86400000 ms");

    // Younger than that it replays its tail, here all of it, and is right again.
    world.spoil(|position| StorePosition { offset: 0, written_at: hours_ago(position, 11), ..position });
    assert_eq!(world.count_again(None).await, []);

    // It may hold what exactly once would not have let through.
    world.spoil(|position| StorePosition { guarantee: Guarantee::AtLeastOnce, ..position });
    let heard = world.count_again(None).await;
    world.assert_set_aside(&heard, "it was written under");

    // And one with which nothing is wrong is left alone.
    assert_eq!(world.count_again(None).await, []);
}

/// Words that are not read again while they are new.
fn many_words() -> Vec<String> {
    (0..400)
        .map(|line| (0..10).map(|word| format!("word-{:05}", line * 10 + word)).collect::<Vec<_>>().join(" "))
        .collect()
}

/// Writes memtables to disk, and spoils a byte of each table at that part of its length.
fn spoil_tables(world: &World, percent: usize) {
    let keyspace = world.below(|_, keyspace| {
        keyspace.rotate_memtable_and_wait().unwrap();
        keyspace.path().to_owned()
    });
    let tables = files(&keyspace, "tables");
    assert!(!tables.is_empty());
    for table in tables {
        let mut bytes = std::fs::read(&table).unwrap();
        let place = bytes.len() * percent / 100;
        bytes[place] ^= 0xff;
        std::fs::write(&table, bytes).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_with_a_damaged_block_is_set_aside_and_rebuilt_while_the_worker_goes_on() {
    let mut world = World::start("block", many_words()).await;
    spoil_tables(&world, 40);
    let heard = world.count_again(None).await;
    world.assert_set_aside(&heard, "ChecksumMismatch");
    // As well where the position lies, which is looked at first.
    spoil_tables(&world, 0);
    let heard = world.count_again(None).await;
    let [(store, _, Some(kept))] = &heard[..] else { panic!("{heard:?}") };
    assert!(store == "1_0.counts" && kept.exists(), "{heard:?}");
    assert_eq!(world.count_again(None).await, []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stores_that_cannot_be_opened_are_set_aside_with_their_folder() {
    let mut world = World::start("folder", some_lines()).await;
    world.below(|_, keyspace| keyspace.rotate_memtable_and_wait().unwrap());
    for table in files(&world.stores(), "tables") {
        std::fs::File::options().write(true).open(table).unwrap().set_len(3).unwrap();
    }
    let heard = world.count_again(None).await;
    let [(store, why, Some(kept))] = &heard[..] else { panic!("{heard:?}") };
    assert_eq!(store, "1_0.counts");
    assert!(why.starts_with("the stores of this process could not be opened"), "{why}");
    assert_eq!(*kept, world.stores().with_file_name("stores.untrusted-1"));
    assert!(kept.is_dir());
    assert_eq!(world.count_again(None).await, []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_the_engine_gave_up_every_store_is_read_before_it_is_used() {
    let mut world = World::start("suspect", many_words()).await;
    spoil_tables(&world, 40);
    // What it leaves when it gave up, having met the damage while it compacted.
    let marker = world.stores().with_file_name("stores.suspect");
    std::fs::write(&marker, "").unwrap();
    drop(DiskEngine::open(world.stores()).unwrap());
    assert!(!marker.exists());
    assert!(world.stores().with_file_name("stores.untrusted").join("1_0.counts").join("reason.txt").exists());
    // It is gone already when the application starts.
    assert_eq!(world.count_again(None).await, []);
}

/// The disk fails while the engine writes a memtable: from then on it refuses all writes. Workers that take the places of those that ended for it open it
/// anew, with what was there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "failed once for a reason not yet known, waiting for the workers to be replaced: by itself, with --ignored"]
async fn an_engine_that_gave_up_is_opened_anew_by_the_worker_that_is_put_in_the_place_of_another() {
    const KEYS: usize = 60;
    let cluster = Cluster::start("gave-up").await;
    cluster.create("in", 2).await;
    cluster.create("out", 2).await;
    let state = tempfile::tempdir().unwrap();
    let builder = TopologyBuilder::new();
    builder
        .stream::<String, String>(cluster.name("in"))
        .group_by_key()
        .reduce(|_, value| value, store("values"))
        .to_stream()
        .map_values(|value| i64::try_from(value.map_or(0, |value| value.len())).unwrap())
        .to(cluster.name("out"));
    let stores = state.path().join(cluster.name("app")).join("stores");
    let is_well_again = Arc::new(AtomicU64::new(0));
    let (replaced, spoilt) = (Arc::clone(&is_well_again), stores.clone());
    let mut running = Application::builder(cluster.name("app"), builder.build().unwrap())
        .bootstrap_servers(cluster.bootstrap_servers.as_str())
        .commit_interval(Duration::from_millis(30))
        .session_timeout(Duration::from_secs(6))
        .workers(2)
        .state_dir(state.path())
        .on_worker_error(move |error| {
            assert!(matches!(error, Error::Worker { source: WorkerError::Store(_), .. }), "{error}");
            if replaced.fetch_add(1, Ordering::SeqCst) == 0 {
                move_tables(&spoilt, "elsewhere", "tables");
            }
            WorkerVerdict::Replace
        })
        .start()
        .await
        .unwrap();
    running.wait_until_running().await;
    // Folders that are not there cannot be written to, whoever asks.
    assert!(move_tables(&stores, "tables", "elsewhere") >= 2);
    let producer = cluster.client.producer().start().await.unwrap();
    for key in 0..KEYS {
        // More than a memtable holds, in one of the two tasks: the other worker writes nothing.
        let record = ProducerRecord::to(cluster.name("in")).partition(0).key(format!("key-{key}"));
        let _delivery = producer.send(record.value("v".repeat(500_000))).await.unwrap();
    }
    producer.flush().await.unwrap();
    until("both workers are replaced", || is_well_again.load(Ordering::SeqCst) >= 2).await;
    for partition in 0..2 {
        let record = ProducerRecord::to(cluster.name("in")).partition(partition).key(format!("last-{partition}"));
        let _delivery = producer.send(record.value("v")).await.unwrap();
    }
    producer.close().await.unwrap();
    let all = (0..2).map(|index| (TopicPartition::new(cluster.name("out"), index), Position::Earliest));
    let mut consumer = cluster.client.consumer().read_committed().assign(all).await.unwrap();
    let mut found: Vec<String> = Vec::new();
    let reading = async {
        while found.len() < KEYS + 2 {
            let batch = consumer.next_batch().await.unwrap().unwrap();
            found.extend(batch.into_iter().map(|it| String::from_utf8(it.key.unwrap().to_vec()).unwrap()));
        }
    };
    tokio::time::timeout(Duration::from_secs(60), reading).await.expect("all is processed");
    found.sort_unstable();
    let mut expected: Vec<String> = (0..KEYS).map(|key| format!("key-{key}")).collect();
    expected.extend((0..2).map(|partition| format!("last-{partition}")));
    expected.sort_unstable();
    assert_eq!(found, expected, "each once");
    assert_eq!(running.statistics().rebuilt_stores, 0, "what the stores held was whole");
    running.close().await.unwrap();
}

/// Renames the folders of that name in all stores; says how many there were.
fn move_tables(stores: &Path, from: &str, to: &str) -> usize {
    let mut moved = 0;
    for keyspace in std::fs::read_dir(stores.join("keyspaces")).unwrap() {
        let keyspace = keyspace.unwrap().path();
        if keyspace.join(from).is_dir() {
            // What lies in the other place was made meanwhile, and holds nothing.
            let _ = std::fs::remove_dir_all(keyspace.join(to));
            std::fs::rename(keyspace.join(from), keyspace.join(to)).unwrap();
            moved += 1;
        }
    }
    moved
}

async fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let started = std::time::Instant::now();
    while !condition() {
        assert!(started.elapsed() < Duration::from_secs(60), "waited a minute: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
