//! Values as bytes, by the declarations: what is written may be what no schema allows (null where there is none).

use anyhow::{Context, Result, bail, ensure};
use atonce_protocol::wire::put_unsigned_varint;
use atonce_protocol::{RawTaggedField, Reader};
use bytes::{BufMut, Bytes, BytesMut};
use xtask::schema::{Field, Message, Struct, Type, snake_case};

use crate::value::Value;

/// What stands for a field that a question does not mention.
fn default_of(field: &Field) -> Value {
    let default = field.default.as_deref();
    if default == Some("null") {
        return Value::Null;
    }
    match &field.kind {
        Type::Bool => Value::Bool(default == Some("true")),
        Type::Int8 | Type::Int16 | Type::Int32 | Type::Int64 | Type::Uint16 | Type::Uint32 => {
            Value::Int(default.and_then(|it| it.parse().ok()).unwrap_or(0))
        }
        Type::Float64 => Value::Float(0.0),
        Type::String => Value::Text(default.unwrap_or_default().to_owned()),
        Type::Bytes | Type::Records => Value::Bytes(Bytes::new()),
        Type::Uuid => Value::Uuid([0; 16]),
        Type::Struct(_) => Value::Fields(Vec::new()),
        Type::Array(_) => Value::List(Vec::new()),
    }
}

/// Stands beside a topic's name in a question: its id, for versions that name topics by their ids.
pub const KNOWN_TOPIC_ID: &str = "known topic id";

/// The fields of `owner` that `version` has.
fn fields_in(owner: &Struct, version: i16) -> impl Iterator<Item = &Field> {
    owner.fields.iter().filter(move |field| field.versions.contains(version))
}

/// `value` with all fields that `version` has and no other, what was not mentioned at its default.
///
/// Errors: it names a field that no version has.
pub fn complete(message: &Message, version: i16, value: &Value) -> Result<Value> {
    complete_struct(message, message.root(), version, value)
}

fn complete_struct(message: &Message, owner: &Struct, version: i16, value: &Value) -> Result<Value> {
    let Value::Fields(given) = value else { bail!("{} wants fields, not {value}", owner.name) };
    for (name, _) in given.iter().filter(|(name, _)| name != KNOWN_TOPIC_ID) {
        ensure!(
            owner.fields.iter().any(|field| snake_case(&field.name) == *name),
            "{} has no field {name}; it has: {}",
            owner.name,
            owner.fields.iter().map(|field| snake_case(&field.name)).collect::<Vec<_>>().join(", ")
        );
    }
    let is_named = fields_in(owner, version).any(|field| matches!(field.name.as_str(), "Name" | "Topic"));
    let fields = fields_in(owner, version).map(|field| {
        let name = snake_case(&field.name);
        let known_id = value.field(KNOWN_TOPIC_ID).filter(|_| name == "topic_id" && !is_named);
        let value = value.field(&name).or(known_id).cloned().unwrap_or_else(|| default_of(field));
        Ok((name, complete_value(message, &field.kind, version, value)?))
    });
    Ok(Value::Fields(fields.collect::<Result<_>>()?))
}

fn complete_value(message: &Message, kind: &Type, version: i16, value: Value) -> Result<Value> {
    Ok(match (kind, value) {
        (Type::Struct(name), value @ Value::Fields(_)) => {
            let inner = message.find(name).context("a struct is declared")?;
            complete_struct(message, inner, version, &value)?
        }
        (Type::Array(element), Value::List(elements)) => {
            let elements = elements.into_iter().map(|it| complete_value(message, element, version, it));
            Value::List(elements.collect::<Result<_>>()?)
        }
        (_, value) => value,
    })
}

/// Writes `value`, which [`complete`] has made whole, as a message of `version`.
pub fn encode(message: &Message, version: i16, value: &Value, out: &mut BytesMut) -> Result<()> {
    let writer = Writer { message, version, flexible: message.flexible.contains(version) };
    writer.structure(message.root(), value, out)
}

