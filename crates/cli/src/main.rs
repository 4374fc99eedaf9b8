//! The atonce binary.
fn main() {}
