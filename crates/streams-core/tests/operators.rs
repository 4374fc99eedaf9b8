//! What each operator does to records, seen from outside: what a topology reads and what a reader of committed records gets.

use std::time::Duration;

use atonce_kernel::Timestamp;
use atonce_streams_core::test_driver::TestDriver;
use atonce_streams_core::*;

type Text = String;

fn text(value: &str) -> Text {
    value.to_owned()
}

/// Keys and values of a topic, as a reader of committed records has them.
#[track_caller]
fn assert_output<V: Wire + PartialEq + std::fmt::Debug>(driver: &TestDriver, topic: &str, expected: &[(&str, V)]) {
    let found: Vec<(Text, V)> = driver.output::<Text, V>(topic).committed();
    let found: Vec<(&str, V)> = found.iter().map(|(key, value)| (key.as_str(), value.clone())).collect();
    assert_eq!(found, expected);
}

#[test]
fn each_record_goes_to_the_first_branch_that_takes_it_and_the_others_to_the_rest() {
    let builder = TopologyBuilder::new();
    let ([large, even], rest) = builder
        .stream::<Text, i64>("numbers")
        .branch_with_rest([predicate(|_, n| *n >= 100), predicate(|_, n| n % 2 == 0)]);
    large.to("large");
    even.to("even");
    rest.to("rest");
    let mut driver = TestDriver::new(&builder.build().unwrap());
    for n in [1_i64, 2, 100, 101, 3] {
        driver.input("numbers").send(text("k"), n);
    }
    driver.commit();
    assert_output(&driver, "large", &[("k", 100_i64), ("k", 101)]);
    assert_output(&driver, "even", &[("k", 2_i64)]);
    assert_output(&driver, "rest", &[("k", 1_i64), ("k", 3)]);
}

#[test]
fn what_no_branch_takes_ends_there() {
    let builder = TopologyBuilder::new();
    let [large] = builder.stream::<Text, i64>("numbers").branch([predicate(|_, n| *n >= 100)]);
    large.to("large");
    let mut driver = TestDriver::new(&builder.build().unwrap());
    driver.input("numbers").send(text("k"), 1_i64);
    driver.input("numbers").send(text("k"), 100_i64);
    driver.commit();
    assert_output(&driver, "large", &[("k", 100_i64)]);
}

#[test]
fn a_table_has_the_last_value_of_each_key_and_null_deletes() {
    let builder = TopologyBuilder::new();
    builder
        .table::<Option<Text>, i64>("ages", store("ages"))
        .filter(|_, age| *age >= 18)
        .map_values(|age| age * 10)
        .to("adults");
    let mut driver = TestDriver::new(&builder.build().unwrap());
    driver.input("ages").send(text("ann"), Some(20_i64));
    driver.input("ages").send(text("bob"), Some(17_i64));
    driver.input("ages").send(text("ann"), None::<i64>);
    driver.input("ages").send(None::<Text>, Some(1_i64));
    driver.commit();
    // Bob was never there, so he is not deleted.
    assert_output(&driver, "adults", &[("ann", Some(200_i64)), ("ann", None)]);
    assert_eq!(driver.counts().dropped, 1);
    driver.crash_and_lose_the_disk(store::MemoryEngine::default());
    // What was deleted is not there after a restore either: the change log says so.
    assert_eq!(driver.restored_records(), 2);
}

#[test]
fn a_cached_store_hands_on_each_key_once_an_interval_and_an_abort_takes_that_back() {
    let builder = TopologyBuilder::new();
    builder.stream::<Text, i64>("in").group_by_key().count(store("counts").cached()).to("counts");
    let mut driver = TestDriver::new(&builder.build().unwrap());
    for key in ["b", "a", "b", "b"] {
        driver.input("in").send(text(key), 1_i64);
    }
    driver.abort();
    driver.crash();
    driver.commit();
    assert_output(&driver, "counts", &[("a", 1_i64), ("b", 3)]);
    driver.input("in").send(text("b"), 1_i64);
    driver.commit();
    assert_output(&driver, "counts", &[("a", 1_i64), ("b", 3), ("b", 4)]);
}

