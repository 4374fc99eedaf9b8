//! The pure machines of the client: what to send next, and what an answer means.
//!
//! **What it does not know**: sockets, the runtime, the clock, entropy. Time comes in with each call, answers come in as
//! messages, and requests go out as values for `atonce-client` to send.

pub mod error_class;

pub use error_class::ErrorClass;
