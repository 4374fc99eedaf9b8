//! Holds the conversations of a script with one broker.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail, ensure};
use atonce_kernel::chance::Chance;
use atonce_protocol::frame::{decode_response_header, encode_any_response};
use atonce_protocol::{AnyResponse, ErrorCode, Reader};
use bytes::{BufMut, Bytes, BytesMut};

use crate::apis::{Api, Apis};
use crate::codec;
use crate::connection::{Connection, Heard};
use crate::expected::Expected;
use crate::records;
use crate::script::{Case, Script, Step, Verb};
use crate::shown::{Names, Rules, Shower};
use crate::transcript::{CaseAnswers, Line, NO_VERSION, Transcript};
use crate::value::Value;
use crate::vary::{Cut, LONG, ODD, variations};

/// The versions to ask in, by API.
pub type Versions = BTreeMap<String, (i16, i16)>;

/// How long a coordinator may say that it is not ready, or an answer may not be the one waited for. Not reached on a healthy broker, however busy
/// its machine.
const SETTLE: Duration = Duration::from_secs(60);
/// The same for variations of which nobody knows what comes: many never settle.
const SETTLE_VARIED: Duration = Duration::from_millis(1500);
/// How long an answer may take that must come, or that nobody knows anything of.
const PATIENCE: Duration = Duration::from_secs(30);
/// The same where no answer is what the other broker gave. Questions that wait on purpose wait for less.
const SILENCE: Duration = Duration::from_millis(2500);
/// How often a conversation is held that does not go as expected: a difference that stays is none by chance.
const ATTEMPTS: usize = 3;
/// Between two attempts.
const PAUSE: Duration = Duration::from_millis(10);

/// Asks one broker.
pub struct Asker<'a> {
    apis: &'a Apis,
    rules: &'a Rules,
    address: String,
    /// What the newest version is that lines are asked in which do not name one.
    newest: Versions,
    /// What the broker serves of it.
    served: Versions,
    connections: BTreeMap<usize, Connection>,
    /// Makes names that nobody else uses.
    tag: String,
    scenes: u64,
    correlation_id: i32,
    /// What answers showed that is no answer at all: bytes that our codec does not read, or not write again.
    pub codec_faults: Vec<String>,
    /// What went as expected only when it was held again.
    pub by_chance: Vec<String>,
}

/// What a conversation knows.
#[derive(Clone, Default)]
struct Scene {
    number: u64,
    names: Names,
    bound: BTreeMap<String, Value>,
    sent: BTreeMap<usize, VecDeque<Sent>>,
}

/// A question on its way.
#[derive(Clone)]
struct Sent {
    api: Api,
    version: i16,
    correlation_id: i32,
    /// No answer is expected: another question follows that has one.
    is_silent: bool,
}

/// An answer: as a value, where there is one, and as text.
struct Answer {
    value: Option<Value>,
    text: String,
}

impl<'a> Asker<'a> {
    /// Asks the broker at `address`. `newest` are the versions to ask in; those that it does not serve are left out.
    pub fn new(apis: &'a Apis, rules: &'a Rules, address: &str, newest: Option<&Versions>) -> Result<Self> {
        /// Askers of one process, which may begin at the same moment.
        static ASKERS: AtomicU64 = AtomicU64::new(0);
        let seed = SystemTime::now().duration_since(UNIX_EPOCH)?.as_nanos();
        let tag = format!(
            "{:06x}{:x}",
            Chance::from_seed(u64::try_from(seed)? ^ u64::from(std::process::id())).next_u64() & 0xff_ffff,
            ASKERS.fetch_add(1, Ordering::Relaxed)
        );
        let mut asker = Self {
            apis,
            rules,
            address: address.to_owned(),
            newest: BTreeMap::new(),
            served: BTreeMap::new(),
            connections: BTreeMap::new(),
            tag,
            scenes: 0,
            correlation_id: 0,
            codec_faults: Vec::new(),
            by_chance: Vec::new(),
        };
        asker.served = asker.ask_what_is_served()?;
        asker.newest = newest.cloned().unwrap_or_else(|| asker.served.clone());
        Ok(asker)
    }

    /// The versions that the broker serves and that we know, settled ones only.
    #[must_use]
    pub fn served(&self) -> &Versions {
        &self.served
    }

