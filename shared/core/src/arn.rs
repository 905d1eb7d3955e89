//! The ARNs of Lambda functions and SQS queues.

use std::fmt;

/// Lambda's limits for the name and the qualifier of a function.
const NAME_MAX: usize = 64;
const QUALIFIER_MAX: usize = 128;

/// SQS's limit for the name of a queue.
const QUEUE_NAME_MAX: usize = 80;

/// The ARN of a Lambda function, with or without a qualifier, exactly as received.
///
/// `arn:aws:lambda:us-east-1:123456789012:function:orders:$LATEST`
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct FunctionArn {
    text: String,
    name: (usize, usize),
}

impl FunctionArn {
    /// Parses the ARN of a function. The qualifier may be absent, as some emulators omit it. Names that Lambda would
    /// not accept are refused, because ARNs come from a queue that others may write to, and become part of a request's
    /// path.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.as_bytes().splitn(8, |byte| *byte == b':');
        let [b"arn", partition, b"lambda", region, account, b"function", name] =
            [(); 7].map(|()| parts.next().unwrap_or_default())
        else {
            return None;
        };
        let qualifier = parts.next();
        let qualifier_is_good =
            |text: &[u8]| is_name(text.strip_prefix(b"$").unwrap_or(text), QUALIFIER_MAX);
        let whole = is_place(partition, region, account)
            && is_name(name, NAME_MAX)
            && qualifier.is_none_or(qualifier_is_good);
        let start = text.len() - name.len() - qualifier.map_or(0, |text| text.len() + 1);
        whole.then(|| Self { text: text.to_owned(), name: (start, start + name.len()) })
    }

    pub fn name(&self) -> &str {
        &self.text[self.name.0..self.name.1]
    }

    /// The ARN as received, with its qualifier if it has one.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    pub fn unqualified(&self) -> &str {
        &self.text[..self.name.1]
    }

    /// The same function, with the version that Lambda takes if none is named.
    pub(crate) fn qualified(self) -> Self {
        let is_qualified = self.text.len() > self.name.1;
        if is_qualified { self } else { Self { text: format!("{}:$LATEST", self.text), ..self } }
    }

    /// The function's partition, region and account.
    pub fn home(&self) -> Home {
        Home(self.before_name().to_owned())
    }

    pub(crate) fn is_at(&self, home: &Home) -> bool {
        self.before_name() == home.0
    }

    /// The prefix that the ARNs of all functions in its partition, region and account share.
    fn before_name(&self) -> &str {
        &self.text[..self.name.0]
    }
}

impl fmt::Display for FunctionArn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The ARN of a standard queue, exactly as received.
///
/// `arn:aws:sqs:us-east-1:123456789012:imports`
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct QueueArn {
    text: String,
    target_name: String,
}

/// The name of a queue among targets begins with this.
pub const QUEUE_PREFIX: &str = "sqs:";

impl QueueArn {
    /// Parses the ARN of a queue. The name of a FIFO queue ends in `.fifo` and is refused.
    pub fn parse(text: &str) -> Option<Self> {
        let [partition, region, account, name] = queue_parts(text)?;
        let [partition, region, account] = [partition, region, account].map(str::as_bytes);
        let is_good = is_place(partition, region, account) && is_queue_name(name);
        let target_name = || format!("{QUEUE_PREFIX}{name}");
        is_good.then(|| Self { text: text.to_owned(), target_name: target_name() })
    }

    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The home of the functions in its partition, region and account.
    pub fn home(&self) -> Option<Home> {
        let [partition, region, account, _] = queue_parts(&self.text)?;
        Some(Home(format!("arn:{partition}:lambda:{region}:{account}:function:")))
    }

    /// Its name in settings and metrics: `sqs:imports`.
    pub fn target_name(&self) -> &str {
        &self.target_name
    }

    pub fn name(&self) -> &str {
        &self.target_name[QUEUE_PREFIX.len()..]
    }

    pub(crate) fn is_at(&self, home: &Home) -> bool {
        let place = |arn| str::split(arn, ':').enumerate().take(5).filter(|(nth, _)| *nth != 2);
        place(&self.text).eq(place(&home.0))
    }
}

impl fmt::Display for QueueArn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

pub fn is_function_name(text: &str) -> bool {
    is_name(text.as_bytes(), NAME_MAX)
}

fn is_place(partition: &[u8], region: &[u8], account: &[u8]) -> bool {
    let is_account = account.len() == 12 && account.iter().all(u8::is_ascii_digit);
    is_name(partition, NAME_MAX) && is_name(region, NAME_MAX) && is_account
}

