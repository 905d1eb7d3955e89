//! Policies: whether that of a queue allows or denies a role something, and the policies that let a role act.

use comeback_core::pattern;
use serde_json::{Value, json};

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Effect {
    Nothing,
    Allow,
    /// The policy denies it. A denial wins over every permission.
    Deny,
}

/// The condition operators with which a closed queue denies everyone except a list of roles.
const UNLESS: [&str; 4] = ["ArnNotEquals", "ArnNotLike", "StringNotEquals", "StringNotLike"];

/// The key of that condition, in lower case because IAM ignores case in keys.
const PRINCIPAL: &str = "aws:principalarn";

/// The effect of a policy on this role and action. Conditions on anything but the role count as not met, except the one
/// that the principal is not an AWS service.
pub fn ask(policy: &str, role: &str, action: &str) -> Effect {
    let Ok(policy) = serde_json::from_str::<Value>(policy) else { return Effect::Nothing };
    let mut effect = Effect::Nothing;
    for statement in list(&policy["Statement"]) {
        if !names(&statement["Action"], action) || !holds(&statement["Condition"], role) {
            continue;
        }
        match statement["Effect"].as_str() {
            Some("Deny") if is_about(&statement["Principal"], role, true) => {
                return Effect::Deny;
            }
            Some("Allow") if is_about(&statement["Principal"], role, false) => {
                effect = Effect::Allow
            }
            _ => {}
        }
    }
    effect
}

/// The policy without the statements that allow everyone one of these actions unconditionally; `None` if there are none
/// of them.
pub fn closed_to_everyone(policy: &str, actions: &[&str]) -> Option<String> {
    let is_open = |statement: &Value| {
        let principal = &statement["Principal"];
        let everyone = principal == "*" || list(&principal["AWS"]).any(|it| it == "*");
        let has_conditions = statement["Condition"].as_object().is_some_and(|it| !it.is_empty());
        let is_about = |action: &&str| names(&statement["Action"], action);
        statement["Effect"] == "Allow"
            && everyone
            && !has_conditions
            && actions.iter().any(is_about)
    };
    without(policy, is_open)
}

/// The policy without some statements; `None` if it has none of them. A policy without statements is empty.
fn without(policy: &str, is_removed: impl Fn(&Value) -> bool) -> Option<String> {
    let mut policy: Value = serde_json::from_str(policy).ok()?;
    let all: Vec<_> = list(&policy["Statement"]).cloned().collect();
    let kept: Vec<_> = all.iter().filter(|it| !is_removed(it)).cloned().collect();
    if kept.len() == all.len() {
        return None;
    }
    let is_empty = kept.is_empty();
    policy["Statement"] = Value::Array(kept);
    Some(if is_empty { String::new() } else { policy.to_string() })
}

/// The policy with this role exempted from the statements that deny all others this action; `None` if it is not JSON.
pub fn exempt(policy: &str, role: &str, action: &str) -> Option<String> {
    change(policy, action, |roles| {
        if !roles.contains(&role.into()) {
            roles.push(role.into());
        }
    })
}

/// The policy without this role's exemption from the statements that deny all others this action.
pub fn unexempt(policy: &str, role: &str, action: &str) -> Option<String> {
    change(policy, action, |roles| {
        // An empty list would deny the action to everyone.
        if roles.len() > 1 {
            roles.retain(|it| it != role);
        }
    })
}

fn change(policy: &str, action: &str, change: impl Fn(&mut Vec<Value>)) -> Option<String> {
    let mut policy: Value = serde_json::from_str(policy).ok()?;
    let statements = policy.get_mut("Statement")?;
    let statements = if statements.is_array() {
        statements.as_array_mut()?.as_mut_slice()
    } else {
        std::slice::from_mut(statements)
    };
    for statement in statements {
        if statement["Effect"] != "Deny" || !names(&statement["Action"], action) {
            continue;
        }
        let Some(conditions) = statement.get_mut("Condition").and_then(Value::as_object_mut) else {
            continue;
        };
        let operators = conditions.iter_mut().filter(|(name, _)| UNLESS.contains(&name.as_str()));
        let keys = operators.filter_map(|(_, keys)| keys.as_object_mut()).flatten();
        for (_, roles) in keys.filter(|(key, _)| key.eq_ignore_ascii_case(PRINCIPAL)) {
            let mut all: Vec<_> = list(roles).cloned().collect();
            change(&mut all);
            *roles = Value::Array(all);
        }
    }
    Some(policy.to_string())
}

