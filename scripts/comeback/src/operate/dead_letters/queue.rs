//! Implements the ports for dead letters: the queue in SQS, and the functions and queues to redrive to.

use std::{sync::OnceLock, time::Duration};

use aws_sdk_lambda::{primitives::Blob, types::InvocationType};
use aws_sdk_sqs::types::{
    DeleteMessageBatchRequestEntry, Message, MessageAttributeValue, MessageSystemAttributeName,
    QueueAttributeName,
};
use comeback_core::{
    Timestamp,
    arn::{self, Home, QUEUE_PREFIX, QueueArn, is_url_of},
    attribute::{Attribute, Value},
    settings::Policies,
    time,
};
use futures_util::future::join_all;
use retry_handler::S3Records;
use tokio::task::JoinSet;

use crate::{
    account::{
        fault::{Answer, Clock},
        function::Function,
        handlers::{dead_letter_queue, handlers},
    },
    aws::{Aws, changes, connect::Connection, fault, of_each, reads::functions},
    failure::Failure,
    operate::{
        dead_letters::rules::{
            Action, Call, DeadLetterQueue, Letter, Redrive, WORK_HOLD, hold, look,
        },
        logbook::Ledger,
        options::refuse_unknown,
    },
    shell::progress,
    text::{count, span},
};

/// How long a receive waits. Without a wait (short polling), a receive may miss letters.
const RECEIVE_WAIT_SECONDS: i32 = 1;

/// Options that select a dead-letter queue.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Where")]
pub struct QueueOptions {
    /// The dead-letter queue of this retry handler.
    #[arg(long, value_name = "NAME", conflicts_with = "queue")]
    pub handler: Option<String>,
    /// A dead-letter queue, by its name or URL; also a function's own.
    #[arg(long, value_name = "NAME|URL")]
    pub queue: Option<String>,
    #[command(flatten)]
    pub connection: Connection,
}

pub struct Queue {
    aws: Aws,
    pub url: String,
    pub arn: String,
    pub visible: u64,
    /// The approximate number of letters that a consumer has received and that are hidden.
    pub hidden: u64,
    /// The redrive policy, if SQS moves the queue's letters away after a number of receives.
    pub redrive_policy: Option<String>,
    /// The functions of the account and region, if they were listed to find the queue.
    functions: Option<Vec<Function>>,
    /// The retry handler that the operator has named.
    handler: Option<String>,
    /// The client for payloads in buckets, once there is a letter that needs it.
    records: OnceLock<S3Records>,
}

impl Queue {
    pub async fn find(aws: Aws, options: &QueueOptions) -> Result<Self, Failure> {
        let (url, functions) = match &options.queue {
            Some(url) if url.contains("://") => (url.clone(), None),
            Some(name) => {
                let answer = aws.sqs.get_queue_url().queue_name(name).send().await;
                let answer = answer.map_err(fault("sqs:GetQueueUrl", name))?;
                (answer.queue_url.unwrap_or_default(), None)
            }
            None => {
                let functions = functions(&aws).await?;
                let url = dead_letter_queue(&functions, options.handler.as_deref())?;
                (url, Some(functions))
            }
        };
        let call = aws.sqs.get_queue_attributes().queue_url(&url);
        let answer = call.attribute_names(QueueAttributeName::All).send().await;
        let answer = answer.map_err(fault("sqs:GetQueueAttributes", &url))?;
        let attributes = answer.attributes.unwrap_or_default();
        let number = |name| attributes.get(&name).and_then(|text| text.parse().ok()).unwrap_or(0);
        Ok(Self {
            visible: number(QueueAttributeName::ApproximateNumberOfMessages),
            hidden: number(QueueAttributeName::ApproximateNumberOfMessagesNotVisible),
            arn: attributes.get(&QueueAttributeName::QueueArn).cloned().unwrap_or_default(),
            redrive_policy: attributes.get(&QueueAttributeName::RedrivePolicy).cloned(),
            functions,
            handler: options.handler.clone(),
            records: OnceLock::new(),
            aws,
            url,
        })
    }

    /// Lists the functions, unless that was done.
    pub async fn list_functions(&mut self) -> Answer<()> {
        if self.functions.is_none() {
            self.functions = Some(functions(&self.aws).await?);
        }
        Ok(())
    }

    /// The retry handlers, of the functions that were listed, that send letters to this queue.
    fn handlers(&self) -> impl Iterator<Item = &Function> {
        let is_own = |it: &&Function| match &self.handler {
            Some(handler) => handler == it.name(),
            None => it.dead_letter_queue_url().is_some_and(|url| is_url_of(url, &self.arn)),
        };
        handlers(self.functions.as_deref().unwrap_or_default()).filter(is_own)
    }

