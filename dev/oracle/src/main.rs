//! `oracle record HOST:PORT [SCRIPT…]` writes down what Apache Kafka answers; `oracle compare HOST:PORT|--ours [SCRIPT…]`
//! says where another broker, or our own in this process, answers otherwise; `oracle both HOST:PORT HOST:PORT [SCRIPT…]`
//! asks two brokers and compares them, recorded or not. `RUST_LOG=atonce_oracle=debug` shows each question.

#![expect(clippy::print_stdout, reason = "a command")]

use std::fs;
use std::time::Instant;

use anyhow::{Result, bail, ensure};
use atonce_oracle::compare::{Known, differences};
use atonce_oracle::recorded::{self, ask_all};
use atonce_oracle::script::{self, Script};

fn main() -> Result<()> {
    let filter = tracing_subscriber::EnvFilter::from_default_env();
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["record", address, names @ ..] => record(address, names),
        ["compare", "--ours", names @ ..] => {
            let runtime = tokio::runtime::Runtime::new()?;
            let broker = runtime.block_on(recorded::our_broker())?;
            compare(&broker.bootstrap_servers(), names)
        }
        ["compare", address, names @ ..] => compare(address, names),
        ["both", first, second, names @ ..] => both(first, second, names),
        _ => bail!("oracle record ADDRESS | compare ADDRESS|--ours | both ADDRESS ADDRESS, then names of scripts"),
    }
}

fn scripts(names: &[&str]) -> Result<Vec<Script>> {
    let mut scripts = script::all()?;
    if let Some(unknown) = names.iter().find(|name| !scripts.iter().any(|script| script.name == **name)) {
        bail!("no script is called {unknown}");
    }
    scripts.retain(|script| names.is_empty() || names.contains(&script.name.as_str()));
    Ok(scripts)
}

fn record(address: &str, names: &[&str]) -> Result<()> {
    let scripts = scripts(names)?;
    let begun = Instant::now();
    let asked = ask_all(address, &scripts, None, None)?;
    recorded::keep_versions(&asked.served)?;
    for (script, transcript) in scripts.iter().zip(&asked.transcripts) {
        fs::write(recorded::folder().join(format!("{}.txt", script.name)), transcript.print())?;
        println!("{}: {} answers", script.name, transcript.count());
    }
    println!("in {:?}", begun.elapsed());
    ensure!(asked.codec_faults.is_empty(), "not read or not written again:\n{}", asked.codec_faults.join("\n"));
    Ok(())
}

fn compare(address: &str, names: &[&str]) -> Result<()> {
    let scripts = scripts(names)?;
    let begun = Instant::now();
    let expected = scripts.iter().map(|script| recorded::transcript(&script.name)).collect::<Result<Vec<_>>>()?;
    let asked = ask_all(address, &scripts, Some(&recorded::versions()?), Some(&expected))?;
    let mut known = Known::read()?;
    let (mut new, mut count, mut of) = (0, 0, 0);
    for ((script, expected), transcript) in scripts.iter().zip(&expected).zip(&asked.transcripts) {
        count += transcript.count();
        of += expected.count();
        for difference in known.take_out(differences(&script.name, expected, transcript)) {
            new += 1;
            println!("{difference}\n");
        }
    }
    println!("{count} answers compared of {of} recorded, in {:?}", begun.elapsed());
    let (known, unused) = known.unused();
    println!("{known} known differences");
    asked.by_chance.iter().for_each(|held| println!("as expected only when it was asked again: {held}"));
    if names.is_empty() {
        unused.iter().for_each(|line| println!("no longer there: {line}"));
    }
    ensure!(asked.codec_faults.is_empty(), "not read or not written again:\n{}", asked.codec_faults.join("\n"));
    ensure!(new == 0, "{new} new differences");
    Ok(())
}

fn both(first: &str, second: &str, names: &[&str]) -> Result<()> {
    let scripts = scripts(names)?;
    let one = ask_all(first, &scripts, None, None)?;
    let other = ask_all(second, &scripts, Some(&one.served), Some(&one.transcripts))?;
    let mut count = 0;
    for ((script, expected), found) in scripts.iter().zip(&one.transcripts).zip(&other.transcripts) {
        for difference in differences(&script.name, expected, found) {
            count += 1;
            println!("{difference}\n");
        }
    }
    ensure!(count == 0, "{count} differences");
    Ok(())
}
