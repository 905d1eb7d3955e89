//! ListObjectsV2.

use std::borrow::Cow;

use axum::http::Uri;
use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use chrono::SecondsFormat;
use serde::Serialize;

use super::quoted;
use crate::{
    api::query_values,
    model::s3::{S3, S3Error, XMLNS, encoded},
};

/// The parameters of ListObjectsV2 besides `list-type`. There are no delimiters.
const PARAMETERS: [&str; 6] =
    ["list-type", "prefix", "start-after", "continuation-token", "max-keys", "encoding-type"];

pub(super) fn is_list(names: &[Cow<'_, str>]) -> bool {
    names.iter().any(|name| name == PARAMETERS[0])
        && names.iter().all(|name| PARAMETERS.contains(&&**name))
}

/// The largest number of objects in a list, and the default.
const KEYS_MAX: usize = 1_000;

pub(super) struct List {
    prefix: String,
    start_after: Option<String>,
    continuation_token: Option<String>,
    max_keys: Option<String>,
    encoding_type: Option<String>,
}

#[derive(Serialize)]
#[serde(rename = "ListBucketResult", rename_all = "PascalCase")]
pub(super) struct Listed {
    #[serde(rename = "@xmlns")]
    xmlns: &'static str,
    name: String,
    prefix: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    encoding_type: Option<String>,
    max_keys: usize,
    key_count: usize,
    is_truncated: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    continuation_token: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_continuation_token: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    start_after: Option<String>,
    contents: Vec<Content>,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Content {
    key: String,
    last_modified: String,
    #[serde(rename = "ETag")]
    etag: String,
    size: usize,
    storage_class: &'static str,
}

impl List {
    pub(super) fn of(uri: &Uri) -> Self {
        let one = |name| query_values(uri, name).next();
        Self {
            prefix: one("prefix").unwrap_or_default(),
            start_after: one("start-after"),
            continuation_token: one("continuation-token"),
            max_keys: one("max-keys"),
            encoding_type: one("encoding-type"),
        }
    }

    pub(super) fn answer(self, s3: &S3, bucket: &str) -> Result<Listed, S3Error> {
        let max = match &self.max_keys {
            None => KEYS_MAX,
            Some(text) => text.parse::<usize>().map(|max| max.min(KEYS_MAX)).map_err(|_| {
                let message = "Provided max-keys not an integer or within integer range";
                S3Error::argument("max-keys", text, message)
            })?,
        };
        // A token is the last key of the list before.
        let last = self.continuation_token.as_ref().map(|token| {
            let bytes = BASE64.decode(token).ok();
            bytes.and_then(|bytes| String::from_utf8(bytes).ok()).ok_or_else(|| {
                let message = "The continuation token provided is incorrect";
                S3Error::argument("continuation-token", token, message)
            })
        });
        let last = last.transpose()?;
        let after = last.as_deref().or(self.start_after.as_deref()).unwrap_or_default();
        let is_encoded = match self.encoding_type.as_deref() {
            None => false,
            Some("url") => true,
            Some(other) => {
                let message = "Invalid Encoding Method specified in Request";
                return Err(S3Error::argument("encoding-type", other, message));
            }
        };
        let text = |key: &str| if is_encoded { encoded(key) } else { key.to_owned() };
        let mut objects = s3.objects(bucket, &self.prefix, after)?;
        let mut last = None;
        let mut contents = Vec::new();
        for (key, object) in objects.by_ref().take(max) {
            contents.push(Content {
                key: text(key),
                last_modified: object.last_modified.to_rfc3339_opts(SecondsFormat::Millis, true),
                etag: quoted(&object.etag),
                size: object.bytes.len(),
                storage_class: "STANDARD",
            });
            last = Some(key);
        }
        let is_truncated = max > 0 && objects.next().is_some();
        Ok(Listed {
            xmlns: XMLNS,
            name: bucket.to_owned(),
            prefix: text(&self.prefix),
            max_keys: max,
            key_count: contents.len(),
            is_truncated,
            next_continuation_token: last
                .filter(|_| is_truncated)
                .map(|key| BASE64.encode(key.as_bytes())),
            continuation_token: self.continuation_token,
            start_after: self.start_after.as_deref().map(text),
            encoding_type: self.encoding_type,
            contents,
        })
    }
}
