//! The module of one message: its structs, and how each is read and written in every version.

use std::fmt::Write as _;

use anyhow::{Context, Result, bail, ensure};

use crate::schema::{Field, Kind, Message, Struct, Type, Versions, snake_case};

/// The text of the module.
pub(super) fn module(message: &Message) -> Result<String> {
    let mut out = String::new();
    let name = &message.name;
    let role = match message.kind {
        Kind::Request => "request",
        Kind::Response => "response",
        Kind::Data => "embedded message",
    };
    writeln!(out, "//! `{name}`: {role}, versions {}{}.", message.versions, flexible_words(message))?;
    writeln!(out, "//!")?;
    writeln!(out, "//! Written by `cargo xtask generate` from `declarations`: change it there.\n")?;
    writeln!(out, "@USES@\n")?;
    for (at, it) in message.structs.iter().enumerate() {
        let generator = Generator { message, owner: it };
        generator.declare(at == 0, &mut out)?;
        generator.default(&mut out)?;
        generator.code(at == 0, &mut out)?;
    }
    let uses = uses(&out);
    Ok(out.replace("@USES@", &uses))
}

fn uses(text: &str) -> String {
    let mut uses = String::new();
    let has = |word: &str| text.split(|c: char| !c.is_alphanumeric() && c != '_').any(|it| it == word);
    if has("Uuid") {
        uses.push_str("use atonce_kernel::Uuid;\n");
    }
    let names = ["BufMut", "Bytes"];
    let used: Vec<&str> = names
        .into_iter()
        .filter(|&name| if name == "BufMut" { text.contains("writer.put_") } else { has(name) })
        .collect();
    if !used.is_empty() {
        writeln!(uses, "use bytes::{{{}}};", used.join(", ")).expect("a string takes it");
    }
    uses.push('\n');
    let mut wire = vec!["DecodeError", "EncodeError", "Message", "Reader", "Writer"];
    if text.contains("wire::") {
        wire.push("self");
    }
    wire.extend(["RawTaggedField", "TaggedFields"].into_iter().filter(|name| has(name)));
    writeln!(uses, "use crate::wire::{{{}}};", wire.join(", ")).expect("a string takes it");
    uses
}

fn flexible_words(message: &Message) -> String {
    let flexible = message.flexible.and(message.versions);
    if flexible.is_empty() {
        String::new()
    } else if flexible == message.versions {
        ", all flexible".to_owned()
    } else {
        format!(", flexible from {}", flexible.from)
    }
}

fn is_error_code(field: &Field) -> bool {
    field.kind == Type::Int16 && field.name.ends_with("ErrorCode")
}

/// Whether it says an error code, or one of its parts does.
fn has_error_codes(message: &Message, owner: &Struct) -> bool {
    owner.fields.iter().any(|field| {
        let inner = match &field.kind {
            Type::Struct(inner) => Some(inner),
            Type::Array(element) => match element.as_ref() {
                Type::Struct(inner) => Some(inner),
                _ => None,
            },
            _ => None,
        };
        is_error_code(field)
            || inner.and_then(|inner| message.find(inner)).is_some_and(|inner| has_error_codes(message, inner))
    })
}

struct Generator<'a> {
    message: &'a Message,
    owner: &'a Struct,
}