    fn ask_what_is_served(&mut self) -> Result<Versions> {
        let api = self.apis.get("ApiVersions")?;
        let request = codec::complete(&api.request, 0, &Value::Fields(Vec::new()))?;
        let mut scene = Scene::default();
        self.send(&mut scene, 1, api, 0, &request, Cut::Whole)?;
        let answer = self.receive(&mut scene, 1, PATIENCE)?;
        let answer = answer.value.with_context(|| format!("{} does not say what it serves", self.address))?;
        let mut versions = Versions::new();
        let Some(Value::List(keys)) = answer.field("api_keys") else { bail!("no api_keys") };
        for key in keys {
            let number = |name: &str| match key.field(name) {
                Some(Value::Int(number)) => Ok(i16::try_from(*number)?),
                other => bail!("{name}: {other:?}"),
            };
            let (key, from, to) = (number("api_key")?, number("min_version")?, number("max_version")?);
            if let Some(api) = self.apis.iter().find(|api| api.key.to_i16() == key) {
                let range = (from.max(api.request.versions.from), to.min(api.newest()));
                versions.insert(api.name.clone(), range);
            }
        }
        Ok(versions)
    }

    /// Has a fresh broker give away the producer ids that questions name as nobody's: 0 and 1.
    pub fn use_up_small_producer_ids(&mut self) -> Result<()> {
        let api = self.apis.get("InitProducerId")?;
        let request = codec::complete(&api.request, 0, &Value::parse("{transactional_id: null}")?)?;
        let mut scene = Scene::default();
        for _ in 0..2 {
            self.send(&mut scene, 1, api, 0, &request, Cut::Whole)?;
            let answer = self.receive(&mut scene, 1, PATIENCE)?;
            ensure!(answer.value.is_some(), "{} gives no producer id: {}", self.address, answer.text);
        }
        Ok(())
    }

    /// Holds all conversations of `script`; again those that do not go as `expected`, if something is.
    pub fn run(&mut self, script: &Script, expected: Option<&Transcript>) -> Result<Transcript> {
        let mut transcript = Transcript::default();
        let mut shared = self.scene(&Scene::default())?;
        let mut once = CaseAnswers { title: "once".to_owned(), lines: Vec::new() };
        let mut of_once = Expected::of(expected, &once.title);
        for step in &script.once {
            self.step(&mut shared, step, None, &mut of_once, &mut once).with_context(|| step.text.clone())?;
        }
        if !once.lines.is_empty() {
            transcript.cases.push(once);
        }
        for case in &script.cases {
            let mut answers = CaseAnswers { title: case.title.clone(), lines: Vec::new() };
            let expected = Expected::of(expected, &case.title);
            for version in self.versions_of(case)? {
                let held = self
                    .hold_until_expected(&shared, case, version, &expected)
                    .with_context(|| format!("{} {version}", case.title))?;
                held.lines.iter().for_each(|line| {
                    line.answers.iter().for_each(|(label, version, text)| {
                        keep(&mut answers, &line.text, label, *version, text);
                    });
                });
            }
            if !answers.lines.is_empty() {
                transcript.cases.push(answers);
            }
        }
        Ok(transcript)
    }

    /// Holds `case`, again if its plain lines were not answered as expected, or if it broke off. (Variations look after themselves.)
    fn hold_until_expected(
        &mut self,
        shared: &Scene,
        case: &Case,
        version: i16,
        expected: &Expected<'_>,
    ) -> Result<CaseAnswers> {
        let attempts = if expected.is_known() { ATTEMPTS } else { 1 };
        let mut attempt = 1;
        loop {
            let mut answers = CaseAnswers { title: case.title.clone(), lines: Vec::new() };
            let held = self.hold(shared, case, version, expected.clone(), &mut answers);
            let is_as_expected = held.is_ok() && expected.has_plain_lines_of(&answers);
            if is_as_expected && attempt > 1 {
                self.by_chance.push(format!("{} {version}", case.title));
            }
            if is_as_expected || attempt == attempts {
                return held.map(|()| answers);
            }
            attempt += 1;
        }
    }

    fn versions_of(&self, case: &Case) -> Result<Vec<i16>> {
        let Some((api, from, to)) = &case.subject else { return Ok(vec![NO_VERSION]) };
        self.apis.get(api)?;
        let both = [self.newest.get(api), self.served.get(api)];
        let [Some(asked), Some(served)] = both else { return Ok(Vec::new()) };
        Ok(((*from).max(asked.0).max(served.0)..=(*to).min(asked.1).min(served.1)).collect())
    }

