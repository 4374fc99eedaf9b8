//! `atonce transactions`: listing and describing them, finding those that hang, ending them.

use std::time::Duration;

use atonce_client::admin::{
    AbortTransaction, ConfigResource, HangingTransaction, ProducerState, TransactionDescription, TransactionFilter,
    TransactionState,
};
use atonce_client::{Admin, Client, TopicPartition, TransactionalId};
use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::{Cluster, REACH, Selection, each, partitions, selection, topic_name, transactional_id};
use crate::failure::{Failure, OrFailure};
use crate::output::{or_dash, remark, say, table};
use crate::time;

/// Lists and describes transactions, finds those that hang, and ends them.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  atonce transactions list --state ongoing
  atonce transactions describe payments-1
  atonce transactions hanging
  atonce transactions abort --topic receipts --partition 0 --start-offset 4711
  atonce transactions fence payments-1                            aborts what it has open; its producer must stop")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Lists transactional ids with where they stand.
    List {
        /// Only those in this state, as in `ongoing`. May be given again.
        #[arg(long = "state", value_name = "STATE")]
        states: Vec<TransactionState>,
        /// Only those whose transaction has been open for longer, as in 15m or PT15M.
        #[arg(long, value_name = "DURATION", value_parser = time::duration)]
        open_for: Option<Duration>,
        /// Only those whose whole id fits this regular expression.
        #[arg(long, value_name = "REGEX")]
        id_pattern: Option<String>,
        /// Only those that hang: as `atonce transactions hanging`, over all topics.
        #[arg(long, conflicts_with_all = ["states", "open_for", "id_pattern"])]
        hanging: bool,
        /// A line of JSON for each instead of a table.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        cluster: Cluster,
    },
    /// Shows transactional ids with their producers, time-outs and partitions.
    Describe {
        /// The ids.
        #[arg(required = true, value_name = "TRANSACTIONAL-ID", value_parser = transactional_id)]
        ids: Vec<TransactionalId>,
        /// A line of JSON for each instead of a table.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        cluster: Cluster,
    },
    /// Finds transactions that are open in a partition and that no coordinator will end: committed readers wait for them in vain.
    Hanging {
        /// Only in these topics, or in some of their partitions, as in receipts:0,2; in all, if none is given.
        #[arg(value_name = "TOPIC[:PARTITIONS]", value_parser = selection)]
        topics: Vec<Selection>,
        /// Those that have been silent for longer; the brokers' transaction.max.timeout.ms if not given.
        #[arg(long, value_name = "DURATION", value_parser = time::duration)]
        silent_for: Option<Duration>,
        /// A line of JSON for each instead of a table.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        cluster: Cluster,
    },
    /// Ends a transaction that hangs, by the marker of an abort written to its partition.
    Abort {
        /// The topic.
        #[arg(long, value_parser = topic_name)]
        topic: atonce_client::TopicName,
        /// The partition.
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(0..))]
        partition: i32,
        /// The offset of its first record in the partition, as `hanging` shows it.
        #[arg(long, value_name = "OFFSET", value_parser = clap::value_parser!(i64).range(0..))]
        start_offset: i64,
        /// Also one that its coordinator knows to be open: that tears it apart, if its producer commits it.
        #[arg(long)]
        force: bool,
        #[command(flatten)]
        cluster: Cluster,
    },
    /// Takes transactional ids over: what they have open is aborted, and whoever has them must stop.
    Fence {
        /// The ids.
        #[arg(required = true, value_name = "TRANSACTIONAL-ID", value_parser = transactional_id)]
        ids: Vec<TransactionalId>,
        #[command(flatten)]
        cluster: Cluster,
    },
}

const SEE_LIST: &str = "see the cause above; `atonce transactions list` shows the ids there are";

