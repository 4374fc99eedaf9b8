//! Topics, as the writer makes, alters and deletes them.

use std::collections::BTreeMap;
use std::sync::Arc;

use atonce_kernel::{TopicId, TopicName, TopicPartition};
use atonce_log::{CatalogError, StageError};
use atonce_protocol::ErrorCode;

use super::Engine;
use crate::configuration::{self, TopicSettings, Values};
use crate::directory::{Partition, Topic, Topics};
use crate::topic_name::{self, CONSUMER_OFFSETS, TRANSACTION_STATE};

/// Partitions that a topic may have: all of them are answered in one go, and each is a folder.
const PARTITIONS_MAX: i32 = 10_000;

/// A topic to be made.
#[derive(Clone, Debug)]
pub(crate) struct NewTopic {
    pub(crate) name: String,
    pub(crate) partitions: i32,
    pub(crate) configs: BTreeMap<String, String>,
}

/// A topic, as of everything staged.
#[derive(Clone, Debug)]
pub(crate) struct TopicState {
    pub(crate) id: TopicId,
    pub(crate) partitions: i32,
    pub(crate) configs: BTreeMap<String, String>,
}

/// A request that is refused: the code for the client's program, and words for its people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) code: ErrorCode,
    pub(crate) message: String,
}

impl Refusal {
    pub(crate) fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    /// With the words that go with the code.
    pub(crate) fn of(code: ErrorCode) -> Self {
        Self::new(code, format!("{}.", code.message()))
    }
}

impl From<CatalogError> for Refusal {
    fn from(error: CatalogError) -> Self {
        let code = match &error {
            CatalogError::TopicExists(_) | CatalogError::TopicIdExists(_) => ErrorCode::TopicAlreadyExists,
            CatalogError::UnknownTopic(_) => ErrorCode::UnknownTopicOrPartition,
            CatalogError::InvalidName(_) => ErrorCode::InvalidTopicException,
            CatalogError::InvalidPartitions { .. } => ErrorCode::InvalidPartitions,
            CatalogError::Storage(_) => ErrorCode::KafkaStorageError,
        };
        Self::new(code, error.to_string())
    }
}

impl Engine {
    /// The topic of that name.
    pub(crate) fn topic(&self, name: &str) -> Option<TopicState> {
        self.storage.catalog().topic(name).map(|topic| TopicState {
            id: topic.id,
            partitions: topic.partitions,
            configs: topic.configs.clone(),
        })
    }

    /// The name of the topic of that id.
    pub(crate) fn topic_name(&self, id: TopicId) -> Option<TopicName> {
        self.storage.catalog().topic_by_id(id).map(|topic| topic.name.clone())
    }

    /// The id of the topic of that name.
    pub(crate) fn topic_id(&self, name: &str) -> Option<TopicId> {
        self.storage.catalog().topic(name).map(|topic| topic.id)
    }

    /// Whether there is such a partition.
    pub(crate) fn has_partition(&self, topic: &str, partition: i32) -> bool {
        self.storage.catalog().topic(topic).is_some_and(|topic| (0..topic.partitions).contains(&partition))
    }

    /// Whether the topic could be made.
    pub(crate) fn check_new_topic(&self, new: &NewTopic) -> Result<(), Refusal> {
        self.check_new_name(&new.name)?;
        check_configs(&new.configs)?;
        check_partitions(new.partitions)
    }

    /// Whether a topic of that name could be made.
    pub(crate) fn check_new_name(&self, name: &str) -> Result<(), Refusal> {
        topic_name::check(name).map_err(|message| Refusal::new(ErrorCode::InvalidTopicException, message))?;
        self.check_name_is_free(name)?;
        if topic_name::is_internal(name) || name == topic_name::CLUSTER_METADATA {
            let message = format!("{name} belongs to the broker, which makes it when it is needed.");
            return Err(Refusal::new(ErrorCode::InvalidRequest, message));
        }
        Ok(())
    }

    fn check_name_is_free(&self, name: &str) -> Result<(), Refusal> {
        if self.storage.catalog().topic(name).is_some() {
            let message = format!("Topic '{name}' already exists.");
            return Err(Refusal::new(ErrorCode::TopicAlreadyExists, message));
        }
        // Metrics write dots as underscores, so two such names would be one (Kafka refuses them too).
        if !name.contains(['.', '_']) {
            return Ok(());
        }
        let metric_name = |name: &str| name.replace('.', "_");
        match self.storage.catalog().topics().find(|topic| metric_name(topic.name.as_str()) == metric_name(name)) {
            Some(other) => {
                let message = format!("Topic '{name}' collides with existing topic: {}", other.name);
                Err(Refusal::new(ErrorCode::InvalidTopicException, message))
            }
            None => Ok(()),
        }
    }

