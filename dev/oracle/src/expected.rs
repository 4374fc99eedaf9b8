//! What a conversation is expected to say: the other broker's answers, by line.
//!
//! Whoever knows what comes need not wait long for silence, nor give up on what is only slow.

use std::collections::BTreeMap;

use crate::transcript::{CaseAnswers, Line, Transcript};

/// The answers of one case, as its lines come. Empty if nothing is known.
#[derive(Clone, Debug)]
pub struct Expected<'t> {
    case: Option<&'t CaseAnswers>,
    /// How often a line came: the same may stand in a case more than once.
    seen: BTreeMap<String, usize>,
}

/// The answers to one line.
#[derive(Clone, Copy, Debug)]
pub struct ExpectedLine<'t>(Option<&'t Line>);

impl<'t> Expected<'t> {
    /// Of the case with that title.
    #[must_use]
    pub fn of(transcript: Option<&'t Transcript>, title: &str) -> Self {
        let case = transcript.and_then(|it| it.cases.iter().find(|case| case.title == title));
        Self { case, seen: BTreeMap::new() }
    }

    /// The same case, from its first line on.
    #[must_use]
    pub fn from_the_beginning(&self) -> Self {
        Self { case: self.case, seen: BTreeMap::new() }
    }

    /// Whether anything is known.
    #[must_use]
    pub fn is_known(&self) -> bool {
        self.case.is_some()
    }

    /// The next line of that text.
    pub fn line(&mut self, text: &str) -> ExpectedLine<'t> {
        let place = self.seen.entry(text.to_owned()).or_default();
        let line = self.case.and_then(|case| case.lines.iter().filter(|line| line.text == text).nth(*place));
        *place += 1;
        ExpectedLine(line)
    }

    /// Whether the lines of `found` that vary nothing were answered so.
    #[must_use]
    pub fn has_plain_lines_of(&self, found: &CaseAnswers) -> bool {
        let mut expected = self.from_the_beginning();
        found.lines.iter().all(|line| {
            let expected = expected.line(&line.text);
            let mut plain = line.answers.iter().filter(|(label, _, _)| label.is_empty());
            plain.all(|(label, version, text)| expected.answer(label, *version).is_none_or(|it| it == text))
        })
    }
}

impl<'t> ExpectedLine<'t> {
    /// The answer to that variation, in that version.
    #[must_use]
    pub fn answer(self, label: &str, version: i16) -> Option<&'t str> {
        let answers = &self.0?.answers;
        let found = answers.iter().find(|(known, at, _)| known == label && *at == version);
        found.map(|(_, _, text)| text.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case(answers: &[(&str, i16, &str)]) -> CaseAnswers {
        let lines = answers.iter().map(|(text, version, answer)| Line {
            text: (*text).to_owned(),
            answers: vec![(String::new(), *version, (*answer).to_owned())],
        });
        CaseAnswers { title: "a case".to_owned(), lines: lines.collect() }
    }

    #[test]
    fn the_same_line_is_expected_to_be_answered_in_its_turn() {
        let transcript = Transcript { cases: vec![case(&[("A", 0, "first"), ("B", 0, "other"), ("A", 0, "second")])] };
        let mut expected = Expected::of(Some(&transcript), "a case");
        assert_eq!(expected.line("A").answer("", 0), Some("first"));
        assert_eq!(expected.line("A").answer("", 0), Some("second"));
        assert_eq!(expected.line("A").answer("", 0), None);
        assert_eq!(expected.from_the_beginning().line("A").answer("", 0), Some("first"));
        assert_eq!(expected.from_the_beginning().line("A").answer("", 1), None, "another version");
        assert!(expected.has_plain_lines_of(&case(&[("A", 0, "first"), ("A", 0, "second")])));
        assert!(!expected.has_plain_lines_of(&case(&[("A", 0, "first"), ("A", 0, "first")])));
        assert!(!Expected::of(Some(&transcript), "another case").is_known());
    }
}
