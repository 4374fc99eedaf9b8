//! Walks every way that a few actions can take through a small world, shortest ways first. A state that was met before is not walked from again;
//! a failure says how it came about.

use std::collections::HashSet;
use std::fmt::Debug;
use std::hash::{BuildHasherDefault, DefaultHasher};

/// A small world.
pub(crate) trait World: Clone {
    /// What can happen in it.
    type Action: Clone + Debug;

    /// What can happen next.
    fn actions(&self) -> Vec<Self::Action>;

    /// Lets it happen, and panics if something does not hold then.
    fn act(&mut self, action: &Self::Action);

    /// What matters of a state, as a number.
    fn key(&self) -> u64;

    /// Nothing goes wrong any more: panics if not all comes to rest.
    fn settle(&self);
}

/// Walks `depth` actions far, and lets every so manieth state settle. How many states there were besides the first.
#[expect(clippy::print_stderr, reason = "a failure says how it came about")]
pub(crate) fn explore<W: World>(start: W, depth: usize, settle_each: usize) -> usize {
    let mut seen: HashSet<u64, BuildHasherDefault<DefaultHasher>> = HashSet::default();
    seen.insert(start.key());
    let mut layer = vec![(start, Vec::new())];
    let mut count = 0;
    for _ in 0..depth {
        let mut next = Vec::new();
        for (world, way) in layer {
            for action in world.actions() {
                let mut after = world.clone();
                let walked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                    after.act(&action);
                    let is_new = seen.insert(after.key());
                    count += usize::from(is_new);
                    if is_new && count.is_multiple_of(settle_each) {
                        after.settle();
                    }
                    is_new
                }));
                let way_here = || [way.as_slice(), std::slice::from_ref(&action)].concat();
                match walked {
                    Ok(true) => next.push((after, way_here())),
                    Ok(false) => {}
                    Err(panic) => {
                        eprintln!("after {:?}", way_here());
                        std::panic::resume_unwind(panic);
                    }
                }
            }
        }
        layer = next;
    }
    count
}
