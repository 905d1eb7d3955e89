//! The retry loop, deployed as the README says: what CDK and SAM do in an account.

use std::{collections::BTreeMap, path::PathBuf};

use aws_sdk_lambda::types::{DestinationConfig, FunctionResponseType, OnFailure, RecursiveLoop};
use aws_sdk_sqs::types::{DeleteMessageBatchRequestEntry, Message, QueueAttributeName};

use crate::cloud::{Cloud, Deployed};

/// The name of the function that makes failed events come back.
pub const HANDLER: &str = "retry-handler";
/// The name of the function that fails.
pub const TARGET: &str = "orders";

/// A cloud with a retry queue, a dead-letter queue, the handler and a target.
pub struct RetryLoop {
    /// Where it all is.
    pub cloud: Cloud,
    /// The URL of the queue that failures go to.
    pub retry_queue: String,
    /// The URL of the queue that events go to which are given up.
    pub dead_letter_queue: String,
}

/// What is not as usual in a test's loop.
pub struct Plan {
    /// Settings of the handler.
    pub settings: Vec<(&'static str, String)>,
    /// How long the handler may take for a batch, in seconds.
    pub handler_timeout: i32,
    /// The target.
    pub target: Deployed<'static>,
    /// Whether the target may be part of a loop.
    pub target_recursion: RecursiveLoop,
    /// How many messages a batch may have.
    pub batch_size: i32,
    /// Where the local cloud has runtime clients.
    pub runtimes: Option<PathBuf>,
}

impl Plan {
    /// Backoffs of a second, so that a test takes seconds.
    pub fn quick(settings: &[(&'static str, &str)]) -> Self {
        let mut all = vec![("MAX_BACKOFF", "1s".to_owned())];
        all.extend(settings.iter().map(|&(name, value)| (name, value.to_owned())));
        Self {
            settings: all,
            handler_timeout: 5,
            target: Deployed::binary(TARGET, "example-target"),
            target_recursion: RecursiveLoop::Allow,
            batch_size: 10,
            runtimes: None,
        }
    }

    /// Starts a cloud with all of it.
    pub async fn deploy(self) -> RetryLoop {
        let cloud = Cloud::start_with(self.runtimes.as_deref()).await;
        let dead_letter_queue = cloud.queue("dead-letters", &[]).await;
        let dead_letter_arn = cloud.queue_arn(&dead_letter_queue).await;
        let redrive =
            format!(r#"{{"deadLetterTargetArn":"{dead_letter_arn}","maxReceiveCount":1000}}"#);
        // A second above the handler's time-out is the least that the mapping accepts; production has
        // six times as much, which a test would have to wait for.
        let visibility = (self.handler_timeout + 1).to_string();
        let attributes = [
            (QueueAttributeName::RedrivePolicy, redrive.as_str()),
            (QueueAttributeName::VisibilityTimeout, visibility.as_str()),
        ];
        let retry_queue = cloud.queue("retry", &attributes).await;
        let retry_arn = cloud.queue_arn(&retry_queue).await;

        let mut environment = vec![("DEAD_LETTER_QUEUE_URL".to_owned(), dead_letter_queue.clone())];
        environment.extend(self.settings.into_iter().map(|(name, value)| (name.to_owned(), value)));
        let handler = Deployed {
            environment,
            timeout: self.handler_timeout,
            ..Deployed::binary(HANDLER, "retry-handler")
        };
        cloud.function(&handler).await;
        allow_recursion(&cloud, HANDLER, RecursiveLoop::Allow).await;
        let mapping = cloud.lambda.create_event_source_mapping().function_name(HANDLER);
        let mapping = mapping.event_source_arn(&retry_arn).batch_size(self.batch_size);
        mapping
            .function_response_types(FunctionResponseType::ReportBatchItemFailures)
            .send()
            .await
            .unwrap();

        cloud.function(&self.target).await;
        allow_recursion(&cloud, TARGET, self.target_recursion).await;
        let on_failure = OnFailure::builder().destination(&retry_arn).build();
        let invoke_config = cloud.lambda.put_function_event_invoke_config().function_name(TARGET);
        invoke_config
            .maximum_retry_attempts(0)
            .destination_config(DestinationConfig::builder().on_failure(on_failure).build())
            .send()
            .await
            .unwrap();
        RetryLoop { cloud, retry_queue, dead_letter_queue }
    }
}

async fn allow_recursion(cloud: &Cloud, function: &str, recursion: RecursiveLoop) {
    let call = cloud.lambda.put_function_recursion_config().function_name(function);
    call.recursive_loop(recursion).send().await.unwrap();
}

/// A message of the dead-letter queue.
#[derive(Debug)]
pub struct DeadLetter {
    /// The payload.
    pub body: String,
    /// What is told of it.
    pub attributes: BTreeMap<String, String>,
}

impl DeadLetter {
    /// Why it is one.
    pub fn reason(&self) -> &str {
        &self.attributes["Reason"]
    }
}

impl RetryLoop {
    /// Invokes the target asynchronously; gives the request id.
    pub async fn invoke(&self, payload: &str) -> String {
        self.cloud.invoke(TARGET, payload).await
    }

    /// Waits for the next dead letter.
    pub async fn dead_letter(&self) -> DeadLetter {
        for _ in 0..6 {
            if let Some(letter) = self.take_dead_letters(1, 20).await.pop() {
                return letter;
            }
        }
        panic!("no dead letter in two minutes");
    }

    /// The dead letters that are there, up to ten.
    pub async fn dead_letters(&self) -> Vec<DeadLetter> {
        self.take_dead_letters(10, 0).await
    }

    async fn take_dead_letters(&self, max: i32, wait_seconds: i32) -> Vec<DeadLetter> {
        let call = self.cloud.sqs.receive_message().queue_url(&self.dead_letter_queue);
        let call = call.max_number_of_messages(max).wait_time_seconds(wait_seconds);
        let received = call.message_attribute_names("All").send().await.unwrap();
        let messages = received.messages.unwrap_or_default();
        let taken = messages.iter().enumerate().map(|(n, message)| {
            let entry = DeleteMessageBatchRequestEntry::builder().id(n.to_string());
            entry.receipt_handle(message.receipt_handle.as_ref().unwrap()).build().unwrap()
        });
        if !messages.is_empty() {
            let call = self.cloud.sqs.delete_message_batch().queue_url(&self.dead_letter_queue);
            call.set_entries(Some(taken.collect())).send().await.unwrap();
        }
        messages.into_iter().map(read).collect()
    }

    /// How many messages the two queues hold, in whatever state.
    pub async fn left(&self) -> (u32, u32) {
        (self.count(&self.retry_queue).await, self.count(&self.dead_letter_queue).await)
    }

    async fn count(&self, queue: &str) -> u32 {
        let mut count = 0;
        for name in [
            QueueAttributeName::ApproximateNumberOfMessages,
            QueueAttributeName::ApproximateNumberOfMessagesNotVisible,
            QueueAttributeName::ApproximateNumberOfMessagesDelayed,
        ] {
            count += self.cloud.queue_attribute(queue, name).await.parse::<u32>().unwrap();
        }
        count
    }
}

fn read(message: Message) -> DeadLetter {
    let attributes = message.message_attributes.unwrap_or_default().into_iter();
    DeadLetter {
        body: message.body.unwrap(),
        attributes: attributes.map(|(name, value)| (name, value.string_value.unwrap())).collect(),
    }
}