struct Writer<'a> {
    message: &'a Message,
    version: i16,
    flexible: bool,
}

impl Writer<'_> {
    fn structure(&self, owner: &Struct, value: &Value, out: &mut BytesMut) -> Result<()> {
        let mut tagged = Vec::new();
        for field in fields_in(owner, self.version) {
            let name = snake_case(&field.name);
            let value = value.field(&name).with_context(|| format!("{name} was not completed"))?;
            match field.tag.filter(|(_, versions)| versions.contains(self.version)) {
                None => self.field(field, value, out).with_context(|| name.clone())?,
                Some((tag, _)) if *value != default_of(field) => {
                    let mut bytes = BytesMut::new();
                    self.field(field, value, &mut bytes).with_context(|| name.clone())?;
                    tagged.push((tag, bytes));
                }
                Some(_) => {}
            }
        }
        if self.flexible {
            tagged.sort_by_key(|(tag, _)| *tag);
            put_unsigned_varint(out, u32::try_from(tagged.len())?);
            for (tag, bytes) in tagged {
                put_unsigned_varint(out, tag);
                put_unsigned_varint(out, u32::try_from(bytes.len())?);
                out.put(bytes);
            }
        }
        Ok(())
    }

    fn field(&self, field: &Field, value: &Value, out: &mut BytesMut) -> Result<()> {
        let is_nullable_struct = matches!(field.kind, Type::Struct(_)) && field.nullable.contains(self.version);
        if is_nullable_struct && *value != Value::Null {
            out.put_i8(1);
        }
        self.value(&field.kind, value, out)
    }

    #[expect(clippy::cast_possible_truncation, reason = "a number that does not fit is cut, as a faulty client would")]
    fn value(&self, kind: &Type, value: &Value, out: &mut BytesMut) -> Result<()> {
        match (kind, value) {
            (Type::Struct(_), Value::Null) => out.put_i8(-1),
            (Type::String | Type::Bytes | Type::Records | Type::Array(_), Value::Null) if self.flexible => {
                out.put_u8(0)
            }
            (Type::String, Value::Null) => out.put_i16(-1),
            (Type::Bytes | Type::Records | Type::Array(_), Value::Null) => out.put_i32(-1),
            (Type::Bool, Value::Bool(value)) => out.put_u8(u8::from(*value)),
            (Type::Int8, Value::Int(value)) => out.put_i8(*value as i8),
            (Type::Int16 | Type::Uint16, Value::Int(value)) => out.put_i16(*value as i16),
            (Type::Int32 | Type::Uint32, Value::Int(value)) => out.put_i32(*value as i32),
            (Type::Int64, Value::Int(value)) => out.put_i64(*value),
            (Type::Float64, Value::Float(value)) => out.put_f64(*value),
            (Type::Uuid, Value::Uuid(value)) => out.put_slice(value),
            (Type::String, Value::Text(text)) => {
                self.length(text.len(), true, out)?;
                out.put_slice(text.as_bytes());
            }
            (Type::Bytes | Type::Records, Value::Bytes(bytes)) => {
                self.length(bytes.len(), false, out)?;
                out.put_slice(bytes);
            }
            (Type::Bytes | Type::Records, Value::Text(text)) => {
                self.length(text.len(), false, out)?;
                out.put_slice(text.as_bytes());
            }
            (Type::Array(element), Value::List(elements)) => {
                self.length(elements.len(), false, out)?;
                elements.iter().try_for_each(|it| self.value(element, it, out))?;
            }
            (Type::Struct(name), value @ Value::Fields(_)) => {
                let inner = self.message.find(name).context("a struct is declared")?;
                self.structure(inner, value, out)?;
            }
            (kind, value) => bail!("{value} is no {kind}"),
        }
        Ok(())
    }

    fn length(&self, length: usize, short: bool, out: &mut BytesMut) -> Result<()> {
        if self.flexible {
            put_unsigned_varint(out, u32::try_from(length)? + 1);
        } else if short {
            out.put_i16(i16::try_from(length)?);
        } else {
            out.put_i32(i32::try_from(length)?);
        }
        Ok(())
    }
}

