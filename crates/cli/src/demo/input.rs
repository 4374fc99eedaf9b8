//! What is counted: a file, standard input, or the documentation of atonce itself, cut into lines.

use std::io::Read;
use std::path::{Path, PathBuf};

use bytes::Bytes;

/// The documentation of this repository, put together when the binary was built.
static OWN_DOCUMENTATION: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/documentation.txt"));

/// The longest line of several words that is sent as one record. A record is processed whole, inside one transaction: a megabyte of
/// short words would hold it open for many commit intervals, on a slow machine beyond its time-out, again and again.
const LINE_BYTES_MAX: usize = 64 * 1024;

/// The longest word that is counted as one: it becomes both the key and the value of one record in the repartition topic, and a topic
/// takes batches of 1 MiB by default.
const WORD_BYTES_MAX: usize = 500 * 1024;

/// Where the text comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// The documentation of atonce.
    OwnDocumentation,
    /// Standard input.
    StandardInput,
    /// A file.
    File(PathBuf),
}

impl Source {
    /// From the command line: nothing, `-`, or a path.
    pub(crate) fn from_argument(file: Option<&Path>) -> Self {
        match file {
            None => Self::OwnDocumentation,
            Some(path) if path == Path::new("-") => Self::StandardInput,
            Some(path) => Self::File(path.to_owned()),
        }
    }

    /// Reads all of it.
    pub(crate) fn read(&self) -> std::io::Result<Bytes> {
        match self {
            Self::OwnDocumentation => Ok(Bytes::from_static(OWN_DOCUMENTATION)),
            Self::StandardInput => {
                let mut text = Vec::new();
                std::io::stdin().lock().read_to_end(&mut text)?;
                Ok(Bytes::from(text))
            }
            Self::File(path) => std::fs::read(path).map(Bytes::from),
        }
    }
}

impl std::fmt::Display for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::OwnDocumentation => f.write_str("the documentation of atonce"),
            Self::StandardInput => f.write_str("standard input"),
            Self::File(path) => write!(f, "{}", path.display()),
        }
    }
}

/// The text as it is loaded.
#[derive(Debug)]
pub(crate) struct Input {
    /// Lines without their ends.
    pub lines: Vec<Bytes>,
    /// How many lines were too long for one record, and became several.
    pub cut_lines: u64,
    /// How many words were longer than a record may hold, and became several words.
    pub cut_words: u64,
}

/// How long a line and a word may be, in bytes.
#[derive(Clone, Copy, Debug)]
struct Limits {
    line: usize,
    /// At least that of a line: a longer word is a line of its own.
    word: usize,
}

impl Input {
    /// Cuts `text` into lines, and long lines into several, between words wherever there are such.
    pub(crate) fn of(text: &Bytes) -> Self {
        Self::with_limits(text, Limits { line: LINE_BYTES_MAX, word: WORD_BYTES_MAX })
    }

    fn with_limits(text: &Bytes, limits: Limits) -> Self {
        let mut input = Self { lines: Vec::new(), cut_lines: 0, cut_words: 0 };
        for line in text.split(|byte| *byte == b'\n') {
            if line.len() <= limits.line {
                input.lines.push(text.slice_ref(line));
            } else {
                input.cut_lines += 1;
                input.push_pieces(text, line, limits);
            }
        }
        // What follows the last line end is a line only if there is something.
        if input.lines.last().is_some_and(Bytes::is_empty) {
            input.lines.pop();
        }
        input
    }

    fn push_pieces(&mut self, text: &Bytes, line: &[u8], limits: Limits) {
        let place = |word: &[u8]| word.as_ptr() as usize - line.as_ptr() as usize;
        // The piece so far: it begins and ends with a word.
        let (mut start, mut end) = (0, 0);
        for word in super::words::words(line) {
            let (word_start, word_end) = (place(word), place(word) + word.len());
            let is_too_long = word.len() > limits.word;
            if end > start && (is_too_long || word_end - start > limits.line) {
                self.lines.push(text.slice_ref(&line[start..end]));
                end = start;
            }
            if is_too_long {
                self.cut_words += 1;
                self.lines.extend(word.chunks(limits.word).map(|piece| text.slice_ref(piece)));
            } else {
                start = if end > start { start } else { word_start };
                end = word_end;
            }
        }
        if end > start {
            self.lines.push(text.slice_ref(&line[start..end]));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &'static str, line: usize, word: usize) -> (Vec<String>, u64, u64) {
        let input = Input::with_limits(&Bytes::from_static(text.as_bytes()), Limits { line, word });
        let lines = input.lines.iter().map(|line| String::from_utf8_lossy(line).into_owned()).collect();
        (lines, input.cut_lines, input.cut_words)
    }

    #[test]
    fn text_is_cut_at_line_ends() {
        assert_eq!(lines("a b\n\nc", 100, 100), (vec!["a b".into(), String::new(), "c".into()], 0, 0));
        assert_eq!(lines("a b\n", 100, 100), (vec!["a b".into()], 0, 0));
        assert_eq!(lines("", 100, 100), (vec![], 0, 0));
    }

    #[test]
    fn a_long_line_is_cut_between_words() {
        let (cut, cut_lines, cut_words) = lines("aa  bb cc dd\nee", 6, 6);
        assert_eq!(cut, ["aa  bb", "cc dd", "ee"]);
        assert_eq!((cut_lines, cut_words), (1, 0));
    }

    #[test]
    fn a_word_that_no_record_holds_is_cut_and_counted() {
        let (cut, cut_lines, cut_words) = lines("a bbbbbbbbbb c", 4, 4);
        assert_eq!(cut, ["a", "bbbb", "bbbb", "bb", "c"]);
        assert_eq!((cut_lines, cut_words), (1, 1));
    }

    #[test]
    fn a_word_longer_than_a_line_is_a_line_of_its_own() {
        let (cut, cut_lines, cut_words) = lines("a bbbbbb c d", 3, 6);
        assert_eq!(cut, ["a", "bbbbbb", "c d"]);
        assert_eq!((cut_lines, cut_words), (1, 0));
    }

    #[test]
    fn cutting_loses_no_word_and_makes_no_line_too_long() {
        let mut chance = atonce_kernel::chance::Chance::from_seed(5);
        for _ in 0..500 {
            let text: Vec<u8> = (0..chance.below(60)).map(|_| b" \nabc"[chance.below(5) as usize]).collect();
            let text = Bytes::from(text);
            let word = usize::try_from(7 + chance.below(7)).expect("small");
            let input = Input::with_limits(&text, Limits { line: 7, word });
            let count = |line: &Bytes| super::super::words::words(line).count();
            let fits = |line: &Bytes| line.len() <= 7 || (count(line) == 1 && line.len() <= word);
            assert!(input.lines.iter().all(fits), "{:?}", input.lines);
            let whole: Vec<u8> = text.iter().copied().filter(|b| !b.is_ascii_whitespace()).collect();
            let cut: Vec<u8> = input.lines.iter().flatten().copied().filter(|b| !b.is_ascii_whitespace()).collect();
            assert_eq!(whole, cut, "{text:?}");
            if input.cut_words == 0 {
                let words = |bytes: &[u8]| super::super::words::words(bytes).map(<[u8]>::to_vec).collect::<Vec<_>>();
                assert_eq!(
                    words(&text),
                    input.lines.iter().flat_map(|line| words(line)).collect::<Vec<_>>(),
                    "{text:?}"
                );
            }
        }
    }

    #[test]
    fn the_default_text_is_there() {
        let input = Input::of(&Source::OwnDocumentation.read().expect("it is in the binary"));
        assert!(input.lines.len() > 20);
    }
}
