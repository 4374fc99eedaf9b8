//! The declarations of the protocol: what they say, how they are read and how they are printed.
//!
//! A file of `crates/protocol/declarations` holds one API (its request and its response), or one message
//! that travels inside others or stands in a log. A line is a statement; two spaces of indentation put a
//! field into the struct above it; `#` begins a comment line:
//!
//! ```text
//! api 25 AddOffsetsToTxn
//! request 0-4 flexible 3+
//!   TransactionalId string 0+
//! response 0-4 flexible 3+
//!   ErrorCode int16 0+
//!
//! message EndTxnMarker 0
//!   CoordinatorEpoch int32 0+
//! ```
//!
//! A field is `Name type versions`, then in any order `nullable VERSIONS`, `tag N VERSIONS`, `default VALUE`,
//! `ignorable`. `struct Name` declares a struct that several fields use.
//!
//! It knows nothing of Rust or of bytes; [`crate::generate`] does.

use std::collections::BTreeMap;
use std::fmt;
use std::fmt::Write as _;

use anyhow::{Context, Result, bail, ensure};

/// A range of versions, both ends included; `to` is `i16::MAX` for "and all later". Empty if `from > to`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Versions {
    /// The first.
    pub from: i16,
    /// The last.
    pub to: i16,
}

impl Versions {
    /// No version at all.
    pub const NONE: Self = Self { from: 0, to: -1 };

    /// Reads `none`, `3`, `3+` or `3-5`.
    pub fn parse(text: &str) -> Result<Self> {
        let number = |digits: &str| digits.parse::<i16>().with_context(|| format!("not a version range: {text}"));
        if text == "none" {
            Ok(Self::NONE)
        } else if let Some(from) = text.strip_suffix('+') {
            Ok(Self { from: number(from)?, to: i16::MAX })
        } else if let Some((from, to)) = text.split_once('-') {
            Ok(Self { from: number(from)?, to: number(to)? })
        } else {
            Ok(Self { from: number(text)?, to: number(text)? })
        }
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.from > self.to
    }

    /// Whether `version` is in it.
    #[must_use]
    pub fn contains(self, version: i16) -> bool {
        self.from <= version && version <= self.to
    }

    /// What both have.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let both = Self { from: self.from.max(other.from), to: self.to.min(other.to) };
        if both.is_empty() { Self::NONE } else { both }
    }
}

impl fmt::Display for Versions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            f.write_str("none")
        } else if self.to == i16::MAX {
            write!(f, "{}+", self.from)
        } else if self.from == self.to {
            write!(f, "{}", self.from)
        } else {
            write!(f, "{}-{}", self.from, self.to)
        }
    }
}

/// What a field holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Type {
    /// One byte, zero or not.
    Bool,
    /// Signed, 8 bits.
    Int8,
    /// Signed, 16 bits.
    Int16,
    /// Signed, 32 bits.
    Int32,
    /// Signed, 64 bits.
    Int64,
    /// Unsigned, 16 bits.
    Uint16,
    /// Unsigned, 32 bits.
    Uint32,
    /// IEEE 754, 64 bits.
    Float64,
    /// Text.
    String,
    /// Bytes.
    Bytes,
    /// Record batches, one behind the other.
    Records,
    /// 16 bytes.
    Uuid,
    /// A struct of the same message.
    Struct(String),
    /// Many of one type.
    Array(Box<Type>),
}

