//! What compaction must know of transactions: which batches were aborted, and whether a marker still has data.
//!
//! **What it does not know**: keys, files.
//!
//! A marker is kept as long as a batch of its transaction was met in the same pass, kept or not: a reader that has the batch
//! must find the marker. In the pass after that it may go, once its delete horizon is over.

use std::collections::{BTreeMap, BTreeSet};

use atonce_kernel::{Offset, Outcome, ProducerId};

use crate::batch::BatchHeader;
use crate::reader::AbortedTransaction;

/// The aborted transactions with data or marker in the segment that is read, and what was met so far in this pass over the log.
#[derive(Debug, Default)]
pub(super) struct Transactions {
    /// By producer and marker: a producer's transactions do not overlap.
    aborted: BTreeMap<(ProducerId, Offset), AbortedTransaction>,
    met_aborted: BTreeSet<(ProducerId, Offset)>,
    met_others: BTreeSet<ProducerId>,
}

/// What becomes of a marker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MarkerFate {
    /// Batches of its transaction were there. For an aborted one, the entry of the index.
    Needed(Option<AbortedTransaction>),
    /// Nothing is left of its transaction.
    Spent,
}

impl Transactions {
    /// Goes on in a segment in which these were aborted; what was before it is not asked for any more.
    pub(super) fn begin_segment(&mut self, aborted: Vec<AbortedTransaction>) {
        self.aborted = aborted.into_iter().map(|entry| ((entry.producer_id, entry.last_offset), entry)).collect();
    }

    /// Begins another pass.
    pub(super) fn begin_pass(&mut self) {
        self.met_aborted.clear();
        self.met_others.clear();
    }

    /// Follows a data batch; `true` if it was aborted.
    pub(super) fn meet_data(&mut self, header: &BatchHeader) -> bool {
        if !header.is_transactional() {
            return false;
        }
        let id = header.producer.id;
        let next = self.aborted.range((id, header.base_offset)..=(id, Offset::MAX)).next();
        match next {
            Some((key, entry)) if entry.first_offset <= header.base_offset => {
                self.met_aborted.insert(*key);
                true
            }
            Some(_) | None => {
                self.met_others.insert(id);
                false
            }
        }
    }

    /// Follows a marker.
    pub(super) fn meet_marker(&mut self, header: &BatchHeader, outcome: Outcome) -> MarkerFate {
        let id = header.producer.id;
        match outcome {
            Outcome::Commit if self.met_others.remove(&id) => MarkerFate::Needed(None),
            Outcome::Abort if self.met_aborted.remove(&(id, header.base_offset)) => {
                MarkerFate::Needed(self.aborted.get(&(id, header.base_offset)).copied())
            }
            Outcome::Commit | Outcome::Abort => MarkerFate::Spent,
        }
    }
}
