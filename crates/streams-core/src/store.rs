//! State: engines of bytes behind [`StateStore`], and over them the changes of the interval, which only a known commit lets through.
//!
//! What the interval has changed, and what was read or committed lately, stand in one map: a read looks there, then at the engine, and a key
//! that was touched costs one look each time. The engine's only write is
//! [`StateStore::apply`]: changes and change-log position in one atomic batch. So an engine never holds what did not commit, and
//! a crash costs the tail of the change log, never the store.
//!
//! Local layout of a value: `timestamp i64, big-endian | value`; the change log has the plain value, and the time as the record's.
//!
//! **What it does not know**: where an engine keeps its bytes; topics' ids and ends (see [`crate::restore`]).

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{BuildHasherDefault, Hasher};
use std::marker::PhantomData;
use std::ops::Bound;

use atonce_kernel::{Offset, Timestamp, TopicId, TopicName, TopicPartition};
use bytes::{BufMut, Bytes, BytesMut};

use crate::commit::Guarantee;
use crate::failure::batch_bytes;
use crate::record::ChangelogRecord;
use crate::task::TaskId;
use crate::wire::{Wire, WireError};

/// An engine that keeps one store of one task.
pub trait StateStore: Send {
    /// The value of `key`.
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, StoreError>;

    /// Up to `limit` entries between two keys, in the order of the keys' bytes, or against it.
    fn scan(
        &self,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        direction: Direction,
        limit: usize,
    ) -> Result<Vec<(Bytes, Bytes)>, StoreError>;

    /// What the change log held, as far as this store has followed it; `None` if it is new.
    fn position(&self) -> Option<StorePosition>;

    /// Changes and position, all or nothing.
    ///
    /// Durability: survives the process; after a loss of power the store may be any earlier state of itself, whole.
    fn apply(&mut self, batch: StoreBatch) -> Result<(), StoreError>;

    /// Makes everything applied durable: for a clean close.
    fn sync(&mut self) -> Result<(), StoreError> {
        Ok(())
    }
}

/// Which end a scan begins at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the smallest key.
    Ascending,
    /// From the largest.
    Descending,
}

/// What is applied to a store at once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoreBatch {
    /// New values by key; `None` deletes. A key stands once.
    pub changes: Vec<(Bytes, Option<Bytes>)>,
    /// The position that holds with these changes. `None` leaves it as it is: it is a lower bound.
    pub position: Option<StorePosition>,
}

/// How far a store has followed its change log, and what makes that checkable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StorePosition {
    /// The change log's topic id: a topic deleted and made again has another.
    pub topic_id: TopicId,
    /// The next offset to replay.
    pub offset: Offset,
    /// The leader epoch of the last record followed, if known.
    pub leader_epoch: Option<i32>,
    /// When this was written: tombstones younger than that are still in the change log.
    pub written_at: Timestamp,
    /// Under which guarantee.
    pub guarantee: Guarantee,
}

impl StorePosition {
    /// Layout: `version u8 = 2 | topic_id 16 bytes | offset i64 | leader_epoch i32 (−1: unknown) | written_at i64 | guarantee u8 | crc32c u32`
    /// of what stands before it (42 bytes, big-endian).
    #[must_use]
    pub fn encode(&self) -> Bytes {
        let mut bytes = BytesMut::with_capacity(42);
        bytes.put_u8(2);
        bytes.put_slice(&self.topic_id.0);
        bytes.put_i64(self.offset);
        bytes.put_i32(self.leader_epoch.unwrap_or(-1));
        bytes.put_i64(self.written_at.0);
        bytes.put_u8(match self.guarantee {
            Guarantee::AtMostOnce => 0,
            Guarantee::AtLeastOnce => 1,
            Guarantee::ExactlyOnce => 2,
        });
        bytes.put_u32(crc32c::crc32c(&bytes));
        bytes.freeze()
    }

    /// The other way; `None` if the bytes are not a position that this version knows, or are not what was written.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (bytes, checksum) = bytes.split_last_chunk::<4>()?;
        if crc32c::crc32c(bytes) != u32::from_be_bytes(*checksum) {
            return None;
        }
        let (version, rest) = bytes.split_first_chunk::<1>()?;
        let (topic_id, rest) = rest.split_first_chunk::<16>()?;
        let (offset, rest) = rest.split_first_chunk::<8>()?;
        let (leader_epoch, rest) = rest.split_first_chunk::<4>()?;
        let (written_at, rest) = rest.split_first_chunk::<8>()?;
        let guarantee = match rest {
            [0] => Guarantee::AtMostOnce,
            [1] => Guarantee::AtLeastOnce,
            [2] => Guarantee::ExactlyOnce,
            _ => return None,
        };
        let leader_epoch = i32::from_be_bytes(*leader_epoch);
        (version == &[2]).then(|| Self {
            topic_id: atonce_kernel::Uuid(*topic_id),
            offset: Offset::from_be_bytes(*offset),
            leader_epoch: (leader_epoch >= 0).then_some(leader_epoch),
            written_at: Timestamp(i64::from_be_bytes(*written_at)),
            guarantee,
        })
    }
}

