//! The shapes of layers.

use serde::{Deserialize, Serialize};

use super::{CodeRequest, date};
use crate::model::lambda::layer::LayerVersion;

/// A request that publishes a version of a layer.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(in crate::api::lambda) struct LayerRequest {
    pub(in crate::api::lambda) content: CodeRequest,
    pub(in crate::api::lambda) description: String,
}

/// A version of a layer, as it is answered.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub(in crate::api::lambda) struct LayerResponse<'a> {
    layer_arn: String,
    layer_version_arn: String,
    version: usize,
    description: &'a str,
    created_date: String,
    content: Content<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Content<'a> {
    location: String,
    code_size: u64,
    code_sha256: &'a str,
}

impl<'a> LayerResponse<'a> {
    pub(in crate::api::lambda) fn new(version: &'a LayerVersion) -> Self {
        let content = &version.content;
        Self {
            layer_arn: version.layer_arn(),
            layer_version_arn: version.arn(),
            version: version.version,
            description: &version.description,
            created_date: date(version.created),
            content: Content {
                location: format!("file://{}", content.folder.path().display()),
                code_size: content.size,
                code_sha256: &content.sha256,
            },
        }
    }
}