/// Reads a message of `version`, and leaves `reader` behind it.
pub fn decode(message: &Message, version: i16, reader: &mut Reader) -> Result<Value> {
    decode_struct(message, message.root(), version, reader)
}

fn decode_struct(message: &Message, owner: &Struct, version: i16, reader: &mut Reader) -> Result<Value> {
    let flexible = message.flexible.contains(version);
    let is_tagged = |field: &Field| field.tag.is_some_and(|(_, versions)| versions.contains(version));
    let mut fields: Vec<(String, Value)> = Vec::new();
    for field in fields_in(owner, version).filter(|field| !is_tagged(field)) {
        fields.push((snake_case(&field.name), decode_field(message, field, version, reader)?));
    }
    if flexible {
        let mut raw: Vec<RawTaggedField> = Vec::new();
        reader.tagged_fields(&mut raw, |_, _| Ok(false))?;
        for field in fields_in(owner, version).filter(|field| is_tagged(field)) {
            let tag = field.tag.map(|(tag, _)| tag);
            let value = match raw.iter().position(|it| Some(it.tag) == tag) {
                Some(place) => {
                    let mut inner = Reader::new(raw.remove(place).data);
                    let value = decode_field(message, field, version, &mut inner)?;
                    inner.finish()?;
                    value
                }
                None => default_of(field),
            };
            fields.push((snake_case(&field.name), value));
        }
        for unknown in raw {
            fields.push((format!("unknown_tag_{}", unknown.tag), Value::Bytes(unknown.data)));
        }
    }
    Ok(Value::Fields(fields))
}

fn decode_field(message: &Message, field: &Field, version: i16, reader: &mut Reader) -> Result<Value> {
    if matches!(field.kind, Type::Struct(_)) && field.nullable.contains(version) && !reader.is_present()? {
        return Ok(Value::Null);
    }
    decode_value(message, &field.kind, version, reader)
}

fn decode_value(message: &Message, kind: &Type, version: i16, reader: &mut Reader) -> Result<Value> {
    let flexible = message.flexible.contains(version);
    Ok(match kind {
        Type::Bool => Value::Bool(reader.bool()?),
        Type::Int8 => Value::Int(reader.i8()?.into()),
        Type::Int16 => Value::Int(reader.i16()?.into()),
        Type::Uint16 => Value::Int(reader.u16()?.into()),
        Type::Int32 => Value::Int(reader.i32()?.into()),
        Type::Uint32 => Value::Int(reader.u32()?.into()),
        Type::Int64 => Value::Int(reader.i64()?),
        Type::Float64 => Value::Float(reader.f64()?),
        Type::Uuid => Value::Uuid(reader.uuid()?.0),
        Type::String => reader.nullable_string(flexible)?.map_or(Value::Null, Value::Text),
        Type::Bytes | Type::Records => reader.nullable_bytes(flexible)?.map_or(Value::Null, Value::Bytes),
        Type::Struct(name) => {
            let inner = message.find(name).context("a struct is declared")?;
            decode_struct(message, inner, version, reader)?
        }
        Type::Array(element) => {
            let count = array_count(flexible, reader)?;
            match count {
                None => Value::Null,
                Some(count) => {
                    let elements = (0..count).map(|_| decode_value(message, element, version, reader));
                    Value::List(elements.collect::<Result<_>>()?)
                }
            }
        }
    })
}

fn array_count(flexible: bool, reader: &mut Reader) -> Result<Option<usize>> {
    let count = if flexible { i64::from(reader.unsigned_varint()?) - 1 } else { i64::from(reader.i32()?) };
    match count {
        -1 => Ok(None),
        count => Ok(Some(usize::try_from(count).with_context(|| format!("{count} elements"))?)),
    }
}

/// Whether `value` is what a field holds that nobody set.
#[must_use]
pub fn is_default(field: &Field, value: &Value) -> bool {
    *value == default_of(field)
}