/// A store that did not do what it should.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The processor uses a store that it was not given.
    #[error("store {store} is not connected to this processor: name its handle where the processor is added")]
    NotConnected {
        /// The store.
        store: String,
    },
    /// Bytes in the store are not of the store's types.
    #[error("store {store}: {source}")]
    Bytes {
        /// The store.
        store: String,
        /// What is wrong with them.
        source: WireError,
    },
    /// A key whose bytes are null.
    #[error("store {store}: a key cannot be null")]
    NullKey {
        /// The store.
        store: String,
    },
    /// The change log could not take it: the commit would fail, and fail again.
    #[error(
        "store {store}: a change of {bytes} bytes is too large for its change log {topic}, which takes {max} (max.message.bytes)"
    )]
    TooLarge {
        /// The store.
        store: String,
        /// The change log.
        topic: TopicName,
        /// The change's batch.
        bytes: usize,
        /// What the topic takes.
        max: usize,
    },
    /// What the engine holds is not what was written there. The store's change log has everything.
    #[error("store {store} is damaged: {source}")]
    Damaged {
        /// The store.
        store: String,
        /// How it was seen, in the engine's words.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The engine failed.
    #[error("store {store}: {source}")]
    Engine {
        /// The store.
        store: String,
        /// Why, in the engine's words.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl StoreError {
    /// The failure of an engine behind `error`, if there is one: it says nothing of the record that met it.
    #[must_use]
    pub fn of_engine<'a>(error: &'a (dyn std::error::Error + 'static)) -> Option<&'a Self> {
        let mut next = Some(error);
        while let Some(error) = next {
            if let Some(found @ (Self::Damaged { .. } | Self::Engine { .. })) = error.downcast_ref() {
                return Some(found);
            }
            next = error.source();
        }
        None
    }
}

/// Opens the stores of tasks.
pub trait StoreEngine {
    /// Opens a store, empty if there is none.
    fn open(&mut self, task: TaskId, store: &str) -> Result<Box<dyn StateStore>, StoreError>;

    /// Throws away what a store holds, and opens it anew: it cannot be trusted, and its change log has everything.
    fn reset(&mut self, task: TaskId, store: &str) -> Result<Box<dyn StateStore>, StoreError>;

    /// Takes a store back when its task is closed or has crashed.
    fn keep(&mut self, task: TaskId, store: &str, engine: Box<dyn StateStore>);
}

/// A store in memory: for small state and for tests. It does not survive the process.
#[derive(Default, Debug)]
pub struct MemoryStore {
    entries: BTreeMap<Bytes, Bytes>,
    position: Option<StorePosition>,
}

impl StateStore for MemoryStore {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, StoreError> {
        Ok(self.entries.get(key).cloned())
    }

    fn scan(
        &self,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        direction: Direction,
        limit: usize,
    ) -> Result<Vec<(Bytes, Bytes)>, StoreError> {
        if is_empty_range(from, to) {
            return Ok(Vec::new());
        }
        let range = self.entries.range::<[u8], _>((from, to)).map(|(key, value)| (key.clone(), value.clone()));
        Ok(match direction {
            Direction::Ascending => range.take(limit).collect(),
            Direction::Descending => range.rev().take(limit).collect(),
        })
    }

    fn position(&self) -> Option<StorePosition> {
        self.position
    }

    fn apply(&mut self, batch: StoreBatch) -> Result<(), StoreError> {
        for (key, value) in batch.changes {
            match value {
                Some(value) => self.entries.insert(key, value),
                None => self.entries.remove(&key),
            };
        }
        self.position = batch.position.or(self.position);
        Ok(())
    }
}

/// Keeps [`MemoryStore`]s between two lives of a task, as a disk would.
#[derive(Default)]
pub struct MemoryEngine {
    kept: BTreeMap<(TaskId, String), Box<dyn StateStore>>,
}

impl MemoryEngine {
    /// Forgets every store that is not in use, as the loss of a disk does.
    pub fn forget(&mut self) {
        self.kept.clear();
    }
}

impl StoreEngine for MemoryEngine {
    fn open(&mut self, task: TaskId, store: &str) -> Result<Box<dyn StateStore>, StoreError> {
        Ok(self.kept.remove(&(task, store.to_owned())).unwrap_or_else(|| Box::new(MemoryStore::default())))
    }

    fn reset(&mut self, task: TaskId, store: &str) -> Result<Box<dyn StateStore>, StoreError> {
        self.kept.remove(&(task, store.to_owned()));
        Ok(Box::new(MemoryStore::default()))
    }

    fn keep(&mut self, task: TaskId, store: &str, engine: Box<dyn StateStore>) {
        self.kept.insert((task, store.to_owned()), engine);
    }
}

/// Whether no key can lie between the two: the standard library's trees panic on some of these.
#[must_use]
pub fn is_empty_range(from: Bound<&[u8]>, to: Bound<&[u8]>) -> bool {
    match (from, to) {
        (Bound::Unbounded, _) | (_, Bound::Unbounded) => false,
        (Bound::Included(from), Bound::Included(to)) => from > to,
        (Bound::Included(from) | Bound::Excluded(from), Bound::Excluded(to))
        | (Bound::Excluded(from), Bound::Included(to)) => from >= to,
    }
}

/// Values read or committed lately, so that a hot key is not read from the engine again after each commit.
/// Per store: some hundred thousand words with their counts; when it is full it begins anew.
const RECENT_BYTES_MAX: usize = 12 << 20;

/// The map's own cost for an entry, roughly.
const ENTRY_BYTES: usize = 96;

/// Entries that a scan asks an engine for at a time.
const SCAN_PAGE: usize = 256;

/// A value and its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stamped {
    /// The time of the record that set it.
    pub timestamp: Timestamp,
    /// The value's bytes.
    pub value: Bytes,
}

impl Stamped {
    fn encode(&self) -> Bytes {
        let mut bytes = BytesMut::with_capacity(8 + self.value.len());
        bytes.put_i64(self.timestamp.0);
        bytes.put_slice(&self.value);
        bytes.freeze()
    }

    fn decode(bytes: Bytes) -> Option<Self> {
        let timestamp = bytes.first_chunk::<8>()?;
        Some(Self { timestamp: Timestamp(i64::from_be_bytes(*timestamp)), value: bytes.slice(8..) })
    }
}

/// What is known of a key.
#[derive(Debug)]
struct Known {
    /// As this interval has it.
    value: Option<Stamped>,
    /// Its place among what the interval has changed; `None`: that is what was committed.
    change: Option<usize>,
}

/// A key that the interval has changed. Its new value is in the map.
#[derive(Debug)]
struct Changed {
    key: Bytes,
    /// Of the change, which may be a deletion.
    timestamp: Timestamp,
    committed: Committed,
}

/// What was committed of a key.
#[derive(Clone, Debug)]
enum Committed {
    /// The engine has to be asked.
    NotRead,
    Read(Option<Stamped>),
}

/// What stood before a change of the record that is being processed.
#[derive(Debug)]
struct Undo {
    key: Bytes,
    value: Option<Stamped>,
    /// When the interval had changed it before; `None`: it had not.
    changed_at: Option<Timestamp>,
}

/// What processors have asked of a store since its task was made, of what was undone later too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreCounts {
    /// Values read.
    pub gets: u64,
    /// Of these, those that the engine was not asked for.
    pub hits: u64,
    /// Values set.
    pub puts: u64,
    /// Keys deleted.
    pub deletes: u64,
    /// Scans begun.
    pub scans: u64,
}

