//! The shapes of event source mappings.

use comeback_core::Timestamp;
use serde::{Deserialize, Serialize};

use super::epoch_seconds;
use crate::model::{
    ACCOUNT, REGION,
    lambda::{
        error::LambdaError,
        mapping::{Mapping, MappingSettings},
        name,
    },
};

/// A request that creates or changes an event source mapping.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(in crate::api::lambda) struct MappingRequest {
    pub(in crate::api::lambda) event_source_arn: Option<String>,
    pub(in crate::api::lambda) function_name: Option<String>,
    batch_size: Option<i64>,
    maximum_batching_window_in_seconds: Option<i64>,
    function_response_types: Option<Vec<String>>,
    scaling_config: Option<ScalingConfig>,
    enabled: Option<bool>,
    filter_criteria: Option<serde_json::Value>,
    destination_config: Option<serde_json::Value>,
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "PascalCase", default)]
struct ScalingConfig {
    maximum_concurrency: Option<i64>,
}

impl MappingRequest {
    /// # Errors
    ///
    /// If it asks for something that isn't supported here.
    pub(in crate::api::lambda) fn settings(&self) -> Result<MappingSettings, LambdaError> {
        if self.filter_criteria.is_some() {
            return Err(LambdaError::InvalidParameterValue(
                "this local cloud has no event filtering (FilterCriteria)".to_owned(),
            ));
        }
        if self.destination_config.is_some() {
            return Err(LambdaError::InvalidParameterValue(
                "Unsupported DestinationConfig parameter for given event source mapping type."
                    .to_owned(),
            ));
        }
        Ok(MappingSettings {
            batch_size: self.batch_size,
            maximum_batching_window_in_seconds: self.maximum_batching_window_in_seconds,
            function_response_types: self.function_response_types.clone(),
            maximum_concurrency: self
                .scaling_config
                .as_ref()
                .map(|config| config.maximum_concurrency),
            enabled: self.enabled,
        })
    }
}

/// An event source mapping, as it is answered.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub(in crate::api::lambda) struct MappingResponse {
    #[serde(rename = "UUID")]
    uuid: String,
    batch_size: u32,
    maximum_batching_window_in_seconds: u64,
    event_source_arn: String,
    event_source_mapping_arn: String,
    function_arn: String,
    last_modified: f64,
    state: &'static str,
    state_transition_reason: &'static str,
    function_response_types: Vec<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    scaling_config: Option<ScalingConfig>,
}

impl MappingResponse {
    pub(in crate::api::lambda) fn new(mapping: &Mapping, now: Timestamp) -> Self {
        let uuid = mapping.uuid.to_string();
        Self {
            batch_size: mapping.batch_size,
            maximum_batching_window_in_seconds: mapping.window.as_secs(),
            event_source_arn: mapping.event_source_arn.to_string(),
            event_source_mapping_arn: format!(
                "arn:aws:lambda:{REGION}:{ACCOUNT}:event-source-mapping:{uuid}"
            ),
            function_arn: name::arn(&mapping.function),
            last_modified: epoch_seconds(mapping.last_modified),
            state: mapping.state(now),
            state_transition_reason: "USER_INITIATED",
            function_response_types: mapping
                .report_batch_item_failures
                .then_some("ReportBatchItemFailures")
                .into_iter()
                .collect(),
            scaling_config: mapping
                .maximum_concurrency
                .map(|maximum| ScalingConfig { maximum_concurrency: Some(maximum.into()) }),
            uuid,
        }
    }

    /// The state that AWS answers while it deletes.
    pub(in crate::api::lambda) fn deleting(mapping: &Mapping, now: Timestamp) -> Self {
        Self { state: "Deleting", ..Self::new(mapping, now) }
    }
}
