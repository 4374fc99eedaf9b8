//! What questions and answers are made of, and how a question is written.
//!
//! ```text
//! {transactional_id: @t, producer_id: $t.pid, producer_epoch: $t.epoch+1, topics: [{name: @x, partitions: [0]}]}
//! ```
//!
//! `@x` is a name that nobody else uses; `$t.pid` a value learnt from an earlier answer, to which a number may be added;
//! `batch{...}` record batches ([`crate::records`]); words are text.

use std::fmt;

use anyhow::{Result, bail, ensure};
use bytes::Bytes;

/// A value, with or without a schema for it.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Nothing, where something may be.
    Null,
    /// True or false.
    Bool(bool),
    /// Any whole number.
    Int(i64),
    /// IEEE 754.
    Float(f64),
    /// Text.
    Text(String),
    /// Bytes.
    Bytes(Bytes),
    /// Sixteen bytes.
    Uuid([u8; 16]),
    /// Many of one kind.
    List(Vec<Value>),
    /// A struct: names and values.
    Fields(Vec<(String, Value)>),
    /// `@x`, before it is known what that is.
    Name(String),
    /// `$x+1`, before it is known what that is.
    Bound(String, i64),
    /// `batch{...}`, before it is built.
    Batch(Box<Value>),
}

impl Value {
    /// Reads one, to the end of `text`.
    pub fn parse(text: &str) -> Result<Self> {
        let mut parser = Parser { rest: text };
        let value = parser.value()?;
        parser.skip();
        ensure!(parser.rest.is_empty(), "what is `{}`?", parser.rest);
        Ok(value)
    }

    /// Reads one from the front, and says what stands behind it.
    pub fn parse_front(text: &str) -> Result<(Self, &str)> {
        let mut parser = Parser { rest: text };
        let value = parser.value()?;
        Ok((value, parser.rest))
    }

    /// The field of that name.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&Value> {
        match self {
            Self::Fields(fields) => fields.iter().find(|(known, _)| known == name).map(|(_, value)| value),
            _ => None,
        }
    }

    /// What stands at `topics.0.error_code`; a number is a place in a list.
    #[must_use]
    pub fn at(&self, path: &str) -> Option<&Value> {
        path.split('.').try_fold(self, |value, step| match (value, step.parse::<usize>()) {
            (Self::List(elements), Ok(index)) => elements.get(index),
            (value, _) => value.field(step),
        })
    }
}

/// As it is written.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Bool(value) => write!(f, "{value}"),
            Self::Int(value) => write!(f, "{value}"),
            Self::Float(value) => write!(f, "{value}"),
            Self::Text(text) if is_word(text) => f.write_str(text),
            Self::Text(text) => write!(f, "{text:?}"),
            Self::Bytes(bytes) => {
                f.write_str("x\"")?;
                bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
                f.write_str("\"")
            }
            Self::Uuid(bytes) => {
                f.write_str("uuid\"")?;
                bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
                f.write_str("\"")
            }
            Self::List(elements) => {
                f.write_str("[")?;
                for (index, element) in elements.iter().enumerate() {
                    write!(f, "{}{element}", if index == 0 { "" } else { ", " })?;
                }
                f.write_str("]")
            }
            Self::Fields(fields) => {
                f.write_str("{")?;
                for (index, (name, value)) in fields.iter().enumerate() {
                    write!(f, "{}{name}: {value}", if index == 0 { "" } else { ", " })?;
                }
                f.write_str("}")
            }
            Self::Name(name) => write!(f, "@{name}"),
            Self::Bound(name, 0) => write!(f, "${name}"),
            Self::Bound(name, added) => write!(f, "${name}{added:+}"),
            Self::Batch(fields) => write!(f, "batch{fields}"),
        }
    }
}

fn is_word(text: &str) -> bool {
    let begins = text.starts_with(|letter: char| letter.is_ascii_alphabetic() || letter == '_');
    begins && text.chars().all(is_word_letter) && !matches!(text, "null" | "true" | "false")
}

