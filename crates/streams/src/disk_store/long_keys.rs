//! Keys longer than the engine takes. Those that begin alike share one entry, which lies where they belong in the order of keys.
//!
//! Layout: the place is `0x01 ‖ the first 65,000 bytes ‖ 0x00`, two bytes longer than that of any short key; the entry is, for each key in
//! order, `length u32 | rest of the key | length u32 | value` (big-endian). Rare and slow, and right.

use std::collections::BTreeMap;

use bytes::{Buf, BufMut, Bytes};

use super::DATA;

/// Bytes of a key that may stand in the engine by itself. Its own limit is 65,535, our marks included.
const SHORT_KEY_BYTES_MAX: usize = 65_000;

/// Where a long key is kept; `None` for one that is short.
pub(super) fn place(key: &[u8]) -> Option<Vec<u8>> {
    let beginning = key.get(..SHORT_KEY_BYTES_MAX).filter(|beginning| beginning.len() < key.len())?;
    let mut place = Vec::with_capacity(beginning.len() + 2);
    place.push(DATA);
    place.extend_from_slice(beginning);
    place.push(0);
    Some(place)
}

/// What tells a long key from others at its place.
pub(super) fn rest(key: &[u8]) -> &[u8] {
    key.get(SHORT_KEY_BYTES_MAX..).unwrap_or_default()
}

/// If this is the place of long keys, without its first byte: how they all begin.
pub(super) fn beginning(place: &[u8]) -> Option<&[u8]> {
    place.get(..SHORT_KEY_BYTES_MAX).filter(|beginning| beginning.len() < place.len())
}

pub(super) fn encode(sharing: &BTreeMap<Vec<u8>, Bytes>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (rest, value) in sharing {
        for part in [rest.as_slice(), value.as_ref()] {
            // A record of Kafka's is far below four gigabytes, and these are its key and value.
            bytes.put_u32(u32::try_from(part.len()).expect("a part of a record"));
            bytes.put_slice(part);
        }
    }
    bytes
}

/// `None`: these are other bytes.
pub(super) fn decode(mut bytes: &[u8]) -> Option<BTreeMap<Vec<u8>, Bytes>> {
    let mut sharing = BTreeMap::new();
    while !bytes.is_empty() {
        let rest = part(&mut bytes)?.to_vec();
        sharing.insert(rest, Bytes::copy_from_slice(part(&mut bytes)?));
    }
    Some(sharing)
}

fn part<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = usize::try_from(bytes.try_get_u32().ok()?).ok()?;
    let (part, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    Some(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_keys_share_a_place_by_how_they_begin() {
        let key = |length: usize, last: u8| [vec![b'x'; length - 1], vec![last]].concat();
        assert_eq!(place(&key(65_000, b'a')), None);
        let (a, b) = (key(65_001, b'a'), key(70_000, b'b'));
        assert_eq!(place(&a), place(&b));
        assert_eq!(place(&a).map(|place| place.len()), Some(65_002));
        assert_eq!((rest(&a), rest(&b).len()), (&b"a"[..], 5_000));
        let place = place(&a).unwrap();
        assert_eq!(beginning(&place[1..]), Some(&a[..65_000]));
        assert_eq!(beginning(&a[..65_000]), None);
    }

    #[test]
    fn an_entry_reads_back_and_damage_is_seen() {
        let sharing = BTreeMap::from([
            (b"".to_vec(), Bytes::from_static(b"1")),
            (b"a".to_vec(), Bytes::new()),
            (vec![0xff; 300], Bytes::from_static(b"3")),
        ]);
        let bytes = encode(&sharing);
        assert_eq!(decode(&bytes), Some(sharing));
        assert_eq!(decode(&bytes[..bytes.len() - 1]), None);
        assert_eq!(decode(&[0xff; 7]), None);
    }
}
