//! TxnOffsetCommit (key 28), versions 0 to 6: sends a group's offsets as part of a transaction; they count from its commit on.
//!
//! - 1: throttle time. 2: leader epochs. 3: generation and member, by which zombies are fenced (KIP-447); flexible.
//! - 4: TRANSACTION_ABORTABLE. 5: sending adds the group's partition to the transaction (KIP-890). 6: topic ids.

use atonce_coordinator::group::{Command as GroupCommand, Reply as GroupDecided, wire};
use atonce_coordinator::transaction::{AddPartitions, Admission, Caller, Command, Reply as Decided, VerifyPartitions};
use atonce_kernel::{ProducerIdentity, Sequence, TopicPartition, TransactionalId};
use atonce_log::{TransactionVersion, Verification, VerificationGuard};
use atonce_protocol::messages::txn_offset_commit_request::TxnOffsetCommitRequest;
use atonce_protocol::messages::txn_offset_commit_response::TxnOffsetCommitResponse;
use atonce_protocol::{ApiKey, ErrorCode};

use super::{Api, Call, Reply};
use crate::engine::Engine;
use crate::topic_name::CONSUMER_OFFSETS;

pub(super) const API: Api =
    Api { key: ApiKey::TxnOffsetCommit, versions: 0..=6, run: |incoming| incoming.on_engine(handle) };

fn handle(engine: &mut Engine, call: &Call, request: TxnOffsetCommitRequest, reply: Reply<TxnOffsetCommitResponse>) {
    let (commit, asked) = wire::txn_offset_commit(&request, call.version, engine);
    let response = if asked.is_all_refused() {
        asked.txn_offset_commit_response(Ok(&[]))
    } else if request.group_id.is_empty() {
        // Said before the transaction is looked at.
        asked.txn_offset_commit_response(Err(ErrorCode::InvalidGroupId))
    } else {
        let transactional_id = TransactionalId::from(request.transactional_id);
        let partition = engine.group_partition(&commit.group);
        let answers = verify(engine, call.version, &transactional_id, commit.producer, partition)
            .and_then(|guard| engine.groups_now(partition, &GroupCommand::TxnOffsetCommit(commit), guard));
        match answers {
            Ok(GroupDecided::OffsetsCommitted(answers)) => asked.txn_offset_commit_response(Ok(&answers)),
            Ok(_) => asked.txn_offset_commit_response(Err(ErrorCode::UnknownServerError)),
            Err(code) => asked.txn_offset_commit_response(Err(code)),
        }
    };
    engine.answer(reply, response);
}

/// The guard to append with, once the coordinator has agreed; none if the transaction is open here already.
fn verify(
    engine: &mut Engine,
    version: i16,
    transactional_id: &TransactionalId,
    producer: ProducerIdentity,
    partition: i32,
) -> Result<Option<VerificationGuard>, ErrorCode> {
    engine.make_offsets_topic()?;
    let partition = TopicPartition::new(CONSUMER_OFFSETS, partition);
    let adds = version >= 5;
    let rules = if adds { TransactionVersion::V2 } else { TransactionVersion::V1 };
    let now = engine.now;
    let verification = engine.storage().start_verification(&partition, producer, Sequence::FIRST, rules, now);
    let guard = match verification {
        Some(Verification::NotNeeded) => return Ok(None),
        Some(Verification::Needed(guard)) => guard,
        None => return Err(ErrorCode::CoordinatorNotAvailable),
    };
    let caller = Caller::TxnOffsetCommit { version };
    let command = if adds {
        Command::AddPartitions(AddPartitions {
            caller,
            transactional_id: transactional_id.clone(),
            producer,
            partitions: vec![(partition, Admission::Exists)],
        })
    } else {
        Command::VerifyPartitions(VerifyPartitions {
            caller,
            transactional_id: transactional_id.clone(),
            producer,
            partitions: vec![partition],
        })
    };
    match engine.transactions_now(transactional_id, &command)? {
        Decided::Partitions(verdicts) => match verdicts.first() {
            Some((_, ErrorCode::None)) => Ok(Some(guard)),
            Some((_, code)) => Err(*code),
            None => Err(ErrorCode::UnknownServerError),
        },
        Decided::InitProducerId(_) | Decided::EndTxn(_) => Err(ErrorCode::UnknownServerError),
    }
}
