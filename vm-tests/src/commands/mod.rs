//! The commands beside `run`.

pub(crate) mod demo;
pub(crate) mod measure;
pub(crate) mod shell;