#[test]
fn a_filter_after_a_cached_store_compares_with_what_was_committed() {
    let builder = TopologyBuilder::new();
    builder
        .stream::<Text, i64>("in")
        .group_by_key()
        .count(store("counts").cached())
        .filter(|_, count| count % 2 == 0)
        .to("even");
    let mut driver = TestDriver::new(&builder.build().unwrap());
    for keys in [["a", "b"], ["a", "b"], ["a", "a"], ["b", "b"]] {
        for key in keys {
            driver.input("in").send(text(key), 1_i64);
        }
        driver.commit();
    }
    // a: 1, 2, 4; b: 1, 2, then 4. The odd ones in between were never committed.
    assert_output(&driver, "even", &[("a", Some(2_i64)), ("b", Some(2)), ("a", Some(4)), ("b", Some(4))]);
    driver.input("in").send(text("a"), 1_i64);
    driver.commit();
    assert_output(&driver, "even", &[("a", Some(2_i64)), ("b", Some(2)), ("a", Some(4)), ("b", Some(4)), ("a", None)]);
}

#[test]
fn records_go_to_the_topic_that_they_say() {
    let builder = TopologyBuilder::new();
    builder.stream::<Text, Text>("in").to_chosen(|_, value| format!("to-{value}").into());
    let mut driver = TestDriver::new(&builder.build().unwrap());
    driver.input("in").send(text("k"), text("x"));
    driver.input("in").send(text("k"), text("y"));
    driver.commit();
    assert_output(&driver, "to-x", &[("k", text("x"))]);
    assert_output(&driver, "to-y", &[("k", text("y"))]);
}

/// Writes, at each punctuation, what came since the last.
struct Batches {
    sum: StoreHandle<KeyValueStore<Text, i64>>,
    by: Schedule,
}

impl Processor for Batches {
    type Input = (Text, i64);
    type Output = (Text, i64);

    fn process(
        &mut self,
        record: Record<Text, i64>,
        stores: &mut Stores<'_>,
        _: &mut Forward<'_, (Text, i64)>,
    ) -> Result<(), ProcessorError> {
        let mut sum = stores.get(&self.sum);
        let before = sum.get(&record.key)?.unwrap_or(0);
        sum.put(&record.key, &(before + record.value))?;
        Ok(())
    }

    fn schedules(&self) -> Vec<Schedule> {
        vec![self.by]
    }

    fn punctuate(
        &mut self,
        punctuation: Punctuation,
        stores: &mut Stores<'_>,
        output: &mut Forward<'_, (Text, i64)>,
    ) -> Result<(), ProcessorError> {
        let mut sum = stores.get(&self.sum);
        let entries = sum.all().collect::<Result<Vec<_>, _>>()?;
        for (key, value) in entries {
            sum.delete(&key)?;
            output.forward(Record::new(key, value, punctuation.time));
        }
        Ok(())
    }
}

fn batches(by: Schedule) -> TestDriver {
    let builder = TopologyBuilder::new();
    let sum = builder.add_store::<Text, i64>(store("sum"));
    let handle = sum.clone();
    builder.stream::<Text, i64>("in").process(move || Batches { sum: handle.clone(), by }, [sum]).to("out");
    TestDriver::new(&builder.build().unwrap())
}

#[test]
fn a_schedule_by_stream_time_follows_the_records_and_is_set_back_with_them() {
    let mut driver = batches(Schedule::stream_time(Duration::from_millis(100)));
    let send = |driver: &mut TestDriver, at: i64| {
        driver.input("in").send_to(0, text("k"), 1_i64, Timestamp(at), Vec::new());
    };
    send(&mut driver, 5); // due with the first record, then at the multiples of 100
    send(&mut driver, 50);
    send(&mut driver, 99);
    send(&mut driver, 350); // 100, 200 and 300 are made up for by one call
    send(&mut driver, 399);
    driver.abort(); // all of it comes again, and so do the punctuations
    assert_output::<i64>(&driver, "out", &[]);
    driver.commit();
    assert_output(&driver, "out", &[("k", 1_i64), ("k", 3)]);
    send(&mut driver, 400);
    driver.commit();
    assert_output(&driver, "out", &[("k", 1_i64), ("k", 3), ("k", 2)]);
    let records = driver.output::<Text, i64>("out").committed_records();
    let times: Vec<i64> = records.iter().map(|record| record.timestamp.0).collect();
    assert_eq!(times, [5, 350, 400]);
}

