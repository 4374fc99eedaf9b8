//! Where reports are kept: `target/bench` for the last run, `dev/bench/history` for those that are to be remembered.
//!
//! And what they say of the machine and the moment.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};
use std::{fs, io};

use anyhow::{Context as _, Result};

use crate::figures::{Line, Report};
use crate::{chart, rows};

/// The root of the workspace.
pub(crate) fn root() -> &'static Path {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here)
}

/// Where everything of a run goes.
pub(crate) fn folder() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from).join("bench")
}

fn history() -> PathBuf {
    root().join("dev/bench/history")
}

/// Writes table, JSON and charts, and says where.
pub(crate) fn write(report: &Report, table: &str) -> Result<PathBuf> {
    let folder = folder();
    fs::create_dir_all(&folder)?;
    fs::write(folder.join("table.txt"), table)?;
    fs::write(folder.join("report.json"), json(report)?)?;
    for row in rows::ROWS {
        let lines: Vec<&Line> = report.lines.iter().filter(|line| line.row == row.number).collect();
        let title = format!("{}: {}", row.number, row.what);
        if let Some(svg) = chart::render(&title, &lines) {
            fs::write(folder.join(format!("row-{}.svg", row.number)), svg)?;
        }
    }
    Ok(folder)
}

/// Keeps the report for later ones to be compared to.
pub(crate) fn record(report: &Report) -> Result<PathBuf> {
    let kind = if report.quick { "quick" } else { "whole" };
    let moment = report.when.replace([' ', ':'], "-");
    let path = history().join(format!("{moment}-{}-{kind}.json", report.commit));
    fs::write(&path, json(report)?).with_context(|| path.display().to_string())?;
    Ok(path)
}

/// The latest report of this kind that was kept.
pub(crate) fn last_recorded(quick: bool) -> Result<Option<Report>> {
    let mut names = Vec::new();
    match fs::read_dir(history()) {
        Ok(entries) => {
            for entry in entries {
                names.push(entry?.path());
            }
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error.into()),
    }
    // Their names begin with the moment.
    names.sort();
    for path in names.iter().rev().filter(|path| path.extension().is_some_and(|extension| extension == "json")) {
        let report: Report =
            serde_json::from_str(&fs::read_to_string(path)?).with_context(|| path.display().to_string())?;
        if report.quick == quick {
            return Ok(Some(report));
        }
    }
    Ok(None)
}

fn json(report: &Report) -> Result<String> {
    Ok(serde_json::to_string_pretty(report)? + "\n")
}

/// The commit that stands in the work tree, with `+` if files differ from it.
pub(crate) fn commit() -> String {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").arg("-C").arg(root()).args(arguments).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let Some(commit) = git(&["rev-parse", "--short", "HEAD"]) else { return "unknown".to_owned() };
    let changed = git(&["status", "--porcelain", "--untracked-files=no"]).is_some_and(|files| !files.is_empty());
    if changed { commit + "+" } else { commit }
}

pub(crate) fn machine() -> String {
    let field = |path: &str, name: &str| {
        let text = fs::read_to_string(path).ok()?;
        text.lines()
            .find_map(|line| Some(line.strip_prefix(name)?.trim_start_matches([':', ' ', '\t']).trim().to_owned()))
    };
    let processor = field("/proc/cpuinfo", "model name").unwrap_or_else(|| std::env::consts::ARCH.to_owned());
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let memory = field("/proc/meminfo", "MemTotal").unwrap_or_default();
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    format!("{processor}, {cores} cores, {memory}, Linux {}", kernel.trim())
}

/// How many threads wanted to run in the last minute, on average.
pub(crate) fn load() -> f64 {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace().next().and_then(|word| word.parse().ok()).unwrap_or(0.0)
}

/// As `2026-11-30 01:02`.
pub(crate) fn utc(time: SystemTime) -> String {
    let seconds = time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let (days, minutes) = (seconds / 86_400, seconds % 86_400 / 60);
    let (year, month, day) = date(days);
    format!("{year}-{month:02}-{day:02} {:02}:{:02}", minutes / 60, minutes % 60)
}

/// Year, month and day, so many days after the first of January 1970.
fn date(days: u64) -> (u64, u64, u64) {
    let is_leap = |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let (mut year, mut left) = (1970, days);
    loop {
        let length = if is_leap(year) { 366 } else { 365 };
        if left < length {
            break;
        }
        left -= length;
        year += 1;
    }
    let february = if is_leap(year) { 29 } else { 28 };
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if left < length {
            break;
        }
        left -= length;
        month += 1;
    }
    (year, month, left + 1)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn days_are_those_of_the_calendar() {
        let at = |seconds| utc(UNIX_EPOCH + Duration::from_secs(seconds));
        assert_eq!(at(0), "1970-01-01 00:00");
        assert_eq!(at(951_782_400), "2000-02-29 00:00");
        assert_eq!(at(1_798_761_599), "2026-12-31 23:59");
        assert_eq!(at(1_798_761_600), "2027-01-01 00:00");
    }

    #[test]
    fn a_report_is_the_same_after_it_was_written_and_read() {
        let line = Line::plain(2, "w", "u", ("a", vec![1.5]), ("b", vec![]));
        let report = Report {
            when: "now".to_owned(),
            commit: "c".to_owned(),
            machine: "m".to_owned(),
            load_before: 0.5,
            quick: true,
            lines: vec![line.bar(crate::figures::Bar::AtMost(2.0))],
            left_out: vec![(3, "nothing".to_owned())],
        };
        let read: Report = serde_json::from_str(&json(&report).unwrap()).unwrap();
        assert_eq!(read, report);
    }

    #[test]
    fn every_kept_report_can_be_read() {
        for quick in [true, false] {
            last_recorded(quick).unwrap();
        }
    }
}