    /// The policies that this action needs: those of the retry handlers that send letters to this queue.
    pub fn policies_for(&self, action: &Action) -> Result<Vec<Policies>, Failure> {
        if *action == Action::Purge {
            return Ok(Vec::new());
        }
        let policies = self.handlers().map(|handler| {
            let settings = handler.settings().map_err(|bad| {
                format!("how {} invokes functions is unknown: {bad}", handler.name())
            })?;
            Ok(settings.rules.policies)
        });
        policies.collect()
    }

    /// The ledger of the first retry handler that sends letters to this queue.
    pub fn ledger(&self) -> Option<Ledger> {
        let handler = self.handlers().next()?.clone();
        Some(Ledger { aws: self.aws.clone(), handler })
    }

    /// Refuses names of functions and queues that nothing has, once nothing was found by them.
    pub async fn refuse_unknown(&self, wanted: &[String]) -> Result<(), Failure> {
        refuse_unknown(&self.aws, wanted).await
    }

    pub fn name(&self) -> &str {
        self.url.rsplit('/').next().unwrap_or(&self.url)
    }

    pub fn letters(&self) -> u64 {
        self.visible + self.hidden
    }

    /// The URL of a queue, from its ARN, or its name in this queue's account and region, such as `sqs:imports`.
    fn url_of(&self, target: &str) -> String {
        let home = self.arn.rsplit_once(':').map_or("", |(home, _)| home);
        let named = target.strip_prefix(QUEUE_PREFIX).map(|name| format!("{home}:{name}"));
        arn::queue_url(named.as_deref().unwrap_or(target)).unwrap_or_default()
    }

    /// The letter with the failure record that has its payload, if that is not in the letter.
    async fn with_record(&self, letter: Letter) -> Letter {
        let (Some(location), Some(home)) = (letter.location(), &letter.home) else { return letter };
        let records = self.records.get_or_init(|| self.aws.records());
        let record = records.read(&location, home).await.map_err(|fault| fault.to_string());
        let record = record.and_then(|bytes| {
            String::from_utf8(bytes).map_err(|_| "the record is not UTF-8".to_owned())
        });
        Letter { record: Some(record), ..letter }
    }

    pub fn region(&self) -> &str {
        &self.aws.region
    }

    /// What a look at the letters means for other consumers, and theirs for it.
    pub fn warnings(&self) -> Vec<String> {
        let name = self.name();
        let policy = self.redrive_policy.as_ref().map(|policy| {
            format!(
                "{name} has a redrive policy, {policy}: each look at a letter is a receive, and SQS moves letters away after maxReceiveCount receives"
            )
        });
        let hidden = (self.hidden > 0).then(|| {
            format!(
                "{} more letters of {name} are hidden: another consumer has received them, or an earlier command was killed. What a killed command has hidden is visible again within {}",
                count(self.hidden),
                span(hold(self.letters()).max(WORK_HOLD).as_secs_f64()),
            )
        });
        policy.into_iter().chain(hidden).collect()
    }
}

/// Finds the queue, and tells the operator what a look at its letters means.
pub async fn open(options: &QueueOptions, now: fn() -> Timestamp) -> Result<Queue, Failure> {
    let aws = Aws::connect(&options.connection, now).await?;
    let queue = Queue::find(aws, options).await?;
    for warning in queue.warnings() {
        eprintln!("comeback: {warning}");
    }
    Ok(queue)
}

/// Visits letters until `visit` returns false, and shows the progress on standard error. Returns their number.
pub async fn look_at_all(queue: &Queue, mut visit: impl FnMut(Letter) -> bool) -> Answer<u64> {
    let bar = progress(queue.visible, "looked at");
    look(queue, queue.letters(), |letter| {
        bar.inc(1);
        visit(letter)
    })
    .await?;
    Ok(bar.position())
}

impl Clock for Queue {
    fn now(&self) -> Timestamp {
        self.aws.now()
    }

    async fn sleep(&self, duration: Duration) {
        self.aws.sleep(duration).await;
    }
}

impl DeadLetterQueue for Queue {
    async fn receive(&self, max: usize, hold: Duration) -> Answer<Vec<Letter>> {
        let received = self
            .aws
            .sqs
            .receive_message()
            .queue_url(&self.url)
            .max_number_of_messages(i32::try_from(max).unwrap_or(i32::MAX))
            .visibility_timeout(i32::try_from(hold.as_secs()).unwrap_or(i32::MAX))
            .wait_time_seconds(RECEIVE_WAIT_SECONDS)
            .message_attribute_names("All")
            .message_system_attribute_names(MessageSystemAttributeName::SentTimestamp)
            .message_system_attribute_names(MessageSystemAttributeName::DeadLetterQueueSourceArn)
            .send()
            .await;
        let received = received.map_err(fault("sqs:ReceiveMessage", &self.arn))?;
        let home = QueueArn::parse(&self.arn).and_then(|arn| arn.home());
        let received = received.messages.unwrap_or_default().into_iter();
        let letters = received.map(|message| letter(message, home.clone()));
        Ok(join_all(letters.map(|letter| self.with_record(letter))).await)
    }

