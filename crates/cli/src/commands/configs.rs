//! `atonce configs`: showing and changing settings of topics, brokers and groups.

use atonce_client::admin::{AlterConfig, ConfigEntry, ConfigResource, ConfigSource};
use clap::{Args, Subcommand, ValueEnum};
use serde_json::json;

use super::{Cluster, REACH, each, group_id, key_and_value, topic_name};
use crate::failure::{Failure, OrFailure};
use crate::output::{or_dash, remark, say, table};

/// Shows and changes settings of topics, brokers and groups.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  atonce configs describe topic orders
  atonce configs describe broker 1 --all --json
  atonce configs alter topic orders --set retention.ms=86400000 --delete cleanup.policy
  atonce configs alter group payments --set consumer.session.timeout.ms=45000
  atonce configs describe brokers                                 what all brokers take unless they have their own")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Shows what has been set; with --all also what nobody has.
    Describe {
        #[command(flatten)]
        resource: Resource,
        /// Also what nobody has set.
        #[arg(long)]
        all: bool,
        /// A line of JSON for each setting, with where its value comes from.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        cluster: Cluster,
    },
    /// Changes settings. Those that are not named stay. All changes are made, or none.
    Alter {
        #[command(flatten)]
        resource: Resource,
        #[command(flatten)]
        changes: Changes,
        /// Only says whether they could be changed so.
        #[arg(long)]
        validate_only: bool,
        #[command(flatten)]
        cluster: Cluster,
    },
}

#[derive(Debug, Args)]
struct Resource {
    /// Of what.
    #[arg(value_enum)]
    kind: Kind,
    /// The topic's name, the broker's node id, the group's id; nothing for `brokers`.
    #[arg(required_if_eq_any([("kind", "topic"), ("kind", "broker"), ("kind", "group")]))]
    name: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// A topic.
    Topic,
    /// One broker.
    Broker,
    /// All brokers that have no setting of their own.
    Brokers,
    /// A group.
    Group,
}

/// Changes, in the order of the command line by kind.
#[derive(Clone, Debug, Args)]
#[group(required = true, multiple = true)]
pub(super) struct Changes {
    /// Sets a value. May be given again, like the others.
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = key_and_value)]
    sets: Vec<(String, String)>,
    /// Back to what counts where nothing is set.
    #[arg(long = "delete", value_name = "KEY")]
    deletes: Vec<String>,
    /// Adds to a list.
    #[arg(long = "append", value_name = "KEY=VALUE", value_parser = key_and_value)]
    appends: Vec<(String, String)>,
    /// Takes from a list.
    #[arg(long = "subtract", value_name = "KEY=VALUE", value_parser = key_and_value)]
    subtracts: Vec<(String, String)>,
}

impl Changes {
    fn all(self) -> Vec<AlterConfig> {
        let sets = self.sets.into_iter().map(|(key, value)| AlterConfig::set(key, value));
        let deletes = self.deletes.into_iter().map(AlterConfig::delete);
        let appends = self.appends.into_iter().map(|(key, value)| AlterConfig::append(key, value));
        let subtracts = self.subtracts.into_iter().map(|(key, value)| AlterConfig::subtract(key, value));
        sets.chain(deletes).chain(appends).chain(subtracts).collect()
    }
}

const NEXT: &str = "see the cause above; `atonce configs describe … --all` shows the settings there are";

impl Resource {
    fn read(self) -> Result<ConfigResource, Failure> {
        let wrong = |told: String, next: &str| Failure::new(told, next).with_status(2);
        let name = self.name.unwrap_or_default();
        match self.kind {
            Kind::Topic => {
                let next = "name it as in `atonce configs describe topic orders`";
                topic_name(&name).map(ConfigResource::Topic).map_err(|told| wrong(told, next))
            }
            Kind::Group => {
                let next = "name it as in `atonce configs describe group payments`";
                group_id(&name).map(ConfigResource::Group).map_err(|told| wrong(told, next))
            }
            Kind::Broker => {
                let next = "`atonce cluster describe` shows the brokers' node ids";
                let told = || wrong(format!("{name:?} is no node id"), next);
                name.parse().map(ConfigResource::Broker).map_err(|_| told())
            }
            Kind::Brokers if name.is_empty() => Ok(ConfigResource::AllBrokers),
            Kind::Brokers => Err(wrong(
                format!("`brokers` are all of them, and {name:?} names one"),
                "for one broker, say `broker` and its node id",
            )),
        }
    }
}

/// Runs one of the verbs.
pub(crate) async fn run(arguments: Arguments) -> Result<(), Failure> {
    match arguments.verb {
        Verb::Describe { resource, all, json, cluster } => {
            let resource = resource.read()?;
            let admin = cluster.connect().await?.admin();
            let described = admin.describe_configs(std::slice::from_ref(&resource)).await;
            let described = described.or_failure(|| format!("cannot show settings of {resource}"), REACH)?;
            let entries = each(described, "show settings of", |_| false, NEXT)?.into_values().next();
            let entries = entries.unwrap_or_default().into_iter();
            let shown = entries.filter(|(_, it)| all || !matches!(it.source, ConfigSource::Default)).collect();
            describe(&resource, shown, json)
        }
        Verb::Alter { resource, changes, validate_only, cluster } => {
            let resource = resource.read()?;
            let changes = [(resource.clone(), changes.all())];
            let admin = cluster.connect().await?.admin();
            let altered = match validate_only {
                true => admin.validate_configs(&changes).await,
                false => admin.alter_configs(&changes).await,
            };
            let altered = altered.or_failure(|| format!("cannot change settings of {resource}"), REACH)?;
            each(altered, "change settings of", |_| false, NEXT).map(drop)
        }
    }
}

fn describe(resource: &ConfigResource, entries: Vec<(String, ConfigEntry)>, json: bool) -> Result<(), Failure> {
    if json {
        return entries.into_iter().try_for_each(|(key, it)| {
            let synonyms: Vec<_> = it
                .synonyms
                .iter()
                .map(|it| json!({"key": it.name, "value": it.value, "source": it.source.name()}))
                .collect();
            say(json!({"key": key, "value": it.value, "source": it.source.name(), "read_only": it.is_read_only,
                       "sensitive": it.is_sensitive, "synonyms": synonyms}))
        });
    }
    if entries.is_empty() {
        remark(format_args!("nothing is set for {resource}; --all shows what counts nonetheless"));
        return Ok(());
    }
    let mut table = table(&["key", "value", "source"]);
    for (key, it) in entries {
        let value = if it.is_sensitive { "(secret)".to_owned() } else { or_dash(it.value) };
        table.add_row([key, value, it.source.to_string()]);
    }
    say(&table)
}