impl Type {
    /// Reads a type as the declarations write it.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        if let Some(element) = text.strip_prefix("[]") {
            return Self::Array(Box::new(Self::parse(element)));
        }
        match text {
            "bool" => Self::Bool,
            "int8" => Self::Int8,
            "int16" => Self::Int16,
            "int32" => Self::Int32,
            "int64" => Self::Int64,
            "uint16" => Self::Uint16,
            "uint32" => Self::Uint32,
            "float64" => Self::Float64,
            "string" => Self::String,
            "bytes" => Self::Bytes,
            "records" => Self::Records,
            "uuid" => Self::Uuid,
            name => Self::Struct(name.to_owned()),
        }
    }

    /// The struct that this is, or is an array of.
    #[must_use]
    pub fn struct_name(&self) -> Option<&str> {
        match self {
            Self::Struct(name) => Some(name),
            Self::Array(element) => element.struct_name(),
            Self::Bool
            | Self::Int8
            | Self::Int16
            | Self::Int32
            | Self::Int64
            | Self::Uint16
            | Self::Uint32
            | Self::Float64
            | Self::String
            | Self::Bytes
            | Self::Records
            | Self::Uuid => None,
        }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bool => f.write_str("bool"),
            Self::Int8 => f.write_str("int8"),
            Self::Int16 => f.write_str("int16"),
            Self::Int32 => f.write_str("int32"),
            Self::Int64 => f.write_str("int64"),
            Self::Uint16 => f.write_str("uint16"),
            Self::Uint32 => f.write_str("uint32"),
            Self::Float64 => f.write_str("float64"),
            Self::String => f.write_str("string"),
            Self::Bytes => f.write_str("bytes"),
            Self::Records => f.write_str("records"),
            Self::Uuid => f.write_str("uuid"),
            Self::Struct(name) => f.write_str(name),
            Self::Array(element) => write!(f, "[]{element}"),
        }
    }
}

/// One field of a struct, in the order of the wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// As the schema spells it.
    pub name: String,
    /// What it holds.
    pub kind: Type,
    /// The versions that have it.
    pub versions: Versions,
    /// The versions in which it may be null.
    pub nullable: Versions,
    /// Its tag, and the versions in which it is tagged.
    pub tag: Option<(u32, Versions)>,
    /// The default, if it is not zero, empty or false.
    pub default: Option<String>,
    /// Whether a version without this field may drop what it was set to.
    pub ignorable: bool,
}

/// A struct of a message; the message itself is one too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Struct {
    /// As the schema spells it.
    pub name: String,
    /// In the order of the wire.
    pub fields: Vec<Field>,
}

/// What a message is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Asked of a broker.
    Request,
    /// A broker's answer.
    Response,
    /// Stands in a log, a file, or a field of bytes.
    Data,
}

/// A message: a struct that stands alone, and the structs that it needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// With its suffix: `FetchRequest`.
    pub name: String,
    /// What it is for.
    pub kind: Kind,
    /// The versions there are.
    pub versions: Versions,
    /// The versions with compact lengths and tagged fields.
    pub flexible: Versions,
    /// The last version is not settled, and not offered.
    pub last_version_is_unstable: bool,
    /// The message's own fields first, then the other structs in the order of their first use.
    pub structs: Vec<Struct>,
}

impl Message {
    /// The message's own struct.
    ///
    /// Panics: never, as long as messages come from [`parse`] or the importer: both put it there.
    #[must_use]
    pub fn root(&self) -> &Struct {
        self.structs.first().expect("a message has its own struct first")
    }

    /// The struct of that name.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&Struct> {
        self.structs.iter().find(|it| it.name == name)
    }
}

/// One file of declarations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Declaration {
    /// Request and response under one key.
    Api {
        /// The number in a request's header.
        key: i16,
        /// Without suffix: `Fetch`.
        name: String,
        /// The request.
        request: Message,
        /// The response.
        response: Message,
    },
    /// A message without a key.
    Message(Message),
}

impl Declaration {
    /// The name of the API or message.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Api { name, .. } => name,
            Self::Message(message) => &message.name,
        }
    }

    /// All messages of it.
    #[must_use]
    pub fn messages(&self) -> Vec<&Message> {
        match self {
            Self::Api { request, response, .. } => vec![request, response],
            Self::Message(message) => vec![message],
        }
    }
}

