use std::collections::BTreeSet;

use atonce_kernel::TopicPartition;

use super::*;
use crate::task::TaskId;

fn words(line: String) -> Vec<String> {
    line.split_whitespace().map(String::from).collect()
}

/// The text that Kafka Streams 4.4 prints for the same topology.
#[test]
fn a_count_over_a_repartition_topic_is_described_as_kafka_does() {
    let builder = TopologyBuilder::new();
    builder
        .stream::<String, String>("lines")
        .flat_map_values(words)
        .group_by(|_, word| word.clone())
        .count(store("counts"))
        .to_stream()
        .to("word-counts");
    let expected = "\
Topologies:
   Sub-topology: 0
    Source: KSTREAM-SOURCE-0000000000 (topics: [lines])
      --> KSTREAM-FLATMAPVALUES-0000000001
    Processor: KSTREAM-FLATMAPVALUES-0000000001 (stores: [])
      --> KSTREAM-KEY-SELECT-0000000002
      <-- KSTREAM-SOURCE-0000000000
    Processor: KSTREAM-KEY-SELECT-0000000002 (stores: [])
      --> counts-repartition-filter
      <-- KSTREAM-FLATMAPVALUES-0000000001
    Processor: counts-repartition-filter (stores: [])
      --> counts-repartition-sink
      <-- KSTREAM-KEY-SELECT-0000000002
    Sink: counts-repartition-sink (topic: counts-repartition)
      <-- counts-repartition-filter

  Sub-topology: 1
    Source: counts-repartition-source (topics: [counts-repartition])
      --> KSTREAM-AGGREGATE-0000000003
    Processor: KSTREAM-AGGREGATE-0000000003 (stores: [counts])
      --> KTABLE-TOSTREAM-0000000007
      <-- counts-repartition-source
    Processor: KTABLE-TOSTREAM-0000000007 (stores: [])
      --> KSTREAM-SINK-0000000008
      <-- KSTREAM-AGGREGATE-0000000003
    Sink: KSTREAM-SINK-0000000008 (topic: word-counts)
      <-- KTABLE-TOSTREAM-0000000007

";
    assert_eq!(builder.build().unwrap().describe(), expected);
}

#[test]
fn generated_store_names_are_kafkas() {
    let builder = TopologyBuilder::new();
    builder
        .stream::<String, String>("lines")
        .flat_map_values(words)
        .group_by(|_, word| word.clone())
        .count(StoreName::generated())
        .to_stream()
        .to("word-counts");
    let text = builder.build().unwrap().describe();
    for line in [
        "    Sink: KSTREAM-SINK-0000000005 (topic: KSTREAM-AGGREGATE-STATE-STORE-0000000003-repartition)",
        "    Processor: KSTREAM-FILTER-0000000006 (stores: [])",
        "    Source: KSTREAM-SOURCE-0000000007 (topics: [KSTREAM-AGGREGATE-STATE-STORE-0000000003-repartition])",
        "    Processor: KSTREAM-AGGREGATE-0000000004 (stores: [KSTREAM-AGGREGATE-STATE-STORE-0000000003])",
        "    Processor: KTABLE-TOSTREAM-0000000008 (stores: [])",
        "    Sink: KSTREAM-SINK-0000000009 (topic: word-counts)",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\nis not in\n{text}");
    }
}

