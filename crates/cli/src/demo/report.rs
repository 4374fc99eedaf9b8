//! What the demo found, for people (a table, and what it means) and for programs (a line of JSON).

use std::time::Duration;

use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;

use super::Guarantee;
use super::checker::Verdict;

/// One guarantee's result.
#[derive(Clone, Debug)]
pub(crate) struct Report {
    pub guarantee: Guarantee,
    pub verdict: Verdict,
    /// How often the input was loaded.
    pub repeats: u64,
    /// Strikes that counted, the zombie included.
    pub kills: u32,
    pub zombie: ZombieOutcome,
    /// As the workers reported them, summed over their lives.
    pub committed: u64,
    pub aborted: u64,
    pub fenced: u64,
    /// From each kill to the first result after it.
    pub recoveries: Vec<Duration>,
    /// From the first start of a worker until all was counted.
    pub elapsed: Duration,
    /// Words that went wrong, worst first.
    pub faults: Vec<String>,
    pub seed: u64,
}

/// What became of the zombie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ZombieOutcome {
    /// There was none: fewer than two kills.
    None,
    /// Another worker took over; when the first woke up, it was refused.
    Refused,
    /// Another worker took over, and the first was not seen to be refused within the time it was given.
    NotRefused,
}

#[derive(Serialize)]
struct Line<'a> {
    guarantee: &'a str,
    repeats: u64,
    words: u64,
    distinct: u64,
    lost: u64,
    duplicated: u64,
    out_of_order: u64,
    kills: u32,
    zombie: ZombieOutcome,
    committed: u64,
    aborted: u64,
    fenced: u64,
    recovery_ms_p50: Option<u64>,
    recovery_ms_max: Option<u64>,
    records_per_second: u64,
    elapsed_ms: u64,
    seed: u64,
}

impl Report {
    /// A line of JSON.
    pub(crate) fn json(&self) -> String {
        let line = Line {
            guarantee: self.guarantee.name(),
            repeats: self.repeats,
            words: self.verdict.words,
            distinct: self.verdict.distinct,
            lost: self.verdict.lost,
            duplicated: self.verdict.duplicated,
            out_of_order: self.verdict.out_of_order,
            kills: self.kills,
            zombie: self.zombie,
            committed: self.committed,
            aborted: self.aborted,
            fenced: self.fenced,
            recovery_ms_p50: self.recovery_p50().map(milliseconds),
            recovery_ms_max: self.recoveries.iter().max().copied().map(milliseconds),
            records_per_second: self.records_per_second(),
            elapsed_ms: milliseconds(self.elapsed),
            seed: self.seed,
        };
        serde_json::to_string(&line).expect("numbers and names are JSON")
    }

    /// The median; of an even number, the lower one in the middle.
    fn recovery_p50(&self) -> Option<Duration> {
        let mut sorted = self.recoveries.clone();
        sorted.sort();
        sorted.get(sorted.len().saturating_sub(1) / 2).copied()
    }

    fn records_per_second(&self) -> u64 {
        let ms = self.elapsed.as_millis().max(1);
        u64::try_from(u128::from(self.verdict.words) * 1000 / ms).unwrap_or(u64::MAX)
    }
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// The table that the demo ends with.
pub(crate) fn table(reports: &[Report]) -> String {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_FULL_CONDENSED).set_header([
        "guarantee",
        "words",
        "lost",
        "duplicated",
        "kills",
        "committed",
        "aborted",
        "fenced",
        "recovery (p50)",
        "records/s",
    ]);
    for report in reports {
        table.add_row([
            report.guarantee.name().to_owned(),
            report.verdict.words.to_string(),
            report.verdict.lost.to_string(),
            report.verdict.duplicated.to_string(),
            report.kills.to_string(),
            report.committed.to_string(),
            report.aborted.to_string(),
            report.fenced.to_string(),
            report.recovery_p50().map_or_else(|| "–".to_owned(), |recovery| format!("{} ms", milliseconds(recovery))),
            report.records_per_second().to_string(),
        ]);
    }
    table.column_iter_mut().skip(1).for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    table.to_string()
}

