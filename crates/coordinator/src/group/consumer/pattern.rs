//! Subscriptions by pattern: which topics it matches is found out by the coordinator, in a tick of its own, and again when there are new
//! topics.
//!
//! A pattern matches a whole name. Its syntax is that of RE2, as in Kafka, as far as the `regex` crate has it: no look-around and no
//! back-references, so that no pattern can take more than linear time.

use std::collections::BTreeSet;
use std::sync::Arc;

use atonce_kernel::{Timestamp, TopicName};
use atonce_protocol::ErrorCode;
use regex::{Regex, RegexBuilder};

use super::super::Note;
use super::super::classic::AT_ONCE;
use super::Consumer;
use super::draft::{Draft, Refused};
use super::record::{Fact, Resolved};
use super::topics::TopicsImage;

/// Bytes that a compiled pattern may take: a few characters (`(a{1000}){1000}`) can ask for any number.
const COMPILED_BYTES_MAX: usize = 1 << 20;

/// How long to wait before patterns are held against all topics again because there are new ones (Kafka's number): somebody may be making
/// many.
const REFRESH_INTERVAL_MS: i64 = 10_000;

/// Refuses: `InvalidRegularExpression`.
pub(super) fn check(pattern: &str) -> Result<(), Refused> {
    // Alone first: what the whole is wrapped in must not complete it.
    compile(pattern).map(|_| ()).map_err(|error| {
        let message = format!("SubscribedTopicRegex `{pattern}` is not a valid regular expression: {error}.");
        Refused::new(ErrorCode::InvalidRegularExpression, message)
    })
}

fn compile(pattern: &str) -> Result<Regex, regex::Error> {
    let build = |pattern: &str| RegexBuilder::new(pattern).size_limit(COMPILED_BYTES_MAX).build();
    build(pattern)?;
    // A comment at the end would swallow the parenthesis, and a line's end would count where there is no comment.
    build(&format!("\\A(?:{pattern})\\z")).or_else(|_| build(&format!("\\A(?:{pattern}\n)\\z")))
}

/// The topics that a pattern matches. One that cannot be read, of a log that others wrote, matches nothing.
fn matches(pattern: &str, topics: &TopicsImage) -> BTreeSet<TopicName> {
    let Ok(compiled) = compile(pattern) else { return BTreeSet::new() };
    topics.names().filter(|name| compiled.is_match(name.as_str())).cloned().collect()
}

impl Consumer {
    /// When patterns have to be held against the topics.
    pub(super) fn pattern_deadline(&self, topics: &TopicsImage) -> Option<Timestamp> {
        let wanted = self.patterns_wanted();
        if wanted.is_empty() {
            return None;
        }
        if wanted.iter().any(|pattern| !self.patterns.contains_key(*pattern)) {
            return Some(AT_ONCE);
        }
        let last = self.patterns.values().map(|resolved| resolved.timestamp).max().unwrap_or(AT_ONCE);
        (self.soft.resolved != Some(topics.version())).then(|| last.plus_ms(REFRESH_INTERVAL_MS))
    }
}

impl Draft<'_> {
    /// Holds the patterns against the topics, if it is time. The epoch is raised if one matches others than before.
    pub(super) fn resolve_patterns_if_due(&mut self) {
        if self.group.pattern_deadline(self.topics).is_none_or(|deadline| deadline > self.now) {
            return;
        }
        let wanted: Vec<Arc<str>> = self.group.patterns_wanted().into_iter().cloned().collect();
        let mut is_changed = false;
        for pattern in wanted {
            let topics = matches(&pattern, self.topics);
            let before = self.group.patterns.get(&pattern);
            let has_others = before.map_or(!topics.is_empty(), |before| before.topics != topics);
            is_changed |= has_others;
            if before.is_none() || has_others {
                let resolved = Resolved { topics, version: self.topics.version(), timestamp: self.now };
                self.push(Fact::Pattern(pattern, Some(resolved)));
            }
        }
        self.notes.push(Note::PatternsResolved { group: self.id.clone(), version: self.topics.version() });
        if is_changed || self.group.metadata_hash_now(self.topics) != self.group.metadata_hash {
            self.raise_epoch();
        }
    }
}

#[cfg(test)]
mod tests {
    use atonce_kernel::Uuid;

    use super::super::topics::TopicShape;
    use super::*;

    #[test]
    fn a_pattern_matches_whole_names_only() {
        let shape = TopicShape { id: Uuid::ZERO, partitions: 1 };
        let names = ["in", "out", "inner", "in.1", "IN", "__consumer_offsets"];
        let image = TopicsImage::new(1, names.map(|name| (TopicName::from(name), shape)));
        let matched = |pattern: &str| {
            let all: Vec<_> = matches(pattern, &image).iter().map(ToString::to_string).collect();
            all.join(" ")
        };
        assert_eq!(matched("in|out"), "in out");
        assert_eq!(matched("in.*"), "in in.1 inner");
        assert_eq!(matched("(?i)in"), "IN in");
        assert_eq!(matched("(?x) i n # comment"), "in");
        assert_eq!(matched(".*"), "IN __consumer_offsets in in.1 inner out");
        assert_eq!(matched("a)|(.*"), "", "what is no pattern matches nothing");
    }

    #[test]
    fn what_is_no_pattern_or_grows_too_large_is_refused() {
        for bad in ["[", "(", "a)(b", "a)|(b", "*", "(?=a)", r"(a)\1", "((a{1000}){1000}){1000}"] {
            let error = check(bad).expect_err(bad);
            assert_eq!(error.error, ErrorCode::InvalidRegularExpression, "{bad}");
            assert!(error.message.contains(bad), "{}", error.message);
        }
        assert_eq!(check("a.*|b"), Ok(()));
    }
}
