//! Where commands speak: results to standard output, remarks to standard error.
//!
//! A reader that has seen enough (`atonce topics list | head -1`) closes the pipe. That is no failure: the command ends quietly. Nor is it
//! one when nobody reads the remarks.

use std::fmt::Display;
use std::io::{ErrorKind, Write};

use comfy_table::{Table, presets};

use crate::failure::{Failure, OrFailure};

/// Prints a line, at once. A reader that is gone is [`Failure::nobody_reads`].
pub(crate) fn say(line: impl Display) -> Result<(), Failure> {
    write(format!("{line}\n").as_bytes())
}

/// Prints bytes as they are, at once. A reader that is gone is [`Failure::nobody_reads`].
pub(crate) fn write(bytes: &[u8]) -> Result<(), Failure> {
    write_to(&mut std::io::stdout().lock(), bytes)
}

/// Remarks on standard error. Whether anybody hears it changes nothing.
pub(crate) fn remark(line: impl Display) {
    let _ = std::io::stderr().lock().write_all(format!("{line}\n").as_bytes());
}

/// A table for people, with these heads of its columns.
pub(crate) fn table(head: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_FULL_CONDENSED).set_header(head.iter().copied());
    table
}

/// A number that may not be known, in a table.
pub(crate) fn or_dash(value: Option<impl Display>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}

fn write_to(output: &mut impl Write, bytes: &[u8]) -> Result<(), Failure> {
    match output.write_all(bytes).and_then(|()| output.flush()) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Err(Failure::nobody_reads()),
        Err(error) => Err(error)
            .or_failure(|| "cannot print".into(), "see the cause above; is the disk behind standard output full?"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Broken(ErrorKind);

    impl Write for Broken {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(self.0.into())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_reader_that_is_gone_is_a_quiet_end_and_a_full_disk_is_not() {
        let status = |kind| write_to(&mut Broken(kind), b"x").map_err(|failure| failure.status());
        assert_eq!(status(ErrorKind::BrokenPipe), Err(0));
        assert_eq!(status(ErrorKind::StorageFull), Err(1));
    }
}
