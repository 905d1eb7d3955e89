//! The minimal permissions that each command needs.

use serde_json::{Value, json};

const FIND: &str = "lambda:ListFunctions";

const LIST_DESTINATIONS: &str = "lambda:ListFunctionEventInvokeConfigs";

const READ_LOG: &str = "logs:FilterLogEvents";

const LOOK_AT_LETTERS: [&str; 5] = [
    FIND,
    "sqs:GetQueueUrl",
    "sqs:GetQueueAttributes",
    "sqs:ReceiveMessage",
    "sqs:ChangeMessageVisibility",
];

/// Without a register, waiting events are listed from the log.
const LIST_WAITING: [&str; 5] =
    [FIND, LIST_DESTINATIONS, "dynamodb:Query", "dynamodb:Scan", READ_LOG];

const ORDER: [&str; 2] = ["dynamodb:UpdateItem", "sqs:ChangeMessageVisibility"];

const PAUSE: [&str; 4] = [FIND, LIST_DESTINATIONS, "dynamodb:GetItem", "dynamodb:UpdateItem"];

const EXAMINE: [&str; 13] = [
    FIND,
    "lambda:ListEventSourceMappings",
    "lambda:ListTags",
    "cloudwatch:GetMetricData",
    "lambda:GetFunctionConfiguration",
    "lambda:GetFunctionConcurrency",
    "lambda:GetFunctionRecursionConfig",
    LIST_DESTINATIONS,
    "sqs:GetQueueAttributes",
    "sqs:ListDeadLetterSourceQueues",
    "iam:SimulatePrincipalPolicy",
    "dynamodb:DescribeTable",
    "dynamodb:DescribeTimeToLive",
];

const FIX: [&str; 6] = [
    "lambda:UpdateEventSourceMapping",
    "lambda:PutFunctionRecursionConfig",
    "lambda:UpdateFunctionEventInvokeConfig",
    "sqs:SetQueueAttributes",
    "iam:PutRolePolicy",
    "dynamodb:UpdateTimeToLive",
];

/// Gathers the facts before a function is attached or detached.
const ASK: [&str; 8] = [
    FIND,
    "lambda:ListEventSourceMappings",
    "lambda:GetFunctionConfiguration",
    "lambda:GetFunctionEventInvokeConfig",
    "lambda:GetFunctionRecursionConfig",
    "lambda:ListTags",
    "sqs:GetQueueAttributes",
    "iam:GetRolePolicy",
];

const ATTACH: [&str; 7] = [
    "lambda:PutFunctionEventInvokeConfig",
    "lambda:PutFunctionRecursionConfig",
    "lambda:TagResource",
    "lambda:UpdateFunctionConfiguration",
    // With --transparent.
    "lambda:GetLayerVersion",
    "sqs:SetQueueAttributes",
    "iam:PutRolePolicy",
];

const DETACH: [&str; 8] = [
    "lambda:DeleteFunctionEventInvokeConfig",
    "lambda:PutFunctionEventInvokeConfig",
    "lambda:PutFunctionRecursionConfig",
    "lambda:UntagResource",
    "lambda:UpdateFunctionConfiguration",
    "lambda:GetLayerVersion",
    "sqs:SetQueueAttributes",
    "iam:DeleteRolePolicy",
];

/// Gathers the facts before a queue is attached or detached.
const ASK_QUEUE: [&str; 8] = [
    FIND,
    "lambda:ListEventSourceMappings",
    "lambda:GetFunctionConfiguration",
    "lambda:GetFunctionRecursionConfig",
    "lambda:ListTags",
    "sqs:GetQueueAttributes",
    "sqs:ListQueueTags",
    "iam:GetRolePolicy",
];

const ATTACH_QUEUE: [&str; 7] = [
    "lambda:CreateEventSourceMapping",
    "lambda:PutFunctionRecursionConfig",
    "lambda:UpdateFunctionConfiguration",
    "sqs:CreateQueue",
    "sqs:SetQueueAttributes",
    "sqs:TagQueue",
    "iam:PutRolePolicy",
];

const DETACH_QUEUE: [&str; 5] = [
    "lambda:DeleteEventSourceMapping",
    "lambda:UpdateFunctionConfiguration",
    "sqs:SetQueueAttributes",
    "sqs:UntagQueue",
    "iam:DeleteRolePolicy",
];

const STATUS: [&str; 8] = [
    FIND,
    "lambda:ListEventSourceMappings",
    "cloudwatch:GetMetricData",
    LIST_DESTINATIONS,
    "sqs:GetQueueUrl",
    "sqs:GetQueueAttributes",
    "dynamodb:BatchGetItem",
    "dynamodb:Query",
];

