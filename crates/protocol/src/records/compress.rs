//! The codecs of record batches, with a limit on what comes out.
//!
//! Snappy comes in two framings: Java and librdkafka write that of the xerial library (a magic, then
//! blocks with their lengths), others write one raw block. Both are read; xerial's is written, which all read.

use std::borrow::Cow;
use std::fmt;
use std::io::{Read, Write};

use super::RecordError;

/// How the records of a batch are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Compression {
    /// Not at all.
    #[default]
    None,
    /// RFC 1952.
    Gzip,
    /// In xerial's framing.
    Snappy,
    /// In LZ4's own frames.
    Lz4,
    /// Since Kafka 2.1; needs the feature `zstd`.
    Zstd,
}

impl Compression {
    /// The number in a batch's attributes.
    #[must_use]
    pub const fn codec(self) -> i16 {
        match self {
            Self::None => 0,
            Self::Gzip => 1,
            Self::Snappy => 2,
            Self::Lz4 => 3,
            Self::Zstd => 4,
        }
    }

    /// The compression of that number.
    #[must_use]
    pub const fn from_codec(codec: i16) -> Option<Self> {
        match codec {
            0 => Some(Self::None),
            1 => Some(Self::Gzip),
            2 => Some(Self::Snappy),
            3 => Some(Self::Lz4),
            4 => Some(Self::Zstd),
            _ => None,
        }
    }

    /// Kafka's name for it, as in `compression.type`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Gzip => "gzip",
            Self::Snappy => "snappy",
            Self::Lz4 => "lz4",
            Self::Zstd => "zstd",
        }
    }

    /// The compression of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::None, Self::Gzip, Self::Snappy, Self::Lz4, Self::Zstd].into_iter().find(|it| it.name() == name)
    }

    /// Whether this build can read and write it.
    #[must_use]
    pub const fn is_built(self) -> bool {
        !matches!(self, Self::Zstd) || cfg!(feature = "zstd")
    }
}

impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What a limit or a codec refuses; the batch is named by the caller.
#[derive(Debug)]
pub(super) enum Refusal {
    TooLarge,
    Codec(String),
    NotBuilt,
}

impl Refusal {
    pub(super) fn of_batch(self, base_offset: i64, compression: Compression, limit: usize) -> RecordError {
        match self {
            Self::TooLarge => RecordError::TooLargeDecompressed { base_offset, limit },
            Self::Codec(reason) => RecordError::Decompression { base_offset, compression, reason },
            Self::NotBuilt => RecordError::CompressionNotBuilt { compression },
        }
    }
}

fn codec(error: impl fmt::Display) -> Refusal {
    Refusal::Codec(error.to_string())
}

/// Decompresses to at most `limit` bytes.
pub(super) fn decompress(compression: Compression, bytes: &[u8], limit: usize) -> Result<Cow<'_, [u8]>, Refusal> {
    if !compression.is_built() {
        return Err(Refusal::NotBuilt);
    }
    match compression {
        Compression::None if bytes.len() > limit => Err(Refusal::TooLarge),
        Compression::None => Ok(Cow::Borrowed(bytes)),
        Compression::Gzip => read_all(flate2::read::MultiGzDecoder::new(bytes), bytes.len(), limit).map(Cow::Owned),
        Compression::Snappy => read_snappy(bytes, limit).map(Cow::Owned),
        Compression::Lz4 => read_all(lz4_flex::frame::FrameDecoder::new(bytes), bytes.len(), limit).map(Cow::Owned),
        Compression::Zstd => read_zstd(bytes, limit).map(Cow::Owned),
    }
}

