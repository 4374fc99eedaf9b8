//! The group coordinator. Under construction.