/// One store of one task: an engine and, over it, what the interval has changed.
pub struct TaskStore {
    name: String,
    /// Where changes are logged; `None` for a store without a change log.
    changelog: Option<TopicPartition>,
    /// The largest batch that the change log takes, if known.
    changelog_bytes_max: Option<usize>,
    engine: Box<dyn StateStore>,
    known: HashMap<Bytes, Known, BuildHasherDefault<FixedHasher>>,
    known_bytes: usize,
    /// So many bytes, and what has not changed is forgotten.
    known_bytes_max: usize,
    /// The overlay: in the order of the keys' first changes in this interval.
    changed: Vec<Changed>,
    overlay_bytes: usize,
    /// The changed keys in their order, kept from the first scan on: most stores are never scanned.
    changed_in_order: Option<BTreeSet<Bytes>>,
    /// So that one record can be undone.
    undo: Option<Vec<Undo>>,
    counts: Cell<StoreCounts>,
}

impl TaskStore {
    /// `engine` with nothing over it.
    #[must_use]
    pub fn new(name: &str, changelog: Option<TopicPartition>, engine: Box<dyn StateStore>) -> Self {
        Self {
            name: name.to_owned(),
            changelog,
            changelog_bytes_max: None,
            engine,
            known: HashMap::default(),
            known_bytes: 0,
            known_bytes_max: RECENT_BYTES_MAX,
            changed: Vec::new(),
            overlay_bytes: 0,
            changed_in_order: None,
            undo: None,
            counts: Cell::default(),
        }
    }

    /// Refuses changes that its change log could not take.
    #[must_use]
    pub fn changelog_bytes_max(self, max: Option<usize>) -> Self {
        Self { changelog_bytes_max: max, ..self }
    }

    /// The store's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where changes are logged.
    #[must_use]
    pub fn changelog(&self) -> Option<&TopicPartition> {
        self.changelog.as_ref()
    }

    /// How far the engine has followed the change log.
    #[must_use]
    pub fn position(&self) -> Option<StorePosition> {
        self.engine.position()
    }

    /// Whether the engine holds anything.
    pub fn has_stored_data(&self) -> Result<bool, StoreError> {
        Ok(!self.engine.scan(Bound::Unbounded, Bound::Unbounded, Direction::Ascending, 1)?.is_empty())
    }

    /// Bytes of keys and values that wait for the commit.
    #[must_use]
    pub fn uncommitted_bytes(&self) -> usize {
        self.overlay_bytes
    }

    /// What was asked of it.
    #[must_use]
    pub fn counts(&self) -> StoreCounts {
        self.counts.get()
    }

    fn count(&self, change: impl FnOnce(&mut StoreCounts)) {
        let mut counts = self.counts.get();
        change(&mut counts);
        self.counts.set(counts);
    }

    /// The value of `key`, changes of this interval included.
    pub fn get(&mut self, key: &[u8]) -> Result<Option<Stamped>, StoreError> {
        self.count(|counts| counts.gets += 1);
        if let Some(known) = self.known.get(key) {
            self.count(|counts| counts.hits += 1);
            return Ok(known.value.clone());
        }
        let found = self.engine.get(key)?.map(|bytes| self.decode(bytes)).transpose()?;
        let key = Bytes::copy_from_slice(key);
        self.known_bytes += bytes_of(&key, found.as_ref());
        self.known.insert(key, Known { value: found.clone(), change: None });
        self.forget_some();
        Ok(found)
    }

    /// The value of `key` as of the last commit.
    pub fn committed(&self, key: &[u8]) -> Result<Option<Stamped>, StoreError> {
        if let Some(known) = self.known.get(key) {
            match known.change.and_then(|place| self.changed.get(place)).map(|changed| &changed.committed) {
                None => return Ok(known.value.clone()),
                Some(Committed::Read(value)) => return Ok(value.clone()),
                Some(Committed::NotRead) => {}
            }
        }
        self.engine.get(key)?.map(|bytes| self.decode(bytes)).transpose()
    }

    /// Sets or, with `None`, deletes `key`.
    ///
    /// Errors: the change log could not take the change.
    pub fn put(&mut self, key: Bytes, value: Option<Bytes>, timestamp: Timestamp) -> Result<(), StoreError> {
        if let (Some(max), Some(changelog)) = (self.changelog_bytes_max, &self.changelog) {
            let bytes = batch_bytes(Some(key.len()), value.as_ref().map(Bytes::len), &[]);
            if bytes > max {
                let (store, topic) = (self.name.clone(), changelog.topic.clone());
                return Err(StoreError::TooLarge { store, topic, bytes, max });
            }
        }
        self.count(|counts| match value {
            Some(_) => counts.puts += 1,
            None => counts.deletes += 1,
        });
        self.overlay_bytes += key.len() + value.as_ref().map_or(0, Bytes::len);
        let value = value.map(|value| Stamped { timestamp, value });
        self.known_bytes += value.as_ref().map_or(0, |stamped| stamped.value.len());
        let place = self.changed.len();
        let undo = match self.known.get_mut(&key) {
            Some(known) => {
                let before = std::mem::replace(&mut known.value, value);
                self.known_bytes -= before.as_ref().map_or(0, |stamped| stamped.value.len());
                let changed_at = match known.change.and_then(|place| self.changed.get_mut(place)) {
                    Some(changed) => Some(std::mem::replace(&mut changed.timestamp, timestamp)),
                    None => {
                        known.change = Some(place);
                        let committed = Committed::Read(before.clone());
                        self.changed.push(Changed { key: key.clone(), timestamp, committed });
                        None
                    }
                };
                Undo { key, value: before, changed_at }
            }
            None => {
                self.known_bytes += bytes_of(&key, None);
                self.known.insert(key.clone(), Known { value, change: Some(place) });
                self.changed.push(Changed { key: key.clone(), timestamp, committed: Committed::NotRead });
                Undo { key, value: None, changed_at: None }
            }
        };
        if let (Some(in_order), None) = (&mut self.changed_in_order, undo.changed_at) {
            in_order.insert(undo.key.clone());
        }
        if let Some(undone) = &mut self.undo {
            undone.push(undo);
        }
        Ok(())
    }

