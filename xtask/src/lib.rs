//! The chores of the workspace, as a library so that tests can run them.

pub mod ci;
pub mod tidy;
