//! Administration that Kafka's tools do: features, folders, the quorum, reassignments, elections, access, lists of what has
//! settings. Codes and words as Apache Kafka 4.4 answered them.

mod raw_client;

use atonce_broker::Broker;
use atonce_protocol::ErrorCode;
use atonce_protocol::messages::alter_partition_reassignments_request::{
    AlterPartitionReassignmentsRequest, ReassignablePartition, ReassignableTopic,
};
use atonce_protocol::messages::api_versions_request::ApiVersionsRequest;
use atonce_protocol::messages::api_versions_response::ApiVersionsResponse;
use atonce_protocol::messages::describe_acls_request::DescribeAclsRequest;
use atonce_protocol::messages::describe_cluster_request::DescribeClusterRequest;
use atonce_protocol::messages::describe_log_dirs_request::{DescribableLogDirTopic, DescribeLogDirsRequest};
use atonce_protocol::messages::describe_quorum_request::{DescribeQuorumRequest, PartitionData, TopicData};
use atonce_protocol::messages::elect_leaders_request::{ElectLeadersRequest, TopicPartitions};
use atonce_protocol::messages::list_config_resources_request::ListConfigResourcesRequest;
use atonce_protocol::messages::list_transactions_request::ListTransactionsRequest;
use atonce_protocol::messages::update_features_request::{FeatureUpdateKey, UpdateFeaturesRequest};
use raw_client::{RawClient, broker, plain_batch};

async fn versions(client: &mut RawClient, version: i16) -> ApiVersionsResponse {
    let request = ApiVersionsRequest {
        client_software_name: "raw".to_owned(),
        client_software_version: "1".to_owned(),
        ..Default::default()
    };
    client.call(version, &request).await
}

fn level(response: &ApiVersionsResponse, feature: &str) -> i16 {
    let found = response.finalized_features.iter().find(|it| it.name == feature);
    found.map_or(0, |found| found.max_version_level)
}

async fn update(client: &mut RawClient, level: i16, upgrade_type: i8, validate_only: bool) -> ErrorCode {
    let feature = "transaction.version".to_owned();
    let update = FeatureUpdateKey { feature, max_version_level: level, upgrade_type, ..Default::default() };
    let request = UpdateFeaturesRequest { feature_updates: vec![update], validate_only, ..Default::default() };
    ErrorCode::from_wire(client.call(2, &request).await.error_code)
}

#[tokio::test]
async fn a_feature_is_lowered_and_raised_and_stays_so_over_a_crash() {
    let broker = broker().await;
    let mut client = RawClient::of(&broker);
    let before = versions(&mut client, 3).await;
    assert_eq!(level(&before, "transaction.version"), 2);
    assert_eq!(update(&mut client, 1, 1, false).await, ErrorCode::InvalidUpdateVersion);
    assert_eq!(update(&mut client, 3, 1, false).await, ErrorCode::InvalidUpdateVersion);
    assert_eq!(update(&mut client, 1, 2, true).await, ErrorCode::None);
    assert_eq!(level(&versions(&mut client, 3).await, "transaction.version"), 2, "only asked");
    assert_eq!(update(&mut client, 1, 2, false).await, ErrorCode::None);
    let lowered = versions(&mut client, 3).await;
    assert_eq!(level(&lowered, "transaction.version"), 1);
    assert!(lowered.finalized_features_epoch > before.finalized_features_epoch);
    broker.crash().await.expect("crashed");
    broker.restart().await.expect("restarted");
    let mut client = RawClient::of(&broker);
    let again = versions(&mut client, 3).await;
    assert_eq!(level(&again, "transaction.version"), 1);
    assert_eq!(again.finalized_features_epoch, lowered.finalized_features_epoch);
    assert_eq!(update(&mut client, 0, 3, false).await, ErrorCode::None);
    assert!(!versions(&mut client, 3).await.finalized_features.iter().any(|it| it.name == "transaction.version"));
    assert_eq!(update(&mut client, 2, 1, false).await, ErrorCode::None);
    assert_eq!(level(&versions(&mut client, 3).await, "transaction.version"), 2);
}