/// Appends the compressed form of `bytes` to `out`.
pub(super) fn compress(compression: Compression, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), Refusal> {
    match compression {
        Compression::None => out.extend_from_slice(bytes),
        Compression::Gzip => {
            let mut encoder = flate2::write::GzEncoder::new(out, flate2::Compression::default());
            encoder.write_all(bytes).and_then(|()| encoder.finish()).map_err(codec)?;
        }
        Compression::Snappy => write_snappy(bytes, out)?,
        Compression::Lz4 => {
            // 64 KB blocks, as Java writes them: what a reader must hold at once stays small.
            let frame = lz4_flex::frame::FrameInfo::new().block_size(lz4_flex::frame::BlockSize::Max64KB);
            let mut encoder = lz4_flex::frame::FrameEncoder::with_frame_info(frame, out);
            encoder.write_all(bytes).map_err(codec)?;
            encoder.finish().map_err(codec)?;
        }
        Compression::Zstd => write_zstd(bytes, out)?,
    }
    Ok(())
}

/// Reads to the end, in steps, so that the result grows with what really comes out.
fn read_all(reader: impl Read, compressed: usize, limit: usize) -> Result<Vec<u8>, Refusal> {
    let mut out = Vec::with_capacity(compressed.saturating_mul(3).min(limit));
    // One byte more than allowed, so that exactly the limit passes.
    let allowed = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1);
    reader.take(allowed).read_to_end(&mut out).map_err(codec)?;
    if out.len() > limit { Err(Refusal::TooLarge) } else { Ok(out) }
}

/// Begins xerial's framing; a version and the oldest compatible one follow, both `1_i32`.
const XERIAL_MAGIC: &[u8; 8] = b"\x82SNAPPY\0";
/// The magic and the two versions.
const XERIAL_HEADER_BYTES: usize = 16;
/// What xerial's library puts into one block.
const XERIAL_BLOCK_BYTES: usize = 32 * 1024;

fn read_snappy(bytes: &[u8], limit: usize) -> Result<Vec<u8>, Refusal> {
    let mut out = Vec::new();
    if !bytes.starts_with(XERIAL_MAGIC) {
        read_snappy_block(bytes, limit, &mut out)?;
        return Ok(out);
    }
    let mut rest = bytes.get(XERIAL_HEADER_BYTES..).ok_or_else(|| codec("cut off in its head"))?;
    while let Some((length, behind)) = rest.split_first_chunk::<4>() {
        let length = usize::try_from(i32::from_be_bytes(*length)).map_err(codec)?;
        let (block, behind) = behind.split_at_checked(length).ok_or_else(|| codec("cut off in a block"))?;
        read_snappy_block(block, limit, &mut out)?;
        rest = behind;
    }
    if rest.is_empty() { Ok(out) } else { Err(codec("cut off between blocks")) }
}

/// No block can grow more than this: its densest element makes 64 bytes of 3.
const SNAPPY_GROWTH_MAX: usize = 22;

fn read_snappy_block(block: &[u8], limit: usize, out: &mut Vec<u8>) -> Result<(), Refusal> {
    let length = snap::raw::decompress_len(block).map_err(codec)?;
    let start = out.len();
    if length > limit.saturating_sub(start) {
        return Err(Refusal::TooLarge);
    }
    // The length comes from outside: a small block must not reserve the whole limit.
    if length > block.len().saturating_mul(SNAPPY_GROWTH_MAX) {
        return Err(codec("a block says that it grows more than it can"));
    }
    out.resize(start + length, 0);
    let room = out.get_mut(start..).unwrap_or_default();
    let written = snap::raw::Decoder::new().decompress(block, room).map_err(codec)?;
    out.truncate(start + written);
    Ok(())
}

fn write_snappy(bytes: &[u8], out: &mut Vec<u8>) -> Result<(), Refusal> {
    out.extend_from_slice(XERIAL_MAGIC);
    out.extend_from_slice(&1_i32.to_be_bytes());
    out.extend_from_slice(&1_i32.to_be_bytes());
    let mut encoder = snap::raw::Encoder::new();
    let mut block = vec![0; snap::raw::max_compress_len(XERIAL_BLOCK_BYTES.min(bytes.len()))];
    for part in bytes.chunks(XERIAL_BLOCK_BYTES) {
        let length = encoder.compress(part, &mut block).map_err(codec)?;
        out.extend_from_slice(&i32::try_from(length).map_err(codec)?.to_be_bytes());
        out.extend_from_slice(block.get(..length).unwrap_or_default());
    }
    Ok(())
}

