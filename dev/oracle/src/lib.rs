//! Apache Kafka as oracle: the same questions to it and to our broker, the answers compared field by field.
//!
//! A *script* ([`script`]) is a text of cases; a case is a conversation that is held anew for every version of the API
//! that it is about, with names that nobody used before. A line of it asks one thing, or *varies* a question: each field
//! in turn becomes too small, too large, empty, null, unknown, doubled ([`vary`]). [`asker`] holds the conversations,
//! [`shown`] prints answers so that what may differ (`may_differ.txt`) is out of the way, [`transcript`] keeps them.
//!
//! Requests and answers are values that the declarations of the protocol describe ([`codec`]): a second reading of them
//! beside the generated code, which must read every answer too, and write it again byte for byte.
//!
//! **What it does not know**: what a right answer is. Apache Kafka's is.

pub mod apis;
pub mod asker;
pub mod codec;
pub mod compare;
pub mod connection;
pub mod expected;
pub mod recorded;
pub mod records;
pub mod script;
pub mod shown;
pub mod transcript;
pub mod value;
pub mod vary;
