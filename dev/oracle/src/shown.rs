//! Answers as text in which what may differ is out of the way: the rules of `may_differ.txt`, names for ids, sorted lists.
//!
//! Fields that hold what their schema calls the default are left out; error codes and producer ids never.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};
use atonce_protocol::ErrorCode;
use xtask::schema::{Message, Struct, Type, snake_case};

use crate::codec::is_default;
use crate::records;
use crate::value::Value;

const RULES: &str = include_str!("../may_differ.txt");

/// How a field is shown that may differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// Not at all.
    NotShown,
    /// Whether it is there.
    Presence,
    /// Whether it names a node.
    Node,
    /// Only what belongs to this conversation.
    Own,
    /// In its order.
    Ordered,
}

/// The rules, by path.
#[derive(Clone, Debug)]
pub struct Rules(BTreeMap<String, How>);

impl Rules {
    /// The workspace's.
    pub fn read() -> Result<Self> {
        let mut rules = BTreeMap::new();
        for line in RULES.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let mut words = line.split_whitespace();
            let path = words.next().context("a path")?.to_owned();
            let how = match words.next() {
                Some("not_shown") => How::NotShown,
                Some("presence") => How::Presence,
                Some("node") => How::Node,
                Some("own") => How::Own,
                Some("ordered") => How::Ordered,
                other => bail!("{line}: no such way: {other:?}"),
            };
            if words.next().is_none() {
                bail!("{line}: no reason");
            }
            rules.insert(path, how);
        }
        Ok(Self(rules))
    }

    fn of(&self, path: &str, name: &str) -> Option<How> {
        self.0.get(path).or_else(|| self.0.get(&format!("*.{name}"))).copied()
    }
}

/// What is known of the ids in a conversation.
#[derive(Clone, Debug, Default)]
pub struct Names {
    /// Names in the script to names on the broker.
    pub texts: BTreeMap<String, String>,
    /// Topics' ids, by their names on the broker.
    pub topic_ids: BTreeMap<String, [u8; 16]>,
    producer_ids: Vec<i64>,
    member_ids: Vec<String>,
    /// The time that questions count from.
    pub now_ms: i64,
}

/// Times that questions name are at most that far from theirs.
const NEAR_MS: i64 = 60_000;
/// From 2020 to 2100.
const TIMES_MS: std::ops::Range<i64> = 1_577_836_800_000..4_102_444_800_000;

impl Names {
    fn producer(&mut self, producer_id: i64) -> String {
        let known = self.producer_ids.iter().position(|known| *known == producer_id);
        let place = known.unwrap_or_else(|| {
            self.producer_ids.push(producer_id);
            self.producer_ids.len() - 1
        });
        format!("P{}", place + 1)
    }

    fn member(&mut self, member_id: &str) -> String {
        let known = self.member_ids.iter().position(|known| known == member_id);
        let place = known.unwrap_or_else(|| {
            self.member_ids.push(member_id.to_owned());
            self.member_ids.len() - 1
        });
        format!("M{}", place + 1)
    }

    /// `@x` for a name of ours, also within a text.
    fn text(&self, text: &str) -> String {
        let mut names: Vec<(&String, &String)> = self.texts.iter().collect();
        // The longest first: one may begin like another.
        names.sort_by_key(|(_, actual)| std::cmp::Reverse(actual.len()));
        if let Some((name, _)) = names.iter().find(|(_, actual)| *actual == text) {
            return format!("@{name}");
        }
        let mut shown = text.to_owned();
        for (name, actual) in names {
            shown = shown.replace(actual.as_str(), &format!("@{name}"));
        }
        Value::Text(shown).to_string()
    }

    fn topic_id(&self, id: &[u8; 16]) -> String {
        let known = self.topic_ids.iter().find(|(_, known)| *known == id).map(|(topic, _)| self.text(topic));
        match known {
            Some(topic) => format!("{topic}.id"),
            None if *id == [0; 16] => "zero".to_owned(),
            None if id == b"nobody has this." => "unknown".to_owned(),
            None => "another".to_owned(),
        }
    }

    fn number(&self, number: i64) -> String {
        let distance = number.saturating_sub(self.now_ms);
        if distance.saturating_abs() <= NEAR_MS {
            return format!("now{distance:+}");
        }
        if TIMES_MS.contains(&number) { "time".to_owned() } else { number.to_string() }
    }
}

/// Shows the answers of one API.
pub struct Shower<'a> {
    rules: &'a Rules,
    message: &'a Message,
    names: &'a mut Names,
}

impl<'a> Shower<'a> {
    /// Shows answers that are `message`.
    pub fn new(rules: &'a Rules, message: &'a Message, names: &'a mut Names) -> Self {
        Self { rules, message, names }
    }

    /// The answer of the API `name`.
    pub fn show(&mut self, name: &str, answer: &Value) -> String {
        self.learn_topic_ids(answer);
        let message = self.message;
        self.structure(message.root(), answer, name)
    }

