//! Deploys the retry loop into the local cloud, with the same API calls as on AWS.
//!
//! ```text
//! target ──fails──▶ retry queue ──mapping──▶ retry handler ──gives up──▶ dead-letter queue
//! ```
//!
//! A deployment on AWS needs all of these values too: the retention, the maximum number of receives, partial
//! batch failures, and `RecursiveLoop`.

mod call;
mod cloud;
mod function;

use std::{collections::BTreeMap, time::Duration};

use aws_sdk_lambda::types::{DeadLetterConfig, DestinationConfig, OnFailure};
use aws_sdk_sqs::types::QueueAttributeName;
use comeback_core::arn::QUEUE_PREFIX;
use comeback_local_model::{ACCOUNT, REGION};

pub use self::{
    call::{CallError, failed},
    cloud::{Cloud, config},
    function::{Code, Function},
};

/// The name under which the retry handler is deployed.
pub const HANDLER: &str = "retry-handler";

const RETRY_QUEUE: &str = "retry";
const DEAD_LETTER_QUEUE: &str = "dead-letters";

/// The handler's setting with the URL of the dead-letter queue.
pub const DEAD_LETTER_QUEUE_URL: &str = "DEAD_LETTER_QUEUE_URL";

/// The handler's setting with the functions that may use each queue.
const QUEUE_TARGETS: &str = "QUEUE_TARGETS";

/// The longest retention that SQS offers.
const RETENTION: Duration = Duration::from_hours(14 * 24);

/// The maximum of SQS. Every wait and every throttled delivery counts as a receive, and a broken deployment of the
/// handler must not lose events.
const MAX_RECEIVE_COUNT: u32 = 1_000;

/// A queue whose messages come back after its consumer failed.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SourceQueue {
    pub name: String,
    /// The function that the queue is mapped to, which exists. Other consumers just receive messages.
    pub consumer: Option<String>,
    pub visibility: Duration,
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Queues {
    /// The URL of the retry queue that functions share.
    pub retry: String,
    /// The URL of the queue for events that were given up.
    pub dead_letter: String,
}

impl Cloud {
    /// Deploys the retry loop: the handler, and the targets whose failures it retries. `visibility` is the
    /// visibility timeout of the retry queue.
    pub async fn deploy(
        &self,
        mut handler: Function,
        visibility: Duration,
        targets: &[Function],
    ) -> Result<Queues, CallError> {
        handler.environment.splice(0..0, of_durable(targets));
        let retention = (QueueAttributeName::MessageRetentionPeriod, seconds(RETENTION));
        let dead_letter = self.queue(DEAD_LETTER_QUEUE, vec![retention]).await?;
        // Comes first, so that the caller can override it.
        handler.environment.insert(0, (DEAD_LETTER_QUEUE_URL.to_owned(), dead_letter.clone()));
        self.create(&handler).await?;
        let (retry, arn) = self.retry_queue(RETRY_QUEUE, &dead_letter, visibility).await?;
        for target in targets {
            self.create(target).await?;
            self.send_failures(target, &arn).await?;
        }
        Ok(Queues { retry, dead_letter })
    }

    /// Deploys the retry loop like [`Cloud::deploy`], but with a retry queue for each target and each of these queues,
    /// as the deployments on AWS do. [`Queues::retry`] is for functions that are attached later, which share it.
    pub async fn deploy_each(
        &self,
        mut handler: Function,
        visibility: Duration,
        targets: &[Function],
        sources: &[SourceQueue],
    ) -> Result<Queues, CallError> {
        let own = targets.iter().map(|target| (queue_of(&target.name), [target.name.clone()]));
        let own_of_queues = sources
            .iter()
            .map(|SourceQueue { name, .. }| (queue_of(name), [format!("{QUEUE_PREFIX}{name}")]));
        let shared = (RETRY_QUEUE.to_owned(), ["*".to_owned()]);
        let bound: BTreeMap<_, _> = own.chain(own_of_queues).chain([shared]).collect();
        let bound = serde_json::json!(bound).to_string();
        handler.environment.splice(0..0, of_durable(targets));
        handler.environment.insert(0, (QUEUE_TARGETS.to_owned(), bound));
        let queues = self.deploy(handler, visibility, &[]).await?;
        for target in targets {
            let name = queue_of(&target.name);
            let (_, arn) = self.retry_queue(&name, &queues.dead_letter, visibility).await?;
            self.create(target).await?;
            self.send_failures(target, &arn).await?;
        }
        for source in sources {
            let name = queue_of(&source.name);
            let (url, arn) = self.retry_queue(&name, &queues.dead_letter, visibility).await?;
            self.source_queue(source, &url, &arn).await?;
        }
        Ok(queues)
    }

