//! A question, and all that can be wrong with it: each field in turn takes every value that is worth a try.

use xtask::schema::{Field, Message, Struct, Type, snake_case};

use crate::records::FAULTS;
use crate::value::Value;

/// A question that differs from the given one in one place.
#[derive(Clone, Debug)]
pub struct Variation {
    /// What differs: `topics.0.name=null`.
    pub label: String,
    /// The question.
    pub request: Value,
    /// What is done to its bytes.
    pub cut: Cut,
}

/// What becomes of a question's bytes on the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// Nothing.
    Whole,
    /// The last byte is missing.
    ByOne,
    /// All behind the header is missing.
    ToHeader,
    /// Three bytes follow that nobody expects.
    Longer,
}

/// Names that the one who asks makes longer, or odd.
pub const ODD: &str = "odd";
/// See [`ODD`].
pub const LONG: &str = "long";

/// How far from a producer's id another lies that is surely nobody's: the next one belongs to whoever asked next.
const FAR: i64 = 1_000_000_000;

/// All variations of a whole `request`; paths that begin like one of `except` are left alone.
#[must_use]
pub fn variations(message: &Message, version: i16, request: &Value, except: &[String]) -> Vec<Variation> {
    let mut found = vec![Variation { label: "as it is".to_owned(), request: request.clone(), cut: Cut::Whole }];
    let mut places = Vec::new();
    places_in_struct(message, message.root(), version, request, "", &mut places);
    for (path, what, value) in places {
        if except.iter().any(|left_alone| {
            format!("{path}={what}") == *left_alone
                || path == *left_alone
                || path.starts_with(&format!("{left_alone}."))
        }) {
            continue;
        }
        let mut changed = request.clone();
        if replace(&mut changed, &path, value) && changed != *request {
            found.push(Variation { label: format!("{path}={what}"), request: changed, cut: Cut::Whole });
        }
    }
    for (label, cut) in [("cut by one", Cut::ByOne), ("cut to the header", Cut::ToHeader), ("longer", Cut::Longer)] {
        if !except.iter().any(|left_alone| left_alone == "bytes") {
            found.push(Variation { label: label.to_owned(), request: request.clone(), cut });
        }
    }
    found
}

type Places = Vec<(String, String, Value)>;

fn places_in_struct(message: &Message, owner: &Struct, version: i16, value: &Value, prefix: &str, places: &mut Places) {
    for field in owner.fields.iter().filter(|field| field.versions.contains(version)) {
        let name = snake_case(&field.name);
        let Some(inner) = value.field(&name) else { continue };
        places_in_field(message, field, version, inner, &format!("{prefix}{name}"), places);
    }
}

fn places_in_field(message: &Message, field: &Field, version: i16, value: &Value, path: &str, places: &mut Places) {
    places_in_value(message, &field.kind, version, value, path, places);
    let has_null = matches!(field.kind, Type::String | Type::Bytes | Type::Records | Type::Array(_))
        || field.nullable.contains(version);
    if has_null {
        places.push((path.to_owned(), "null".to_owned(), Value::Null));
    }
}

