//! A host for one transaction coordinator, as small as one can be: a list of records for a log, a clock that is set by
//! hand, markers that are written when asked. All tests of the transaction coordinator run on it.
//!
//! It does to every record what a log would: encodes it, decodes it, and applies what was decoded.

#![allow(dead_code, reason = "each test uses its part")]

use atonce_coordinator::transaction::{
    AddPartitions, Admission, Caller, Command, EndTxn, InitProducerId, Limits, MarkersReport, Obligation, Record,
    Reply, TransactionCoordinator, VerifyPartitions,
};
use atonce_coordinator::{Context, Corrupt, Decision, Entry, Shard, Waiter};
use atonce_kernel::{Outcome, ProducerId, ProducerIdentity, Timestamp, TopicPartition, TransactionalId, Uuid};
use atonce_protocol::ErrorCode;

/// A shard with its log.
#[derive(Clone)]
pub(crate) struct Host {
    pub(crate) shard: TransactionCoordinator,
    pub(crate) log: Vec<Record>,
    pub(crate) now: Timestamp,
    pub(crate) fresh_producer_id: ProducerId,
    pub(crate) last_waiter: Waiter,
    limits: Limits,
}

impl Host {
    pub(crate) fn new() -> Self {
        Self::with_limits(Limits::default())
    }

    pub(crate) fn with_limits(limits: Limits) -> Self {
        Self {
            shard: TransactionCoordinator::new(limits),
            log: Vec::new(),
            now: Timestamp(1_000_000),
            fresh_producer_id: ProducerId(1),
            last_waiter: Waiter(0),
            limits,
        }
    }

    /// Puts one command to the shard, and takes in what it decides.
    pub(crate) fn ask(&mut self, command: &Command) -> Decision<TransactionCoordinator> {
        self.last_waiter = Waiter(self.last_waiter.0 + 1);
        let context = Context {
            now: self.now,
            waiter: self.last_waiter,
            fresh_producer_id: self.fresh_producer_id,
            fresh_uuid: Uuid::ZERO,
        };
        let decision = self.shard.decide(&context, command);
        if decision.took_producer_id {
            self.fresh_producer_id = ProducerId(self.fresh_producer_id.0 + 1);
        }
        for record in &decision.records {
            self.append(record.clone()).expect("a record of the shard's own follows");
        }
        for note in &decision.notes {
            self.shard.note(note);
        }
        decision
    }

    /// Appends a record and applies what can be read back of it.
    pub(crate) fn append(&mut self, record: Record) -> Result<(), Corrupt> {
        let (key, value) = record.encode().expect("it has an encoding");
        assert_eq!(Record::decode(key, value).expect("what was encoded decodes"), record);
        apply(&mut self.shard, self.log.len(), &record)?;
        self.log.push(record);
        Ok(())
    }

    /// Writes all markers that are owed, until nothing is.
    pub(crate) fn settle(&mut self) -> Vec<Decision<TransactionCoordinator>> {
        let mut decisions = Vec::new();
        while let Some(owed) = self.obligations().first() {
            decisions.push(self.ask(&written(owed)));
            assert!(decisions.len() < 100, "what is owed does not drain: {owed:?}");
        }
        decisions
    }

    /// Sends the ticks that are due.
    pub(crate) fn tick(&mut self) -> Vec<Decision<TransactionCoordinator>> {
        let mut decisions = Vec::new();
        while self.shard.next_deadline().is_some_and(|deadline| deadline <= self.now) {
            decisions.push(self.ask(&Command::Tick));
            assert!(decisions.len() < 100, "a deadline stays due");
        }
        decisions
    }

    pub(crate) fn wait_ms(&mut self, ms: i64) {
        self.now = self.now.plus_ms(ms);
    }

    pub(crate) fn obligations(&self) -> Vec<Obligation> {
        self.shard.obligations().collect()
    }

    /// Loses all but the log, and replays that. What was noted is gone; what is owed may be more, never less.
    pub(crate) fn crash(&mut self) {
        let before = self.obligations();
        self.shard = replay(&self.log, self.limits);
        assert_eq!(restored(&self.shard, self.limits), self.shard, "a snapshot holds all that the log does");
        let after = self.obligations();
        assert_eq!(before.len(), after.len(), "the same transactions are owed markers after a crash");
        for (before, after) in before.iter().zip(&after) {
            assert!(before.partitions.is_subset(&after.partitions), "{before:?} shrank to {after:?} in a crash");
            assert_eq!(&Obligation { partitions: after.partitions.clone(), ..before.clone() }, after);
        }
    }
}

pub(crate) fn apply(shard: &mut TransactionCoordinator, offset: usize, record: &Record) -> Result<(), Corrupt> {
    let offset = i64::try_from(offset).expect("a short log");
    shard.apply(&Entry::Record { record, producer: None, offset, timestamp: Timestamp(0) })
}

pub(crate) fn replay(log: &[Record], limits: Limits) -> TransactionCoordinator {
    let mut shard = TransactionCoordinator::new(limits);
    for (offset, record) in log.iter().enumerate() {
        apply(&mut shard, offset, record).expect("a log that was written can be replayed");
    }
    shard
}

/// The shard as its snapshot makes it.
pub(crate) fn restored(shard: &TransactionCoordinator, limits: Limits) -> TransactionCoordinator {
    let mut restored = TransactionCoordinator::new(limits);
    for (offset, record) in shard.snapshot() {
        apply(&mut restored, usize::try_from(offset).expect("an offset"), &record).expect("a snapshot can be applied");
    }
    restored
}

/// The report that everything owed was done.
pub(crate) fn written(owed: &Obligation) -> Command {
    Command::MarkersWritten(MarkersReport {
        transactional_id: owed.transactional_id.clone(),
        prepared_at: owed.prepared_at,
        partitions: owed.partitions.iter().cloned().collect(),
    })
}

