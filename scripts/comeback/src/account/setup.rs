//! How a retry system is set up: what `comeback attach` sets, and what `comeback doctor` expects.

use std::time::Duration;

use comeback_core::claim::RETENTION_MAX;

/// The batch size of a mapping: Lambda's maximum without a batching window.
pub const BATCH_SIZE: u32 = 10;

/// AWS recommends six times the function's time-out, so that no batch is delivered again while it is being handled.
pub const VISIBILITY_PER_TIMEOUT: u32 = 6;

/// From this visibility timeout on, a failure is seen late.
pub const VISIBILITY_LONG: Duration = Duration::from_hours(1);

pub const RETENTION: Duration = RETENTION_MAX;

/// The `maxReceiveCount` of a retry queue. It is high because each wait, throttle and crash counts as a receive.
pub const RECEIVES: u64 = 1_000;

pub const ACTIONS_ON_RETRY_QUEUE: [&str; 5] = [
    "sqs:ReceiveMessage",
    "sqs:DeleteMessage",
    "sqs:ChangeMessageVisibility",
    "sqs:GetQueueAttributes",
    "sqs:SendMessage",
];

/// The actions on the ledger's table that the claims need.
pub const ACTIONS_ON_CLAIMS: [&str; 2] = ["dynamodb:UpdateItem", "dynamodb:DeleteItem"];

/// The actions on the ledger's table that transparent functions need: also reads.
pub const ACTIONS_ON_NOTES: [&str; 4] =
    ["dynamodb:UpdateItem", "dynamodb:DeleteItem", "dynamodb:BatchGetItem", "dynamodb:Query"];

/// To send to a queue with a key, both are needed; to receive from it, the second.
pub const ACTIONS_ON_KEY: [&str; 2] = ["kms:GenerateDataKey", "kms:Decrypt"];

/// What a function needs to put its records into a bucket: the first on all of its objects, the second on the bucket.
pub const ACTIONS_TO_PUT: [&str; 2] = ["s3:PutObject", "s3:ListBucket"];

/// What the handler needs to read the records of a function. The second is for a bucket that keeps versions.
pub const ACTIONS_TO_READ: [&str; 2] = ["s3:GetObject", "s3:GetObjectVersion"];

/// With this permission on the bucket, S3 tells a record that is gone from one that the handler may not read.
pub const ACTION_TO_LIST: &str = "s3:ListBucket";