/// A service that sends to queues on behalf of a resource.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Service {
    /// S3, for a bucket.
    S3,
    /// EventBridge, for a rule.
    Events,
}

impl Service {
    pub fn principal(self) -> &'static str {
        match self {
            Self::S3 => "s3.amazonaws.com",
            Self::Events => "events.amazonaws.com",
        }
    }

    /// The statement's id by which [`admit`] knows its own.
    fn sid_of(self, arn: &str) -> String {
        let purpose = match self {
            Self::S3 => "records",
            Self::Events => "events",
        };
        let name = arn.rsplit(':').next().unwrap_or_default();
        // SQS allows letters, digits, hyphens and underscores. Names of buckets have dots, and those of rules more.
        let is_good = |it: char| it.is_ascii_alphanumeric() || it == '-';
        let name = name.replace(|it| !is_good(it), "_");
        format!("comeback-{purpose}-{name}")
    }
}

/// Whether a queue's policy lets a service send on behalf of this resource. Conditions on anything but the resource and
/// its account count as met.
pub fn admits(policy: &str, service: Service, source_arn: &str, account: &str) -> bool {
    let Ok(policy) = serde_json::from_str::<Value>(policy) else { return false };
    let is_met = |(key, values): (&String, &Value)| {
        let mut values = list(values).filter_map(Value::as_str);
        match key.to_ascii_lowercase().as_str() {
            "aws:sourcearn" => values.any(|it| pattern::matches(it, source_arn)),
            "aws:sourceaccount" => values.any(|it| it == account),
            _ => true,
        }
    };
    list(&policy["Statement"]).any(|statement| {
        let principal = &statement["Principal"];
        let conditions = statement["Condition"].as_object().into_iter().flatten();
        let mut conditions =
            conditions.flat_map(|(_, keys)| keys.as_object().into_iter().flatten());
        statement["Effect"] == "Allow"
            && (principal == "*" || list(&principal["Service"]).any(|it| it == service.principal()))
            && names(&statement["Action"], "sqs:SendMessage")
            && conditions.all(is_met)
    })
}

/// The policy of the queue with this ARN with a statement that lets a service send on behalf of a resource; `None` if
/// the policy is not JSON.
pub fn admit(
    policy: &str,
    queue_arn: &str,
    service: Service,
    source_arn: &str,
    account: &str,
) -> Option<String> {
    let empty = || json!({ "Version": "2012-10-17", "Statement": [] });
    let mut policy = match policy {
        "" => empty(),
        policy => serde_json::from_str(policy).ok()?,
    };
    let mut all: Vec<_> = list(&policy["Statement"]).cloned().collect();
    all.push(json!({
        "Sid": service.sid_of(source_arn),
        "Effect": "Allow",
        "Principal": { "Service": service.principal() },
        "Action": "sqs:SendMessage",
        "Resource": queue_arn,
        "Condition": {
            "ArnEquals": { "aws:SourceArn": source_arn },
            "StringEquals": { "aws:SourceAccount": account },
        },
    }));
    policy["Statement"] = Value::Array(all);
    Some(policy.to_string())
}

/// The policy without the statement that [`admit`] has added; `None` if it has none.
pub fn unadmit(policy: &str, service: Service, source_arn: &str) -> Option<String> {
    let sid = service.sid_of(source_arn);
    without(policy, |statement| statement["Sid"] == *sid)
}

/// The values of a list, or a single value as a list of one.
fn list(value: &Value) -> std::slice::Iter<'_, Value> {
    let one = if value.is_null() { &[] } else { std::slice::from_ref(value) };
    value.as_array().map_or(one, Vec::as_slice).iter()
}

fn names(actions: &Value, action: &str) -> bool {
    let action = action.to_ascii_lowercase();
    let mut named = list(actions).filter_map(Value::as_str).map(str::to_ascii_lowercase);
    named.any(|it| pattern::matches(&it, &action))
}

/// Whether a statement applies to this role. A wildcard in an `Allow` doesn't count: it may be for other accounts.
fn is_about(principal: &Value, role: &str, is_denial: bool) -> bool {
    if principal == "*" {
        return is_denial;
    }
    let mut named = list(&principal["AWS"]).filter_map(Value::as_str);
    named.any(|it| it == role || (is_denial && it == "*"))
}

