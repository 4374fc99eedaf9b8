//! Callers whose requests a coordinator holds. When the connection of one ends, its coordinator hears of that: what is held for nobody
//! fences nobody, and keeps nobody's session alive.
//!
//! **What it does not know**: what a coordinator makes of it.

use std::sync::{Arc, OnceLock};

use atonce_coordinator::Waiter;
use atonce_coordinator::{group, transaction};
use atonce_kernel::GroupId;

use super::{Engine, EngineHandle};

/// Where a request is held, if it is: written once, by the writer; asked for by its connection's end.
#[derive(Clone, Debug, Default)]
pub(crate) struct Held(Arc<OnceLock<HeldBy>>);

#[derive(Clone, Debug)]
pub(super) enum HeldBy {
    Group { partition: i32, group: GroupId, waiter: Waiter },
    Transaction { partition: i32, waiter: Waiter },
}

impl Held {
    pub(super) fn by(&self, holder: HeldBy) {
        let _ = self.0.set(holder);
    }
}

/// A request on its way. Dropped before it is answered, it tells the writer that nobody listens any more.
pub(crate) struct Listening {
    engine: EngineHandle,
    held: Held,
    is_answered: bool,
}

impl Listening {
    pub(crate) fn new(engine: EngineHandle, held: Held) -> Self {
        Self { engine, held, is_answered: false }
    }

    pub(crate) fn answered(mut self) {
        self.is_answered = true;
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        if !self.is_answered {
            let held = self.held.clone();
            // Behind the request itself, so the writer has dealt with that by then.
            self.engine.submit(Box::new(move |engine| engine.caller_gone(&held)));
        }
    }
}

impl Engine {
    fn caller_gone(&mut self, held: &Held) {
        match held.0.get() {
            // It was answered at once; the answer met nobody.
            None => {}
            Some(HeldBy::Group { partition, group, waiter }) => {
                let gone = group::command::WaiterGone { group: group.clone(), waiter: *waiter };
                self.group_caller_gone(*partition, &group::Command::WaiterGone(gone), *waiter);
            }
            Some(HeldBy::Transaction { partition, waiter }) => {
                self.transaction_caller_gone(*partition, &transaction::Command::WaiterGone(*waiter), *waiter);
            }
        }
    }
}
