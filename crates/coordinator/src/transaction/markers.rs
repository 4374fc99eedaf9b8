//! News of markers: written, or owed to partitions that are gone. With the last one the transaction is completed.

use std::collections::BTreeSet;

use atonce_kernel::TopicPartition;

use super::init_producer_id::answer_held;
use super::state::State;
use super::{Change, MarkersReport, Note, Record, TransactionCoordinator};
use crate::{Context, Decision};

impl TransactionCoordinator {
    /// Strikes partitions off what is owed. To the machine a partition that is gone is as good as one with its marker.
    ///
    /// Shape: `Prepared → Complete` with the last one, and at once `Complete → Empty` if an initialisation was held;
    ///   before that only noted.
    /// Retry: harmless. A report on another transaction than the present one changes nothing.
    /// Source: KIP-98; KAFKA-9777 (completed once only).
    pub(super) fn markers(&self, context: &Context, report: &MarkersReport) -> Decision<Self> {
        let Some(registration) = self.registrations.get(&report.transactional_id) else { return Decision::nothing() };
        if registration.recorded_at != report.prepared_at {
            return Decision::nothing();
        }
        let State::Prepared { partitions, .. } = &registration.transaction.state else { return Decision::nothing() };
        let reported = report.partitions.iter().collect::<BTreeSet<_>>();
        let owed = || partitions.difference(&registration.noted.written);
        if owed().any(|partition| !reported.contains(partition)) {
            return note_written(report, owed().filter(|partition| reported.contains(partition)).cloned().collect());
        }
        let completed = registration.transaction.settled(context.now);
        let held = registration.noted.held.as_ref();
        let answer = held.map(|held| answer_held(context, &report.transactional_id, &completed, held));
        Decision { records: vec![Record::registered(&report.transactional_id, completed)], ..Decision::nothing() }
            .then(answer.unwrap_or_else(Decision::nothing))
    }
}

fn note_written(report: &MarkersReport, written: Vec<TopicPartition>) -> Decision<TransactionCoordinator> {
    if written.is_empty() {
        return Decision::nothing();
    }
    let note = Note { transactional_id: report.transactional_id.clone(), change: Change::Written(written) };
    Decision { notes: vec![note], ..Decision::nothing() }
}
