//! Standard output: the one place where commands print their results.
//!
//! A reader that has seen enough (`atonce topics list | head -1`) closes the pipe. That is no failure: the command ends quietly.

use std::fmt::Display;
use std::io::{ErrorKind, Write};

use crate::failure::{Failure, OrFailure};

/// Prints a line, at once. A reader that is gone is [`Failure::nobody_reads`].
pub(crate) fn say(line: impl Display) -> Result<(), Failure> {
    write(format!("{line}\n").as_bytes())
}

/// Prints bytes as they are, at once. A reader that is gone is [`Failure::nobody_reads`].
pub(crate) fn write(bytes: &[u8]) -> Result<(), Failure> {
    write_to(&mut std::io::stdout().lock(), bytes)
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
