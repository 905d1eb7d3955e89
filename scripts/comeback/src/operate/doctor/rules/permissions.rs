//! The permissions that each command needs.

use comeback_core::settings::contract::TABLE;
use serde_json::{Value, json};

/// The program reads the guide's table of the actions that each command needs. A command's name has hyphens instead of
/// spaces, and `-queue` for its option `--queue`.
const GUIDE: &str = include_str!("../../../../../../docs/operate/permissions.md");

/// The commands in the guide, each with its actions.
fn needs() -> impl Iterator<Item = (&'static str, Vec<&'static str>)> {
    let quoted = |row: &'static str| row.split('`').skip(1).step_by(2);
    GUIDE.lines().filter(|line| line.starts_with("| `")).filter_map(move |row| {
        let mut quoted = quoted(row);
        Some((quoted.next()?, quoted.collect()))
    })
}

pub fn commands() -> impl Iterator<Item = &'static str> {
    needs().map(|(command, _)| command)
}

/// The IAM policy for a command; `None` if there is no such command.
pub fn for_command(command: &str) -> Option<Value> {
    let (_, actions) = needs().find(|(name, _)| *name == command)?;
    let mut statements: Vec<(_, Vec<&str>)> = Vec::new();
    for action in actions {
        let on = (resource(action), only_if(action));
        match statements.iter_mut().find(|(it, _)| *it == on) {
            Some((_, actions)) => actions.push(action),
            None => statements.push((on, vec![action])),
        }
    }
    let statements = statements.into_iter().map(|((resource, only_if), actions)| {
        let mut statement = json!({ "Effect": "Allow", "Action": actions, "Resource": resource });
        if let Some(only_if) = only_if {
            statement["Condition"] = only_if;
        }
        statement
    });
    Some(json!({ "Version": "2012-10-17", "Statement": Vec::from_iter(statements) }))
}

/// What limits an action further: orders are recorded under the caller's own id, and a record is never changed.
fn only_if(action: &str) -> Option<Value> {
    let of = |operator: &str, key: &str| json!({ operator: { "dynamodb:LeadingKeys": format!("{}{key}", TABLE.history) } });
    match action {
        "dynamodb:PutItem" => Some(of("ForAllValues:StringEquals", "${aws:userid}")),
        "dynamodb:UpdateItem" => Some(of("ForAllValues:StringNotLike", "*")),
        _ => None,
    }
}

fn resource(action: &str) -> &'static str {
    match action {
        // These actions can't be restricted to a resource.
        "lambda:ListFunctions"
        | "lambda:ListEventSourceMappings"
        | "lambda:CreateEventSourceMapping"
        | "events:ListEventBuses"
        | "events:ListRuleNamesByTarget"
        | "scheduler:ListSchedules"
        | "cloudwatch:GetMetricData" => "*",
        "lambda:UpdateEventSourceMapping" | "lambda:DeleteEventSourceMapping" => {
            "arn:aws:lambda:*:*:event-source-mapping:*"
        }
        "dynamodb:Query" | "dynamodb:Scan" => "arn:aws:dynamodb:*:*:table/*/index/waiting",
        "logs:FilterLogEvents" => "arn:aws:logs:*:*:log-group:*",
        other if other.starts_with("dynamodb:") => "arn:aws:dynamodb:*:*:table/*",
        other if other.starts_with("events:") => "arn:aws:events:*:*:rule/*",
        other if other.starts_with("scheduler:") => "arn:aws:scheduler:*:*:schedule/*",
        other if other.starts_with("iam:") => "arn:aws:iam::*:role/*",
        other if other.starts_with("s3:") => "arn:aws:s3:::*",
        other if other.starts_with("sqs:") => "arn:aws:sqs:*:*:*",
        _ => "arn:aws:lambda:*:*:function:*",
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_permission_of_a_command_is_there_once_and_each_resource_is_of_its_service() {
        assert_eq!((commands().count(), for_command("simulate")), (25, None));
        for command in commands() {
            let policy = for_command(command).unwrap();
            let mut seen = BTreeSet::new();
            for statement in policy["Statement"].as_array().unwrap() {
                let resource = statement["Resource"].as_str().unwrap();
                let on = format!("{resource} if {}", statement["Condition"]);
                assert!(seen.insert(on), "{command}: {resource} twice");
                for action in statement["Action"].as_array().unwrap() {
                    let action = action.as_str().unwrap();
                    let service = action.split(':').next();
                    let is_its = resource == "*" || resource.split(':').nth(2) == service;
                    assert!(is_its, "{command}: {action} on {resource}");
                    assert!(seen.insert(action.to_owned()), "{command}: {action} twice");
                }
            }
        }
    }
}
