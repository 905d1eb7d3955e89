//! The retry loop in a local cloud, as a test deploys it.

use std::{path::PathBuf, time::Duration};

use aws_sdk_sqs::types::{MessageAttributeValue, QueueAttributeName, SendMessageBatchRequestEntry};
use chrono::{SecondsFormat, Utc};
pub use comeback_local_client::{dead_letters::DeadLetter, deploy::HANDLER};

use crate::{
    cloud::{Cloud, Code, Function, binary, command, function},
    journal::Journal,
    processes::{self, Pid},
};

pub const TARGET: &str = "orders";

/// The target's ARN, as its failure records have it.
pub const TARGET_ARN: &str = "arn:aws:lambda:us-east-1:000000000000:function:orders:$LATEST";

/// The failure record of an event with this payload that has just failed.
#[allow(clippy::disallowed_methods, reason = "records have the time of their failure")]
pub fn failure_record(request_id: &str, payload: &str) -> String {
    let now = Utc::now().to_rfc3339_opts(SecondsFormat::Millis, true);
    format!(
        r#"{{"timestamp":"{now}","requestContext":{{"requestId":"{request_id}","functionArn":"{TARGET_ARN}","condition":"RetriesExhausted"}},"requestPayload":{payload},"responsePayload":{{"errorType":"Down","errorMessage":"no route to host"}}}}"#
    )
}

/// A local cloud with a retry queue, a dead-letter queue, the handler and a target.
pub struct RetryLoop {
    pub cloud: Cloud,
    pub retry_queue: String,
    pub dead_letter_queue: String,
}

