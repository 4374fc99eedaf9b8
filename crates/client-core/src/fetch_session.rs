//! One fetch session (KIP-227): a broker keeps what a reader asks for, so that a fetch says only what changed since the one
//! before, and is answered only what is new.
//!
//! **What it does not know**: which partitions are due, what a record is, how long to wait. The fetch machine has one session
//! for each of its places at a node, so that no two fetches of a session are ever in flight.
//!
//! Invariants: what is believed to be in the session was told the broker *in* that session, and was answered; after anything
//! else (a lost answer, a refusal, an answer that does not fit) the next request says everything, and ends what the broker may
//! still have. So a lost session costs a longer request, and never a record: offsets are the fetch machine's, and no answer
//! moves them but one that was taken.
//!
//! ```
//! use std::collections::BTreeMap;
//! use atonce_client_core::fetch_session::{FetchSession, SessionReply, Wanted};
//! use atonce_kernel::{TopicPartition, Uuid};
//! use atonce_protocol::ErrorCode;
//!
//! let wanted = |offset| Wanted { topic_id: Uuid([7; 16]), offset, current_leader_epoch: 0 };
//! let partition = TopicPartition::new("orders", 0);
//! let mut session = FetchSession::default();
//! let request = session.request(BTreeMap::from([(partition.clone(), wanted(0))]));
//! assert_eq!((request.session_id, request.session_epoch), (0, 0), "begin one");
//! // A session that the broker has forgotten is begun anew, and everything said again.
//! assert_eq!(session.handle_reply(0, Err(ErrorCode::FetchSessionIdNotFound)), SessionReply::Refused(ErrorCode::FetchSessionIdNotFound));
//! assert_eq!(session.request(BTreeMap::from([(partition, wanted(0))])).partitions.len(), 1);
//! ```

use std::collections::BTreeMap;

use atonce_kernel::{Offset, TopicId, TopicPartition};
use atonce_protocol::ErrorCode;

use crate::fetch::{Fetched, PartitionReply};

/// The epoch of a request that begins a session; the one it names is ended.
const EPOCH_FIRST: i32 = 0;
/// The epoch of a request that ends the session it names.
pub const EPOCH_FINAL: i32 = -1;

/// What is asked of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// The topic's id; zero if it is not known.
    pub topic_id: TopicId,
    /// Where to read.
    pub offset: Offset,
    /// The epoch that the leader is believed to have; -1 if not known.
    pub current_leader_epoch: i32,
}

/// What to say of the session, and of which partitions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionRequest {
    /// The session; 0 if there is none.
    pub session_id: i32,
    /// Which request of the session this is; 0 begins another.
    pub session_epoch: i32,
    /// Whether topics may be named by their ids: all of them are known.
    pub is_by_id: bool,
    /// All partitions, or those that changed, sorted.
    pub partitions: Vec<(TopicPartition, Wanted)>,
    /// Partitions that the session is to have no more, with the ids of their topics.
    pub forgotten: Vec<(TopicPartition, TopicId)>,
}

/// What an answer says, with the session taken into account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionReply {
    /// Of each partition that was asked for or is in the session; what an incremental answer left out is as it was. Who is
    /// missing here was left out by a broker that should not have done so.
    Told(BTreeMap<TopicPartition, PartitionReply>),
    /// The session is gone and nothing was said of any partition: ask again, which says everything.
    AskAgain,
    /// All of it was refused.
    Refused(ErrorCode),
    /// Not an answer to what was asked: nothing of it counts.
    Unfit,
}

/// A partition in the session: what was asked last, and the ends that were told last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Known {
    wanted: Wanted,
    /// High watermark and last stable offset, if the last answer was one.
    ends: Option<(Offset, Offset)>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum State {
    /// There is none, or none that we know of.
    #[default]
    Without,
    /// A request that says everything is on its way. Should it not arrive, the session that it ends may still be there.
    Beginning { ends: Option<i32>, is_by_id: bool, partitions: BTreeMap<TopicPartition, Known> },
    /// The broker has it.
    Open { id: i32, next_epoch: i32, is_by_id: bool, partitions: BTreeMap<TopicPartition, Known> },
    /// The broker may have it, and what it holds in it is not known.
    InDoubt { id: i32 },
}

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FetchSession {
    state: State,
}