    /// Remembers from here on what each change replaces, for [`undo_record`](Self::undo_record).
    pub fn begin_record(&mut self) {
        self.undo.get_or_insert_default().clear();
    }

    /// Takes back what was changed since [`begin_record`](Self::begin_record).
    pub fn undo_record(&mut self) {
        for Undo { key, value, changed_at } in self.undo.take().unwrap_or_default().into_iter().rev() {
            let Some(known) = self.known.get_mut(&key) else { continue };
            let length = |value: &Option<Stamped>| value.as_ref().map_or(0, |stamped| stamped.value.len());
            self.known_bytes = self.known_bytes + length(&value) - length(&known.value);
            known.value = value;
            match changed_at {
                Some(timestamp) => {
                    if let Some(changed) = known.change.and_then(|place| self.changed.get_mut(place)) {
                        changed.timestamp = timestamp;
                    }
                }
                // Its first change, and, taken back from the end, the last of all that were.
                None => {
                    known.change = None;
                    self.take_back_last();
                }
            }
        }
    }

    /// The key that was last to be changed for the first time is not changed any more.
    fn take_back_last(&mut self) {
        let Some(Changed { key, committed, .. }) = self.changed.pop() else { return };
        if let Some(in_order) = &mut self.changed_in_order {
            in_order.remove(&key);
        }
        match committed {
            Committed::NotRead => self.forget(&key),
            Committed::Read(value) => {
                if let Some(known) = self.known.get_mut(&key) {
                    let length = |value: &Option<Stamped>| value.as_ref().map_or(0, |stamped| stamped.value.len());
                    self.known_bytes = self.known_bytes + length(&value) - length(&known.value);
                    *known = Known { value, change: None };
                }
            }
        }
    }

    fn forget(&mut self, key: &Bytes) {
        if let Some(known) = self.known.remove(key) {
            self.known_bytes -= bytes_of(key, known.value.as_ref());
        }
    }

    /// Forgets all that has not changed, once it is too much. What has changed must stay, however much it is; that is why the limit grows with
    /// it: else every read of a large interval would go through all of it.
    fn forget_some(&mut self) {
        if self.known_bytes > self.known_bytes_max {
            self.forget_unchanged();
            self.known_bytes_max = RECENT_BYTES_MAX.max(2 * self.known_bytes);
        }
    }

    fn forget_unchanged(&mut self) {
        self.known.retain(|_, known| known.change.is_some());
        self.known_bytes = self.known.iter().map(|(key, known)| bytes_of(key, known.value.as_ref())).sum();
    }

    /// The new value of a key that has changed.
    fn new_value(&self, changed: &Changed) -> Option<&Stamped> {
        self.known.get(&changed.key).and_then(|known| known.value.as_ref())
    }

    /// The keys that the interval has changed, with their new values, in the order of the keys' bytes.
    pub fn changes(&self) -> impl Iterator<Item = (Bytes, Option<Bytes>, Timestamp)> + '_ {
        let mut changed: Vec<&Changed> = self.changed.iter().collect();
        changed.sort_unstable_by(|a, b| a.key.cmp(&b.key));
        let value = |changed| self.new_value(changed).map(|stamped| stamped.value.clone());
        changed.into_iter().map(move |changed| (changed.key.clone(), value(changed), changed.timestamp))
    }

    /// Up to `limit` entries between two keys, changes of this interval included.
    pub fn scan(
        &mut self,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        direction: Direction,
        limit: usize,
    ) -> Result<Vec<(Bytes, Stamped)>, StoreError> {
        let changed = &self.changed;
        self.changed_in_order.get_or_insert_with(|| changed.iter().map(|changed| changed.key.clone()).collect());
        let (mut from, mut to) = (from.map(Bytes::copy_from_slice), to.map(Bytes::copy_from_slice));
        let mut found = Vec::new();
        while found.len() < limit && !is_empty_range(from.as_ref().map(AsRef::as_ref), to.as_ref().map(AsRef::as_ref)) {
            let borrowed = |bound: &Bound<Bytes>| bound.clone();
            let (low, high) = (borrowed(&from), borrowed(&to));
            let page = self.engine.scan(
                low.as_ref().map(AsRef::as_ref),
                high.as_ref().map(AsRef::as_ref),
                direction,
                SCAN_PAGE,
            )?;
            // What lies beyond a full page's last key comes with the next page.
            let last = (page.len() == SCAN_PAGE).then(|| page.last().map(|(key, _)| key.clone())).flatten();
            let mut merged: BTreeMap<Bytes, Option<Stamped>> = BTreeMap::new();
            for (key, bytes) in page {
                merged.insert(key, Some(self.decode(bytes)?));
            }
            let (low, high) = match (&last, direction) {
                (Some(last), Direction::Ascending) => (low, Bound::Included(last.clone())),
                (Some(last), Direction::Descending) => (Bound::Included(last.clone()), high),
                (None, _) => (low, high),
            };
            for key in self.changed_in_order.iter().flat_map(|in_order| in_order.range((low.clone(), high.clone()))) {
                merged.insert(key.clone(), self.known.get(key).and_then(|known| known.value.clone()));
            }
            let alive = merged.into_iter().filter_map(|(key, value)| Some((key, value?)));
            match direction {
                Direction::Ascending => found.extend(alive),
                Direction::Descending => found.extend(alive.rev()),
            }
            match (last, direction) {
                (Some(last), Direction::Ascending) => from = Bound::Excluded(last),
                (Some(last), Direction::Descending) => to = Bound::Excluded(last),
                (None, _) => break,
            }
        }
        found.truncate(limit);
        Ok(found)
    }

    /// The interval's changes for the change log: one record for each key, its last value. A key that was changed a thousand
    /// times costs its change log one record a commit.
    pub fn changelog_records(&self) -> impl Iterator<Item = ChangelogRecord> + '_ {
        self.changelog.iter().flat_map(|topic_partition| {
            self.changed.iter().map(|changed| ChangelogRecord {
                topic_partition: topic_partition.clone(),
                key: changed.key.clone(),
                value: self.new_value(changed).map(|stamped| stamped.value.clone()),
                timestamp: changed.timestamp,
            })
        })
    }

    /// The commit stands: the engine follows, in one batch.
    pub fn commit(&mut self, position: Option<StorePosition>) -> Result<(), StoreError> {
        let mut changes = Vec::with_capacity(self.changed.len());
        for Changed { key, .. } in self.changed.drain(..) {
            let Some(known) = self.known.get_mut(&key) else { continue };
            known.change = None;
            changes.push((key, known.value.as_ref().map(Stamped::encode)));
        }
        self.interval_over();
        self.forget_some();
        if changes.is_empty() && position.is_none() {
            return Ok(());
        }
        self.engine.apply(StoreBatch { changes, position })
    }

    /// The interval is undone.
    pub fn roll_back(&mut self) {
        while !self.changed.is_empty() {
            self.take_back_last();
        }
        self.interval_over();
        self.undo = None;
    }

    fn interval_over(&mut self) {
        self.overlay_bytes = 0;
        self.known_bytes_max = RECENT_BYTES_MAX;
        if let Some(in_order) = &mut self.changed_in_order {
            in_order.clear();
        }
    }

    /// Follows its change log: for a store that is behind.
    pub fn restore(&mut self, records: &[ChangelogRecord], position: StorePosition) -> Result<(), StoreError> {
        self.forget_unchanged();
        for changed in &mut self.changed {
            changed.committed = Committed::NotRead;
        }
        let mut last: BTreeMap<Bytes, Option<Bytes>> = BTreeMap::new();
        for record in records {
            let stamped = record.value.clone().map(|value| Stamped { timestamp: record.timestamp, value }.encode());
            last.insert(record.key.clone(), stamped);
        }
        self.engine.apply(StoreBatch { changes: last.into_iter().collect(), position: Some(position) })
    }

    /// Puts another engine in place, which must be empty or trusted; gives the old one back.
    pub fn replace_engine(&mut self, engine: Box<dyn StateStore>) -> Box<dyn StateStore> {
        self.roll_back();
        self.forget_unchanged();
        std::mem::replace(&mut self.engine, engine)
    }

    /// The engine, for its next owner. What was not committed is dropped.
    #[must_use]
    pub fn into_engine(self) -> Box<dyn StateStore> {
        self.engine
    }

    /// Makes everything committed durable.
    pub fn sync(&mut self) -> Result<(), StoreError> {
        self.engine.sync()
    }

    fn decode(&self, bytes: Bytes) -> Result<Stamped, StoreError> {
        let found = bytes.len();
        Stamped::decode(bytes).ok_or_else(|| StoreError::Bytes {
            store: self.name.clone(),
            source: WireError::Width { expected: "value with its timestamp (at least)", width: 8, found },
        })
    }
}

