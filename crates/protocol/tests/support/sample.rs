//! Random messages as bytes, written from the declarations alone: a second, independent reading of them,
//! which shares no line with the generated code.

use atonce_kernel::chance::Chance;
use xtask::schema::{Field, Message, Struct, Type};

/// The bytes of a message in which every field that the version has is given, null, or long, by chance.
pub(crate) fn sample(message: &Message, version: i16, chance: &mut Chance) -> Vec<u8> {
    let mut sampler = Sampler { message, version, flexible: message.flexible.contains(version), chance };
    let mut out = Vec::new();
    sampler.structure(message.root(), false, &mut out);
    out
}

struct Sampler<'a> {
    message: &'a Message,
    version: i16,
    flexible: bool,
    chance: &'a mut Chance,
}

impl Sampler<'_> {
    /// `is_set`: the first field differs from its default, because encoders leave out tagged structs that do not.
    fn structure(&mut self, owner: &Struct, mut is_set: bool, out: &mut Vec<u8>) {
        let here: Vec<&Field> = owner.fields.iter().filter(|it| it.versions.contains(self.version)).collect();
        for field in here.iter().filter(|it| it.tag.is_none()) {
            self.field(field, is_set, out);
            is_set = false;
        }
        if !self.flexible {
            return;
        }
        let mut tagged: Vec<(u32, Vec<u8>)> = Vec::new();
        for field in here {
            if let Some((tag, _)) = field.tag
                && (is_set || self.chance.one_in(2, 3))
            {
                let mut value = Vec::new();
                self.field(field, true, &mut value);
                tagged.push((tag, value));
            }
        }
        if self.chance.one_in(1, 10) {
            let unknown = self.bytes(9);
            tagged.push((1000 + self.small(100_000), unknown));
        }
        tagged.sort();
        self.varint(u32::try_from(tagged.len()).unwrap(), out);
        for (tag, value) in tagged {
            self.varint(tag, out);
            self.varint(u32::try_from(value.len()).unwrap(), out);
            out.extend(value);
        }
    }

    fn field(&mut self, field: &Field, is_set: bool, out: &mut Vec<u8>) {
        let nullable = field.nullable.contains(self.version);
        if nullable && !is_set && self.chance.one_in(1, 4) {
            return self.null(&field.kind, out);
        }
        if nullable && matches!(field.kind, Type::Struct(_)) {
            out.push(1);
        }
        let default = field.default.as_deref().and_then(|it| it.parse().ok()).unwrap_or(0);
        let is_true = field.default.as_deref() == Some("true");
        match (&field.kind, is_set) {
            (Type::Bool, true) => out.push(u8::from(!is_true)),
            (kind, _) => self.value(kind, is_set, default, out),
        }
    }

    fn null(&mut self, kind: &Type, out: &mut Vec<u8>) {
        match kind {
            Type::Struct(_) => out.push(0xff),
            _ if self.flexible => out.push(0),
            Type::String => out.extend((-1_i16).to_be_bytes()),
            _ => out.extend((-1_i32).to_be_bytes()),
        }
    }

    fn value(&mut self, kind: &Type, is_set: bool, default: i64, out: &mut Vec<u8>) {
        match kind {
            Type::Bool => out.push(u8::from(self.chance.one_in(1, 2))),
            Type::Int8 => out.extend((self.number(default) as i8).to_be_bytes()),
            Type::Int16 => out.extend((self.number(default) as i16).to_be_bytes()),
            Type::Uint16 => out.extend((self.number(default) as u16).to_be_bytes()),
            Type::Int32 => out.extend((self.number(default) as i32).to_be_bytes()),
            Type::Uint32 => out.extend((self.number(default) as u32).to_be_bytes()),
            Type::Int64 => out.extend(self.number(default).to_be_bytes()),
            Type::Float64 => out.extend((self.small(1000) as f64 / 8.0 + 1.0).to_be_bytes()),
            Type::Uuid => out.extend(self.chance.uuid().0),
            Type::String => {
                let text = self.text(is_set);
                self.length(text.len(), true, out);
                out.extend(text.as_bytes());
            }
            Type::Bytes | Type::Records => {
                let mut bytes = self.bytes(300);
                if is_set && bytes.is_empty() {
                    bytes.push(7);
                }
                self.length(bytes.len(), false, out);
                out.extend(bytes);
            }
            Type::Struct(name) => {
                let message = self.message;
                self.structure(message.find(name).expect("declared"), is_set, out);
            }
            Type::Array(element) => {
                let count = (self.small(4) + u32::from(is_set)) as usize;
                self.length(count, false, out);
                for _ in 0..count {
                    self.value(element, false, 0, out);
                }
            }
        }
    }

    /// Any number but the default, and none whose lower bytes are those of the default.
    fn number(&mut self, default: i64) -> i64 {
        loop {
            let number = self.chance.next_u64() as i64;
            if number as i8 != default as i8 {
                return number;
            }
        }
    }

    fn small(&mut self, bound: u64) -> u32 {
        u32::try_from(self.chance.below(bound)).unwrap()
    }

    fn text(&mut self, is_set: bool) -> String {
        const LETTERS: [char; 6] = ['a', 'Z', '-', 'é', '語', '🦀'];
        // Often short, sometimes so long that its compact length takes two bytes.
        let longest = if self.chance.one_in(1, 10) { 300 } else { 10 };
        let count = self.chance.below(longest) + u64::from(is_set);
        (0..count).map(|_| LETTERS[self.chance.below(6) as usize]).collect()
    }

    fn bytes(&mut self, longest: u64) -> Vec<u8> {
        (0..self.chance.below(longest)).map(|_| self.chance.next_u64() as u8).collect()
    }

    fn length(&mut self, length: usize, short: bool, out: &mut Vec<u8>) {
        let length = u32::try_from(length).unwrap();
        if self.flexible {
            self.varint(length + 1, out);
        } else if short {
            out.extend(u16::try_from(length).unwrap().to_be_bytes());
        } else {
            out.extend(length.to_be_bytes());
        }
    }

    fn varint(&mut self, mut value: u32, out: &mut Vec<u8>) {
        while value >= 0x80 {
            out.push(value as u8 | 0x80);
            value >>= 7;
        }
        out.push(value as u8);
    }
}
