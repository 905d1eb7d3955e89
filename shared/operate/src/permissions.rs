//! The minimal permissions that each command needs.

use serde_json::{Value, json};

/// The kind of resource that a permission applies to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Resource {
    /// For actions that can't be restricted to a resource.
    Everything,
    Functions,
    Mappings,
    Layers,
    Queues,
    Roles,
    Tables,
    Indexes,
    Logs,
}

impl Resource {
    fn arn(self) -> &'static str {
        match self {
            Self::Everything => "*",
            Self::Functions => "arn:aws:lambda:*:*:function:*",
            Self::Mappings => "arn:aws:lambda:*:*:event-source-mapping:*",
            Self::Layers => "arn:aws:lambda:*:*:layer:*",
            Self::Queues => "arn:aws:sqs:*:*:*",
            Self::Roles => "arn:aws:iam::*:role/*",
            Self::Tables => "arn:aws:dynamodb:*:*:table/*",
            Self::Indexes => "arn:aws:dynamodb:*:*:table/*/index/waiting",
            Self::Logs => "arn:aws:logs:*:*:log-group:*",
        }
    }
}

type Need = (Resource, &'static [&'static str]);
type Needs = &'static [Need];

/// Finds the retry systems.
const FIND: Need = (Resource::Everything, &["lambda:ListFunctions"]);

const LOOK_AT_LETTERS: Need = (
    Resource::Queues,
    &[
        "sqs:GetQueueUrl",
        "sqs:GetQueueAttributes",
        "sqs:ReceiveMessage",
        "sqs:ChangeMessageVisibility",
    ],
);

const LIST_DESTINATIONS: Need = (Resource::Functions, &["lambda:ListFunctionEventInvokeConfigs"]);

const READ_LOG: Need = (Resource::Logs, &["logs:FilterLogEvents"]);

/// Without a register, waiting events are listed from the log.
const LIST_WAITING: [Need; 4] =
    [FIND, LIST_DESTINATIONS, (Resource::Indexes, &["dynamodb:Query", "dynamodb:Scan"]), READ_LOG];

const ORDER: [Need; 2] = [
    (Resource::Tables, &["dynamodb:UpdateItem"]),
    (Resource::Queues, &["sqs:ChangeMessageVisibility"]),
];

const PAUSE: [Need; 3] =
    [FIND, LIST_DESTINATIONS, (Resource::Tables, &["dynamodb:GetItem", "dynamodb:UpdateItem"])];

const EXAMINE: [Need; 5] = [
    (
        Resource::Everything,
        &["lambda:ListFunctions", "lambda:ListEventSourceMappings", "cloudwatch:GetMetricData"],
    ),
    (
        Resource::Functions,
        &[
            "lambda:GetFunctionConfiguration",
            "lambda:GetFunctionConcurrency",
            "lambda:GetFunctionRecursionConfig",
            "lambda:ListFunctionEventInvokeConfigs",
        ],
    ),
    (Resource::Queues, &["sqs:GetQueueAttributes"]),
    (Resource::Roles, &["iam:SimulatePrincipalPolicy"]),
    (Resource::Tables, &["dynamodb:DescribeTable", "dynamodb:DescribeTimeToLive"]),
];

/// Gathers the facts before a function is attached or detached.
const ASK: [Need; 4] = [
    (Resource::Everything, &["lambda:ListFunctions", "lambda:ListEventSourceMappings"]),
    (
        Resource::Functions,
        &[
            "lambda:GetFunctionConfiguration",
            "lambda:GetFunctionEventInvokeConfig",
            "lambda:GetFunctionRecursionConfig",
            "lambda:ListTags",
        ],
    ),
    (Resource::Queues, &["sqs:GetQueueAttributes"]),
    (Resource::Roles, &["iam:GetRolePolicy"]),
];

const STATUS: [Need; 6] = [
    FIND,
    (Resource::Everything, &["lambda:ListEventSourceMappings", "cloudwatch:GetMetricData"]),
    LIST_DESTINATIONS,
    (Resource::Queues, &["sqs:GetQueueUrl", "sqs:GetQueueAttributes"]),
    (Resource::Tables, &["dynamodb:BatchGetItem"]),
    (Resource::Indexes, &["dynamodb:Query"]),
];

const REDRIVE: [Need; 4] = [
    FIND,
    LOOK_AT_LETTERS,
    (Resource::Queues, &["sqs:DeleteMessage"]),
    (Resource::Functions, &["lambda:InvokeFunction"]),
];

