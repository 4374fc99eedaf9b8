//! Fetch sessions (KIP-227): a reader of many partitions names them once, then only what changes, and is answered only what
//! changed.
//!
//! Kept in memory, at most `max.incremental.fetch.session.cache.slots` of them and [`ENTRIES_MAX`] partitions in all. A
//! newcomer takes the place of one that was not used for [`EVICTION_MS`], or of a smaller one that is that old; else it gets
//! none, and says all it wants each time, which is right for every client.
//!
//! **What it does not know**: partitions, logs, the clock (times are arguments), the wire.
//!
//! Invariants: one epoch of a session is used once; a partition stands in a session once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use atonce_kernel::chance::Chance;
use atonce_kernel::{TopicId, TopicName};
use atonce_protocol::ErrorCode;

/// A session may be replaced by any other when it was not used for so long, and by a larger one when it is so old.
const EVICTION_MS: u64 = 120_000;

/// Partitions in all sessions: what strangers say may not fill the memory.
const ENTRIES_MAX: usize = 1_000_000;

/// The epoch of a request that begins a session.
const EPOCH_FIRST: i32 = 0;
/// The epoch of a request that wants none, and ends the one it names.
const EPOCH_NONE: i32 = -1;

/// How a request names a topic.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum TopicRef {
    Name(TopicName),
    Id(TopicId),
}

/// What is asked of one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) topic: TopicRef,
    pub(crate) partition: i32,
    pub(crate) fetch_offset: i64,
    pub(crate) bytes_max: i32,
    pub(crate) leader_epoch: i32,
    pub(crate) last_fetched_epoch: i32,
}

/// What one partition is answered, as far as a session cares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Told {
    pub(crate) is_error: bool,
    pub(crate) has_records: bool,
    pub(crate) high_watermark: i64,
    pub(crate) log_start_offset: i64,
}

/// A request, as far as sessions care.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) session_id: i32,
    pub(crate) epoch: i32,
    /// Topics are named by id.
    pub(crate) uses_ids: bool,
    pub(crate) asked: Vec<Asked>,
    pub(crate) forgotten: Vec<(TopicRef, i32)>,
}

/// What is to be read for a request, and how it is to be answered.
#[derive(Debug)]
pub(crate) struct Plan {
    kind: Kind,
    pub(crate) asked: Vec<Asked>,
}

#[derive(Debug)]
enum Kind {
    /// All is answered, and nothing kept.
    Sessionless,
    /// All is answered, and kept if there is room.
    Full { uses_ids: bool },
    /// What changed is answered.
    Incremental { id: i32, epoch: i32, places: Vec<u64> },
}

/// How to answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answered {
    pub(crate) session_id: i32,
    /// For each partition that was to be read: whether to answer it.
    pub(crate) included: Vec<bool>,
}

/// All sessions of a broker.
#[derive(Debug)]
pub(crate) struct FetchSessions {
    slots: usize,
    cache: Mutex<Cache>,
}

#[derive(Debug)]
struct Cache {
    sessions: BTreeMap<i32, Session>,
    entries: usize,
    /// Ids are drawn from here, so that nobody guesses another's.
    chance: Chance,
}

#[derive(Debug)]
struct Session {
    uses_ids: bool,
    /// The epoch that the next request must say.
    epoch: i32,
    created_ms: u64,
    used_ms: u64,
    next_place: u64,
    /// In the order in which they are read: what had records goes to the end, so that no partition starves another.
    order: BTreeMap<u64, Entry>,
    places: BTreeMap<(TopicRef, i32), u64>,
}

#[derive(Debug)]
struct Entry {
    asked: Asked,
    high_watermark: i64,
    log_start_offset: i64,
}

impl FetchSessions {
    pub(crate) fn new(slots: usize, seed: u64) -> Self {
        let cache = Cache { sessions: BTreeMap::new(), entries: 0, chance: Chance::from_seed(seed) };
        Self { slots, cache: Mutex::new(cache) }
    }