impl Generator<'_> {
    /// The fields that any version has.
    fn fields(&self) -> impl Iterator<Item = &Field> {
        self.owner.fields.iter().filter(|field| !self.versions(field).is_empty())
    }

    fn versions(&self, field: &Field) -> Versions {
        field.versions.and(self.message.versions)
    }

    fn nullable(&self, field: &Field) -> Versions {
        field.nullable.and(self.versions(field))
    }

    fn has_tags(&self) -> bool {
        !self.message.flexible.and(self.message.versions).is_empty()
    }

    /// `version >= 3`, or `None` if all versions of the message are in it.
    fn condition(&self, versions: Versions) -> Option<String> {
        let (all, some) = (self.message.versions, versions.and(self.message.versions));
        if some == all {
            None
        } else if some.to == all.to {
            Some(format!("version >= {}", some.from))
        } else if some.from == all.from && some.to == some.from {
            Some(format!("version == {}", some.to))
        } else if some.from == all.from {
            Some(format!("version <= {}", some.to))
        } else if some.from == some.to {
            Some(format!("version == {}", some.to))
        } else {
            Some(format!("({}..={}).contains(&version)", some.from, some.to))
        }
    }

    /// Whether lengths are compact: an expression.
    fn compact(&self) -> &'static str {
        let flexible = self.message.flexible.and(self.message.versions);
        if flexible.is_empty() {
            "false"
        } else if flexible == self.message.versions {
            "true"
        } else {
            "flexible"
        }
    }

    /// The opposite of [`Self::condition`].
    fn condition_not(&self, versions: Versions) -> Option<String> {
        let (all, some) = (self.message.versions, versions.and(self.message.versions));
        if some == all || some.is_empty() {
            None
        } else if some.to == all.to {
            Some(format!("version < {}", some.from))
        } else if some.from == all.from {
            Some(format!("version > {}", some.to))
        } else {
            Some(format!("!({}..={}).contains(&version)", some.from, some.to))
        }
    }

    fn declare(&self, is_root: bool, out: &mut String) -> Result<()> {
        let name = &self.owner.name;
        if is_root {
            writeln!(out, "/// The message: versions {}{}.", self.message.versions, flexible_words(self.message))?;
        } else {
            writeln!(out, "/// A part of [`{}`].", self.message.name)?;
        }
        let default = if self.fields().all(|field| self.default_is_derived(field)) { "Default, " } else { "" };
        writeln!(out, "#[derive(Clone, Debug, {default}PartialEq)]\npub struct {name} {{")?;
        for field in self.fields() {
            let mut facts = vec![format!("`{}`", field.kind)];
            if let Some((tag, _)) = field.tag {
                facts.push(format!("tag {tag}"));
            }
            if self.versions(field) != self.message.versions {
                facts.push(words("in", self.versions(field), self.message.versions));
            }
            if !self.nullable(field).is_empty() {
                facts.push(if self.nullable(field) == self.versions(field) {
                    "may be null".to_owned()
                } else {
                    words("may be null in", self.nullable(field), self.message.versions)
                });
            }
            if let Some(default) = &field.default
                && default != "null"
            {
                facts.push(format!("{default} if not set"));
            }
            if field.ignorable && self.versions(field) != self.message.versions {
                facts.push("dropped in others".to_owned());
            }
            writeln!(out, "/// {}.", facts.join(", "))?;
            writeln!(out, "pub {}: {},", field_name(field), self.rust_type(field))?;
        }
        if self.has_tags() {
            writeln!(out, "/// Tagged fields that this code does not know, by rising tag.")?;
            writeln!(out, "pub unknown_tagged_fields: Vec<RawTaggedField>,")?;
        }
        writeln!(out, "}}\n")?;
        Ok(())
    }

    fn rust_type(&self, field: &Field) -> String {
        let base = base_type(&field.kind);
        if self.is_option(field) { format!("Option<{base}>") } else { base }
    }

    fn is_option(&self, field: &Field) -> bool {
        !self.nullable(field).is_empty() || field.kind == Type::Records
    }

    fn default_is_null(&self, field: &Field) -> bool {
        self.is_option(field) && (field.default.as_deref() == Some("null") || field.kind == Type::Records)
    }

    fn default_is_derived(&self, field: &Field) -> bool {
        if self.is_option(field) { self.default_is_null(field) } else { field.default.is_none() }
    }

    fn default_value(&self, field: &Field) -> Result<String> {
        if self.default_is_null(field) {
            return Ok("None".to_owned());
        }
        let value = match (&field.kind, field.default.as_deref()) {
            (Type::Bool, None) => "false".to_owned(),
            (Type::Bool, Some(value)) => value.to_owned(),
            (Type::Int8 | Type::Int16 | Type::Int32 | Type::Int64 | Type::Uint16 | Type::Uint32, None) => {
                "0".to_owned()
            }
            (Type::Int32, Some("-2147483648")) => "i32::MIN".to_owned(),
            (Type::Int32, Some("0x7fffffff")) => "i32::MAX".to_owned(),
            (Type::Int64, Some("9223372036854775807")) => "i64::MAX".to_owned(),
            (Type::Int8 | Type::Int16 | Type::Int32 | Type::Int64 | Type::Uint16 | Type::Uint32, Some(value)) => {
                value.parse::<i32>().with_context(|| format!("default of {}", field.name))?;
                value.to_owned()
            }
            (Type::Float64, None) => "0.0".to_owned(),
            (Type::String, None) => "String::new()".to_owned(),
            (Type::Bytes, None) => "Bytes::new()".to_owned(),
            (Type::Uuid, None) => "Uuid::ZERO".to_owned(),
            (Type::Array(_), None) => "Vec::new()".to_owned(),
            (Type::Struct(name), None) => format!("{name}::default()"),
            (_, Some(other)) => bail!("{}: {other} is no default for {}", field.name, field.kind),
            (Type::Records, None) => "None".to_owned(),
        };
        Ok(if self.is_option(field) { format!("Some({value})") } else { value })
    }

    fn default(&self, out: &mut String) -> Result<()> {
        if self.fields().all(|field| self.default_is_derived(field)) {
            return Ok(());
        }
        writeln!(out, "impl Default for {} {{ fn default() -> Self {{ Self {{", self.owner.name)?;
        for field in self.fields() {
            writeln!(out, "{}: {},", field_name(field), self.default_value(field)?)?;
        }
        if self.has_tags() {
            writeln!(out, "unknown_tagged_fields: Vec::new(),")?;
        }
        writeln!(out, "}} }} }}\n")?;
        Ok(())
    }

    fn code(&self, is_root: bool, out: &mut String) -> Result<()> {
        let name = &self.owner.name;
        let (decode, encode) = (self.decode()?, self.encode()?);
        let version = |body: &str| if body.contains("version") { "version" } else { "_version" };
        if is_root {
            let Versions { from, to } = self.message.versions;
            writeln!(out, "impl Message for {name} {{")?;
            writeln!(out, "const NAME: &'static str = \"{name}\";")?;
            writeln!(out, "const VERSIONS: std::ops::RangeInclusive<i16> = {from}..={to};\n")?;
            writeln!(out, "fn decode(reader: &mut Reader, version: i16) -> Result<Self, DecodeError> {{")?;
            writeln!(out, "if !Self::VERSIONS.contains(&version) {{")?;
            writeln!(out, "return Err(DecodeError::UnsupportedVersion {{ message: Self::NAME, version }}); }}")?;
            writeln!(out, "{decode} }}\n")?;
            writeln!(out, "fn write(&self, writer: &mut Writer, version: i16) -> Result<(), EncodeError> {{")?;
            writeln!(out, "if !Self::VERSIONS.contains(&version) {{")?;
            writeln!(out, "return Err(EncodeError::UnsupportedVersion {{ message: Self::NAME, version }}); }}")?;
            writeln!(out, "{encode} }}\n{} }}\n", self.error_codes())?;
        } else {
            let (read, write) = (version(&decode), version(&encode));
            writeln!(out, "impl {name} {{")?;
            writeln!(out, "fn decode(reader: &mut Reader, {read}: i16) -> Result<Self, DecodeError> {{")?;
            writeln!(out, "{decode} }}\n")?;
            writeln!(out, "fn write(&self, writer: &mut Writer, {write}: i16) -> Result<(), EncodeError> {{")?;
            writeln!(out, "{encode} }}\n{} }}\n", self.error_codes())?;
        }
        Ok(())
    }

    /// The visit of all error codes of an answer; nothing where there are none.
    fn error_codes(&self) -> String {
        if self.message.kind != Kind::Response || !has_error_codes(self.message, self.owner) {
            return String::new();
        }
        let visits: String = self.fields().map(|field| self.visit_error_codes(field)).collect();
        format!("\nfn error_codes(&self, each: &mut dyn FnMut(i16)) {{ {visits} }}\n")
    }

    fn visit_error_codes(&self, field: &Field) -> String {
        let name = field_name(field);
        let inner = match &field.kind {
            Type::Int16 if is_error_code(field) => return format!("each(self.{name});\n"),
            Type::Struct(inner) => inner,
            Type::Array(element) => match element.as_ref() {
                Type::Struct(inner) => inner,
                _ => return String::new(),
            },
            _ => return String::new(),
        };
        if !self.message.find(inner).is_some_and(|inner| has_error_codes(self.message, inner)) {
            return String::new();
        }
        match (&field.kind, self.is_option(field)) {
            (Type::Array(_), true) => format!("for it in self.{name}.iter().flatten() {{ it.error_codes(each); }}\n"),
            (Type::Array(_), false) => format!("for it in &self.{name} {{ it.error_codes(each); }}\n"),
            (_, true) => format!("if let Some(it) = &self.{name} {{ it.error_codes(each); }}\n"),
            (_, false) => format!("self.{name}.error_codes(each);\n"),
        }
    }

    /// `let flexible = …;` if the body asks.
    fn with_flexible(&self, body: String) -> String {
        match self.condition(self.message.flexible) {
            Some(condition) if body.contains("flexible") => format!("let flexible = {condition};\n{body}"),
            _ => body,
        }
    }

    /// Wraps the tagged section into its condition.
    fn if_flexible(&self, body: &str) -> String {
        if self.compact() == "true" { body.to_owned() } else { format!("if flexible {{ {body} }}\n") }
    }

    fn decode(&self) -> Result<String> {
        let mut body = String::new();
        let mut arms = String::new();
        for field in self.fields() {
            let value = self.read(field)?;
            let target = field_name(field);
            if let Some((tag, versions)) = field.tag {
                ensure!(versions.and(self.message.versions) == self.versions(field), "{}: tag", field.name);
                let guard = self.tag_condition(field).map(|it| format!(" if {it}")).unwrap_or_default();
                writeln!(arms, "{tag}{guard} => message.{target} = {value},")?;
            } else if let Some(condition) = self.condition(self.versions(field)) {
                writeln!(body, "if {condition} {{ message.{target} = {value}; }}")?;
            } else {
                writeln!(body, "message.{target} = {value};")?;
            }
        }
        if self.has_tags() {
            let section = if arms.is_empty() {
                "reader.tagged_fields(&mut message.unknown_tagged_fields, |_, _| Ok(false))?;\n".to_owned()
            } else {
                format!(
                    "let mut unknown = Vec::new();\n\
                     reader.tagged_fields(&mut unknown, |tag, reader| {{\n\
                     match tag {{ {arms} _ => return Ok(false), }}\nOk(true) }})?;\n\
                     message.unknown_tagged_fields = unknown;\n"
                )
            };
            body.push_str(&self.if_flexible(&section));
        }
        Ok(self.with_flexible(format!("let mut message = Self::default();\n{body}Ok(message)")))
    }

    /// What a tagged field needs beyond a flexible version.
    fn tag_condition(&self, field: &Field) -> Option<String> {
        let flexible = self.message.flexible.and(self.message.versions);
        if self.versions(field) == flexible { None } else { self.condition(self.versions(field)) }
    }

    fn read(&self, field: &Field) -> Result<String> {
        let nullable = self.nullable(field);
        let always = nullable == self.versions(field);
        if !self.is_option(field) {
            return Ok(self.read_type(&field.kind));
        }
        let null = self.read_nullable(field)?;
        if always {
            return Ok(null);
        }
        let present = format!("Some({})", self.read_type(&field.kind));
        match self.condition(nullable) {
            _ if nullable.is_empty() => Ok(present),
            Some(condition) => Ok(format!("if {condition} {{ {null} }} else {{ {present} }}")),
            None => Ok(null),
        }
    }

    fn read_type(&self, kind: &Type) -> String {
        let compact = self.compact();
        match kind {
            Type::String => format!("reader.string({compact})?"),
            Type::Bytes | Type::Records => format!("reader.bytes({compact})?"),
            Type::Struct(name) => format!("{name}::decode(reader, version)?"),
            Type::Array(element) => {
                format!("reader.array({compact}, {}, {})?", self.minimum(element), self.element_reader(element))
            }
            _ => format!("reader.{}()?", primitive(kind)),
        }
    }

    fn read_nullable(&self, field: &Field) -> Result<String> {
        let compact = self.compact();
        Ok(match &field.kind {
            Type::String => format!("reader.nullable_string({compact})?"),
            Type::Bytes | Type::Records => format!("reader.nullable_bytes({compact})?"),
            // In a tagged field the mark is a varint.
            Type::Struct(name) if field.tag.is_some() => {
                format!("if reader.unsigned_varint()? > 0 {{ Some({name}::decode(reader, version)?) }} else {{ None }}")
            }
            Type::Struct(name) => {
                format!("if reader.is_present()? {{ Some({name}::decode(reader, version)?) }} else {{ None }}")
            }
            Type::Array(element) => format!(
                "reader.nullable_array({compact}, {}, {})?",
                self.minimum(element),
                self.element_reader(element)
            ),
            other => bail!("{other} cannot be null"),
        })
    }

    fn element_reader(&self, element: &Type) -> String {
        match element {
            Type::String | Type::Bytes | Type::Records | Type::Struct(_) | Type::Array(_) => {
                let value = self.read_type(element);
                format!("|reader| {}", value.strip_suffix('?').unwrap_or(&value))
            }
            _ => format!("Reader::{}", primitive(element)),
        }
    }

    /// The fewest bytes that a value takes in any version.
    fn minimum(&self, kind: &Type) -> usize {
        (self.message.versions.from..=self.message.versions.to)
            .map(|version| minimum_bytes(self.message, kind, version))
            .min()
            .unwrap_or(1)
            .max(1)
    }

    fn encode(&self) -> Result<String> {
        let mut body = String::new();
        let mut tagged = String::new();
        for field in self.fields() {
            let (name, owner) = (field_name(field), &self.owner.name);
            let value = format!("self.{name}");
            let mut write = String::new();
            if self.is_option(field) && self.nullable(field) != self.versions(field) {
                let needs_value =
                    self.condition_not(self.nullable(field)).map(|it| format!(" && {it}")).unwrap_or_default();
                writeln!(
                    write,
                    "if {value}.is_none(){needs_value} {{ return Err(EncodeError::NullNotAllowed \
                     {{ owner: \"{owner}\", field: \"{name}\", version }}); }}"
                )?;
            }
            write.push_str(&self.write(field, &value));
            let refuse = format!(
                "if {} {{ return Err(EncodeError::FieldNotInVersion {{ owner: \"{owner}\", field: \"{name}\", version }}); }}",
                self.is_set(field, &value)?
            );
            if let Some((tag, _)) = field.tag {
                let is_set = self.is_set(field, &value)?;
                let condition = self.tag_condition(field);
                let guard = condition.as_ref().map(|it| format!("{it} && ")).unwrap_or_default();
                let is_set = if guard.is_empty() || !is_set.contains("||") { is_set } else { format!("({is_set})") };
                writeln!(tagged, "if {guard}{is_set} {{ tagged.add({tag}, |writer| {{ {write} Ok(()) }})?; }}")?;
                let outside = self.condition_not(self.versions(field));
                if let (false, Some(condition)) = (field.ignorable, outside) {
                    writeln!(
                        body,
                        "if {condition} && {} {{ return Err(EncodeError::FieldNotInVersion \
                        {{ owner: \"{owner}\", field: \"{name}\", version }}); }}",
                        self.is_set(field, &value)?
                    )?;
                }
            } else {
                match (self.condition(self.versions(field)), field.ignorable) {
                    (None, _) => writeln!(body, "{write}")?,
                    (Some(condition), true) => writeln!(body, "if {condition} {{ {write} }}")?,
                    (Some(condition), false) => writeln!(body, "if {condition} {{ {write} }} else {refuse}")?,
                }
            }
        }
        if self.has_tags() {
            let section = if tagged.is_empty() {
                "TaggedFields::default().write(writer, &self.unknown_tagged_fields)?;\n".to_owned()
            } else {
                format!(
                    "let mut tagged = TaggedFields::default();\n{tagged}\
                     tagged.write(writer, &self.unknown_tagged_fields)?;\n"
                )
            };
            if self.compact() == "true" {
                body.push_str(&section);
            } else {
                writeln!(
                    body,
                    "if flexible {{ {section} }} else if !self.unknown_tagged_fields.is_empty() {{ \
                     return Err(EncodeError::FieldNotInVersion {{ owner: \"{}\", field: \"unknown_tagged_fields\", \
                     version }}); }}",
                    self.owner.name
                )?;
            }
        }
        Ok(self.with_flexible(format!("{body}Ok(())")))
    }

    fn write(&self, field: &Field, value: &str) -> String {
        let compact = self.compact();
        if !self.is_option(field) {
            return self.write_type(&field.kind, value, false);
        }
        match &field.kind {
            Type::String => format!("wire::put_nullable_string(writer, {value}.as_deref(), {compact})?;"),
            Type::Bytes => format!("wire::put_nullable_bytes(writer, {value}.as_deref(), {compact})?;"),
            Type::Records => format!("wire::put_records(writer, {value}.as_deref(), {compact})?;"),
            Type::Array(element) => format!(
                "wire::put_nullable_array(writer, {value}.as_deref(), {compact}, {})?;",
                self.element_writer(element)
            ),
            _ => {
                // One and nought are the same as varints, which is what marks a tagged field.
                let absent = if field.tag.is_some() { 0 } else { -1 };
                format!(
                    "match &{value} {{ Some(value) => {{ writer.put_i8(1); value.write(writer, version)?; }} \
                     None => writer.put_i8({absent}), }}"
                )
            }
        }
    }

    /// `by_reference`: whether `value` is a reference already.
    fn write_type(&self, kind: &Type, value: &str, by_reference: bool) -> String {
        let compact = self.compact();
        let (reference, plain) = if by_reference {
            (value.to_owned(), format!("*{value}"))
        } else {
            (format!("&{value}"), value.to_owned())
        };
        match kind {
            Type::Bool => format!("wire::put_bool(writer, {plain});"),
            Type::Uuid => format!("writer.put_slice(&{value}.0);"),
            Type::String => format!("wire::put_string(writer, {reference}, {compact})?;"),
            Type::Bytes | Type::Records => format!("wire::put_bytes(writer, {reference}, {compact})?;"),
            Type::Struct(_) => format!("{value}.write(writer, version)?;"),
            Type::Array(element) => {
                format!("wire::put_array(writer, {reference}, {compact}, {})?;", self.element_writer(element))
            }
            _ => format!("writer.put_{}({plain});", primitive(kind)),
        }
    }

    fn element_writer(&self, element: &Type) -> String {
        let write = self.write_type(element, "it", true);
        match write.strip_suffix("?;") {
            Some(expression) => format!("|writer, it| {expression}"),
            None => format!("|writer, it| {{ {write} Ok(()) }}"),
        }
    }

    /// Whether the field differs from its default: an expression.
    fn is_set(&self, field: &Field, value: &str) -> Result<String> {
        if self.default_is_null(field) {
            return Ok(format!("{value}.is_some()"));
        }
        Ok(match &field.kind {
            Type::String | Type::Bytes | Type::Array(_) if self.is_option(field) => {
                format!("{value}.as_ref().is_none_or(|it| !it.is_empty())")
            }
            Type::String | Type::Bytes | Type::Array(_) => format!("!{value}.is_empty()"),
            Type::Uuid => format!("!{value}.is_zero()"),
            Type::Bool if field.default.as_deref() == Some("true") => format!("!{value}"),
            Type::Bool => value.to_owned(),
            _ => format!("{value} != {}", self.default_value(field)?),
        })
    }
}

