//! The writer without its thread: what only shows between two starts on different boots, or when its storage refuses one
//! step in the middle of many.

use std::path::Path;
use std::sync::{Arc, mpsc};

use atonce_coordinator::transaction::{AddPartitions, Admission, Caller, Command, EndTxn, InitProducerId, Reply};
use atonce_kernel::{Outcome, ProducerIdentity, TopicPartition, TransactionalId, Uuid};
use atonce_log::{AppendError, Durability, StageError};
use atonce_protocol::ErrorCode;

mod positions_in_time;
mod replayed;
mod unfinished_ends;

/// What the writer's storage refuses in a test, as a full disk would, but for any step.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    /// So many more are taken, and then none, until this is taken back.
    after: Option<u32>,
}

impl Refusals {
    pub(super) fn refuse(&mut self) -> Result<(), AppendError> {
        match &mut self.after {
            Some(0) => Err(StageError::DiskFull { available_bytes: 0, reserve_bytes: 0 }.into()),
            Some(left) => {
                *left -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }
}

use super::{Engine, NewTopic, WakeUp};
use crate::configuration::Properties;

fn engine(folder: &Path, durability: Durability, boot: u8) -> Engine {
    engine_with(folder, durability, boot, &[])
}

fn engine_with(folder: &Path, durability: Durability, boot: u8, settings: &[(&str, &str)]) -> Engine {
    engine_and_wake_ups(folder, durability, boot, settings).0
}

fn engine_and_wake_ups(
    folder: &Path,
    durability: Durability,
    boot: u8,
    settings: &[(&str, &str)],
) -> (Engine, mpsc::Receiver<WakeUp>) {
    let mut properties = Properties::default();
    for (key, value) in settings {
        properties.set(key, value).expect("fits");
    }
    properties.set("transaction.state.log.num.partitions", "2").expect("fits");
    properties.set("offsets.topic.num.partitions", "2").expect("fits");
    let (wake_ups, receiver) = mpsc::channel();
    let boot_id = Some(Uuid([boot; 16]));
    let engine = Engine::open(folder, durability, Arc::new(properties.settings()), boot_id, wake_ups).expect("opened");
    (engine, receiver)
}

fn init(engine: &mut Engine, id: &TransactionalId) -> ProducerIdentity {
    let command = Command::InitProducerId(InitProducerId {
        version: 5,
        transactional_id: Some(id.clone()),
        transaction_timeout_ms: 60_000,
        expected: ProducerIdentity::NONE,
        enable_two_phase_commit: false,
        keep_prepared_transaction: false,
    });
    match engine.transactions_now(id, &command) {
        Ok(Reply::InitProducerId(Ok(producer))) => producer,
        other => panic!("{other:?}"),
    }
}

fn open_transaction(engine: &mut Engine, id: &TransactionalId, producer: ProducerIdentity) {
    let command = Command::AddPartitions(AddPartitions {
        caller: Caller::AddPartitionsToTxn { version: 3 },
        transactional_id: id.clone(),
        producer,
        partitions: vec![(TopicPartition::new("t", 0), Admission::Exists)],
    });
    assert!(matches!(engine.transactions_now(id, &command), Ok(Reply::Partitions(_))));
}

fn commit(engine: &mut Engine, id: &TransactionalId, producer: ProducerIdentity) -> Result<(), ErrorCode> {
    let command =
        Command::EndTxn(EndTxn { version: 5, transactional_id: id.clone(), producer, outcome: Outcome::Commit });
    match engine.transactions_now(id, &command) {
        Ok(Reply::EndTxn(ended)) => ended.map(|_| ()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn after_a_loss_of_power_with_unsynced_commits_every_transactional_id_begins_anew() {
    let ids = ["open", "used", "fresh"].map(TransactionalId::from);
    // On the same boot all go on; on another, those whose commits were not synced do not, under whichever durability
    // they are found.
    for (durability, then, second_boot, begins_anew) in [
        (Durability::Os, Durability::Os, 1, false),
        (Durability::Os, Durability::Os, 2, true),
        (Durability::Os, Durability::Sync, 2, true),
        (Durability::Sync, Durability::Sync, 2, false),
        (Durability::Sync, Durability::Os, 2, false),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let mut first = engine(folder.path(), durability, 1);
        first
            .create_topic(NewTopic { name: "t".to_owned(), partitions: 1, configs: Default::default() })
            .expect("made");
        let producers = ids.clone().map(|id| init(&mut first, &id));
        open_transaction(&mut first, &ids[0], producers[0]);
        open_transaction(&mut first, &ids[1], producers[1]);
        commit(&mut first, &ids[1], producers[1]).expect("committed");
        first.commit();
        drop(first);

        let mut second = engine(folder.path(), then, second_boot);
        let ended = commit(&mut second, &ids[0], producers[0]);
        assert_eq!(ended.is_err(), begins_anew, "{durability:?} then {then:?} on boot {second_boot}: {ended:?}");
        for (id, before) in ids.iter().zip(producers) {
            let after = init(&mut second, id);
            assert_eq!(before.id != after.id, begins_anew, "{id}: {before} then {after}");
        }
    }
}