    /// Sessions that are kept, and partitions in them.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let cache = self.cache();
        (cache.sessions.len(), cache.entries)
    }

    fn cache(&self) -> MutexGuard<'_, Cache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is to be read for `request`.
    pub(crate) fn begin(&self, request: Request, now_ms: u64) -> Result<Plan, ErrorCode> {
        let mut cache = self.cache();
        if request.epoch == EPOCH_FIRST || request.epoch == EPOCH_NONE {
            cache.remove(request.session_id);
            let kind =
                if request.epoch == EPOCH_NONE { Kind::Sessionless } else { Kind::Full { uses_ids: request.uses_ids } };
            return Ok(Plan { kind, asked: request.asked });
        }
        let others = cache.entries;
        let session = cache.sessions.get_mut(&request.session_id).ok_or(ErrorCode::FetchSessionIdNotFound)?;
        if session.epoch != request.epoch {
            return Err(ErrorCode::InvalidFetchSessionEpoch);
        }
        if session.uses_ids != request.uses_ids {
            return Err(ErrorCode::FetchSessionTopicIdError);
        }
        let before = session.order.len();
        if others + request.asked.len() > ENTRIES_MAX {
            cache.remove(request.session_id);
            return Err(ErrorCode::FetchSessionIdNotFound);
        }
        session.update(request.asked, &request.forgotten);
        let after = session.order.len();
        let plan = session.plan(request.session_id, now_ms);
        cache.entries = cache.entries - before + after;
        if after == 0 {
            cache.remove(request.session_id);
            return Ok(Plan { kind: Kind::Sessionless, asked: Vec::new() });
        }
        Ok(plan)
    }

    /// How to answer, now that all was read. `told` is in the order of the plan.
    pub(crate) fn finish(&self, plan: Plan, told: &[Told], now_ms: u64) -> Result<Answered, ErrorCode> {
        let all = |session_id| Answered { session_id, included: vec![true; told.len()] };
        match plan.kind {
            Kind::Sessionless => Ok(all(0)),
            Kind::Full { uses_ids } => Ok(all(self.cache().create(self.slots, uses_ids, plan.asked, told, now_ms))),
            Kind::Incremental { id, epoch, places } => {
                let mut cache = self.cache();
                // Replaced or ended meanwhile, or overtaken by another request of the same client.
                let session = cache
                    .sessions
                    .get_mut(&id)
                    .filter(|session| session.epoch == epoch)
                    .ok_or(ErrorCode::InvalidFetchSessionEpoch)?;
                let included = places.into_iter().zip(told).map(|(place, told)| session.tell(place, told)).collect();
                Ok(Answered { session_id: id, included })
            }
        }
    }
}

impl Cache {
    fn remove(&mut self, id: i32) {
        if let Some(session) = self.sessions.remove(&id) {
            self.entries -= session.order.len();
        }
    }

    /// Keeps a session, and says its id; 0 if there is no room for it.
    fn create(&mut self, slots: usize, uses_ids: bool, asked: Vec<Asked>, told: &[Told], now_ms: u64) -> i32 {
        if asked.len() > ENTRIES_MAX - self.entries.min(ENTRIES_MAX) {
            return 0;
        }
        if self.sessions.len() >= slots && !self.evict(asked.len(), now_ms) {
            return 0;
        }
        let mut session = Session {
            uses_ids,
            epoch: next_epoch(EPOCH_FIRST),
            created_ms: now_ms,
            used_ms: now_ms,
            next_place: 0,
            order: BTreeMap::new(),
            places: BTreeMap::new(),
        };
        for (asked, told) in asked.into_iter().zip(told) {
            let place = session.put(asked);
            if let Some(entry) = session.order.get_mut(&place) {
                entry.remember(told);
            }
        }
        self.entries += session.order.len();
        let id = self.new_id();
        self.sessions.insert(id, session);
        id
    }

    fn new_id(&mut self) -> i32 {
        loop {
            let [a, b, c, d, ..] = self.chance.uuid().0;
            let id = i32::from_be_bytes([a & 0x7f, b, c, d]);
            if id != 0 && !self.sessions.contains_key(&id) {
                return id;
            }
        }
    }