fn places_in_value(message: &Message, kind: &Type, version: i16, value: &Value, path: &str, places: &mut Places) {
    let of_a_producer = path.contains("producer_id");
    let mut add = |what: String, value: Value| places.push((path.to_owned(), what, value));
    let mut numbers = |least: i64, most: i64| {
        for number in [-2, -1, 0, 1] {
            if number >= least {
                add(number.to_string(), Value::Int(number));
            }
        }
        add("least".to_owned(), Value::Int(least));
        add("most".to_owned(), Value::Int(most));
        if let Value::Int(number) = value
            && *number > 1
            && *number < most
        {
            if of_a_producer {
                add("far off".to_owned(), Value::Int(number + FAR));
            } else {
                add("one more".to_owned(), Value::Int(number + 1));
            }
        }
    };
    match kind {
        Type::Bool => {
            if let Value::Bool(given) = value {
                add((!given).to_string(), Value::Bool(!given));
            }
        }
        Type::Int8 => numbers(i8::MIN.into(), i8::MAX.into()),
        Type::Int16 => numbers(i16::MIN.into(), i16::MAX.into()),
        Type::Uint16 => numbers(0, u16::MAX.into()),
        Type::Int32 => numbers(i32::MIN.into(), i32::MAX.into()),
        Type::Uint32 => numbers(0, u32::MAX.into()),
        Type::Int64 => numbers(i64::MIN, i64::MAX),
        Type::Float64 => add("-1".to_owned(), Value::Float(-1.0)),
        Type::String => {
            add("empty".to_owned(), Value::Text(String::new()));
            for name in ["unknown", ODD, LONG] {
                add(name.to_owned(), Value::Name(name.to_owned()));
            }
        }
        Type::Uuid => {
            add("zero".to_owned(), Value::Uuid([0; 16]));
            add("unknown".to_owned(), Value::Uuid(*b"nobody has this."));
        }
        Type::Bytes => {
            add("empty".to_owned(), Value::Bytes(bytes::Bytes::new()));
            add("odd".to_owned(), Value::Text("odd".to_owned()));
        }
        Type::Records => {
            add("empty".to_owned(), Value::Bytes(bytes::Bytes::new()));
            add("odd".to_owned(), Value::Text("neither head nor tail".to_owned()));
            if let Value::Batch(description) = value
                && let Value::Fields(fields) = description.as_ref()
            {
                for fault in FAULTS {
                    let mut fields = fields.clone();
                    fields.push(("fault".to_owned(), Value::Text((*fault).to_owned())));
                    add((*fault).to_owned(), Value::Batch(Box::new(Value::Fields(fields))));
                }
            }
        }
        Type::Struct(name) => {
            if let Some(inner) = message.find(name) {
                places_in_struct(message, inner, version, value, &format!("{path}."), places);
            }
        }
        Type::Array(element) => {
            let Value::List(elements) = value else { return };
            add("[]".to_owned(), Value::List(Vec::new()));
            if let Some(first) = elements.first() {
                let doubled = [std::slice::from_ref(first), elements].concat();
                add("doubled".to_owned(), Value::List(doubled));
                places_in_value(message, element, version, first, &format!("{path}.0"), places);
            }
        }
    }
}

/// Puts `value` at `path`; false if there is no such place.
fn replace(whole: &mut Value, path: &str, value: Value) -> bool {
    let mut place = whole;
    for step in path.split('.') {
        let next = match place {
            Value::Fields(fields) => fields.iter_mut().find(|(name, _)| name == step).map(|(_, value)| value),
            Value::List(elements) => step.parse::<usize>().ok().and_then(|index| elements.get_mut(index)),
            _ => None,
        };
        match next {
            Some(next) => place = next,
            None => return false,
        }
    }
    *place = value;
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::apis::Apis;
    use crate::codec::complete;

    #[test]
    fn each_field_of_the_version_is_varied_and_no_other() {
        let apis = Apis::read().expect("the declarations are there");
        let message = &apis.get("EndTxn").expect("declared").request;
        let request =
            Value::parse("{transactional_id: t, producer_id: 5, producer_epoch: 0, committed: true}").expect("reads");
        let request = complete(message, 0, &request).expect("its fields are declared");
        let labels: Vec<String> =
            variations(message, 0, &request, &["producer_id".to_owned()]).into_iter().map(|it| it.label).collect();
        assert!(labels.contains(&"transactional_id=null".to_owned()), "{labels:?}");
        assert!(labels.contains(&"producer_epoch=most".to_owned()), "{labels:?}");
        assert!(labels.contains(&"committed=false".to_owned()), "{labels:?}");
        assert!(!labels.contains(&"producer_epoch=0".to_owned()), "that is what it was: {labels:?}");
        assert!(!labels.iter().any(|label| label.starts_with("producer_id")), "{labels:?}");
    }
}