/// Drops what is older than what it has seen.
struct OnlyNewer;

impl Processor for OnlyNewer {
    type Input = (Text, i64);
    type Output = (Text, i64);

    fn process(
        &mut self,
        record: Record<Text, i64>,
        _: &mut Stores<'_>,
        output: &mut Forward<'_, (Text, i64)>,
    ) -> Result<(), ProcessorError> {
        if record.timestamp >= output.stream_time() {
            output.forward(record);
        }
        Ok(())
    }
}

#[test]
fn stream_time_is_what_was_committed_after_an_abort_and_after_a_crash() {
    let builder = TopologyBuilder::new();
    let stores: [&str; 0] = [];
    builder.stream::<Text, i64>("in").process(|| OnlyNewer, stores).to("out");
    let mut driver = TestDriver::new(&builder.build().unwrap());
    let send = |driver: &mut TestDriver, at: i64| {
        driver.input("in").send_to(0, text("k"), at, Timestamp(at), Vec::new());
    };
    send(&mut driver, 100);
    driver.commit();
    driver.crash();
    send(&mut driver, 99); // late, though the process that saw 100 is gone
    send(&mut driver, 101);
    driver.abort(); // both come again
    driver.commit();
    assert_output(&driver, "out", &[("k", 100_i64), ("k", 101)]);
}

#[test]
fn a_change_too_large_for_its_change_log_fails_its_record_and_not_the_commit() {
    let topology = || {
        let builder = TopologyBuilder::new();
        builder.stream::<Text, Text>("in").group_by_key().reduce(|a, b| a + &b, store("joined")).to_stream().to("out");
        builder.build().unwrap()
    };
    let limit = 61 + 7 + 1 + 3;
    let mut driver = TestDriver::builder(&topology()).max_message_bytes("test-joined-changelog", limit).start();
    driver.input("in").send(text("k"), text("abc"));
    driver.commit();
    let error = driver.input("in").try_send(text("k"), text("d")).unwrap_err();
    assert_eq!(
        error.to_string(),
        "task 0_0, in-0 offset 1, at KSTREAM-REDUCE-0000000001: store joined: a change of 73 bytes is too large for its change log \
         test-joined-changelog, which takes 72 (max.message.bytes)"
    );
    let mut driver = TestDriver::builder(&topology())
        .max_message_bytes("test-joined-changelog", limit)
        .on_failure(FailureHandler::always(Verdict::Skip))
        .start();
    for value in ["abc", "d"] {
        driver.input("in").send(text("k"), text(value));
    }
    driver.commit();
    assert_output(&driver, "out", &[("k", Some(text("abc")))]);
}

#[test]
fn a_schedule_by_the_wall_clock_runs_without_input_and_its_effects_commit() {
    let mut driver = batches(Schedule::wall_clock(Duration::from_secs(1)));
    driver.advance_ms(1); // the first look at the clock
    driver.input("in").send(text("k"), 1_i64);
    driver.commit();
    driver.advance_ms(999);
    assert_eq!(driver.counts().punctuations, 0);
    driver.advance_ms(1);
    assert_eq!(driver.counts().punctuations, 1);
    assert_output::<i64>(&driver, "out", &[]);
    driver.crash(); // the punctuation was not committed, so its deletion is undone: what it wrote comes with the next
    driver.advance_ms(1);
    driver.advance_ms(1000);
    driver.commit();
    assert_output(&driver, "out", &[("k", 1_i64)]);
    driver.advance_ms(1000);
    driver.commit();
    assert_output(&driver, "out", &[("k", 1_i64)]);
}

/// Counts a record into its store and forwards it before it looks whether it can be processed at all.
struct FailsLate {
    seen: StoreHandle<KeyValueStore<Text, i64>>,
}

impl Processor for FailsLate {
    type Input = (Text, i64);
    type Output = (Text, i64);

