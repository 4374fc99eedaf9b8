//! AlterReplicaLogDirs (key 34), versions 1 and 2: moves partitions to other folders of this broker. There is one, where all are.
//!
//! Asked to move a partition to where it is, all is done; to any other folder, there is no such folder, whatever the partition. - 2: flexible.

use std::collections::BTreeMap;

use atonce_protocol::messages::alter_replica_log_dirs_request::AlterReplicaLogDirsRequest;
use atonce_protocol::messages::alter_replica_log_dirs_response::{
    AlterReplicaLogDirPartitionResult, AlterReplicaLogDirTopicResult, AlterReplicaLogDirsResponse,
};
use atonce_protocol::{ApiKey, ErrorCode};

use super::{Api, Call};

pub(super) const API: Api =
    Api { key: ApiKey::AlterReplicaLogDirs, versions: 1..=2, run: |incoming| incoming.in_place(handle) };

/// Kafka copies a partition into a folder of a longer name before it takes the place of the old one. What had no room for that name is refused first.
fn has_no_name_for_a_copy(topic: &str, index: i32) -> bool {
    /// As file systems have it.
    const NAME_CHARS_MAX: usize = 255;
    /// `.`, a unique id in hexadecimal, `-future`.
    const ADDED: usize = 1 + 32 + 7;
    format!("{topic}-{index}").chars().count() + ADDED > NAME_CHARS_MAX
}

async fn handle(call: Call, request: AlterReplicaLogDirsRequest) -> AlterReplicaLogDirsResponse {
    let own = call.shared.data_path.display().to_string();
    let all = call.shared.directory.topics();
    // A partition that is sent to several folders has one destination, the last, as at Kafka's.
    let mut verdicts: BTreeMap<String, BTreeMap<i32, ErrorCode>> = BTreeMap::new();
    for dir in request.dirs {
        for topic in dir.topics {
            for index in topic.partitions {
                let verdict = if has_no_name_for_a_copy(&topic.name, index) {
                    ErrorCode::InvalidTopicException
                } else if dir.path != own {
                    ErrorCode::LogDirNotFound
                } else if all.partition(&topic.name, index).is_none() {
                    ErrorCode::UnknownTopicOrPartition
                } else {
                    ErrorCode::None
                };
                verdicts.entry(topic.name.clone()).or_default().insert(index, verdict);
            }
        }
    }
    let results = verdicts.into_iter().map(|(topic_name, partitions)| AlterReplicaLogDirTopicResult {
        topic_name,
        partitions: partitions
            .into_iter()
            .map(|(partition_index, code)| AlterReplicaLogDirPartitionResult {
                partition_index,
                error_code: code.to_i16(),
                ..Default::default()
            })
            .collect(),
        ..Default::default()
    });
    AlterReplicaLogDirsResponse { results: results.collect(), ..Default::default() }
}
