//! What the program has to say: findings, as data, for text and JSON alike.

mod finding;

pub use finding::{Finding, Remedy, Severity};
