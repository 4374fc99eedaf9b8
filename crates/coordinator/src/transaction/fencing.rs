//! Who may act on a transaction.

use atonce_kernel::ProducerIdentity;
use atonce_protocol::ErrorCode;

use super::state::Transaction;

/// Whether `producer` is the one that the transactional id belongs to now. A higher epoch is refused as a lower one
/// is: nobody was given it.
///
/// Refuses: `InvalidProducerIdMapping`; `ProducerFenced`.
/// Source: KIP-98, KIP-588; KAFKA-9600 (the higher epoch).
pub(super) fn check_producer(transaction: &Transaction, producer: ProducerIdentity) -> Result<(), ErrorCode> {
    if producer.id != transaction.producer.id {
        Err(ErrorCode::InvalidProducerIdMapping)
    } else if producer.epoch != transaction.producer.epoch {
        Err(ErrorCode::ProducerFenced)
    } else {
        Ok(())
    }
}
