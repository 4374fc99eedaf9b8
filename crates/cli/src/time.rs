//! Times and durations as people write them (ISO 8601), and back.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Milliseconds since 1970, now.
pub(crate) fn now_ms() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_millis()).unwrap_or(i64::MAX)
}

/// `2026-01-31T10:00:00.000`, also with `Z` or an offset (`+01:00`); without one it is UTC. Gives milliseconds since 1970.
pub(crate) fn datetime(text: &str) -> Result<i64, String> {
    parse_datetime(text).ok_or_else(|| {
        format!("{text:?} is no time; expected YYYY-MM-DDThh:mm:ss, with .SSS and Z or +hh:mm if need be")
    })
}

fn parse_datetime(text: &str) -> Option<i64> {
    let (date, time) = text.split_once(['T', ' '])?;
    let mut parts = date.splitn(3, '-');
    let (year, month, day) = (digits(parts.next()?, 4)?, digits(parts.next()?, 2)?, digits(parts.next()?, 2)?);
    let (time, zone_minutes) = split_zone(time)?;
    let (time, fraction) = time.split_once('.').unwrap_or((time, "0"));
    let mut parts = time.splitn(3, ':');
    let (hour, minute) = (digits(parts.next()?, 2)?, digits(parts.next()?, 2)?);
    let second = parts.next().map_or(Some(0), |it| digits(it, 2))?;
    if !(1..=12).contains(&month) || day < 1 || day > days_in(year, month) || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    if fraction.is_empty() || fraction.len() > 9 || !fraction.bytes().all(|it| it.is_ascii_digit()) {
        return None;
    }
    let milliseconds: i64 = format!("{fraction:0<3}").get(..3)?.parse().ok()?;
    let minutes = (days_since_1970(year, month, day) * 24 + hour) * 60 + minute - zone_minutes;
    Some((minutes * 60 + second) * 1000 + milliseconds)
}

/// A number of just so many digits.
fn digits(text: &str, count: usize) -> Option<i64> {
    (text.len() == count && text.bytes().all(|it| it.is_ascii_digit())).then(|| text.parse().ok())?
}

/// The time of day, and by how many minutes its zone is ahead of UTC.
fn split_zone(text: &str) -> Option<(&str, i64)> {
    if let Some(time) = text.strip_suffix(['Z', 'z']) {
        return Some((time, 0));
    }
    let Some(at) = text.rfind(['+', '-']) else { return Some((text, 0)) };
    let (time, zone) = text.split_at_checked(at)?;
    let ahead = if zone.starts_with('-') { -1 } else { 1 };
    let zone = zone.get(1..)?;
    let (hours, minutes) = match zone.split_once(':') {
        Some((hours, minutes)) => (digits(hours, 2)?, digits(minutes, 2)?),
        None if zone.len() == 4 => (digits(zone.get(..2)?, 2)?, digits(zone.get(2..)?, 2)?),
        None => (digits(zone, 2)?, 0),
    };
    (hours <= 18 && minutes <= 59).then_some((time, ahead * (hours * 60 + minutes)))
}

fn is_leap(year: i64) -> bool {
    (year % 4 == 0 && year % 100 != 0) || year % 400 == 0
}

fn days_in(year: i64, month: i64) -> i64 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if is_leap(year) => 29,
        2 => 28,
        _ => 31,
    }
}

/// Days in the Gregorian calendar, whose pattern repeats every 400 years of 146,097 days. A year begins in March here, so that
/// the leap day is its last.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + day_of_year - 719_468
}

/// The reverse: year, month and day.
fn date_of(days_since_1970: i64) -> (i64, i64, i64) {
    let days = days_since_1970 + 719_468;
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let day_of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let calendar_month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year + i64::from(calendar_month <= 2), calendar_month, day)
}

/// Milliseconds since 1970, for people: `2026-01-31T10:00:00.000Z`.
pub(crate) fn show(ms: i64) -> String {
    let (year, month, day) = date_of(ms.div_euclid(86_400_000));
    let of_day = ms.rem_euclid(86_400_000);
    let (hour, minute, second, ms) = (of_day / 3_600_000, of_day / 60_000 % 60, of_day / 1_000 % 60, of_day % 1_000);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z")
}