/// `AddOffsetsToTxn` as `add_offsets_to_txn`; runs of capitals are one word.
#[must_use]
pub fn snake_case(name: &str) -> String {
    let letters: Vec<char> = name.chars().collect();
    let mut snake = String::new();
    for (at, letter) in letters.iter().enumerate() {
        let after_small = at > 0 && letters.get(at - 1).is_some_and(|before| !before.is_uppercase());
        let before_small = at > 0 && letters.get(at + 1).is_some_and(|after| after.is_lowercase());
        if letter.is_uppercase() && (after_small || before_small) {
            snake.push('_');
        }
        snake.extend(letter.to_lowercase());
    }
    snake
}

/// Reads a file of declarations.
pub fn parse(text: &str) -> Result<Declaration> {
    let mut api: Option<(i16, String)> = None;
    let mut messages: Vec<Message> = Vec::new();
    // For each depth of indentation, the struct that fields of this depth go into.
    let mut open: Vec<String> = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let place = || format!("line {}: {line}", at + 1);
        let body = line.trim_start();
        if body.is_empty() || body.starts_with('#') {
            continue;
        }
        let depth = (line.len() - body.len()) / 2;
        let words: Vec<&str> = body.split_whitespace().collect();
        match (depth, words.as_slice()) {
            (0, ["api", key, name]) => api = Some((key.parse().with_context(place)?, (*name).to_owned())),
            (0, [kind @ ("request" | "response"), rest @ ..]) => {
                let (_, name) = api.as_ref().with_context(place)?;
                let (kind, suffix) =
                    if *kind == "request" { (Kind::Request, "Request") } else { (Kind::Response, "Response") };
                messages.push(parse_message(kind, format!("{name}{suffix}"), rest).with_context(place)?);
                open = vec![format!("{name}{suffix}")];
            }
            (0, ["message", name, rest @ ..]) => {
                messages.push(parse_message(Kind::Data, (*name).to_owned(), rest).with_context(place)?);
                open = vec![(*name).to_owned()];
            }
            (1, ["struct", name]) => {
                let message = messages.last_mut().with_context(place)?;
                message.structs.push(Struct { name: (*name).to_owned(), fields: Vec::new() });
                open.truncate(1);
                open.push((*name).to_owned());
            }
            (1.., [name, kind, versions, attributes @ ..]) => {
                let field = parse_field(name, kind, versions, attributes).with_context(place)?;
                open.truncate(depth);
                ensure!(open.len() == depth, "{}: too deep", place());
                let message = messages.last_mut().with_context(place)?;
                let inner = field.kind.struct_name().unwrap_or_default().to_owned();
                let owner = open.last().with_context(place)?;
                owner_of(message, owner).fields.push(field);
                open.push(inner);
            }
            _ => bail!("{}: not a statement", place()),
        }
    }
    for message in &messages {
        for field in message.structs.iter().flat_map(|it| &it.fields) {
            if let Some(name) = field.kind.struct_name() {
                ensure!(message.find(name).is_some(), "{}: {} has no struct {name}", message.name, field.name);
            }
        }
    }
    let mut messages = messages.into_iter();
    match (api, messages.next(), messages.next(), messages.next()) {
        (Some((key, name)), Some(request), Some(response), None) => {
            Ok(Declaration::Api { key, name, request, response })
        }
        (None, Some(message), None, None) => Ok(Declaration::Message(message)),
        _ => bail!("a file holds one API with a request and a response, or one message"),
    }
}

/// The struct `name` of `message`, made at its first field, so that a field whose struct is declared elsewhere makes none.
fn owner_of<'a>(message: &'a mut Message, name: &str) -> &'a mut Struct {
    let at = message.structs.iter().position(|it| it.name == name).unwrap_or_else(|| {
        message.structs.push(Struct { name: name.to_owned(), fields: Vec::new() });
        message.structs.len() - 1
    });
    &mut message.structs[at]
}

