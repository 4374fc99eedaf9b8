//! The little language of the questions: each verb is one request, its answer one line of text.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use atonce_kernel::chance::Chance;
use atonce_protocol::ErrorCode;
use atonce_protocol::messages::add_offsets_to_txn_request::AddOffsetsToTxnRequest;
use atonce_protocol::messages::add_partitions_to_txn_request::{AddPartitionsToTxnRequest, AddPartitionsToTxnTopic};
use atonce_protocol::messages::create_topics_request::{CreatableTopic, CreateTopicsRequest};
use atonce_protocol::messages::describe_producers_request::{DescribeProducersRequest, TopicRequest};
use atonce_protocol::messages::describe_transactions_request::DescribeTransactionsRequest;
use atonce_protocol::messages::describe_transactions_response::TransactionState;
use atonce_protocol::messages::end_txn_request::EndTxnRequest;
use atonce_protocol::messages::find_coordinator_request::FindCoordinatorRequest;
use atonce_protocol::messages::init_producer_id_request::InitProducerIdRequest;
use atonce_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic};
use atonce_protocol::messages::offset_fetch_request::{
    OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics,
};
use atonce_protocol::messages::produce_request::{PartitionProduceData, ProduceRequest, TopicProduceData};
use atonce_protocol::messages::txn_offset_commit_request::{
    TxnOffsetCommitRequest, TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic,
};
use bytes::{BufMut, Bytes, BytesMut};

use crate::connection::Connection;
use crate::wait_until;

/// The topic that all questions are about: made anew for each run, called `x` in the text.
const TOPIC_IN_TEXT: &str = "x";

pub(crate) struct Asker {
    connection: Connection,
    chance: Chance,
    topic: String,
    /// A producer id that nobody got, another one for each case: a partition remembers whom it has heard of.
    nobody: i64,
    /// Producer ids of this case, in the order in which they appeared.
    producer_ids: Vec<i64>,
    /// Names in the text to names that are unique.
    names: BTreeMap<String, String>,
    /// The end of partition 0 at `mark-end`.
    marked_end: i64,
}

impl Asker {
    /// Makes the topic, and wakes both coordinators.
    pub(crate) fn connect(address: &str) -> Self {
        let seed = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock after 1970").as_nanos();
        let mut chance = Chance::from_seed(seed as u64);
        let topic = format!("x{:x}", chance.next_u64());
        let mut asker = Self {
            connection: Connection::open(address),
            chance,
            topic,
            nobody: 987_654_321,
            producer_ids: Vec::new(),
            names: BTreeMap::new(),
            marked_end: 0,
        };
        let new_topic = CreatableTopic {
            name: asker.topic.clone(),
            num_partitions: 2,
            replication_factor: 1,
            ..Default::default()
        };
        let create = CreateTopicsRequest { topics: vec![new_topic], timeout_ms: 10_000, ..Default::default() };
        let created = asker.connection.call(&create, 5).expect("an answer");
        assert_eq!(created.topics[0].error_code, 0, "{:?}", created.topics[0].error_message);
        for key_type in [0, 1] {
            let find = FindCoordinatorRequest { key: "boot".to_owned(), key_type, ..Default::default() };
            wait_until("a coordinator", || {
                asker.connection.call(&find, 3).filter(|found| found.error_code == 0).map(drop)
            });
        }
        asker.begin_case();
        for question in ["a init v5", "a add P1/0 x-0 v3", "a add-offsets g P1/0 v3", "a send-offset 0 g P1/0 v3"] {
            let answer = asker.ask(question);
            assert!(answer.contains("NONE"), "{question}: {answer}");
        }
        assert_eq!(asker.ask("a commit P1/0 v5"), "NONE P1/1");
        asker.ask("a until CompleteCommit");
        asker
    }

    pub(crate) fn begin_case(&mut self) {
        self.nobody += 1;
        self.producer_ids.clear();
        self.names.clear();
    }

