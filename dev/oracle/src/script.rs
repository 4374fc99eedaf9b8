//! Scripts: conversations as they are written down in `scripts/`.
//!
//! ```text
//! def init ID                                         a word of one's own: its arguments are put into its lines
//!   InitProducerId {transactional_id: @ID, transaction_timeout_ms: 60000} -> $ID.pid=producer_id
//!
//! once                                                for the whole script: its names are known to all cases
//!   topic x 2
//!
//! == an end in state Empty [EndTxn 0-4]               a case, held anew for each version of the API
//! init t
//! EndTxn {transactional_id: @t, producer_id: $t.pid}
//! ```
//!
//! A line: `[quiet] [N:] [send|receive|vary|probe] API[.VERSION] [except PATH,…] {…} [-> $NAME=PATH …] [until PATH=VALUE]`.
//! `N:` is another connection than the first. `send` does not wait for the answer, `receive` does (and names only the
//! API). `vary` asks the question with everything wrong in turn, each time in a case held anew; `probe` does so in one
//! case, for questions that change nothing. `quiet` answers are not kept, and must be free of errors. `until` asks again.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

use crate::value::Value;

/// What a line does with its question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// Asks and waits.
    Ask,
    /// Asks and goes on.
    Send,
    /// Waits for what was sent.
    Receive,
    /// Asks in all variations, each in a case held anew.
    Vary,
    /// Asks in all variations, in one case.
    Probe,
}

/// A line of a case.
#[derive(Clone, Debug)]
pub struct Step {
    /// The line, as it is kept beside its answers.
    pub text: String,
    /// What to do.
    pub verb: Verb,
    /// Its answer is not kept.
    pub is_quiet: bool,
    /// Over which connection.
    pub connection: usize,
    /// What API.
    pub api: String,
    /// In which version, if not in that of the case.
    pub version: Option<i16>,
    /// The question.
    pub request: Value,
    /// Paths that are not varied.
    pub except: Vec<String>,
    /// What to learn from the answer: name and path.
    pub learnt: Vec<(String, String)>,
    /// What the answer must say, or the question is asked again.
    pub until: Option<(String, String)>,
}

/// A conversation.
#[derive(Clone, Debug)]
pub struct Case {
    /// What it is about.
    pub title: String,
    /// The API whose versions it goes through, and from which to which.
    pub subject: Option<(String, i16, i16)>,
    /// Line by line.
    pub steps: Vec<Step>,
}

/// A file of cases.
#[derive(Clone, Debug)]
pub struct Script {
    /// The name of the file, without its ending.
    pub name: String,
    /// What is done once, before all cases.
    pub once: Vec<Step>,
    /// The cases.
    pub cases: Vec<Case>,
}

/// The folder of the scripts.
#[must_use]
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts")
}

/// Words that all scripts know.
const WORDS: &str = "words";

/// All scripts, by name.
pub fn all() -> Result<Vec<Script>> {
    let words = fs::read_to_string(folder().join(format!("{WORDS}.txt")))?;
    let mut scripts = Vec::new();
    for entry in fs::read_dir(folder())? {
        let path = entry?.path();
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if name == WORDS || path.extension().is_none_or(|ending| ending != "txt") {
            continue;
        }
        let text = fs::read_to_string(&path)?;
        scripts.push(parse(&name, &[words.as_str(), text.as_str()]).with_context(|| path.display().to_string())?);
    }
    scripts.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(scripts)
}

/// A word of one's own.
#[derive(Clone, Debug, Default)]
struct Definition {
    parameters: Vec<String>,
    lines: Vec<String>,
}

enum Place {
    Nowhere,
    Definition(String),
    Once,
    Case,
}

