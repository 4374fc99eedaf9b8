//! What the tests of several crates share.
//!
//! **What it does not know**: any crate of atonce but the kernel.

pub mod disk;