    /// Puts one question; the answer as a line of text.
    pub(crate) fn ask(&mut self, question: &str) -> String {
        let mut words = Words::of(question);
        let id = words.next("a transactional id");
        let id = self.transactional_id(id);
        let verb = words.next("a verb").to_owned();
        wait_until_settled(|| match verb.as_str() {
            "init" => self.init(id.clone(), words.clone()),
            "init-until" => self.init_until(id.clone(), words.clone()),
            "add" => self.add(id.clone(), words.clone()),
            "add-offsets" => self.add_offsets(id.clone(), words.clone()),
            "send-offset" => self.send_offset(id.clone(), words.clone()),
            "fetch-offset" => self.fetch_offset(words.clone()),
            "commit" | "abort" => self.end(id.clone(), verb == "commit", words.clone()),
            "produce" => self.produce(id.clone(), words.clone()),
            "until" => self.until(id.clone(), words.clone()),
            "mark-end" => {
                self.marked_end = self.end_offset(0);
                String::new()
            }
            "ends" => {
                let (committed, uncommitted) = (self.end_offset(1), self.end_offset(0));
                format!("committed +{} uncommitted +{}", committed - self.marked_end, uncommitted - self.marked_end)
            }
            "describe" => self.describe(id.clone()),
            "producer" => self.producer(words.clone()),
            unknown => panic!("no verb `{unknown}`: {question}"),
        })
    }

    fn init(&mut self, transactional_id: Option<String>, mut words: Words<'_>) -> String {
        let version = words.version();
        let (producer_id, producer_epoch) = match words.after("as") {
            Some(identity) => self.identity(identity),
            None => (-1, -1),
        };
        let transaction_timeout_ms = words.number("timeout").unwrap_or(60_000);
        let request = InitProducerIdRequest {
            transactional_id,
            transaction_timeout_ms,
            producer_id,
            producer_epoch,
            ..Default::default()
        };
        let Some(response) = self.connection.call(&request, version) else { return closed() };
        self.with_identity(response.error_code, response.producer_id, response.producer_epoch)
    }

    /// Initialises again and again, until the epoch is the one asked for.
    fn init_until(&mut self, transactional_id: Option<String>, mut words: Words<'_>) -> String {
        let last: i16 = words.next("an epoch").parse().expect("an epoch");
        let (mut producer_id, mut producer_epoch) = (-1, -1);
        while producer_epoch < last {
            let request = InitProducerIdRequest {
                transactional_id: transactional_id.clone(),
                transaction_timeout_ms: 60_000,
                producer_id,
                producer_epoch,
                ..Default::default()
            };
            let response = self.connection.call(&request, 5).expect("an answer");
            match known(response.error_code) {
                ErrorCode::None => (producer_id, producer_epoch) = (response.producer_id, response.producer_epoch),
                ErrorCode::ConcurrentTransactions => {}
                error => return error.to_string(),
            }
        }
        self.with_identity(0, producer_id, producer_epoch)
    }

    fn add(&mut self, transactional_id: Option<String>, mut words: Words<'_>) -> String {
        let version = words.version();
        let (producer_id, producer_epoch) = self.identity(words.next("a producer"));
        let mut topics: Vec<AddPartitionsToTxnTopic> = Vec::new();
        for word in words.rest() {
            let (topic, partition) = word.rsplit_once('-').expect("a topic and a partition");
            let topic = self.topic(topic);
            let partition = partition.parse().expect("a partition");
            match topics.iter_mut().find(|known| known.name == topic) {
                Some(known) => known.partitions.push(partition),
                None => topics.push(AddPartitionsToTxnTopic {
                    name: topic,
                    partitions: vec![partition],
                    ..Default::default()
                }),
            }
        }
        let request = AddPartitionsToTxnRequest {
            v3_and_below_transactional_id: transactional_id.expect("never null here"),
            v3_and_below_producer_id: producer_id,
            v3_and_below_producer_epoch: producer_epoch,
            v3_and_below_topics: topics,
            ..Default::default()
        };
        let Some(response) = self.connection.call(&request, version) else { return closed() };
        let mut results: Vec<String> = Vec::new();
        for topic in &response.results_by_topic_v3_and_below {
            let name = if topic.name == self.topic { TOPIC_IN_TEXT } else { &topic.name };
            for result in &topic.results_by_partition {
                let error = error(result.partition_error_code);
                results.push(format!("{name}-{}:{error}", result.partition_index));
            }
        }
        results.sort();
        results.join(" ")
    }

