//! Numbers of variable length inside records: zigzag, seven bits to a byte, the low ones first.

use bytes::{BufMut, BytesMut};

/// Reads from the front of a slice. `None` is: too short, or too long a number.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cursor<'a> {
    pub(super) bytes: &'a [u8],
}

impl<'a> Cursor<'a> {
    #[inline]
    pub(super) fn varint(&mut self) -> Option<i32> {
        let wide = self.unsigned(5)?;
        let narrow = u32::try_from(wide).ok()?;
        Some(((narrow >> 1) as i32) ^ -((narrow & 1) as i32))
    }

    #[inline]
    pub(super) fn varlong(&mut self) -> Option<i64> {
        let value = self.unsigned(10)?;
        Some(((value >> 1) as i64) ^ -((value & 1) as i64))
    }

    #[inline]
    fn unsigned(&mut self, bytes_max: usize) -> Option<u64> {
        let (&first, rest) = self.bytes.split_first()?;
        if first < 0x80 {
            self.bytes = rest;
            return Some(u64::from(first));
        }
        self.unsigned_long(bytes_max)
    }

    fn unsigned_long(&mut self, bytes_max: usize) -> Option<u64> {
        let mut value = 0_u64;
        for (index, &byte) in self.bytes.iter().take(bytes_max).enumerate() {
            let shift = 7 * index;
            // The tenth byte has room for one bit.
            if shift == 63 && byte > 1 {
                return None;
            }
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                self.bytes = self.bytes.get(index + 1..)?;
                return Some(value);
            }
        }
        None
    }

    #[inline]
    pub(super) fn byte(&mut self) -> Option<u8> {
        let (&first, rest) = self.bytes.split_first()?;
        self.bytes = rest;
        Some(first)
    }

    /// The next `length` bytes; a negative length is refused.
    #[inline]
    pub(super) fn take(&mut self, length: i32) -> Option<&'a [u8]> {
        let (taken, rest) = self.bytes.split_at_checked(usize::try_from(length).ok()?)?;
        self.bytes = rest;
        Some(taken)
    }

    /// A length and as many bytes; -1 is null.
    #[inline]
    pub(super) fn nullable_bytes(&mut self) -> Option<Option<&'a [u8]>> {
        match self.varint()? {
            -1 => Some(None),
            length => self.take(length).map(Some),
        }
    }
}

fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

/// Bytes that [`put_varlong`] writes.
#[inline]
pub(super) fn varlong_bytes(value: i64) -> usize {
    let bits = 64 - (zigzag(value) | 1).leading_zeros() as usize;
    bits.div_ceil(7)
}

/// Writes a number; one of 32 bits looks the same as one of 64.
#[inline]
pub(super) fn put_varlong(writer: &mut BytesMut, value: i64) {
    let mut rest = zigzag(value);
    while rest >= 0x80 {
        writer.put_u8((rest & 0x7f) as u8 | 0x80);
        rest >>= 7;
    }
    writer.put_u8(rest as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back_and_have_the_length_foretold() {
        let mut values = vec![0, -1, i64::MIN, i64::MAX];
        for shift in 0..63 {
            let power = 1_i64 << shift;
            values.extend([power, power - 1, -power, -power - 1]);
        }
        for value in values {
            let mut writer = BytesMut::new();
            put_varlong(&mut writer, value);
            assert_eq!(writer.len(), varlong_bytes(value), "{value}");
            let mut cursor = Cursor { bytes: &writer };
            assert_eq!(cursor.varlong(), Some(value));
            assert!(cursor.bytes.is_empty());
            let narrow = Cursor { bytes: &writer }.varint();
            assert_eq!(narrow.map(i64::from), i32::try_from(value).ok().map(i64::from), "{value}");
        }
    }

    #[test]
    fn numbers_that_do_not_end_are_refused() {
        assert_eq!(Cursor { bytes: &[0x80; 11] }.varlong(), None);
        assert_eq!(Cursor { bytes: &[0x80; 5] }.varint(), None);
        assert_eq!(Cursor { bytes: &[0xff, 0xff, 0xff, 0xff, 0x1f] }.varint(), None);
        assert_eq!(Cursor { bytes: &[0x80] }.varint(), None);
        assert_eq!(Cursor { bytes: &[] }.varint(), None);
    }
}
