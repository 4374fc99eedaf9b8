//! Fixed-width fields, big-endian, in and out of byte strings that may be too short.
//!
//! Nothing here panics: a field that is not there is `None`, and the caller says what that means.

use bytes::{BufMut, BytesMut};

/// Reads fields one after the other. Once a field was missing, all later ones are too.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    pub(crate) fn of(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(crate) fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let Some((taken, rest)) = self.rest.split_at_checked(count) else {
            self.rest = &[];
            return None;
        };
        self.rest = rest;
        Some(taken)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N).and_then(|taken| taken.try_into().ok())
    }

    pub(crate) fn u8(&mut self) -> Option<u8> {
        self.array().map(u8::from_be_bytes)
    }

    pub(crate) fn i8(&mut self) -> Option<i8> {
        self.array().map(i8::from_be_bytes)
    }

    pub(crate) fn i16(&mut self) -> Option<i16> {
        self.array().map(i16::from_be_bytes)
    }

    pub(crate) fn i32(&mut self) -> Option<i32> {
        self.array().map(i32::from_be_bytes)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    pub(crate) fn i64(&mut self) -> Option<i64> {
        self.array().map(i64::from_be_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }

    /// A length of 32 bits, then that many bytes.
    pub(crate) fn counted(&mut self) -> Option<&'a [u8]> {
        let count = usize::try_from(self.u32()?).ok()?;
        self.take(count)
    }

    /// Counted bytes that are UTF-8.
    pub(crate) fn text(&mut self) -> Option<&'a str> {
        std::str::from_utf8(self.counted()?).ok()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub(crate) fn rest(&self) -> &'a [u8] {
        self.rest
    }
}

/// Appends a length of 32 bits, then the bytes.
///
/// Panics: at 4 GiB, which no caller can hold.
pub(crate) fn put_counted(buffer: &mut BytesMut, bytes: &[u8]) {
    buffer.put_u32(u32::try_from(bytes.len()).expect("names, settings and batches are below 4 GiB"));
    buffer.put_slice(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_field_is_none_and_so_is_all_after_it() {
        let mut fields = Fields::of(&[0, 0, 0, 9, 1]);
        assert_eq!(fields.counted(), None);
        assert_eq!(fields.u8(), None);
    }
}
