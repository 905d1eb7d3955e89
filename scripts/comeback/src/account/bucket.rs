//! A bucket with failure records, as S3 describes it.

use std::time::Duration;

use comeback_core::{
    notice::{PREFIX, STREAM_PREFIX},
    pattern,
};
use quick_xml::de;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::account::{
    fault::Answer,
    notifications::{Notification, Notifications},
    policy::statement,
    setup::ACTIONS_TO_PUT,
};

/// A lifecycle counts in days.
const DAY: Duration = Duration::from_hours(24);

#[derive(Clone, Debug)]
pub struct Bucket {
    pub name: String,
    /// `None` if there is no such bucket.
    pub notifications: Answer<Option<Notifications>>,
    pub rules: Answer<Vec<Rule>>,
    /// Whether all four of its settings block public access.
    pub blocks_public: Answer<bool>,
    pub policy: Answer<Option<String>>,
    /// The KMS key that encrypts new objects, as the bucket names it.
    pub key: Answer<Option<String>>,
}

impl Bucket {
    pub fn arn(&self, home_arn: &str) -> String {
        bucket_arn(&self.name, home_arn)
    }

    /// The notifications of records to queues.
    pub fn told(&self) -> impl Iterator<Item = &Notification> {
        let all = self.notifications.iter().flatten().flat_map(Notifications::sent);
        all.filter(|it| it.is_to_queue() && it.overlaps(PREFIX))
    }
}

/// The ARN of a bucket, in the partition of the function or queue with this ARN.
pub fn bucket_arn(name: &str, home_arn: &str) -> String {
    let partition = home_arn.split(':').nth(1).unwrap_or("aws");
    format!("arn:{partition}:s3:::{name}")
}

/// The name of the bucket with this ARN.
pub fn bucket_name(arn: &str) -> Option<&str> {
    arn.split_once(":s3:::").map(|(_, name)| name)
}

/// What the keys of a function's records begin with.
pub fn prefix_of(function: &str) -> String {
    format!("{PREFIX}{function}/")
}

/// What the keys of the records of a stream's mapping begin with.
pub fn prefix_of_stream(mapping: &str) -> String {
    format!("{STREAM_PREFIX}{mapping}/")
}

/// All objects of a bucket. Others report that Lambda accepts a bucket as a destination only if the function's role may
/// put objects under every key.
pub fn everything_in(bucket_arn: &str) -> String {
    format!("{bucket_arn}/*")
}

/// What lets the role of the function with this ARN put its records into the bucket with this ARN.
pub fn statements_to_put(bucket_arn: &str, function_arn: &str) -> [Value; 2] {
    let [put, list] = ACTIONS_TO_PUT;
    let account = function_arn.split(':').nth(4).unwrap_or_default();
    // Once a bucket is deleted, anybody can take its name.
    let in_account = |action: &str, resource: &str| {
        let mut statement = statement(&[action], &[resource]);
        statement["Condition"] = json!({ "StringEquals": { "s3:ResourceAccount": account } });
        statement
    };
    [in_account(put, &everything_in(bucket_arn)), in_account(list, bucket_arn)]
}

/// The ARN of all records of a function in the bucket with this ARN.
pub fn records_of(bucket_arn: &str, function: &str) -> String {
    format!("{bucket_arn}/{}*", prefix_of(function))
}

/// The ARN of all records of a stream's mapping in the bucket with this ARN.
pub fn records_of_stream(bucket_arn: &str, mapping: &str) -> String {
    format!("{bucket_arn}/{}*", prefix_of_stream(mapping))
}

/// A rule of a bucket's lifecycle that deletes objects.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Rule {
    pub id: String,
    pub prefix: String,
    /// How long it keeps an object. A rule with a date keeps none after that day.
    pub keeps: Duration,
    /// Whether it is about objects with certain tags or of certain sizes only.
    pub is_partial: bool,
}

impl Rule {
    /// Whether it may delete records.
    pub fn may_delete(&self) -> bool {
        self.prefix.starts_with(PREFIX) || PREFIX.starts_with(&self.prefix)
    }

    /// Whether it deletes all records some day.
    pub fn deletes_all(&self) -> bool {
        PREFIX.starts_with(&self.prefix) && !self.is_partial
    }
}

