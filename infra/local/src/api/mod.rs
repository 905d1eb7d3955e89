//! The services' APIs: they read requests, make steps on the model, and write AWS's answers.

mod body;
pub(crate) mod cloudwatch;
pub(crate) mod lambda;
pub(crate) mod logs;
pub(crate) mod sqs;

/// A JSON object without the members that are `null`.
fn without_nulls(mut object: serde_json::Value) -> serde_json::Value {
    if let Some(members) = object.as_object_mut() {
        members.retain(|_, value| !value.is_null());
    }
    object
}
