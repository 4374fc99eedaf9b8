//! DeleteTopics (key 20), versions 1 to 6: removes topics, each for itself. Open transactions forget them, and what groups
//! had committed for them goes too, so that a new topic of that name inherits nothing.
//!
//! - 4: flexible. 5: error messages. 6: by id as well as by name.

use atonce_kernel::{TopicId, Uuid};
use atonce_protocol::messages::delete_topics_request::DeleteTopicsRequest;
use atonce_protocol::messages::delete_topics_response::{DeletableTopicResult, DeleteTopicsResponse};
use atonce_protocol::{ApiKey, ErrorCode};

use super::{Api, Call, Reply};
use crate::engine::{Engine, Refusal};
use crate::topic_name;

pub(super) const API: Api =
    Api { key: ApiKey::DeleteTopics, versions: 1..=6, run: |incoming| incoming.on_engine(handle) };

fn handle(engine: &mut Engine, call: &Call, request: DeleteTopicsRequest, reply: Reply<DeleteTopicsResponse>) {
    let mut wanted: Vec<(Option<String>, TopicId)> = if call.version >= 6 {
        request.topics.into_iter().map(|topic| (topic.name, topic.topic_id)).collect()
    } else {
        request.topic_names.into_iter().map(|name| (Some(name), Uuid::ZERO)).collect()
    };
    let named_twice = super::named_twice(wanted.iter().filter(|it| **it != (None, Uuid::ZERO)).cloned());
    super::without_repetition(&mut wanted, Clone::clone);
    let responses = wanted
        .into_iter()
        .map(|(name, id)| {
            let deleted = if named_twice.contains(&(name.clone(), id)) {
                let message = if name.is_some() { "Duplicate topic name." } else { "Duplicate topic id." };
                Err(Refusal::new(ErrorCode::InvalidRequest, message))
            } else {
                delete(engine, name.as_deref(), id)
            };
            let (code, message) = match &deleted {
                Ok(_) => (ErrorCode::None, None),
                Err(refusal) => (refusal.code, Some(refusal.message.clone())),
            };
            let (found_name, found_id) = deleted.unwrap_or((name.clone(), id));
            DeletableTopicResult {
                name: if call.version >= 6 { found_name } else { name },
                topic_id: found_id,
                error_code: code.to_i16(),
                error_message: message,
                ..Default::default()
            }
        })
        .collect();
    engine.answer(reply, DeleteTopicsResponse { responses, ..Default::default() });
}

fn delete(engine: &mut Engine, name: Option<&str>, id: TopicId) -> Result<(Option<String>, TopicId), Refusal> {
    let (name, id) = match (name, id.is_zero()) {
        (Some(name), true) => {
            let unknown = || Refusal::of(ErrorCode::UnknownTopicOrPartition);
            (name.to_owned(), engine.topic(name).ok_or_else(unknown)?.id)
        }
        (None, false) => {
            let unknown = || Refusal::of(ErrorCode::UnknownTopicId);
            (engine.topic_name(id).ok_or_else(unknown)?.as_str().to_owned(), id)
        }
        (None, true) => {
            return Err(Refusal::new(ErrorCode::InvalidRequest, "Neither topic name nor id were specified."));
        }
        (Some(_), false) => {
            return Err(Refusal::new(ErrorCode::InvalidRequest, "You may not specify both topic name and topic id."));
        }
    };
    if topic_name::is_internal(&name) {
        return Err(Refusal::new(ErrorCode::TopicAuthorizationFailed, format!("{name} belongs to the broker.")));
    }
    engine.delete_topic(&name, id)?;
    Ok((Some(name), id))
}
