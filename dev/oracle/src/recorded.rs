//! The answers of Apache Kafka that are kept in `recorded/`, and how a broker is asked all that.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use atonce_broker::{Broker, Durability};

use crate::apis::Apis;
use crate::asker::{Asker, Versions};
use crate::script::Script;
use crate::shown::Rules;
use crate::transcript::Transcript;

/// The folder of the answers.
#[must_use]
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("recorded")
}

/// The versions that Apache Kafka served when it was recorded.
pub fn versions() -> Result<Versions> {
    let path = folder().join("versions");
    let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let mut versions = Versions::new();
    for line in text.lines() {
        let (name, range) = line.split_once(' ').context("a name and a range")?;
        let (from, to) = range.split_once('-').context("a range")?;
        versions.insert(name.to_owned(), (from.parse()?, to.parse()?));
    }
    Ok(versions)
}

/// Keeps them.
pub fn keep_versions(versions: &Versions) -> Result<()> {
    let text: String = versions.iter().map(|(name, (from, to))| format!("{name} {from}-{to}\n")).collect();
    fs::create_dir_all(folder())?;
    Ok(fs::write(folder().join("versions"), text)?)
}

/// Apache Kafka's answers to the script of that name.
pub fn transcript(name: &str) -> Result<Transcript> {
    let path = folder().join(format!("{name}.txt"));
    let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    Transcript::parse(&text).with_context(|| path.display().to_string())
}

/// A broker of ours in this process, with the settings of the Apache Kafka that was recorded. But one: a group's next assignment is made at once if
/// so much time has passed since the last, which on a busy machine is so or not so between any two questions. Here it hardly ever has.
pub async fn our_broker() -> Result<Broker> {
    let broker = Broker::builder()
        .temporary()
        .durability(Durability::Os)
        .property("group.min.session.timeout.ms", "500")
        .property("group.initial.rebalance.delay.ms", "0")
        .property("group.consumer.assignment.interval.ms", "15000")
        .start()
        .await?;
    Ok(broker)
}

/// What came of asking a broker.
#[derive(Debug, Default)]
pub struct Asked {
    /// A transcript for each script.
    pub transcripts: Vec<Transcript>,
    /// Answers that the protocol crate does not read or not write again.
    pub codec_faults: Vec<String>,
    /// Conversations that went as expected only when they were held again.
    pub by_chance: Vec<String>,
    /// What the broker serves.
    pub served: Versions,
}

/// Puts all `scripts` to the broker at `address`, side by side. `newest` are the versions to ask in; `expected` are the answers to expect, one
/// transcript for each script: a conversation that goes otherwise is held again.
pub fn ask_all(
    address: &str,
    scripts: &[Script],
    newest: Option<&Versions>,
    expected: Option<&[Transcript]>,
) -> Result<Asked> {
    let (apis, rules) = (Apis::read()?, Rules::read()?);
    Asker::new(&apis, &rules, address, newest)?.use_up_small_producer_ids()?;
    let results: Vec<Result<(Transcript, Asked)>> = std::thread::scope(|scope| {
        let threads: Vec<_> = scripts
            .iter()
            .enumerate()
            .map(|(number, script)| {
                let (apis, rules) = (&apis, &rules);
                let expected = expected.and_then(|all| all.get(number));
                scope.spawn(move || {
                    let mut asker = Asker::new(apis, rules, address, newest)?;
                    let transcript = asker.run(script, expected).with_context(|| script.name.clone())?;
                    let served = asker.served().clone();
                    let (codec_faults, by_chance) = (asker.codec_faults, asker.by_chance);
                    Ok((transcript, Asked { transcripts: Vec::new(), codec_faults, by_chance, served }))
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|_| Err(anyhow::anyhow!("it panicked"))))
            .collect()
    });
    let mut all = Asked::default();
    for result in results {
        let (transcript, asked) = result?;
        all.transcripts.push(transcript);
        all.codec_faults.extend(asked.codec_faults);
        all.by_chance.extend(asked.by_chance);
        all.served = asked.served;
    }
    all.codec_faults.sort();
    all.codec_faults.dedup();
    Ok(all)
}
