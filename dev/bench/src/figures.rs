//! What was measured, and what it comes to: samples, series, ratios, bars, verdicts.
//!
//! It does not know how anything was measured. Everything here is a pure function of its arguments.
//!
//! A **sample** is one run of one contender. A **line** compares two series of samples that were taken in turn, in one run of this
//! program: its ratio is the median of the ratios of each round, so that what slows the whole machine down for a while slows both.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// What a sample can say. Those after the first stand beside it in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum Figure {
    /// What the line is about, in the unit of the line.
    Main,
    /// Milliseconds that half of the operations took at most.
    P50Ms,
    /// Milliseconds that 99 of a hundred operations took at most.
    P99Ms,
    /// Seconds of the broker's CPU for a million records.
    BrokerCpu,
    /// Seconds of the client's (or application's) CPU for a million records.
    ClientCpu,
    /// The most memory that the broker's process has had, in MiB.
    BrokerPeakMib,
    /// The same of the client's or application's process.
    ClientPeakMib,
}

/// The figures beside the main one, in the order of the table, with their heads.
pub(crate) const BESIDE: [(Figure, &str); 6] = [
    (Figure::P50Ms, "p50 ms"),
    (Figure::P99Ms, "p99 ms"),
    (Figure::BrokerCpu, "broker CPU s/M"),
    (Figure::ClientCpu, "client CPU s/M"),
    (Figure::BrokerPeakMib, "broker MiB"),
    (Figure::ClientPeakMib, "client MiB"),
];

/// One run of one contender.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Sample(BTreeMap<Figure, f64>);

impl Sample {
    pub(crate) fn of(main: f64) -> Self {
        Self(BTreeMap::from([(Figure::Main, main)]))
    }

    pub(crate) fn with(mut self, figure: Figure, value: f64) -> Self {
        self.0.insert(figure, value);
        self
    }

    pub(crate) fn get(&self, figure: Figure) -> Option<f64> {
        self.0.get(&figure).copied()
    }
}

/// The values of one figure, round by round, where all rounds have it.
pub(crate) fn series(samples: &[Sample], figure: Figure) -> Vec<f64> {
    samples.iter().map(|sample| sample.get(figure)).collect::<Option<Vec<f64>>>().unwrap_or_default()
}

/// A median with the least and the most.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Spread {
    pub least: f64,
    pub median: f64,
    pub most: f64,
}

impl Spread {
    /// `None` of nothing.
    pub(crate) fn of(values: &[f64]) -> Option<Self> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (least, most) = (*sorted.first()?, *sorted.last()?);
        let middle = sorted.len() / 2;
        let median =
            if sorted.len() % 2 == 1 { sorted[middle] } else { f64::midpoint(sorted[middle - 1], sorted[middle]) };
        Some(Self { least, median, most })
    }
}

/// Ours divided by the peer's, round by round. `None` where there is no peer, or a round of it came to nothing.
pub(crate) fn ratio(ours: &[f64], peer: &[f64]) -> Option<Spread> {
    if ours.len() != peer.len() || peer.iter().any(|value| *value <= 0.0) {
        return None;
    }
    let ratios: Vec<f64> = ours.iter().zip(peer).map(|(ours, peer)| ours / peer).collect();
    Spread::of(&ratios)
}

/// What a line is to reach.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Bar {
    /// The ratio, at least.
    RatioAtLeast(f64),
    /// The ratio, at most.
    RatioAtMost(f64),
    /// Our own figure, at most.
    AtMost(f64),
}

/// Whether it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Verdict {
    Reached,
    /// It does not; but the client does no better with a stub that answers at once, and we have nine tenths of that.
    ReachedAsTheClientCan,
    Missed,
    /// There is no bar.
    NoBar,
    /// There is a bar, and nothing to judge by.
    NotMeasured,
}

/// The share of a client's rate against a stub that is as good as that rate: the client is the limit then.
const CLIENT_LIMIT_SHARE: f64 = 0.9;

/// A row of the table: a work, done by two.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Line {
    /// The number of the row that it belongs to.
    pub row: u8,
    /// What was done; with the row it names the line, in the history too.
    pub work: String,
    /// The unit of the main figure.
    pub unit: String,
    /// Who `ours` is.
    pub ours_name: String,
    /// Who `peer` is.
    pub peer_name: String,
    pub ours: Vec<f64>,
    pub peer: Vec<f64>,
    /// The client's own figure against a stub that answers at once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ceiling: Vec<f64>,
    pub bar: Option<Bar>,
    /// Figures beside the main one: ours, the peer's.
    pub beside: Vec<(Figure, Option<Spread>, Option<Spread>)>,
}