    fn learn_topic_ids(&mut self, value: &Value) {
        match value {
            Value::List(elements) => elements.iter().for_each(|it| self.learn_topic_ids(it)),
            Value::Fields(fields) => {
                let name = ["name", "topic_name"].iter().find_map(|it| value.field(it));
                if let (Some(Value::Text(name)), Some(Value::Uuid(id))) = (name, value.field("topic_id"))
                    && *id != [0; 16]
                    && !name.is_empty()
                {
                    self.names.topic_ids.insert(name.clone(), *id);
                }
                fields.iter().for_each(|(_, it)| self.learn_topic_ids(it));
            }
            _ => {}
        }
    }

    fn structure(&mut self, owner: &Struct, value: &Value, path: &str) -> String {
        let Value::Fields(fields) = value else { return self.plain("", value) };
        let mut shown = Vec::new();
        for (name, value) in fields {
            let declared = owner.fields.iter().find(|field| snake_case(&field.name) == *name);
            let path = format!("{path}.{name}");
            let how = self.rules.of(&path, name);
            // The default of a producer id is 0 in some answers, which is a producer's.
            let is_always_shown = name.ends_with("error_code") || name == "producer_id";
            if how == Some(How::NotShown)
                || (declared.is_some_and(|field| is_default(field, value)) && !is_always_shown)
            {
                continue;
            }
            let text = match (how, declared) {
                (Some(How::Presence), _) => match value {
                    Value::Null | Value::Int(-1) => "none".to_owned(),
                    _ => "some".to_owned(),
                },
                (Some(How::Node), _) => node(value),
                (how, Some(field)) => {
                    let text = self.value(&field.kind, name, value, &path, how);
                    // A list of which nothing is our own.
                    if how == Some(How::Own) && text == "[]" {
                        continue;
                    }
                    text
                }
                (_, None) => value.to_string(),
            };
            shown.push(format!("{name}: {text}"));
        }
        format!("{{{}}}", shown.join(", "))
    }

    fn value(&mut self, kind: &Type, name: &str, value: &Value, path: &str, how: Option<How>) -> String {
        match (kind, value) {
            (Type::Records, Value::Bytes(bytes)) => self.undeclared(&records::show(bytes)),
            (Type::Struct(inner), Value::Fields(_)) => {
                let message = self.message;
                match message.find(inner) {
                    Some(inner) => self.structure(inner, value, path),
                    None => value.to_string(),
                }
            }
            (Type::Array(element), Value::List(elements)) => {
                let mut shown: Vec<String> =
                    elements.iter().map(|it| self.value(element, name, it, path, None)).collect();
                match how {
                    Some(How::Own) => {
                        shown.retain(|text| text.contains('@'));
                        shown.sort();
                    }
                    Some(How::Ordered) => {}
                    Some(How::NotShown | How::Presence | How::Node) | None => shown.sort(),
                }
                format!("[{}]", shown.join(", "))
            }
            (_, value) => self.plain(name, value),
        }
    }

    /// Records, which no schema describes.
    fn undeclared(&mut self, value: &Value) -> String {
        match value {
            Value::List(elements) => {
                let shown: Vec<String> = elements.iter().map(|it| self.undeclared(it)).collect();
                format!("[{}]", shown.join(", "))
            }
            Value::Fields(fields) => {
                let shown: Vec<String> = fields
                    .iter()
                    .map(|(name, value)| match value {
                        Value::List(_) | Value::Fields(_) => format!("{name}: {}", self.undeclared(value)),
                        value => format!("{name}: {}", self.plain(name, value)),
                    })
                    .collect();
                format!("{{{}}}", shown.join(", "))
            }
            value => self.plain("", value),
        }
    }

    fn plain(&mut self, name: &str, value: &Value) -> String {
        match value {
            Value::Int(code) if name.ends_with("error_code") => i16::try_from(*code)
                .ok()
                .and_then(ErrorCode::from_i16)
                .map_or_else(|| code.to_string(), |code| code.name().to_owned()),
            Value::Int(id) if name == "producer_id" && *id >= 0 => self.names.producer(*id),
            Value::Int(number) => self.names.number(*number),
            Value::Text(text) if is_member(name) && !text.is_empty() => {
                if self.names.texts.values().any(|known| known == text) {
                    self.names.text(text)
                } else {
                    self.names.member(text)
                }
            }
            Value::Text(text) => self.names.text(text),
            Value::Uuid(id) => self.names.topic_id(id),
            Value::Bytes(bytes) => match std::str::from_utf8(bytes) {
                Ok(text) if !text.is_empty() && text.chars().all(|letter| !letter.is_control()) => {
                    self.names.text(text)
                }
                _ => value.to_string(),
            },
            value => value.to_string(),
        }
    }
}

fn is_member(name: &str) -> bool {
    matches!(name, "member_id" | "leader")
}

fn node(value: &Value) -> String {
    match value {
        Value::Int(-1) => "none".to_owned(),
        Value::Int(_) => "node".to_owned(),
        Value::List(nodes) => format!("{} nodes", nodes.len()),
        value => value.to_string(),
    }
}
