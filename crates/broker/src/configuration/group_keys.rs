//! The settings of groups and of client metrics' subscriptions.

use super::{Key, POSITIVE, ValueKind, key};

/// What a group may have set for itself. Sorted by name.
pub(crate) const GROUP_KEYS: &[Key] = &[
    key("consumer.heartbeat.interval.ms", POSITIVE, "5000", "How often members are to be heard of."),
    key("consumer.session.timeout.ms", POSITIVE, "45000", "How long a member may be silent."),
];

/// Sorted by name. Nothing is collected; what tools set is kept for them.
pub(crate) const CLIENT_METRICS_KEYS: &[Key] = &[
    key("interval.ms", ValueKind::Int { least: 100, most: 3_600_000 }, "300000", "How often clients are to report."),
    key("match", ValueKind::List, "", "Which clients."),
    key("metrics", ValueKind::List, "", "Which metrics."),
];
