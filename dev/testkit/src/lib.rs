//! What the tests of several crates share.
//!
//! **What it does not know**: any crate of atonce but the kernel and the protocol.

pub mod disk;
pub mod proxy;
