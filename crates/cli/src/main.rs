//! The `atonce` binary: the demo, the broker, and everyday tools for topics and records.
//!
//! It puts the layers together and talks to people. It does not know the wire, the log or the coordinators: it uses the public
//! interfaces of `atonce`, `atonce-client` and `atonce-broker` as any user would.
mod demo;
fn main() {}
