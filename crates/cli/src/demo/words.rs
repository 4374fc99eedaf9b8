//! What a word is: a maximal run of characters that are not white space, as it stands.
//!
//! The worker's topology and the direct count both cut with [`words`], so what they compare is the pipeline
//! and not two notions of a word. It takes any bytes: what is not UTF-8 is not white space, hence part of a word.

/// The words of `line`, in order.
pub(crate) fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = line;
    std::iter::from_fn(move || {
        let start = first(rest, |gap| !gap)?;
        let (_, from_word) = rest.split_at(start);
        let (word, after) = from_word.split_at(first(from_word, |gap| gap).unwrap_or(from_word.len()));
        rest = after;
        Some(word)
    })
}

/// Where the first character stands whose being white space `wanted` accepts.
fn first(bytes: &[u8], wanted: impl Fn(bool) -> bool) -> Option<usize> {
    let mut place = 0;
    while let Some(&byte) = bytes.get(place) {
        let (gap, width) = if byte.is_ascii() { (is_ascii_gap(byte), 1) } else { character(&bytes[place..]) };
        if wanted(gap) {
            return Some(place);
        }
        place += width;
    }
    None
}

/// `char::is_whitespace` for ASCII: unlike `u8::is_ascii_whitespace` it counts the vertical tab.
fn is_ascii_gap(byte: u8) -> bool {
    char::from(byte).is_whitespace()
}

/// Of the character that begins `bytes`, whether it is white space, and its width; one byte that is none is a word's.
fn character(bytes: &[u8]) -> (bool, usize) {
    let longest = &bytes[..bytes.len().min(4)];
    let valid = match std::str::from_utf8(longest) {
        Ok(text) => text,
        Err(error) => std::str::from_utf8(&longest[..error.valid_up_to()]).unwrap_or_default(),
    };
    valid.chars().next().map_or((false, 1), |character| (character.is_whitespace(), character.len_utf8()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str) {
        let ours: Vec<&[u8]> = words(line.as_bytes()).collect();
        let theirs: Vec<&[u8]> = line.split_whitespace().map(str::as_bytes).collect();
        assert_eq!(ours, theirs, "{line:?}");
    }

    #[test]
    fn text_is_cut_where_the_standard_library_cuts() {
        for line in [
            "",
            " ",
            "a",
            " a ",
            "a b",
            "a\tb\r",
            "Grüße, Welt!",
            "日本\u{3000}語",
            "a\u{a0}b\u{2003}",
            "\u{b}x\u{85}y",
            "é",
        ] {
            check(line);
        }
    }

    #[test]
    fn bytes_that_are_no_text_belong_to_words() {
        let cut: Vec<&[u8]> = words(b"\xff\xfe a\xc3 \xe3\x80\x80b\xe3\x80").collect();
        assert_eq!(cut, [b"\xff\xfe".as_slice(), b"a\xc3", b"b\xe3\x80"]);
    }
}
