//! What holds for a key now, and why: set for this node while it runs, for all nodes, at the start, or by nobody.

use std::borrow::Cow;

use super::topic_keys::{Synonym, TopicKey};
use super::{BROKER_KEYS, Key, Settings, TOPIC_KEYS, find};
use crate::dynamic::{Configs, Dynamic, Owner};

/// Who set a value. The wire's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i8)]
pub(crate) enum Source {
    Topic = 1,
    DynamicBroker = 2,
    DynamicDefaultBroker = 3,
    StaticBroker = 4,
    Default = 5,
    ClientMetrics = 7,
    Group = 8,
}

/// A value that was set, or would hold if no stronger one were.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Standing {
    pub(crate) name: &'static str,
    pub(crate) value: String,
    pub(crate) source: Source,
}

/// Set for all brokers from the beginning on, as in Kafka's clusters, where it guards elections (KIP-966): so for one broker it cannot be
/// set, and for all of them not be removed.
pub(crate) const MIN_INSYNC_REPLICAS: &str = "min.insync.replicas";

/// What was set in one place, by name.
type Layer<'a> = &'a dyn Fn(&str) -> Option<String>;

/// All that was set for the broker, at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Values<'a> {
    settings: &'a Settings,
    /// Set while it runs, for this node.
    own: &'a Configs,
    /// Set while it runs, for every node.
    all: &'a Configs,
}

impl<'a> Values<'a> {
    pub(crate) fn new(settings: &'a Settings, dynamic: &'a Dynamic) -> Self {
        let own = dynamic.configs(Owner::Broker, &settings.node_id.to_string());
        Self { settings, own, all: dynamic.configs(Owner::Broker, "") }
    }

    /// What holds for one of the broker's keys. `None`: nobody set it, and it has no default.
    pub(crate) fn value(&self, key: &'static Key) -> Option<&'a str> {
        self.set(key.name).or(key.default)
    }

    fn set(&self, name: &str) -> Option<&'a str> {
        let dynamic = self.own.get(name).or_else(|| self.all.get(name)).map(String::as_str);
        dynamic.or_else(|| self.settings.properties.given(name))
    }

    /// What was set for every node while it runs.
    pub(crate) fn for_all(&self) -> Configs {
        let mut all = self.all.clone();
        let least = self.settings.properties.given(MIN_INSYNC_REPLICAS).unwrap_or("1");
        all.entry(MIN_INSYNC_REPLICAS.to_owned()).or_insert_with(|| least.to_owned());
        all
    }

