//! What an operator may choose about groups; Kafka's names and defaults.

/// Settings of the group coordinator.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct GroupConfig {
    /// `group.min.session.timeout.ms`: a member may not ask for less.
    pub session_timeout_ms_min: i32,
    /// `group.max.session.timeout.ms`: nor for more.
    pub session_timeout_ms_max: i32,
    /// `group.initial.rebalance.delay.ms`: how long a group that was empty waits for further members before its
    /// first generation, so that a fleet that starts together is assigned once. 0: the first member goes ahead.
    pub initial_rebalance_delay_ms: i32,
    /// `group.max.size`: members at most.
    pub members_max: usize,
    /// `offset.metadata.max.bytes`: Kafka counts UTF-16 units here, in spite of the name, and so do we.
    pub offset_metadata_max: usize,
    /// `offsets.retention.minutes`, in milliseconds: how long an offset outlives its group's last member.
    pub offsets_retention_ms: i64,
    /// `offsets.retention.check.interval.ms`: how often we look for offsets to expire.
    pub offsets_retention_check_interval_ms: i64,
    /// How long a member that has no generation yet may wait in a rebalance. It cannot send heartbeats, as it does not
    /// know its id; without a limit the retries of a client whose connection broke would pile up. Kafka fixes five minutes.
    pub new_member_join_timeout_ms: i32,
}

impl Default for GroupConfig {
    fn default() -> Self {
        Self {
            session_timeout_ms_min: 6_000,
            session_timeout_ms_max: 1_800_000,
            initial_rebalance_delay_ms: 3_000,
            members_max: usize::try_from(i32::MAX).unwrap_or(usize::MAX),
            offset_metadata_max: 4_096,
            offsets_retention_ms: 7 * 24 * 60 * 60 * 1_000,
            offsets_retention_check_interval_ms: 600_000,
            new_member_join_timeout_ms: 300_000,
        }
    }
}
