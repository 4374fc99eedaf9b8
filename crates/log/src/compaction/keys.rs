//! The last offset of each key, for as many keys as memory is given for.
//!
//! Keys are kept whole: a hash would be smaller, and two keys with one hash would cost somebody a record.

use std::collections::BTreeMap;

use atonce_kernel::Offset;

/// What a key costs beside its bytes: the node's share, length, offset.
const KEY_OVERHEAD_BYTES: usize = 64;

/// See the module's comment. It says for all offsets below `end` what the last record of a key is.
#[derive(Debug)]
pub(super) struct KeyMap {
    last: BTreeMap<Box<[u8]>, Offset>,
    bytes: usize,
    bytes_max: usize,
    end: Offset,
}

impl KeyMap {
    pub(super) fn new(bytes_max: usize, start: Offset) -> Self {
        Self { last: BTreeMap::new(), bytes: 0, bytes_max, end: start }
    }

    /// No other batch should be added. One batch always fits, or nothing would ever be done.
    pub(super) fn is_full(&self) -> bool {
        self.bytes >= self.bytes_max
    }

    pub(super) fn put(&mut self, key: &[u8], offset: Offset) {
        match self.last.get_mut(key) {
            Some(last) => *last = offset,
            None => {
                self.bytes += key.len() + KEY_OVERHEAD_BYTES;
                self.last.insert(key.into(), offset);
            }
        }
    }

    /// All below `end` was added.
    pub(super) fn set_end(&mut self, end: Offset) {
        self.end = end;
    }

    pub(super) fn end(&self) -> Offset {
        self.end
    }

    /// Whether a later record below the end has this key.
    pub(super) fn is_replaced(&self, key: &[u8], offset: Offset) -> bool {
        self.last.get(key).is_some_and(|last| *last > offset)
    }
}
