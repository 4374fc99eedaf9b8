//! Each operator by itself: what goes in, and what a reader of committed records gets.

use std::sync::mpsc;

use atonce_kernel::Timestamp;
use atonce_streams_core::test_driver::TestDriver;
use atonce_streams_core::*;
use bytes::Bytes;

type Numbers = KStream<String, i64>;

/// What comes out for the numbers 1 to 4 with the keys a, b, a, b.
#[track_caller]
fn check<K, V>(work: impl FnOnce(Numbers) -> KStream<K, V>, expected: &[(K, V)])
where
    K: Wire + PartialEq + std::fmt::Debug,
    V: Wire + PartialEq + std::fmt::Debug,
{
    let builder = TopologyBuilder::new();
    work(builder.stream("in")).to("out");
    let mut driver = TestDriver::new(&builder.build().unwrap());
    for (key, number) in ["a", "b", "a", "b"].into_iter().zip(1_i64..) {
        driver.input("in").send(key, number);
    }
    driver.commit();
    assert_eq!(driver.output::<K, V>("out").committed(), expected);
}

fn with<K: Clone, V: Clone>(expected: &[(&str, V)], key: impl Fn(&str) -> K) -> Vec<(K, V)> {
    expected.iter().map(|(name, value)| (key(name), value.clone())).collect()
}

fn named<V: Clone>(expected: &[(&str, V)]) -> Vec<(String, V)> {
    with(expected, str::to_owned)
}

#[test]
fn map_gives_a_record_another_key_and_value() {
    check(
        |numbers| numbers.map(|key, n| (n, key)),
        &[(1, "a".to_owned()), (2, "b".to_owned()), (3, "a".to_owned()), (4, "b".to_owned())],
    );
}

#[test]
fn map_values_keeps_the_key() {
    check(|numbers| numbers.map_values(|n| n * 10), &named(&[("a", 10), ("b", 20), ("a", 30), ("b", 40)]));
    check(
        |numbers| numbers.map_values_with_key(|key, n| format!("{key}{n}")),
        &named(&["a1", "b2", "a3", "b4"].map(|it| (&it[..1], it.to_owned()))),
    );
}

#[test]
fn flat_map_makes_any_number_of_records_of_one() {
    check(
        |numbers| numbers.flat_map(|key, n| (0..n - 2).map(move |it| (it, key.clone())).collect::<Vec<_>>()),
        &[(0, "a".to_owned()), (0, "b".to_owned()), (1, "b".to_owned())],
    );
    check(|numbers| numbers.flat_map_values(|n| vec![n; usize::from(n > 3) * 2]), &named(&[("b", 4), ("b", 4)]));
}

#[test]
fn filter_keeps_what_it_is_told_and_filter_not_the_others() {
    check(|numbers| numbers.filter(|key, n| key == "a" || *n == 4), &named(&[("a", 1), ("a", 3), ("b", 4)]));
    check(|numbers| numbers.filter_not(|key, n| key == "a" || *n == 4), &named(&[("b", 2)]));
}

#[test]
fn peek_and_for_each_look_at_every_record_and_only_peek_hands_it_on() {
    let (peeked, seen) = mpsc::channel();
    let done = peeked.clone();
    check(
        move |numbers| {
            numbers.clone().for_each(move |_, n| done.send(n * 100).unwrap());
            numbers.peek(move |_, n| peeked.send(*n).unwrap())
        },
        &named(&[("a", 1), ("b", 2), ("a", 3), ("b", 4)]),
    );
    assert_eq!(seen.try_iter().collect::<Vec<_>>(), [100, 1, 200, 2, 300, 3, 400, 4]);
}

#[test]
fn merge_has_the_records_of_both() {
    check(
        |numbers| {
            let large = numbers.clone().filter(|_, n| *n > 3);
            large.merge(numbers.filter(|_, n| *n < 2))
        },
        &named(&[("a", 1), ("b", 4)]),
    );
}

