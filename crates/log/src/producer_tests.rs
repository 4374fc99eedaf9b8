//! The rules for epochs, sequences and transactions, as Apache Kafka 4.4 answers; the stories are those that it was
//! asked.
//!
//! A line is `who: what -> answer`. `who` is a producer's id and epoch. `produce FIRST [xCOUNT] [plain | v11 | v12]`:
//! a batch, outside of a transaction, or in one of the older or newer protocol whose coordinator agrees;
//! `unverified`: it was not asked; `commit` and `abort` `v4`: the marker has the transaction's epoch; `v5`: the next
//! one.

use atonce_protocol::ErrorCode;

use super::*;

#[derive(Default)]
struct Story {
    producers: Producers,
    next_offset: Offset,
}

const NOW: Timestamp = Timestamp(1000);

fn check(story: &str) {
    let mut world = Story::default();
    for line in story.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (command, expected) = line.split_once(" -> ").unwrap();
        assert_eq!(world.tell(command.trim()), expected.trim(), "{line}");
    }
}

impl Story {
    fn tell(&mut self, command: &str) -> String {
        let (who, what) = command.split_once(": ").unwrap();
        let (id, epoch) = who.split_once('/').unwrap();
        let producer = ProducerIdentity::new(id.parse().unwrap(), epoch.parse().unwrap());
        let words: Vec<&str> = what.split_whitespace().collect();
        match words[0] {
            "produce" => self.produce(producer, words[1].parse().unwrap(), &words[2..]),
            "commit" => self.end(producer, Outcome::Commit, &words[1..]),
            "abort" => self.end(producer, Outcome::Abort, &words[1..]),
            "verify" => {
                let sequence = Sequence(words[1].parse().unwrap());
                self.producers.start_verification(producer, sequence, TransactionVersion::V1, NOW);
                "asked".to_owned()
            }
            _ => panic!("{command}"),
        }
    }

    fn produce(&mut self, producer: ProducerIdentity, sequence: i32, words: &[&str]) -> String {
        let count: i32 = words.iter().find_map(|word| word.strip_prefix('x')).map_or(1, |count| count.parse().unwrap());
        let is_transactional = !words.contains(&"plain");
        let version = if words.contains(&"v12") { TransactionVersion::V2 } else { TransactionVersion::V1 };
        let header = header(producer, sequence, count, is_transactional);
        let guard = if !is_transactional || words.contains(&"unverified") {
            None
        } else {
            match self.producers.start_verification(producer, Sequence(sequence), version, NOW) {
                Verification::NotNeeded => None,
                Verification::Needed(guard) => Some(guard),
            }
        };
        let origin =
            if words.contains(&"coordinator") { Origin::Coordinator { guard } } else { Origin::Client { guard } };
        match self.producers.check_batch(&header, origin) {
            Ok(Verdict::Append) => {
                self.producers.apply_batch(&header, self.next_offset);
                self.next_offset += i64::from(count);
                format!("at {}", self.next_offset - i64::from(count))
            }
            Ok(Verdict::Duplicate(original)) => format!("was at {}", original.base_offset()),
            Err(refusal) => name(refusal.error_code()),
        }
    }

    fn end(&mut self, producer: ProducerIdentity, outcome: Outcome, words: &[&str]) -> String {
        let version = if words.contains(&"v5") { TransactionVersion::V2 } else { TransactionVersion::V1 };
        let epoch = if version == TransactionVersion::V2 && !words.contains(&"again") {
            producer.epoch.next()
        } else {
            producer.epoch
        };
        let coordinator_epoch = if words.contains(&"newer") { 5 } else { 4 };
        let producer = ProducerIdentity { epoch, ..producer };
        let marker = Marker { producer, outcome, coordinator_epoch, version };
        if let Err(refusal) = self.producers.check_marker(&marker) {
            return name(refusal.error_code());
        }
        let end = EndTransactionMarker { outcome, coordinator_epoch };
        let header = BatchHeader::parse_whole(&end.encode(producer, NOW)).unwrap();
        let completed = self.producers.apply_marker(&header, end, self.next_offset);
        self.next_offset += 1;
        match completed {
            Some(completed) => format!("since {}, stable to {}", completed.first_offset, completed.last_stable_offset),
            None => "nothing was open".to_owned(),
        }
    }
}

