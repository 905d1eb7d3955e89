//! Names and ARNs of functions, queues and roles.

use std::borrow::Cow;

use comeback_core::arn::{QUEUE_PREFIX, QueueArn};

use super::sender::DEFAULT;

pub fn role_name(arn: &str) -> &str {
    arn.rsplit('/').next().unwrap_or(arn)
}

/// The name, which is the last part of an ARN.
pub fn last(arn: &str) -> &str {
    arn.rsplit(':').next().unwrap_or(arn)
}

/// The ARN of a queue, from its name or URL, in the function's region and account. The URL may name another account.
pub fn queue_arn(name_or_url: &str, function_arn: &str) -> String {
    let mut path = name_or_url.rsplit('/');
    let name = path.next().unwrap_or_default();
    let own = function_arn.split(':').collect::<Vec<_>>();
    let part = |index: usize| own.get(index).copied().unwrap_or_default();
    let is_account = |it: &&str| it.len() == 12 && it.bytes().all(|byte| byte.is_ascii_digit());
    let account = path.next().filter(is_account).unwrap_or(part(4));
    format!("arn:{}:sqs:{}:{account}:{name}", part(1), part(3))
}

/// The ARN of a KMS key, in the function's region and account, unless the key is named by an alias.
pub fn key_arn(key: &str, function_arn: &str) -> Option<String> {
    if key.starts_with("alias/") || key.contains(":alias/") {
        return None;
    }
    let home = function_arn.split(":function:").next().unwrap_or_default();
    let home = home.replacen(":lambda:", ":kms:", 1);
    let arn = || format!("{home}:key/{key}");
    Some(if key.starts_with("arn:") { key.to_owned() } else { arn() })
}

/// The ARN of a rule on a bus in the function's region and account.
pub fn rule_arn(function_arn: &str, bus: &str, rule: &str) -> String {
    let home = function_arn.split(":function:").next().unwrap_or_default();
    let home = home.replacen(":lambda:", ":events:", 1);
    if bus == DEFAULT { format!("{home}:rule/{rule}") } else { format!("{home}:rule/{bus}/{rule}") }
}

/// Whether a target's name or ARN is that of a queue.
pub fn is_queue(target: &str) -> bool {
    target.starts_with(QUEUE_PREFIX) || QueueArn::parse(target).is_some()
}

/// The name and the qualifier in a function's ARN, without the qualifier if that is `$LATEST`; the name of a queue as
/// settings have it, such as `sqs:imports`.
pub fn target_name(arn: &str) -> Cow<'_, str> {
    if let Some(queue) = QueueArn::parse(arn) {
        return Cow::Owned(queue.target_name().to_owned());
    }
    let name = arn.splitn(7, ':').nth(6).unwrap_or(arn);
    Cow::Borrowed(name.strip_suffix(":$LATEST").unwrap_or(name))
}

/// What could not deliver an event, by its ARN, for a person: `rule links`, or `schedule default/nightly`.
pub fn source_name(arn: &str) -> String {
    last(arn).replacen('/', " ", 1)
}

/// The name of a function, without a qualifier, from all that Lambda takes for one: the name, a part of the ARN or the
/// ARN, each also with a version or an alias.
pub fn function_name(target: &str) -> &str {
    let name = target.rsplit_once(":function:").map_or(target, |(_, name)| name);
    name.split(':').next().unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_without_an_arn_is_in_the_account_and_region_of_its_handler() {
        let handler = "arn:aws-cn:lambda:cn-north-1:123456789012:function:handler";
        for (name, expected) in [
            ("retry", "arn:aws-cn:sqs:cn-north-1:123456789012:retry"),
            (
                "https://sqs.cn-north-1.amazonaws.com.cn/210987654321/dead",
                "arn:aws-cn:sqs:cn-north-1:210987654321:dead",
            ),
            ("http://127.0.0.1:4700/queue/dead", "arn:aws-cn:sqs:cn-north-1:123456789012:dead"),
        ] {
            assert_eq!(queue_arn(name, handler), expected);
        }
    }
}