    fn add_offsets(&mut self, transactional_id: Option<String>, mut words: Words<'_>) -> String {
        let version = words.version();
        let group_id = self.unique(words.next("a group"));
        let (producer_id, producer_epoch) = self.identity(words.next("a producer"));
        let request = AddOffsetsToTxnRequest {
            transactional_id: transactional_id.expect("never null here"),
            producer_id,
            producer_epoch,
            group_id,
            ..Default::default()
        };
        self.connection.call(&request, version).map_or_else(closed, |response| error(response.error_code))
    }

    fn send_offset(&mut self, transactional_id: Option<String>, mut words: Words<'_>) -> String {
        let version = words.version();
        let generation = words.number("generation");
        let member_id = words.value("member").unwrap_or_default().to_owned();
        let offset = words.next("an offset").parse().expect("an offset");
        let group_id = self.unique(words.next("a group"));
        let (producer_id, producer_epoch) = self.identity(words.next("a producer"));
        let partition = TxnOffsetCommitRequestPartition {
            partition_index: 0,
            committed_offset: offset,
            committed_metadata: Some(String::new()),
            ..Default::default()
        };
        let topic =
            TxnOffsetCommitRequestTopic { name: self.topic.clone(), partitions: vec![partition], ..Default::default() };
        let request = TxnOffsetCommitRequest {
            transactional_id: transactional_id.expect("never null here"),
            group_id,
            producer_id,
            producer_epoch,
            generation_id_or_member_epoch: generation.unwrap_or(-1),
            member_id,
            topics: vec![topic],
            ..Default::default()
        };
        let Some(response) = self.connection.call(&request, version) else { return closed() };
        error(response.topics[0].partitions[0].error_code)
    }

    fn fetch_offset(&mut self, mut words: Words<'_>) -> String {
        let require_stable = words.flag("stable");
        let group_id = self.unique(words.next("a group"));
        let topic =
            OffsetFetchRequestTopics { name: self.topic.clone(), partition_indexes: vec![0], ..Default::default() };
        let group = OffsetFetchRequestGroup { group_id, topics: Some(vec![topic]), ..Default::default() };
        let request = OffsetFetchRequest { groups: vec![group], require_stable, ..Default::default() };
        let Some(response) = self.connection.call(&request, 8) else { return closed() };
        let group = &response.groups[0];
        match group.topics.first() {
            Some(topic) => {
                format!("{} {}", topic.partitions[0].committed_offset, error(topic.partitions[0].error_code))
            }
            None => error(group.error_code),
        }
    }

    fn end(&mut self, transactional_id: Option<String>, committed: bool, mut words: Words<'_>) -> String {
        let version = words.version();
        let (producer_id, producer_epoch) = self.identity(words.next("a producer"));
        let request = EndTxnRequest {
            transactional_id: transactional_id.expect("never null here"),
            producer_id,
            producer_epoch,
            committed,
            ..Default::default()
        };
        let Some(response) = self.connection.call(&request, version) else { return closed() };
        if version < 5 {
            return error(response.error_code);
        }
        self.with_identity(response.error_code, response.producer_id, response.producer_epoch)
    }

    fn produce(&mut self, transactional_id: Option<String>, mut words: Words<'_>) -> String {
        let version = words.version();
        let sequence = words.number("sequence").expect("a sequence");
        let count = words.number("records").unwrap_or(1);
        let is_transactional = !words.flag("plain");
        let (producer_id, producer_epoch) = self.identity(words.next("a producer"));
        let records = batch(producer_id, producer_epoch, sequence, count, is_transactional);
        let partition = PartitionProduceData { index: 0, records: Some(records), ..Default::default() };
        let topic =
            TopicProduceData { name: self.topic.clone(), partition_data: vec![partition], ..Default::default() };
        let request = ProduceRequest {
            transactional_id,
            acks: -1,
            timeout_ms: 10_000,
            topic_data: vec![topic],
            ..Default::default()
        };
        let Some(response) = self.connection.call(&request, version) else { return closed() };
        error(response.responses[0].partition_responses[0].error_code)
    }

    fn until(&mut self, transactional_id: Option<String>, mut words: Words<'_>) -> String {
        let state = words.next("a state").to_owned();
        wait_until(&state, || (self.transaction(transactional_id.clone())?.transaction_state == state).then_some(()));
        String::new()
    }