/// The largest window that zstd's usual levels (up to 19) write: 8 MB. A decoder holds one window, and a
/// hostile frame may ask for far more.
#[cfg(feature = "zstd")]
const ZSTD_WINDOW_LOG_MAX: u32 = 23;

#[cfg(feature = "zstd")]
fn read_zstd(bytes: &[u8], limit: usize) -> Result<Vec<u8>, Refusal> {
    let mut decoder = zstd::stream::read::Decoder::with_buffer(bytes).map_err(codec)?;
    decoder.window_log_max(ZSTD_WINDOW_LOG_MAX).map_err(codec)?;
    read_all(decoder, bytes.len(), limit)
}

#[cfg(feature = "zstd")]
fn write_zstd(bytes: &[u8], out: &mut Vec<u8>) -> Result<(), Refusal> {
    let mut encoder = zstd::stream::write::Encoder::new(out, 1).map_err(codec)?;
    encoder.write_all(bytes).and_then(|()| encoder.finish()).map_err(codec)?;
    Ok(())
}

#[cfg(not(feature = "zstd"))]
fn read_zstd(_bytes: &[u8], _limit: usize) -> Result<Vec<u8>, Refusal> {
    Err(Refusal::NotBuilt)
}

#[cfg(not(feature = "zstd"))]
fn write_zstd(_bytes: &[u8], _out: &mut Vec<u8>) -> Result<(), Refusal> {
    Err(Refusal::NotBuilt)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Compression; 5] =
        [Compression::None, Compression::Gzip, Compression::Snappy, Compression::Lz4, Compression::Zstd];

    fn compressed(compression: Compression, bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        compress(compression, bytes, &mut out).expect("compresses");
        out
    }

    #[test]
    fn what_goes_in_comes_out() {
        let long: Vec<u8> = (0..200_000_u32).flat_map(|it| (it % 1000).to_be_bytes()).collect();
        for compression in ALL.into_iter().filter(|it| it.is_built()) {
            for bytes in [&b""[..], b"a", &long] {
                let small = compressed(compression, bytes);
                let back = decompress(compression, &small, bytes.len()).expect("the limit is exactly enough");
                assert_eq!(back, bytes, "{compression}");
            }
        }
    }

    #[test]
    fn a_bomb_is_stopped_at_the_limit() {
        let zeros = vec![0; 10_000_000];
        for compression in ALL.into_iter().filter(|it| it.is_built()) {
            let bomb = compressed(compression, &zeros);
            let refused = decompress(compression, &bomb, 9_999_999);
            assert!(matches!(refused, Err(Refusal::TooLarge)), "{compression}");
        }
    }

    #[test]
    fn raw_snappy_is_read_too() {
        let raw = snap::raw::Encoder::new().compress_vec(b"raw raw raw raw raw raw").expect("compresses");
        assert_eq!(decompress(Compression::Snappy, &raw, 100).expect("reads"), &b"raw raw raw raw raw raw"[..]);
    }

    #[test]
    fn a_snappy_block_that_announces_too_much_reserves_nothing() {
        // A length of 2^31 - 1 in five bytes, then nothing.
        let lie = [0xff, 0xff, 0xff, 0xff, 0x07];
        assert!(matches!(decompress(Compression::Snappy, &lie, usize::MAX), Err(Refusal::Codec(_))));
    }

    #[test]
    fn cut_off_streams_are_refused() {
        for compression in ALL.into_iter().filter(|it| it.is_built() && *it != Compression::None) {
            let small = compressed(compression, b"some bytes that are long enough to be cut in the middle");
            let cut = &small[..small.len() / 2];
            assert!(matches!(decompress(compression, cut, 1000), Err(Refusal::Codec(_))), "{compression}");
        }
    }
}