/// What an entry of the map takes.
fn bytes_of(key: &Bytes, value: Option<&Stamped>) -> usize {
    ENTRY_BYTES + key.len() + value.map_or(0, |stamped| stamped.value.len())
}

/// The same in every run, so that a run replays; eight bytes at a time, since each record's key is hashed twice. Keys come from the
/// application's own input; a crowd of chosen collisions slows that application alone, and the map is bounded.
#[derive(Clone, Copy, Default)]
pub struct FixedHasher(u64);

impl Hasher for FixedHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self.write_u64(u64::from_le_bytes(*word));
        }
        if !rest.is_empty() {
            let last = rest.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
            self.write_u64(last);
        }
    }

    fn write_u64(&mut self, word: u64) {
        // 2^64 divided by the golden ratio. Both halves of the product count: the map takes the lowest bits, which alone would
        // depend on the first bytes of a key only.
        let product = u128::from(self.0 ^ word) * 0x9e37_79b9_7f4a_7c15;
        self.0 = (product as u64) ^ ((product >> 64) as u64);
    }

    fn write_usize(&mut self, number: usize) {
        self.write_u64(number as u64);
    }
}

/// The kind of a store that maps keys to values: the type parameter of its [`StoreHandle`].
#[derive(Debug)]
pub struct KeyValueStore<K, V>(PhantomData<fn(K) -> V>);

/// A store's name with its types: what a processor asks [`crate::Stores::get`] with.
pub struct StoreHandle<S> {
    pub(crate) index: usize,
    pub(crate) name: std::sync::Arc<str>,
    pub(crate) kind: PhantomData<fn() -> S>,
}

impl<S> Clone for StoreHandle<S> {
    fn clone(&self) -> Self {
        Self { index: self.index, name: self.name.clone(), kind: PhantomData }
    }
}

impl<S> StoreHandle<S> {
    /// The store's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl<S> AsRef<str> for StoreHandle<S> {
    fn as_ref(&self) -> &str {
        &self.name
    }
}

impl<S> std::fmt::Debug for StoreHandle<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "StoreHandle({})", self.name)
    }
}

/// A key-value store as a processor sees it while it handles one record.
pub struct KeyValueView<'a, K, V> {
    /// `Err`: the store's name, for the error of the first use.
    pub(crate) cell: Result<&'a RefCell<TaskStore>, String>,
    pub(crate) timestamp: Timestamp,
    pub(crate) types: PhantomData<fn(K) -> V>,
}