    fn describe(&mut self, transactional_id: Option<String>) -> String {
        let Some(described) = self.transaction(transactional_id) else { return closed() };
        let started = if described.transaction_start_time_ms >= 0 { "started" } else { "not started" };
        let mut partitions = Vec::new();
        for topic in &described.topics {
            assert_eq!(topic.topic, self.topic, "no other topic was written to");
            partitions.extend(topic.partitions.iter().map(|partition| format!(" {TOPIC_IN_TEXT}-{partition}")));
        }
        partitions.sort();
        format!(
            "{} {} {}/{} timeout {} {started}{}",
            error(described.error_code),
            described.transaction_state,
            self.producer_name(described.producer_id),
            described.producer_epoch,
            described.transaction_timeout_ms,
            partitions.concat(),
        )
    }

    fn producer(&mut self, mut words: Words<'_>) -> String {
        let (producer_id, _) = self.identity(&format!("{}/0", words.next("a producer")));
        let topic = TopicRequest { name: self.topic.clone(), partition_indexes: vec![0], ..Default::default() };
        let request = DescribeProducersRequest { topics: vec![topic], ..Default::default() };
        let Some(response) = self.connection.call(&request, 0) else { return closed() };
        let active = &response.topics[0].partitions[0].active_producers;
        let Some(state) = active.iter().find(|state| state.producer_id == producer_id) else {
            return "not there".to_owned();
        };
        let coordinator_epoch = if state.coordinator_epoch >= 0 { "known" } else { "-1" };
        let open = if state.current_txn_start_offset >= 0 { "open" } else { "nothing open" };
        format!(
            "{}/{} last sequence {} coordinator epoch {coordinator_epoch} {open}",
            self.producer_name(producer_id),
            state.producer_epoch,
            state.last_sequence,
        )
    }

    fn transaction(&mut self, transactional_id: Option<String>) -> Option<TransactionState> {
        let request = DescribeTransactionsRequest {
            transactional_ids: vec![transactional_id.expect("never null here")],
            ..Default::default()
        };
        self.connection.call(&request, 0)?.transaction_states.into_iter().next()
    }

    fn end_offset(&mut self, isolation_level: i8) -> i64 {
        let partition = ListOffsetsPartition { current_leader_epoch: -1, timestamp: -1, ..Default::default() };
        let topic = ListOffsetsTopic { name: self.topic.clone(), partitions: vec![partition], ..Default::default() };
        let request = ListOffsetsRequest { replica_id: -1, isolation_level, topics: vec![topic], ..Default::default() };
        self.connection.call(&request, 7).expect("an answer").topics[0].partitions[0].offset
    }

    fn with_identity(&mut self, error_code: i16, producer_id: i64, producer_epoch: i16) -> String {
        match known(error_code) {
            ErrorCode::None => format!("NONE {}/{producer_epoch}", self.producer_name(producer_id)),
            error => error.to_string(),
        }
    }

    /// `P2` of the second producer id that appeared in this case.
    fn producer_name(&mut self, producer_id: i64) -> String {
        let known = self.producer_ids.iter().position(|known| *known == producer_id);
        let index = known.unwrap_or_else(|| {
            self.producer_ids.push(producer_id);
            self.producer_ids.len() - 1
        });
        format!("P{}", index + 1)
    }

    /// Id and epoch of `P2/7`; `P9` is nobody, `none` is -1.
    fn identity(&self, text: &str) -> (i64, i16) {
        let (name, epoch) = text.split_once('/').expect("a producer and an epoch");
        let epoch = epoch.parse().expect("an epoch");
        let producer_id = match name.strip_prefix('P') {
            Some("9") => self.nobody,
            Some(number) => {
                let index = number.parse::<usize>().expect("a number") - 1;
                *self.producer_ids.get(index).unwrap_or_else(|| panic!("{name} has not appeared in this case"))
            }
            None => -1,
        };
        (producer_id, epoch)
    }

    fn transactional_id(&mut self, name: &str) -> Option<String> {
        match name {
            "none" => None,
            "empty" => Some(String::new()),
            name => Some(self.unique(name)),
        }
    }

