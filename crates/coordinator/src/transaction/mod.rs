//! The transaction coordinator. Under construction.