impl<K: Wire, V: Wire> KeyValueView<'_, K, V> {
    /// The value of `key`.
    pub fn get(&self, key: &K) -> Result<Option<V>, StoreError> {
        Ok(self.get_with_timestamp(key)?.map(|(value, _)| value))
    }

    /// The value of `key`, and the time of the record that set it.
    pub fn get_with_timestamp(&self, key: &K) -> Result<Option<(V, Timestamp)>, StoreError> {
        let mut store = self.cell()?.borrow_mut();
        let key = key_bytes(&store, key)?;
        let Some(stamped) = store.get(&key)? else { return Ok(None) };
        Ok(Some((decode(&store.name, stamped.value)?, stamped.timestamp)))
    }

    /// Sets `key`. A value whose bytes are null deletes it.
    pub fn put(&mut self, key: &K, value: &V) -> Result<(), StoreError> {
        self.put_at(key, value, self.timestamp)
    }

    /// Sets `key`, with a time of its own instead of the record's.
    pub fn put_at(&mut self, key: &K, value: &V, timestamp: Timestamp) -> Result<(), StoreError> {
        let mut store = self.cell()?.borrow_mut();
        let key = key_bytes(&store, key)?;
        store.put(key, value.encode(), timestamp)
    }

    /// Deletes `key`.
    pub fn delete(&mut self, key: &K) -> Result<(), StoreError> {
        let mut store = self.cell()?.borrow_mut();
        let key = key_bytes(&store, key)?;
        store.put(key, None, self.timestamp)
    }

    /// Sets `key` unless it is there; says whether it was set.
    pub fn insert_if_absent(&mut self, key: &K, value: &V) -> Result<bool, StoreError> {
        let mut store = self.cell()?.borrow_mut();
        let key = key_bytes(&store, key)?;
        let is_absent = store.get(&key)?.is_none();
        if is_absent {
            store.put(key, value.encode(), self.timestamp)?;
        }
        Ok(is_absent)
    }

    /// All entries, in the order of the keys' bytes.
    #[must_use]
    pub fn all(&self) -> Entries<'_, K, V> {
        self.entries(Bound::Unbounded, Bound::Unbounded, Direction::Ascending)
    }

    /// All entries, from the last key to the first.
    #[must_use]
    pub fn reverse_all(&self) -> Entries<'_, K, V> {
        self.entries(Bound::Unbounded, Bound::Unbounded, Direction::Descending)
    }

    /// The entries whose keys' bytes begin with the bytes of `prefix`, which need not be a whole key.
    pub fn prefix<P: Wire>(&self, prefix: &P, direction: Direction) -> Result<Entries<'_, K, V>, StoreError> {
        let from = {
            let store = self.cell()?.borrow();
            key_bytes(&store, prefix)?
        };
        let to = after_prefix(&from).map_or(Bound::Unbounded, Bound::Excluded);
        Ok(self.entries(Bound::Included(from), to, direction))
    }

    /// The entries from `from` to `to`, both included, in the order of the keys' bytes, or against it.
    pub fn range(&self, from: &K, to: &K, direction: Direction) -> Result<Entries<'_, K, V>, StoreError> {
        let (from, to) = {
            let store = self.cell()?.borrow();
            (key_bytes(&store, from)?, key_bytes(&store, to)?)
        };
        Ok(self.entries(Bound::Included(from), Bound::Included(to), direction))
    }

    fn entries(&self, from: Bound<Bytes>, to: Bound<Bytes>, direction: Direction) -> Entries<'_, K, V> {
        let cell = self.cell.as_ref().map(|cell| *cell).map_err(Clone::clone);
        if let Ok(cell) = cell {
            cell.borrow().count(|counts| counts.scans += 1);
        }
        Entries { cell, from, to, direction, page: Vec::new().into_iter(), is_done: false, types: PhantomData }
    }

    fn cell(&self) -> Result<&RefCell<TaskStore>, StoreError> {
        self.cell.as_ref().map(|cell| *cell).map_err(|store| StoreError::NotConnected { store: store.clone() })
    }
}

/// The first key beyond all that begin with `prefix`; `None` if there is none.
fn after_prefix(prefix: &[u8]) -> Option<Bytes> {
    let last = prefix.iter().rposition(|byte| *byte != u8::MAX)?;
    let mut after = prefix.get(..=last)?.to_vec();
    if let Some(byte) = after.last_mut() {
        *byte += 1;
    }
    Some(Bytes::from(after))
}

fn key_bytes<K: Wire>(store: &TaskStore, key: &K) -> Result<Bytes, StoreError> {
    key.encode().ok_or_else(|| StoreError::NullKey { store: store.name.clone() })
}

fn decode<T: Wire>(store: &str, bytes: Bytes) -> Result<T, StoreError> {
    T::decode_shared(Some(bytes)).map_err(|source| StoreError::Bytes { store: store.to_owned(), source })
}

/// A scan. It borrows no store between two entries: what a processor downstream changes meanwhile may or may not be seen.
pub struct Entries<'a, K, V> {
    cell: Result<&'a RefCell<TaskStore>, String>,
    from: Bound<Bytes>,
    to: Bound<Bytes>,
    direction: Direction,
    page: std::vec::IntoIter<(Bytes, Stamped)>,
    is_done: bool,
    types: PhantomData<fn(K) -> V>,
}

impl<K: Wire, V: Wire> Entries<'_, K, V> {
    fn next_entry(&mut self) -> Result<Option<(K, V)>, StoreError> {
        let cell = self.cell.as_ref().map_err(|store| StoreError::NotConnected { store: store.clone() })?;
        let mut store = cell.borrow_mut();
        if self.page.len() == 0 && !self.is_done {
            let (from, to) = (self.from.as_ref().map(AsRef::as_ref), self.to.as_ref().map(AsRef::as_ref));
            let page = store.scan(from, to, self.direction, SCAN_PAGE)?;
            self.is_done = page.len() < SCAN_PAGE;
            if let Some((last, _)) = page.last() {
                match self.direction {
                    Direction::Ascending => self.from = Bound::Excluded(last.clone()),
                    Direction::Descending => self.to = Bound::Excluded(last.clone()),
                }
            }
            self.page = page.into_iter();
        }
        let Some((key, stamped)) = self.page.next() else { return Ok(None) };
        Ok(Some((decode(&store.name, key)?, decode(&store.name, stamped.value)?)))
    }
}