    /// All that was set for a broker's key or one that means the same, the strongest first, as Kafka lists it: from the first
    /// that has the name asked for.
    pub(crate) fn synonyms(&self, name: &'static str) -> Vec<Standing> {
        let names: Vec<&'static str> = TOPIC_KEYS
            .iter()
            .map(|topic| topic.synonyms)
            .find(|synonyms| synonyms.iter().any(|(synonym, _)| *synonym == name))
            .map_or_else(|| vec![name], |synonyms| synonyms.iter().map(|(name, _)| *name).collect());
        let given = |name: &str| self.settings.properties.given(name).map(str::to_owned);
        let default = |name: &str| find(BROKER_KEYS, name).ok().and_then(|key| key.default).map(str::to_owned);
        let all = self.for_all();
        let layers: [(Source, Layer<'_>); 4] = [
            (Source::DynamicBroker, &|name| self.own.get(name).cloned()),
            (Source::DynamicDefaultBroker, &|name| all.get(name).cloned()),
            (Source::StaticBroker, &given),
            (Source::Default, &default),
        ];
        let mut found = Vec::new();
        for (source, layer) in layers {
            for name in &names {
                found.extend(layer(name).map(|value| Standing { name, value, source }));
            }
        }
        found.into_iter().skip_while(|standing| standing.name != name).collect()
    }

    /// What holds for a topic's key where the topic says nothing itself, in the topic's unit.
    pub(crate) fn topic_default(&self, topic: &'static TopicKey) -> Cow<'a, str> {
        let found = topic.synonyms.iter().find_map(|(name, unit)| {
            let key = find(BROKER_KEYS, name).ok()?;
            Some((self.value(key)?, *unit))
        });
        match found {
            Some((value, unit)) => in_unit(value, unit),
            None => Cow::Borrowed(topic.key.default.unwrap_or_default()),
        }
    }

    /// What holds for a topic for which `given` was set.
    pub(crate) fn topic_value<'b>(&self, given: &'b Configs, topic: &'static TopicKey) -> Cow<'b, str>
    where
        'a: 'b,
    {
        match given.get(topic.key.name) {
            Some(value) => Cow::Borrowed(value.trim()),
            None => self.topic_default(topic),
        }
    }

    /// All that was set for a topic's key, the strongest first.
    pub(crate) fn topic_synonyms(&self, given: &Configs, topic: &'static TopicKey) -> Vec<Standing> {
        let own = given.get(topic.key.name).map(|value| Standing {
            name: topic.key.name,
            value: value.clone(),
            source: Source::Topic,
        });
        let first: Option<&Synonym> = topic.synonyms.first();
        own.into_iter().chain(first.into_iter().flat_map(|(name, _)| self.synonyms(name))).collect()
    }
}

/// A number of the broker's in the topic's unit. Below zero it means "no limit", in every unit.
fn in_unit(value: &str, unit: i64) -> Cow<'_, str> {
    if unit == 1 {
        return Cow::Borrowed(value);
    }
    match value.parse::<i64>() {
        Ok(number) if number < 0 => Cow::Borrowed("-1"),
        Ok(number) => Cow::Owned(number.saturating_mul(unit).to_string()),
        Err(_) => Cow::Borrowed(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::configuration::{Properties, find_topic_key};

    #[test]
    fn the_nearest_to_the_topic_wins_and_units_are_the_topics() {
        let mut properties = Properties::default();
        let retention = find_topic_key("retention.ms").expect("a key");
        let mut given = Configs::new();
        let mut dynamic = Dynamic::default();
        let holds = |properties: &Properties, dynamic: &Dynamic, given: &Configs| {
            Values::new(&properties.settings(), dynamic).topic_value(given, retention).into_owned()
        };
        assert_eq!(holds(&properties, &dynamic, &given), "604800000");
        properties.set("log.retention.hours", "2").expect("fits");
        assert_eq!(holds(&properties, &dynamic, &given), "7200000");
        properties.set("log.retention.minutes", "-1").expect("fits");
        assert_eq!(holds(&properties, &dynamic, &given), "-1");
        dynamic.set_configs(Owner::Broker, "", [("log.retention.ms".to_owned(), "5".to_owned())].into());
        assert_eq!(holds(&properties, &dynamic, &given), "5");
        dynamic.set_configs(Owner::Broker, "1", [("log.retention.ms".to_owned(), "6".to_owned())].into());
        assert_eq!(holds(&properties, &dynamic, &given), "6");
        given.insert("retention.ms".to_owned(), "7".to_owned());
        assert_eq!(holds(&properties, &dynamic, &given), "7");
    }

    #[test]
    fn synonyms_are_listed_as_kafka_lists_them() {
        let settings = Properties::default().settings();
        let mut dynamic = Dynamic::default();
        let retention = find_topic_key("retention.ms").expect("a key");
        let list = |dynamic: &Dynamic, given: &Configs| -> Vec<(&'static str, String, Source)> {
            let found = Values::new(&settings, dynamic).topic_synonyms(given, retention);
            found.into_iter().map(|it| (it.name, it.value, it.source)).collect()
        };
        // Kafka lists nothing here, although hours have a default.
        assert_eq!(list(&dynamic, &Configs::new()), []);
        dynamic.set_configs(Owner::Broker, "", [("log.retention.ms".to_owned(), "5".to_owned())].into());
        let given = Configs::from([("retention.ms".to_owned(), "7".to_owned())]);
        assert_eq!(
            list(&dynamic, &given),
            [
                ("retention.ms", "7".to_owned(), Source::Topic),
                ("log.retention.ms", "5".to_owned(), Source::DynamicDefaultBroker),
                ("log.retention.hours", "168".to_owned(), Source::Default),
            ]
        );
    }
}