    fn process(
        &mut self,
        record: Record<Text, i64>,
        stores: &mut Stores<'_>,
        output: &mut Forward<'_, (Text, i64)>,
    ) -> Result<(), ProcessorError> {
        let mut seen = stores.get(&self.seen);
        let count = seen.get(&record.key)?.unwrap_or(0) + 1;
        seen.put(&record.key, &count)?;
        let value = record.value;
        output.forward(Record::new(record.key, count, record.timestamp));
        if value < 0 { Err(ProcessorError::new("a negative amount")) } else { Ok(()) }
    }
}

fn fails_late(on_failure: FailureHandler) -> TestDriver {
    let builder = TopologyBuilder::new();
    let seen = builder.add_store::<Text, i64>(store("seen"));
    let handle = seen.clone();
    builder.stream::<Text, i64>("in").process(move || FailsLate { seen: handle.clone() }, [seen]).to("out");
    TestDriver::builder(&builder.build().unwrap()).on_failure(on_failure).start()
}

#[test]
fn without_a_handler_a_failure_undoes_the_interval_and_names_the_record() {
    let mut driver = fails_late(FailureHandler::default());
    driver.input("in").send(text("k"), 1_i64);
    let error = driver.input("in").try_send(text("k"), -1_i64).unwrap_err();
    assert_eq!(error.to_string(), "task 0_0, in-0 offset 1, at KSTREAM-PROCESSOR-0000000001: a negative amount");
    assert_output::<i64>(&driver, "out", &[]);
}

#[test]
fn a_record_that_is_skipped_leaves_nothing_behind() {
    let mut driver = fails_late(FailureHandler::always(Verdict::Skip));
    for value in [1_i64, -1, 1] {
        driver.input("in").send(text("k"), value);
    }
    driver.commit();
    // The second record had counted itself and been forwarded before it failed.
    assert_output(&driver, "out", &[("k", 1_i64), ("k", 2)]);
    assert_eq!(driver.counts().skipped, 1);
}

#[test]
fn a_dead_letter_has_the_records_bytes_its_reason_and_its_place() {
    let handler = FailureHandler::new(|failure| match failure.stage {
        Stage::Reading | Stage::Processing => Verdict::DeadLetter("dead".into()),
        Stage::Writing => Verdict::Fail,
    });
    let mut driver = fails_late(handler);
    driver.input("in").send(text("k"), -1_i64);
    driver.input("in").send(text("k"), text("no number"));
    driver.abort();
    driver.commit();
    let dead = driver.output::<Text, Vec<u8>>("dead");
    assert_eq!(dead.committed(), [(text("k"), (-1_i64).to_be_bytes().to_vec()), (text("k"), b"no number".to_vec()),]);
    let headers: Vec<(String, String)> = dead.committed_records()[0]
        .headers
        .iter()
        .map(|header| (header.key.clone(), String::from_utf8(header.value.clone().unwrap().to_vec()).unwrap()))
        .collect();
    let expected = [
        ("__streams.errors.exception", "Processing at KSTREAM-PROCESSOR-0000000001"),
        ("__streams.errors.message", "a negative amount"),
        ("__streams.errors.stacktrace", "a negative amount"),
        ("__streams.errors.topic", "in"),
        ("__streams.errors.partition", "0"),
        ("__streams.errors.offset", "0"),
    ];
    assert_eq!(headers, expected.map(|(key, value)| (text(key), text(value))));
    assert_eq!(driver.counts().dead_letters, 4, "twice each: the first time was undone");
}

#[test]
fn a_record_too_large_for_its_topic_is_found_before_it_is_sent() {
    let topology = || {
        let builder = TopologyBuilder::new();
        builder.stream::<Text, Text>("in").to("out");
        builder.build().unwrap()
    };
    // 61 of the batch, 7 around the record, 1 key, and the value.
    let largest = text(&"x".repeat(50));
    let mut driver = TestDriver::builder(&topology()).max_message_bytes("out", 61 + 7 + 1 + 50).start();
    driver.input("in").send(text("k"), largest.clone());
    let error = driver.input("in").try_send(text("k"), format!("{largest}x")).unwrap_err();
    assert_eq!(
        error.to_string(),
        "task 0_0, in-0 offset 1, at KSTREAM-SINK-0000000001: a record of 120 bytes is too large for topic out, which takes \
         119 (max.message.bytes)"
    );
    let handler = FailureHandler::new(|failure| match failure.stage {
        Stage::Writing => Verdict::Skip,
        Stage::Reading | Stage::Processing => Verdict::Fail,
    });
    let mut driver =
        TestDriver::builder(&topology()).max_message_bytes("out", 61 + 7 + 1 + 50).on_failure(handler).start();
    driver.input("in").send(text("k"), format!("{largest}x"));
    driver.input("in").send(text("k"), largest.clone());
    driver.commit();
    assert_output(&driver, "out", &[("k", largest)]);
    assert_eq!(driver.counts().skipped, 1);
}

