//! The moves that several commands share: begin a rebalance, end its join phase, let members go.
//!
//! Source: KIP-62 (time-outs), KIP-134 (initial delay), KIP-345 (static members), KIP-394 (ids given out).

use std::collections::BTreeSet;

use atonce_kernel::MemberId;
use atonce_protocol::ErrorCode;

use super::classic::{State, Window};
use super::draft::Draft;
use super::reply::Joined;

impl Draft<'_> {
    /// After a change of members or of what they want: begins a rebalance, or looks whether the one that is on can go on.
    pub(super) fn rebalance(&mut self) {
        match self.group.state {
            State::Empty | State::CompletingRebalance { .. } | State::Stable { .. } => self.prepare_rebalance(),
            State::PreparingRebalance { .. } => self.complete_join_if_due(),
        }
    }

    /// Begins a rebalance. Heartbeats are refused from now on, so that members come and join.
    ///
    /// Shape: `Empty`, `CompletingRebalance`, `Stable` → `PreparingRebalance`, and further if all have joined.
    pub(super) fn prepare_rebalance(&mut self) {
        let window = match self.group.state {
            State::Empty => {
                let delay_ms = self.config.initial_rebalance_delay_ms;
                Window::Initial {
                    deadline: self.now.plus_ms(i64::from(delay_ms)),
                    delay_ms,
                    remaining_ms: self.group.rebalance_timeout_ms().saturating_sub(delay_ms).max(0),
                    newcomer: false,
                }
            }
            State::CompletingRebalance { .. } | State::Stable { .. } | State::PreparingRebalance { .. } => {
                self.window_until_all_joined()
            }
        };
        if let State::CompletingRebalance { .. } = self.group.state {
            self.call_back_syncing();
        }
        self.turn(State::PreparingRebalance { window });
        self.complete_join_if_due();
    }

    /// The assignment that members wait for will not come; they have to join again.
    fn call_back_syncing(&mut self) {
        let ids: Vec<MemberId> = self.group.members.keys().cloned().collect();
        for id in ids {
            if let Some(member) = self.group.members.get_mut(&id) {
                member.assignment.clear();
            }
            self.answer_sync(&id, Err(ErrorCode::RebalanceInProgress));
        }
    }

    /// Not closed at once, whatever members ask for: with a time-out of 0 and nobody back, ticks would never end.
    fn window_until_all_joined(&self) -> Window {
        Window::UntilAllJoined { deadline: self.now.plus_ms(i64::from(self.group.rebalance_timeout_ms().max(1))) }
    }

    /// Ends the join phase if everybody is back; never within the initial delay.
    pub(super) fn complete_join_if_due(&mut self) {
        match &self.group.state {
            State::PreparingRebalance { window: Window::UntilAllJoined { .. } } if self.group.has_all_joined() => {
                self.complete_join();
            }
            State::PreparingRebalance { window: Window::UntilAllJoined { .. } | Window::Initial { .. } }
            | State::Empty
            | State::CompletingRebalance { .. }
            | State::Stable { .. } => {}
        }
    }

    /// Ends the join phase with those who are there. Dynamic members who are not back are out; static ones stay, as
    /// they may be restarting: their session decides.
    ///
    /// Shape: `PreparingRebalance → CompletingRebalance`; `→ Empty`, recorded, if nobody is left; stays if only
    ///   static members are left and none of them is back.
    pub(super) fn complete_join(&mut self) {
        let gone: Vec<MemberId> = self
            .group
            .members
            .iter()
            .filter(|(_, member)| !member.is_joining() && member.instance.is_none())
            .map(|(id, _)| id.clone())
            .collect();
        for id in gone {
            self.group.remove(&id);
        }
        if self.group.members.is_empty() {
            return self.become_empty();
        }
        if !self.elect_leader() {
            let window = self.window_until_all_joined();
            self.group.state = State::PreparingRebalance { window };
            return;
        }
        self.begin_generation();
    }

    fn become_empty(&mut self) {
        // A generation that nobody is in: whoever comes back with an older one is told so.
        self.group.generation = self.group.generation.saturating_add(1);
        self.group.protocol = None;
        self.group.reads = self.group.topics_now();
        self.turn(State::Empty);
        self.record();
    }

    /// The leader stays if it is back; otherwise the first who is leads.
    fn elect_leader(&mut self) -> bool {
        let is_back = |id: &MemberId| self.group.members.get(id).is_some_and(|member| member.is_joining());
        if self.group.leader.as_ref().is_some_and(is_back) {
            return true;
        }
        let first = self.group.members.iter().find(|(_, member)| member.is_joining()).map(|(id, _)| id.clone());
        if first.is_some() {
            self.group.leader.clone_from(&first);
        }
        first.is_some()
    }

    fn begin_generation(&mut self) {
        self.group.generation = self.group.generation.saturating_add(1);
        self.group.protocol = self.group.select_protocol();
        self.group.reads = self.group.topics_now();
        let ids: Vec<MemberId> = self.group.members.keys().cloned().collect();
        let deadline = self.now.plus_ms(i64::from(self.group.rebalance_timeout_ms()));
        self.turn(State::CompletingRebalance { unsynced: ids.iter().cloned().collect::<BTreeSet<_>>(), deadline });
        for id in &ids {
            self.answer_join(id, |group| Ok(group.joined(id)));
            self.restart_clock(id);
        }
    }

    /// A member is out because it was silent, or an id because it was never used.
    pub(super) fn expire(&mut self, id: &MemberId) {
        self.refuse_waiting(id, ErrorCode::UnknownMemberId, None);
        let was_member = self.group.remove(id).is_some();
        match self.group.state {
            State::CompletingRebalance { .. } | State::Stable { .. } if was_member => self.prepare_rebalance(),
            State::PreparingRebalance { .. } if self.group.has_all_joined() => self.complete_join(),
            State::Empty
            | State::CompletingRebalance { .. }
            | State::Stable { .. }
            | State::PreparingRebalance { .. } => {}
        }
    }
}

impl super::classic::Classic {
    /// The answer to a member's JoinGroup: the generation as it is.
    pub(super) fn joined(&self, id: &MemberId) -> Joined {
        Joined {
            generation: self.generation,
            protocol_type: self.protocol_type.clone(),
            protocol: self.protocol.clone(),
            leader: self.leader.clone(),
            skip_assignment: false,
            member: id.clone(),
            members: if self.is_leader(id) { self.joined_members() } else { Vec::new() },
        }
    }
}
