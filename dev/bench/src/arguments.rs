//! The command line.

use std::path::PathBuf;

use crate::rows::ROWS;

pub(crate) const HELP: &str = "\
Measures atonce beside its peers and prints one table; it also goes to target/bench, as JSON and with charts.

  cargo run --release -p bench                 all rows
  cargo run --release -p bench -- --quick      all rows, shorter runs
  cargo run --release -p bench -- 2 3          only these rows

  --quick           shorter runs and fewer rounds
  --rounds N        so many rounds count, instead of 5 (quick: 2)
  --record          keeps the report in dev/bench/history, to which later runs are compared
  --atonce FILE     the binary to measure, instead of one that is built here
  --list            the rows, and what each needs
  --stub            only the broker that does nothing: says its address, and serves until it is ended
  --application     only our streams and client: does what the lines on its stdin say";

/// What was asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Arguments {
    pub quick: bool,
    pub record: bool,
    pub rounds: Option<usize>,
    pub atonce: Option<PathBuf>,
    pub list: bool,
    pub stub: bool,
    pub application: bool,
    /// None: all.
    pub rows: Vec<u8>,
}

impl Arguments {
    /// `None` if help was asked for.
    ///
    /// Errors: what was asked wrongly.
    pub(crate) fn parse(words: impl IntoIterator<Item = String>) -> Result<Option<Self>, String> {
        let mut arguments = Self::default();
        let mut words = words.into_iter();
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or(format!("{word} wants a value"));
            match word.as_str() {
                "--help" | "-h" => return Ok(None),
                "--quick" => arguments.quick = true,
                "--record" => arguments.record = true,
                "--list" => arguments.list = true,
                "--stub" => arguments.stub = true,
                "--application" => arguments.application = true,
                "--atonce" => arguments.atonce = Some(PathBuf::from(value()?)),
                "--rounds" => {
                    let rounds = value()?.parse().ok().filter(|rounds| *rounds > 0);
                    arguments.rounds = Some(rounds.ok_or("--rounds wants a number above 0")?);
                }
                row => {
                    let known = row.parse().ok().filter(|number| ROWS.iter().any(|row| row.number == *number));
                    arguments.rows.push(known.ok_or_else(|| format!("there is no row {row}"))?);
                }
            }
        }
        Ok(Some(arguments))
    }

    pub(crate) fn wants(&self, row: u8) -> bool {
        self.rows.is_empty() || self.rows.contains(&row)
    }

    /// How many rounds count.
    pub(crate) fn counted_rounds(&self) -> usize {
        self.rounds.unwrap_or(if self.quick { 2 } else { 5 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Option<Arguments>, String> {
        Arguments::parse(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn rows_can_be_named_and_all_are_wanted_otherwise() {
        let some = parse("--quick 2").unwrap().unwrap();
        assert!(some.quick && some.wants(2) && !some.wants(3));
        assert!(parse("").unwrap().unwrap().wants(3));
    }

    #[test]
    fn fewer_rounds_count_in_a_quick_run_unless_told() {
        assert_eq!(parse("").unwrap().unwrap().counted_rounds(), 5);
        assert_eq!(parse("--quick").unwrap().unwrap().counted_rounds(), 2);
        assert_eq!(parse("--quick --rounds 7").unwrap().unwrap().counted_rounds(), 7);
    }

    #[test]
    fn what_is_asked_wrongly_is_named() {
        assert_eq!(parse("9"), Err("there is no row 9".to_owned()));
        assert_eq!(parse("--fast"), Err("there is no row --fast".to_owned()));
        assert_eq!(parse("--rounds"), Err("--rounds wants a value".to_owned()));
        assert_eq!(parse("--rounds 0"), Err("--rounds wants a number above 0".to_owned()));
        assert_eq!(parse("2 --help"), Ok(None));
    }
}
