//! What was answered: by case, line, variation and version. Printed so that what is the same stands once.
//!
//! ```text
//! == an end in state Empty
//! > EndTxn {transactional_id: @t, committed: true}
//!   {error_code: INVALID_TXN_STATE}
//!     v0-5
//! ```
//!
//! Under an answer stand the variations that got it, each with its versions; a line that varies nothing has versions only.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::{Context, Result, bail};

/// The version under which answers stand that have no version of their own.
pub const NO_VERSION: i16 = -1;

/// The answers to one line: variation and version, in the order of asking.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Line {
    /// The line.
    pub text: String,
    /// Variation (empty if nothing is varied), version, answer.
    pub answers: Vec<(String, i16, String)>,
}

/// The lines of one case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CaseAnswers {
    /// Its title.
    pub title: String,
    /// In order. The same text may stand twice.
    pub lines: Vec<Line>,
}

/// All answers to a script.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Transcript {
    /// Case by case.
    pub cases: Vec<CaseAnswers>,
}

impl Transcript {
    /// As it is kept in a file.
    #[must_use]
    pub fn print(&self) -> String {
        let mut text = String::new();
        for case in &self.cases {
            writeln!(text, "== {}", case.title).expect("a string takes it");
            for line in &case.lines {
                writeln!(text, "> {}", line.text).expect("a string takes it");
                for (answer, keys) in line.by_answer() {
                    writeln!(text, "  {answer}").expect("a string takes it");
                    for (label, versions) in keys {
                        let space = if label.is_empty() { "" } else { " " };
                        writeln!(text, "    {label}{space}{}", print_versions(&versions)).expect("a string takes it");
                    }
                }
            }
            text.push('\n');
        }
        text
    }

    /// Reads what [`print`](Self::print) wrote.
    pub fn parse(text: &str) -> Result<Self> {
        let mut transcript = Self::default();
        let mut answer = String::new();
        for line in text.lines() {
            if line.trim().is_empty() {
                continue;
            }
            if let Some(title) = line.strip_prefix("== ") {
                transcript.cases.push(CaseAnswers { title: title.to_owned(), lines: Vec::new() });
                continue;
            }
            let case = transcript.cases.last_mut().context("a line outside a case")?;
            if let Some(text) = line.strip_prefix("> ") {
                case.lines.push(Line { text: text.to_owned(), answers: Vec::new() });
            } else if let Some(key) = line.strip_prefix("    ") {
                let (label, versions) = key.rsplit_once(' ').unwrap_or(("", key));
                let last = case.lines.last_mut().context("an answer without a line")?;
                for version in parse_versions(versions)? {
                    last.answers.push((label.to_owned(), version, answer.clone()));
                }
            } else if let Some(text) = line.strip_prefix("  ") {
                text.clone_into(&mut answer);
            } else {
                bail!("what is `{line}`?");
            }
        }
        Ok(transcript)
    }

    /// How many answers there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.cases.iter().flat_map(|case| &case.lines).map(|line| line.answers.len()).sum()
    }
}

/// Variation and the versions of it.
type Keys = Vec<(String, Vec<i16>)>;

impl Line {
    /// Answers in the order in which they came first, each with what got it.
    fn by_answer(&self) -> Vec<(&str, Keys)> {
        let mut found: Vec<(&str, Keys)> = Vec::new();
        // Versions come one after the other; under an answer a variation stands once.
        for (label, version, answer) in &self.answers {
            let place = found.iter().position(|(known, _)| known == answer).unwrap_or_else(|| {
                found.push((answer, Vec::new()));
                found.len() - 1
            });
            let keys = &mut found[place].1;
            match keys.iter_mut().find(|(known, _)| known == label) {
                Some((_, versions)) => versions.push(*version),
                None => keys.push((label.clone(), vec![*version])),
            }
        }
        found
    }

    /// Answers by variation and version.
    #[must_use]
    pub fn by_key(&self) -> BTreeMap<(&str, i16), &str> {
        self.answers.iter().map(|(label, version, answer)| ((label.as_str(), *version), answer.as_str())).collect()
    }
}

/// `v0-2,5`; `-` where there is no version.
#[must_use]
pub fn print_versions(versions: &[i16]) -> String {
    if versions == [NO_VERSION] {
        return "-".to_owned();
    }
    let mut ranges: Vec<(i16, i16)> = Vec::new();
    for &version in versions {
        match ranges.last_mut() {
            Some((_, to)) if *to + 1 == version => *to = version,
            _ => ranges.push((version, version)),
        }
    }
    let texts: Vec<String> = ranges
        .into_iter()
        .map(|(from, to)| if from == to { from.to_string() } else { format!("{from}-{to}") })
        .collect();
    format!("v{}", texts.join(","))
}

fn parse_versions(text: &str) -> Result<Vec<i16>> {
    if text == "-" {
        return Ok(vec![NO_VERSION]);
    }
    let ranges = text.strip_prefix('v').with_context(|| format!("no versions: {text}"))?;
    let mut versions = Vec::new();
    for range in ranges.split(',') {
        let (from, to) = range.split_once('-').unwrap_or((range, range));
        versions.extend(from.parse::<i16>()?..=to.parse::<i16>()?);
    }
    Ok(versions)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transcript_is_read_as_it_was_printed() {
        let answer = |label: &str, version, text: &str| (label.to_owned(), version, text.to_owned());
        let answers = vec![
            answer("as it is", 0, "{a: 1}"),
            answer("x=-1", 0, "closed"),
            answer("as it is", 1, "{a: 1}"),
            answer("x=-1", 1, "{a: 1}"),
        ];
        let lines = vec![
            Line { text: "vary A {x: 1}".to_owned(), answers },
            Line { text: "B {}".to_owned(), answers: vec![answer("", NO_VERSION, "{}")] },
        ];
        let transcript = Transcript { cases: vec![CaseAnswers { title: "a case".to_owned(), lines }] };
        let read = Transcript::parse(&transcript.print()).expect("it reads");
        assert_eq!(read.print(), transcript.print());
        assert_eq!(read.cases[0].lines[0].by_key(), transcript.cases[0].lines[0].by_key());
        assert!(transcript.print().contains("    as it is v0-1\n    x=-1 v1\n"), "{}", transcript.print());
    }
}