fn is_name(text: &[u8], length_max: usize) -> bool {
    let allowed = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_".contains(byte);
    (1..=length_max).contains(&text.len()) && text.iter().all(allowed)
}

pub(crate) fn is_queue_name(text: &str) -> bool {
    is_name(text.as_bytes(), QUEUE_NAME_MAX)
}

pub fn queue_name(arn: &str) -> Option<&str> {
    queue_parts(arn).map(|[.., name]| name)
}

/// The URL of a queue, from its ARN. At a custom endpoint, SQS and its emulators only use the path.
pub fn queue_url(arn: &str) -> Option<String> {
    let [partition, region, account, name] = queue_parts(arn)?;
    Some(format!("https://sqs.{region}.{}/{account}/{name}", domain(partition)))
}

/// Whether a URL is that of the queue with this ARN. At a custom endpoint, only the path of the URL names the queue.
pub fn is_url_of(url: &str, arn: &str) -> bool {
    let Some([_, region, account, name]) = queue_parts(arn) else { return false };
    let is_path = url.ends_with(&format!("/{account}/{name}"));
    let host = url.split('/').nth(2).unwrap_or_default();
    is_path && (!host.starts_with("sqs.") || host.starts_with(&format!("sqs.{region}.")))
}

/// The partition, region, account and name in the ARN of a queue.
fn queue_parts(arn: &str) -> Option<[&str; 4]> {
    let mut parts = arn.split(':');
    let ["arn", partition, "sqs", region, account] =
        [(); 5].map(|()| parts.next().unwrap_or_default())
    else {
        return None;
    };
    let name = parts.next()?;
    parts.next().is_none().then_some([partition, region, account, name])
}

/// The domain of a partition's endpoints, from the AWS SDKs' table of partitions.
fn domain(partition: &str) -> &'static str {
    match partition {
        "aws-cn" => "amazonaws.com.cn",
        "aws-eusc" => "amazonaws.eu",
        "aws-iso" => "c2s.ic.gov",
        "aws-iso-b" => "sc2s.sgov.gov",
        "aws-iso-e" => "cloud.adc-e.uk",
        "aws-iso-f" => "csp.hci.ic.gov",
        _ => "amazonaws.com",
    }
}

/// A partition, region and account. By default, a handler only re-invokes functions in its own account and region.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Home(String);

impl Home {
    /// The account.
    pub fn account(&self) -> &str {
        self.0.split(':').nth(4).unwrap_or_default()
    }