/// Reads a script that is written in several texts.
pub fn parse(name: &str, texts: &[&str]) -> Result<Script> {
    let mut definitions: BTreeMap<String, Definition> = BTreeMap::new();
    let mut script = Script { name: name.to_owned(), once: Vec::new(), cases: Vec::new() };
    let mut place = Place::Nowhere;
    for line in texts.iter().flat_map(|text| joined(text)) {
        let body = line.trim();
        if body.is_empty() || body.starts_with('#') {
            continue;
        }
        if let Some(head) = body.strip_prefix("def ") {
            let mut words = head.split_whitespace().map(str::to_owned);
            let word = words.next().context("a definition without a name")?;
            definitions.insert(word.clone(), Definition { parameters: words.collect(), lines: Vec::new() });
            place = Place::Definition(word);
        } else if body == "once" {
            place = Place::Once;
        } else if let Some(head) = body.strip_prefix("== ") {
            script.cases.push(parse_head(head)?);
            place = Place::Case;
        } else if let Place::Definition(word) = &place {
            definitions.entry(word.clone()).or_default().lines.push(body.to_owned());
        } else {
            let mut lines = Vec::new();
            expand(body, &definitions, &mut lines, 0)?;
            for line in lines {
                let step = parse_step(&line).with_context(|| line.clone())?;
                match place {
                    Place::Once => script.once.push(step),
                    Place::Case => script.cases.last_mut().context("a line outside a case")?.steps.push(step),
                    Place::Nowhere | Place::Definition(_) => bail!("a line outside a case: {line}"),
                }
            }
        }
    }
    for case in &script.cases {
        let same = script.cases.iter().filter(|other| other.title == case.title).count();
        ensure!(same == 1, "two cases are called {}", case.title);
    }
    Ok(script)
}

/// Lines, with those that end in a backslash joined to the next.
fn joined(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut goes_on = false;
    for line in text.lines() {
        let (body, more) = match line.strip_suffix('\\') {
            Some(body) => (body.trim_end(), true),
            None => (line, false),
        };
        match lines.last_mut() {
            Some(last) if goes_on => {
                last.push(' ');
                last.push_str(body.trim_start());
            }
            _ => lines.push(body.to_owned()),
        }
        goes_on = more;
    }
    lines
}

fn parse_head(head: &str) -> Result<Case> {
    let (title, subject) = match head.split_once('[') {
        None => (head, None),
        Some((title, subject)) => {
            let subject = subject.trim_end().strip_suffix(']').context("a head lacks its ]")?;
            let (api, versions) = subject.split_once(' ').unwrap_or((subject, "0-32767"));
            let (from, to) = versions.split_once('-').unwrap_or((versions, versions));
            (title, Some((api.to_owned(), from.trim().parse()?, to.trim().parse()?)))
        }
    };
    Ok(Case { title: title.trim().to_owned(), subject, steps: Vec::new() })
}

fn expand(line: &str, definitions: &BTreeMap<String, Definition>, out: &mut Vec<String>, depth: usize) -> Result<()> {
    ensure!(depth < 10, "a word that leads to itself: {line}");
    let words: Vec<&str> = line.split_whitespace().collect();
    // Before the word there may be what holds for all its lines.
    let count = words.iter().take_while(|word| **word == "quiet" || word.ends_with(':')).count();
    let definition = words.get(count).and_then(|word| definitions.get(*word));
    let Some(definition) = definition else {
        out.push(line.to_owned());
        return Ok(());
    };
    let arguments = &words[count + 1..];
    ensure!(arguments.len() == definition.parameters.len(), "wants {}: {line}", definition.parameters.join(" "));
    for inner in &definition.lines {
        let mut text = put_in(inner, &definition.parameters, arguments);
        for before in words[..count].iter().rev() {
            if !text.split_whitespace().any(|word| word == *before) {
                text = format!("{before} {text}");
            }
        }
        expand(&text, definitions, out, depth + 1)?;
    }
    Ok(())
}