/// Runs one of the verbs.
pub(crate) async fn run(arguments: Arguments) -> Result<(), Failure> {
    match arguments.verb {
        Verb::List { hanging: true, json, cluster, .. } => hanging(&cluster.connect().await?, &[], None, json).await,
        Verb::List { states, open_for, id_pattern, json, cluster, hanging: false } => {
            let filter =
                TransactionFilter { states, producer_ids: Vec::new(), open_for, transactional_id_pattern: id_pattern };
            list(&cluster.connect().await?.admin(), &filter, json).await
        }
        Verb::Describe { ids, json, cluster } => {
            let admin = cluster.connect().await?.admin();
            let described = admin.describe_transactions(&ids).await;
            let described = described.or_failure(|| "cannot describe transactions".into(), REACH)?;
            each(described, "describe", |_| false, SEE_LIST)?.into_values().try_for_each(|it| describe(&it, json))
        }
        Verb::Hanging { topics, silent_for, json, cluster } => {
            hanging(&cluster.connect().await?, &topics, silent_for, json).await
        }
        Verb::Abort { topic, partition, start_offset, force, cluster } => {
            let admin = cluster.connect().await?.admin();
            abort(&admin, TopicPartition::new(topic, partition), start_offset, force).await
        }
        Verb::Fence { ids, cluster } => {
            let fenced = cluster.connect().await?.admin().fence_producers(&ids).await;
            let fenced = fenced.or_failure(|| "cannot fence producers".into(), REACH)?;
            each(fenced, "fence", |_| false, SEE_LIST).map(drop)
        }
    }
}

async fn list(admin: &Admin, filter: &TransactionFilter, json: bool) -> Result<(), Failure> {
    let listed = admin.list_transactions(filter).await.or_failure(
        || "cannot list transactions".into(),
        "see the cause above; is the broker up, and can it filter so?",
    )?;
    if json {
        return listed.into_iter().try_for_each(|it| {
            say(json!({"transactional_id": it.transactional_id.as_str(), "state": it.state.name(),
                       "producer_id": it.producer_id.0, "coordinator": it.coordinator}))
        });
    }
    if listed.is_empty() {
        remark("there are no such transactional ids");
        return Ok(());
    }
    let mut table = table(&["transactional id", "state", "producer id", "coordinator"]);
    for it in listed {
        table.add_row([
            it.transactional_id.to_string(),
            it.state.to_string(),
            it.producer_id.to_string(),
            it.coordinator.to_string(),
        ]);
    }
    say(&table)
}

fn describe(it: &TransactionDescription, json: bool) -> Result<(), Failure> {
    let open_for_ms = it.started.map(|started| (time::now_ms() - started.0).max(0));
    if json {
        let partitions: Vec<Value> =
            it.partitions.iter().map(|it| json!({"topic": it.topic.as_str(), "partition": it.partition})).collect();
        return say(json!({"transactional_id": it.transactional_id.as_str(), "state": it.state.name(),
                          "producer_id": it.producer.id.0, "producer_epoch": it.producer.epoch.0,
                          "coordinator": it.coordinator, "timeout_ms": it.timeout.as_millis(),
                          "started_ms": it.started.map(|it| it.0), "open_for_ms": open_for_ms,
                          "partitions": partitions}));
    }
    say(format_args!("{}: {}", it.transactional_id, it.state))?;
    let mut table = table(&["producer id", "epoch", "coordinator", "timeout", "open since", "open for", "partitions"]);
    let partitions: Vec<String> = it.partitions.iter().map(ToString::to_string).collect();
    table.add_row([
        it.producer.id.to_string(),
        it.producer.epoch.to_string(),
        it.coordinator.to_string(),
        format!("{:?}", it.timeout),
        or_dash(it.started.map(|it| time::show(it.0))),
        or_dash(open_for_ms.map(|ms| format!("{}.{:03}s", ms / 1000, ms % 1000))),
        if partitions.is_empty() { "-".to_owned() } else { partitions.join(", ") },
    ]);
    say(&table)
}

/// No transaction is open for longer than the brokers let it be; Kafka's default where they do not say.
async fn transaction_max_timeout(admin: &Admin) -> Duration {
    let configured = async {
        let node = admin.describe_cluster().await.ok()?.brokers.first()?.id;
        let resource = ConfigResource::Broker(node);
        let configs = admin.describe_configs(std::slice::from_ref(&resource)).await.ok()?.remove(&resource)?.ok()?;
        configs.get("transaction.max.timeout.ms")?.value.as_ref()?.parse().ok().map(Duration::from_millis)
    };
    configured.await.unwrap_or(Duration::from_secs(15 * 60))
}