impl FetchSession {
    /// What to send so that exactly `wanted` is read. Its answer, or that there is none, must be told before the next.
    pub fn request(&mut self, wanted: BTreeMap<TopicPartition, Wanted>) -> SessionRequest {
        let is_by_id = wanted.values().all(|it| !it.topic_id.is_zero());
        match &mut self.state {
            State::Open { id, next_epoch, is_by_id: was_by_id, partitions } if *was_by_id == is_by_id => {
                let (session_id, session_epoch) = (*id, *next_epoch);
                let Change { said, forgotten } = change(partitions, wanted);
                SessionRequest { session_id, session_epoch, is_by_id, partitions: said, forgotten }
            }
            State::Without | State::Beginning { .. } | State::Open { .. } | State::InDoubt { .. } => {
                let ends = self.held();
                let partitions: Vec<(TopicPartition, Wanted)> = wanted.into_iter().collect();
                let known = partitions.iter().map(|(it, wanted)| (it.clone(), Known { wanted: *wanted, ends: None }));
                self.state = State::Beginning { ends, is_by_id, partitions: known.collect() };
                let (session_id, session_epoch) = (ends.unwrap_or(0), EPOCH_FIRST);
                SessionRequest { session_id, session_epoch, is_by_id, partitions, forgotten: Vec::new() }
            }
        }
    }

    /// The answer came: the session it names, and what it says.
    pub fn handle_reply(
        &mut self,
        session_id: i32,
        result: Result<Vec<(TopicPartition, PartitionReply)>, ErrorCode>,
    ) -> SessionReply {
        let result = result.map(|replies| replies.into_iter().collect::<BTreeMap<_, _>>());
        match std::mem::take(&mut self.state) {
            State::Beginning { ends, is_by_id, partitions } => match result {
                Ok(replies) => self.handle_begun(session_id, is_by_id, partitions, replies),
                Err(code) => {
                    self.state = after_refusal(ends, code);
                    SessionReply::Refused(code)
                }
            },
            State::Open { id, next_epoch, is_by_id, mut partitions } => match result {
                Ok(_) if session_id != id && session_id != 0 => {
                    self.state = State::InDoubt { id };
                    SessionReply::Unfit
                }
                Ok(replies) => match complete(&mut partitions, replies) {
                    None => {
                        self.state = State::InDoubt { id };
                        SessionReply::Unfit
                    }
                    Some(told) => {
                        // An answer without a session is the last one of it.
                        if session_id != 0 {
                            self.state = State::Open { id, next_epoch: following(next_epoch), is_by_id, partitions };
                        }
                        SessionReply::Told(told)
                    }
                },
                Err(code) => {
                    self.state = after_refusal(Some(id), code);
                    if is_of_the_session(code) { SessionReply::AskAgain } else { SessionReply::Refused(code) }
                }
            },
            // Nothing was asked in a session.
            state @ (State::Without | State::InDoubt { .. }) => {
                self.state = state;
                match result {
                    Ok(replies) => SessionReply::Told(replies),
                    Err(code) => SessionReply::Refused(code),
                }
            }
        }
    }

    fn handle_begun(
        &mut self,
        session_id: i32,
        is_by_id: bool,
        mut partitions: BTreeMap<TopicPartition, Known>,
        replies: BTreeMap<TopicPartition, PartitionReply>,
    ) -> SessionReply {
        let is_whole = partitions.keys().all(|it| replies.contains_key(it));
        let has_strangers = replies.keys().any(|it| !partitions.contains_key(it));
        self.state = match session_id {
            0 => State::Without,
            id if is_whole && !has_strangers => {
                learn(&mut partitions, &replies);
                State::Open { id, next_epoch: EPOCH_FIRST + 1, is_by_id, partitions }
            }
            id => State::InDoubt { id },
        };
        if has_strangers { SessionReply::Unfit } else { SessionReply::Told(replies) }
    }

    /// No answer will come.
    pub fn handle_lost(&mut self) {
        self.state = match std::mem::take(&mut self.state) {
            State::Beginning { ends: Some(id), .. } | State::Open { id, .. } | State::InDoubt { id } => {
                State::InDoubt { id }
            }
            State::Beginning { ends: None, .. } | State::Without => State::Without,
        };
    }

