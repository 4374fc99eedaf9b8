//! Types that carry their bytes: [`Wire`], implemented by the value, so that no call names a serde that its types already say.
//!
//! Layout: as Kafka's own serializers write them, so that a JVM application reads ours and the other way round: text in UTF-8,
//! integers and floats big-endian, null for `()` and for `None`.

use bytes::Bytes;

/// A key or value that knows its bytes. `None` is Kafka's null: no key, or a tombstone.
pub trait Wire: Clone + Send + 'static {
    /// The bytes, or null.
    fn encode(&self) -> Option<Bytes>;

    /// From the bytes, or null.
    ///
    /// Errors: the bytes are not this type's; the error says what was expected.
    fn decode(bytes: Option<&[u8]>) -> Result<Self, WireError>;

    /// From bytes that may be shared instead of copied.
    fn decode_shared(bytes: Option<Bytes>) -> Result<Self, WireError> {
        Self::decode(bytes.as_deref())
    }

    /// Whether the bytes would be null; cheaper than to make them.
    fn is_null(&self) -> bool {
        self.encode().is_none()
    }
}

/// Bytes that are not what their type says.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WireError {
    /// Null where a value must be.
    #[error(
        "null is no {expected}; a stream whose records may have none has the type Option<{expected}>, or () for always none"
    )]
    Null {
        /// The type that was asked for.
        expected: &'static str,
    },
    /// A number of another width.
    #[error("{found} bytes are no {expected}, which has {width}")]
    Width {
        /// The type that was asked for.
        expected: &'static str,
        /// Its bytes.
        width: usize,
        /// The bytes that came.
        found: usize,
    },
    /// Text that is not UTF-8.
    #[error("text is not UTF-8 after {valid} bytes; Bytes takes any")]
    NotText {
        /// Bytes before the first wrong one.
        valid: usize,
    },
    /// For types of one's own: what is wrong, in words.
    #[error("{0}")]
    Other(String),
}

impl Wire for String {
    fn encode(&self) -> Option<Bytes> {
        Some(Bytes::copy_from_slice(self.as_bytes()))
    }

    fn decode(bytes: Option<&[u8]>) -> Result<Self, WireError> {
        let bytes = bytes.ok_or(WireError::Null { expected: "String" })?;
        match std::str::from_utf8(bytes) {
            Ok(text) => Ok(text.to_owned()),
            Err(error) => Err(WireError::NotText { valid: error.valid_up_to() }),
        }
    }

    fn is_null(&self) -> bool {
        false
    }
}

impl Wire for Bytes {
    fn encode(&self) -> Option<Bytes> {
        Some(self.clone())
    }

    fn decode(bytes: Option<&[u8]>) -> Result<Self, WireError> {
        bytes.map(Self::copy_from_slice).ok_or(WireError::Null { expected: "Bytes" })
    }

    fn decode_shared(bytes: Option<Bytes>) -> Result<Self, WireError> {
        bytes.ok_or(WireError::Null { expected: "Bytes" })
    }

    fn is_null(&self) -> bool {
        false
    }
}

impl Wire for Vec<u8> {
    fn encode(&self) -> Option<Bytes> {
        Some(Bytes::copy_from_slice(self))
    }

    fn decode(bytes: Option<&[u8]>) -> Result<Self, WireError> {
        bytes.map(<[u8]>::to_vec).ok_or(WireError::Null { expected: "Vec<u8>" })
    }

    fn is_null(&self) -> bool {
        false
    }
}

/// Always null. Bytes where none should be are an error: to look away from keys is a choice, `Option<Bytes>` says it.
impl Wire for () {
    fn encode(&self) -> Option<Bytes> {
        None
    }

    fn decode(bytes: Option<&[u8]>) -> Result<Self, WireError> {
        match bytes {
            None => Ok(()),
            Some(bytes) => Err(WireError::Width { expected: "() (null)", width: 0, found: bytes.len() }),
        }
    }
}

/// `None` is null. (`Option<()>` and `Option<Option<T>>` cannot tell their two nulls apart: both read as `None`.)
impl<T: Wire> Wire for Option<T> {
    fn encode(&self) -> Option<Bytes> {
        self.as_ref().and_then(T::encode)
    }

    fn decode(bytes: Option<&[u8]>) -> Result<Self, WireError> {
        bytes.map(|bytes| T::decode(Some(bytes))).transpose()
    }

    fn decode_shared(bytes: Option<Bytes>) -> Result<Self, WireError> {
        bytes.map(|bytes| T::decode_shared(Some(bytes))).transpose()
    }

    fn is_null(&self) -> bool {
        self.as_ref().is_none_or(T::is_null)
    }
}

macro_rules! number {
    ($($type:ident),+) => {$(
        impl Wire for $type {
            fn encode(&self) -> Option<Bytes> {
                Some(Bytes::copy_from_slice(&self.to_be_bytes()))
            }

            fn decode(bytes: Option<&[u8]>) -> Result<Self, WireError> {
                let bytes = bytes.ok_or(WireError::Null { expected: stringify!($type) })?;
                let width = size_of::<$type>();
                let bytes = bytes
                    .try_into()
                    .map_err(|_| WireError::Width { expected: stringify!($type), width, found: bytes.len() })?;
                Ok(Self::from_be_bytes(bytes))
            }

            fn is_null(&self) -> bool {
                false
            }
        }
    )+};
}

