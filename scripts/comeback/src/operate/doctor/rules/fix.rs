//! What mends a finding, and its command.

use serde_json::json;

use crate::account::{queue::Queue, setup::BATCH_SIZE};

/// What mends a finding. A command by hand is only shown, because the operator must decide whether to run it.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub enum Fix {
    Mapping { uuid: String },
    Queue { url: String, attribute: &'static str, value: String },
    Retries { function: String, qualifier: Option<String> },
    Loop { function: String },
    Permission { role: String, policy: String, document: String },
    Expiry { table: String },
    ByHand(String),
}

pub const EXPIRES_AT: &str = comeback_core::settings::contract::TABLE.expiry;

impl Fix {
    pub fn is_automatic(&self) -> bool {
        !matches!(self, Self::ByHand(_))
    }

    /// The command of the AWS CLI, or of this program.
    pub fn command(&self) -> String {
        match self {
            Self::Mapping { uuid } => format!(
                "aws lambda update-event-source-mapping --uuid {uuid} --enabled --batch-size {BATCH_SIZE} \
                 --maximum-batching-window-in-seconds 0 --function-response-types ReportBatchItemFailures"
            ),
            Self::Queue { url, attribute, value } => {
                let attributes = quoted(&json!({ *attribute: value }).to_string());
                let url = word(url);
                format!("aws sqs set-queue-attributes --queue-url {url} --attributes {attributes}")
            }
            Self::Retries { function, qualifier } => {
                let qualifier = qualifier.as_ref().map(|it| format!(" --qualifier {it}"));
                format!(
                    "aws lambda update-function-event-invoke-config --function-name {function}{} \
                     --maximum-retry-attempts 0",
                    qualifier.unwrap_or_default()
                )
            }
            Self::Loop { function } => format!(
                "aws lambda put-function-recursion-config --function-name {function} --recursive-loop Allow"
            ),
            Self::Permission { role, policy, document } => format!(
                "aws iam put-role-policy --role-name {role} --policy-name {policy} --policy-document {}",
                quoted(document)
            ),
            Self::Expiry { table } => format!(
                "aws dynamodb update-time-to-live --table-name {} --time-to-live-specification \
                 Enabled=true,AttributeName={EXPIRES_AT}",
                word(table)
            ),
            Self::ByHand(command) => command.clone(),
        }
    }
}

/// A name as one shell word. Names from settings may contain any characters, so they may need quotes.
pub fn word(name: &str) -> String {
    let is_plain = |it: char| it.is_ascii_alphanumeric() || "-_./:".contains(it);
    if !name.is_empty() && name.chars().all(is_plain) { name.to_owned() } else { quoted(name) }
}

pub fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

pub fn set(queue: &Queue, attribute: &'static str, value: impl ToString) -> Fix {
    Fix::Queue { url: queue.url.clone(), attribute, value: value.to_string() }
}