    /// Nothing more is read: the session to end, if the broker may have one, with a request of epoch [`EPOCH_FINAL`].
    pub fn close(&mut self) -> Option<i32> {
        let id = self.held();
        self.state = State::Without;
        id
    }

    /// The session that the broker may have.
    fn held(&self) -> Option<i32> {
        match &self.state {
            State::Open { id, .. } | State::InDoubt { id } | State::Beginning { ends: Some(id), .. } => Some(*id),
            State::Without | State::Beginning { ends: None, .. } => None,
        }
    }
}

/// What a broker must be told so that its session holds what ours does.
struct Change {
    said: Vec<(TopicPartition, Wanted)>,
    forgotten: Vec<(TopicPartition, TopicId)>,
}

/// Makes the session hold what is wanted; returns what the broker must be told for that.
fn change(partitions: &mut BTreeMap<TopicPartition, Known>, wanted: BTreeMap<TopicPartition, Wanted>) -> Change {
    let mut forgotten = Vec::new();
    partitions.retain(|topic_partition, known| {
        let id = known.wanted.topic_id;
        // A topic made again has the same name, and is another one to the broker.
        let stays = wanted.get(topic_partition).is_some_and(|wanted| wanted.topic_id == id);
        if !stays {
            forgotten.push((topic_partition.clone(), id));
        }
        stays
    });
    let mut said = Vec::new();
    for (topic_partition, wanted) in wanted {
        let known = partitions.get_mut(&topic_partition);
        if known.as_ref().is_some_and(|known| known.wanted == wanted) {
            continue;
        }
        match known {
            Some(known) => known.wanted = wanted,
            None => drop(partitions.insert(topic_partition.clone(), Known { wanted, ends: None })),
        }
        said.push((topic_partition, wanted));
    }
    Change { said, forgotten }
}

/// The answer with what it left out, which is as it was told before; `None` if it speaks of what is not in the session.
fn complete(
    partitions: &mut BTreeMap<TopicPartition, Known>,
    mut replies: BTreeMap<TopicPartition, PartitionReply>,
) -> Option<BTreeMap<TopicPartition, PartitionReply>> {
    if replies.keys().any(|it| !partitions.contains_key(it)) {
        return None;
    }
    learn(partitions, &replies);
    for (topic_partition, known) in partitions {
        // A broker leaves out only what it has told. Of one that never was the broker has said nothing.
        let Some((high_watermark, last_stable_offset)) = known.ends else { continue };
        let unchanged = Fetched { high_watermark, last_stable_offset, ..Fetched::default() };
        replies.entry(topic_partition.clone()).or_insert(Ok(unchanged));
    }
    Some(replies)
}

fn learn(partitions: &mut BTreeMap<TopicPartition, Known>, replies: &BTreeMap<TopicPartition, PartitionReply>) {
    for (topic_partition, reply) in replies {
        if let Some(known) = partitions.get_mut(topic_partition) {
            known.ends = match reply {
                Ok(fetched) => Some((fetched.high_watermark, fetched.last_stable_offset)),
                // The broker tells the ends of such a one again with its next answer.
                Err(_) => None,
            };
        }
    }
}

fn after_refusal(held: Option<i32>, code: ErrorCode) -> State {
    match held {
        Some(id) if code != ErrorCode::FetchSessionIdNotFound => State::InDoubt { id },
        Some(_) | None => State::Without,
    }
}

/// Whether it is the session that is refused, and not what was asked.
fn is_of_the_session(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::FetchSessionIdNotFound
            | ErrorCode::InvalidFetchSessionEpoch
            | ErrorCode::FetchSessionTopicIdError
            | ErrorCode::InconsistentTopicId
    )
}

/// Epochs rise to the greatest number, and go on from 1: 0 begins another session.
fn following(epoch: i32) -> i32 {
    epoch.checked_add(1).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn epochs_of_a_session_go_on_from_one_when_they_are_used_up() {
        let mut session = FetchSession {
            state: State::Open { id: 7, next_epoch: i32::MAX, is_by_id: true, partitions: BTreeMap::new() },
        };
        assert_eq!(session.request(BTreeMap::new()).session_epoch, i32::MAX);
        assert_eq!(session.handle_reply(7, Ok(Vec::new())), SessionReply::Told(BTreeMap::new()));
        let request = session.request(BTreeMap::new());
        assert_eq!((request.session_id, request.session_epoch), (7, 1));
    }
}
