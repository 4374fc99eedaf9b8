//! What becomes of a batch's records: kept once per batch, looked at by the futures of its records.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use atonce_client_core::error::RecordError;
use atonce_client_core::producer::{Ack, Done};
use atonce_kernel::{Timestamp, TopicPartition};

use crate::error::SendError;
use crate::record::RecordMetadata;

/// The fate of a batch. Usually one part; more if the batch had to be split.
#[derive(Debug)]
pub(crate) struct Fate {
    topic_partition: TopicPartition,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    parts: Vec<Part>,
    is_closed: bool,
    wakers: Vec<Waker>,
}

#[derive(Debug)]
struct Part {
    first_index: u32,
    count: u32,
    result: Result<Ack, RecordError>,
}

impl Fate {
    pub(crate) fn new(topic_partition: TopicPartition) -> Self {
        Self { topic_partition, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Some of the records, usually all, have met their fate.
    pub(crate) fn resolve(&self, done: Done) {
        let Done { first_index, count, result, .. } = done;
        let mut state = self.state();
        state.parts.push(Part { first_index, count, result });
        wake(&mut state);
    }

    /// The producer has ended, so nothing more becomes of them.
    pub(crate) fn close(&self) {
        let mut state = self.state();
        state.is_closed = true;
        wake(&mut state);
    }
}

fn wake(state: &mut State) {
    for waker in state.wakers.drain(..) {
        waker.wake();
    }
}

/// What becomes of a record: a future that ends when it is in the log, or has failed.
///
/// It may be dropped; a failure is then only heard of in `flush`, `close` or `commit`.
///
/// Cost: a shared pointer and two numbers; no allocation of its own.
#[derive(Debug)]
pub struct Delivery {
    fate: Arc<Fate>,
    index: u32,
    timestamp: Timestamp,
}

impl Delivery {
    pub(crate) fn new(fate: Arc<Fate>, index: u32, timestamp: Timestamp) -> Self {
        Self { fate, index, timestamp }
    }
}

impl Future for Delivery {
    type Output = Result<RecordMetadata, SendError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let topic_partition = &self.fate.topic_partition;
        let mut state = self.fate.state();
        let mine = state.parts.iter().find_map(|part| {
            let place = self.index.checked_sub(part.first_index)?;
            (place < part.count).then_some((place, &part.result))
        });
        match mine {
            Some((place, Ok(ack))) => Poll::Ready(Ok(RecordMetadata {
                topic_partition: topic_partition.clone(),
                offset: ack.base_offset.map(|base| base + i64::from(place)),
                timestamp: ack.log_append_time.unwrap_or(self.timestamp),
            })),
            Some((_, Err(error))) => Poll::Ready(Err(SendError::of_record(topic_partition.clone(), error.clone()))),
            None if state.is_closed => Poll::Ready(Err(SendError::Closed)),
            None => {
                if !state.wakers.iter().any(|waker| waker.will_wake(context.waker())) {
                    state.wakers.push(context.waker().clone());
                }
                Poll::Pending
            }
        }
    }
}