    /// A conversation that begins with what `shared` knows.
    fn scene(&mut self, shared: &Scene) -> Result<Scene> {
        const HOUR_MS: i64 = 3_600_000;
        self.scenes += 1;
        let mut scene = shared.clone();
        scene.number = self.scenes;
        if scene.names.now_ms == 0 {
            let now = i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis())?;
            // Far enough from the broker's clock to tell the two apart.
            scene.names.now_ms = now - HOUR_MS / 2;
        }
        Ok(scene)
    }

    fn hold(
        &mut self,
        shared: &Scene,
        case: &Case,
        version: i16,
        mut expected: Expected<'_>,
        answers: &mut CaseAnswers,
    ) -> Result<()> {
        let subject = case.subject.as_ref().map(|(api, _, _)| (api.as_str(), version));
        let mut scene = self.scene(shared)?;
        for (place, step) in case.steps.iter().enumerate() {
            match step.verb {
                Verb::Ask | Verb::Send | Verb::Receive => {
                    self.step(&mut scene, step, subject, &mut expected, answers)?;
                }
                Verb::Vary | Verb::Probe => {
                    self.vary(shared, &mut scene, case, place, subject, &mut expected, answers)?;
                }
            }
        }
        Ok(())
    }

    fn version(&self, step: &Step, subject: Option<(&str, i16)>) -> Result<i16> {
        if let Some(version) = step.version {
            return Ok(version);
        }
        match subject {
            Some((api, version)) if api == step.api => Ok(version),
            _ => Ok(self.newest.get(&step.api).with_context(|| format!("{} is not served", step.api))?.1),
        }
    }

    fn step(
        &mut self,
        scene: &mut Scene,
        step: &Step,
        subject: Option<(&str, i16)>,
        expected: &mut Expected<'_>,
        answers: &mut CaseAnswers,
    ) -> Result<()> {
        let apis = self.apis;
        let api = apis.get(&step.api)?;
        let version = self.version(step, subject)?;
        let kept_as = subject.map_or(NO_VERSION, |(_, version)| version);
        // What is sent is not answered yet: its line is the one that receives.
        let of_line = if step.is_quiet || step.verb == Verb::Send { None } else { Some(expected.line(&step.text)) };
        let expected = of_line.and_then(|line| line.answer("", kept_as));
        let answer = if step.verb == Verb::Receive {
            self.receive(scene, step.connection, patience(expected))?
        } else {
            let Some(request) = self.resolve(scene, &step.request)? else {
                keep(answers, &step.text, "", kept_as, NOT_ASKED);
                return Ok(());
            };
            let request = codec::complete(&api.request, version, &request)?;
            if step.verb == Verb::Send {
                return self.send(scene, step.connection, api, version, &request, Cut::Whole);
            }
            self.ask(scene, step, api, version, &request, Cut::Whole, expected, SETTLE)?
        };
        if step.is_quiet {
            let good = answer.value.as_ref().is_some_and(|value| first_error(value).is_none());
            if !good {
                bail!("wanted no error: {}: {}", step.text, answer.text);
            }
        } else {
            keep(answers, &step.text, "", kept_as, &answer.text);
        }
        for (name, path) in &step.learnt {
            if let Some(value) = answer.value.as_ref().and_then(|value| value.at(path)) {
                scene.bound.insert(name.clone(), value.clone());
            }
        }
        Ok(())
    }

    #[expect(clippy::too_many_arguments, reason = "a question with all that belongs to it")]
    fn vary(
        &mut self,
        shared: &Scene,
        scene: &mut Scene,
        case: &Case,
        place: usize,
        subject: Option<(&str, i16)>,
        expected: &mut Expected<'_>,
        answers: &mut CaseAnswers,
    ) -> Result<()> {
        let apis = self.apis;
        let step = &case.steps[place];
        let api = apis.get(&step.api)?;
        let version = self.version(step, subject)?;
        let kept_as = subject.map_or(NO_VERSION, |(_, version)| version);
        let of_line = expected.line(&step.text);
        let Some(request) = self.resolve(scene, &step.request)? else {
            keep(answers, &step.text, "", kept_as, NOT_ASKED);
            return Ok(());
        };
        let request = codec::complete(&api.request, version, &request)?;
        let labels: Vec<String> =
            variations(&api.request, version, &request, &step.except).into_iter().map(|it| it.label).collect();
        for (number, label) in labels.iter().enumerate() {
            let expected_answer = of_line.answer(label, kept_as);
            let mut is_stale = number > 0 && step.verb == Verb::Vary;
            let mut attempt = 1;
            let text = loop {
                if is_stale {
                    *scene = self.scene(shared)?;
                    let mut not_kept = CaseAnswers::default();
                    let mut expected = expected.from_the_beginning();
                    for step in &case.steps[..place] {
                        if !matches!(step.verb, Verb::Vary | Verb::Probe) {
                            self.step(scene, step, subject, &mut expected, &mut not_kept)?;
                        }
                    }
                }
                let text = self.ask_varied(scene, step, api, version, label, expected_answer)?;
                let is_as_expected = expected_answer.is_none() || text.as_deref() == expected_answer;
                if is_as_expected && attempt > 1 {
                    self.by_chance.push(format!("{} {version}: {label}", case.title));
                }
                if is_as_expected || attempt == ATTEMPTS {
                    break text;
                }
                (attempt, is_stale) = (attempt + 1, true);
            };
            if let Some(text) = text {
                keep(answers, &step.text, label, kept_as, &text);
            }
        }
        Ok(())
    }

    /// The answer to the variation of that name, if there is one.
    fn ask_varied(
        &mut self,
        scene: &mut Scene,
        step: &Step,
        api: &Api,
        version: i16,
        label: &str,
        expected: Option<&str>,
    ) -> Result<Option<String>> {
        let Some(request) = self.resolve(scene, &step.request)? else { return Ok(Some(NOT_ASKED.to_owned())) };
        let request = codec::complete(&api.request, version, &request)?;
        let varied =
            variations(&api.request, version, &request, &step.except).into_iter().find(|it| it.label == *label);
        let Some(varied) = varied else { return Ok(None) };
        let Some(request) = self.resolve(scene, &varied.request)? else { return Ok(None) };
        let settle = if expected.is_some() { PATIENCE } else { SETTLE_VARIED };
        let answer = self.ask(scene, step, api, version, &request, varied.cut, expected, settle)?;
        Ok(Some(answer.text))
    }

    #[expect(clippy::too_many_arguments, reason = "a question with all that belongs to it")]
    fn ask(
        &mut self,
        scene: &mut Scene,
        step: &Step,
        api: &Api,
        version: i16,
        request: &Value,
        cut: Cut,
        expected: Option<&str>,
        settle: Duration,
    ) -> Result<Answer> {
        let begun = Instant::now();
        let deadline = begun + settle;
        loop {
            self.send(scene, step.connection, api, version, request, cut)?;
            let answer = self.receive(scene, step.connection, patience(expected))?;
            let wanted = match (&answer.value, &step.until) {
                (Some(value), Some((path, wanted))) => {
                    value.at(path).is_some_and(|found| shown_as(found, path, wanted))
                }
                (None, Some(_)) => false,
                (_, None) => true,
            };
            // To acks=0 closing is the one way to tell an error, also one that passes.
            let may_pass = match &answer.value {
                Some(value) => first_error(value).is_some_and(is_passing),
                None => is_silent(api, request) && answer.text == CLOSED,
            };
            let is_expected = expected == Some(answer.text.as_str());
            if (wanted && !may_pass) || is_expected || Instant::now() > deadline {
                let took_ms = begun.elapsed().as_millis();
                tracing::debug!(took_ms, version, question = step.text, answer = answer.text);
                return Ok(answer);
            }
            std::thread::sleep(PAUSE);
        }
    }

    fn send(
        &mut self,
        scene: &mut Scene,
        connection: usize,
        api: &Api,
        version: i16,
        request: &Value,
        cut: Cut,
    ) -> Result<()> {
        self.correlation_id += 1;
        let mut frame = BytesMut::new();
        frame.put_i32(0);
        frame.put_i16(api.key.to_i16());
        frame.put_i16(version);
        frame.put_i32(self.correlation_id);
        frame.put_i16(6);
        frame.put_slice(b"oracle");
        if api.key.request_header_version(version) >= 2 {
            frame.put_u8(0);
        }
        let header_end = frame.len();
        let request = finished(request, scene.names.now_ms)?;
        codec::encode(&api.request, version, &request, &mut frame)?;
        match cut {
            Cut::Whole => {}
            Cut::ByOne => frame.truncate(frame.len().saturating_sub(1).max(header_end)),
            Cut::ToHeader => frame.truncate(header_end),
            Cut::Longer => frame.put_slice(b"xyz"),
        }
        let length = i32::try_from(frame.len() - 4)?;
        frame[..4].copy_from_slice(&length.to_be_bytes());
        let is_silent = is_silent(api, &request);
        let sent = Sent { api: api.clone(), version, correlation_id: self.correlation_id, is_silent };
        if is_silent {
            // One that is answered follows: only then is it known that nothing came.
            let mut probe = BytesMut::new();
            probe.put_i32(10);
            probe.put_i16(18);
            probe.put_i16(0);
            probe.put_i32(-7);
            probe.put_i16(-1);
            frame.put(probe);
        }
        scene.sent.entry(connection).or_default().push_back(sent);
        self.connection(connection)?.send(&frame);
        Ok(())
    }

    fn connection(&mut self, number: usize) -> Result<&mut Connection> {
        if !self.connections.contains_key(&number) {
            self.connections.insert(number, Connection::open(&self.address)?);
        }
        self.connections.get_mut(&number).context("it was just opened")
    }

    fn receive(&mut self, scene: &mut Scene, connection: usize, patience: Duration) -> Result<Answer> {
        let sent = scene.sent.get_mut(&connection).and_then(VecDeque::pop_front).context("nothing was asked")?;
        let heard = self.connection(connection)?.receive(patience)?;
        let silent = |text: &str| Answer { value: None, text: text.to_owned() };
        let frame = match heard {
            Heard::Frame(frame) => frame,
            Heard::Closed => {
                scene.sent.remove(&connection);
                return Ok(silent(CLOSED));
            }
            Heard::Nothing => {
                scene.sent.remove(&connection);
                return Ok(silent(NOTHING));
            }
        };
        if sent.is_silent && frame.starts_with(&(-7_i32).to_be_bytes()) {
            return Ok(silent("no answer, as wanted"));
        }
        self.judge_codec(&sent, &frame);
        let value = match read(&sent, &frame) {
            Ok(value) => value,
            Err(error) => return Ok(silent(&format!("cannot be read: {error:#}"))),
        };
        let text = Shower::new(self.rules, &sent.api.response, &mut scene.names).show(&sent.api.name, &value);
        Ok(Answer { value: Some(value), text })
    }

    /// The crate that the broker and our clients use must read every answer, and write the same bytes again.
    fn judge_codec(&mut self, sent: &Sent, frame: &Bytes) {
        let mut reader = Reader::new(frame.clone());
        // An answer to ApiVersions in a version from the future is one of version 0.
        let verdict = decode_response_header(&mut reader, sent.api.key, sent.version)
            .and_then(|_| AnyResponse::decode(sent.api.key, &mut reader, sent.version))
            .and_then(|response| reader.finish().map(|()| response));
        let fault = match verdict {
            Ok(response) => match encode_any_response(sent.version, sent.correlation_id, &response) {
                Ok(again) if again[4..] == frame[..] => return,
                Ok(_) => "is written again as other bytes".to_owned(),
                Err(error) => error.to_string(),
            },
            Err(error) => error.to_string(),
        };
        self.codec_faults.push(format!("{} v{}: {fault}", sent.api.name, sent.version));
    }

    /// `value` with names and what was learnt put in; nothing if something was not learnt.
    fn resolve(&self, scene: &mut Scene, value: &Value) -> Result<Option<Value>> {
        Ok(Some(match value {
            Value::Name(name) => Value::Text(self.unique(scene, name)),
            Value::Bound(name, added) if name == "now" => Value::Int(scene.names.now_ms + added),
            Value::Bound(name, added) => match (scene.bound.get(name), added) {
                (Some(Value::Int(number)), added) => Value::Int(number + added),
                (Some(value), 0) => value.clone(),
                _ => return Ok(None),
            },
            Value::List(elements) => {
                let mut resolved = Vec::new();
                for element in elements {
                    let Some(element) = self.resolve(scene, element)? else { return Ok(None) };
                    resolved.push(element);
                }
                Value::List(resolved)
            }
            Value::Fields(fields) => {
                let mut resolved = Vec::new();
                for (name, value) in fields {
                    let Some(value) = self.resolve(scene, value)? else { return Ok(None) };
                    resolved.push((name.clone(), value));
                }
                let topic = resolved.iter().find(|(name, _)| matches!(name.as_str(), "name" | "topic" | "topic_name"));
                if let Some((_, Value::Text(topic))) = topic {
                    let id = scene.names.topic_ids.get(topic).copied().unwrap_or(*b"nobody has this.");
                    resolved.push((codec::KNOWN_TOPIC_ID.to_owned(), Value::Uuid(id)));
                }
                Value::Fields(resolved)
            }
            Value::Batch(description) => {
                let Some(description) = self.resolve(scene, description)? else { return Ok(None) };
                Value::Batch(Box::new(description))
            }
            value => value.clone(),
        }))
    }

    fn unique(&self, scene: &mut Scene, name: &str) -> String {
        let fresh = || {
            let name = match name {
                ODD => "no name/of a töpic".to_owned(),
                LONG => "x".repeat(300),
                name => name.to_owned(),
            };
            format!("{name}-{}-{:05}", self.tag, scene.number)
        };
        scene.names.texts.entry(name.to_owned()).or_insert_with(fresh).clone()
    }
}

