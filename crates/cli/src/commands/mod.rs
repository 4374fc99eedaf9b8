//! The commands, one file each, and the one address flag that they share.

pub(crate) mod broker;
pub(crate) mod consume;
pub(crate) mod produce;
pub(crate) mod topics;

use atonce_client::Client;
use clap::Args;

use crate::failure::{Failure, OrFailure};

/// Where the cluster is.
#[derive(Clone, Debug, Args)]
pub(crate) struct Cluster {
    /// A broker of the cluster, or several with commas between.
    #[arg(long, value_name = "HOST:PORT", env = "ATONCE_BOOTSTRAP_SERVERS", default_value = "127.0.0.1:9092")]
    bootstrap_servers: String,
}

impl Cluster {
    /// Connects.
    pub(crate) async fn connect(&self) -> Result<Client, Failure> {
        connect(&self.bootstrap_servers).await
    }
}

/// Connects to the cluster at `bootstrap_servers`.
pub(crate) async fn connect(bootstrap_servers: &str) -> Result<Client, Failure> {
    Client::builder(bootstrap_servers).client_id("atonce").connect().await.or_failure(
        || format!("cannot reach a broker at {bootstrap_servers}"),
        "start one with `atonce broker --data-dir ./data`, or name another with --bootstrap-servers HOST:PORT",
    )
}