fn name(code: ErrorCode) -> String {
    code.to_string()
}

fn header(producer: ProducerIdentity, sequence: i32, count: i32, is_transactional: bool) -> BatchHeader {
    BatchHeader {
        base_offset: 0,
        size: 100,
        leader_epoch: 0,
        crc: 0,
        attributes: if is_transactional { 1 << 4 } else { 0 },
        last_offset_delta: count - 1,
        base_timestamp: NOW,
        max_timestamp: NOW,
        producer,
        base_sequence: Sequence(sequence),
        records_count: count,
    }
}

#[test]
fn sequences_in_a_transaction() {
    check(
        "1/0: produce 5 v11 -> at 0
         1/0: produce 0 x3 v11 -> OUT_OF_ORDER_SEQUENCE_NUMBER
         1/0: produce 0 x3 v11 -> OUT_OF_ORDER_SEQUENCE_NUMBER
         1/0: produce 3 v11 -> OUT_OF_ORDER_SEQUENCE_NUMBER
         1/0: produce 5 v11 -> was at 0
         1/0: produce 4 v11 -> OUT_OF_ORDER_SEQUENCE_NUMBER
         1/0: produce 3 v11 -> OUT_OF_ORDER_SEQUENCE_NUMBER
         1/0: produce 0 x2 v11 -> OUT_OF_ORDER_SEQUENCE_NUMBER
         1/0: produce 6 v11 -> at 1
         1/0: commit v5 -> since 0, stable to 3",
    );
}

#[test]
fn six_batches_and_the_oldest_repeated() {
    check(
        "1/0: produce 0 v11 -> at 0
         1/0: produce 1 v11 -> at 1
         1/0: produce 2 v11 -> at 2
         1/0: produce 3 v11 -> at 3
         1/0: produce 4 v11 -> at 4
         1/0: produce 5 v11 -> at 5
         1/0: produce 1 v11 -> was at 1
         1/0: produce 0 v11 -> OUT_OF_ORDER_SEQUENCE_NUMBER
         1/0: produce 2 x2 v11 -> OUT_OF_ORDER_SEQUENCE_NUMBER",
    );
}

#[test]
fn sequences_without_a_transaction() {
    check(
        "1/0: produce 0 plain -> at 0
         1/0: produce 0 plain -> was at 0
         1/0: produce 2 plain -> OUT_OF_ORDER_SEQUENCE_NUMBER
         1/0: produce 1 plain -> at 1
         1/1: produce 5 plain -> OUT_OF_ORDER_SEQUENCE_NUMBER
         1/1: produce 0 plain -> at 2
         1/0: produce 2 plain -> INVALID_PRODUCER_EPOCH
         2/0: produce 7 plain -> at 3",
    );
}

#[test]
fn a_late_batch_of_an_ended_transaction_is_fenced() {
    check(
        "1/0: produce 0 v12 -> at 0
         1/0: commit v5 -> since 0, stable to 2
         1/0: produce 1 v12 -> INVALID_PRODUCER_EPOCH
         1/0: produce 1 v11 -> INVALID_PRODUCER_EPOCH
         1/0: produce 1 unverified -> INVALID_PRODUCER_EPOCH
         1/1: produce 0 v12 -> at 2
         1/1: abort v5 -> since 2, stable to 4",
    );
}

/// The duplicate is recognised before anything else, so its verification is never used up; and the next batch is
/// above its sequence.
#[test]
fn a_duplicate_before_the_next_transaction_makes_the_right_sequence_out_of_order() {
    check(
        "1/0: produce 0 v11 -> at 0
         1/0: commit v4 -> since 0, stable to 2
         1/0: produce 0 v11 -> was at 0
         1/0: produce 1 v11 -> OUT_OF_ORDER_SEQUENCE_NUMBER
         1/0: commit v4 -> nothing was open
         1/0: produce 1 v11 -> at 3",
    );
}