fn parse_message(kind: Kind, name: String, words: &[&str]) -> Result<Message> {
    let (versions, words) = words.split_first().context("versions are missing")?;
    let (flexible, words) = match words {
        ["flexible", flexible, rest @ ..] => (Versions::parse(flexible)?, rest),
        rest => (Versions::NONE, rest),
    };
    let last_version_is_unstable = match words {
        [] => false,
        ["unstable"] => true,
        _ => bail!("not an attribute of a message: {}", words.join(" ")),
    };
    let root = Struct { name: name.clone(), fields: Vec::new() };
    let versions = Versions::parse(versions)?;
    Ok(Message { name, kind, versions, flexible, last_version_is_unstable, structs: vec![root] })
}

fn parse_field(name: &str, kind: &str, versions: &str, mut words: &[&str]) -> Result<Field> {
    let mut field = Field {
        name: name.to_owned(),
        kind: Type::parse(kind),
        versions: Versions::parse(versions)?,
        nullable: Versions::NONE,
        tag: None,
        default: None,
        ignorable: false,
    };
    while !words.is_empty() {
        words = match words {
            ["nullable", versions, rest @ ..] => {
                field.nullable = Versions::parse(versions)?;
                rest
            }
            ["tag", tag, versions, rest @ ..] => {
                field.tag = Some((tag.parse()?, Versions::parse(versions)?));
                rest
            }
            ["default", value, rest @ ..] => {
                field.default = Some((*value).to_owned());
                rest
            }
            ["ignorable", rest @ ..] => {
                field.ignorable = true;
                rest
            }
            _ => bail!("not an attribute of a field: {}", words.join(" ")),
        };
    }
    Ok(field)
}

/// Prints a declaration as [`parse`] reads it.
#[must_use]
pub fn print(declaration: &Declaration) -> String {
    let mut text = String::new();
    if let Declaration::Api { key, name, .. } = declaration {
        writeln!(text, "api {key} {name}").expect("a string takes it");
    }
    for message in declaration.messages() {
        text.push('\n');
        match message.kind {
            Kind::Request => text.push_str("request"),
            Kind::Response => text.push_str("response"),
            Kind::Data => write!(text, "message {}", message.name).expect("a string takes it"),
        }
        write!(text, " {}", message.versions).expect("a string takes it");
        if !message.flexible.is_empty() {
            write!(text, " flexible {}", message.flexible).expect("a string takes it");
        }
        text.push_str(if message.last_version_is_unstable { " unstable\n" } else { "\n" });
        let mut uses: BTreeMap<&str, usize> = BTreeMap::new();
        for name in message.structs.iter().flat_map(|it| &it.fields).filter_map(|field| field.kind.struct_name()) {
            *uses.entry(name).or_default() += 1;
        }
        print_fields(message, message.root(), 1, &uses, &mut text);
        for shared in message.structs.iter().filter(|it| uses.get(it.name.as_str()).is_some_and(|&count| count > 1)) {
            writeln!(text, "  struct {}", shared.name).expect("a string takes it");
            print_fields(message, shared, 2, &uses, &mut text);
        }
    }
    text.trim_start().to_owned()
}

fn print_fields(message: &Message, owner: &Struct, depth: usize, uses: &BTreeMap<&str, usize>, text: &mut String) {
    for field in &owner.fields {
        write!(text, "{}{} {} {}", "  ".repeat(depth), field.name, field.kind, field.versions)
            .expect("a string takes it");
        if !field.nullable.is_empty() {
            write!(text, " nullable {}", field.nullable).expect("a string takes it");
        }
        if let Some((tag, versions)) = field.tag {
            write!(text, " tag {tag} {versions}").expect("a string takes it");
        }
        if let Some(default) = &field.default {
            write!(text, " default {default}").expect("a string takes it");
        }
        text.push_str(if field.ignorable { " ignorable\n" } else { "\n" });
        if let Some(name) = field.kind.struct_name()
            && uses.get(name).is_some_and(|&count| count == 1)
            && let Some(inner) = message.find(name)
        {
            print_fields(message, inner, depth + 1, uses, text);
        }
    }
}