impl Line {
    /// A line about the main figure of two series of samples, with all that they say besides.
    pub(crate) fn compare(row: u8, work: &str, unit: &str, ours: (&str, &[Sample]), peer: (&str, &[Sample])) -> Self {
        let beside = BESIDE
            .iter()
            .map(|(figure, _)| (*figure, Spread::of(&series(ours.1, *figure)), Spread::of(&series(peer.1, *figure))))
            .filter(|(_, ours, peer)| ours.is_some() || peer.is_some())
            .collect();
        Self {
            beside,
            ..Self::plain(
                row,
                work,
                unit,
                (ours.0, series(ours.1, Figure::Main)),
                (peer.0, series(peer.1, Figure::Main)),
            )
        }
    }

    /// A line about two series of values, and nothing besides.
    pub(crate) fn plain(row: u8, work: &str, unit: &str, ours: (&str, Vec<f64>), peer: (&str, Vec<f64>)) -> Self {
        Self {
            row,
            work: work.to_owned(),
            unit: unit.to_owned(),
            ours_name: ours.0.to_owned(),
            peer_name: peer.0.to_owned(),
            ours: ours.1,
            peer: peer.1,
            ceiling: Vec::new(),
            bar: None,
            beside: Vec::new(),
        }
    }

    pub(crate) fn bar(mut self, bar: Bar) -> Self {
        self.bar = Some(bar);
        self
    }

    pub(crate) fn ratio(&self) -> Option<Spread> {
        ratio(&self.ours, &self.peer)
    }

    pub(crate) fn verdict(&self) -> Verdict {
        let Some(bar) = self.bar else { return Verdict::NoBar };
        let ours = Spread::of(&self.ours);
        let judged = match bar {
            Bar::RatioAtLeast(least) => self.ratio().map(|ratio| ratio.median >= least),
            Bar::RatioAtMost(most) => self.ratio().map(|ratio| ratio.median <= most),
            Bar::AtMost(most) => ours.map(|ours| ours.median <= most),
        };
        match (judged, ours, Spread::of(&self.ceiling)) {
            (None, _, _) => Verdict::NotMeasured,
            (Some(true), _, _) => Verdict::Reached,
            (Some(false), Some(ours), Some(ceiling)) => {
                let is_as_good = match bar {
                    Bar::RatioAtLeast(_) => ours.median >= CLIENT_LIMIT_SHARE * ceiling.median,
                    Bar::RatioAtMost(_) | Bar::AtMost(_) => ours.median * CLIENT_LIMIT_SHARE <= ceiling.median,
                };
                if is_as_good { Verdict::ReachedAsTheClientCan } else { Verdict::Missed }
            }
            (Some(false), _, _) => Verdict::Missed,
        }
    }
}

/// Everything that one run of this program found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Report {
    /// Day and time of the start, in UTC.
    pub when: String,
    /// The commit that was measured, with `+` if files were changed.
    pub commit: String,
    /// Processor, cores, memory, kernel.
    pub machine: String,
    /// The machine's load when it began: more than a little, and the figures are worth little.
    pub load_before: f64,
    pub quick: bool,
    pub lines: Vec<Line>,
    /// Rows that were not measured, and why.
    pub left_out: Vec<(u8, String)>,
}

/// A line that did worse than in an earlier report.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Loss {
    pub row: u8,
    pub work: String,
    pub before: f64,
    pub now: f64,
}

/// How much worse a ratio's median must be than the worst of the earlier report to count, since machines differ from day to day.
const LOSS_SHARE: f64 = 0.15;