    fn unique(&mut self, name: &str) -> String {
        if let Some(known) = self.names.get(name) {
            return known.clone();
        }
        let unique = format!("{name}-{:x}", self.chance.next_u64());
        self.names.insert(name.to_owned(), unique.clone());
        unique
    }

    fn topic(&self, name: &str) -> String {
        if name == TOPIC_IN_TEXT { self.topic.clone() } else { name.to_owned() }
    }
}

/// Asks again while the coordinator says that it is not ready.
fn wait_until_settled(mut attempt: impl FnMut() -> String) -> String {
    const AGAIN: [ErrorCode; 4] = [
        ErrorCode::ConcurrentTransactions,
        ErrorCode::CoordinatorNotAvailable,
        ErrorCode::NotCoordinator,
        ErrorCode::CoordinatorLoadInProgress,
    ];
    wait_until("a settled answer", || {
        let answer = attempt();
        (!AGAIN.iter().any(|again| answer.contains(&again.to_string()))).then_some(answer)
    })
}

fn known(code: i16) -> ErrorCode {
    ErrorCode::from_i16(code).unwrap_or_else(|| panic!("no error has the code {code}"))
}

fn error(code: i16) -> String {
    known(code).to_string()
}

fn closed() -> String {
    "connection closed".to_owned()
}

/// A batch of `count` records without keys, each with the value `v`.
fn batch(producer_id: i64, producer_epoch: i16, sequence: i32, count: i32, is_transactional: bool) -> Bytes {
    const TRANSACTIONAL: i16 = 0x10;
    let now_ms = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock after 1970").as_millis() as i64;
    let mut checked = BytesMut::new();
    checked.put_i16(if is_transactional { TRANSACTIONAL } else { 0 });
    checked.put_i32(count - 1);
    checked.put_i64(now_ms);
    checked.put_i64(now_ms);
    checked.put_i64(producer_id);
    checked.put_i16(producer_epoch);
    checked.put_i32(sequence);
    checked.put_i32(count);
    for offset_delta in 0..count {
        // Lengths and deltas are zigzag varints, all below 64: a byte each. The key is null (-1).
        let zigzag = |value: i32| u8::try_from(value << 1).expect("a small number");
        checked.put_slice(&[zigzag(7), 0, 0, zigzag(offset_delta), 1, zigzag(1), b'v', 0]);
    }
    let mut batch = BytesMut::new();
    batch.put_i64(0);
    batch.put_i32(i32::try_from(checked.len()).expect("a small batch") + 9);
    batch.put_i32(-1);
    batch.put_i8(2);
    batch.put_u32(crc32c::crc32c(&checked));
    batch.put(checked);
    batch.freeze()
}

/// The words of a question, taken from the front or by name.
#[derive(Clone)]
struct Words<'a>(Vec<&'a str>);

impl<'a> Words<'a> {
    fn of(question: &'a str) -> Self {
        Self(question.split_whitespace().collect())
    }

    fn next(&mut self, what: &str) -> &'a str {
        assert!(!self.0.is_empty(), "the question lacks {what}");
        self.0.remove(0)
    }

    fn rest(self) -> Vec<&'a str> {
        self.0
    }

    fn flag(&mut self, name: &str) -> bool {
        let place = self.0.iter().position(|word| *word == name);
        place.map(|place| self.0.remove(place)).is_some()
    }

    /// The word that follows `name`.
    fn after(&mut self, name: &str) -> Option<&'a str> {
        let place = self.0.iter().position(|word| *word == name)?;
        self.0.remove(place);
        Some(self.0.remove(place))
    }

    /// The text after `name=`.
    fn value(&mut self, name: &str) -> Option<&'a str> {
        let is_it = |word: &&str| word.strip_prefix(name).is_some_and(|rest| rest.starts_with('='));
        let place = self.0.iter().position(is_it)?;
        Some(&self.0.remove(place)[name.len() + 1..])
    }

    fn number(&mut self, name: &str) -> Option<i32> {
        self.value(name).map(|value| value.parse().expect("a number"))
    }

    fn version(&mut self) -> i16 {
        let is_version = |word: &&str| word.strip_prefix('v').is_some_and(|rest| rest.parse::<i16>().is_ok());
        let place = self.0.iter().position(is_version).expect("each request says its version");
        self.0.remove(place)[1..].parse().expect("a version")
    }
}