    /// Makes a topic.
    pub(crate) fn create_topic(&mut self, new: NewTopic) -> Result<TopicId, Refusal> {
        self.check_new_topic(&new)?;
        self.make_topic(&new.name, new.partitions, new.configs)
    }

    /// Makes a topic that somebody asked for, with the default number of partitions. It may be there by now.
    pub(crate) fn create_topic_by_itself(&mut self, name: &str) -> Result<(), ErrorCode> {
        if self.storage.catalog().topic(name).is_some() {
            return Ok(());
        }
        if topic_name::is_internal(name) {
            return self.make_internal_topic(name);
        }
        let new =
            NewTopic { name: name.to_owned(), partitions: self.settings.partitions_default, configs: BTreeMap::new() };
        self.create_topic(new).map(|_| ()).map_err(|refusal| refusal.code)
    }

    /// Makes an internal topic if it is not there.
    pub(super) fn make_internal_topic(&mut self, name: &str) -> Result<(), ErrorCode> {
        if self.storage.catalog().topic(name).is_some() {
            return Ok(());
        }
        let settings = &self.settings;
        let (partitions, segment_bytes) = match name {
            CONSUMER_OFFSETS => (settings.offsets_partitions, settings.offsets_segment_bytes),
            TRANSACTION_STATE => (settings.transaction_state_partitions, settings.transaction_state_segment_bytes),
            _ => return Err(ErrorCode::InvalidTopicException),
        };
        let segment_bytes = segment_bytes.to_string();
        let configs =
            [("cleanup.policy", "compact"), ("segment.bytes", &segment_bytes), ("compression.type", "producer")];
        let configs = configs.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        self.make_topic(name, partitions, configs).map(|_| ()).map_err(|refusal| {
            tracing::error!(name, refusal.message, "an internal topic cannot be made");
            ErrorCode::CoordinatorNotAvailable
        })
    }

    /// Makes `__consumer_offsets` if it is not there.
    pub(crate) fn make_offsets_topic(&mut self) -> Result<(), ErrorCode> {
        self.make_internal_topic(CONSUMER_OFFSETS)
    }

    fn make_topic(
        &mut self,
        name: &str,
        partitions: i32,
        configs: BTreeMap<String, String>,
    ) -> Result<TopicId, Refusal> {
        let id = self.uuid();
        let name = TopicName::from(name);
        match self.storage.create_topic(&name, id, partitions, configs.clone()) {
            Err(CatalogError::Storage(StageError::GroupFull { .. })) => {
                self.commit();
                self.storage.create_topic(&name, id, partitions, configs)?;
            }
            made => {
                made?;
            }
        }
        self.topic_has_changed(name);
        Ok(id)
    }

    /// The topic is to be shown anew, to those who read and to groups.
    fn topic_has_changed(&mut self, name: TopicName) {
        self.changed_topics.insert(name);
        self.groups.topics_have_changed();
    }

    /// Deletes a topic. Open transactions and groups forget it.
    pub(crate) fn delete_topic(&mut self, name: &str, id: TopicId) -> Result<(), Refusal> {
        let name = TopicName::from(name);
        let partitions = self.storage.catalog().topic_by_id(id).map_or(0, |topic| topic.partitions);
        self.storage.delete_topic(id)?;
        self.topic_has_changed(name.clone());
        self.forget_topic_in_transactions(&name);
        let partitions = (0..partitions).map(|partition| TopicPartition::new(name.clone(), partition)).collect();
        self.forget_partitions_in_groups(partitions);
        Ok(())
    }

    /// Gives a topic more partitions, `count` in all.
    pub(crate) fn add_partitions(&mut self, name: &str, count: i32, validate_only: bool) -> Result<(), Refusal> {
        let id = self.topic_id(name).ok_or_else(|| Refusal::of(ErrorCode::UnknownTopicOrPartition))?;
        if count > PARTITIONS_MAX {
            let message = "Excessively large number of additional partitions per request.";
            return Err(Refusal::new(ErrorCode::PolicyViolation, message));
        }
        if !validate_only {
            self.storage.add_partitions(id, count)?;
            self.topic_has_changed(TopicName::from(name));
        }
        Ok(())
    }

