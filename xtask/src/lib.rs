//! The chores of the workspace, as a library so that tests can run them.

pub mod ci;
pub mod generate;
pub mod import_schemas;
pub mod schema;
pub mod tidy;