/// `in versions 3 to 5`, `from version 7`.
fn words(before: &str, versions: Versions, all: Versions) -> String {
    if versions.from == versions.to {
        format!("{before} version {}", versions.from)
    } else if versions.to == all.to {
        format!("{before} versions from {}", versions.from)
    } else {
        format!("{before} versions {} to {}", versions.from, versions.to)
    }
}

fn field_name(field: &Field) -> String {
    let name = snake_case(&field.name);
    if matches!(name.as_str(), "type" | "match" | "use" | "ref" | "move" | "in" | "where") {
        format!("{name}_")
    } else {
        name
    }
}

fn base_type(kind: &Type) -> String {
    match kind {
        Type::String => "String".to_owned(),
        Type::Bytes | Type::Records => "Bytes".to_owned(),
        Type::Uuid => "Uuid".to_owned(),
        Type::Struct(name) => name.clone(),
        Type::Array(element) => format!("Vec<{}>", base_type(element)),
        Type::Bool
        | Type::Int8
        | Type::Int16
        | Type::Int32
        | Type::Int64
        | Type::Uint16
        | Type::Uint32
        | Type::Float64 => primitive(kind).to_owned(),
    }
}

/// Rust's name of a type of fixed size; it is the method's name too.
fn primitive(kind: &Type) -> &'static str {
    match kind {
        Type::Bool => "bool",
        Type::Int8 => "i8",
        Type::Int16 => "i16",
        Type::Int32 => "i32",
        Type::Int64 => "i64",
        Type::Uint16 => "u16",
        Type::Uint32 => "u32",
        Type::Float64 => "f64",
        Type::Uuid => "uuid",
        Type::String | Type::Bytes | Type::Records | Type::Struct(_) | Type::Array(_) => {
            unreachable!("{kind} has no fixed size")
        }
    }
}

fn minimum_bytes(message: &Message, kind: &Type, version: i16) -> usize {
    let flexible = message.flexible.contains(version);
    match kind {
        Type::Bool | Type::Int8 => 1,
        Type::Int16 | Type::Uint16 => 2,
        Type::Int32 | Type::Uint32 => 4,
        Type::Int64 | Type::Float64 => 8,
        Type::Uuid => 16,
        Type::String if !flexible => 2,
        Type::Bytes | Type::Records | Type::Array(_) if !flexible => 4,
        Type::String | Type::Bytes | Type::Records | Type::Array(_) => 1,
        Type::Struct(name) => {
            let fields = message.find(name).map(|it| it.fields.as_slice()).unwrap_or_default();
            let here = fields.iter().filter(|field| field.versions.contains(version) && field.tag.is_none());
            let sum: usize = here
                .map(|field| match &field.kind {
                    Type::Struct(_) if field.nullable.contains(version) => 1,
                    other => minimum_bytes(message, other, version),
                })
                .sum();
            sum + usize::from(flexible)
        }
    }
}
