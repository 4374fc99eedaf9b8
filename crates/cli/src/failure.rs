//! What went wrong, for a person: who and where, and always what to do next.

use std::error::Error;

use miette::Diagnostic;

/// An error that ends a command, with exit status 1 unless it says otherwise.
#[derive(Debug, thiserror::Error, Diagnostic)]
#[error("{what}")]
pub(crate) struct Failure {
    what: String,
    #[source]
    cause: Option<Cause>,
    #[help]
    next: String,
    status: u8,
}

/// What a library said, and why: each thing once.
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
struct Cause {
    text: String,
    #[source]
    deeper: Option<Box<Cause>>,
}

impl Cause {
    /// Many errors name their cause in their own words and give it as their source too: that one is left out.
    fn of(error: &(dyn Error + 'static)) -> Self {
        let text = error.to_string();
        let mut deeper = error.source();
        while let Some(named) = deeper
            && error.to_string().contains(&named.to_string())
        {
            deeper = named.source();
        }
        Self { text, deeper: deeper.map(|error| Box::new(Self::of(error))) }
    }
}

impl Failure {
    /// Something that has no deeper cause.
    pub(crate) fn new(what: impl Into<String>, next: impl Into<String>) -> Self {
        Self { what: what.into(), cause: None, next: next.into(), status: 1 }
    }

    /// Something that a library's error is the cause of.
    pub(crate) fn caused(
        what: impl Into<String>,
        cause: impl Into<Box<dyn Error + Send + Sync>>,
        next: impl Into<String>,
    ) -> Self {
        let cause: Box<dyn Error + Send + Sync> = cause.into();
        Self { cause: Some(Cause::of(&*cause)), ..Self::new(what, next) }
    }

    /// The end of a command whose output nobody reads any more: quiet, and status 0.
    pub(crate) fn nobody_reads() -> Self {
        Self::new("nobody reads what is printed", "nothing needs to be done").with_status(0)
    }

    /// The same with another exit status. 0 is for ends that nothing is to be said of.
    pub(crate) fn with_status(self, status: u8) -> Self {
        Self { status, ..self }
    }

    /// The exit status.
    pub(crate) fn status(&self) -> u8 {
        self.status
    }
}

/// Turns a library's error into a [`Failure`].
pub(crate) trait OrFailure<T> {
    /// Says what was tried, and what to do now that it failed.
    fn or_failure(self, what: impl FnOnce() -> String, next: &str) -> Result<T, Failure>;
}

impl<T, E: Into<Box<dyn Error + Send + Sync>>> OrFailure<T> for Result<T, E> {
    fn or_failure(self, what: impl FnOnce() -> String, next: &str) -> Result<T, Failure> {
        self.map_err(|cause| Failure::caused(what(), cause, next))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{text}")]
    struct Told {
        text: &'static str,
        source: Option<std::io::Error>,
    }

    fn chain(text: &'static str) -> Vec<String> {
        let told = Told { text, source: Some(std::io::Error::other("the disk is full")) };
        let failure = Err::<(), _>(told).or_failure(|| "it failed".into(), "free some room").expect_err("it is one");
        let mut texts = Vec::new();
        let mut next = failure.source();
        while let Some(error) = next {
            texts.push(error.to_string());
            next = error.source();
        }
        texts
    }

    #[test]
    fn a_cause_that_was_named_is_not_named_again() {
        assert_eq!(chain("cannot write: the disk is full"), ["cannot write: the disk is full"]);
        assert_eq!(chain("cannot write"), ["cannot write", "the disk is full"]);
    }
}