    async fn release(&self, receipt_handles: &[&str]) -> Answer<()> {
        changes::make_visible(&self.aws, &self.url, &self.arn, receipt_handles)
            .await
            .into_iter()
            .collect()
    }

    async fn delete(&self, receipt_handles: &[&str]) -> Vec<Answer<()>> {
        const ACTION: &str = "sqs:DeleteMessage";
        let entry = |(index, handle): (usize, &&str)| {
            DeleteMessageBatchRequestEntry::builder()
                .id(index.to_string())
                .receipt_handle(*handle)
                .build()
                // All required members are set.
                .ok()
        };
        let entries = receipt_handles.iter().enumerate().filter_map(entry).collect();
        let call = self.aws.sqs.delete_message_batch().queue_url(&self.url);
        let deleted = call.set_entries(Some(entries)).send().await;
        let failed = deleted.map_err(fault(ACTION, &self.arn)).map(|deleted| deleted.failed);
        of_each(ACTION, &self.arn, receipt_handles.len(), failed)
    }

    async fn redrive(&self, redrives: &[Redrive]) -> Vec<Answer<()>> {
        // Each call runs in a task, so that they use all cores.
        let mut calls = JoinSet::new();
        for (index, Redrive { target, payload, call }) in redrives.iter().enumerate() {
            match call {
                Call::Send(attributes) => {
                    let attributes = attributes.iter().filter_map(sent_attribute).collect();
                    let call = self.aws.sqs.send_message().queue_url(self.url_of(target));
                    let call = call.message_body(payload);
                    let call = call.set_message_attributes(Some(attributes)).send();
                    let fault = fault("sqs:SendMessage", target);
                    calls.spawn(async move { (index, call.await.map(drop).map_err(fault)) });
                }
                Call::Invoke { tenant_id, execution_name } => {
                    let call = self.aws.lambda.invoke().function_name(target);
                    let call = call
                        .invocation_type(InvocationType::Event)
                        .set_tenant_id(tenant_id.clone())
                        .set_durable_execution_name(execution_name.clone())
                        .payload(Blob::new(payload.as_bytes()))
                        .send();
                    let fault = fault("lambda:InvokeFunction", target);
                    calls.spawn(async move { (index, call.await.map(drop).map_err(fault)) });
                }
            }
        }
        let mut answers = calls.join_all().await;
        answers.sort_unstable_by_key(|(index, _)| *index);
        answers.into_iter().map(|(_, answer)| answer).collect()
    }
}

fn letter(message: Message, home: Option<Home>) -> Letter {
    let system = message.attributes.unwrap_or_default();
    let sent_at = system.get(&MessageSystemAttributeName::SentTimestamp);
    let attributes = message.message_attributes.unwrap_or_default();
    Letter {
        id: message.message_id.unwrap_or_default(),
        receipt_handle: message.receipt_handle.unwrap_or_default(),
        sent_at: sent_at.and_then(|text| text.parse().ok()).map(time::at_millis),
        was_moved: system.contains_key(&MessageSystemAttributeName::DeadLetterQueueSourceArn),
        attributes: attributes.into_iter().filter_map(attribute).collect(),
        body: message.body.unwrap_or_default(),
        record: None,
        home,
    }
}

fn attribute((name, it): (String, MessageAttributeValue)) -> Option<Attribute<'static>> {
    let text = it.string_value.map(|text| Value::Text(text.into()));
    let binary = it.binary_value.map(|bytes| Value::Binary(bytes.into_inner().into()));
    Some(Attribute { name: name.into(), data_type: it.data_type.into(), value: text.or(binary)? })
}

/// An attribute as SQS takes it, by its name.
fn sent_attribute(it: &Attribute<'_>) -> Option<(String, MessageAttributeValue)> {
    let builder = MessageAttributeValue::builder().data_type(&*it.data_type);
    let builder = match &it.value {
        Value::Text(text) => builder.string_value(&**text),
        Value::Binary(bytes) => builder.binary_value(Blob::new(&**bytes)),
    };
    // All required members are set.
    Some((it.name.to_string(), builder.build().ok()?))
}
