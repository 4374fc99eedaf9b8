//! Words that brokers send as text, as enums that keep their spelling.

use std::fmt;

/// A word that is none of those that Kafka knows.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{given:?} is none of {known}")]
pub struct UnknownName {
    /// What was given.
    pub given: String,
    /// All that would do.
    pub known: String,
}

impl UnknownName {
    pub(super) fn new(given: &str, known: &[impl fmt::Display]) -> Self {
        let known: Vec<String> = known.iter().map(ToString::to_string).collect();
        Self { given: given.to_owned(), known: known.join(", ") }
    }
}

/// Declares an enum of words. `ALL` has the known ones; brokers' words are read as `Unknown` where they are none of them, and users'
/// words (any case, with or without dashes) are refused.
macro_rules! names {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $text:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum $name {
            $($(#[$variant_doc])* $variant,)+
            /// A word that this client does not know.
            Unknown,
        }

        impl $name {
            /// All that are known.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// Kafka's word for it.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)+
                    Self::Unknown => "Unknown",
                }
            }

            pub(super) fn from_broker(text: &str) -> Self {
                Self::ALL.iter().copied().find(|it| it.name().eq_ignore_ascii_case(text)).unwrap_or(Self::Unknown)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.name())
            }
        }

        impl std::str::FromStr for $name {
            type Err = crate::admin::UnknownName;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                let plain = text.replace(['-', '_', ' '], "");
                Self::ALL
                    .iter()
                    .copied()
                    .find(|it| it.name().eq_ignore_ascii_case(&plain))
                    .ok_or_else(|| crate::admin::UnknownName::new(text, Self::ALL))
            }
        }
    };
}

pub(super) use names;

#[cfg(test)]
mod tests {
    use crate::admin::{GroupState, TransactionState};

    #[test]
    fn words_are_read_in_any_case_and_unknown_ones_are_named() {
        assert_eq!("preparing-rebalance".parse(), Ok(GroupState::PreparingRebalance));
        assert_eq!("ongoing".parse(), Ok(TransactionState::Ongoing));
        let error = "going".parse::<TransactionState>().expect_err("is no state");
        assert!(error.to_string().starts_with(r#""going" is none of Empty, Ongoing, "#), "{error}");
        assert_eq!(GroupState::from_broker("SomethingNew"), GroupState::Unknown);
    }
}