/// The commands, with hyphens instead of spaces.
const COMMANDS: [(&str, &[Needs]); 17] = [
    ("dead-list", &[&[FIND, LOOK_AT_LETTERS]]),
    ("dead-show", &[&[FIND, LOOK_AT_LETTERS]]),
    ("dead-export", &[&[FIND, LOOK_AT_LETTERS]]),
    ("dead-redrive", &[&REDRIVE]),
    ("dead-purge", &[&[FIND, LOOK_AT_LETTERS, (Resource::Queues, &["sqs:DeleteMessage"])]]),
    ("status", &[&STATUS]),
    ("trace", &[&[FIND, READ_LOG]]),
    ("waiting", &[&LIST_WAITING]),
    ("waiting-retry-now", &[&LIST_WAITING, &ORDER]),
    ("waiting-cancel", &[&LIST_WAITING, &ORDER]),
    ("pause", &[&PAUSE]),
    ("resume", &[&PAUSE]),
    ("web", &[&STATUS, &LIST_WAITING, &EXAMINE, &REDRIVE, &ORDER, &PAUSE]),
    ("doctor", &[&EXAMINE]),
    (
        "doctor-fix",
        &[
            &EXAMINE,
            &[
                (Resource::Mappings, &["lambda:UpdateEventSourceMapping"]),
                (
                    Resource::Functions,
                    &[
                        "lambda:PutFunctionRecursionConfig",
                        "lambda:UpdateFunctionEventInvokeConfig",
                    ],
                ),
                (Resource::Queues, &["sqs:SetQueueAttributes"]),
                (Resource::Roles, &["iam:PutRolePolicy"]),
                (Resource::Tables, &["dynamodb:UpdateTimeToLive"]),
            ],
        ],
    ),
    (
        "attach",
        &[
            &ASK,
            &[
                (
                    Resource::Functions,
                    &[
                        "lambda:PutFunctionEventInvokeConfig",
                        "lambda:PutFunctionRecursionConfig",
                        "lambda:TagResource",
                        "lambda:UpdateFunctionConfiguration",
                    ],
                ),
                // With --transparent.
                (Resource::Layers, &["lambda:GetLayerVersion"]),
                (Resource::Queues, &["sqs:SetQueueAttributes"]),
                (Resource::Roles, &["iam:PutRolePolicy"]),
            ],
        ],
    ),
    (
        "detach",
        &[
            &ASK,
            &[
                (
                    Resource::Functions,
                    &[
                        "lambda:DeleteFunctionEventInvokeConfig",
                        "lambda:PutFunctionEventInvokeConfig",
                        "lambda:PutFunctionRecursionConfig",
                        "lambda:UntagResource",
                        "lambda:UpdateFunctionConfiguration",
                    ],
                ),
                (Resource::Layers, &["lambda:GetLayerVersion"]),
                (Resource::Queues, &["sqs:SetQueueAttributes"]),
                (Resource::Roles, &["iam:DeleteRolePolicy"]),
            ],
        ],
    ),
];

/// The names of all commands that need permissions.
pub fn commands() -> impl Iterator<Item = &'static str> {
    COMMANDS.iter().map(|(name, _)| *name)
}

/// The IAM policy for a command; `None` if there is no such command.
pub fn policy(command: &str) -> Option<Value> {
    let statements = statements(command)?
        .into_iter()
        .map(|(on, actions)| json!({ "Effect": "Allow", "Action": actions, "Resource": on.arn() }));
    Some(json!({ "Version": "2012-10-17", "Statement": Vec::from_iter(statements) }))
}

/// The actions that a command needs, by resource.
fn statements(command: &str) -> Option<Vec<(Resource, Vec<&'static str>)>> {
    let (_, needs) = COMMANDS.iter().find(|(name, _)| *name == command)?;
    let mut statements: Vec<(Resource, Vec<&str>)> = Vec::new();
    for (on, actions) in needs.iter().copied().flatten() {
        let known = statements.iter_mut().find(|(it, _)| it == on);
        match known {
            Some((_, all)) => {
                let more: Vec<_> = actions.iter().filter(|it| !all.contains(it)).copied().collect();
                all.extend(more);
            }
            None => statements.push((*on, actions.to_vec())),
        }
    }
    Some(statements)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_guide_lists_the_actions_of_every_command() {
        let guide = include_str!("../../../docs/operate/permissions.md");
        for command in commands() {
            let actions = statements(command).unwrap().into_iter().flat_map(|(_, all)| all);
            let actions = actions.map(|it| format!("`{it}`")).collect::<Vec<_>>();
            let row = format!("| `{command}` | {} |", actions.join(", "));
            assert!(guide.contains(&row), "{row} is not in docs/operate/permissions.md");
        }
    }

    #[test]
    fn each_permission_of_a_command_is_there_once_and_each_resource_is_of_its_service() {
        for command in commands() {
            let policy = policy(command).unwrap();
            let statements = policy["Statement"].as_array().unwrap();
            let mut seen = BTreeSet::new();
            for statement in statements {
                let resource = statement["Resource"].as_str().unwrap();
                for action in statement["Action"].as_array().unwrap() {
                    let action = action.as_str().unwrap();
                    let service = action.split(':').next().unwrap();
                    let is_its = resource == "*" || resource.split(':').nth(2) == Some(service);
                    assert!(is_its, "{command}: {action} on {resource}");
                    assert!(seen.insert(action), "{command}: {action} twice");
                }
            }
            let resources: BTreeSet<_> =
                statements.iter().map(|it| it["Resource"].to_string()).collect();
            assert_eq!(resources.len(), statements.len(), "{command}: a statement for each kind");
        }
        assert_eq!(policy("simulate"), None);
    }
}
