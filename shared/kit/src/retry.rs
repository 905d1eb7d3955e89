//! Retries inside a function.

mod adaptive;
mod quota;

pub use adaptive::Adaptive;
pub use quota::{Quota, Spent};
