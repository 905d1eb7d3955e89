//! The operations on queues.

use std::collections::BTreeMap;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde::{Deserialize, Serialize};

use super::{Call, Caller, Empty, Operation, fault::SqsFault, queue_name, required};
use crate::model::{
    ACCOUNT,
    sqs::{Attributes, QueueName, SqsError},
};

/// The most queues in one answer.
const RESULTS_MAX: usize = 1000;

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct CreateQueue {
    queue_name: Option<String>,
    attributes: Option<Attributes>,
    /// AWS writes this member in lower case.
    #[serde(rename = "tags")]
    tags: Option<BTreeMap<String, String>>,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct QueueAnswer {
    queue_url: String,
}

impl Operation for CreateQueue {
    type Answer = QueueAnswer;

    fn perform(self, Call { sqs, now, caller }: Call<'_>) -> Result<QueueAnswer, SqsFault> {
        let name = required("QueueName", &self.queue_name)?;
        let name = sqs.create_queue(now, name, &self.attributes.unwrap_or_default())?;
        sqs.tags(name.as_str())?.extend(self.tags.unwrap_or_default());
        Ok(QueueAnswer { queue_url: caller.queue_url(&name) })
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct GetQueueUrl {
    queue_name: Option<String>,
    #[serde(rename = "QueueOwnerAWSAccountId")]
    owner: Option<String>,
}

impl Operation for GetQueueUrl {
    type Answer = QueueAnswer;

    fn perform(self, Call { sqs, caller, .. }: Call<'_>) -> Result<QueueAnswer, SqsFault> {
        let name = required("QueueName", &self.queue_name)?;
        if self.owner.is_some_and(|owner| owner != ACCOUNT) {
            return Err(SqsError::QueueDoesNotExist.into());
        }
        Ok(QueueAnswer { queue_url: caller.queue_url(sqs.queue(name)?) })
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct ListQueues {
    queue_name_prefix: Option<String>,
    #[serde(flatten)]
    page: Page,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct QueuesAnswer {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    queue_urls: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_token: Option<String>,
}

impl Operation for ListQueues {
    type Answer = QueuesAnswer;

    fn perform(self, Call { sqs, caller, .. }: Call<'_>) -> Result<QueuesAnswer, SqsFault> {
        let after = self.page.after()?;
        let prefix = self.queue_name_prefix.as_deref().unwrap_or_default();
        let (queue_urls, next_token) =
            self.page.cut(sqs.queues(prefix, after.as_deref()), caller)?;
        Ok(QueuesAnswer { queue_urls, next_token })
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct ListDeadLetterSourceQueues {
    queue_url: Option<String>,
    #[serde(flatten)]
    page: Page,
}

#[derive(Serialize)]
pub(super) struct SourcesAnswer {
    /// AWS writes this member in lower camel case.
    #[serde(rename = "queueUrls")]
    queue_urls: Vec<String>,
    #[serde(rename = "NextToken", skip_serializing_if = "Option::is_none")]
    next_token: Option<String>,
}

impl Operation for ListDeadLetterSourceQueues {
    type Answer = SourcesAnswer;

    fn perform(self, Call { sqs, caller, .. }: Call<'_>) -> Result<SourcesAnswer, SqsFault> {
        let after = self.page.after()?;
        let queue = queue_name(&self.queue_url)?;
        let (queue_urls, next_token) =
            self.page.cut(sqs.dead_letter_sources(queue, after.as_deref())?, caller)?;
        Ok(SourcesAnswer { queue_urls, next_token })
    }
}

/// A page of a list.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Page {
    max_results: Option<i64>,
    next_token: Option<String>,
}

impl Page {
    /// The last queue of the previous page, which is the token's content.
    fn after(&self) -> Result<Option<String>, SqsFault> {
        let Some(token) = &self.next_token else { return Ok(None) };
        let name = STANDARD.decode(token).ok().and_then(|name| String::from_utf8(name).ok());
        name.map(Some).ok_or_else(|| {
            SqsError::invalid("NextToken", token, "It must be one that was returned.").into()
        })
    }

    /// The URLs of the first `queues`, and the token of the next page. As on AWS, there is no token without
    /// `MaxResults`.
    fn cut<'a>(
        &self,
        mut queues: impl Iterator<Item = &'a QueueName>,
        caller: &Caller<'_>,
    ) -> Result<(Vec<String>, Option<String>), SqsFault> {
        let max = match self.max_results {
            None => RESULTS_MAX,
            Some(max) => usize::try_from(max)
                .ok()
                .filter(|max| (1..=RESULTS_MAX).contains(max))
                .ok_or_else(|| {
                    let reason = format!("Must be between 1 and {RESULTS_MAX}, if provided.");
                    SqsError::invalid("MaxResults", max, reason)
                })?,
        };
        let page: Vec<_> = queues.by_ref().take(max).collect();
        let next = page.last().filter(|_| self.max_results.is_some() && queues.next().is_some());
        let next_token = next.map(|last| STANDARD.encode(last.as_str()));
        Ok((page.into_iter().map(|name| caller.queue_url(name)).collect(), next_token))
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct GetQueueAttributes {
    queue_url: Option<String>,
    attribute_names: Option<Vec<String>>,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct AttributesAnswer {
    #[serde(skip_serializing_if = "Attributes::is_empty")]
    attributes: Attributes,
}

impl Operation for GetQueueAttributes {
    type Answer = AttributesAnswer;

    fn perform(self, Call { sqs, now, .. }: Call<'_>) -> Result<AttributesAnswer, SqsFault> {
        let mut attributes = sqs.attributes(now, queue_name(&self.queue_url)?)?;
        let names = self.attribute_names.unwrap_or_default();
        if let Some(name) = names.iter().find(|name| !is_attribute(name)) {
            return Err(SqsError::InvalidAttributeName { name: name.clone() }.into());
        }
        if !names.iter().any(|name| name == "All") {
            attributes.retain(|name, _| names.contains(name));
        }
        Ok(AttributesAnswer { attributes })
    }
}

/// Whether this is an attribute of standard queues, or `All`.
fn is_attribute(name: &str) -> bool {
    matches!(
        name,
        "All"
            | "ApproximateNumberOfMessages"
            | "ApproximateNumberOfMessagesDelayed"
            | "ApproximateNumberOfMessagesNotVisible"
            | "CreatedTimestamp"
            | "DelaySeconds"
            | "KmsDataKeyReusePeriodSeconds"
            | "KmsMasterKeyId"
            | "LastModifiedTimestamp"
            | "MaximumMessageSize"
            | "MessageRetentionPeriod"
            | "Policy"
            | "QueueArn"
            | "ReceiveMessageWaitTimeSeconds"
            | "RedriveAllowPolicy"
            | "RedrivePolicy"
            | "SqsManagedSseEnabled"
            | "VisibilityTimeout"
    )
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct SetQueueAttributes {
    queue_url: Option<String>,
    attributes: Option<Attributes>,
}

impl Operation for SetQueueAttributes {
    type Answer = Empty;

    fn perform(self, Call { sqs, now, .. }: Call<'_>) -> Result<Empty, SqsFault> {
        let queue = queue_name(&self.queue_url)?;
        let changes = self.attributes.ok_or(SqsError::MissingParameter("Attributes"))?;
        sqs.set_attributes(now, queue, &changes)?;
        Ok(Empty {})
    }
}

/// A request with only a queue.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct OfQueue {
    queue_url: Option<String>,
}

#[derive(Deserialize)]
pub(super) struct DeleteQueue(OfQueue);

impl Operation for DeleteQueue {
    type Answer = Empty;

    fn perform(self, Call { sqs, now, .. }: Call<'_>) -> Result<Empty, SqsFault> {
        sqs.delete_queue(now, queue_name(&self.0.queue_url)?)?;
        Ok(Empty {})
    }
}

#[derive(Deserialize)]
pub(super) struct PurgeQueue(OfQueue);

impl Operation for PurgeQueue {
    type Answer = Empty;

    fn perform(self, Call { sqs, now, .. }: Call<'_>) -> Result<Empty, SqsFault> {
        sqs.purge_queue(now, queue_name(&self.0.queue_url)?)?;
        Ok(Empty {})
    }
}

#[derive(Deserialize)]
pub(super) struct ListQueueTags(OfQueue);

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct TagsAnswer {
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    tags: BTreeMap<String, String>,
}

impl Operation for ListQueueTags {
    type Answer = TagsAnswer;

    fn perform(self, Call { sqs, .. }: Call<'_>) -> Result<TagsAnswer, SqsFault> {
        Ok(TagsAnswer { tags: sqs.tags(queue_name(&self.0.queue_url)?)?.clone() })
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct TagQueue {
    queue_url: Option<String>,
    tags: Option<BTreeMap<String, String>>,
}

impl Operation for TagQueue {
    type Answer = Empty;

    fn perform(self, Call { sqs, .. }: Call<'_>) -> Result<Empty, SqsFault> {
        let tags = self.tags.ok_or(SqsError::MissingParameter("Tags"))?;
        sqs.tags(queue_name(&self.queue_url)?)?.extend(tags);
        Ok(Empty {})
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct UntagQueue {
    queue_url: Option<String>,
    tag_keys: Option<Vec<String>>,
}

impl Operation for UntagQueue {
    type Answer = Empty;

    fn perform(self, Call { sqs, .. }: Call<'_>) -> Result<Empty, SqsFault> {
        let keys = self.tag_keys.ok_or(SqsError::MissingParameter("TagKeys"))?;
        sqs.tags(queue_name(&self.queue_url)?)?.retain(|key, _| !keys.contains(key));
        Ok(Empty {})
    }
}
