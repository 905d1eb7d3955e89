//! Fixes for findings. Each fix is a call to AWS, shown as the command of the AWS CLI that makes the same call.

use serde_json::json;

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub enum Fix {
    Mapping {
        uuid: String,
    },
    Queue {
        url: String,
        attribute: &'static str,
        value: String,
    },
    /// Turn off Lambda's own retries.
    Retries {
        function: String,
        qualifier: Option<String>,
    },
    /// Set the `RecursiveLoop` of a function to `Allow`.
    Loop {
        function: String,
    },
    /// Add an inline policy to a role.
    Permission {
        role: String,
        policy: String,
        document: String,
    },
    /// Turn on the expiry of the ledger's items.
    Expiry {
        table: String,
    },
    /// A command that is only shown, because the operator must decide whether to run it.
    ByHand(String),
}

/// The batch size of a mapping: Lambda's maximum without a batching window.
pub const BATCH_SIZE: u32 = 10;

/// The TTL attribute of the ledger's items.
pub const EXPIRES_AT: &str = comeback_core::contract::TABLE.expiry;

impl Fix {
    /// Whether the program can apply the fix.
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

    /// A policy that allows a role these actions on these resources. `purpose` becomes part of the policy's name.
    pub fn allow(role: &str, purpose: &str, actions: &[&str], resources: &[String]) -> Self {
        let policy = format!("comeback-{purpose}");
        let document = allow(actions, resources);
        Self::Permission { role: role.to_owned(), policy, document }
    }
}

/// A policy with a single statement, as JSON.
pub(crate) fn allow(actions: &[&str], resources: &[String]) -> String {
    let statement = json!({ "Effect": "Allow", "Action": actions, "Resource": resources });
    json!({ "Version": "2012-10-17", "Statement": [statement] }).to_string()
}

/// A name as one shell word. Names from settings may contain any characters, so they may need quotes.
pub(super) fn word(name: &str) -> String {
    let is_plain = |it: char| it.is_ascii_alphanumeric() || "-_./:".contains(it);
    if !name.is_empty() && name.chars().all(is_plain) { name.to_owned() } else { quoted(name) }
}

pub(super) fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}