    /// Makes room for a session of so many partitions. False: all others are in use, and none that is old is smaller.
    fn evict(&mut self, size: usize, now_ms: u64) -> bool {
        let unused = self.sessions.iter().min_by_key(|(id, session)| (session.used_ms, **id));
        let victim = match unused {
            Some((id, session)) if now_ms.saturating_sub(session.used_ms) > EVICTION_MS => Some(*id),
            Some(_) | None => {
                let old =
                    self.sessions.iter().filter(|(_, session)| now_ms.saturating_sub(session.created_ms) > EVICTION_MS);
                old.map(|(id, session)| (session.order.len(), *id)).min().filter(|(its, _)| *its < size).map(|it| it.1)
            }
        };
        let Some(victim) = victim else { return false };
        self.remove(victim);
        true
    }
}

impl Session {
    /// Adds or changes what is asked, and takes out what is forgotten.
    fn update(&mut self, asked: Vec<Asked>, forgotten: &[(TopicRef, i32)]) {
        for asked in asked {
            let known = self.places.get(&(asked.topic.clone(), asked.partition)).copied();
            match known.and_then(|place| self.order.get_mut(&place)) {
                Some(entry) => entry.asked = asked,
                None => {
                    self.put(asked);
                }
            }
        }
        for key in forgotten {
            if let Some(place) = self.places.remove(key) {
                self.order.remove(&place);
            }
        }
    }

    /// Puts a partition at the end.
    fn put(&mut self, asked: Asked) -> u64 {
        let place = self.next_place;
        self.next_place += 1;
        self.places.insert((asked.topic.clone(), asked.partition), place);
        self.order.insert(place, Entry { asked, high_watermark: -1, log_start_offset: -1 });
        place
    }

    fn plan(&mut self, id: i32, now_ms: u64) -> Plan {
        self.epoch = next_epoch(self.epoch);
        self.used_ms = now_ms;
        Plan {
            kind: Kind::Incremental { id, epoch: self.epoch, places: self.order.keys().copied().collect() },
            asked: self.order.values().map(|entry| entry.asked.clone()).collect(),
        }
    }

    /// Notes what a partition is told. True if it has to be.
    fn tell(&mut self, place: u64, told: &Told) -> bool {
        let Some(entry) = self.order.get_mut(&place) else { return false };
        let has_moved = entry.high_watermark != told.high_watermark || entry.log_start_offset != told.log_start_offset;
        entry.remember(told);
        if told.has_records
            && let Some(entry) = self.order.remove(&place)
        {
            let Entry { asked, high_watermark, log_start_offset } = entry;
            let end = self.put(asked);
            self.order.entry(end).and_modify(|entry| {
                (entry.high_watermark, entry.log_start_offset) = (high_watermark, log_start_offset);
            });
        }
        told.is_error || told.has_records || has_moved
    }
}

impl Entry {
    /// After an error, whatever comes next is news.
    fn remember(&mut self, told: &Told) {
        self.high_watermark = if told.is_error { -1 } else { told.high_watermark };
        self.log_start_offset = told.log_start_offset;
    }
}

/// Epochs go from 1 on, again and again; 0 begins a session.
fn next_epoch(epoch: i32) -> i32 {
    if epoch == i32::MAX { 1 } else { epoch + 1 }
}

/// Leaves each partition once: the last word holds, as in a map.
pub(crate) fn without_repetition(asked: &mut Vec<Asked>) {
    let mut seen = BTreeSet::new();
    asked.retain(|asked| seen.insert((asked.topic.clone(), asked.partition)));
}

#[cfg(test)]
mod tests {
    use super::*;

    const STILL: Told = Told { is_error: false, has_records: false, high_watermark: 5, log_start_offset: 0 };

    fn asked(partitions: impl IntoIterator<Item = i32>) -> Vec<Asked> {
        let asked = |partition| Asked {
            topic: TopicRef::Name(TopicName::from("t")),
            partition,
            fetch_offset: 5,
            bytes_max: 100,
            leader_epoch: -1,
            last_fetched_epoch: -1,
        };
        partitions.into_iter().map(asked).collect()
    }