#[test]
fn a_fork_is_described_in_kafkas_order() {
    let builder = TopologyBuilder::new();
    let orders = builder.stream::<String, String>("orders");
    orders
        .clone()
        .map(|key, value| (key, value))
        .map_values(|value| value)
        .flat_map(|key, value| [(key, value)])
        .filter(|_, _| true)
        .peek(|_, _| {})
        .select_key(|_, value| value.clone())
        .to("out");
    orders.clone().group_by_key().count(store("by-key")).to_stream().to("key-counts");
    orders.group_by_key().reduce(|_, last| last, StoreName::generated()).to_stream().to("last");
    let text = builder.build().unwrap().describe();
    let expected = "\
Topologies:
   Sub-topology: 0
    Source: KSTREAM-SOURCE-0000000000 (topics: [orders])
      --> KSTREAM-MAP-0000000001, KSTREAM-AGGREGATE-0000000008, KSTREAM-REDUCE-0000000012
    Processor: KSTREAM-MAP-0000000001 (stores: [])
      --> KSTREAM-MAPVALUES-0000000002
      <-- KSTREAM-SOURCE-0000000000
    Processor: KSTREAM-MAPVALUES-0000000002 (stores: [])
      --> KSTREAM-FLATMAP-0000000003
      <-- KSTREAM-MAP-0000000001
    Processor: KSTREAM-FLATMAP-0000000003 (stores: [])
      --> KSTREAM-FILTER-0000000004
      <-- KSTREAM-MAPVALUES-0000000002
    Processor: KSTREAM-FILTER-0000000004 (stores: [])
      --> KSTREAM-PEEK-0000000005
      <-- KSTREAM-FLATMAP-0000000003
    Processor: KSTREAM-AGGREGATE-0000000008 (stores: [by-key])
      --> KTABLE-TOSTREAM-0000000009
      <-- KSTREAM-SOURCE-0000000000
    Processor: KSTREAM-PEEK-0000000005 (stores: [])
      --> KSTREAM-KEY-SELECT-0000000006
      <-- KSTREAM-FILTER-0000000004
    Processor: KSTREAM-REDUCE-0000000012 (stores: [KSTREAM-REDUCE-STATE-STORE-0000000011])
      --> KTABLE-TOSTREAM-0000000013
      <-- KSTREAM-SOURCE-0000000000
    Processor: KSTREAM-KEY-SELECT-0000000006 (stores: [])
      --> KSTREAM-SINK-0000000007
      <-- KSTREAM-PEEK-0000000005
    Processor: KTABLE-TOSTREAM-0000000009 (stores: [])
      --> KSTREAM-SINK-0000000010
      <-- KSTREAM-AGGREGATE-0000000008
    Processor: KTABLE-TOSTREAM-0000000013 (stores: [])
      --> KSTREAM-SINK-0000000014
      <-- KSTREAM-REDUCE-0000000012
    Sink: KSTREAM-SINK-0000000007 (topic: out)
      <-- KSTREAM-KEY-SELECT-0000000006
    Sink: KSTREAM-SINK-0000000010 (topic: key-counts)
      <-- KTABLE-TOSTREAM-0000000009
    Sink: KSTREAM-SINK-0000000014 (topic: last)
      <-- KTABLE-TOSTREAM-0000000013

";
    assert_eq!(text, expected);
}

/// `testdata/descriptions` holds what Kafka Streams 4.4 prints (`Topology.describe()`) for the same topologies, all but the class that chooses a
/// topic.
#[track_caller]
fn assert_described(builder: &TopologyBuilder, expected: &str) {
    let found = builder.build().unwrap().describe();
    // Kafka ends with the last part's empty line or without.
    assert_eq!(found.trim_end(), expected.trim_end());
}

#[test]
fn branches_are_described_as_kafka_does() {
    let builder = TopologyBuilder::new();
    let ([one, two], rest) = builder
        .stream_of::<String, String>(["a", "b"])
        .branch_with_rest([predicate(|_, _| true), predicate(|_, _| false)]);
    one.to("one");
    two.to("two");
    rest.for_each(|_, _| {});
    assert_described(&builder, include_str!("../../testdata/descriptions/branch.txt"));
}

#[test]
fn a_table_is_described_as_kafka_does() {
    let builder = TopologyBuilder::new();
    let users = builder.table::<String, String>("users", store("users-store"));
    users.filter(|_, _| true).map_values(|value| value).to("out");
    assert_described(&builder, include_str!("../../testdata/descriptions/table.txt"));
}

#[test]
fn a_repartition_that_is_asked_for_is_described_as_kafka_does() {
    let builder = TopologyBuilder::new();
    builder
        .stream::<String, String>("lines")
        .select_key(|_, value| value.clone())
        .repartition("by-word")
        .map_values(|value| value)
        .named("shout")
        .filter_not(|_, _| false)
        .to_chosen(|_, value| TopicName::from(value.as_str()));
    assert_described(&builder, include_str!("../../testdata/descriptions/repartition.txt"));
    let layout = builder.build().unwrap().layout(Some("app"), |_| Some(3)).unwrap();
    assert_eq!(layout.tasks, [3, 3]);
}

#[test]
fn a_repartition_topic_has_the_partitions_that_are_asked_for() {
    let builder = TopologyBuilder::new();
    builder.stream::<String, String>("lines").repartition_into("wide", 7).to("out");
    let layout = builder.build().unwrap().layout(Some("app"), |_| Some(3)).unwrap();
    assert_eq!(layout.internal_topics[0].partitions, 7);
    assert_eq!(layout.tasks, [3, 7]);
}