fn holds(conditions: &Value, role: &str) -> bool {
    let Some(operators) = conditions.as_object() else { return true };
    operators.iter().all(|(operator, keys)| {
        let mut keys = keys.as_object().into_iter().flatten();
        keys.all(|(key, values)| {
            let mut values = list(values).filter_map(Value::as_str);
            match (operator.as_str(), key.to_ascii_lowercase().as_str()) {
                (operator, PRINCIPAL) if UNLESS.contains(&operator) => {
                    !values.any(|it| pattern::matches(it, role))
                }
                ("BoolIfExists" | "Bool", "aws:principalisawsservice") => {
                    values.any(|it| it == "false")
                }
                _ => false,
            }
        })
    })
}

/// Allows these actions on these resources.
pub fn statement(actions: &[&str], resources: &[&str]) -> Value {
    json!({ "Effect": "Allow", "Action": actions, "Resource": resources })
}

pub fn policy_of(statements: &[Value]) -> String {
    json!({ "Version": "2012-10-17", "Statement": statements }).to_string()
}

#[cfg(test)]
mod tests {
    use super::{
        Effect::{Allow, Deny, Nothing},
        *,
    };

    const ROLE: &str = "arn:aws:iam::123456789012:role/orders";
    const SEND: &str = "sqs:SendMessage";

    fn closed(action: &str, condition: Value) -> String {
        json!({ "Statement": [
            { "Effect": "Deny", "Principal": "*", "Action": "sqs:*", "Condition": { "Bool": { "aws:SecureTransport": "false" } } },
            { "Effect": "Deny", "Principal": { "AWS": "*" }, "Action": action, "Condition": condition },
        ] })
        .to_string()
    }

    #[test]
    fn a_closed_queue_denies_all_roles_that_it_does_not_name() {
        let unless = |roles: Value| json!({ "ArnNotEquals": { "aws:PrincipalArn": roles }, "BoolIfExists": { "aws:PrincipalIsAWSService": "false" } });
        for (policy, expected) in [
            (closed(SEND, unless(json!("arn:aws:iam::123456789012:role/other"))), Deny),
            (closed("SQS:*", unless(json!([]))), Deny),
            (closed(SEND, unless(json!([ROLE]))), Nothing),
            (closed(SEND, unless(json!(["x", "arn:aws:iam::*:role/*"]))), Nothing),
            (closed("sqs:ReceiveMessage", unless(json!("x"))), Nothing),
            (closed(SEND, json!({ "IpAddress": { "aws:SourceIp": "10.0.0.0/8" } })), Nothing),
            ("no JSON".to_owned(), Nothing),
        ] {
            assert_eq!(ask(&policy, ROLE, SEND), expected, "{policy}");
        }
    }

    #[test]
    fn a_queue_may_allow_a_role_by_name_and_a_denial_wins() {
        let allow = |principal: Value| json!({ "Effect": "Allow", "Principal": principal, "Action": [SEND] });
        let deny = json!({ "Effect": "Deny", "Principal": { "AWS": ROLE }, "Action": "sqs:Send*" });
        for (statements, expected) in [
            (vec![allow(json!({ "AWS": ROLE }))], Allow),
            (vec![allow(json!("*"))], Nothing),
            (vec![allow(json!({ "Service": "sns.amazonaws.com" }))], Nothing),
            (vec![allow(json!({ "AWS": [ROLE] })), deny], Deny),
        ] {
            let policy = json!({ "Statement": statements }).to_string();
            assert_eq!(ask(&policy, ROLE, SEND), expected, "{policy}");
        }
    }