/// `line` with each parameter, where it stands alone, replaced by its argument.
fn put_in(line: &str, parameters: &[String], arguments: &[&str]) -> String {
    let mut out = String::new();
    let mut word = String::new();
    for letter in line.chars().chain(['\n']) {
        if letter.is_ascii_alphanumeric() || letter == '_' {
            word.push(letter);
            continue;
        }
        match parameters.iter().position(|parameter| *parameter == word) {
            Some(place) => out.push_str(arguments[place]),
            None => out.push_str(&word),
        }
        word.clear();
        out.push(letter);
    }
    out.trim_end().to_owned()
}

fn parse_step(line: &str) -> Result<Step> {
    let mut step = Step {
        text: line.to_owned(),
        verb: Verb::Ask,
        is_quiet: false,
        connection: 1,
        api: String::new(),
        version: None,
        request: Value::Fields(Vec::new()),
        except: Vec::new(),
        learnt: Vec::new(),
        until: None,
    };
    let mut rest = line;
    let mut next_is_exception = false;
    while let Some((word, after)) = first_word(rest) {
        if word.starts_with('{') {
            break;
        }
        rest = after;
        match word {
            "quiet" => step.is_quiet = true,
            "send" => step.verb = Verb::Send,
            "receive" => step.verb = Verb::Receive,
            "vary" => step.verb = Verb::Vary,
            "probe" => step.verb = Verb::Probe,
            "except" => next_is_exception = true,
            "->" | "until" => {
                return finish_step(step, word, rest);
            }
            word if next_is_exception => {
                step.except = word.split(',').map(str::to_owned).collect();
                next_is_exception = false;
            }
            word => match word.strip_suffix(':') {
                Some(number) => step.connection = number.parse().with_context(|| format!("what is `{word}`?"))?,
                None => {
                    ensure!(step.api.is_empty(), "two APIs: {} and {word}", step.api);
                    let (api, version) = word.split_once('.').unwrap_or((word, ""));
                    step.api = api.to_owned();
                    step.version = if version.is_empty() { None } else { Some(version.parse()?) };
                }
            },
        }
    }
    ensure!(!step.api.is_empty(), "no API");
    if rest.trim_start().starts_with('{') {
        let (request, after) = Value::parse_front(rest)?;
        step.request = request;
        rest = after;
    }
    match first_word(rest) {
        None => Ok(step),
        Some((word, rest)) => finish_step(step, word, rest),
    }
}

fn finish_step(mut step: Step, first: &str, rest: &str) -> Result<Step> {
    let mut mode = first;
    for word in rest.split_whitespace() {
        if word == "until" || word == "->" {
            mode = word;
            continue;
        }
        let (name, path) = word.split_once('=').with_context(|| format!("what is `{word}`?"))?;
        match mode {
            "->" => {
                let name = name.strip_prefix('$').context("what is learnt begins with $")?;
                step.learnt.push((name.to_owned(), path.to_owned()));
            }
            "until" => step.until = Some((name.to_owned(), path.to_owned())),
            other => bail!("what is `{other}`?"),
        }
    }
    Ok(step)
}

fn first_word(text: &str) -> Option<(&str, &str)> {
    let text = text.trim_start();
    if text.is_empty() {
        return None;
    }
    let end = text.find(char::is_whitespace).unwrap_or(text.len());
    Some(text.split_at(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_ones_own_are_put_in() {
        let text = "def init ID\n  InitProducerId.5 {transactional_id: @ID} -> $ID.pid=producer_id\n\
                    == a case [EndTxn 0-4]\n2: init t\nvary EndTxn except a,b.c {x: 1}\n";
        let script = parse("test", &[text]).expect("it reads");
        let case = &script.cases[0];
        assert_eq!(case.subject, Some(("EndTxn".to_owned(), 0, 4)));
        assert_eq!(case.steps[0].connection, 2);
        assert_eq!(case.steps[0].version, Some(5));
        assert_eq!(case.steps[0].request.to_string(), "{transactional_id: @t}");
        assert_eq!(case.steps[0].learnt, [("t.pid".to_owned(), "producer_id".to_owned())]);
        assert_eq!((case.steps[1].verb, case.steps[1].except.len()), (Verb::Vary, 2));
    }
}