#[test]
fn the_old_protocol_keeps_counting_over_the_end_of_a_transaction() {
    check(
        "1/0: produce 0 v11 -> at 0
         1/0: commit v4 -> since 0, stable to 2
         1/0: produce 1 v11 -> at 2
         1/0: produce 2 v11 -> at 3
         1/0: commit v4 -> since 2, stable to 5
         1/0: produce 7 v11 -> OUT_OF_ORDER_SEQUENCE_NUMBER
         1/0: produce 3 v11 -> at 5
         1/0: abort v4 -> since 5, stable to 7",
    );
}

#[test]
fn the_new_protocol_begins_at_zero_in_a_partition_it_knows_nothing_of() {
    check(
        "1/0: produce 5 v12 -> OUT_OF_ORDER_SEQUENCE_NUMBER
         1/0: produce 0 v12 -> at 0
         1/0: commit v5 -> since 0, stable to 2
         1/1: produce 1 v12 -> OUT_OF_ORDER_SEQUENCE_NUMBER
         1/1: produce 0 v12 -> at 2",
    );
}

#[test]
fn a_later_batch_does_not_slip_in_before_the_first_of_its_transaction() {
    check(
        "1/0: verify 0 -> asked
         1/0: produce 1 v11 -> OUT_OF_ORDER_SEQUENCE_NUMBER
         1/0: produce 0 v11 -> at 0
         1/0: produce 1 v11 -> at 1",
    );
}

#[test]
fn a_transactional_batch_needs_an_open_transaction_or_a_verified_one() {
    check(
        "1/0: produce 0 unverified -> INVALID_TXN_STATE
         1/0: produce 0 v11 -> at 0
         1/0: produce 1 unverified -> at 1
         1/0: commit v4 -> since 0, stable to 3
         1/0: produce 2 unverified -> INVALID_TXN_STATE",
    );
}

#[test]
fn a_guard_from_before_a_marker_does_not_fit_after_it() {
    let mut world = Story::default();
    let producer = ProducerIdentity::new(1, 0);
    let sequence = Sequence(0);
    let Verification::Needed(guard) =
        world.producers.start_verification(producer, sequence, TransactionVersion::V1, NOW)
    else {
        panic!("nothing is open");
    };
    assert_eq!(world.tell("1/0: abort v4"), "nothing was open");
    world.producers.start_verification(producer, sequence, TransactionVersion::V1, NOW);
    let origin = Origin::Client { guard: Some(guard) };
    let refused = world.producers.check_batch(&header(producer, 0, 1, true), origin).unwrap_err();
    assert_eq!(refused, ProducerRefusal::NotVerified { producer });
}

/// With the new protocol the next transaction may begin before the last one's marker is written here.
#[test]
fn a_marker_of_the_new_protocol_leaves_the_next_transactions_guard() {
    let mut world = Story::default();
    world.tell("1/0: produce 0 v12");
    let next = ProducerIdentity::new(1, 1);
    let Verification::Needed(guard) =
        world.producers.start_verification(next, Sequence(0), TransactionVersion::V2, NOW)
    else {
        panic!("nothing is open in that epoch");
    };
    assert_eq!(world.tell("1/0: commit v5"), "since 0, stable to 2");
    let origin = Origin::Client { guard: Some(guard) };
    assert_eq!(world.producers.check_batch(&header(next, 0, 1, true), origin), Ok(Verdict::Append));
}

#[test]
fn a_plain_batch_cannot_come_into_an_open_transaction() {
    check(
        "1/0: produce 0 v11 -> at 0
         1/0: produce 1 plain -> INVALID_TXN_STATE
         1/0: commit v4 -> since 0, stable to 2
         1/0: produce 1 plain -> at 2",
    );
}

#[test]
fn a_coordinators_records_have_an_epoch_and_no_sequence() {
    check(
        "1/3: produce 0 coordinator v11 -> at 0
         1/3: produce 0 coordinator v11 -> at 1
         1/2: produce 0 coordinator v11 -> INVALID_PRODUCER_EPOCH
         1/2: produce 0 coordinator unverified -> INVALID_PRODUCER_EPOCH
         2/0: produce 0 coordinator unverified -> INVALID_TXN_STATE",
    );
}

