//! Faults that other brokers had with what readers see: open, hanging and aborted transactions, positions of groups, crashes at
//! any step. Each test is named for the right behaviour.

mod raw_client;

use std::time::Duration;

use atonce_kernel::{ProducerIdentity, Sequence};
use atonce_protocol::ErrorCode;
use atonce_protocol::messages::delete_records_request::{
    DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic,
};
use atonce_protocol::messages::fetch_request::FetchRequest;
use atonce_protocol::records::{BatchBuilder, BatchOptions, Compression};
use raw_client::{RawClient, batch, broker, fetch_request, plain_batch};

#[tokio::test]
async fn a_batch_that_comes_after_the_abort_opens_nothing_and_stops_no_reader() {
    let broker = broker().await;
    let mut client = RawClient::of(&broker);
    client.create_topic("t", 1).await;
    // Protocol 1: the epoch stays, and only the coordinator knows that the partition is in no transaction.
    let producer = client.init(Some("id")).await;
    client.add_partition("id", producer, "t", 0).await.expect("added");
    let first = client.produce(11, Some("id"), "t", 0, batch(producer, 0, true, &["a"])).await;
    assert_eq!(first.error_code, 0);
    client.end(3, "id", producer, false).await.expect("aborted");
    for (version, expected) in [(9, ErrorCode::InvalidTxnState), (11, ErrorCode::TransactionAbortable)] {
        let late = client.produce(version, Some("id"), "t", 0, batch(producer, 1, true, &["late"])).await;
        assert_eq!(ErrorCode::from_wire(late.error_code), expected, "version {version}");
    }
    // Protocol 2: each transaction has an epoch of its own.
    let two = client.init(Some("two")).await;
    client.append(Some("two"), two, 0, "t", 0, &["b"]).await.expect("appended");
    client.end(5, "two", two, false).await.expect("aborted");
    let late = client.append(Some("two"), two, 1, "t", 0, &["late"]).await;
    assert_eq!(late, Err(ErrorCode::InvalidProducerEpoch));
    assert_eq!(client.produce(9, None, "t", 0, plain_batch(&["seen"])).await.error_code, 0);
    assert_eq!(client.read("t", 0, true).await, ["seen"]);
    assert_eq!(client.end_offset("t", 0, true).await, client.end_offset("t", 0, false).await);
}