fn is_word_letter(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || "_.-".contains(letter)
}

struct Parser<'a> {
    rest: &'a str,
}

impl<'a> Parser<'a> {
    fn skip(&mut self) {
        self.rest = self.rest.trim_start();
    }

    fn takes(&mut self, text: &str) -> bool {
        self.skip();
        match self.rest.strip_prefix(text) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn word(&mut self) -> &'a str {
        self.skip();
        let end = self.rest.find(|letter| !is_word_letter(letter)).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        word
    }

    fn quoted(&mut self) -> Result<&'a str> {
        let Some((text, rest)) = self.rest.split_once('"') else { bail!("a text does not end: {}", self.rest) };
        self.rest = rest;
        Ok(text)
    }

    fn hex(&mut self) -> Result<Vec<u8>> {
        let text = self.quoted()?;
        ensure!(text.len() % 2 == 0 && text.is_ascii(), "not hexadecimal: {text}");
        (0..text.len() / 2).map(|at| Ok(u8::from_str_radix(&text[2 * at..2 * at + 2], 16)?)).collect()
    }

    fn value(&mut self) -> Result<Value> {
        if self.takes("[") {
            let mut elements = Vec::new();
            while !self.takes("]") {
                elements.push(self.value()?);
                self.takes(",");
            }
            return Ok(Value::List(elements));
        }
        if self.takes("batch{") {
            return Ok(Value::Batch(Box::new(self.fields()?)));
        }
        if self.takes("{") {
            return self.fields();
        }
        if self.takes("@") {
            return Ok(Value::Name(self.word().to_owned()));
        }
        if self.takes("$") {
            let name = self.word();
            // `$p.epoch-1`: the letters of a name may include a minus, which is meant as one before a digit at its end.
            if let Some((name, number)) = name.rsplit_once('-')
                && let Ok(number) = number.parse::<i64>()
            {
                return Ok(Value::Bound(name.to_owned(), -number));
            }
            let added = if self.rest.starts_with('+') {
                self.rest = &self.rest[1..];
                self.word().parse()?
            } else {
                0
            };
            return Ok(Value::Bound(name.to_owned(), added));
        }
        if self.takes("\"") {
            return Ok(Value::Text(self.quoted()?.to_owned()));
        }
        if self.takes("x\"") {
            return Ok(Value::Bytes(self.hex()?.into()));
        }
        if self.takes("uuid\"") {
            let Ok(bytes) = self.hex()?.try_into() else { bail!("a uuid has sixteen bytes") };
            return Ok(Value::Uuid(bytes));
        }
        let word = self.word();
        Ok(match word {
            "" => bail!("a value is missing before `{}`", self.rest),
            "null" => Value::Null,
            "true" => Value::Bool(true),
            "false" => Value::Bool(false),
            word => match word.parse() {
                Ok(number) => Value::Int(number),
                Err(_) => Value::Text(word.to_owned()),
            },
        })
    }

    fn fields(&mut self) -> Result<Value> {
        let mut fields = Vec::new();
        while !self.takes("}") {
            let name = self.word();
            ensure!(!name.is_empty() && self.takes(":"), "a name and a colon are missing before `{}`", self.rest);
            fields.push((name.to_owned(), self.value()?));
            self.takes(",");
        }
        Ok(Value::Fields(fields))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_is_written_as_it_is_read() {
        let text = "{id: @t, pid: $t.pid, epoch: $t.epoch-1, next: $t.epoch+1, names: [a, \"b c\", null], ok: true, \
                    raw: x\"00ff\", records: batch{count: 2}}";
        assert_eq!(Value::parse(text).expect("it reads").to_string(), text);
    }

    #[test]
    fn a_path_leads_through_lists() {
        let value = Value::parse("{topics: [{error_code: 3}]}").expect("it reads");
        assert_eq!(value.at("topics.0.error_code"), Some(&Value::Int(3)));
        assert_eq!(value.at("topics.1.error_code"), None);
    }
}
