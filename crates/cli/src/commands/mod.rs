//! The commands, one file each, and the one address flag that they share.

pub(crate) mod broker;
pub(crate) mod consume;
pub(crate) mod produce;
pub(crate) mod topics;

use atonce_client::{Client, TopicName};
use clap::Args;

use crate::failure::{Failure, OrFailure};

/// Where the cluster is.
#[derive(Clone, Debug, Args)]
pub(crate) struct Cluster {
    /// A broker of the cluster, or several with commas between.
    #[arg(long, value_name = "HOST:PORT", env = "ATONCE_BOOTSTRAP_SERVERS", default_value = "127.0.0.1:9092", value_parser = addresses)]
    bootstrap_servers: String,
}

impl Cluster {
    /// Connects.
    pub(crate) async fn connect(&self) -> Result<Client, Failure> {
        connect(&self.bootstrap_servers).await
    }
}

/// A partition that was asked for and is not there.
fn no_partition(topic: &TopicName, wanted: i32, count: usize) -> Failure {
    Failure::new(
        format!("{topic} has no partition {wanted}"),
        format!("it has {count}; the first is 0 (`atonce topics describe {topic}`)"),
    )
}

/// `HOST:PORT`, also with an IPv6 address in brackets.
pub(crate) fn host_and_port(text: &str) -> Result<(String, u16), String> {
    let (host, port) = text.rsplit_once(':').ok_or("expected HOST:PORT, as in kafka.example.org:9092")?;
    if host.is_empty() {
        return Err("expected a host before the colon, as in 127.0.0.1:9092".to_owned());
    }
    let port = port.parse().map_err(|_| format!("{port} is no port; expected a number up to 65535"))?;
    Ok((host.to_owned(), port))
}

/// One `HOST:PORT`, as it was written.
fn address(text: &str) -> Result<String, String> {
    host_and_port(text).map(|_| text.to_owned())
}

/// One or more of `HOST:PORT` with commas between, as they were written.
pub(crate) fn addresses(text: &str) -> Result<String, String> {
    let mut entries = text.split(',').map(str::trim).filter(|entry| !entry.is_empty()).peekable();
    if entries.peek().is_none() {
        return Err("expected HOST:PORT, as in kafka.example.org:9092".to_owned());
    }
    entries.try_for_each(|entry| host_and_port(entry).map(|_| ()))?;
    Ok(text.to_owned())
}

/// Connects to the cluster at `bootstrap_servers`.
pub(crate) async fn connect(bootstrap_servers: &str) -> Result<Client, Failure> {
    Client::builder(bootstrap_servers).client_id("atonce").connect().await.or_failure(
        || format!("cannot reach a broker at {bootstrap_servers}"),
        "start one with `atonce broker --data-dir ./data`, or name another with --bootstrap-servers HOST:PORT",
    )
}
