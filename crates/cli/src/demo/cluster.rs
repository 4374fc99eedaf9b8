//! Where the demo runs: a broker inside this process, or a cluster that is there; and the topics on it.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use atonce_broker::Broker;
use atonce_client::{Client, NewTopic, TopicName};
use tempfile::TempDir;

use super::Arguments;
use crate::commands::connect;
use crate::failure::{Failure, OrFailure};

/// A cluster, a folder, and a client.
pub(crate) struct Cluster {
    client: Client,
    bootstrap_servers: String,
    folder: Folder,
    broker: Option<Broker>,
}

/// Where data lies; a temporary folder goes with its owner.
enum Folder {
    Temporary(TempDir),
    Given(PathBuf),
}

const TOPICS_NEXT: &str = "see the cause above; the demo needs the right to create, list and delete topics";

impl Cluster {
    /// Starts a broker, or connects to the cluster that was named.
    pub(crate) async fn start(arguments: &Arguments) -> Result<Self, Failure> {
        let folder = match &arguments.data_dir {
            Some(path) => {
                std::fs::create_dir_all(path).or_failure(
                    || format!("cannot make {}", path.display()),
                    "name a folder that can be written with --data-dir",
                )?;
                Folder::Given(path.clone())
            }
            None => Folder::Temporary(tempfile::Builder::new().prefix("atonce-demo-").tempdir().or_failure(
                || "cannot make a temporary folder".into(),
                "name a folder that can be written with --data-dir",
            )?),
        };
        let (broker, bootstrap_servers) = match &arguments.bootstrap_servers {
            Some(bootstrap_servers) => (None, bootstrap_servers.clone()),
            None => {
                let broker = Broker::builder()
                    .data_path(folder.path().join("broker"))
                    .listen("127.0.0.1:0")
                    .durability(arguments.durability.into())
                    // The demo's session time-out may be shorter than what Kafka takes by default.
                    .property("group.min.session.timeout.ms", arguments.session_timeout_ms.min(6_000).to_string())
                    // Nobody else is about to join.
                    .property("group.initial.rebalance.delay.ms", "0")
                    .start()
                    .await
                    .or_failure(
                        || "cannot start the broker inside".into(),
                        "see the cause above; --data-dir names another folder",
                    )?;
                let bootstrap_servers = broker.bootstrap_servers().to_string();
                (Some(broker), bootstrap_servers)
            }
        };
        let client = connect(&bootstrap_servers).await?;
        Ok(Self { client, bootstrap_servers, folder, broker })
    }

    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    pub(crate) fn bootstrap_servers(&self) -> &str {
        &self.bootstrap_servers
    }

    /// A folder for the workers' data.
    pub(crate) fn workers_folder(&self) -> PathBuf {
        self.folder.path().join("workers")
    }

    /// Makes topics that are empty: deletes what is there under `prefix` first.
    pub(crate) async fn fresh_topics(&self, prefix: &str, topics: &[NewTopic]) -> Result<(), Failure> {
        self.delete_topics(prefix).await?;
        // Apache Kafka answers a deletion before the name is free again.
        let until = Instant::now() + Duration::from_secs(30);
        let mut missing: Vec<NewTopic> = topics.to_vec();
        loop {
            let results = self
                .client
                .admin()
                .create_topics(&missing)
                .await
                .or_failure(|| "cannot create topics".into(), TOPICS_NEXT)?;
            for (name, result) in results {
                match result {
                    Err(error) if error.is_already_there() && Instant::now() < until => {}
                    result => {
                        result.or_failure(|| format!("cannot create the topic {name}"), TOPICS_NEXT)?;
                        missing.retain(|topic| topic.name != name);
                    }
                }
            }
            if missing.is_empty() {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Deletes the topics of a guarantee: `<prefix>.…` are the demo's, and `<prefix>.<run>-…` the application's own.
    pub(crate) async fn delete_topics(&self, prefix: &str) -> Result<(), Failure> {
        let ours: Vec<TopicName> = self.topics(&format!("{prefix}.")).await?;
        if ours.is_empty() {
            return Ok(());
        }
        let results =
            self.client.admin().delete_topics(&ours).await.or_failure(|| "cannot delete topics".into(), TOPICS_NEXT)?;
        for (name, result) in results {
            match result {
                Err(error) if error.is_not_there() => {}
                result => result.or_failure(|| format!("cannot delete the topic {name}"), TOPICS_NEXT)?,
            }
        }
        Ok(())
    }

    /// The topics whose names begin like this.
    pub(crate) async fn topics(&self, prefix: &str) -> Result<Vec<TopicName>, Failure> {
        let topics = self.client.admin().list_topics().await.or_failure(|| "cannot list topics".into(), TOPICS_NEXT)?;
        Ok(topics.into_iter().map(|topic| topic.name).filter(|name| name.as_str().starts_with(prefix)).collect())
    }

    /// Ends the broker, if it is ours; what is temporary goes, unless it is to be kept.
    pub(crate) async fn end(self, arguments: &Arguments) -> Result<(), Failure> {
        if let Some(broker) = self.broker {
            broker
                .shutdown()
                .await
                .or_failure(|| "the broker inside did not end cleanly".into(), "see the cause above")?;
        }
        match self.folder {
            Folder::Temporary(folder) if arguments.keep => {
                crate::output::remark(format_args!("kept: {}", folder.keep().display()))
            }
            Folder::Given(path) if arguments.keep => crate::output::remark(format_args!("kept: {}", path.display())),
            // A folder that was given stays; so do its topics only if asked for.
            Folder::Temporary(_) | Folder::Given(_) => {}
        }
        Ok(())
    }
}

impl Folder {
    fn path(&self) -> &Path {
        match self {
            Self::Temporary(folder) => folder.path(),
            Self::Given(path) => path,
        }
    }
}