number!(i8, i16, i32, i64, i128, u8, u16, u32, u64, u128, f32, f64);

/// A value as JSON text. Null and JSON's `null` are two things: `Option<Json<T>>` is null where there is nothing.
#[cfg(feature = "json")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Json<T>(pub T);

#[cfg(feature = "json")]
impl<T: serde::Serialize + serde::de::DeserializeOwned + Clone + Send + 'static> Wire for Json<T> {
    /// Panics: if the type has no JSON (a map whose keys are neither text nor numbers, say), whatever its value.
    fn encode(&self) -> Option<Bytes> {
        let text = serde_json::to_vec(&self.0).expect("the type of a key or value can be written as JSON");
        Some(Bytes::from(text))
    }

    fn decode(bytes: Option<&[u8]>) -> Result<Self, WireError> {
        let bytes = bytes.ok_or(WireError::Null { expected: "Json" })?;
        serde_json::from_slice(bytes)
            .map(Self)
            .map_err(|error| WireError::Other(format!("no JSON of this type: {error}")))
    }

    fn is_null(&self) -> bool {
        false
    }
}

/// A value in postcard's compact binary form, for topics that only Rust reads. Fields have no names there: to add one is to change the form.
#[cfg(feature = "postcard")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Postcard<T>(pub T);

#[cfg(feature = "postcard")]
impl<T: serde::Serialize + serde::de::DeserializeOwned + Clone + Send + 'static> Wire for Postcard<T> {
    /// Panics: if the type cannot be written in this form (a sequence that does not know its length, say), whatever its value.
    fn encode(&self) -> Option<Bytes> {
        let bytes = postcard::to_stdvec(&self.0).expect("the type of a key or value can be written by postcard");
        Some(Bytes::from(bytes))
    }

    fn decode(bytes: Option<&[u8]>) -> Result<Self, WireError> {
        let bytes = bytes.ok_or(WireError::Null { expected: "Postcard" })?;
        match postcard::take_from_bytes(bytes) {
            Ok((value, [])) => Ok(Self(value)),
            Ok((_, rest)) => {
                Err(WireError::Other(format!("{} bytes are left over after a value of this type", rest.len())))
            }
            Err(error) => Err(WireError::Other(format!("no postcard of this type: {error}"))),
        }
    }

    fn is_null(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(all(feature = "json", feature = "postcard"))]
    #[test]
    fn types_of_serde_read_back_and_other_bytes_are_refused() {
        let order = ("ann".to_owned(), 3_u32);
        assert_eq!(Json(order.clone()).encode().as_deref(), Some(&br#"["ann",3]"#[..]));
        assert_eq!(Json::decode(Some(br#"["ann",3]"#)), Ok(Json(order.clone())));
        assert_eq!(
            Json::<(String, u32)>::decode(Some(b"[1,2]")).unwrap_err().to_string(),
            "no JSON of this type: invalid type: integer `1`, expected a string at line 1 column 2"
        );
        let bytes = Postcard(order.clone()).encode().unwrap();
        assert_eq!(bytes.as_ref(), b"\x03ann\x03");
        assert_eq!(Postcard::decode(Some(&bytes)), Ok(Postcard(order)));
        assert_eq!(
            Postcard::<(String, u32)>::decode(Some(b"\x03ann\x03\x00")).unwrap_err().to_string(),
            "1 bytes are left over after a value of this type"
        );
        assert!(Postcard::<(String, u32)>::decode(Some(b"\x03an")).is_err());
        assert_eq!(Option::<Json<u8>>::decode(None), Ok(None));
    }

    #[test]
    fn numbers_are_big_endian_as_kafka_writes_them() {
        assert_eq!(1_i64.encode().unwrap().as_ref(), [0, 0, 0, 0, 0, 0, 0, 1]);
        assert_eq!(i64::decode(Some(&[0xff; 8])), Ok(-1));
        assert_eq!(i32::decode(Some(&[0; 3])), Err(WireError::Width { expected: "i32", width: 4, found: 3 }));
    }

    #[test]
    fn null_is_none_and_nothing_else() {
        assert_eq!(None::<String>.encode(), None);
        assert_eq!(Option::<String>::decode(None), Ok(None));
        assert_eq!(Option::<String>::decode(Some(b"")), Ok(Some(String::new())));
        assert_eq!(String::decode(None), Err(WireError::Null { expected: "String" }));
        assert_eq!(<()>::decode(None), Ok(()));
        assert!(<()>::decode(Some(b"")).is_err());
        assert!(().is_null() && None::<i32>.is_null() && !Some(1).is_null());
    }

    #[test]
    fn text_that_is_not_utf8_is_an_error_and_not_replaced() {
        assert_eq!(String::decode(Some(b"ab\xff")), Err(WireError::NotText { valid: 2 }));
    }
}