async fn hanging(
    client: &Client,
    topics: &[Selection],
    silent_for: Option<Duration>,
    json: bool,
) -> Result<(), Failure> {
    let admin = client.admin();
    let wanted = if topics.is_empty() {
        let all = admin.list_topics().await.or_failure(|| "cannot list topics".into(), REACH)?;
        let of = |partitions| (0..partitions).collect::<Vec<i32>>();
        all.into_iter()
            .flat_map(|topic| {
                of(topic.partitions).into_iter().map(move |it| TopicPartition::new(topic.name.clone(), it))
            })
            .collect()
    } else {
        partitions(client, topics).await?
    };
    let silent_for = match silent_for {
        Some(given) => given,
        None => transaction_max_timeout(&admin).await,
    };
    let found = admin
        .find_hanging_transactions(&wanted, silent_for)
        .await
        .or_failure(|| "cannot look for hanging transactions".into(), REACH)?;
    if json {
        return found.iter().try_for_each(|it| say(hanging_json(it)));
    }
    if found.is_empty() {
        remark(format_args!("no transaction hangs in {} partitions (none silent for {silent_for:?})", wanted.len()));
        return Ok(());
    }
    let mut table =
        table(&["topic", "partition", "start offset", "producer id", "epoch", "coordinator epoch", "last written"]);
    for it in &found {
        table.add_row([
            it.topic_partition.topic.to_string(),
            it.topic_partition.partition.to_string(),
            or_dash(it.producer.open_since),
            it.producer.producer.id.to_string(),
            it.producer.producer.epoch.to_string(),
            it.producer.coordinator_epoch.to_string(),
            or_dash(it.producer.last_timestamp.map(|it| time::show(it.0))),
        ]);
    }
    say(&table)?;
    remark("each ends by `atonce transactions abort --topic TOPIC --partition N --start-offset OFFSET`");
    Ok(())
}

fn hanging_json(it: &HangingTransaction) -> Value {
    json!({"topic": it.topic_partition.topic.as_str(), "partition": it.topic_partition.partition,
           "start_offset": it.producer.open_since, "producer_id": it.producer.producer.id.0,
           "producer_epoch": it.producer.producer.epoch.0, "coordinator_epoch": it.producer.coordinator_epoch,
           "last_timestamp_ms": it.producer.last_timestamp.map(|it| it.0),
           "transactional_id": it.transactional_id.as_ref().map(|id| id.as_str())})
}

async fn abort(admin: &Admin, here: TopicPartition, start_offset: i64, force: bool) -> Result<(), Failure> {
    let failed = || format!("cannot abort the transaction at {start_offset} of {here}");
    let see = "see the cause above; `atonce transactions hanging` shows what can be ended so";
    let producers = admin.describe_producers(std::slice::from_ref(&here)).await.or_failure(failed, REACH)?;
    let producers = each(producers, "look at", |_| false, see)?.into_values().next().unwrap_or_default();
    let open: Option<&ProducerState> = producers.iter().find(|it| it.open_since == Some(start_offset));
    let Some(open) = open else {
        return Err(Failure::new(
            format!("no transaction that begins at {start_offset} is open in {here}"),
            "`atonce transactions hanging` shows those that are, with their start offsets",
        ));
    };
    let silent = Duration::ZERO;
    let hanging =
        admin.find_hanging_transactions(std::slice::from_ref(&here), silent).await.or_failure(failed, REACH)?;
    if !force && hanging.iter().all(|it| it.producer.producer != open.producer) {
        return Err(Failure::new(
            format!(
                "the transaction at {start_offset} of {here} does not hang: its coordinator knows it, and will end it"
            ),
            "`atonce transactions list --state ongoing` shows whose it is; `atonce transactions fence ID` ends it whole, and its producer. \
             --force aborts it in this partition only",
        ));
    }
    let abort = AbortTransaction {
        topic_partition: here.clone(),
        producer: open.producer,
        coordinator_epoch: open.coordinator_epoch.max(0),
    };
    admin.abort_transaction(&abort).await.or_failure(failed, see)
}
