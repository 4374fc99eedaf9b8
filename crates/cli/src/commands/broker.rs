//! `atonce broker`: serves until it is told to end.

use std::error::Error;
use std::io::ErrorKind;
use std::path::PathBuf;

use atonce_broker::{Broker, BrokerBuilder, Durability, StartError};
use clap::{Args, ValueEnum};
use tokio::signal::unix::{SignalKind, signal};

use super::{address, data_folder, host_and_port};
use crate::failure::{Failure, OrFailure};
use crate::output::say;

/// Runs a durable, Kafka-compatible broker on one node.
///
/// It prints one line, which ends with its address, once it serves, and ends cleanly at SIGTERM or Ctrl-C: a second start goes on from
/// the same data. Killed at any moment, it recovers when it starts.
#[derive(Debug, Args)]
#[command(
    subcommand_negates_reqs = true,
    args_conflicts_with_subcommands = true,
    after_help = "\
Examples:
  atonce broker --data-dir ./data
  atonce broker --data-dir ./data --listen 127.0.0.1:0            any free port; the line says which
  atonce broker --data-dir ./data --durability os -s num.partitions=4
  atonce broker --config server.properties -s log.dirs=/var/lib/atonce
  atonce broker --data-dir ./data --health 127.0.0.1:8080 --metrics 127.0.0.1:8080
  atonce broker check --data-dir ./data                           what is there, what is damaged; nothing is written

A configuration file has Kafka's keys (listeners, log.dirs, num.partitions …). --health answers /live and /ready, --metrics answers
/metrics for Prometheus; both are off unless asked for. RUST_LOG chooses what is logged."
)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    data_folder: Option<data_folder::Verb>,
    /// The folder that holds everything: journal, logs, offsets, transactions. Made if it is not there.
    ///
    /// Else `log.dirs` of the configuration says it.
    #[arg(long, value_name = "DIR", required_unless_present_any = ["config", "properties"])]
    data_dir: Option<PathBuf>,
    /// A file of settings in Kafka's form, KEY=VALUE a line. Options, and -s, are stronger.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Where to listen. Other addresses than loopback need --allow-unauthenticated. Port 0 takes a free one.
    ///
    /// Else `listeners` of the configuration says it, else it is 127.0.0.1:9092.
    #[arg(long, value_name = "HOST:PORT", value_parser = address)]
    listen: Option<String>,
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
    /// Answers probes over HTTP there: /live, and /ready once clients may come.
    #[arg(long, value_name = "HOST:PORT", value_parser = address)]
    health: Option<String>,
    /// Shows numbers for Prometheus there, at /metrics. May be the address of --health.
    #[arg(long, value_name = "HOST:PORT", value_parser = address)]
    metrics: Option<String>,
    /// The form of what is logged, to standard error.
    #[arg(long, value_enum, default_value_t = LogFormat::Text)]
    log_format: LogFormat,
}

/// The form of what is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// Lines for people.
    Text,
    /// A line of JSON for each event.
    Json,
}

impl Arguments {
    /// The form of what is logged.
    pub(crate) fn log_format(&self) -> LogFormat {
        self.log_format
    }
}

/// Where a broker listens that was told nothing, as Kafka's.
const LISTEN_DEFAULT: &str = "127.0.0.1:9092";

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

/// A broker as the arguments, and the file they name, describe it.
fn builder(arguments: &Arguments) -> Result<BrokerBuilder, Failure> {
    let mut builder = Broker::builder().durability(arguments.durability.into());
    if let Some(path) = &arguments.config {
        let cannot = || format!("cannot use the configuration {}", path.display());
        let text = std::fs::read_to_string(path).or_failure(cannot, "name a file that can be read with --config")?;
        builder = builder.configuration(&text).or_failure(cannot, "each line is KEY=VALUE, or a comment with #")?;
    }
    for (key, value) in &arguments.properties {
        builder = builder.property(key, value);
    }
    if let Some(path) = &arguments.data_dir {
        builder = builder.data_path(path);
    } else if !(builder.is_set("log.dirs") || builder.is_set("log.dir")) {
        let failed = "cannot start the broker: nothing says where its data are";
        return Err(Failure::new(failed, "name a folder with --data-dir, or with log.dirs").with_status(2));
    }
    if let Some(address) = &arguments.listen {
        builder = builder.listen(address);
    } else if !builder.is_set("listeners") {
        builder = builder.listen(LISTEN_DEFAULT);
    }
    if let Some((host, port)) = &arguments.advertise {
        builder = builder.advertise(host, *port);
    }
    if arguments.allow_unauthenticated {
        builder = builder.allow_unauthenticated();
    }
    if let Some(address) = &arguments.health {
        builder = builder.health(address);
    }
    if let Some(address) = &arguments.metrics {
        builder = builder.metrics(address);
    }
    Ok(builder)
}

/// Serves until SIGTERM or SIGINT, or until its disk fails.
pub(crate) async fn run(arguments: Arguments) -> Result<(), Failure> {
    if let Some(verb) = &arguments.data_folder {
        return data_folder::run(verb);
    }
    // Before the line is printed: whoever reads it may send a signal at once.
    let no_signals = "this system refuses signal handlers; run it where they are allowed";
    let mut terminate =
        signal(SignalKind::terminate()).or_failure(|| "cannot listen for SIGTERM".into(), no_signals)?;
    let mut interrupt = signal(SignalKind::interrupt()).or_failure(|| "cannot listen for SIGINT".into(), no_signals)?;

    let broker = builder(&arguments)?.start().await.map_err(|error| {
        let (next, status) = what_next(&error);
        Failure::caused("cannot start the broker", error, next).with_status(status)
    })?;
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

/// What to do about a broker that does not start, and the exit status: 2 where the command line alone is wrong.
fn what_next(error: &StartError) -> (&'static str, u8) {
    match error {
        StartError::FolderInUse(_) => ("name another folder with --data-dir, or stop that broker", 1),
        StartError::Folder { .. } => ("name a folder that can be made and written with --data-dir", 1),
        StartError::Listen { source, .. } if source.kind() == ErrorKind::AddrInUse => {
            ("another process has the port: name another one with --listen; port 0 takes a free one", 1)
        }
        StartError::Listen { .. } => ("name an address of this machine with --listen, and a port that you may use", 1),
        StartError::Unauthenticated(_) => (
            "listen on 127.0.0.1, or say --allow-unauthenticated if all who can reach the address may do everything",
            2,
        ),
        StartError::Configuration(_) => {
            ("-s takes broker properties by their names in Kafka, as in -s num.partitions=4", 2)
        }
        StartError::Recovery { .. } => {
            ("keep the folder as it is, and see what is in it: atonce broker check --data-dir …", 1)
        }
        StartError::Thread(_) => ("see the limits of this system (ulimit -u)", 1),
        _ => ("see the cause above", 1),
    }
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
        assert!(host_and_port(":9092").is_err());
        assert!(host_and_port("localhost:99999").is_err());
    }
}
