//! What the server decides: which arguments a tool takes, how texts of others are shown, and which plans hold.

pub mod arguments;
pub mod plans;
pub mod texts;