/// `P1DT2H30M10S` as ISO 8601 has it, or a number and a unit: `90s`, `15m`, `2h`, `1d`, `500ms`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    parse_duration(text)
        .ok_or_else(|| format!("{text:?} is no duration; expected PnDTnHnMnS, as in PT1H30M, or 90s, 15m, 2h, 1d"))
}

fn parse_duration(text: &str) -> Option<Duration> {
    let upper = text.to_ascii_uppercase();
    let milliseconds = match upper.strip_prefix('P') {
        Some(iso) => {
            let (days, time) = iso.split_once('T').unwrap_or((iso, ""));
            if days.is_empty() && time.is_empty() || iso.ends_with('T') {
                return None;
            }
            parts(days, &[("D", 86_400_000)])?
                .checked_add(parts(time, &[("H", 3_600_000), ("M", 60_000), ("S", 1_000)])?)?
        }
        None => {
            let units = [("MS", 1), ("S", 1_000), ("M", 60_000), ("H", 3_600_000), ("D", 86_400_000)];
            units.iter().find_map(|(unit, ms)| {
                let number = upper.strip_suffix(unit)?;
                number.bytes().all(|it| it.is_ascii_digit()).then(|| number.parse::<u64>().ok()?.checked_mul(*ms))?
            })?
        }
    };
    Some(Duration::from_millis(milliseconds))
}

/// Numbers with their units, in this order, each at most once.
fn parts(mut text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let mut sum: u64 = 0;
    for (unit, ms) in units {
        let length = text.bytes().take_while(u8::is_ascii_digit).count();
        let (number, rest) = text.split_at_checked(length)?;
        if let Some(rest) = rest.strip_prefix(unit) {
            sum = sum.checked_add(number.parse::<u64>().ok()?.checked_mul(*ms)?)?;
            text = rest;
        }
    }
    text.is_empty().then_some(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, ms: Option<i64>) {
        assert_eq!(datetime(text).ok(), ms, "{text}");
    }

    #[test]
    fn times_are_read_as_iso_8601_writes_them() {
        check("1970-01-01T00:00:00.000", Some(0));
        check("2000-02-29T12:30:15.5", Some(951_827_415_500));
        check("2026-01-31T10:00:00Z", Some(1_769_853_600_000));
        check("2026-01-31T11:00:00.000+01:00", Some(1_769_853_600_000));
        check("2026-01-31T04:30:00-0530", Some(1_769_853_600_000));
        check("2026-01-31T10:00", Some(1_769_853_600_000));
        check("1969-12-31T23:59:59.999Z", Some(-1));
        for wrong in [
            "",
            "now",
            "2026-02-30T00:00:00",
            "2026-13-01T00:00:00",
            "2026-01-01",
            "2026-01-01T24:00:00",
            "2026-01-01T00:00:00.",
            "26-01-01T00:00:00",
            "2026-01-01T00:00:00+1",
            "2026-01-01T00:00:00é",
            "é+é",
        ] {
            check(wrong, None);
        }
    }

    #[test]
    fn what_is_shown_is_read_back() {
        for ms in [0, -1, 951_827_415_500, 1_769_853_600_000, -62_135_596_800_000, 253_402_300_799_999] {
            assert_eq!(datetime(&show(ms)), Ok(ms), "{}", show(ms));
        }
        assert_eq!(show(951_827_415_500), "2000-02-29T12:30:15.500Z");
    }

    #[test]
    fn durations_are_read_in_both_forms() {
        let ms = |text: &str| duration(text).ok().map(|it| it.as_millis());
        assert_eq!(ms("P1DT2H30M10S"), Some(95_410_000));
        assert_eq!(ms("PT15M"), Some(900_000));
        assert_eq!(ms("P2D"), Some(172_800_000));
        assert_eq!(ms("90s"), Some(90_000));
        assert_eq!(ms("500ms"), Some(500));
        assert_eq!(ms("1d"), Some(86_400_000));
        for wrong in ["", "P", "PT", "P1DT", "15", "m", "1.5h", "-1s", "PT1M1H", "P99999999999999999999D", "é"] {
            assert_eq!(ms(wrong), None, "{wrong}");
        }
    }
}