#[tokio::test]
async fn one_update_that_cannot_be_leaves_all_as_they_were() {
    let broker = broker().await;
    let mut client = RawClient::of(&broker);
    let update = |feature: &str| FeatureUpdateKey {
        feature: feature.to_owned(),
        max_version_level: 1,
        upgrade_type: 2,
        ..Default::default()
    };
    let feature_updates = vec![update("transaction.version"), update("nix")];
    let request = UpdateFeaturesRequest { feature_updates, ..Default::default() };
    let response = client.call(1, &request).await;
    assert_eq!(ErrorCode::from_wire(response.error_code), ErrorCode::InvalidUpdateVersion);
    assert!(response.results.is_empty());
    assert_eq!(
        response.error_message.as_deref(),
        Some(
            "The update failed for all features since the following feature had an error: Invalid update version 1 for \
             feature nix. Local controller 1 does not support this feature."
        )
    );
    assert_eq!(level(&versions(&mut client, 3).await, "transaction.version"), 2);
}

#[tokio::test]
async fn features_that_begin_at_zero_are_told_only_to_those_who_can_take_it() {
    let broker = broker().await;
    let mut client = RawClient::of(&broker);
    assert_eq!(versions(&mut client, 3).await.supported_features, []);
    for version in [4, 5] {
        let supported = versions(&mut client, version).await.supported_features;
        let found = supported.iter().find(|feature| feature.name == "transaction.version").expect("told");
        assert_eq!((found.min_version, found.max_version), (0, 2));
    }
}

#[tokio::test]
async fn a_client_that_meant_another_node_is_sent_to_look_for_it() {
    let broker = broker().await;
    let mut client = RawClient::of(&broker);
    let described = client.call(2, &DescribeClusterRequest { endpoint_type: 1, ..Default::default() }).await;
    let (id, none) = (Some(described.cluster_id), None);
    for (cluster_id, node_id, expected) in [
        (none.clone(), -1, ErrorCode::None),
        (none, 1, ErrorCode::InvalidRequest),
        (id.clone(), -1, ErrorCode::InvalidRequest),
        (id.clone(), 1, ErrorCode::None),
        (id, 17, ErrorCode::RebootstrapRequired),
        (Some("x".to_owned()), 1, ErrorCode::RebootstrapRequired),
    ] {
        let what = format!("{cluster_id:?} {node_id}");
        let request = ApiVersionsRequest {
            client_software_name: "raw".to_owned(),
            client_software_version: "1".to_owned(),
            cluster_id,
            node_id,
            ..Default::default()
        };
        assert_eq!(ErrorCode::from_wire(client.call(5, &request).await.error_code), expected, "{what}");
    }
}

#[tokio::test]
async fn folders_tell_the_size_of_partitions_and_of_the_disk() {
    let broker = broker().await;
    let mut client = RawClient::of(&broker);
    client.create_topic("t", 2).await;
    client.produce(9, None, "t", 1, plain_batch(&["some bytes"])).await;
    let asked =
        |topic: &str, partitions| DescribableLogDirTopic { topic: topic.to_owned(), partitions, ..Default::default() };
    for version in 1..=5 {
        let topics = Some(vec![asked("t", vec![0, 1, 7]), asked("none", vec![0])]);
        let response = client.call(version, &DescribeLogDirsRequest { topics, ..Default::default() }).await;
        let [folder] = response.results.as_slice() else { panic!("one folder: {response:?}") };
        assert_eq!(folder.log_dir, broker.data_path().display().to_string());
        let [topic] = folder.topics.as_slice() else { panic!("what there is alone: {response:?}") };
        let sizes: Vec<(i32, bool)> =
            topic.partitions.iter().map(|it| (it.partition_index, it.partition_size > 0)).collect();
        assert_eq!(sizes, [(0, false), (1, true)]);
        assert_eq!(folder.total_bytes > folder.usable_bytes && folder.usable_bytes > 0, version >= 4);
    }
    let all = client.call(4, &DescribeLogDirsRequest { topics: None, ..Default::default() }).await;
    assert!(all.results[0].topics.iter().any(|topic| topic.name == "t"));
}

