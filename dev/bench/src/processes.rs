//! What the system says of a process: its CPU, its memory; and the list of processes that must not outlive this one.
//!
//! It does not know what the processes do.

use std::fs;
use std::sync::Mutex;

use anyhow::{Context, Result};
use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, setrlimit};

/// Ticks a second in `/proc/PID/stat`: a constant of Linux's interface on all that it runs on today.
const TICKS_A_SECOND: f64 = 100.0;

/// Seconds of CPU that a process has used so far, threads that ended included. Exact to a hundredth of a second.
pub(crate) fn cpu_seconds(pid: u32) -> Result<f64> {
    let path = format!("/proc/{pid}/stat");
    let stat = fs::read_to_string(&path).with_context(|| format!("cannot read {path}: has the process ended?"))?;
    cpu_ticks(&stat)
        .map(|ticks| ticks as f64 / TICKS_A_SECOND)
        .with_context(|| format!("cannot understand {path}: {stat}"))
}

/// User's and system's ticks. The name of the process stands in brackets, and may have spaces and brackets.
fn cpu_ticks(stat: &str) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(')')?;
    // After the name come state, and ten others.
    let mut times = fields.split_whitespace().skip(11);
    let user: u64 = times.next()?.parse().ok()?;
    let system: u64 = times.next()?.parse().ok()?;
    Some(user + system)
}

/// The same, exact to a nanosecond, of threads that run now: for what hardly does anything.
pub(crate) fn cpu_seconds_of_threads(pid: u32) -> Result<f64> {
    let folder = format!("/proc/{pid}/task");
    let mut nanos = 0u64;
    for thread in fs::read_dir(&folder).with_context(|| format!("cannot list {folder}"))? {
        // A thread may end meanwhile.
        let Ok(text) = fs::read_to_string(thread?.path().join("schedstat")) else { continue };
        nanos += text.split_whitespace().next().and_then(|word| word.parse::<u64>().ok()).unwrap_or(0);
    }
    Ok(nanos as f64 / 1e9)
}

/// The most memory that a process has had in RAM, in MiB.
pub(crate) fn peak_mib(pid: u32) -> Result<f64> {
    status_mib(pid, "VmHWM:")
}

/// The memory that a process has in RAM, in MiB.
pub(crate) fn resident_mib(pid: u32) -> Result<f64> {
    status_mib(pid, "VmRSS:")
}

fn status_mib(pid: u32, field: &str) -> Result<f64> {
    let path = format!("/proc/{pid}/status");
    let status = fs::read_to_string(&path).with_context(|| format!("cannot read {path}: has the process ended?"))?;
    kib(&status, field).map(|kib| kib as f64 / 1024.0).with_context(|| format!("{path} has no {field}"))
}

fn kib(status: &str, field: &str) -> Option<u64> {
    status.lines().find_map(|line| line.strip_prefix(field)?.trim().strip_suffix("kB")?.trim().parse().ok())
}

static RUNNING: Mutex<Vec<u32>> = Mutex::new(Vec::new());

/// A process to end when this program is ended from outside, unless [`forget`] is called before.
pub(crate) fn remember(pid: u32) {
    RUNNING.lock().expect("nothing panics while it holds this").push(pid);
}

/// It has ended, or ends by itself.
pub(crate) fn forget(pid: u32) {
    RUNNING.lock().expect("nothing panics while it holds this").retain(|other| *other != pid);
}

/// Kills what still runs.
pub(crate) fn kill_all() {
    for pid in RUNNING.lock().expect("nothing panics while it holds this").drain(..) {
        signal(pid, Signal::KILL);
    }
}

/// Sends a signal; a process that has ended is none.
pub(crate) fn signal(pid: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        let _ = kill_process(pid, signal);
    }
}

/// Asks for as many open files as this process may have, and says how many that are. What is started inherits it.
pub(crate) fn raise_open_files() -> u64 {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let raised = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).is_ok();
    // None: no limit.
    (if raised { maximum } else { current }).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_process_does_not_shift_its_times() {
        let fields = "S 1 2 3 4 5 6 7 8 9 10 700 35 0 0 20 0 9";
        assert_eq!(cpu_ticks(&format!("42 (java) {fields}")), Some(735));
        assert_eq!(cpu_ticks(&format!("42 (a ) 1 (b)) {fields}")), Some(735));
        assert_eq!(cpu_ticks("42 (java) S 1"), None);
    }

    #[test]
    fn memory_is_read_from_the_field_of_that_name() {
        let status = "Name:\tjava\nVmPeak:\t 9 kB\nVmHWM:\t  2048 kB\nVmRSS:\t 1024 kB\n";
        assert_eq!(kib(status, "VmHWM:"), Some(2048));
        assert_eq!(kib(status, "VmRSS:"), Some(1024));
        assert_eq!(kib(status, "VmSwap:"), None);
    }

    #[test]
    fn this_process_has_memory_and_has_used_some_time() {
        let pid = std::process::id();
        let resident = resident_mib(pid).unwrap();
        assert!(resident > 0.1 && resident <= peak_mib(pid).unwrap() + 1.0, "{resident}");
        assert!(cpu_seconds(pid).unwrap() >= 0.0);
        assert!(cpu_seconds_of_threads(pid).unwrap() > 0.0);
    }
}