    /// The domain of the endpoints in its partition.
    pub fn domain(&self) -> &'static str {
        domain(self.0.split(':').nth(1).unwrap_or_default())
    }

    /// The queue with this URL, or `None` if it is none of this home's region.
    pub(crate) fn queue(&self, url: &str) -> Option<QueueArn> {
        let mut path = url.rsplit('/');
        let (name, account) = (path.next()?, path.next()?);
        let [partition, region] = [1, 3].map(|nth| self.0.split(':').nth(nth).unwrap_or_default());
        let arn = format!("arn:{partition}:sqs:{region}:{account}:{name}");
        QueueArn::parse(&arn).filter(|_| is_url_of(url, &arn))
    }

    /// The ARN of the function with this name in this home, or `None` if the name is invalid.
    pub fn function(&self, name: &str) -> Option<FunctionArn> {
        FunctionArn::parse(&format!("{}{name}", self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_without_a_version_is_its_latest() {
        let arn = |text: &str| FunctionArn::parse(text).unwrap();
        let orders = "arn:aws:lambda:us-east-1:123456789012:function:orders";
        for qualified in [format!("{orders}:$LATEST"), format!("{orders}:live")] {
            assert_eq!(arn(&qualified).qualified(), arn(&qualified));
        }
        let latest = arn(orders).qualified();
        assert_eq!((latest.as_str(), latest.name()), (&*format!("{orders}:$LATEST"), "orders"));
        assert_eq!(latest.unqualified(), orders);
    }

    #[test]
    fn a_queue_is_known_by_its_url_at_aws_and_elsewhere() {
        let arn = "arn:aws:sqs:us-east-1:123456789012:retry";
        for (url, is_it) in [
            ("https://sqs.us-east-1.amazonaws.com/123456789012/retry", true),
            ("http://127.0.0.1:4700/123456789012/retry", true),
            ("https://sqs.us-east-2.amazonaws.com/123456789012/retry", false),
            ("https://sqs.us-east-1.amazonaws.com/123456789012/retry-2", false),
            ("https://sqs.us-east-1.amazonaws.com/210987654321/retry", false),
        ] {
            assert_eq!(is_url_of(url, arn), is_it, "{url}");
        }
        assert!(!is_url_of("https://sqs.us-east-1.amazonaws.com/1/q", "no ARN"));
    }

    #[test]
    fn only_the_arn_of_a_function_is_taken_apart() {
        let named = |length| {
            format!("arn:aws:lambda:us-east-1:123456789012:function:{}", "n".repeat(length))
        };
        for (text, name) in [
            ("arn:aws:lambda:us-east-1:123456789012:function:orders:$LATEST", Some("orders")),
            ("arn:aws:lambda:us-east-1:123456789012:function:orders", Some("orders")),
            ("arn:aws-cn:lambda:cn-north-1:123456789012:function:lambda:lambda", Some("lambda")),
            (&named(64), Some(&*"n".repeat(64))),
            (&named(65), None),
            ("", None),
            ("orders", None),
            ("arn:aws:lambda:us-east-1:123456789012:function:", None),
            ("arn:aws:lambda:us-east-1:123456789012:layer:orders", None),
            ("arn:aws:sqs:us-east-1:123456789012:orders", None),
            ("arn:aws:lambda:us-east-1:123456789012:function:orders:", None),
            ("arn:aws:lambda:us-east-1:123456789012:function:orders:a:b", None),
            ("arn:aws:lambda::123456789012:function:orders", None),
            ("arn:aws:lambda:us-east-1:1234:function:orders", None),
            ("arn:aws:lambda:us-east-1:123456789012:function:or ders", None),
            ("arn:aws:lambda:us-east-1:123456789012:function:orders/../x", None),
        ] {
            let arn = FunctionArn::parse(text);
            assert_eq!(arn.as_ref().map(FunctionArn::name), name, "{text:?}");
            assert!(
                arn.is_none_or(
                    |arn| arn.as_str() == text && arn.unqualified().ends_with(arn.name())
                )
            );
        }
    }

    #[test]
    fn home_is_the_partition_the_region_and_the_account() {
        let home = |text: &str| {
            FunctionArn::parse(&format!("arn:{text}:function:retry-handler")).unwrap().home()
        };
        let here = home("aws-cn:lambda:cn-north-1:000000000001");
        let sibling = here.function("b").unwrap();
        assert_eq!(sibling.as_str(), "arn:aws-cn:lambda:cn-north-1:000000000001:function:b");
        let queue = QueueArn::parse("arn:aws-cn:sqs:cn-north-1:000000000001:imports").unwrap();
        assert!(sibling.home() == here && sibling.is_at(&here) && queue.is_at(&here));
        for elsewhere in [
            "aws:lambda:cn-north-1:000000000001",
            "aws-cn:lambda:cn-northwest-1:000000000001",
            "aws-cn:lambda:cn-north-1:000000000002",
        ] {
            let there = home(elsewhere);
            assert!(there != here && !sibling.is_at(&there) && !queue.is_at(&there), "{elsewhere}");
        }
    }

    #[test]
    fn the_arn_of_a_standard_queue_is_taken_apart_and_any_other_is_refused() {
        let queue = QueueArn::parse("arn:aws:sqs:us-east-1:123456789012:imports").unwrap();
        assert_eq!((queue.name(), queue.target_name()), ("imports", "sqs:imports"));
        for text in [
            "",
            "sqs:imports",
            "arn:aws:sqs:us-east-1:123456789012:imports.fifo",
            "arn:aws:sqs:us-east-1:123456789012:",
            "arn:aws:sqs:us-east-1:123456789012:imports:x",
            "arn:aws:sqs:us-east-1:1234:imports",
            "arn:aws:sqs::123456789012:imports",
            "arn:aws:sns:us-east-1:123456789012:imports",
            "arn:aws:sqs:us-east-1:123456789012:im*",
        ] {
            assert_eq!(QueueArn::parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn a_queue_url_follows_its_partition() {
        let table = [
            ("arn:aws:sqs:us-east-1:1:q", Some("https://sqs.us-east-1.amazonaws.com/1/q")),
            ("arn:aws-cn:sqs:cn-north-1:1:q", Some("https://sqs.cn-north-1.amazonaws.com.cn/1/q")),
            (
                "arn:aws-us-gov:sqs:us-gov-west-1:1:q",
                Some("https://sqs.us-gov-west-1.amazonaws.com/1/q"),
            ),
            ("arn:aws:sns:us-east-1:1:q", None),
            ("q", None),
        ];
        for (arn, url) in table {
            assert_eq!(queue_url(arn).as_deref(), url, "{arn}");
        }
    }
}