#[test]
fn select_key_and_group_by_bring_those_together_that_had_other_keys() {
    check(|numbers| numbers.select_key(|_, n| n % 2), &[(1, 1_i64), (0, 2), (1, 3), (0, 4)]);
    check(
        |numbers| numbers.group_by(|_, n| n % 2).count(store("counts")).to_stream(),
        &[(1, Some(1_i64)), (0, Some(1)), (1, Some(2)), (0, Some(2))],
    );
}

#[test]
fn repartition_sends_the_records_through_a_topic_and_changes_none() {
    check(|numbers| numbers.repartition("through"), &named(&[("a", 1), ("b", 2), ("a", 3), ("b", 4)]));
}

#[test]
fn count_reduce_and_aggregate_tell_each_change() {
    let some = |expected: [(&str, i64); 4]| named(&expected.map(|(key, value)| (key, Some(value))));
    check(
        |numbers| numbers.group_by_key().count(store("s")).to_stream(),
        &some([("a", 1), ("b", 1), ("a", 2), ("b", 2)]),
    );
    check(
        |numbers| numbers.group_by_key().reduce(|before, n| before * 10 + n, store("s")).to_stream(),
        &some([("a", 1), ("b", 2), ("a", 13), ("b", 24)]),
    );
    check(
        |numbers| numbers.group_by_key().aggregate(|| 100, |_, n, sum| sum + n, store("s").in_memory()).to_stream(),
        &some([("a", 101), ("b", 102), ("a", 104), ("b", 106)]),
    );
}

#[test]
fn a_table_of_an_aggregation_is_mapped_and_filtered_as_a_table_is() {
    check(
        |numbers| {
            let sums = numbers.group_by_key().reduce(|before, n| before + n, store("sums"));
            sums.map_values(|sum| sum * 2).filter(|_, doubled| *doubled < 8).to_stream()
        },
        // a: 2, then 8, which is not let through, so that it is gone; b: 4, then 12.
        &named(&[("a", Some(2)), ("b", Some(4)), ("a", None), ("b", None)]),
    );
    check(
        |numbers| numbers.to_table(store("t")).filter_not(|_, n| *n == 2).to_stream(),
        &named(&[("a", Some(1)), ("a", Some(3)), ("b", Some(4))]),
    );
}

#[test]
fn a_source_reads_several_topics_by_the_time_of_their_records() {
    let builder = TopologyBuilder::new();
    builder.stream_of::<String, i64>(["one", "two"]).to("out");
    let mut driver = TestDriver::new(&builder.build().unwrap());
    for (topic, n) in [("one", 1_i64), ("two", 2), ("one", 3)] {
        driver.input(topic).send("k", n);
    }
    driver.commit();
    driver.output::<String, i64>("out").assert_committed([("k", 1), ("k", 2), ("k", 3)]);
}

#[test]
fn headers_and_times_go_with_their_records_through_steps_topics_and_stores() {
    let builder = TopologyBuilder::new();
    let numbers = builder.stream::<String, i64>("in").map_values(|n| n + 1).filter(|_, _| true);
    let numbers = numbers.select_key(|key, _| key.clone()).repartition("through");
    numbers.clone().to("plain");
    numbers.group_by_key().count(store("counts")).to_stream().to("counted");
    let mut driver = TestDriver::new(&builder.build().unwrap());
    let header = |key: &str, value: Option<&'static str>| Header { key: key.to_owned(), value: value.map(Bytes::from) };
    // One name twice, and one without a value.
    let headers = vec![header("trace", Some("1")), header("trace", Some("2")), header("empty", None)];
    driver.input("in").send_to(0, "k", 1_i64, Timestamp(1234), headers.clone());
    driver.commit();
    let plain = driver.output::<String, i64>("plain").committed_records();
    assert_eq!(plain, [Record { key: "k".to_owned(), value: 2, timestamp: Timestamp(1234), headers: headers.clone() }]);
    let counted = driver.output::<String, i64>("counted").committed_records();
    assert_eq!(counted, [Record { key: "k".to_owned(), value: 1, timestamp: Timestamp(1234), headers }]);
}
