//! What a caller should do about an error: the five classes of KIP-1050.

use std::fmt;

/// What a caller should do about an error.
///
/// Source: KIP-1050, whose five classes these are; what it leaves open is `ApplicationRecoverable`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ErrorClass {
    /// The same call may succeed later. The client has already retried for as long as it was told to.
    Retriable,
    /// As `Retriable`, once the cluster's metadata or a coordinator has been looked up again.
    RefreshRetriable,
    /// The transaction must be aborted, and what it read be read again; the producer itself is well.
    Abortable,
    /// This producer, or member, is finished: make a new one, and go on from the committed offsets.
    ApplicationRecoverable,
    /// Asking again is useless until someone changes a setting, a permission or the program.
    InvalidConfiguration,
}

impl fmt::Display for ErrorClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Retriable => "retriable",
            Self::RefreshRetriable => "retriable after a refresh",
            Self::Abortable => "abort the transaction",
            Self::ApplicationRecoverable => "start anew",
            Self::InvalidConfiguration => "invalid configuration",
        })
    }
}
