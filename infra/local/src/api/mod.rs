//! The services' APIs: they read requests, make steps on the model, and write AWS's answers.

mod body;
pub(crate) mod cloudwatch;
pub(crate) mod lambda;
pub(crate) mod logs;
pub(crate) mod sqs;

use axum::http::Uri;

/// The values that a query has by this name.
pub(crate) fn query_values<'a>(uri: &'a Uri, wanted: &'a str) -> impl Iterator<Item = String> {
    let pairs = form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes());
    pairs.filter(move |(name, _)| name == wanted).map(|(_, value)| value.into_owned())
}

/// A JSON object without the members that are `null`.
fn without_nulls(mut object: serde_json::Value) -> serde_json::Value {
    if let Some(members) = object.as_object_mut() {
        members.retain(|_, value| !value.is_null());
    }
    object
}
