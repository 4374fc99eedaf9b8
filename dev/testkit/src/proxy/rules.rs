//! What is planned for chosen requests.

use std::sync::{Arc, Mutex};

use atonce_protocol::ApiKey;
use tokio::sync::watch;

use super::{Proxy, locked};

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It does not reach the broker; its connection is closed.
    LoseRequest,
    /// So many bytes of its frame reach the broker, then its connection is closed. Never the whole frame.
    CutRequest(usize),
    /// It, and what comes behind it, waits to be released.
    HoldRequest,
    /// It does not reach the broker, nor does what comes behind it; its connection stays open.
    SwallowRequest,
    /// It is answered, and the connection is closed in the place of the answer.
    LoseAnswer,
    /// So many bytes of the answer's frame arrive, then the connection is closed. Never the whole frame.
    CutAnswer(usize),
    /// The answer, and what comes behind it, waits to be released.
    HoldAnswer,
    /// The answer does not arrive, nor does what comes behind it; the connection stays open.
    SwallowAnswer,
}

/// A choice of requests, for which something is yet to be planned.
#[must_use = "nothing is planned yet"]
#[derive(Debug)]
pub struct Plan {
    proxy: Proxy,
    api: ApiKey,
    client_id: Option<String>,
    skip: u64,
    times: u64,
}

impl Plan {
    pub(super) fn new(proxy: Proxy, api: ApiKey, skip: u64, times: u64) -> Self {
        Self { proxy, api, client_id: None, skip, times }
    }

    /// Only requests of a client that calls itself so; others are not counted.
    pub fn of_client(mut self, client_id: impl Into<String>) -> Self {
        self.client_id = Some(client_id.into());
        self
    }

    /// So many of them, one after the other.
    pub fn times(mut self, times: u64) -> Self {
        self.times = times;
        self
    }

    /// The request does not reach the broker; its connection is closed.
    pub fn lose_request(self) -> Planned {
        self.with(Fate::LoseRequest)
    }

    /// `bytes` of the request's frame (at most all but one) reach the broker, then its connection is closed.
    pub fn cut_request(self, bytes: usize) -> Planned {
        self.with(Fate::CutRequest(bytes))
    }

    /// The request, and what comes behind it on its connection, waits for [`Planned::release`]. It then reaches the
    /// broker, also if its client has gone meanwhile.
    pub fn hold_request(self) -> Planned {
        self.with(Fate::HoldRequest)
    }

    /// The request goes into a black hole, with what comes behind it; the connection stays open.
    pub fn swallow_request(self) -> Planned {
        self.with(Fate::SwallowRequest)
    }

    /// The broker deals with the request; in the place of its answer the connection is closed.
    pub fn lose_answer(self) -> Planned {
        self.with(Fate::LoseAnswer)
    }

    /// The broker deals with the request; `bytes` of its answer's frame (at most all but one) arrive, then the connection
    /// is closed.
    pub fn cut_answer(self, bytes: usize) -> Planned {
        self.with(Fate::CutAnswer(bytes))
    }

    /// The answer, and what comes behind it on its connection, waits for [`Planned::release`].
    pub fn hold_answer(self) -> Planned {
        self.with(Fate::HoldAnswer)
    }

    /// The answer goes into a black hole, with what comes behind it; the connection stays open.
    pub fn swallow_answer(self) -> Planned {
        self.with(Fate::SwallowAnswer)
    }

    fn with(self, fate: Fate) -> Planned {
        let rule = Arc::new(Rule {
            api: self.api,
            client_id: self.client_id,
            fate,
            counts: Mutex::new(Counts { skip: self.skip, times: self.times }),
            happened: watch::Sender::new(0),
            is_released: watch::Sender::new(false),
        });
        self.proxy.plan(Arc::clone(&rule));
        Planned { rule }
    }
}

struct Counts {
    /// How many more pass by.
    skip: u64,
    /// How many more are met, after those.
    times: u64,
}

pub(super) struct Rule {
    api: ApiKey,
    client_id: Option<String>,
    pub(super) fate: Fate,
    counts: Mutex<Counts>,
    happened: watch::Sender<u64>,
    is_released: watch::Sender<bool>,
}

impl Rule {
    pub(super) fn is_over(&self) -> bool {
        locked(&self.counts).times == 0
    }

    /// A request came, and may already be another rule's: whether it is this one's.
    pub(super) fn is_due(&self, api: ApiKey, client_id: Option<&str>, is_taken: bool) -> bool {
        if api != self.api || self.client_id.as_deref().is_some_and(|wanted| Some(wanted) != client_id) {
            return false;
        }
        let mut counts = locked(&self.counts);
        if counts.skip > 0 {
            counts.skip -= 1;
            return false;
        }
        if is_taken || counts.times == 0 {
            return false;
        }
        if counts.times != u64::MAX {
            counts.times -= 1;
        }
        true
    }

    pub(super) fn handle_happened(&self) {
        self.happened.send_modify(|count| *count += 1);
    }

    pub(super) async fn released(&self) {
        let mut released = self.is_released.subscribe();
        // The sender lives in `self`.
        let _ = released.wait_for(|is_released| *is_released).await;
    }
}

/// Something that is planned, or has happened. Dropping it changes nothing.
#[derive(Clone)]
pub struct Planned {
    rule: Arc<Rule>,
}

impl std::fmt::Debug for Planned {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Planned").field("api", &self.rule.api).field("fate", &self.rule.fate).finish_non_exhaustive()
    }
}

impl Planned {
    /// Waits until it has happened. What concerns an answer happens when that has come from the broker.
    pub async fn happened(&self) {
        self.happened_times(1).await;
    }

    /// Waits until it has happened so often.
    pub async fn happened_times(&self, times: u64) {
        let mut happened = self.rule.happened.subscribe();
        let _ = happened.wait_for(|count| *count >= times).await;
    }

    /// How often it has happened.
    #[must_use]
    pub fn count(&self) -> u64 {
        *self.rule.happened.borrow()
    }

    /// Lets go what is held, and holds no more of it.
    pub fn release(&self) {
        self.rule.is_released.send_replace(true);
    }

    /// It is to happen no more. What is held stays so until it is released.
    pub fn cancel(&self) {
        locked(&self.rule.counts).times = 0;
    }
}