/// What is kept where no answer came.
const NOTHING: &str = "nothing";
/// What is kept where the connection ended.
const CLOSED: &str = "closed";
/// What is kept of a question that could not be asked.
const NOT_ASKED: &str = "not asked: an earlier answer did not say enough";

/// For how long to wait where that is expected.
fn patience(expected: Option<&str>) -> Duration {
    if expected == Some(NOTHING) { SILENCE } else { PATIENCE }
}

fn keep(answers: &mut CaseAnswers, line: &str, label: &str, version: i16, text: &str) {
    // The same line may stand in a case more than once: the first that has no answer of that version is meant.
    let is_free =
        |it: &&mut Line| it.text == line && !it.answers.iter().any(|(known, at, _)| known == label && *at == version);
    let answer = (label.to_owned(), version, text.to_owned());
    match answers.lines.iter_mut().find(is_free) {
        Some(line) => line.answers.push(answer),
        None => answers.lines.push(Line { text: line.to_owned(), answers: vec![answer] }),
    }
}

/// Batches built.
fn finished(value: &Value, now_ms: i64) -> Result<Value> {
    Ok(match value {
        Value::Batch(description) => Value::Bytes(records::build(description, now_ms)?),
        Value::List(elements) => Value::List(elements.iter().map(|it| finished(it, now_ms)).collect::<Result<_>>()?),
        Value::Fields(fields) => {
            let fields = fields.iter().map(|(name, value)| Ok((name.clone(), finished(value, now_ms)?)));
            Value::Fields(fields.collect::<Result<_>>()?)
        }
        value => value.clone(),
    })
}