#[derive(Deserialize)]
struct Lifecycle {
    #[serde(rename = "Rule", default)]
    rules: Vec<WrittenRule>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct WrittenRule {
    #[serde(rename = "ID", default)]
    id: String,
    #[serde(default)]
    status: String,
    /// Where older rules have it.
    prefix: Option<String>,
    filter: Option<WrittenFilter>,
    expiration: Option<Expiration>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct WrittenFilter {
    prefix: Option<String>,
    tag: Option<Present>,
    object_size_greater_than: Option<Present>,
    object_size_less_than: Option<Present>,
    and: Option<Box<WrittenFilter>>,
}

/// An element whose content doesn't matter here.
#[derive(Deserialize)]
struct Present {}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Expiration {
    days: Option<u64>,
    date: Option<String>,
}

impl WrittenFilter {
    fn prefix(&self) -> Option<&String> {
        self.prefix.as_ref().or_else(|| self.and.as_ref()?.prefix())
    }

    fn is_partial(&self) -> bool {
        let sizes = [&self.object_size_greater_than, &self.object_size_less_than];
        self.tag.is_some()
            || sizes.into_iter().any(Option::is_some)
            || self.and.as_ref().is_some_and(|it| it.is_partial())
    }
}

/// The enabled rules of a lifecycle that delete objects.
pub fn rules(xml: &str) -> Result<Vec<Rule>, String> {
    let lifecycle: Lifecycle = de::from_str(xml).map_err(|error| error.to_string())?;
    let rule = |it: WrittenRule| {
        let Expiration { days, date } = it.expiration.filter(|_| it.status == "Enabled")?;
        let days = days.or_else(|| date.map(|_| 0))?;
        let filter = it.filter.unwrap_or_default();
        Some(Rule {
            id: it.id,
            prefix: filter.prefix().cloned().or(it.prefix).unwrap_or_default(),
            keeps: DAY.saturating_mul(u32::try_from(days).unwrap_or(u32::MAX)),
            is_partial: filter.is_partial(),
        })
    };
    Ok(lifecycle.rules.into_iter().filter_map(rule).collect())
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", default)]
#[derive(Default)]
struct PublicAccessBlock {
    block_public_acls: bool,
    ignore_public_acls: bool,
    block_public_policy: bool,
    restrict_public_buckets: bool,
}

/// Whether a configuration blocks all public access.
pub fn blocks_public(xml: &str) -> Result<bool, String> {
    let it: PublicAccessBlock = de::from_str(xml).map_err(|error| error.to_string())?;
    Ok(it.block_public_acls
        && it.ignore_public_acls
        && it.block_public_policy
        && it.restrict_public_buckets)
}

#[derive(Deserialize)]
struct Encryption {
    #[serde(rename = "Rule", default)]
    rules: Vec<EncryptionRule>,
}

#[derive(Deserialize)]
struct EncryptionRule {
    #[serde(rename = "ApplyServerSideEncryptionByDefault")]
    default: Option<ByDefault>,
}

#[derive(Deserialize)]
struct ByDefault {
    #[serde(rename = "KMSMasterKeyID")]
    key: Option<String>,
}

/// The KMS key in an encryption configuration.
pub fn key(xml: &str) -> Result<Option<String>, String> {
    let it: Encryption = de::from_str(xml).map_err(|error| error.to_string())?;
    Ok(it.rules.into_iter().find_map(|rule| rule.default?.key))
}

/// Whether a bucket's policy denies requests without TLS to everyone.
pub fn demands_tls(policy: &str) -> bool {
    let policy: Value = serde_json::from_str(policy).unwrap_or_default();
    let statements = &policy["Statement"];
    let one = std::slice::from_ref(statements);
    let demands = |statement: &Value| {
        let mut condition = statement["Condition"]["Bool"].as_object().into_iter().flatten();
        let is_plain = |(key, value): (&String, &Value)| {
            key.eq_ignore_ascii_case("aws:SecureTransport")
                && (value == "false" || value == &Value::Bool(false) || value[0] == "false")
        };
        let actions = &statement["Action"];
        let actions = actions.as_array().map_or(std::slice::from_ref(actions), Vec::as_slice);
        let mut actions = actions.iter().filter_map(Value::as_str);
        statement["Effect"] == "Deny"
            && (statement["Principal"] == "*" || statement["Principal"]["AWS"] == "*")
            && actions.any(|it| pattern::matches(&it.to_ascii_lowercase(), "s3:getobject"))
            && condition.any(is_plain)
    };
    statements.as_array().map_or(one, Vec::as_slice).iter().any(demands)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn day(days: u64) -> Duration {
        Duration::from_hours(24 * days)
    }

    #[test]
    fn only_enabled_rules_that_delete_count_and_a_prefix_may_stand_in_three_places() {
        let lifecycle = r#"<?xml version="1.0"?>
            <LifecycleConfiguration xmlns="http://s3.amazonaws.com/doc/2006-03-01/">
              <Rule><ID>all</ID><Filter/><Status>Enabled</Status><Expiration><Days>30</Days></Expiration></Rule>
              <Rule><ID>old</ID><Prefix>aws/</Prefix><Status>Enabled</Status><Expiration><Days>40</Days></Expiration></Rule>
              <Rule><ID>own</ID><Filter><Prefix>aws/lambda/async/orders/</Prefix></Filter><Status>Enabled</Status>
                <Expiration><Days>1</Days></Expiration></Rule>
              <Rule><ID>and</ID><Filter><And><Prefix>aws/</Prefix><Tag><Key>a</Key><Value>b</Value></Tag></And></Filter>
                <Status>Enabled</Status><Expiration><Date>2026-01-01T00:00:00Z</Date></Expiration></Rule>
              <Rule><ID>off</ID><Filter/><Status>Disabled</Status><Expiration><Days>1</Days></Expiration></Rule>
              <Rule><ID>parts</ID><Filter/><Status>Enabled</Status>
                <AbortIncompleteMultipartUpload><DaysAfterInitiation>1</DaysAfterInitiation></AbortIncompleteMultipartUpload></Rule>
              <Rule><ID>elsewhere</ID><Filter><Prefix>logs/</Prefix></Filter><Status>Enabled</Status>
                <Expiration><Days>1</Days></Expiration></Rule>
            </LifecycleConfiguration>"#;
        let read = rules(lifecycle).unwrap();
        let seen: Vec<_> = read
            .iter()
            .map(|it| (it.id.as_str(), it.keeps, it.may_delete(), it.deletes_all()))
            .collect();
        let expected = [
            ("all", day(30), true, true),
            ("old", day(40), true, true),
            ("own", day(1), true, false),
            ("and", day(0), true, false),
            ("elsewhere", day(1), false, false),
        ];
        assert_eq!(seen, expected);
        assert!(rules("{}").is_err());
    }

    #[test]
    fn public_access_is_blocked_if_all_four_settings_do_it() {
        let block = |fourth: &str| {
            format!(
                "<PublicAccessBlockConfiguration><BlockPublicAcls>true</BlockPublicAcls><IgnorePublicAcls>true\
                 </IgnorePublicAcls><BlockPublicPolicy>true</BlockPublicPolicy>{fourth}</PublicAccessBlockConfiguration>"
            )
        };
        let restrict =
            |value: &str| block(&format!("<RestrictPublicBuckets>{value}</RestrictPublicBuckets>"));
        for (xml, expected) in
            [(restrict("true"), true), (restrict("false"), false), (block(""), false)]
        {
            assert_eq!(blocks_public(&xml), Ok(expected), "{xml}");
        }
    }

    #[test]
    fn a_bucket_may_have_a_key_of_its_own() {
        let encryption = |key: &str| {
            format!(
                "<ServerSideEncryptionConfiguration><Rule><ApplyServerSideEncryptionByDefault><SSEAlgorithm>x\
                 </SSEAlgorithm>{key}</ApplyServerSideEncryptionByDefault><BucketKeyEnabled>true</BucketKeyEnabled>\
                 </Rule></ServerSideEncryptionConfiguration>"
            )
        };
        let own = encryption("<KMSMasterKeyID>arn:aws:kms:x:1:key/2</KMSMasterKeyID>");
        assert_eq!(key(&own), Ok(Some("arn:aws:kms:x:1:key/2".to_owned())));
        assert_eq!(key(&encryption("")), Ok(None));
    }

    #[test]
    fn a_policy_demands_tls_by_a_denial_for_everyone() {
        let policy = |effect: &str, principal: &str, action: &str, value: &str| {
            format!(
                r#"{{"Statement":[{{"Effect":"{effect}","Principal":{principal},"Action":{action},
                "Resource":"*","Condition":{{"Bool":{{"aws:SecureTransport":{value}}}}}}}]}}"#
            )
        };
        for (policy, expected) in [
            (policy("Deny", r#""*""#, r#""s3:*""#, r#""false""#), true),
            (policy("Deny", r#"{"AWS":"*"}"#, r#"["s3:Get*"]"#, "false"), true),
            (policy("Deny", r#""*""#, r#""s3:PutObject""#, r#""false""#), false),
            (policy("Allow", r#""*""#, r#""s3:*""#, r#""false""#), false),
            (policy("Deny", r#"{"AWS":"1"}"#, r#""s3:*""#, r#""false""#), false),
            (policy("Deny", r#""*""#, r#""s3:*""#, r#""true""#), false),
            (String::new(), false),
        ] {
            assert_eq!(demands_tls(&policy), expected, "{policy}");
        }
    }

    #[test]
    fn a_bucket_is_known_by_its_name_and_its_arn() {
        let arn = bucket_arn("records", "arn:aws-cn:lambda:cn-north-1:1:function:handler");
        assert_eq!(arn, "arn:aws-cn:s3:::records");
        assert_eq!(bucket_name(&arn), Some("records"));
        assert_eq!(bucket_name("arn:aws:sqs:us-east-1:1:records"), None);
        assert_eq!(records_of(&arn, "orders"), "arn:aws-cn:s3:::records/aws/lambda/async/orders/*");
    }
}