pub struct Plan {
    /// Settings of the handler. Of a repeated setting, the last value counts.
    pub settings: Vec<(&'static str, String)>,
    pub handler_timeout: Duration,
    pub target: Function,
    /// Targets beside it.
    pub others: Vec<Function>,
    pub runtimes: Option<PathBuf>,
    /// A limit on a queue's messages in flight that is lower than on AWS.
    pub in_flight_max: Option<u32>,
    /// Whether functions are frozen between events.
    pub freeze: bool,
    /// A limit on the memory that a handler may have for its data, in KiB.
    pub data_max: Option<u32>,
}

impl Plan {
    /// A plan with backoffs of one second, so that a test takes only seconds.
    pub fn quick(settings: &[(&'static str, &str)]) -> Self {
        let mut all = vec![("MAX_BACKOFF", "1s".to_owned())];
        all.extend(settings.iter().map(|&(name, value)| (name, value.to_owned())));
        Self {
            settings: all,
            handler_timeout: Duration::from_secs(5),
            target: function(TARGET, "example-target"),
            others: Vec::new(),
            runtimes: None,
            in_flight_max: None,
            freeze: false,
            data_max: None,
        }
    }

    pub fn with_target(mut self, code: Code, environment: &[(&str, &str)]) -> Self {
        let environment = environment.iter();
        self.target = Function {
            code,
            environment: environment.map(|&(name, value)| (name.into(), value.into())).collect(),
            timeout: Duration::from_secs(30),
            ..self.target
        };
        self
    }

    /// Starts a local cloud and deploys the loop into it.
    pub async fn deploy(self) -> RetryLoop {
        let cloud = match self.in_flight_max {
            Some(most) => Cloud::with_in_flight_max(most).await,
            None => Cloud::start(self.runtimes.as_deref(), self.freeze).await,
        };
        self.deploy_in(cloud).await
    }

    /// Deploys the loop into this cloud.
    pub async fn deploy_in(self, cloud: Cloud) -> RetryLoop {
        let mut handler = function(HANDLER, "retry-handler");
        handler.timeout = self.handler_timeout;
        if let Some(max) = self.data_max {
            let program = binary("retry-handler").display().to_string();
            handler.code = command(["sh", "-c", &format!("ulimit -d {max} && exec {program}")]);
        }
        let settings = self.settings.into_iter();
        handler.environment = settings.map(|(name, value)| (name.to_owned(), value)).collect();
        let targets = [vec![self.target], self.others].concat();
        // The mapping accepts no less. Production uses six times the time-out, which would make a test wait.
        let visibility = self.handler_timeout + Duration::from_secs(1);
        let queues = cloud.deploy(handler, visibility, &targets).await.unwrap();
        RetryLoop { cloud, retry_queue: queues.retry, dead_letter_queue: queues.dead_letter }
    }
}

impl RetryLoop {
    pub async fn invoke(&self, payload: &str) -> String {
        self.cloud.invoke(TARGET, payload).await.unwrap()
    }

    pub fn handlers(&self) -> Vec<Pid> {
        processes::descendants(self.cloud.process.id().unwrap(), HANDLER)
    }

    /// Sends messages with these bodies to the retry queue.
    pub async fn enqueue(&self, bodies: &[String]) {
        for bodies in bodies.chunks(10) {
            let entry = |(n, body): (usize, &String)| {
                let entry = SendMessageBatchRequestEntry::builder().id(n.to_string());
                entry.message_body(body).build().unwrap()
            };
            let entries = bodies.iter().enumerate().map(entry).collect();
            let call = self.cloud.sqs.send_message_batch().queue_url(&self.retry_queue);
            let sent = call.set_entries(Some(entries)).send().await.unwrap();
            assert!(sent.failed().is_empty(), "{sent:?}");
        }
    }

    pub async fn send(&self, body: &str, attributes: &[(&str, &str)]) {
        let attribute = |&(name, value): &(&str, &str)| {
            let text = MessageAttributeValue::builder().data_type("String").string_value(value);
            (name.to_owned(), text.build().unwrap())
        };
        let attributes = attributes.iter().map(attribute).collect();
        let call = self.cloud.sqs.send_message().queue_url(&self.retry_queue).message_body(body);
        call.set_message_attributes(Some(attributes)).send().await.unwrap();
    }

    pub async fn dead_letter(&self) -> DeadLetter {
        for _ in 0..6 {
            if let Some(letter) = self.take_dead_letters(1, 20).await.pop() {
                return letter;
            }
        }
        panic!("no dead letter in two minutes");
    }

    /// Receives up to ten dead letters, without waiting.
    pub async fn dead_letters(&self) -> Vec<DeadLetter> {
        self.take_dead_letters(10, 0).await
    }

    async fn take_dead_letters(&self, max: i32, wait_seconds: i32) -> Vec<DeadLetter> {
        let queue = &self.dead_letter_queue;
        self.cloud.take_dead_letters(queue, max, wait_seconds).await.unwrap()
    }

    /// The number of messages in each of the two queues, whether visible, in flight or delayed.
    pub async fn left(&self) -> (u32, u32) {
        (self.count(&self.retry_queue).await, self.count(&self.dead_letter_queue).await)
    }

    /// The same once the retry queue is empty: the mapping deletes a message only after the handler has answered.
    pub async fn settled(&self, journal: &mut Journal) -> (u32, u32) {
        loop {
            let left = self.left().await;
            if left.0 == 0 {
                return left;
            }
            journal.run(HANDLER).await;
        }
    }

    async fn count(&self, queue: &str) -> u32 {
        self.counts(queue).await.into_iter().sum()
    }

    /// The number of messages of a queue that are visible, in flight and delayed.
    pub async fn counts(&self, queue: &str) -> [u32; 3] {
        let names = [
            QueueAttributeName::ApproximateNumberOfMessages,
            QueueAttributeName::ApproximateNumberOfMessagesNotVisible,
            QueueAttributeName::ApproximateNumberOfMessagesDelayed,
        ];
        let call = self.cloud.sqs.get_queue_attributes().queue_url(queue);
        let answer = call.set_attribute_names(Some(names.clone().into())).send().await.unwrap();
        let attributes = answer.attributes.unwrap();
        names.map(|name| attributes[&name].parse().unwrap())
    }
}
