//! Clients to measure, each a process of its own that takes commands: one a line on its stdin, of the form `VERB key=value…`. Each is
//! answered with one line of JSON; before the part that counts it says `{"measured":"begin"}`.
//!
//! It knows how to build `peer/Peer.java` and `peer/loop.c`, and not what any command means.

use std::fs;
use std::io::{BufRead, BufReader, Lines, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::figures::{Figure, Sample};
use crate::processes;

/// The JVM's clients, ready to be started.
#[derive(Clone, Debug)]
pub(crate) struct Jvm {
    class_path: String,
}

impl Jvm {
    /// Fetches Apache Kafka's jars, once, and compiles the peer.
    pub(crate) fn prepare(kafka_script: &Path, source: &Path, classes: &Path) -> Result<Self> {
        let output = Command::new(kafka_script).arg("jars").stderr(Stdio::inherit()).output()?;
        ensure!(output.status.success(), "{} jars: {}", kafka_script.display(), output.status);
        let jars = format!("{}/*", String::from_utf8(output.stdout)?.trim());
        fs::create_dir_all(classes)?;
        let status = Command::new("javac").args(["-cp", &jars, "-d"]).arg(classes).arg(source).status()?;
        ensure!(status.success(), "javac {}: {status}", source.display());
        // Else it says that there is no configuration of its logs.
        fs::write(classes.join("log4j2.properties"), "status=error\nrootLogger.level=error\n")?;
        Ok(Self { class_path: format!("{}:{jars}", classes.display()) })
    }

    /// What starts it.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new("java");
        command.args(["-Xmx512m", "-cp", &self.class_path, "Peer"]);
        command
    }
}

/// The version of the wheel whose library is measured.
const CONFLUENT_KAFKA: &str = "confluent-kafka==2.16.1";

/// librdkafka's read-process-write loop, ready to be started.
#[derive(Clone, Debug)]
pub(crate) struct Librdkafka {
    program: PathBuf,
}

impl Librdkafka {
    /// Unpacks the wheel, once, and links the loop to the library in it.
    pub(crate) fn prepare(source: &Path, folder: &Path) -> Result<Self> {
        let wheel = folder.join("confluent-kafka");
        let libraries = wheel.join("confluent_kafka.libs");
        if !libraries.exists() {
            let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--target"];
            let status = Command::new("python3").args(pip).arg(&wheel).arg(CONFLUENT_KAFKA).status()?;
            ensure!(status.success(), "pip install {CONFLUENT_KAFKA}: {status}");
        }
        let library = fs::read_dir(&libraries)?
            .filter_map(|entry| Some(entry.ok()?.path()))
            .find(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("librdkafka")))
            .with_context(|| format!("no librdkafka in {}", libraries.display()))?;
        let program = folder.join("librdkafka-loop");
        let status = Command::new("cc")
            .args(["-O2", "-o"])
            .args([&program, source, &library])
            .arg(format!("-Wl,-rpath,{}", libraries.display()))
            .status()?;
        ensure!(status.success(), "cc {}: {status}", source.display());
        Ok(Self { program })
    }

    /// What starts it.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        // It complains while Apache Kafka's coordinators are not there yet.
        command.stderr(Stdio::null());
        command
    }
}

/// What starts our own streams and client: this program, otherwise asked.
pub(crate) fn our_application() -> Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("--application").env("RUST_LOG", "warn");
    Ok(command)
}

/// A client that takes commands; dropped, it ends.
#[derive(Debug)]
pub(crate) struct Client {
    child: Child,
    commands: Option<ChildStdin>,
    answers: Lines<BufReader<ChildStdout>>,
}

impl Client {
    pub(crate) fn start(mut command: Command) -> Result<Self> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start {}", command.get_program().display()))?;
        processes::remember(child.id());
        let commands = child.stdin.take();
        let answers = BufReader::new(child.stdout.take().context("its stdout is piped")?).lines();
        Ok(Self { child, commands, answers })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// SIGKILL; it is gone when this returns.
    pub(crate) fn kill(&mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// A command whose cost does not matter.
    pub(crate) fn call(&mut self, command: &str) -> Result<Value> {
        self.send(command)?;
        loop {
            let answer = self.next(command)?;
            if answer.get("measured").is_none() {
                return Ok(answer);
            }
        }
    }

    /// A command that is measured, with what it cost this client and the broker. Its rate counts `unit`: operations or records.
    pub(crate) fn measure(&mut self, command: &str, unit: &str, broker: u32) -> Result<Sample> {
        self.send(command)?;
        let begin = self.next(command)?;
        ensure!(begin.get("measured").is_some(), "{command}: began with {begin}");
        let client = self.child.id();
        let before = (processes::cpu_seconds(broker)?, processes::cpu_seconds(client)?);
        let answer = self.next(command)?;
        let spent = (processes::cpu_seconds(broker)? - before.0, processes::cpu_seconds(client)? - before.1);
        let sample = sample(&answer, unit).with_context(|| format!("{command}: {answer}"))?;
        let millions = answer["records"].as_f64().context("records")? / 1e6;
        Ok(sample
            .with(Figure::BrokerCpu, spent.0 / millions)
            .with(Figure::ClientCpu, spent.1 / millions)
            .with(Figure::BrokerPeakMib, processes::peak_mib(broker)?)
            .with(Figure::ClientPeakMib, processes::peak_mib(client)?))
    }

    fn send(&mut self, command: &str) -> Result<()> {
        let commands = self.commands.as_mut().context("open until it is dropped")?;
        writeln!(commands, "{command}").and_then(|()| commands.flush()).context("the client has ended")
    }

    fn next(&mut self, command: &str) -> Result<Value> {
        let Some(line) = self.answers.next() else { bail!("{command}: the client has ended") };
        let line = line?;
        let answer: Value = serde_json::from_str(&line).with_context(|| format!("{command}: {line}"))?;
        if let Some(error) = answer.get("error") {
            bail!("{command}: {error}");
        }
        Ok(answer)
    }
}

/// What an answer says by itself.
fn sample(answer: &Value, unit: &str) -> Option<Sample> {
    let mut sample = Sample::of(answer[unit].as_f64()? / answer["seconds"].as_f64()?);
    for (figure, name) in [(Figure::P50Ms, "p50_ms"), (Figure::P99Ms, "p99_ms")] {
        if let Some(value) = answer[name].as_f64() {
            sample = sample.with(figure, value);
        }
    }
    Some(sample)
}

impl Drop for Client {
    fn drop(&mut self) {
        // It ends with its stdin.
        self.commands = None;
        let _ = self.child.wait();
        processes::forget(self.child.id());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_counts_what_was_asked_for() {
        let answer = serde_json::json!({"operations": 10, "records": 1000, "seconds": 2.0, "p50_ms": 3.5});
        assert_eq!(sample(&answer, "operations"), Some(Sample::of(5.0).with(Figure::P50Ms, 3.5)));
        assert_eq!(sample(&answer, "records").and_then(|sample| sample.get(Figure::Main)), Some(500.0));
        assert_eq!(sample(&answer, "bytes"), None);
    }
}