#[test]
fn a_topic_name_that_cannot_be_fails_the_record() {
    let builder = TopologyBuilder::new();
    builder.stream::<Text, Text>("in").to_chosen(|_, value| value.as_str().into());
    let mut driver = TestDriver::new(&builder.build().unwrap());
    let error = driver.input("in").try_send(text("k"), text("no topic")).unwrap_err();
    assert_eq!(
        error.to_string(),
        "task 0_0, in-0 offset 0, at KSTREAM-SINK-0000000001: \"no topic\" cannot be a topic's name: 1 to 249 of the characters \
         a-z A-Z 0-9 . _ - can"
    );
}

/// Scans, in both orders.
struct Scans {
    kept: StoreHandle<KeyValueStore<Text, i64>>,
}

impl Processor for Scans {
    type Input = (Text, i64);
    type Output = (Text, Text);

    fn process(
        &mut self,
        record: Record<Text, i64>,
        stores: &mut Stores<'_>,
        output: &mut Forward<'_, (Text, Text)>,
    ) -> Result<(), ProcessorError> {
        let mut kept = stores.get(&self.kept);
        kept.put(&record.key, &record.value)?;
        let keys = |entries: &mut dyn Iterator<Item = Result<(Text, i64), store::StoreError>>| {
            entries.map(|entry| entry.map(|(key, _)| key)).collect::<Result<Vec<_>, _>>().map(|keys| keys.join(" "))
        };
        if record.key == "scan" {
            let found = [
                keys(&mut kept.prefix(&text("ab"), Direction::Ascending)?)?,
                keys(&mut kept.prefix(&text("ab"), Direction::Descending)?)?,
                keys(&mut kept.range(&text("aa"), &text("b"), Direction::Descending)?)?,
                keys(&mut kept.reverse_all())?,
            ];
            for found in found {
                output.forward(Record::new(text("k"), found, record.timestamp));
            }
        }
        Ok(())
    }
}

#[test]
fn scans_by_prefix_and_range_go_both_ways_over_what_is_committed_and_what_is_not() {
    let builder = TopologyBuilder::new();
    let kept = builder.add_store::<Text, i64>(store("kept"));
    let handle = kept.clone();
    builder.stream::<Text, i64>("in").process(move || Scans { kept: handle.clone() }, [kept]).to("out");
    let mut driver = TestDriver::new(&builder.build().unwrap());
    for key in ["b", "ab", "abz"] {
        driver.input("in").send(text(key), 1_i64);
    }
    driver.commit();
    for key in ["aa", "aba", "ac", "scan"] {
        driver.input("in").send(text(key), 1_i64);
    }
    driver.commit();
    assert_output(
        &driver,
        "out",
        &[
            ("k", text("ab aba abz")),
            ("k", text("abz aba ab")),
            ("k", text("b ac abz aba ab aa")),
            ("k", text("scan b ac abz aba ab aa")),
        ],
    );
}

#[test]
fn a_topic_that_comes_later_joins_by_its_pattern_and_counts_go_on() {
    let builder = TopologyBuilder::new();
    builder.stream_of_pattern::<Text, Text>("in-.*").group_by_key().count(store("counts")).to_stream().to("out");
    let mut driver = TestDriver::builder(&builder.build().unwrap()).topics(["in-a", "other"]).start();
    driver.input("in-a").send(text("k"), text("x"));
    driver.create_topic("in-b");
    driver.input("in-b").send(text("k"), text("y"));
    driver.input("in-a").send(text("k"), text("z"));
    driver.commit();
    let out = driver.output::<String, i64>("out");
    out.assert_committed([("k", 1), ("k", 2), ("k", 3)]);
}