/// Lines whose ratio is clearly worse than in the earlier report; those with no bar are not judged, as nothing says which way is worse.
pub(crate) fn losses(earlier: &Report, now: &Report) -> Vec<Loss> {
    now.lines
        .iter()
        .filter_map(|line| {
            let before = earlier.lines.iter().find(|other| other.row == line.row && other.work == line.work)?;
            let (then, since) = match line.bar? {
                Bar::RatioAtLeast(_) | Bar::RatioAtMost(_) => (before.ratio()?, line.ratio()?),
                Bar::AtMost(_) => (Spread::of(&before.ours)?, Spread::of(&line.ours)?),
            };
            let worse = match line.bar? {
                Bar::RatioAtLeast(_) => since.median < then.least * (1.0 - LOSS_SHARE),
                Bar::RatioAtMost(_) | Bar::AtMost(_) => since.median > then.most * (1.0 + LOSS_SHARE),
            };
            worse.then(|| Loss { row: line.row, work: line.work.clone(), before: then.median, now: since.median })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(ours: &[f64], peer: &[f64], bar: Bar) -> Line {
        Line::plain(2, "a work", "commits/s", ("atonce", ours.to_vec()), ("peer", peer.to_vec())).bar(bar)
    }

    fn report(lines: Vec<Line>) -> Report {
        Report {
            when: String::new(),
            commit: String::new(),
            machine: String::new(),
            load_before: 0.0,
            quick: true,
            lines,
            left_out: Vec::new(),
        }
    }

    #[test]
    fn a_spread_has_the_middle_of_an_odd_number_and_the_mean_of_the_two_in_the_middle_of_an_even_one() {
        assert_eq!(Spread::of(&[3.0, 1.0, 9.0]), Some(Spread { least: 1.0, median: 3.0, most: 9.0 }));
        assert_eq!(Spread::of(&[4.0, 1.0, 2.0, 9.0]), Some(Spread { least: 1.0, median: 3.0, most: 9.0 }));
        assert_eq!(Spread::of(&[]), None);
    }

    /// The machine is ten times slower in the second round, for both: the ratio does not see it, that of the medians would be 2.
    #[test]
    fn a_ratio_is_taken_round_by_round() {
        assert_eq!(ratio(&[30.0, 2.0, 40.0], &[10.0, 1.0, 10.0]), Some(Spread { least: 2.0, median: 3.0, most: 4.0 }));
    }

    #[test]
    fn there_is_no_ratio_to_nothing() {
        assert_eq!(ratio(&[1.0], &[]), None);
        assert_eq!(ratio(&[1.0], &[0.0]), None);
        assert_eq!(ratio(&[], &[]), None);
    }

    #[test]
    fn a_bar_is_reached_exactly_at_it() {
        assert_eq!(line(&[30.0], &[1.0], Bar::RatioAtLeast(30.0)).verdict(), Verdict::Reached);
        assert_eq!(line(&[29.9], &[1.0], Bar::RatioAtLeast(30.0)).verdict(), Verdict::Missed);
        assert_eq!(line(&[5.0], &[1.0], Bar::RatioAtMost(5.0)).verdict(), Verdict::Reached);
        assert_eq!(line(&[5.1], &[1.0], Bar::RatioAtMost(5.0)).verdict(), Verdict::Missed);
        assert_eq!(line(&[50.0], &[], Bar::AtMost(50.0)).verdict(), Verdict::Reached);
        assert_eq!(line(&[51.0], &[], Bar::AtMost(50.0)).verdict(), Verdict::Missed);
    }

    #[test]
    fn without_a_peer_a_ratio_is_not_judged() {
        assert_eq!(line(&[5.0], &[], Bar::RatioAtMost(5.0)).verdict(), Verdict::NotMeasured);
        assert_eq!(Line { bar: None, ..line(&[5.0], &[], Bar::AtMost(1.0)) }.verdict(), Verdict::NoBar);
    }

    #[test]
    fn nine_tenths_of_what_the_client_can_is_as_good_as_the_bar() {
        let limited = |ours: f64| Line { ceiling: vec![100.0], ..line(&[ours], &[60.0], Bar::RatioAtLeast(2.0)) };
        assert_eq!(limited(90.0).verdict(), Verdict::ReachedAsTheClientCan);
        assert_eq!(limited(89.0).verdict(), Verdict::Missed);
        assert_eq!(limited(120.0).verdict(), Verdict::Reached);
        let slow = |ours: f64| Line { ceiling: vec![90.0], ..line(&[ours], &[10.0], Bar::RatioAtMost(5.0)) };
        assert_eq!(slow(100.0).verdict(), Verdict::ReachedAsTheClientCan);
        assert_eq!(slow(101.0).verdict(), Verdict::Missed);
    }

    #[test]
    fn figures_beside_are_compared_where_every_round_has_them() {
        let ours = [Sample::of(1.0).with(Figure::P50Ms, 4.0), Sample::of(2.0).with(Figure::P50Ms, 6.0)];
        let peer = [Sample::of(1.0).with(Figure::P50Ms, 9.0), Sample::of(1.0)];
        let line = Line::compare(2, "w", "u", ("a", &ours), ("b", &peer));
        assert_eq!(line.ours, [1.0, 2.0]);
        assert_eq!(line.beside, [(Figure::P50Ms, Some(Spread { least: 4.0, median: 5.0, most: 6.0 }), None)]);
    }

    #[test]
    fn a_loss_is_a_median_clearly_worse_than_the_worst_of_before() {
        let rate = Bar::RatioAtLeast(30.0);
        let before = report(vec![line(&[40.0, 44.0, 50.0], &[1.0, 1.0, 1.0], rate)]);
        let now = |ours: f64| report(vec![line(&[ours], &[1.0], rate)]);
        assert_eq!(losses(&before, &now(35.0)), []);
        assert_eq!(losses(&before, &now(33.0)), [Loss { row: 2, work: "a work".to_owned(), before: 44.0, now: 33.0 }]);
        let memory = |mib: f64| report(vec![line(&[mib], &[], Bar::AtMost(15.0))]);
        assert_eq!(losses(&memory(10.0), &memory(11.0)), []);
        assert_eq!(losses(&memory(10.0), &memory(12.0)).len(), 1);
        assert_eq!(losses(&report(Vec::new()), &memory(12.0)), [], "what is new is no loss");
    }
}
