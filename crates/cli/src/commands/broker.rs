//! `atonce broker`: serves until it is told to end.

use std::error::Error;
use std::path::PathBuf;

use atonce_broker::{Broker, Durability};
use clap::{Args, ValueEnum};
use tokio::signal::unix::{SignalKind, signal};

use crate::failure::{Failure, OrFailure};
use crate::output::say;

/// Runs a durable, Kafka-compatible broker on one node.
///
/// It prints one line, which ends with its address, once it serves, and ends cleanly at SIGTERM or Ctrl-C: a second start goes on from
/// the same data. Killed at any moment, it recovers when it starts.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  atonce broker --data-dir ./data
  atonce broker --data-dir ./data --listen 127.0.0.1:0            any free port; the line says which
  atonce broker --data-dir ./data --durability os -s num.partitions=4")]
pub(crate) struct Arguments {
    /// The folder that holds everything: journal, logs, offsets, transactions. Made if it is not there.
    #[arg(long, value_name = "DIR")]
    data_dir: PathBuf,
    /// Where to listen. Other addresses than loopback need --allow-unauthenticated. Port 0 takes a free one.
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:9092")]
    listen: String,
    /// When a write is acknowledged.
    #[arg(long, value_enum, default_value_t = DurabilityChoice::Sync)]
    durability: DurabilityChoice,
    /// Sets a broker property by its name in Kafka. May be given again.
    #[arg(short = 's', long = "set", value_name = "KEY=VALUE", value_parser = key_and_value)]
    properties: Vec<(String, String)>,
    /// The address that clients are told to connect to, where it is not the one listened on.
    #[arg(long, value_name = "HOST:PORT", value_parser = host_and_port)]
    advertise: Option<(String, u16)>,
    /// Lets everyone in who can reach the address. Needed for any but loopback, since there is no authentication yet.
    #[arg(long)]
    allow_unauthenticated: bool,
}

/// When a write is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DurabilityChoice {
    /// Once it survives power loss. Writes that come together share a sync.
    Sync,
    /// Once the operating system has it: it survives a crash of the broker, not of the machine.
    Os,
}

impl From<DurabilityChoice> for Durability {
    fn from(choice: DurabilityChoice) -> Self {
        match choice {
            DurabilityChoice::Sync => Self::Sync,
            DurabilityChoice::Os => Self::Os,
        }
    }
}

fn key_and_value(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("expected KEY=VALUE, as in num.partitions=4")?;
    Ok((key.trim().to_owned(), value.trim().to_owned()))
}

fn host_and_port(text: &str) -> Result<(String, u16), String> {
    let (host, port) = text.rsplit_once(':').ok_or("expected HOST:PORT, as in kafka.example.org:9092")?;
    let port = port.parse().map_err(|_| format!("{port} is no port; expected a number up to 65535"))?;
    Ok((host.to_owned(), port))
}

/// Serves until SIGTERM or SIGINT, or until its disk fails.
pub(crate) async fn run(arguments: Arguments) -> Result<(), Failure> {
    // Before the line is printed: whoever reads it may send a signal at once.
    let no_signals = "this system refuses signal handlers; run it where they are allowed";
    let mut terminate =
        signal(SignalKind::terminate()).or_failure(|| "cannot listen for SIGTERM".into(), no_signals)?;
    let mut interrupt = signal(SignalKind::interrupt()).or_failure(|| "cannot listen for SIGINT".into(), no_signals)?;

    let mut builder = Broker::builder()
        .data_path(&arguments.data_dir)
        .listen(&arguments.listen)
        .durability(arguments.durability.into());
    if let Some((host, port)) = &arguments.advertise {
        builder = builder.advertise(host, *port);
    }
    if arguments.allow_unauthenticated {
        builder = builder.allow_unauthenticated();
    }
    for (key, value) in &arguments.properties {
        builder = builder.property(key, value);
    }
    let broker = builder.start().await.or_failure(
        || format!("cannot serve {} on {}", arguments.data_dir.display(), arguments.listen),
        "see the cause above: another process may have the folder or the port (--data-dir, --listen), or a property may be wrong (-s)",
    )?;
    match say(format_args!("atonce broker serves on {}", broker.bootstrap_servers())) {
        // Whoever started it does not want to know where; it serves all the same.
        Err(failure) if failure.status() == 0 => {}
        said => said?,
    }

    let told_to_end = async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    };
    served(told_to_end, broker.failure()).await?;
    broker.shutdown().await.or_failure(
        || "the broker did not end cleanly".into(),
        "nothing acknowledged is lost: start it again, and it recovers; see the cause above (a full or failing disk?)",
    )
}

/// Waits until it is told to end, or has failed: then whoever looks after this process must see it end.
async fn served<E>(told_to_end: impl Future<Output = ()>, failure: impl Future<Output = E>) -> Result<(), Failure>
where
    E: Into<Box<dyn Error + Send + Sync>>,
{
    tokio::select! {
        () = told_to_end => Ok(()),
        failed = failure => Err(failed).or_failure(
            || "the broker has stopped by itself".into(),
            "nothing acknowledged is lost: see to the cause above (a full or failing disk?), then start it again, and it recovers",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_broker_whose_disk_fails_ends_with_status_one_and_says_why() {
        let failed = std::future::ready(std::io::Error::other("the disk does not answer"));
        let failure = served(std::future::pending(), failed).await.expect_err("it has failed");
        assert_eq!(failure.status(), 1);
        assert_eq!(failure.source().map(ToString::to_string).as_deref(), Some("the disk does not answer"));

        let told = served(std::future::ready(()), std::future::pending::<std::io::Error>()).await;
        assert!(told.is_ok());
    }

    #[test]
    fn properties_and_addresses_are_read_as_they_are_written() {
        assert_eq!(key_and_value("a.b=c=d"), Ok(("a.b".into(), "c=d".into())));
        assert!(key_and_value("a.b").is_err());
        assert_eq!(host_and_port("localhost:9092"), Ok(("localhost".into(), 9092)));
        assert_eq!(host_and_port("[::1]:9"), Ok(("[::1]".into(), 9)));
        assert!(host_and_port("localhost").is_err());
        assert!(host_and_port("localhost:99999").is_err());
    }
}