    #[test]
    fn a_statement_that_allows_everyone_is_removed_and_no_other() {
        let allow = |principal: Value, action: Value| json!({ "Effect": "Allow", "Principal": principal, "Action": action });
        let role = allow(json!({ "AWS": ROLE }), json!("sqs:*"));
        let mut own_account = allow(json!("*"), json!("sqs:*"));
        own_account["Condition"] =
            json!({ "StringEquals": { "aws:PrincipalAccount": "123456789012" } });
        let document =
            |statements: &[&Value]| json!({ "Version": "x", "Statement": statements }).to_string();
        for (open, others, expected) in [
            (allow(json!("*"), json!("sqs:SendMessage")), vec![], Some(String::new())),
            (
                allow(json!({ "AWS": ["*"] }), json!(["sqs:*"])),
                vec![&role],
                Some(document(&[&role])),
            ),
            (allow(json!("*"), json!("*")), vec![&own_account], Some(document(&[&own_account]))),
            (allow(json!("*"), json!("sqs:GetQueueUrl")), vec![&role, &own_account], None),
            (json!({ "Effect": "Deny", "Principal": "*", "Action": "sqs:*" }), vec![&role], None),
        ] {
            let policy = document(&[&[&open], &*others].concat());
            assert_eq!(closed_to_everyone(&policy, &[SEND]), expected, "{policy}");
        }
    }

    #[test]
    fn a_bucket_is_admitted_by_a_statement_of_its_own_which_is_removed_again() {
        let (queue, account) = ("arn:aws:sqs:us-east-1:123456789012:retry", "123456789012");
        let bucket = "arn:aws:s3:::my.records";
        let role = json!({ "Effect": "Allow", "Principal": { "AWS": ROLE }, "Action": "sqs:*" });
        let others = json!({ "Statement": [role] }).to_string();
        for before in ["", &others] {
            assert!(!admits(before, Service::S3, bucket, account), "{before}");
            let open = admit(before, queue, Service::S3, bucket, account).unwrap();
            assert!(admits(&open, Service::S3, bucket, account), "{open}");
            assert!(!admits(&open, Service::S3, "arn:aws:s3:::other", account), "{open}");
            assert!(!admits(&open, Service::S3, bucket, "210987654321"), "{open}");
            assert_eq!(ask(&open, ROLE, SEND), ask(before, ROLE, SEND));
            assert_eq!(unadmit(&open, Service::S3, bucket).as_deref(), Some(before));
        }
        assert_eq!(admit("no JSON", queue, Service::S3, bucket, account), None);
        assert_eq!(unadmit(&others, Service::S3, bucket), None);
    }

    #[test]
    fn a_queue_admits_a_bucket_for_s3_unless_the_condition_names_another() {
        let allow = |principal: Value, condition: Value| {
            let statement = json!({ "Effect": "Allow", "Principal": principal, "Action": SEND, "Condition": condition });
            json!({ "Statement": statement }).to_string()
        };
        let s3 = || json!({ "Service": ["sns.amazonaws.com", Service::S3.principal()] });
        for (policy, expected) in [
            (allow(s3(), json!({})), true),
            (
                allow(s3(), json!({ "ArnLike": { "AWS:SourceArn": ["arn:aws:s3:*:*:records"] } })),
                true,
            ),
            (allow(s3(), json!({ "StringEquals": { "aws:SourceOrgID": "o-1" } })), true),
            (allow(s3(), json!({ "ArnLike": { "aws:SourceArn": "arn:aws:s3:::mails" } })), false),
            (allow(s3(), json!({ "StringEquals": { "aws:SourceAccount": "1" } })), false),
            (
                allow(
                    json!("*"),
                    json!({ "ArnEquals": { "aws:SourceArn": "arn:aws:s3:::records" } }),
                ),
                true,
            ),
            (allow(json!({ "Service": "sns.amazonaws.com" }), json!({})), false),
            (allow(json!({ "AWS": ROLE }), json!({})), false),
        ] {
            assert_eq!(
                admits(&policy, Service::S3, "arn:aws:s3:::records", "2"),
                expected,
                "{policy}"
            );
        }
    }

    #[test]
    fn a_role_is_exempted_from_a_denial_and_loses_its_exemption() {
        let unless =
            |roles: Value| closed(SEND, json!({ "ArnNotEquals": { "aws:PrincipalArn": roles } }));
        let policy = unless(json!("other"));
        let open = exempt(&policy, ROLE, SEND).unwrap();
        assert_eq!(open, unless(json!(["other", ROLE])));
        assert_eq!((ask(&policy, ROLE, SEND), ask(&open, ROLE, SEND)), (Deny, Nothing));
        assert_eq!(unexempt(&open, ROLE, SEND).unwrap(), unless(json!(["other"])));
        assert_eq!(unexempt(&unless(json!([ROLE])), ROLE, SEND).unwrap(), unless(json!([ROLE])));
        assert_eq!(exempt("no JSON", ROLE, SEND), None);
    }
}
