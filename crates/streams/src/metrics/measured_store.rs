//! An engine whose work is timed.

use std::ops::Bound;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use atonce_streams_core::StateStore;
use atonce_streams_core::store::{Direction, StoreBatch, StoreError, StorePosition};
use bytes::Bytes;

use super::{Series, StoreNumbers, lock};

/// See the module.
pub(crate) struct MeasuredStore {
    engine: Box<dyn StateStore>,
    numbers: Arc<Mutex<StoreNumbers>>,
}

impl MeasuredStore {
    pub(crate) fn new(engine: Box<dyn StateStore>, numbers: Arc<Mutex<StoreNumbers>>) -> Self {
        Self { engine, numbers }
    }

    fn timed(&self, begun: Instant, series: impl FnOnce(&mut StoreNumbers) -> &mut Series) {
        let now = Instant::now();
        series(&mut lock(&self.numbers)).record_one(now, now - begun);
    }
}

impl StateStore for MeasuredStore {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, StoreError> {
        let begun = Instant::now();
        let value = self.engine.get(key)?;
        self.timed(begun, |numbers| &mut numbers.get);
        Ok(value)
    }

    fn scan(
        &self,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        direction: Direction,
        limit: usize,
    ) -> Result<Vec<(Bytes, Bytes)>, StoreError> {
        let begun = Instant::now();
        let entries = self.engine.scan(from, to, direction, limit)?;
        self.timed(begun, |numbers| &mut numbers.range);
        Ok(entries)
    }

    fn position(&self) -> Option<StorePosition> {
        self.engine.position()
    }

    fn apply(&mut self, batch: StoreBatch) -> Result<(), StoreError> {
        let begun = Instant::now();
        self.engine.apply(batch)?;
        self.timed(begun, |numbers| &mut numbers.flush);
        Ok(())
    }

    fn sync(&mut self) -> Result<(), StoreError> {
        self.engine.sync()
    }
}
