//! What the program has to say: findings, as data, for text and JSON alike.

mod finding;
mod known;

pub use finding::{Finding, Remedy, Severity};
pub use known::{known_id, nearest};