#[test]
fn a_stream_made_a_table_is_described_as_kafka_does() {
    let builder = TopologyBuilder::new();
    let lines = builder.stream::<String, String>("lines");
    lines.to_table(store("latest")).filter_not(|_, _| true).to("out");
    assert_described(&builder, include_str!("../../testdata/descriptions/to_table.txt"));

    let builder = TopologyBuilder::new();
    let by_word = builder.stream::<String, String>("lines").select_key(|_, value| value.clone());
    by_word.to_table(store("latest")).to("out");
    assert_described(&builder, include_str!("../../testdata/descriptions/to_table_after_a_change_of_key.txt"));
}

fn refused(build: impl FnOnce(&TopologyBuilder)) -> String {
    let builder = TopologyBuilder::new();
    build(&builder);
    builder.build().expect_err("cannot work").to_string()
}

#[test]
fn what_cannot_work_is_refused_with_the_nodes_name_and_the_cure() {
    assert_eq!(refused(|_| {}), "the topology reads no topic: begin with stream(\"topic\")");
    assert_eq!(
        refused(|builder| {
            builder.stream::<String, String>("a").to("b");
            builder.stream::<String, String>("a").to("c");
        }),
        "KSTREAM-SOURCE-0000000002 reads a, which KSTREAM-SOURCE-0000000000 reads already: \
         call stream(\"a\") once, and use the stream it gives twice"
    );
    assert_eq!(
        refused(|builder| {
            let stream = builder.stream::<String, String>("a");
            stream.clone().group_by_key().count(store("n")).to_stream().to("b");
            stream.group_by_key().count(store("n")).to_stream().to("c");
        }),
        "two stores are named n, the second one by KSTREAM-AGGREGATE-0000000004: give it another name with store(\"…\")"
    );
    assert_eq!(
        refused(|builder| builder.stream::<String, String>("a").to("no topic")),
        "KSTREAM-SINK-0000000001: \"no topic\" cannot be part of a topic's name: 1 to 249 of the characters a-z A-Z 0-9 . _ - can"
    );
    assert_eq!(
        refused(|builder| {
            builder.stream::<String, String>("a").to("b");
            builder.stream::<String, String>("b").to("a");
        }),
        "KSTREAM-SINK-0000000003 writes a, from which its records come: they would go round for ever; write another topic"
    );
    assert_eq!(
        refused(|builder| {
            builder.stream::<String, String>("a").to("b");
            builder.add_store::<String, String>(store("n"));
        }),
        "store n is used by no processor: connect it, or leave it out"
    );
    assert_eq!(
        refused(|builder| {
            let other = TopologyBuilder::new().stream::<String, String>("b");
            builder.stream::<String, String>("a").merge(other).to("c");
        }),
        "KSTREAM-MERGE-0000000001 joins streams of two builders: make both with one"
    );
}

#[test]
fn internal_topics_have_kafkas_names_configs_and_the_sources_partitions() {
    let builder = TopologyBuilder::new();
    builder
        .stream::<String, String>("lines")
        .group_by(|_, word| word.clone())
        .count(store("counts"))
        .to_stream()
        .to("word-counts");
    let topology = builder.build().unwrap();
    let layout = topology.layout(Some("app"), |topic| (topic.as_str() == "lines").then_some(3)).unwrap();
    let topics: Vec<(&str, i32)> =
        layout.internal_topics.iter().map(|topic| (topic.name.as_str(), topic.partitions)).collect();
    assert_eq!(topics, [("app-counts-repartition", 3), ("app-counts-changelog", 3)]);
    assert_eq!(layout.internal_topics[1].configs()[0], ("cleanup.policy", "compact"));
    assert_eq!(layout.tasks, [3, 3]);
    let tasks: Vec<String> = layout.task_ids().iter().map(ToString::to_string).collect();
    assert_eq!(tasks, ["0_0", "0_1", "0_2", "1_0", "1_1", "1_2"]);
    let error = topology.layout(Some("app"), |_| None).unwrap_err().to_string();
    assert_eq!(error, "KSTREAM-SOURCE-0000000000 reads topic lines, which does not exist: create it first");
}

