//! The least that a retry handler can cost with these crates: it makes the same calls and does nothing else.
//!
//! `scripts/bench` measures the handler beside it. It trusts the receive count, knows one form of failures and one
//! queue, writes no log and no metric, and gives nothing up: don't deploy it.

use aws_lambda_events::event::sqs::{BatchItemFailure, SqsBatchResponse, SqsEvent, SqsMessage};
use aws_sdk_lambda::{primitives::Blob, types::InvocationType};
use aws_sdk_sqs::types::ChangeMessageVisibilityBatchRequestEntry;
use futures_util::future::{join, try_join_all};
use lambda_runtime::{Error, LambdaEvent, service_fn};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Record<'a> {
    request_context: RequestContext,
    #[serde(borrow)]
    request_payload: &'a RawValue,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RequestContext {
    request_id: String,
    function_arn: String,
}

#[derive(Deserialize, Serialize)]
struct Envelope<'a> {
    _retry_metadata: Metadata,
    #[serde(borrow)]
    _original_payload: &'a RawValue,
}

#[derive(Deserialize, Serialize)]
struct Metadata {
    attempt: u32,
    initial_timestamp: u64,
    request_id: String,
}

struct Clients {
    sqs: aws_sdk_sqs::Client,
    lambda: aws_sdk_lambda::Client,
    queue_url: String,
    backoff: i32,
}

fn main() -> Result<(), Error> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(run())
}

async fn run() -> Result<(), Error> {
    let aws = retry_handler::connect().await;
    #[allow(clippy::disallowed_methods, reason = "a main is where the settings are read")]
    let setting = |name| std::env::var(name);
    let clients = &Clients {
        sqs: aws_sdk_sqs::Client::new(&aws),
        lambda: aws_sdk_lambda::Client::new(&aws),
        queue_url: setting("RETRY_QUEUE_URL")?,
        backoff: setting("BASE_BACKOFF")?.parse()?,
    };
    let handle = async |event: LambdaEvent<SqsEvent>| clients.handle(event.payload).await;
    lambda_runtime::run(service_fn(handle)).await
}

impl Clients {
    async fn handle(&self, event: SqsEvent) -> Result<SqsBatchResponse, Error> {
        let is_first = |it: &SqsMessage| it.attributes["ApproximateReceiveCount"] == "1";
        let (waiting, due): (Vec<_>, Vec<_>) = event.records.into_iter().partition(is_first);
        let invoked = try_join_all(due.iter().map(|record| self.invoke(record)));
        let (waits, invoked) = join(self.wait(&waiting), invoked).await;
        invoked?;
        waits?;
        let mut response = SqsBatchResponse::default();
        response.batch_item_failures = waiting.into_iter().map(failure).collect();
        Ok(response)
    }

    async fn wait(&self, records: &[SqsMessage]) -> Result<(), Error> {
        if records.is_empty() {
            return Ok(());
        }
        let entries = records.iter().enumerate().map(|(index, record)| {
            ChangeMessageVisibilityBatchRequestEntry::builder()
                .id(index.to_string())
                .receipt_handle(record.receipt_handle.as_deref().unwrap_or_default())
                .visibility_timeout(self.backoff)
                .build()
        });
        let entries = entries.collect::<Result<_, _>>()?;
        let call = self.sqs.change_message_visibility_batch().queue_url(&self.queue_url);
        call.set_entries(Some(entries)).send().await?;
        Ok(())
    }

    async fn invoke(&self, record: &SqsMessage) -> Result<(), Error> {
        let record: Record = serde_json::from_str(record.body.as_deref().unwrap_or_default())?;
        let RequestContext { request_id, function_arn } = record.request_context;
        let payload = record.request_payload;
        let mut envelope = serde_json::from_str(payload.get()).unwrap_or(Envelope {
            _retry_metadata: Metadata { attempt: 0, initial_timestamp: 0, request_id },
            _original_payload: payload,
        });
        envelope._retry_metadata.attempt += 1;
        let call = self.lambda.invoke().function_name(function_arn);
        let payload = Blob::new(serde_json::to_vec(&envelope)?);
        call.invocation_type(InvocationType::Event).payload(payload).send().await?;
        Ok(())
    }
}

fn failure(record: SqsMessage) -> BatchItemFailure {
    let mut failure = BatchItemFailure::default();
    failure.item_identifier = record.message_id.unwrap_or_default();
    failure
}