const DELETE_LETTERS: &str = "sqs:DeleteMessage";

const REDRIVE: [&str; 3] = [DELETE_LETTERS, "lambda:InvokeFunction", "sqs:SendMessage"];

/// The commands, with hyphens instead of spaces and with `-queue` for their option `--queue`, and the actions that they
/// need.
const COMMANDS: [(&str, &[&[&str]]); 19] = [
    ("dead-list", &[&LOOK_AT_LETTERS]),
    ("dead-show", &[&LOOK_AT_LETTERS]),
    ("dead-export", &[&LOOK_AT_LETTERS]),
    ("dead-redrive", &[&LOOK_AT_LETTERS, &REDRIVE]),
    ("dead-purge", &[&LOOK_AT_LETTERS, &[DELETE_LETTERS]]),
    ("status", &[&STATUS]),
    ("trace", &[&[FIND, READ_LOG, "dynamodb:Scan"]]),
    ("waiting", &[&LIST_WAITING]),
    ("waiting-retry-now", &[&LIST_WAITING, &ORDER]),
    ("waiting-cancel", &[&LIST_WAITING, &ORDER]),
    ("pause", &[&PAUSE]),
    ("resume", &[&PAUSE]),
    ("web", &[&STATUS, &LIST_WAITING, &EXAMINE, &LOOK_AT_LETTERS, &REDRIVE, &ORDER, &PAUSE]),
    ("doctor", &[&EXAMINE]),
    ("doctor-fix", &[&EXAMINE, &FIX]),
    ("attach", &[&ASK, &ATTACH]),
    ("detach", &[&ASK, &DETACH]),
    ("attach-queue", &[&ASK_QUEUE, &ATTACH_QUEUE]),
    ("detach-queue", &[&ASK_QUEUE, &DETACH_QUEUE]),
];

/// The pattern of the resources that an action is allowed on.
fn resource(action: &str) -> &'static str {
    match action {
        // These actions can't be restricted to a resource.
        FIND
        | "lambda:ListEventSourceMappings"
        | "lambda:CreateEventSourceMapping"
        | "cloudwatch:GetMetricData" => "*",
        "lambda:UpdateEventSourceMapping" | "lambda:DeleteEventSourceMapping" => {
            "arn:aws:lambda:*:*:event-source-mapping:*"
        }
        "lambda:GetLayerVersion" => "arn:aws:lambda:*:*:layer:*",
        "dynamodb:Query" | "dynamodb:Scan" => "arn:aws:dynamodb:*:*:table/*/index/waiting",
        READ_LOG => "arn:aws:logs:*:*:log-group:*",
        other if other.starts_with("dynamodb:") => "arn:aws:dynamodb:*:*:table/*",
        other if other.starts_with("iam:") => "arn:aws:iam::*:role/*",
        other if other.starts_with("sqs:") => "arn:aws:sqs:*:*:*",
        _ => "arn:aws:lambda:*:*:function:*",
    }
}

pub fn commands() -> impl Iterator<Item = &'static str> {
    COMMANDS.iter().map(|(name, _)| *name)
}

/// The IAM policy for a command; `None` if there is no such command.
pub fn policy(command: &str) -> Option<Value> {
    let (_, needs) = COMMANDS.iter().find(|(name, _)| *name == command)?;
    let mut statements: Vec<(&str, Vec<&str>)> = Vec::new();
    for action in needs.iter().copied().flatten() {
        let resource = resource(action);
        match statements.iter_mut().find(|(it, _)| *it == resource) {
            Some((_, actions)) if actions.contains(action) => {}
            Some((_, actions)) => actions.push(*action),
            None => statements.push((resource, vec![*action])),
        }
    }
    let statements = statements.into_iter().map(
        |(resource, actions)| json!({ "Effect": "Allow", "Action": actions, "Resource": resource }),
    );
    Some(json!({ "Version": "2012-10-17", "Statement": Vec::from_iter(statements) }))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_guide_lists_the_actions_of_every_command() {
        let guide = include_str!("../../../../../docs/operate/permissions.md");
        for command in commands() {
            let policy = policy(command).unwrap();
            let statements = policy["Statement"].as_array().unwrap().iter();
            let actions = statements.flat_map(|it| it["Action"].as_array().unwrap());
            let actions = actions.map(|it| format!("`{}`", it.as_str().unwrap()));
            let actions = actions.collect::<Vec<_>>();
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