    /// Sets a topic's settings to `configs` and no others.
    pub(crate) fn set_topic_configs(
        &mut self,
        name: &str,
        configs: BTreeMap<String, String>,
        validate_only: bool,
    ) -> Result<(), Refusal> {
        let topic = self.topic(name).ok_or_else(|| Refusal::of(ErrorCode::UnknownTopicOrPartition))?;
        check_configs(&configs)?;
        if validate_only {
            return Ok(());
        }
        for key in topic.configs.keys().filter(|key| !configs.contains_key(*key)) {
            self.storage.alter_config(topic.id, key, None)?;
        }
        for (key, value) in &configs {
            if topic.configs.get(key) != Some(value) {
                self.storage.alter_config(topic.id, key, Some(value))?;
            }
        }
        self.topic_has_changed(TopicName::from(name));
        Ok(())
    }

    /// Puts the topic into `topics` as it stands now. Partitions that were there keep the bells left at them.
    pub(super) fn show_topic(&self, topics: &mut Topics, name: &TopicName) {
        let before = topics.by_name(name.as_str()).cloned();
        let Some(topic) = self.storage.catalog().topic(name.as_str()) else {
            topics.remove(name.as_str());
            return;
        };
        let before = match before {
            Some(before) if before.id == topic.id => before.partitions.clone(),
            Some(_) => {
                topics.remove(name.as_str());
                Vec::new()
            }
            None => Vec::new(),
        };
        let known = before.len();
        let partitions = before
            .into_iter()
            .chain((0..topic.partitions).skip(known).filter_map(|index| {
                let partition = TopicPartition::new(name.clone(), index);
                let reader = self.storage.reader(&partition)?;
                Some(Arc::new(Partition::new(partition, reader)))
            }))
            .collect();
        topics.insert(Arc::new(Topic {
            name: name.clone(),
            id: topic.id,
            is_internal: topic_name::is_internal(name.as_str()),
            configs: topic.configs.clone(),
            settings: TopicSettings::new(Values::new(&self.settings, &self.dynamic()), &topic.configs),
            partitions,
        }));
    }

    /// Shows every topic there is.
    pub(super) fn show_all_topics(&mut self) {
        self.change_all_topics();
        self.show_changed_topics();
    }

    /// Has every topic shown anew with the next commit.
    pub(super) fn change_all_topics(&mut self) {
        let names: Vec<TopicName> = self.storage.catalog().topics().map(|topic| topic.name.clone()).collect();
        names.into_iter().for_each(|name| self.topic_has_changed(name));
    }
}

fn check_partitions(partitions: i32) -> Result<(), Refusal> {
    if partitions < 1 {
        return Err(Refusal::new(
            ErrorCode::InvalidPartitions,
            "Number of partitions was set to an invalid non-positive value.",
        ));
    }
    if partitions > PARTITIONS_MAX {
        let message = format!("A topic may have at most {PARTITIONS_MAX} partitions.");
        return Err(Refusal::new(ErrorCode::PolicyViolation, message));
    }
    Ok(())
}

/// Whether a topic may have these settings, in Kafka's words if not.
fn check_configs(configs: &BTreeMap<String, String>) -> Result<(), Refusal> {
    let invalid = |message: String| Err(Refusal::new(ErrorCode::InvalidConfig, message));
    for (name, value) in configs {
        let Some(topic) = configuration::find_topic_key(name) else {
            return invalid(format!("Unknown topic config name: {name}"));
        };
        if let Err(error) = topic.key.check(value) {
            return invalid(error.to_string());
        }
    }
    let number = |name| configs.get(name).and_then(|value| value.trim().parse::<i64>().ok());
    if let (Some(least), Some(most)) = (number("min.compaction.lag.ms"), number("max.compaction.lag.ms"))
        && least > most
    {
        return invalid(format!(
            "conflict topic config setting min.compaction.lag.ms ({least}) > max.compaction.lag.ms ({most})"
        ));
    }
    if configs.get("remote.storage.enable").is_some_and(|value| value.trim().eq_ignore_ascii_case("true")) {
        return invalid(
            "Tiered Storage functionality is disabled in the broker. Topic cannot be configured with remote log storage."
                .to_owned(),
        );
    }
    Ok(())
}

impl atonce_coordinator::group::wire::Topics for Engine {
    fn name_of(&self, id: TopicId) -> Option<TopicName> {
        self.topic_name(id)
    }

    fn id_of(&self, name: &str) -> Option<TopicId> {
        self.topic_id(name)
    }

    fn has_partition(&self, name: &str, partition: i32) -> bool {
        Self::has_partition(self, name, partition)
    }
}
