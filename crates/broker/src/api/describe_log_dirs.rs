//! DescribeLogDirs (key 35), versions 1 to 5: how much room partitions take. There is one folder, with all of them.
//!
//! What is asked for and not there is left out. - 2: flexible. 3: an error for the whole. 4: the size of the disk, and what is
//! left of it. 5: whether the folder takes no new partitions; ours always does.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use atonce_kernel::TopicPartition;
use atonce_protocol::messages::describe_log_dirs_request::DescribeLogDirsRequest;
use atonce_protocol::messages::describe_log_dirs_response::{
    DescribeLogDirsPartition, DescribeLogDirsResponse, DescribeLogDirsResult, DescribeLogDirsTopic,
};
use atonce_protocol::{ApiKey, ErrorCode};

use super::{Api, Call};
use crate::directory::Topic;

pub(super) const API: Api =
    Api { key: ApiKey::DescribeLogDirs, versions: 1..=5, run: |incoming| incoming.in_place(handle) };

async fn handle(call: Call, request: DescribeLogDirsRequest) -> DescribeLogDirsResponse {
    let wanted = wanted(&call, request);
    // What the segments do not have yet. It may be there by the time that they are looked at: the sizes are about right.
    let partitions: Vec<TopicPartition> = wanted.iter().flat_map(|(_, partitions)| partitions.clone()).collect();
    let unwritten = call.on_engine(move |engine| {
        partitions.iter().map(|partition| engine.storage().unwritten_bytes(partition)).collect::<Vec<usize>>()
    });
    let mut unwritten = unwritten.await.unwrap_or_default().into_iter();
    let asking = call.clone();
    let described = call.shared.read_aside(move || describe(&asking, wanted, &mut unwritten)).await;
    described.unwrap_or_else(|| DescribeLogDirsResponse {
        error_code: ErrorCode::KafkaStorageError.to_i16(),
        ..Default::default()
    })
}

/// By topic.
type Wanted = Vec<(String, Vec<TopicPartition>)>;

/// The partitions that are asked for and there.
fn wanted(call: &Call, request: DescribeLogDirsRequest) -> Wanted {
    let all = call.shared.directory.topics();
    let mut wanted: Wanted = match request.topics {
        None => {
            let of = |topic: &Arc<Topic>| topic.partitions.iter().map(|it| it.topic_partition.clone()).collect();
            all.iter().map(|topic| (topic.name.as_str().to_owned(), of(topic))).collect()
        }
        Some(mut topics) => {
            super::without_repetition(&mut topics, |topic| topic.topic.clone());
            let of = |topic: &str, partitions: Vec<i32>| {
                let partitions: BTreeSet<i32> = partitions.into_iter().collect();
                let found = partitions.into_iter().filter_map(|index| all.partition(topic, index));
                found.map(|found| found.topic_partition.clone()).collect()
            };
            topics.into_iter().map(|asked| (asked.topic.clone(), of(&asked.topic, asked.partitions))).collect()
        }
    };
    wanted.retain(|(_, partitions)| !partitions.is_empty());
    wanted
}

fn describe(call: &Call, wanted: Wanted, unwritten: &mut impl Iterator<Item = usize>) -> DescribeLogDirsResponse {
    let folder = &call.shared.data_path;
    let mut size = |partition: &TopicPartition| {
        let unwritten = i64::try_from(unwritten.next().unwrap_or(0)).unwrap_or(i64::MAX);
        log_bytes(&folder.join(partition.to_string())).saturating_add(unwritten)
    };
    let topics = wanted
        .into_iter()
        .map(|(name, partitions)| DescribeLogDirsTopic {
            partitions: partitions
                .iter()
                .map(|partition| DescribeLogDirsPartition {
                    partition_index: partition.partition,
                    partition_size: size(partition),
                    ..Default::default()
                })
                .collect(),
            name,
            ..Default::default()
        })
        .collect();
    // As Kafka, which says no more where the disk does not.
    let (total_bytes, usable_bytes) = rustix::fs::statvfs(folder.as_path()).map_or((-1, -1), |disk| {
        let bytes = |blocks: u64| i64::try_from(blocks.saturating_mul(disk.f_frsize)).unwrap_or(i64::MAX);
        (bytes(disk.f_blocks), bytes(disk.f_bavail))
    });
    let result = DescribeLogDirsResult {
        log_dir: folder.display().to_string(),
        topics,
        total_bytes,
        usable_bytes,
        ..Default::default()
    };
    DescribeLogDirsResponse { results: vec![result], ..Default::default() }
}

/// Bytes of a partition's segments. A file that goes meanwhile takes no room.
fn log_bytes(folder: &Path) -> i64 {
    let Ok(entries) = std::fs::read_dir(folder) else { return 0 };
    let logs = entries.filter_map(Result::ok).filter(|entry| entry.path().extension().is_some_and(|it| it == "log"));
    let bytes: u64 = logs.filter_map(|entry| entry.metadata().ok()).map(|metadata| metadata.len()).sum();
    i64::try_from(bytes).unwrap_or(i64::MAX)
}
