//! Counts the bytes that are uploaded to each bucket, and counts each upload once.
//!
//! S3 reports an upload at least once, and the retry loop may repeat the event. An upload must not be added twice.
//! So one transaction updates the bucket's sum and records that the upload was counted.
//!
//! `USAGE_TABLE` is a DynamoDB table with the partition key `bucket`, and `IDEMPOTENCY_TABLE` is one with the
//! partition key `id`.
#![allow(clippy::disallowed_methods, reason = "a program's outermost file reads the environment")]

use std::env;

use aws_config::BehaviorVersion;
use aws_lambda_events::s3::{S3Entity, S3Event};
use aws_sdk_dynamodb::{
    error::BuildError,
    types::{AttributeValue, TransactWriteItem, Update},
};
use comeback::{
    Failure, PermanentFailure, Unwrap,
    idempotency::{DynamoStore, Idempotency, Request},
};
use lambda_runtime::{Context, Error, LambdaEvent, run, service_fn, tower::Layer, tracing};

/// The table of sums by bucket.
struct Usage {
    once: Idempotency<DynamoStore>,
    table: String,
}

impl Usage {
    async fn count(&self, uploaded: &S3Entity, context: &Context) -> Result<(), Failure> {
        let (Some(bucket), Some(key)) = (&uploaded.bucket.name, &uploaded.object.key) else {
            return Err(PermanentFailure::new("an upload without a bucket or a key").into());
        };
        // The sequencer distinguishes the uploads of one object.
        let sequencer = uploaded.object.sequencer.as_deref().unwrap_or_default();
        let bytes = uploaded.object.size.unwrap_or_default();
        let request = Request::new(&format!("{bucket}/{key}/{sequencer}"), &bytes, context)?;
        self.once
            .run_in_transaction(&request, |_lease| async {
                Ok::<_, BuildError>(((), vec![self.add(bucket, bytes)?]))
            })
            .await?;
        Ok(())
    }

    fn add(&self, bucket: &str, bytes: i64) -> Result<TransactWriteItem, BuildError> {
        let update = Update::builder()
            .table_name(&self.table)
            .key("bucket", AttributeValue::S(bucket.to_owned()))
            .update_expression("ADD #bytes :bytes")
            .expression_attribute_names("#bytes", "bytes")
            .expression_attribute_values(":bytes", AttributeValue::N(bytes.to_string()))
            .build()?;
        Ok(TransactWriteItem::builder().update(update).build())
    }
}

async fn handle(event: LambdaEvent<S3Event>, usage: &Usage) -> Result<(), Failure> {
    for record in &event.payload.records {
        usage.count(&record.s3, &event.context).await?;
    }
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    tracing::init_default_subscriber();
    let aws = aws_config::load_defaults(BehaviorVersion::latest()).await;
    let store =
        DynamoStore::new(&aws_sdk_dynamodb::Client::new(&aws), env::var("IDEMPOTENCY_TABLE")?);
    let usage =
        Usage { once: Idempotency::new("count-uploads", store)?, table: env::var("USAGE_TABLE")? };
    run(Unwrap::new().layer(service_fn(|event| handle(event, &usage)))).await
}
