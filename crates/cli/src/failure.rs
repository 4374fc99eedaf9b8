//! What went wrong, for a person: who and where, and always what to do next.

use std::error::Error;

use miette::Diagnostic;

/// An error that ends a command with exit status 1.
#[derive(Debug, thiserror::Error, Diagnostic)]
#[error("{what}")]
pub(crate) struct Failure {
    what: String,
    #[source]
    cause: Option<Box<dyn Error + Send + Sync>>,
    #[help]
    next: String,
}

impl Failure {
    /// Something that has no deeper cause.
    pub(crate) fn new(what: impl Into<String>, next: impl Into<String>) -> Self {
        Self { what: what.into(), cause: None, next: next.into() }
    }
}

/// Turns a library's error into a [`Failure`].
pub(crate) trait OrFailure<T> {
    /// Says what was tried, and what to do now that it failed.
    fn or_failure(self, what: impl FnOnce() -> String, next: &str) -> Result<T, Failure>;
}

impl<T, E: Into<Box<dyn Error + Send + Sync>>> OrFailure<T> for Result<T, E> {
    fn or_failure(self, what: impl FnOnce() -> String, next: &str) -> Result<T, Failure> {
        self.map_err(|cause| Failure { what: what(), cause: Some(cause.into()), next: next.to_owned() })
    }
}