/// A producer as the coordinator meets it: asks under its id, and remembers whom it was told to be.
#[derive(Clone, Debug)]
pub(crate) struct Producer {
    pub(crate) transactional_id: TransactionalId,
    pub(crate) identity: ProducerIdentity,
    pub(crate) timeout_ms: i32,
}

/// `init`, then markers and all, in one go; the answer that came.
impl Producer {
    pub(crate) fn new(transactional_id: &str) -> Self {
        Self {
            transactional_id: TransactionalId::from(transactional_id),
            identity: ProducerIdentity::NONE,
            timeout_ms: 60_000,
        }
    }

    pub(crate) fn init_request(&self, version: i16, expected: ProducerIdentity) -> InitProducerId {
        InitProducerId {
            version,
            transactional_id: Some(self.transactional_id.clone()),
            transaction_timeout_ms: self.timeout_ms,
            expected,
            enable_two_phase_commit: false,
            keep_prepared_transaction: false,
        }
    }

    /// Presents itself anew, and waits for the answer while markers are being written.
    pub(crate) fn init(&mut self, host: &mut Host) -> Result<ProducerIdentity, ErrorCode> {
        self.init_as(host, 5, ProducerIdentity::NONE)
    }

    /// Presents itself with the identity it has.
    pub(crate) fn init_as(
        &mut self,
        host: &mut Host,
        version: i16,
        expected: ProducerIdentity,
    ) -> Result<ProducerIdentity, ErrorCode> {
        let mut decisions = vec![host.ask(&Command::InitProducerId(self.init_request(version, expected)))];
        let waiter = host.last_waiter;
        decisions.extend(host.settle());
        let mut answers = decisions.into_iter().flat_map(|decision| decision.replies).filter(|(to, _)| *to == waiter);
        let Some((_, Reply::InitProducerId(answer))) = answers.next() else { panic!("no answer to InitProducerId") };
        assert_eq!(answers.next(), None, "answered twice");
        if let Ok(identity) = answer {
            self.identity = identity;
        }
        answer
    }

    pub(crate) fn add_request(&self, caller: Caller, partitions: &[&str]) -> AddPartitions {
        AddPartitions {
            caller,
            transactional_id: self.transactional_id.clone(),
            producer: self.identity,
            partitions: partitions.iter().map(|name| (partition(name), Admission::Exists)).collect(),
        }
    }

    /// Adds partitions by request, as v1 does.
    pub(crate) fn add(&self, host: &mut Host, partitions: &[&str]) -> ErrorCode {
        self.add_by(host, Caller::AddPartitionsToTxn { version: 3 }, partitions)
    }

    /// Adds partitions by writing to them, as v2 does.
    pub(crate) fn write(&self, host: &mut Host, partitions: &[&str]) -> ErrorCode {
        self.add_by(host, Caller::Produce { version: 12 }, partitions)
    }

    pub(crate) fn add_by(&self, host: &mut Host, caller: Caller, partitions: &[&str]) -> ErrorCode {
        let decision = host.ask(&Command::AddPartitions(self.add_request(caller, partitions)));
        partitions_answer(&decision)
    }

    /// Asks whether it may write, as brokers do for v1.
    pub(crate) fn verify(&self, host: &mut Host, caller: Caller, partitions: &[&str]) -> ErrorCode {
        let decision = host.ask(&Command::VerifyPartitions(VerifyPartitions {
            caller,
            transactional_id: self.transactional_id.clone(),
            producer: self.identity,
            partitions: partitions.iter().map(|name| partition(name)).collect(),
        }));
        partitions_answer(&decision)
    }

    /// Ends the transaction as the identity it has, without writing markers or remembering the answer.
    pub(crate) fn end(&self, host: &mut Host, version: i16, outcome: Outcome) -> Result<ProducerIdentity, ErrorCode> {
        let decision = host.ask(&Command::EndTxn(EndTxn {
            version,
            transactional_id: self.transactional_id.clone(),
            producer: self.identity,
            outcome,
        }));
        match decision.replies.as_slice() {
            [(waiter, Reply::EndTxn(answer))] if *waiter == host.last_waiter => *answer,
            other => panic!("not one answer to EndTxn: {other:?}"),
        }
    }

    /// Ends the transaction in v2 with markers and all, and goes on as whom it is told.
    pub(crate) fn finish(&mut self, host: &mut Host, outcome: Outcome) -> Result<ProducerIdentity, ErrorCode> {
        let answer = self.end(host, 5, outcome);
        host.settle();
        if let Ok(identity) = answer {
            self.identity = identity;
        }
        answer
    }
}

fn partitions_answer(decision: &Decision<TransactionCoordinator>) -> ErrorCode {
    let [(_, Reply::Partitions(partitions))] = decision.replies.as_slice() else {
        panic!("not one answer about partitions: {:?}", decision.replies)
    };
    let (_, first) = partitions.first().expect("at least one partition was asked for");
    assert!(partitions.iter().all(|(_, error)| error == first), "{partitions:?}");
    *first
}

/// `x-0`.
pub(crate) fn partition(name: &str) -> TopicPartition {
    let (topic, index) = name.rsplit_once('-').expect("a partition is written TOPIC-INDEX");
    TopicPartition::new(topic, index.parse().expect("a partition's index is a number"))
}

/// `P1/0`.
pub(crate) fn identity(text: &str) -> ProducerIdentity {
    let (id, epoch) = text.trim_start_matches('P').split_once('/').expect("an identity is written P1/0");
    ProducerIdentity::new(id.parse().expect("a number"), epoch.parse().expect("a number"))
}