#[test]
fn a_pattern_reads_what_matches_as_a_whole_and_is_described_as_kafka_does() {
    let builder = TopologyBuilder::new();
    builder
        .stream_of_pattern::<String, String>("orders-(eu|us)")
        .group_by_key()
        .count(store("counts"))
        .to_stream()
        .to("out");
    builder.stream_of_pattern::<String, String>("p.y").for_each(|_, _| {});
    let topology = builder.build().unwrap();
    assert!(topology.has_patterns());
    let text = topology.describe();
    for line in [
        "    Source: KSTREAM-SOURCE-0000000000 (topics: orders-(eu|us))",
        "    Source: KSTREAM-SOURCE-0000000004 (topics: p.y)",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\nis not in\n{text}");
    }

    // Nothing matches yet: no tasks, and no topics of the application's own.
    let existing = ["my-orders-eu", "orders-eu-2", "__consumer_offsets"].map(TopicName::from);
    let before = topology.with_topics(Some("app"), &existing).unwrap();
    let layout = before.layout(Some("app"), |_| Some(3)).unwrap();
    assert_eq!((layout.tasks.clone(), layout.internal_topics.len()), (vec![0, 0], 0));
    assert_eq!(layout.task_ids(), []);

    let existing = ["orders-us", "pay", "orders-eu", "p+y"].map(TopicName::from);
    let after = before.with_topics(Some("app"), &existing).unwrap();
    assert_eq!(after.describe(), text, "what is found does not show");
    let layout = after.layout(Some("app"), |topic| Some(if topic.as_str() == "orders-us" { 5 } else { 2 })).unwrap();
    assert_eq!(layout.tasks, [5, 2]);
    assert_eq!(layout.internal_topics.iter().map(|topic| topic.partitions).collect::<Vec<_>>(), [5]);
    let read = |partition| layout.partitions_of(TaskId { subtopology: 0, partition });
    assert_eq!(read(1), [TopicPartition::new("orders-eu", 1), TopicPartition::new("orders-us", 1)]);
    assert_eq!(read(4), [TopicPartition::new("orders-us", 4)]);
    // One that is gone is not read any more.
    let less = after.with_topics(Some("app"), &existing[..1]).unwrap();
    assert_eq!(less.source_topics(), BTreeSet::from([TopicName::from("orders-us")]));
}

#[test]
fn a_pattern_never_means_the_applications_own_topics() {
    let builder = TopologyBuilder::new();
    builder
        .stream_of_pattern::<String, String>(".*")
        .group_by(|_, word| word.clone())
        .count(store("counts"))
        .to_stream()
        .for_each(|_, _| {});
    let topology = builder.build().unwrap();
    let existing =
        ["app-counts-repartition", "app-counts-changelog", "counts-repartition", "words"].map(TopicName::from);
    let found = topology.with_topics(Some("app"), &existing).unwrap();
    assert_eq!(found.source_topics(), BTreeSet::from(["words"].map(TopicName::from)));
}

#[test]
fn patterns_that_cannot_work_are_refused() {
    let builder = TopologyBuilder::new();
    builder.stream_of_pattern::<String, String>("a(").to("out");
    let error = builder.build().unwrap_err().to_string();
    assert!(error.starts_with("KSTREAM-SOURCE-0000000000: \"a(\" is no pattern of topics: "), "{error}");
    let builder = TopologyBuilder::new();
    builder.stream_of_pattern::<String, String>("a)(b").to("out");
    assert!(matches!(builder.build(), Err(TopologyError::IllegalPattern { .. })));

    let builder = TopologyBuilder::new();
    builder.stream::<String, String>("orders").for_each(|_, _| {});
    builder.stream_of_pattern::<String, String>("ord.*").for_each(|_, _| {});
    let error = builder.build().unwrap_err();
    let expected = ("orders".into(), "KSTREAM-SOURCE-0000000002".to_owned(), "KSTREAM-SOURCE-0000000000".to_owned());
    assert_eq!(error, TopologyError::TopicReadTwice { topic: expected.0, node: expected.1, other: expected.2 });

    let builder = TopologyBuilder::new();
    builder.stream_of_pattern::<String, String>("o.*").to("out");
    let error = builder.build().unwrap_err();
    assert_eq!(error, TopologyError::Cycle { node: "KSTREAM-SINK-0000000001".into(), topic: "out".into() });

    let builder = TopologyBuilder::new();
    builder.stream_of_pattern::<String, String>("a.*").for_each(|_, _| {});
    builder.stream_of_pattern::<String, String>(".*b").for_each(|_, _| {});
    let topology = builder.build().unwrap();
    let error = topology.with_topics(None, &["ac".into(), "ab".into()]).unwrap_err().to_string();
    assert_eq!(
        error,
        "topic ab matches what KSTREAM-SOURCE-0000000002 reads, and what KSTREAM-SOURCE-0000000000 reads already: make the patterns apart"
    );
}