    /// Creates a queue whose failed messages SQS moves to this retry queue, which no other queue may use for that.
    async fn source_queue(
        &self,
        SourceQueue { name, consumer, visibility }: &SourceQueue,
        retry_url: &str,
        retry_arn: &str,
    ) -> Result<(), CallError> {
        let (_, arn) = self.redriven_queue(name, *visibility, retry_arn, 1).await?;
        let allow = serde_json::json!({ "redrivePermission": "byQueue", "sourceQueueArns": [arn] });
        let call = self.sqs.set_queue_attributes().queue_url(retry_url);
        let call = call.attributes(QueueAttributeName::RedriveAllowPolicy, allow.to_string());
        call.send().await.map_err(failed(&format!("let only {name} use {retry_url}")))?;
        match consumer {
            Some(consumer) => self.map(&arn, consumer).await,
            None => Ok(()),
        }
    }

    /// Creates a retry queue from which the handler receives. Returns its URL and its ARN.
    async fn retry_queue(
        &self,
        name: &str,
        dead_letter: &str,
        visibility: Duration,
    ) -> Result<(String, String), CallError> {
        let dead_letter = self.queue_arn(dead_letter).await?;
        let queue = self.redriven_queue(name, visibility, &dead_letter, MAX_RECEIVE_COUNT).await?;
        self.map(&queue.1, HANDLER).await?;
        Ok(queue)
    }

    /// Creates a queue from which SQS moves messages to the queue with the ARN `to` after `receives` receives. Returns
    /// its URL and its ARN.
    async fn redriven_queue(
        &self,
        name: &str,
        visibility: Duration,
        to: &str,
        receives: u32,
    ) -> Result<(String, String), CallError> {
        let redrive = serde_json::json!({ "deadLetterTargetArn": to, "maxReceiveCount": receives });
        let attributes = vec![
            (QueueAttributeName::MessageRetentionPeriod, seconds(RETENTION)),
            (QueueAttributeName::VisibilityTimeout, seconds(visibility)),
            (QueueAttributeName::RedrivePolicy, redrive.to_string()),
        ];
        let url = self.queue(name, attributes).await?;
        let arn = self.queue_arn(&url).await?;
        Ok((url, arn))
    }

    /// Sends the failures of a function to a queue, and turns off Lambda's own two retries, which would delay the first
    /// failure record by three minutes. The queue becomes the dead-letter queue of a durable function, whose failures
    /// have no other way.
    async fn send_failures(&self, function: &Function, queue_arn: &str) -> Result<(), CallError> {
        let Function { name: function, durable, .. } = function;
        let what = format!("send failures of {function} to {queue_arn}");
        if *durable {
            let queue = DeadLetterConfig::builder().target_arn(queue_arn).build();
            let call = self.lambda.update_function_configuration().function_name(function);
            let updated = call.dead_letter_config(queue).send().await;
            return updated.map(drop).map_err(failed(&what));
        }
        let queue = OnFailure::builder().destination(queue_arn).build();
        let call = self.lambda.put_function_event_invoke_config().function_name(function);
        let put = call
            .maximum_retry_attempts(0)
            .destination_config(DestinationConfig::builder().on_failure(queue).build())
            .send()
            .await;
        put.map(drop).map_err(failed(&what))
    }
}

/// The handler's settings for a durable function among these. Lambda invokes one only by a qualified ARN.
fn of_durable(functions: &[Function]) -> Vec<(String, String)> {
    let Some(Function { name, .. }) = functions.iter().find(|function| function.durable) else {
        return Vec::new();
    };
    let target = format!("arn:aws:lambda:{REGION}:{ACCOUNT}:function:{name}:$LATEST");
    let policies = serde_json::json!({ name: { "DURABLE": "true" } }).to_string();
    [("DLQ_TARGET", target), ("POLICIES", policies)]
        .map(|(name, value)| (name.to_owned(), value))
        .into()
}

/// The name of the retry queue of one function or queue.
pub fn queue_of(target: &str) -> String {
    format!("{RETRY_QUEUE}-{target}")
}

fn seconds(duration: Duration) -> String {
    duration.as_secs().to_string()
}
