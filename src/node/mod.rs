//! The node as the Kubernetes API knows it: cordon, drain, uncordon, what is told about it there, and the lock that a
//! fleet shares.
//!
//! Everything goes through the one seam [`NodeApi`]: the real one is in `client`.

mod api;
pub mod budgets;
pub mod client;
pub mod cordon;
pub mod drain;
pub mod lock;
mod pod;
pub mod preflight;
pub mod select;
pub mod story;

pub use api::{Access, ApiError, ApiStatus, Cause, EvictionRequest, NodeApi};
pub use pod::{Deletion, NodePod, Owner, PodKey, Running};
