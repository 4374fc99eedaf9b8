//! Configuration files as Kafka has them: Java's properties, a key and a value a line.
//!
//! `#` and `!` begin comments; key and value are parted by `=`, `:` or blanks; a backslash at the end of a line goes on with the
//! next one, and one within it escapes what follows (`\n`, `\t`, `\u0041`).
//!
//! **What it does not know**: files, which keys there are.

use super::ConfigurationError;

/// A line of a file: where it begins, its key and its value.
pub(crate) type Line = (usize, String, String);

/// The settings in `text`, in their order. A later one of the same key is the one that holds.
pub(crate) fn parse(text: &str) -> Result<Vec<Line>, ConfigurationError> {
    let mut found = Vec::new();
    let mut lines = text.lines().zip(1..);
    while let Some((first, number)) = lines.next() {
        let first = first.trim_start();
        if first.is_empty() || first.starts_with(['#', '!']) {
            continue;
        }
        let mut whole = first.to_owned();
        while goes_on(&whole) {
            whole.pop();
            match lines.next() {
                Some((next, _)) => whole.push_str(next.trim_start()),
                None => break,
            }
        }
        let (key, value) = split(&whole);
        let wrong = || ConfigurationError::Line { line: number, text: whole.clone() };
        let key = unescaped(key).filter(|key| !key.is_empty()).ok_or_else(wrong)?;
        let value = unescaped(value.ok_or_else(wrong)?).ok_or_else(wrong)?;
        found.push((number, key, value.trim_end().to_owned()));
    }
    Ok(found)
}

/// An odd number of backslashes stands at the end.
fn goes_on(line: &str) -> bool {
    line.bytes().rev().take_while(|byte| *byte == b'\\').count() % 2 == 1
}

/// At the first `=`, `:` or blank that is not escaped. A key without any of them is no setting.
fn split(line: &str) -> (&str, Option<&str>) {
    let mut is_escaped = false;
    for (place, c) in line.char_indices() {
        if is_escaped {
            is_escaped = false;
            continue;
        }
        match c {
            '\\' => is_escaped = true,
            '=' | ':' => return (&line[..place], Some(line[place + 1..].trim_start())),
            c if c.is_whitespace() => {
                let rest = line[place..].trim_start();
                let rest = rest.strip_prefix(['=', ':']).unwrap_or(rest).trim_start();
                return (&line[..place], Some(rest));
            }
            _ => {}
        }
    }
    (line, None)
}

fn unescaped(text: &str) -> Option<String> {
    let mut unescaped = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            unescaped.push(c);
            continue;
        }
        match chars.next()? {
            'n' => unescaped.push('\n'),
            't' => unescaped.push('\t'),
            'r' => unescaped.push('\r'),
            'u' => {
                let digits: String = chars.by_ref().take(4).collect();
                if digits.len() != 4 {
                    return None;
                }
                unescaped.push(char::from_u32(u32::from_str_radix(&digits, 16).ok()?)?);
            }
            other => unescaped.push(other),
        }
    }
    Some(unescaped)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_as_java_reads_them() {
        let text = "\
# a comment
! another = one

num.partitions=4
  log.dirs = /data/one two
a:b
c d
e = f \\
    g
h\\=i=j\\u0041\\t.
k =
";
        let found: Vec<(usize, String, String)> = parse(text).expect("all of it makes sense");
        let found: Vec<(usize, &str, &str)> =
            found.iter().map(|(line, key, value)| (*line, key.as_str(), value.as_str())).collect();
        assert_eq!(
            found,
            [
                (4, "num.partitions", "4"),
                (5, "log.dirs", "/data/one two"),
                (6, "a", "b"),
                (7, "c", "d"),
                (8, "e", "f g"),
                (10, "h=i", "jA\t."),
                (11, "k", ""),
            ]
        );
    }

    #[test]
    fn a_line_that_is_no_setting_is_named() {
        for (text, line) in [("a=b\nnonsense\n", 2), ("=x", 1), ("a=\\u00", 1), ("\na=\\uzzzz", 2), ("ä", 1)] {
            let refused = parse(text).expect_err(text);
            assert!(matches!(refused, ConfigurationError::Line { line: found, .. } if found == line), "{refused}");
        }
    }
}