    fn request(session_id: i32, epoch: i32, partitions: impl IntoIterator<Item = i32>) -> Request {
        Request { session_id, epoch, uses_ids: false, asked: asked(partitions), forgotten: Vec::new() }
    }

    fn begin_session(sessions: &FetchSessions, partitions: std::ops::Range<i32>, now_ms: u64) -> i32 {
        let plan = sessions.begin(request(0, 0, partitions), now_ms).expect("a session may begin");
        let told = vec![STILL; plan.asked.len()];
        sessions.finish(plan, &told, now_ms).expect("answered").session_id
    }

    /// One request, answered with what `told` says of each partition: the partitions that are answered.
    fn go_on(sessions: &FetchSessions, request: Request, told: impl Fn(i32) -> Told) -> Result<Vec<i32>, ErrorCode> {
        let plan = sessions.begin(request, 0)?;
        let partitions: Vec<i32> = plan.asked.iter().map(|asked| asked.partition).collect();
        let told: Vec<Told> = partitions.iter().map(|partition| told(*partition)).collect();
        let answered = sessions.finish(plan, &told, 0)?;
        Ok(partitions.into_iter().zip(answered.included).filter(|it| it.1).map(|it| it.0).collect())
    }

    #[test]
    fn only_what_changed_is_told() {
        let sessions = FetchSessions::new(10, 1);
        let id = begin_session(&sessions, 0..3, 0);
        assert_ne!(id, 0);
        assert_eq!(go_on(&sessions, request(id, 1, []), |_| STILL), Ok(vec![]));
        let moved = Told { high_watermark: 6, ..STILL };
        assert_eq!(go_on(&sessions, request(id, 2, []), |it| if it == 1 { moved } else { STILL }), Ok(vec![1]));
        assert_eq!(go_on(&sessions, request(id, 3, []), |it| if it == 1 { moved } else { STILL }), Ok(vec![]));
        let cut = Told { log_start_offset: 2, ..STILL };
        assert_eq!(go_on(&sessions, request(id, 4, []), |it| if it == 2 { cut } else { STILL }), Ok(vec![1, 2]));
        // An error is told each time, and what follows it is news.
        let error = Told { is_error: true, high_watermark: -1, log_start_offset: -1, ..STILL };
        for epoch in [5, 6] {
            assert_eq!(go_on(&sessions, request(id, epoch, []), |_| error), Ok(vec![0, 1, 2]));
        }
        assert_eq!(go_on(&sessions, request(id, 7, []), |_| STILL), Ok(vec![0, 1, 2]));
    }

    #[test]
    fn what_had_records_is_read_last_the_next_time() {
        let sessions = FetchSessions::new(10, 1);
        let id = begin_session(&sessions, 0..3, 0);
        let records = Told { has_records: true, ..STILL };
        assert_eq!(go_on(&sessions, request(id, 1, []), |it| if it == 0 { records } else { STILL }), Ok(vec![0]));
        let plan = sessions.begin(request(id, 2, []), 0).expect("goes on");
        let order: Vec<i32> = plan.asked.iter().map(|asked| asked.partition).collect();
        assert_eq!(order, [1, 2, 0]);
    }

    #[test]
    fn partitions_come_and_go_and_a_session_without_any_is_none() {
        let sessions = FetchSessions::new(10, 1);
        let id = begin_session(&sessions, 0..2, 0);
        assert_eq!(go_on(&sessions, request(id, 1, [7]), |_| STILL), Ok(vec![7]));
        let forget = |epoch, partitions: &[i32]| Request {
            forgotten: partitions.iter().map(|it| (TopicRef::Name(TopicName::from("t")), *it)).collect(),
            ..request(id, epoch, [])
        };
        assert_eq!(go_on(&sessions, forget(2, &[0, 9]), |_| STILL), Ok(vec![]));
        assert_eq!(sessions.counts(), (1, 2));
        assert_eq!(go_on(&sessions, forget(3, &[1, 7]), |_| STILL), Ok(vec![]));
        assert_eq!(sessions.counts(), (0, 0));
        assert_eq!(go_on(&sessions, request(id, 4, []), |_| STILL), Err(ErrorCode::FetchSessionIdNotFound));
    }

