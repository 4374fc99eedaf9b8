//! What two transcripts do not say alike, and which of it is known.

use std::collections::BTreeMap;
use std::fmt;

use anyhow::{Context, Result};

use crate::transcript::{Transcript, print_versions};

/// A difference: one line of a case, all variations and versions in which both answer so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The script.
    pub script: String,
    /// The case.
    pub case: String,
    /// The line.
    pub line: String,
    /// What Apache Kafka answered.
    pub expected: String,
    /// What was answered here.
    pub found: String,
    /// Variations and their versions.
    pub keys: Vec<(String, Vec<i16>)>,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} == {}", self.script, self.case)?;
        writeln!(f, "> {}", self.line)?;
        for (label, versions) in &self.keys {
            writeln!(f, "    {label} {}", print_versions(versions))?;
        }
        writeln!(f, "  kafka: {}", self.expected)?;
        write!(f, "  here:  {}", self.found)
    }
}

/// All differences of `found` from `expected`; what was not asked of the second is none.
#[must_use]
pub fn differences(script: &str, expected: &Transcript, found: &Transcript) -> Vec<Difference> {
    let mut all: Vec<Difference> = Vec::new();
    for case in &found.cases {
        let Some(expected_case) = expected.cases.iter().find(|it| it.title == case.title) else { continue };
        let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
        for line in &case.lines {
            let place = seen.entry(line.text.as_str()).or_default();
            let expected_line = expected_case.lines.iter().filter(|it| it.text == line.text).nth(*place);
            *place += 1;
            let Some(expected_line) = expected_line else { continue };
            let expected_answers = expected_line.by_key();
            for (label, version, answer) in &line.answers {
                let Some(expected) = expected_answers.get(&(label.as_str(), *version)) else { continue };
                if expected == answer {
                    continue;
                }
                let same = all.iter_mut().find(|it| {
                    it.case == case.title && it.line == line.text && it.expected == *expected && it.found == *answer
                });
                match same {
                    Some(known) => match known.keys.iter_mut().find(|(known, _)| known == label) {
                        Some((_, versions)) => versions.push(*version),
                        None => known.keys.push((label.clone(), vec![*version])),
                    },
                    None => all.push(Difference {
                        script: script.to_owned(),
                        case: case.title.clone(),
                        line: line.text.clone(),
                        expected: (*expected).to_owned(),
                        found: answer.clone(),
                        keys: vec![(label.clone(), vec![*version])],
                    }),
                }
            }
        }
    }
    all
}

const KNOWN: &str = include_str!("../differences.txt");

/// The differences that are known, with their reasons.
#[derive(Clone, Debug)]
pub struct Known(Vec<KnownDifference>);

#[derive(Clone, Debug)]
struct KnownDifference {
    text: String,
    script: String,
    case: String,
    line: String,
    variation: String,
    expected: String,
    found: String,
    uses: usize,
}

impl Known {
    /// The workspace's.
    pub fn read() -> Result<Self> {
        let mut known = Vec::new();
        for line in KNOWN.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let mut parts = line.split(" | ").map(str::trim);
            let mut next = || parts.next().map(str::to_owned).with_context(|| format!("too short: {line}"));
            let (script, case, asked, variation) = (next()?, next()?, next()?, next()?);
            let (expected, found, reason) = (next()?, next()?, next()?);
            anyhow::ensure!(!reason.is_empty(), "no reason: {line}");
            known.push(KnownDifference {
                text: line.to_owned(),
                script,
                case,
                line: asked,
                variation,
                expected,
                found,
                uses: 0,
            });
        }
        Ok(Self(known))
    }

    /// Takes what is known out of `differences`; what is left is new.
    pub fn take_out(&mut self, differences: Vec<Difference>) -> Vec<Difference> {
        let mut left = Vec::new();
        for mut difference in differences {
            difference.keys.retain(|(label, _)| {
                let known = self.0.iter_mut().find(|it| {
                    matches(&it.script, &difference.script)
                        && matches(&it.case, &difference.case)
                        && matches(&it.line, &difference.line)
                        && matches(&it.variation, label)
                        && matches(&it.expected, &difference.expected)
                        && matches(&it.found, &difference.found)
                });
                match known {
                    Some(known) => {
                        known.uses += 1;
                        false
                    }
                    None => true,
                }
            });
            if !difference.keys.is_empty() {
                left.push(difference);
            }
        }
        left
    }

    /// How many there are, and the lines that met none.
    #[must_use]
    pub fn unused(&self) -> (usize, Vec<&str>) {
        (self.0.len(), self.0.iter().filter(|it| it.uses == 0).map(|it| it.text.as_str()).collect())
    }
}

/// Whether `text` is like `pattern`, in which `*` is anything.
fn matches(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((before, after)) => text.strip_prefix(before).is_some_and(|rest| {
            let places = (0..=rest.len()).filter(|at| rest.is_char_boundary(*at));
            places.into_iter().any(|at| matches(after, &rest[at..]))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transcript::{CaseAnswers, Line};

    fn transcript(answers: &[(&str, i16, &str)]) -> Transcript {
        let answers = answers.iter().map(|(label, version, text)| ((*label).to_owned(), *version, (*text).to_owned()));
        let line = Line { text: "vary A {}".to_owned(), answers: answers.collect() };
        Transcript { cases: vec![CaseAnswers { title: "a case".to_owned(), lines: vec![line] }] }
    }

    #[test]
    fn what_differs_alike_is_one_difference() {
        let expected = transcript(&[("x=0", 0, "{e: NONE}"), ("x=0", 1, "{e: NONE}"), ("x=1", 1, "closed")]);
        let found = transcript(&[("x=0", 0, "{e: BAD}"), ("x=0", 1, "{e: BAD}"), ("x=1", 1, "closed")]);
        let all = differences("a", &expected, &found);
        assert_eq!(all.len(), 1);
        assert_eq!(all[0].keys, [("x=0".to_owned(), vec![0, 1])]);
    }

    #[test]
    fn patterns_match_where_they_should() {
        assert!(matches("a*c", "abc") && matches("*", "anything") && matches("a", "a") && matches("*b*", "abc"));
        assert!(!matches("a", "ab") && !matches("a*c", "abd") && !matches("b*", "abc"));
    }
}
