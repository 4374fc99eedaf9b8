//! `atonce cluster`: brokers, features, folders, the controllers' quorum.

use atonce_client::admin::{LogDirDescription, QuorumDescription, QuorumReplica};
use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::{Cluster, REACH, each};
use crate::failure::{Failure, OrFailure};
use crate::output::{or_dash, say, table};
use crate::time;

/// Shows the cluster: its brokers, their folders, its features, its quorum.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  atonce cluster describe
  atonce cluster log-dirs --json
  atonce cluster quorum")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Shows its id, its brokers and its features.
    Describe {
        /// A line of JSON instead of tables.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        cluster: Cluster,
    },
    /// Shows the folders in which brokers keep logs, and how large these are.
    LogDirs {
        /// Only of this broker. May be given again.
        #[arg(long = "broker", value_name = "NODE")]
        brokers: Vec<i32>,
        /// A line of JSON for each folder, with every log in it, instead of a table.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        cluster: Cluster,
    },
    /// Shows who keeps the cluster's metadata, and how far each of them is.
    Quorum {
        /// A line of JSON instead of a table.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        cluster: Cluster,
    },
}

/// Runs one of the verbs.
pub(crate) async fn run(arguments: Arguments) -> Result<(), Failure> {
    match arguments.verb {
        Verb::Describe { json, cluster } => describe(&cluster, json).await,
        Verb::LogDirs { brokers, json, cluster } => {
            let admin = cluster.connect().await?.admin();
            let told = admin.describe_log_dirs(&brokers).await.or_failure(|| "cannot show folders".into(), REACH)?;
            let next = "see the cause above; `atonce cluster describe` shows the brokers there are";
            let told = each(told, "show the folders of broker", |_| false, next)?;
            log_dirs(told.into_iter().collect(), json)
        }
        Verb::Quorum { json, cluster } => {
            let admin = cluster.connect().await?.admin();
            quorum(&admin.describe_quorum().await.or_failure(|| "cannot show the quorum".into(), REACH)?, json)
        }
    }
}

async fn describe(cluster: &Cluster, json: bool) -> Result<(), Failure> {
    let admin = cluster.connect().await?.admin();
    let failed = || "cannot describe the cluster".to_owned();
    let described = admin.describe_cluster().await.or_failure(failed, REACH)?;
    let features = admin.describe_features().await.or_failure(failed, REACH)?;
    if json {
        let brokers: Vec<Value> = described
            .brokers
            .iter()
            .map(|it| json!({"node": it.id, "host": it.host, "port": it.port, "rack": it.rack}))
            .collect();
        let supported: serde_json::Map<String, Value> =
            features.supported.iter().map(|(name, it)| (name.clone(), json!([it.min, it.max]))).collect();
        return say(json!({"cluster_id": described.cluster_id, "controller": described.controller, "brokers": brokers,
                          "features": features.finalized, "supported_features": supported}));
    }
    say(format_args!("cluster {}, controller {}", described.cluster_id, described.controller))?;
    let mut brokers = table(&["node", "host", "port", "rack"]);
    for it in described.brokers {
        brokers.add_row([it.id.to_string(), it.host, it.port.to_string(), or_dash(it.rack)]);
    }
    say(&brokers)?;
    let mut levels = table(&["feature", "level", "supported"]);
    for (name, it) in features.supported {
        let level = features.finalized.get(&name).copied().unwrap_or(0);
        levels.add_row([name, level.to_string(), format!("{}-{}", it.min, it.max)]);
    }
    say(&levels)
}

fn log_dirs(told: Vec<(i32, Vec<LogDirDescription>)>, json: bool) -> Result<(), Failure> {
    let folders = told.iter().flat_map(|(node, folders)| folders.iter().map(move |folder| (node, folder)));
    if json {
        return folders.into_iter().try_for_each(|(node, folder)| {
            let logs: Vec<Value> = folder
                .replicas
                .iter()
                .map(|(it, log)| {
                    json!({"topic": it.topic.as_str(), "partition": it.partition, "bytes": log.bytes,
                           "offset_lag": log.offset_lag, "future": log.is_future})
                })
                .collect();
            say(json!({"node": node, "path": folder.path, "error": folder.refusal.as_ref().map(ToString::to_string),
                       "bytes": folder.bytes, "usable_bytes": folder.usable_bytes, "logs": logs}))
        });
    }
    let mut table = table(&["node", "folder", "logs", "bytes in logs", "bytes free", "trouble"]);
    for (node, folder) in folders {
        let in_logs: i64 = folder.replicas.values().map(|it| it.bytes.max(0)).sum();
        table.add_row([
            node.to_string(),
            folder.path.clone(),
            folder.replicas.len().to_string(),
            in_logs.to_string(),
            or_dash(folder.usable_bytes),
            or_dash(folder.refusal.as_ref()),
        ]);
    }
    say(&table)
}

fn quorum(quorum: &QuorumDescription, json: bool) -> Result<(), Failure> {
    let voters = quorum.voters.iter().map(|it| (it, if it.node == quorum.leader { "leader" } else { "follower" }));
    let all: Vec<(&QuorumReplica, &str)> = voters.chain(quorum.observers.iter().map(|it| (it, "observer"))).collect();
    if json {
        let replicas: Vec<Value> = all
            .iter()
            .map(|(it, role)| {
                json!({"node": it.node, "directory": it.directory.to_string(), "role": role,
                       "log_end_offset": it.log_end_offset, "last_fetch_ms": it.last_fetch.map(|it| it.0),
                       "last_caught_up_ms": it.last_caught_up.map(|it| it.0)})
            })
            .collect();
        return say(json!({"leader": quorum.leader, "leader_epoch": quorum.leader_epoch,
                          "high_watermark": quorum.high_watermark, "replicas": replicas}));
    }
    say(format_args!(
        "leader {}, epoch {}, high watermark {}",
        quorum.leader, quorum.leader_epoch, quorum.high_watermark
    ))?;
    let end = quorum.voters.iter().find(|it| it.node == quorum.leader).map(|it| it.log_end_offset);
    let mut table = table(&["node", "role", "log end", "lag", "last caught up"]);
    for (it, role) in all {
        let lag = end.map(|end| (end - it.log_end_offset).max(0));
        let caught_up = it.last_caught_up.map(|it| time::show(it.0));
        table.add_row([
            it.node.to_string(),
            role.to_owned(),
            it.log_end_offset.to_string(),
            or_dash(lag),
            or_dash(caught_up),
        ]);
    }
    say(&table)
}