#[test]
fn a_marker_of_the_new_protocol_is_above_its_transaction_or_the_same_once_more() {
    check(
        "1/4: produce 0 v12 -> at 0
         1/4: commit v5 again -> INVALID_PRODUCER_EPOCH
         1/3: commit v5 again -> INVALID_PRODUCER_EPOCH
         1/4: commit v5 -> since 0, stable to 2
         1/5: commit v5 again -> nothing was open
         1/4: commit v5 again -> INVALID_PRODUCER_EPOCH
         9/32766: produce 0 v12 -> at 3
         9/32766: commit v5 -> since 3, stable to 5",
    );
}

#[test]
fn an_exhausted_producer_may_be_ended_under_its_own_last_epoch() {
    check(
        "1/32767: produce 0 v12 -> at 0
         1/32767: abort v5 again -> since 0, stable to 2",
    );
}

#[test]
fn a_marker_of_the_old_protocol_has_the_transactions_epoch_or_a_higher_one() {
    check(
        "1/4: produce 0 v11 -> at 0
         1/3: commit v4 -> INVALID_PRODUCER_EPOCH
         1/4: commit v4 -> since 0, stable to 2
         1/6: abort v4 -> nothing was open
         1/4: produce 1 v11 -> INVALID_PRODUCER_EPOCH",
    );
}

#[test]
fn a_marker_from_an_old_coordinator_is_fenced() {
    check(
        "1/0: produce 0 v11 -> at 0
         1/0: commit v4 newer -> since 0, stable to 2
         1/0: commit v4 -> TRANSACTION_COORDINATOR_FENCED
         2/0: commit v4 -> nothing was open",
    );
}

#[test]
fn the_last_stable_offset_waits_for_the_earliest_transaction() {
    check(
        "1/0: produce 0 v12 -> at 0
         2/0: produce 0 v12 -> at 1
         2/0: commit v5 -> since 1, stable to 0
         1/0: abort v5 -> since 0, stable to 4",
    );
}

#[test]
fn sequences_wrap_to_zero_between_batches_and_inside_one() {
    check(
        "1/0: produce 2147483647 plain -> at 0
         1/0: produce 0 plain -> at 1
         2/0: produce 2147483646 x3 plain -> at 2
         2/0: produce 2147483646 x3 plain -> was at 2
         2/0: produce 1 plain -> at 5",
    );
}

#[test]
fn producers_expire_unless_a_transaction_is_open() {
    let mut world = Story::default();
    world.tell("1/0: produce 0 plain");
    world.tell("2/0: produce 0 v11");
    world.tell("3/0: verify 0");
    world.producers.expire(Timestamp(NOW.0 + 1));
    assert_eq!(world.producers.iter().map(|(id, _)| id.0).collect::<Vec<_>>(), [2]);
    assert!(world.producers.verifications.is_empty());
    assert_eq!(world.tell("1/0: produce 9 plain"), "at 2", "nothing is known, so any sequence may begin");
    world.producers.expire(NOW);
    assert_eq!(world.producers.iter().count(), 2);
}

#[test]
fn what_is_encoded_reads_back_and_no_truncation_does() {
    let mut world = Story::default();
    for line in
        ["1/0: produce 0 plain", "1/0: produce 1 x3 plain", "2/7: produce 0 v11", "3/0: produce 0 v12", "3/0: abort v5"]
    {
        world.tell(line);
    }
    let mut buffer = BytesMut::new();
    world.producers.encode(&mut buffer);
    let read = Producers::decode(&mut Fields::of(&buffer)).unwrap();
    assert_eq!(read.states, world.producers.states);
    assert_eq!(read.open, world.producers.open);
    for length in 0..buffer.len() {
        assert!(Producers::decode(&mut Fields::of(&buffer[..length])).is_none(), "{length} bytes");
    }
}
