//! demo
mod checker;
mod input;
mod schedule;
mod words;
