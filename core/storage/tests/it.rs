//! Storage from outside: histories against a model, and readers beside writers.

#[path = "it/common.rs"]
mod common;
#[path = "it/ddl.rs"]
mod ddl;
#[path = "it/histories.rs"]
mod histories;
#[path = "it/parallel.rs"]
mod parallel;
#[path = "it/readers.rs"]
mod readers;
#[path = "it/together.rs"]
mod together;
