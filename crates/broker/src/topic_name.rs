//! Which names a topic may have, and which are the broker's own.

/// Longest name, so that it fits into a folder's name with its partition.
const LENGTH_MAX: usize = 249;

/// Offsets of groups, as Kafka names the topic.
pub(crate) const CONSUMER_OFFSETS: &str = "__consumer_offsets";
/// States of transactions, as Kafka names the topic.
pub(crate) const TRANSACTION_STATE: &str = "__transaction_state";
/// The log of Kafka's controllers: there is none here, and nobody may make one.
pub(crate) const CLUSTER_METADATA: &str = "__cluster_metadata";

/// Whether only the broker may write to the topic.
pub(crate) fn is_internal(name: &str) -> bool {
    matches!(name, CONSUMER_OFFSETS | TRANSACTION_STATE)
}

/// Says what is wrong with `name`, in Kafka's words.
pub(crate) fn check(name: &str) -> Result<(), String> {
    if name.is_empty() {
        return Err("Topic name is invalid: the empty string is not allowed".to_owned());
    }
    if name == "." || name == ".." {
        return Err(format!("Topic name is invalid: '{name}' cannot be \".\" or \"..\""));
    }
    if name.len() > LENGTH_MAX {
        return Err(format!(
            "Topic name is invalid: the length of '{name}' is longer than the max allowed length {LENGTH_MAX}"
        ));
    }
    if !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-')) {
        return Err(format!(
            "Topic name is invalid: '{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_cannot_be_folders_are_refused() {
        for good in ["a", "a.b_c-D9", "...", &"x".repeat(249)] {
            assert_eq!(check(good), Ok(()), "{good}");
        }
        for bad in ["", ".", "..", "a/b", "a b", "ä", "a\0", &"x".repeat(250)] {
            assert!(check(bad).is_err(), "{bad}");
        }
    }
}
