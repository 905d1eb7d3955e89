//! Fixes for findings: each is a call to AWS, and the command of the AWS CLI that makes it.

use serde_json::json;

/// A fix for a finding. It is idempotent.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub enum Mend {
    /// Give a mapping all its settings.
    Mapping {
        /// The id of the mapping.
        uuid: String,
    },
    /// Set an attribute of a queue.
    Queue {
        /// The queue's URL.
        url: String,
        /// The attribute.
        attribute: &'static str,
        /// Its value.
        value: String,
    },
    /// Turn Lambda's own retries off.
    Retries {
        /// The function.
        function: String,
        /// The alias or version.
        qualifier: Option<String>,
    },
    /// Let a function be part of a loop.
    Loop {
        /// The function.
        function: String,
    },
    /// Give a role an inline policy.
    Permission {
        /// The name of the role.
        role: String,
        /// The name of the policy.
        policy: String,
        /// The policy.
        document: String,
    },
    /// Have the ledger's items expire.
    Expiry {
        /// The table.
        table: String,
    },
    /// A command that is only shown, because a person has to decide about it.
    ByHand(String),
}

/// The largest batch without a batching window.
pub const BATCH_SIZE: u32 = 10;

/// The attribute of the ledger by which items expire.
pub const EXPIRES_AT: &str = "expires_at";

impl Mend {
    /// Whether the program can do it.
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

    /// Lets a role do these things with these resources. `purpose` is a part of the policy's name.
    pub fn allow(role: &str, purpose: &str, actions: &[&str], resources: &[String]) -> Self {
        let policy = format!("comeback-{purpose}");
        let document = allow(actions, resources);
        Self::Permission { role: role.to_owned(), policy, document }
    }
}

/// A policy with one statement, as JSON.
pub(crate) fn allow(actions: &[&str], resources: &[String]) -> String {
    let statement = json!({ "Effect": "Allow", "Action": actions, "Resource": resources });
    json!({ "Version": "2012-10-17", "Statement": [statement] }).to_string()
}

/// A name as one word of a shell. Names that come from settings may be anything.
pub(super) fn word(name: &str) -> String {
    let is_plain = |it: char| it.is_ascii_alphanumeric() || "-_./:".contains(it);
    if !name.is_empty() && name.chars().all(is_plain) { name.to_owned() } else { quoted(name) }
}

/// A text as one word of a shell.
pub(super) fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}
