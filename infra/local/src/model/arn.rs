//! ARNs of queues, and the syntax of names.

pub const ACCOUNT: &str = "000000000000";

pub const REGION: &str = "us-east-1";

pub fn queue_arn(name: &str) -> String {
    format!("arn:aws:sqs:{REGION}:{ACCOUNT}:{name}")
}

/// The queue name in `arn`, or `None` if it is not the ARN of a queue in this account and region.
pub(crate) fn queue_name(arn: &str) -> Option<&str> {
    let rest = arn.strip_prefix("arn:aws:sqs:")?;
    let rest = rest.strip_prefix(REGION)?.strip_prefix(':')?;
    let name = rest.strip_prefix(ACCOUNT)?.strip_prefix(':')?;
    (!name.is_empty() && !name.contains(':')).then_some(name)
}

/// Whether `name` consists of 1 to `max` letters, digits, hyphens and underscores, the syntax of most AWS names.
pub(crate) fn is_name(name: &str, max: usize) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    (1..=max).contains(&name.len()) && name.bytes().all(allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_queues_of_this_account_and_region_have_a_name_here() {
        assert_eq!(queue_arn("q"), "arn:aws:sqs:us-east-1:000000000000:q");
        assert_eq!(queue_name(&queue_arn("q")), Some("q"));
        for arn in [
            "",
            "q",
            "arn:aws:sqs:us-east-1:000000000000:",
            "arn:aws:sqs:us-east-1:000000000000:q:x",
            "arn:aws:sqs:eu-west-1:000000000000:q",
            "arn:aws:sqs:us-east-1:111111111111:q",
            "arn:aws:sns:us-east-1:000000000000:q",
        ] {
            assert_eq!(queue_name(arn), None, "{arn}");
        }
    }
}