#[tokio::test]
async fn the_quorum_is_this_node_and_nothing_else_has_one() {
    let broker = broker().await;
    let mut client = RawClient::of(&broker);
    let asked = |topic: &str, partition_index| TopicData {
        topic_name: topic.to_owned(),
        partitions: vec![PartitionData { partition_index, ..Default::default() }],
        ..Default::default()
    };
    for version in 0..=2 {
        let mut ask = async |topics: Vec<TopicData>| {
            client.call(version, &DescribeQuorumRequest { topics, ..Default::default() }).await
        };
        let found = ask(vec![asked("__cluster_metadata", 0)]).await;
        let partition = &found.topics[0].partitions[0];
        assert_eq!((partition.error_code, partition.leader_id), (0, 1));
        let [voter] = partition.current_voters.as_slice() else { panic!("one voter: {found:?}") };
        assert_eq!((voter.replica_id, voter.log_end_offset), (1, partition.high_watermark));
        assert_eq!(found.nodes.len(), usize::from(version == 2));
        for others in [
            vec![asked("t", 0)],
            vec![asked("__cluster_metadata", 1)],
            vec![asked("__cluster_metadata", 0), asked("t", 0)],
        ] {
            let response = ask(others).await;
            for partition in response.topics.iter().flat_map(|topic| &topic.partitions) {
                assert_eq!(ErrorCode::from_wire(partition.error_code), ErrorCode::UnknownTopicOrPartition);
            }
        }
        assert_eq!(ask(Vec::new()).await.topics, []);
    }
}

#[tokio::test]
async fn partitions_stay_where_they_are_and_are_led_by_whom_they_should_be() {
    let broker = broker().await;
    let mut client = RawClient::of(&broker);
    client.create_topic("t", 2).await;
    let move_to = |partition_index, replicas: Option<&[i32]>| ReassignablePartition {
        partition_index,
        replicas: replicas.map(<[i32]>::to_vec),
        ..Default::default()
    };
    let rows = [
        (move_to(0, None), ErrorCode::NoReassignmentInProgress, None),
        (move_to(1, Some(&[1])), ErrorCode::None, None),
        (move_to(2, Some(&[1])), ErrorCode::UnknownTopicOrPartition, Some("Unable to find partition t:2.")),
        (
            move_to(0, Some(&[])),
            ErrorCode::InvalidReplicaAssignment,
            Some("The manual partition assignment includes an empty replica list."),
        ),
        (
            move_to(0, Some(&[1, 1])),
            ErrorCode::InvalidReplicaAssignment,
            Some("The manual partition assignment includes the broker 1 more than once."),
        ),
        (
            move_to(0, Some(&[9])),
            ErrorCode::InvalidReplicaAssignment,
            Some("The manual partition assignment includes broker 9, but no such broker is registered."),
        ),
    ];
    for version in 0..=1 {
        let partitions = rows.iter().map(|row| row.0.clone()).collect();
        let topic = ReassignableTopic { name: "t".to_owned(), partitions, ..Default::default() };
        let request = AlterPartitionReassignmentsRequest { topics: vec![topic], ..Default::default() };
        let response = client.call(version, &request).await;
        let found: Vec<_> = response.responses[0]
            .partitions
            .iter()
            .map(|it| (ErrorCode::from_wire(it.error_code), it.error_message.as_deref()))
            .collect();
        let expected: Vec<_> = rows.iter().map(|row| (row.1, row.2)).collect();
        assert_eq!(found, expected);
    }
    for (election_type, whole, first) in [
        (0, ErrorCode::None, ErrorCode::ElectionNotNeeded),
        (1, ErrorCode::None, ErrorCode::ElectionNotNeeded),
        (2, ErrorCode::InvalidRequest, ErrorCode::InvalidRequest),
    ] {
        let asked = TopicPartitions { topic: "t".to_owned(), partitions: vec![0], ..Default::default() };
        let request = ElectLeadersRequest { election_type, topic_partitions: Some(vec![asked]), ..Default::default() };
        let response = client.call(2, &request).await;
        assert_eq!(ErrorCode::from_wire(response.error_code), whole);
        let result = &response.replica_election_results[0].partition_result[0];
        assert_eq!(ErrorCode::from_wire(result.error_code), first);
    }
}