    #[test]
    fn each_epoch_is_used_once_and_names_do_not_mix_with_ids() {
        let sessions = FetchSessions::new(10, 1);
        let id = begin_session(&sessions, 0..1, 0);
        for (session_id, epoch, expected) in [
            (id, 2, ErrorCode::InvalidFetchSessionEpoch),
            (id + 1, 1, ErrorCode::FetchSessionIdNotFound),
            (0, 1, ErrorCode::FetchSessionIdNotFound),
        ] {
            assert_eq!(go_on(&sessions, request(session_id, epoch, []), |_| STILL), Err(expected));
        }
        let mixed = Request { uses_ids: true, ..request(id, 1, []) };
        assert_eq!(go_on(&sessions, mixed, |_| STILL), Err(ErrorCode::FetchSessionTopicIdError));
        let first = sessions.begin(request(id, 1, []), 0).expect("goes on");
        let second = sessions.begin(request(id, 2, []), 0).expect("overtakes");
        assert_eq!(sessions.finish(first, &[STILL], 0), Err(ErrorCode::InvalidFetchSessionEpoch));
        assert!(sessions.finish(second, &[STILL], 0).is_ok());
        assert_eq!(go_on(&sessions, request(id, 2, []), |_| STILL), Err(ErrorCode::InvalidFetchSessionEpoch));
    }

    #[test]
    fn a_full_request_ends_the_session_it_names_and_so_does_a_last_one() {
        let sessions = FetchSessions::new(10, 1);
        let first = begin_session(&sessions, 0..1, 0);
        assert!(go_on(&sessions, request(first, 0, [0]), |_| STILL).is_ok());
        assert_eq!(sessions.counts(), (1, 1));
        assert_eq!(go_on(&sessions, request(first, 1, []), |_| STILL), Err(ErrorCode::FetchSessionIdNotFound));
        let second = begin_session(&sessions, 0..1, 0);
        assert_eq!(go_on(&sessions, request(second, -1, [0]), |_| STILL), Ok(vec![0]));
        assert_eq!(sessions.counts(), (1, 1));
    }

    #[test]
    fn a_newcomer_takes_the_place_of_the_unused_or_of_an_old_and_smaller_one() {
        let sessions = FetchSessions::new(2, 1);
        let small = begin_session(&sessions, 0..1, 0);
        let large = begin_session(&sessions, 0..5, 0);
        // All are young and in use.
        assert_eq!(begin_session(&sessions, 0..9, EVICTION_MS), 0);
        let keep_alive = |id, now_ms| {
            let plan = sessions.begin(request(id, 1, []), now_ms).expect("it is there");
            let told = vec![STILL; plan.asked.len()];
            sessions.finish(plan, &told, now_ms).expect("answered");
        };
        keep_alive(small, EVICTION_MS);
        keep_alive(large, EVICTION_MS);
        let later = EVICTION_MS + 1;
        // Old, but not smaller.
        assert_eq!(begin_session(&sessions, 0..1, later), 0);
        assert_ne!(begin_session(&sessions, 0..2, later), 0);
        assert!(sessions.begin(request(small, 2, []), later).is_err());
        assert!(sessions.begin(request(large, 2, []), later).is_ok());
        // Unused for long, whatever its size.
        assert_ne!(begin_session(&sessions, 0..1, 2 * later + EVICTION_MS), 0);
        assert_eq!(sessions.counts().0, 2);
    }

    #[test]
    fn without_slots_there_are_no_sessions() {
        let sessions = FetchSessions::new(0, 1);
        assert_eq!(begin_session(&sessions, 0..1, 0), 0);
        assert_eq!(sessions.counts(), (0, 0));
    }

    #[test]
    fn after_the_last_epoch_comes_the_first() {
        assert_eq!(next_epoch(i32::MAX), 1);
        assert_eq!(next_epoch(EPOCH_FIRST), 1);
    }
}