#[tokio::test]
async fn readers_go_on_when_a_producer_that_is_gone_ran_out_of_time() {
    let broker = broker().await;
    let mut client = RawClient::of(&broker);
    client.create_topic("t", 1).await;
    let mut gone = RawClient::of(&broker);
    let producer = gone.init_for(Some("id"), 100).await;
    gone.append(Some("id"), producer, 0, "t", 0, &["never committed"]).await.expect("appended");
    drop(gone);
    assert_eq!(client.produce(9, None, "t", 0, plain_batch(&["behind it"])).await.error_code, 0);
    let deadline = tokio::time::Instant::now() + Duration::from_secs(60);
    while client.read("t", 0, true).await != ["behind it"] {
        assert!(tokio::time::Instant::now() < deadline, "readers wait for a producer that is gone");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    // One record of each, and one marker: it was not ended twice.
    assert_eq!(client.end_offset("t", 0, false).await, 3);
}

#[tokio::test]
async fn committed_readers_get_nothing_from_the_first_open_record_on_and_others_everything() {
    let broker = broker().await;
    let mut client = RawClient::of(&broker);
    client.create_topic("t", 1).await;
    let producer = client.init(Some("id")).await;
    assert_eq!(client.produce(9, None, "t", 0, plain_batch(&["before"])).await.error_code, 0);
    client.append(Some("id"), producer, 0, "t", 0, &["open"]).await.expect("appended");
    assert_eq!(client.produce(9, None, "t", 0, plain_batch(&["after"])).await.error_code, 0);
    assert_eq!(client.read("t", 0, true).await, ["before"]);
    assert_eq!(client.read("t", 0, false).await, ["before", "open", "after"]);
    let committed = client.fetch("t", 0, 1, true).await;
    let data = &committed.responses[0].partitions[0];
    assert_eq!((data.error_code, data.last_stable_offset, data.high_watermark), (0, 1, 3));
    let uncommitted = client.fetch("t", 0, 1, false).await;
    assert_eq!(uncommitted.responses[0].partitions[0].aborted_transactions, None, "null, and no empty list");
}

#[tokio::test]
async fn aborted_transactions_are_listed_by_first_offset_with_compression_interleaving_and_crashes() {
    let codecs = [Compression::None, Compression::Gzip, Compression::Snappy, Compression::Lz4, Compression::Zstd];
    for compression in codecs {
        let broker = broker().await;
        let mut client = RawClient::of(&broker);
        client.create_topic("t", 1).await;
        let write = async |client: &mut RawClient, id: &str, producer: ProducerIdentity, sequence, value: &str| {
            let mut builder = BatchBuilder::default();
            builder.append(1_700_000_000_000, None, Some(value.as_bytes()), []).expect("it fits");
            let options = BatchOptions {
                producer,
                base_sequence: Sequence(sequence),
                is_transactional: true,
                compression,
                ..BatchOptions::default()
            };
            let batch = builder.finish(&options).expect("a batch");
            assert_eq!(client.produce(12, Some(id), "t", 0, batch).await.error_code, 0);
        };
        let mut producers = Vec::new();
        for id in ["a", "b", "c"] {
            producers.push((id, client.init(Some(id)).await));
        }
        // All begin in one order and end in another; b commits.
        for (id, producer) in &producers {
            write(&mut client, id, *producer, 0, id).await;
        }
        for (id, producer) in producers.iter().rev() {
            client.end(5, id, *producer, *id == "b").await.expect("ended");
        }
        for _ in 0..2 {
            let response = client.fetch("t", 0, 0, true).await;
            let aborted = response.responses[0].partitions[0].aborted_transactions.clone().expect("a list");
            let found: Vec<(i64, i64)> = aborted.iter().map(|it| (it.producer_id, it.first_offset)).collect();
            assert_eq!(found, [(producers[0].1.id.0, 0), (producers[2].1.id.0, 2)], "{compression}");
            // From the middle of it: what is over by then is not listed.
            let response = client.fetch("t", 0, 4, true).await;
            let aborted = response.responses[0].partitions[0].aborted_transactions.clone().expect("a list");
            assert_eq!(aborted.len(), 1);
            broker.crash().await.expect("crashed");
            broker.restart().await.expect("restarted");
            client = RawClient::of(&broker);
        }
    }
}

#[tokio::test]
async fn the_position_after_a_transaction_is_behind_its_marker_so_that_lag_ends_at_zero() {
    let broker = broker().await;
    let mut client = RawClient::of(&broker);
    client.create_topic("t", 1).await;
    let producer = client.init(Some("id")).await;
    client.append(Some("id"), producer, 0, "t", 0, &["a", "b"]).await.expect("appended");
    client.end(5, "id", producer, true).await.expect("committed");
    assert_eq!(client.end_offset("t", 0, true).await, 3);
    // At the marker there is a batch to step over, and behind it nothing: no reader waits for a record that never comes.
    let at_marker = client.fetch("t", 0, 2, true).await;
    let records = at_marker.responses[0].partitions[0].records.clone().expect("a batch");
    assert!(!records.is_empty());
    let behind = client.fetch("t", 0, 3, true).await;
    assert_eq!(behind.responses[0].partitions[0].error_code, 0);
}

#[tokio::test]
async fn positions_in_a_transaction_are_pending_until_it_commits_and_gone_when_it_aborts() {
    let broker = broker().await;
    let mut client = RawClient::of(&broker);
    client.create_topic("t", 1).await;
    let first = client.init(Some("id")).await;
    // Nothing but positions is a transaction too, and the last one of a partition holds.
    client.send_offset("id", first, "g", "t", 5).await.expect("sent");
    client.send_offset("id", first, "g", "t", 7).await.expect("sent again");
    assert_eq!(client.committed("g", "t", true).await, Err(ErrorCode::UnstableOffsetCommit));
    assert_eq!(client.committed("g", "t", false).await, Ok(-1));
    // Also over a crash.
    broker.crash().await.expect("crashed");
    broker.restart().await.expect("restarted");
    let mut client = RawClient::of(&broker);
    assert_eq!(client.committed("g", "t", true).await, Err(ErrorCode::UnstableOffsetCommit));
    let second = client.end(5, "id", first, true).await.expect("committed");
    // At once: the commit is not answered before positions are to be seen.
    assert_eq!(client.committed("g", "t", true).await, Ok(7));
    client.send_offset("id", second, "g", "t", 9).await.expect("sent");
    assert_eq!(client.committed("g", "t", true).await, Err(ErrorCode::UnstableOffsetCommit));
    let third = client.end(5, "id", second, false).await.expect("aborted");
    assert_eq!(client.committed("g", "t", true).await, Ok(7));
    // Nothing is left over for the next transaction, and the one before may not add to it.
    assert_eq!(client.send_offset("id", second, "g", "t", 11).await, Err(ErrorCode::InvalidProducerEpoch));
    client.append(Some("id"), third, 0, "t", 0, &["v"]).await.expect("appended");
    client.end(5, "id", third, true).await.expect("committed");
    assert_eq!(client.committed("g", "t", true).await, Ok(7));
}

#[tokio::test]
async fn positions_of_a_producer_that_is_gone_do_not_stay_unstable() {
    let broker = broker().await;
    let mut client = RawClient::of(&broker);
    client.create_topic("t", 1).await;
    let producer = client.init_for(Some("id"), 50).await;
    client.send_offset("id", producer, "g", "t", 5).await.expect("sent");
    broker.crash().await.expect("crashed");
    broker.restart().await.expect("restarted");
    let mut client = RawClient::of(&broker);
    let deadline = tokio::time::Instant::now() + Duration::from_secs(60);
    while client.committed("g", "t", true).await == Err(ErrorCode::UnstableOffsetCommit) {
        assert!(tokio::time::Instant::now() < deadline, "the position stays unstable");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(client.committed("g", "t", true).await, Ok(-1));
}

#[tokio::test]
async fn a_crash_between_any_two_steps_of_a_transaction_loses_none_of_it() {
    // Steps: two partitions, a position, the end. A crash before each of them, and after all.
    for crash_before in 0..=4 {
        let broker = broker().await;
        let mut client = RawClient::of(&broker);
        client.create_topic("t", 2).await;
        client.create_topic("in", 1).await;
        let producer = client.init(Some("id")).await;
        for step in 0..=4 {
            if step == crash_before {
                broker.crash().await.expect("crashed");
                broker.restart().await.expect("restarted");
                client = RawClient::of(&broker);
            }
            match step {
                0 | 1 => {
                    client.append(Some("id"), producer, 0, "t", step, &["v"]).await.expect("appended");
                }
                2 => client.send_offset("id", producer, "g", "in", 5).await.expect("sent"),
                3 => {
                    client.end(5, "id", producer, true).await.expect("committed");
                }
                _ => {
                    for partition in 0..2 {
                        assert_eq!(client.read("t", partition, true).await, ["v"], "crash before {crash_before}");
                    }
                    assert_eq!(client.committed("g", "in", true).await, Ok(5), "crash before {crash_before}");
                }
            }
        }
    }
}

#[tokio::test]
async fn a_topic_deleted_inside_a_transaction_holds_up_no_commit_and_may_be_made_and_written_again() {
    let broker = broker().await;
    let mut client = RawClient::of(&broker);
    client.create_topic("going", 1).await;
    client.create_topic("staying", 1).await;
    let producer = client.init(Some("id")).await;
    client.append(Some("id"), producer, 0, "going", 0, &["gone"]).await.expect("appended");
    client.append(Some("id"), producer, 0, "staying", 0, &["kept"]).await.expect("appended");
    client.delete_topic("going").await;
    client.create_topic("going", 1).await;
    client.append(Some("id"), producer, 0, "going", 0, &["new"]).await.expect("the new topic takes part");
    client.end(5, "id", producer, true).await.expect("committed");
    assert_eq!(client.read("going", 0, true).await, ["new"]);
    assert_eq!(client.read("staying", 0, true).await, ["kept"]);
}

#[tokio::test]
async fn the_last_stable_offset_never_passes_the_high_watermark() {
    let broker = broker().await;
    let mut client = RawClient::of(&broker);
    client.create_topic("t", 1).await;
    let mut writer = RawClient::of(&broker);
    let writing = tokio::spawn(async move {
        let mut producer = writer.init(Some("id")).await;
        for round in 0..50 {
            writer.append(Some("id"), producer, 0, "t", 0, &["v"]).await.expect("appended");
            producer = writer.end(5, "id", producer, round % 2 == 0).await.expect("ended");
        }
    });
    let (mut last_stable, mut high) = (0, 0);
    while !writing.is_finished() {
        let response = client.fetch("t", 0, 0, true).await;
        let data = &response.responses[0].partitions[0];
        assert!(data.last_stable_offset <= data.high_watermark, "{data:?}");
        assert!(data.last_stable_offset >= last_stable && data.high_watermark >= high, "neither goes back");
        (last_stable, high) = (data.last_stable_offset, data.high_watermark);
    }
    writing.await.expect("written");
    assert_eq!(client.read("t", 0, true).await.len(), 25);
}

#[tokio::test]
async fn a_client_of_protocol_1_goes_on_with_a_topic_made_again_without_adding_it_again() {
    let broker = broker().await;
    let mut client = RawClient::of(&broker);
    client.create_topic("going", 1).await;
    client.create_topic("gone", 1).await;
    let producer = client.init(Some("id")).await;
    for topic in ["going", "gone"] {
        client.add_partition("id", producer, topic, 0).await.expect("added");
        let written = client.produce(11, Some("id"), topic, 0, batch(producer, 0, true, &["old"])).await;
        assert_eq!(written.error_code, 0);
        client.delete_topic(topic).await;
    }
    client.create_topic("going", 1).await;
    let again = client.produce(11, Some("id"), "going", 0, batch(producer, 0, true, &["new"])).await;
    assert_eq!(again.error_code, 0, "{:?}", again.error_message);
    client.end(3, "id", producer, true).await.expect("what is gone holds up no commit");
    assert_eq!(client.read("going", 0, true).await, ["new"]);
}

#[tokio::test]
async fn an_abort_of_what_wrote_nothing_here_is_named_to_no_reader() {
    let broker = broker().await;
    let mut client = RawClient::of(&broker);
    client.create_topic("t", 1).await;
    let producer = client.init(Some("id")).await;
    client.add_partition("id", producer, "t", 0).await.expect("added");
    assert_eq!(client.produce(9, None, "t", 0, plain_batch(&["seen"])).await.error_code, 0);
    client.end(3, "id", producer, false).await.expect("aborted");
    for is_restarted in [false, true] {
        if is_restarted {
            broker.crash().await.expect("crashed");
            broker.restart().await.expect("restarted");
            client = RawClient::of(&broker);
        }
        assert_eq!(client.end_offset("t", 0, true).await, 2, "the record and a marker");
        let response = client.fetch("t", 0, 0, true).await;
        assert_eq!(response.responses[0].partitions[0].aborted_transactions, Some(Vec::new()));
        assert_eq!(client.read("t", 0, true).await, ["seen"]);
    }
}

#[tokio::test]
async fn a_reader_that_waits_is_told_what_was_aborted_meanwhile() {
    let broker = broker().await;
    let mut client = RawClient::of(&broker);
    client.create_topic("t", 1).await;
    let producer = client.init(Some("id")).await;
    client.append(Some("id"), producer, 0, "t", 0, &["dropped"]).await.expect("appended");
    let mut reader = RawClient::of(&broker);
    reader.send(12, &fetch_request("t", 0, 0, true, 60_000)).await;
    let mut waiting = tokio::spawn(async move { reader.receive::<FetchRequest>(12).await.1 });
    let early = tokio::time::timeout(Duration::from_millis(100), &mut waiting).await;
    assert!(early.is_err(), "it waits: nothing is stable yet");
    client.end(5, "id", producer, false).await.expect("aborted");
    let response = waiting.await.expect("answered");
    let data = &response.responses[0].partitions[0];
    assert!(!data.records.clone().unwrap_or_default().is_empty(), "it is woken by the abort");
    let aborted = data.aborted_transactions.clone().expect("a list");
    let found: Vec<(i64, i64)> = aborted.iter().map(|it| (it.producer_id, it.first_offset)).collect();
    assert_eq!(found, [(producer.id.0, 0)]);
}

#[tokio::test]
async fn what_a_full_disk_refused_is_taken_later_under_the_same_sequence() {
    let broker = broker().await;
    let mut client = RawClient::of(&broker);
    client.create_topic("t", 1).await;
    let plain = client.init(None).await;
    let transactional = client.init(Some("id")).await;
    assert_eq!(client.append(None, plain, 0, "t", 0, &["a"]).await, Ok(0));
    client.keep_free(Some("9000000000000000000")).await;
    for _ in 0..2 {
        assert_eq!(client.append(None, plain, 1, "t", 0, &["b"]).await, Err(ErrorCode::KafkaStorageError));
        // The coordinator cannot log that the partition joins; a writer hears of that in its own words.
        let refused = client.append(Some("id"), transactional, 0, "t", 0, &["c"]).await;
        assert_eq!(refused, Err(ErrorCode::NotEnoughReplicas));
    }
    client.keep_free(None).await;
    assert_eq!(client.append(None, plain, 1, "t", 0, &["b"]).await, Ok(1), "neither a duplicate nor out of order");
    assert_eq!(client.append(None, plain, 1, "t", 0, &["b"]).await, Ok(1), "now it is a duplicate");
    assert_eq!(client.append(Some("id"), transactional, 0, "t", 0, &["c"]).await, Ok(2));
    client.end(5, "id", transactional, true).await.expect("committed");
    assert_eq!(client.read("t", 0, true).await, ["a", "b", "c"]);
}

#[tokio::test]
async fn a_reader_of_what_is_committed_never_sees_what_is_aborted_however_it_races() {
    let broker = broker().await;
    let mut client = RawClient::of(&broker);
    client.create_topic("t", 1).await;
    let mut writing = Vec::new();
    for (id, is_kept) in [("kept", true), ("dropped", false)] {
        let mut writer = RawClient::of(&broker);
        writing.push(tokio::spawn(async move {
            let mut producer = writer.init(Some(id)).await;
            for _ in 0..30 {
                for sequence in 0..2 {
                    writer.append(Some(id), producer, sequence, "t", 0, &[id]).await.expect("appended");
                }
                producer = writer.end(5, id, producer, is_kept).await.expect("ended");
            }
        }));
    }
    let mut seen = 0;
    while !writing.iter().all(tokio::task::JoinHandle::is_finished) {
        let values = client.read("t", 0, true).await;
        assert!(values.iter().all(|value| value == "kept"), "{values:?}");
        assert!(values.len() >= seen, "what was seen is seen again");
        seen = values.len();
    }
    for writer in writing {
        writer.await.expect("written");
    }
    assert_eq!(client.read("t", 0, true).await, vec!["kept"; 60]);
}

#[tokio::test]
async fn batches_are_recognised_again_when_their_records_are_deleted_and_the_broker_was_restarted() {
    let broker = broker().await;
    let mut client = RawClient::of(&broker);
    client.create_topic("t", 1).await;
    let producer = client.init(None).await;
    for sequence in 0..5 {
        client.append(None, producer, sequence, "t", 0, &["v"]).await.expect("appended");
    }
    let partitions = vec![DeleteRecordsPartition { partition_index: 0, offset: -1, ..Default::default() }];
    let topics = vec![DeleteRecordsTopic { name: "t".to_owned(), partitions, ..Default::default() }];
    let deleted = client.call(2, &DeleteRecordsRequest { topics, ..Default::default() }).await;
    assert_eq!(deleted.topics[0].partitions[0].low_watermark, 5);
    for is_clean in [true, false] {
        for sequence in 0..5 {
            let again = client.append(None, producer, sequence, "t", 0, &["v"]).await;
            assert_eq!(again, Ok(i64::from(sequence)), "it is there, and gone");
        }
        if is_clean {
            broker.shutdown().await.expect("stopped");
        } else {
            broker.crash().await.expect("crashed");
        }
        broker.restart().await.expect("restarted");
        client = RawClient::of(&broker);
    }
    let gap = client.append(None, producer, 6, "t", 0, &["v"]).await;
    assert_eq!(gap, Err(ErrorCode::OutOfOrderSequenceNumber));
    assert_eq!(client.append(None, producer, 5, "t", 0, &["v"]).await, Ok(5));
}
