//! Runs the binary as people do, and gives up after a while rather than hang.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Long, for two slow cores that many tests share; no test waits for it but a failing one.
const LIMIT: Duration = Duration::from_secs(240);

/// The binary, told nothing by the environment.
pub(crate) fn atonce() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_atonce"));
    command.env_remove("ATONCE_BOOTSTRAP_SERVERS").env_remove("RUST_LOG").env("NO_COLOR", "1");
    command
}

/// Runs to the end with this standard input.
pub(crate) fn run(command: &mut Command, input: &str) -> Output {
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary starts");
    let mut stdin = child.stdin.take().expect("it is piped");
    // Whoever does not read its input may be gone before it is written.
    let _ = stdin.write_all(input.as_bytes());
    drop(stdin);
    let (stdout, stderr) = (drain(child.stdout.take()), drain(child.stderr.take()));
    let status = wait(&mut child);
    Output { status, stdout: stdout.join().expect("read"), stderr: stderr.join().expect("read") }
}

/// Runs to a good end; gives standard output.
pub(crate) fn succeed(command: &mut Command, input: &str) -> String {
    let output = run(command, input);
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{command:?} ended with {}\n{stdout}\n{stderr}", output.status);
    stdout
}

/// Runs to a bad end with this status; gives standard error.
pub(crate) fn fail(command: &mut Command, status: i32) -> String {
    let output = run(command, "");
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(status), "{command:?}\n{stdout}\n{stderr}");
    // Errors are broken into lines where a terminal ends.
    stderr.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A broker that serves.
pub(crate) struct Served {
    child: Child,
    pub(crate) address: String,
}

impl Served {
    pub(crate) fn start(data: &Path, durability: &str) -> Self {
        let mut command = atonce();
        command.args(["broker", "--listen", "127.0.0.1:0", "--durability", durability, "--data-dir"]).arg(data);
        Self::of(&mut command)
    }

    /// By that command line.
    pub(crate) fn of(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().expect("the binary starts");
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().expect("it is piped")).read_line(&mut line).expect("it prints a line");
        let address = line.split_whitespace().last().expect("the line ends with the address").to_owned();
        Self { child, address }
    }

    /// Sends a signal by the system's own `kill`, and waits for the end.
    pub(crate) fn end(mut self, signal: &str) -> std::process::ExitStatus {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-s", signal, &pid]).status().expect("kill is there").success());
        wait(&mut self.child)
    }

    /// A command that talks to this broker.
    pub(crate) fn atonce(&self, arguments: &[&str]) -> Command {
        let mut command = atonce();
        command.args(arguments).env("ATONCE_BOOTSTRAP_SERVERS", &self.address);
        command
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A command that runs beside the test, and is killed with it.
pub(crate) struct Running {
    child: Child,
    output: BufReader<ChildStdout>,
    input: Option<ChildStdin>,
}

impl Running {
    pub(crate) fn start(command: &mut Command) -> Self {
        let mut child = command
            .env("NO_COLOR", "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the binary starts");
        let output = BufReader::new(child.stdout.take().expect("it is piped"));
        let input = child.stdin.take();
        Self { child, output, input }
    }

    /// The next line that it prints.
    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("a pipe can be read");
        line
    }

    /// Writes to its standard input.
    pub(crate) fn write(&mut self, text: &str) {
        let input = self.input.as_mut().expect("it has not ended");
        input.write_all(text.as_bytes()).expect("a pipe can be written");
        input.flush().expect("a pipe can be written");
    }

    /// Ends its standard input.
    pub(crate) fn end_input(&mut self) {
        self.input = None;
    }

    /// Sends a signal by the system's own `kill`.
    pub(crate) fn signal(&self, signal: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-s", signal, &pid]).status().expect("kill is there").success());
    }

    /// Waits for the end.
    pub(crate) fn ended(&mut self) -> std::process::ExitStatus {
        wait(&mut self.child)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn wait(child: &mut Child) -> std::process::ExitStatus {
    let until = Instant::now() + LIMIT;
    loop {
        if let Some(status) = child.try_wait().expect("it is ours") {
            return status;
        }
        if Instant::now() > until {
            let _ = child.kill();
            panic!("it did not end within {LIMIT:?}");
        }
        thread::sleep(Duration::from_millis(5));
    }
}

fn drain(pipe: Option<impl Read + Send + 'static>) -> thread::JoinHandle<Vec<u8>> {
    let mut pipe = pipe.expect("it is piped");
    thread::spawn(move || {
        let mut all = Vec::new();
        pipe.read_to_end(&mut all).expect("a pipe can be read");
        all
    })
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
