//! Kafka's wire protocol: the bytes of frames, messages, error codes and record batches, and nothing else.
//!
//! **What it does not know**: sockets, files, time; what a broker does with a request; which versions a broker
//! offers. It turns bytes into values and values into bytes, and refuses what is neither.
//!
//! Messages are written by `cargo xtask generate` from the files in `declarations`, one per API; the rest is
//! by hand. Bytes come from outside: no input makes this crate panic, and no number in it sizes an
//! allocation before it was held against the bytes that are there.
//!
//! Read in this order: [`wire`], [`messages`] (one of them), [`frame`], [`records`].

#![warn(clippy::unwrap_used, clippy::indexing_slicing, clippy::wildcard_enum_match_arm)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::indexing_slicing))]

mod api_key;
mod error_code;
pub mod frame;
pub mod messages;
pub mod records;
pub mod wire;

pub use api_key::ApiKey;
pub use error_code::ErrorCode;
pub use messages::{AnyRequest, AnyResponse};
pub use wire::{DecodeError, EncodeError, Message, RawTaggedField, Reader, Request};