#[tokio::test]
async fn everybody_may_do_everything_and_that_is_said() {
    let broker = broker().await;
    let request = DescribeAclsRequest {
        resource_type_filter: 1,
        pattern_type_filter: 1,
        operation: 1,
        permission_type: 1,
        ..Default::default()
    };
    for version in 1..=3 {
        let response = RawClient::of(&broker).call(version, &request).await;
        assert_eq!(ErrorCode::from_wire(response.error_code), ErrorCode::SecurityDisabled);
        assert_eq!(response.error_message.as_deref(), Some("No Authorizer is configured on the broker"));
    }
}

#[tokio::test]
async fn transactions_are_listed_by_a_pattern_that_the_whole_name_matches() {
    let broker = broker().await;
    let mut client = RawClient::of(&broker);
    for id in ["app-1", "app-22", "other"] {
        client.init(Some(id)).await;
    }
    let mut list = async |pattern: Option<&str>| {
        let request =
            ListTransactionsRequest { transactional_id_pattern: pattern.map(str::to_owned), ..Default::default() };
        let response = client.call(2, &request).await;
        let mut ids: Vec<String> =
            response.transaction_states.into_iter().map(|state| state.transactional_id).collect();
        ids.sort();
        (ErrorCode::from_wire(response.error_code), ids)
    };
    let all = ["app-1", "app-22", "other"].map(str::to_owned).to_vec();
    assert_eq!(list(None).await, (ErrorCode::None, all.clone()));
    assert_eq!(list(Some("")).await, (ErrorCode::None, all));
    assert_eq!(list(Some("app-.")).await, (ErrorCode::None, vec!["app-1".to_owned()]));
    assert_eq!(list(Some("ther")).await, (ErrorCode::None, Vec::new()));
    assert_eq!(list(Some("other|app-1")).await.1.len(), 2);
    for bad in ["(", "a)(b", "((a{999}){999}){999}"] {
        assert_eq!(list(Some(bad)).await, (ErrorCode::InvalidRegularExpression, Vec::new()), "{bad}");
    }
}

#[tokio::test]
async fn what_has_settings_is_listed_by_kind() {
    let broker = broker().await;
    let mut client = RawClient::of(&broker);
    client.create_topic("t", 1).await;
    let mut list = async |version, resource_types: &[i8]| {
        let request = ListConfigResourcesRequest { resource_types: resource_types.to_vec(), ..Default::default() };
        let response = client.call(version, &request).await;
        let found: Vec<(String, i8)> =
            response.config_resources.into_iter().map(|it| (it.resource_name, it.resource_type)).collect();
        (ErrorCode::from_wire(response.error_code), found)
    };
    let (topic, node) = (("t".to_owned(), 2), |kind| ("1".to_owned(), kind));
    assert_eq!(list(1, &[]).await, (ErrorCode::None, vec![node(8), node(4), topic.clone()]));
    assert_eq!(list(1, &[16, 2, 2, 4]).await, (ErrorCode::None, vec![node(4), topic]));
    assert_eq!(list(1, &[99]).await, (ErrorCode::UnsupportedVersion, Vec::new()));
    assert_eq!(list(0, &[]).await, (ErrorCode::None, Vec::new()));
}

#[tokio::test]
async fn two_brokers_on_one_folder_or_port_are_refused_by_name() {
    let first = broker().await;
    let folder = Broker::builder().data_path(first.data_path()).start().await.expect_err("the folder is in use");
    assert!(folder.to_string().contains("is in use by another broker"), "{folder}");
    let port = Broker::builder().temporary().listen(first.bootstrap_servers()).start().await;
    let port = port.expect_err("the port is in use").to_string();
    assert!(port.contains(&first.bootstrap_servers()), "{port}");
}