fn read(sent: &Sent, frame: &Bytes) -> Result<Value> {
    let mut reader = Reader::new(frame.clone());
    let header = decode_response_header(&mut reader, sent.api.key, sent.version)?;
    anyhow::ensure!(header.correlation_id == sent.correlation_id, "it answers something else");
    let value = codec::decode(&sent.api.response, sent.version, &mut reader)?;
    reader.finish()?;
    Ok(value)
}

/// The first error that an answer names anywhere.
fn first_error(value: &Value) -> Option<ErrorCode> {
    match value {
        Value::List(elements) => elements.iter().find_map(first_error),
        Value::Fields(fields) => fields.iter().find_map(|(name, value)| match value {
            Value::Int(code) if name.ends_with("error_code") && *code != 0 => {
                i16::try_from(*code).ok().and_then(ErrorCode::from_i16)
            }
            value => first_error(value),
        }),
        _ => None,
    }
}

/// Whether no answer is wanted.
fn is_silent(api: &Api, request: &Value) -> bool {
    api.name == "Produce" && request.field("acks") == Some(&Value::Int(0))
}

/// Whether a coordinator that says so will say something else soon.
fn is_passing(error: ErrorCode) -> bool {
    matches!(
        error,
        ErrorCode::ConcurrentTransactions
            | ErrorCode::CoordinatorNotAvailable
            | ErrorCode::NotCoordinator
            | ErrorCode::CoordinatorLoadInProgress
            | ErrorCode::LeaderNotAvailable
            | ErrorCode::NotLeaderOrFollower
    )
}

fn shown_as(found: &Value, path: &str, wanted: &str) -> bool {
    match found {
        Value::Int(code) if path.ends_with("error_code") => {
            i16::try_from(*code).ok().and_then(ErrorCode::from_i16).is_some_and(|code| code.name() == wanted)
        }
        Value::List(elements) => format!("{}", elements.len()) == wanted,
        Value::Text(text) => text == wanted,
        value => value.to_string() == wanted,
    }
}