impl<K: Wire, V: Wire> Iterator for Entries<'_, K, V> {
    type Item = Result<(K, V), StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        let entry = self.next_entry().transpose();
        if matches!(entry, Some(Err(_))) {
            // An error ends the scan: the next page would fail the same way.
            self.is_done = true;
            self.page = Vec::new().into_iter();
        }
        entry
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_position_reads_back_as_it_was_written() {
        let position = StorePosition {
            topic_id: atonce_kernel::Uuid([7; 16]),
            offset: 1 << 40,
            leader_epoch: Some(3),
            written_at: Timestamp(1_700_000_000_000),
            guarantee: Guarantee::AtLeastOnce,
        };
        assert_eq!(StorePosition::decode(&position.encode()), Some(position));
        let unknown = StorePosition { leader_epoch: None, ..position };
        assert_eq!(StorePosition::decode(&unknown.encode()), Some(unknown));
        assert_eq!(StorePosition::decode(&position.encode()[..41]), None);
        assert_eq!(StorePosition::decode(&[]), None);
    }

    #[test]
    fn a_position_with_any_bit_wrong_is_none() {
        let written_at = Timestamp(1_700_000_000_000);
        let (topic_id, guarantee) = (atonce_kernel::Uuid([7; 16]), Guarantee::ExactlyOnce);
        let position = StorePosition { topic_id, offset: 77, leader_epoch: Some(3), written_at, guarantee };
        let whole = position.encode();
        for bit in 0..whole.len() * 8 {
            let mut bytes = whole.to_vec();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(StorePosition::decode(&bytes), None, "bit {bit}");
        }
    }

    proptest! {
        /// The overlay is as if the changes were in the engine already.
        #[test]
        fn a_scan_sees_engine_and_overlay_as_one(
            base in proptest::collection::btree_map(0_u16..2000, any::<u8>(), 0..1200),
            changes in proptest::collection::btree_map(0_u16..2000, proptest::option::of(any::<u8>()), 0..300),
            from in 0_u16..2000, to in 0_u16..2000, limit in 1_usize..1500, descending: bool,
        ) {
            let mut store = TaskStore::new("s", None, Box::new(MemoryStore::default()));
            for (key, value) in &base {
                store.put(key.encode().unwrap(), value.encode(), Timestamp(1)).unwrap();
            }
            store.commit(None).unwrap();
            let mut expected = base;
            for (key, value) in &changes {
                store.put(key.encode().unwrap(), value.encode(), Timestamp(2)).unwrap();
                match value {
                    Some(value) => expected.insert(*key, *value),
                    None => expected.remove(key),
                };
            }
            let mut expected: Vec<(u16, u8)> = expected.into_iter().filter(|(key, _)| (from..=to).contains(key)).collect();
            if descending {
                expected.reverse();
            }
            expected.truncate(limit);
            let direction = if descending { Direction::Descending } else { Direction::Ascending };
            let (low, high) = (from.to_be_bytes(), to.to_be_bytes());
            let found: Vec<(u16, u8)> = store
                .scan(Bound::Included(&low), Bound::Included(&high), direction, limit)
                .unwrap()
                .into_iter()
                .map(|(key, stamped)| (u16::decode(Some(&key)).unwrap(), u8::decode(Some(&stamped.value)).unwrap()))
                .collect();
            prop_assert_eq!(found, expected);
        }
    }

    /// What happens to a store.
    #[derive(Clone, Debug)]
    enum Happens {
        Get(u8),
        Put(u8, Option<u8>),
        BeginRecord,
        UndoRecord,
        Commit,
        RollBack,
        Scan,
        Forget,
    }

    fn happens() -> impl Strategy<Value = Happens> {
        prop_oneof![
            4 => (0_u8..12).prop_map(Happens::Get),
            8 => (0_u8..12, proptest::option::of(any::<u8>())).prop_map(|(key, value)| Happens::Put(key, value)),
            2 => Just(Happens::BeginRecord),
            1 => Just(Happens::UndoRecord),
            1 => Just(Happens::Commit),
            1 => Just(Happens::RollBack),
            1 => Just(Happens::Scan),
            1 => Just(Happens::Forget),
        ]
    }

    proptest! {
        /// Whatever is asked and undone in whatever order, a store answers as two plain maps would: what was committed, and what is new.
        #[test]
        fn a_store_is_what_was_committed_and_what_is_new(course in proptest::collection::vec(happens(), 1..200)) {
            let mut store = TaskStore::new("s", Some(TopicPartition::new("c", 0)), Box::new(MemoryStore::default()));
            let mut committed: BTreeMap<u8, (u8, i64)> = BTreeMap::new();
            let mut new: BTreeMap<u8, (Option<u8>, i64)> = BTreeMap::new();
            let mut before_record = None;
            for (time, step) in (1_i64..).zip(course) {
                match step {
                    Happens::Get(key) => {
                        let expected = match new.get(&key) {
                            Some((value, time)) => value.map(|value| (value, *time)),
                            None => committed.get(&key).copied(),
                        };
                        let found = store.get(&[key]).unwrap().map(|it| (it.value[0], it.timestamp.0));
                        prop_assert_eq!(found, expected);
                        let found = store.committed(&[key]).unwrap().map(|it| (it.value[0], it.timestamp.0));
                        prop_assert_eq!(found, committed.get(&key).copied());
                    }
                    Happens::Put(key, value) => {
                        let bytes = value.map(|value| Bytes::copy_from_slice(&[value]));
                        store.put(Bytes::copy_from_slice(&[key]), bytes, Timestamp(time)).unwrap();
                        new.insert(key, (value, time));
                    }
                    Happens::BeginRecord => {
                        store.begin_record();
                        before_record = Some(new.clone());
                    }
                    Happens::UndoRecord => {
                        store.undo_record();
                        if let Some(before) = before_record.take() {
                            new = before;
                        }
                    }
                    Happens::Commit => {
                        store.begin_record();
                        store.commit(None).unwrap();
                        before_record = Some(BTreeMap::new());
                        for (key, (value, time)) in std::mem::take(&mut new) {
                            match value {
                                Some(value) => committed.insert(key, (value, time)),
                                None => committed.remove(&key),
                            };
                        }
                    }
                    Happens::RollBack => {
                        store.roll_back();
                        new.clear();
                        before_record = None;
                    }
                    Happens::Scan => {
                        let mut expected: BTreeMap<u8, u8> = committed.iter().map(|(key, (value, _))| (*key, *value)).collect();
                        for (key, (value, _)) in &new {
                            match value {
                                Some(value) => expected.insert(*key, *value),
                                None => expected.remove(key),
                            };
                        }
                        let found = store.scan(Bound::Unbounded, Bound::Unbounded, Direction::Ascending, 100).unwrap();
                        let found: BTreeMap<u8, u8> = found.iter().map(|(key, it)| (key[0], it.value[0])).collect();
                        prop_assert_eq!(found, expected);
                    }
                    Happens::Forget => store.forget_unchanged(),
                }
                let changes: BTreeMap<u8, (Option<u8>, i64)> =
                    store.changes().map(|(key, value, time)| (key[0], (value.map(|value| value[0]), time.0))).collect();
                prop_assert_eq!(&changes, &new);
                let logged: BTreeMap<u8, (Option<u8>, i64)> = store
                    .changelog_records()
                    .map(|record| (record.key[0], (record.value.map(|value| value[0]), record.timestamp.0)))
                    .collect();
                prop_assert_eq!(&logged, &new);
                let bytes: usize = store.known.iter().map(|(key, known)| bytes_of(key, known.value.as_ref())).sum();
                prop_assert_eq!(store.known_bytes, bytes);
            }
        }
    }

    #[test]
    fn what_is_known_of_unchanged_keys_is_bounded_and_what_has_changed_stays() {
        let mut store = TaskStore::new("s", None, Box::new(MemoryStore::default()));
        let value = Bytes::from(vec![7; 1 << 20]);
        for number in 0..40_u8 {
            store.put(Bytes::copy_from_slice(&[number]), Some(value.clone()), Timestamp(1)).unwrap();
            store.get(&[number]).unwrap();
            store.get(&[number, 0]).unwrap();
        }
        assert_eq!(store.changes().count(), 40, "40 MiB are changed, and none is forgotten");
        store.commit(None).unwrap();
        assert!(store.known_bytes <= RECENT_BYTES_MAX, "{}", store.known_bytes);
        for number in 0..40_u8 {
            assert!(store.get(&[number]).unwrap().is_some());
            assert!(store.known_bytes <= RECENT_BYTES_MAX + (1 << 20), "{}", store.known_bytes);
        }
    }

    #[test]
    fn keys_that_differ_anywhere_have_other_hashes_in_the_bits_that_a_map_takes() {
        let hash = |key: &[u8]| {
            let mut hasher = FixedHasher::default();
            hasher.write_usize(key.len());
            hasher.write(key);
            hasher.finish()
        };
        let numbers = (0..4096_u32).map(|number| format!("{number:08}"));
        let lowest: BTreeSet<u64> = numbers.clone().map(|key| hash(key.as_bytes()) & 0xfff).collect();
        let highest: BTreeSet<u64> = numbers.map(|key| hash(key.as_bytes()) >> 52).collect();
        // Drawn by chance, 4096 of 4096 would be about 2589 different ones.
        assert!(lowest.len() > 2400 && highest.len() > 2400, "{} and {}", lowest.len(), highest.len());
        assert_ne!(hash(b""), hash(b"\0"));
    }

    #[test]
    fn one_record_can_be_undone_and_the_interval_stands() {
        let bytes = Bytes::from_static;
        let mut store = TaskStore::new("s", None, Box::new(MemoryStore::default()));
        store.put(bytes(b"a"), Some(bytes(b"0")), Timestamp(1)).unwrap();
        store.commit(None).unwrap();
        store.begin_record();
        store.put(bytes(b"b"), Some(bytes(b"1")), Timestamp(2)).unwrap();
        store.begin_record();
        store.put(bytes(b"a"), Some(bytes(b"2")), Timestamp(3)).unwrap();
        store.put(bytes(b"b"), None, Timestamp(3)).unwrap();
        store.put(bytes(b"b"), Some(bytes(b"4")), Timestamp(3)).unwrap();
        store.put(bytes(b"c"), Some(bytes(b"5")), Timestamp(3)).unwrap();
        store.undo_record();
        let read = |store: &mut TaskStore, key: &[u8]| store.get(key).unwrap().map(|stamped| stamped.value);
        assert_eq!(read(&mut store, b"a"), Some(bytes(b"0")));
        assert_eq!(read(&mut store, b"b"), Some(bytes(b"1")));
        assert_eq!(read(&mut store, b"c"), None);
        let changes: Vec<_> = store.changes().map(|(key, value, _)| (key, value)).collect();
        assert_eq!(changes, [(bytes(b"b"), Some(bytes(b"1")))]);
    }

    #[test]
    fn what_comes_after_a_prefix_is_the_next_of_its_length() {
        assert_eq!(after_prefix(b"ab").as_deref(), Some(&b"ac"[..]));
        assert_eq!(after_prefix(b"a\xff\xff").as_deref(), Some(&b"b"[..]));
        assert_eq!(after_prefix(b"\xff\xff"), None);
        assert_eq!(after_prefix(b""), None);
    }

    #[test]
    fn what_is_asked_of_a_store_is_counted_and_what_the_engine_was_spared_too() {
        let mut store = TaskStore::new("s", None, Box::new(MemoryStore::default()));
        store.put(Bytes::from_static(b"a"), Some(Bytes::from_static(b"1")), Timestamp(1)).unwrap();
        store.put(Bytes::from_static(b"b"), None, Timestamp(1)).unwrap();
        // Of the overlay, of the engine, and then of what was read lately.
        for key in [b"a", b"c", b"c"] {
            store.get(key).unwrap();
        }
        store.commit(None).unwrap();
        assert_eq!(store.counts(), StoreCounts { gets: 3, hits: 2, puts: 1, deletes: 1, scans: 0 });
    }

    #[test]
    fn what_is_rolled_back_was_never_there() {
        let mut store = TaskStore::new("s", None, Box::new(MemoryStore::default()));
        store.put(Bytes::from_static(b"a"), Some(Bytes::from_static(b"1")), Timestamp(1)).unwrap();
        store.commit(None).unwrap();
        store.put(Bytes::from_static(b"a"), Some(Bytes::from_static(b"2")), Timestamp(2)).unwrap();
        store.put(Bytes::from_static(b"b"), Some(Bytes::from_static(b"3")), Timestamp(2)).unwrap();
        assert_eq!(store.uncommitted_bytes(), 4);
        store.roll_back();
        assert_eq!(store.get(b"a").unwrap().unwrap().value.as_ref(), b"1");
        assert_eq!(store.get(b"b").unwrap(), None);
        assert_eq!(store.uncommitted_bytes(), 0);
    }
}
