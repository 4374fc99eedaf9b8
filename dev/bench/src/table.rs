//! The table that people read: lines in, text out. It knows nothing else.

use crate::figures::{BESIDE, Bar, Figure, Line, Loss, Report, Spread, Verdict};

const HEADS: [&str; 7] = ["row", "work", "unit", "ours", "peer", "ratio (least – most)", "to reach"];

/// The whole report as text: what was measured where, the table, what was left out, what was lost since `losses`' earlier report.
pub(crate) fn render(report: &Report, losses: &[Loss]) -> String {
    let mut text = format!(
        "{} UTC · commit {} · {} · load before: {:.1}{}\n",
        report.when,
        report.commit,
        report.machine,
        report.load_before,
        if report.quick { " · quick" } else { "" }
    );
    text.push_str("medians; ratio: ours to the peer's, round by round; beside: ours / the peer's\n\n");
    text.push_str(&grid(&cells(report)));
    for (row, reason) in &report.left_out {
        text.push_str(&format!("row {row} left out: {reason}\n"));
    }
    for loss in losses {
        text.push_str(&format!(
            "LOST: row {}, {}: {} before, {} now\n",
            loss.row,
            loss.work,
            number(loss.before),
            number(loss.now)
        ));
    }
    text
}

fn cells(report: &Report) -> Vec<Vec<String>> {
    let heads = HEADS.iter().chain(BESIDE.iter().map(|(_, head)| head)).map(|head| (*head).to_owned()).collect();
    std::iter::once(heads).chain(report.lines.iter().map(line_cells)).collect()
}

fn line_cells(line: &Line) -> Vec<String> {
    let median = |values: &[f64]| Spread::of(values).map(|spread| number(spread.median));
    let named = |value: Option<String>, name: &str| value.map_or("–".to_owned(), |value| format!("{value} {name}"));
    let mut cells = vec![
        line.row.to_string(),
        line.work.clone(),
        line.unit.clone(),
        named(median(&line.ours), &line.ours_name),
        named(median(&line.peer), &line.peer_name),
        line.ratio().map_or("–".to_owned(), |ratio| {
            format!("{} ({} – {})", number(ratio.median), number(ratio.least), number(ratio.most))
        }),
        verdict(line),
    ];
    cells.extend(BESIDE.iter().map(|(figure, _)| beside(line, *figure)));
    cells
}

fn verdict(line: &Line) -> String {
    let bar = match line.bar {
        None => return String::new(),
        Some(Bar::RatioAtLeast(value)) => format!("≥ {}x", number(value)),
        Some(Bar::RatioAtMost(value)) => format!("≤ {}x", number(value)),
        Some(Bar::AtMost(value)) => format!("≤ {}", number(value)),
    };
    let judged = match line.verdict() {
        Verdict::Reached => "reached",
        Verdict::ReachedAsTheClientCan => "the client's limit",
        Verdict::Missed => "MISSED",
        Verdict::NotMeasured => "not measured",
        Verdict::NoBar => "",
    };
    match Spread::of(&line.ceiling) {
        Some(ceiling) => format!("{bar} {judged} (stub: {})", number(ceiling.median)),
        None => format!("{bar} {judged}"),
    }
}

fn beside(line: &Line, figure: Figure) -> String {
    let Some((_, ours, peer)) = line.beside.iter().find(|(of, _, _)| *of == figure) else { return String::new() };
    let one = |spread: &Option<Spread>| spread.map_or("–".to_owned(), |spread| number(spread.median));
    format!("{} / {}", one(ours), one(peer))
}

/// Columns as wide as their widest cell; numbers of rows to the right would gain little.
fn grid(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    let mut text = String::new();
    for (index, row) in rows.iter().enumerate() {
        let padded: Vec<String> = row
            .iter()
            .zip(&widths)
            .map(|(cell, width)| format!("{cell}{}", " ".repeat(width - cell.chars().count())))
            .collect();
        text.push_str(padded.join("  ").trim_end());
        text.push('\n');
        if index == 0 {
            text.push_str(&"─".repeat(widths.iter().sum::<usize>() + 2 * columns.saturating_sub(1)));
            text.push('\n');
        }
    }
    text
}

/// Three significant digits, thousands set apart: 1,234,567 → "1,230,000"; 12.34 → "12.3"; 0.001234 → "0.00123".
pub(crate) fn number(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return format!("{value}");
    }
    let magnitude = value.abs().log10().floor() as i32;
    let unit = 10f64.powi(magnitude - 2);
    let rounded = (value / unit).round() * unit;
    let decimals = usize::try_from(2 - magnitude).unwrap_or(0);
    let text = format!("{rounded:.decimals$}");
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    let (whole, fraction) = text.split_once('.').map_or((text, None), |(whole, fraction)| (whole, Some(fraction)));
    let mut grouped = String::new();
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index) % 3 == 0 && digit.is_ascii_digit() && !grouped.ends_with('-') {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    fraction.map_or(grouped.clone(), |fraction| format!("{grouped}.{fraction}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::Sample;

    #[test]
    fn numbers_have_three_digits_and_their_thousands_set_apart() {
        let texts: Vec<String> =
            [1_234_567.0, 123_456.0, 999.6, 45.0, 12.34, 1.0, 0.001_234, 0.0, -1_234.0].map(number).to_vec();
        assert_eq!(texts, ["1,230,000", "123,000", "1,000", "45", "12.3", "1", "0.00123", "0", "-1,230"]);
    }

    #[test]
    fn the_table_says_what_was_reached_what_was_missed_and_what_is_lost() {
        let ours = [Sample::of(1000.0).with(Figure::BrokerCpu, 2.0), Sample::of(1200.0).with(Figure::BrokerCpu, 4.0)];
        let peer = [Sample::of(40.0).with(Figure::BrokerCpu, 30.0), Sample::of(40.0).with(Figure::BrokerCpu, 30.0)];
        let fast =
            Line::compare(2, "one", "commits/s", ("atonce", &ours), ("Kafka", &peer)).bar(Bar::RatioAtLeast(25.0));
        let mut slow =
            Line::plain(8, "start", "ms", ("atonce", vec![80.0]), ("Kafka", Vec::new())).bar(Bar::AtMost(50.0));
        slow.ceiling = vec![1.0];
        let report = Report {
            when: "2026-11-30 01:00".to_owned(),
            commit: "abc".to_owned(),
            machine: "two cores".to_owned(),
            load_before: 0.25,
            quick: true,
            lines: vec![fast, slow],
            left_out: vec![(5, "there is no java".to_owned())],
        };
        let losses = [Loss { row: 2, work: "one".to_owned(), before: 40.0, now: 27.5 }];
        let expected = "\
2026-11-30 01:00 UTC · commit abc · two cores · load before: 0.2 · quick
medians; ratio: ours to the peer's, round by round; beside: ours / the peer's

row  work   unit       ours          peer      ratio (least – most)  to reach               p50 ms  p99 ms  broker CPU s/M  client CPU s/M  broker MiB  client MiB
──────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────
2    one    commits/s  1,100 atonce  40 Kafka  27.5 (25 – 30)        ≥ 25x reached                          3 / 30
8    start  ms         80 atonce     –         –                     ≤ 50 MISSED (stub: 1)
row 5 left out: there is no java
LOST: row 2, one: 40 before, 27.5 now
";
        assert_eq!(render(&report, &losses), expected);
    }
}