/// What the numbers do and do not show, in sentences.
pub(crate) fn notes(reports: &[Report]) -> Vec<String> {
    let mut notes = Vec::new();
    for report in reports {
        let Report { guarantee, verdict, .. } = report;
        match guarantee {
            Guarantee::AtMostOnce if verdict.lost == 0 => notes.push(format!(
                "at_most_once lost nothing this time: none of the {} kills fell between a commit of positions and its results. More kills \
                 (--kills) make it likelier.",
                report.kills
            )),
            Guarantee::AtLeastOnce if verdict.duplicated == 0 => notes.push(format!(
                "at_least_once duplicated nothing this time: none of the {} kills fell between results and the commit of their positions. More \
                 kills (--kills) make it likelier.",
                report.kills
            )),
            Guarantee::AtMostOnce if verdict.duplicated > 0 => notes.push(format!(
                "at_most_once: {} counts came twice although no input did: a result was written and the state behind it was lost, so the \
                 next occurrence of the word got the same count.",
                verdict.duplicated
            )),
            Guarantee::AtLeastOnce if verdict.lost > 0 => notes.push(format!(
                "at_least_once: {} counts never came although every word was counted: the state behind a result was kept and the result was \
                 not, so the repetition got the next count.",
                verdict.lost
            )),
            Guarantee::AtMostOnce | Guarantee::AtLeastOnce => {}
            Guarantee::ExactlyOnce if verdict.is_exactly_once() => notes.push(format!(
                "exactly_once: {} words, each counted once and in order, over {} kills.",
                verdict.words, report.kills
            )),
            Guarantee::ExactlyOnce => {
                notes.push(format!(
                    "exactly_once DOES NOT HOLD: {} lost, {} duplicated, {} out of order (seed {}). That is a fault of atonce or of the cluster; \
                     run it again with --keep to look at the topics.",
                    verdict.lost, verdict.duplicated, verdict.out_of_order, report.seed
                ));
                notes.extend(report.faults.iter().map(|fault| format!("  {fault}")));
            }
        }
        if report.zombie == ZombieOutcome::NotRefused {
            notes.push(format!(
                "{}: the zombie woke up and was not seen to be refused; it may have had nothing left to write.",
                guarantee.name()
            ));
        }
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(guarantee: Guarantee, lost: u64, duplicated: u64) -> Report {
        Report {
            guarantee,
            verdict: Verdict { words: 1000, distinct: 10, lost, duplicated, out_of_order: 0 },
            repeats: 2,
            kills: 10,
            zombie: ZombieOutcome::Refused,
            committed: 70,
            aborted: 9,
            fenced: 1,
            recoveries: [40, 10, 30, 20].map(Duration::from_millis).to_vec(),
            elapsed: Duration::from_millis(2500),
            faults: vec!["\"a\": …".to_owned()],
            seed: 7,
        }
    }

    #[test]
    fn the_line_has_every_field() {
        let line: serde_json::Value = serde_json::from_str(&report(Guarantee::ExactlyOnce, 0, 0).json()).expect("JSON");
        let expected = serde_json::json!({
            "guarantee": "exactly_once", "repeats": 2, "words": 1000, "distinct": 10, "lost": 0, "duplicated": 0, "out_of_order": 0,
            "kills": 10, "zombie": "refused", "committed": 70, "aborted": 9, "fenced": 1, "recovery_ms_p50": 20, "recovery_ms_max": 40,
            "records_per_second": 400, "elapsed_ms": 2500, "seed": 7,
        });
        assert_eq!(line, expected);
    }

    #[test]
    fn the_table_has_a_row_for_each_guarantee() {
        let text = table(&[report(Guarantee::AtMostOnce, 3, 0), report(Guarantee::ExactlyOnce, 0, 0)]);
        assert!(text.contains("at_most_once") && text.contains("exactly_once") && text.contains("20 ms"), "{text}");
    }

    #[test]
    fn what_could_not_be_shown_is_said() {
        let said = |guarantee, lost, duplicated| notes(&[report(guarantee, lost, duplicated)]).join("\n");
        assert!(said(Guarantee::AtMostOnce, 0, 0).contains("lost nothing this time"));
        assert!(said(Guarantee::AtLeastOnce, 0, 0).contains("duplicated nothing this time"));
        assert_eq!(said(Guarantee::AtMostOnce, 1, 0), "");
        assert_eq!(said(Guarantee::AtLeastOnce, 0, 1), "");
        assert!(said(Guarantee::ExactlyOnce, 0, 0).contains("each counted once"));
        assert!(said(Guarantee::ExactlyOnce, 0, 1).contains("DOES NOT HOLD"));
        let ignored = Report { zombie: ZombieOutcome::NotRefused, ..report(Guarantee::ExactlyOnce, 0, 0) };
        assert!(notes(&[ignored]).join("\n").contains("not seen to be refused"));
    }
}
