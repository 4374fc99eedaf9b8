//! What an operator may choose about groups; Kafka's names and defaults.

use super::consumer::assignor::Assignor;

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
    /// Consumer groups.
    pub consumer: ConsumerConfig,
}

/// Settings of groups of the consumer protocol.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ConsumerConfig {
    /// `group.consumer.heartbeat.interval.ms`: how often members are to come.
    pub heartbeat_interval_ms: i32,
    /// `group.consumer.session.timeout.ms`: how long they may be silent.
    pub session_timeout_ms: i32,
    /// `group.consumer.max.size`: members at most.
    pub members_max: usize,
    /// `group.consumer.assignors`: those that members may vote for; the first one runs if nobody votes.
    pub assignors: Vec<Assignor>,
    /// `group.consumer.migration.policy`.
    pub migration: MigrationPolicy,
    /// `group.consumer.assignment.interval.ms`: a fleet that starts together is assigned a few times, not with each member.
    pub assignment_interval_ms: i32,
}

impl Default for ConsumerConfig {
    fn default() -> Self {
        Self {
            heartbeat_interval_ms: 5_000,
            session_timeout_ms: 45_000,
            members_max: usize::try_from(i32::MAX).unwrap_or(usize::MAX),
            assignors: vec![Assignor::Uniform, Assignor::Range],
            migration: MigrationPolicy::default(),
            assignment_interval_ms: 1_000,
        }
    }
}

/// Which groups with members may change their protocol. Without members any may.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MigrationPolicy {
    /// Both ways.
    #[default]
    Bidirectional,
    /// Classic to consumer.
    Upgrade,
    /// Consumer to classic.
    Downgrade,
    /// None; nor do members of the classic protocol join a consumer group.
    Disabled,
}

impl MigrationPolicy {
    /// The policy of that name; case does not matter.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let all = [Self::Bidirectional, Self::Upgrade, Self::Downgrade, Self::Disabled];
        all.into_iter().find(|policy| policy.name().eq_ignore_ascii_case(name))
    }

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Bidirectional => "bidirectional",
            Self::Upgrade => "upgrade",
            Self::Downgrade => "downgrade",
            Self::Disabled => "disabled",
        }
    }

    pub(super) fn is_upgrade_enabled(self) -> bool {
        match self {
            Self::Bidirectional | Self::Upgrade => true,
            Self::Downgrade | Self::Disabled => false,
        }
    }

    pub(super) fn is_downgrade_enabled(self) -> bool {
        match self {
            Self::Bidirectional | Self::Downgrade => true,
            Self::Upgrade | Self::Disabled => false,
        }
    }

    pub(super) fn is_disabled(self) -> bool {
        self == Self::Disabled
    }
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
            consumer: ConsumerConfig::default(),
        }
    }
}
