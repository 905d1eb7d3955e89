//! The rules of EventBridge and the schedules of its Scheduler: single signed requests, because two more clients would
//! be large.
//!
//! The target of a rule and a schedule stay JSON, so that whoever changes one member leaves all others as they are.

use comeback_core::arn::{FunctionArn, Home};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use retry_handler::{Failed, Refused, Signer, Unsigned, endpoint};
use serde_json::{Value, json};

use crate::{
    account::fault::{Answer, Fault, with_backoff},
    aws::{Aws, connector, existing, signed},
};

/// The rules and schedules of an account and region.
pub struct Events<'a> {
    aws: &'a Aws,
    signer: Signer,
    home: Home,
}

/// A service: the name by which its requests are signed and its host begins, and that of its setting of an endpoint.
type Service = (&'static str, &'static str);

const EVENTS: Service = ("events", "EventBridge");
const SCHEDULER: Service = ("scheduler", "Scheduler");

impl<'a> Events<'a> {
    /// The rules and schedules in the account and region of a function.
    pub fn beside(aws: &'a Aws, arn: &str) -> Option<Self> {
        let home = FunctionArn::parse(arn)?.home();
        Some(Self { aws, signer: Signer::over(connector(), &aws.config), home })
    }

    pub async fn rule(&self, bus: &str, name: &str) -> Answer<Option<Value>> {
        let request = json!({ "Name": name, "EventBusName": bus });
        existing(self.of_rules("events:DescribeRule", name, &request).await)
    }

    /// The targets of a rule.
    pub async fn targets(&self, bus: &str, rule: &str) -> Answer<Vec<Value>> {
        let request = json!({ "Rule": rule, "EventBusName": bus });
        self.listed("events:ListTargetsByRule", rule, request, "Targets").await
    }

    /// The names of the event buses.
    pub async fn buses(&self) -> Answer<Vec<String>> {
        let buses = self.listed("events:ListEventBuses", "*", json!({}), "EventBuses").await?;
        Ok(buses.iter().filter_map(|it| it["Name"].as_str().map(str::to_owned)).collect())
    }

    /// The names of the rules on a bus that have this target.
    pub async fn rules_to(&self, bus: &str, target: &str) -> Answer<Vec<Value>> {
        let request = json!({ "TargetArn": target, "EventBusName": bus });
        self.listed("events:ListRuleNamesByTarget", target, request, "RuleNames").await
    }

    /// Replaces the target of a rule that has the same id.
    pub async fn set_target(&self, bus: &str, rule: &str, target: &Value) -> Answer<()> {
        const ACTION: &str = "events:PutTargets";
        let request = json!({ "Rule": rule, "EventBusName": bus, "Targets": [target] });
        let answer = self.of_rules(ACTION, rule, &request).await?;
        let Some(failed) = answer["FailedEntries"].get(0) else { return Ok(()) };
        let text = |name: &str| failed[name].as_str().unwrap_or_default();
        Err(Fault::of(ACTION, rule, text("ErrorCode"), text("ErrorMessage")))
    }

    /// All schedules, each with its name, its group and the ARN of its target.
    pub async fn schedules(&self) -> Answer<Vec<Value>> {
        let mut all = Vec::new();
        let mut path = "/schedules?MaxResults=100".to_owned();
        loop {
            let mut page = self.of_schedules("scheduler:ListSchedules", "*", "GET", &path).await?;
            all.extend(list(&mut page, "Schedules"));
            let Some(token) = page["NextToken"].as_str() else { return Ok(all) };
            let token = utf8_percent_encode(token, NON_ALPHANUMERIC);
            path = format!("/schedules?MaxResults=100&NextToken={token}");
        }
    }

    pub async fn schedule(&self, group: &str, name: &str) -> Answer<Option<Value>> {
        let path = format!("/schedules/{name}?groupName={group}");
        existing(self.of_schedules("scheduler:GetSchedule", name, "GET", &path).await)
    }

    /// Replaces a schedule as a whole.
    pub async fn set_schedule(&self, name: &str, schedule: &Value) -> Answer<()> {
        let path = format!("/schedules/{name}");
        let body = schedule.to_string();
        let headers = [("content-type", "application/json")];
        let put =
            self.call(SCHEDULER, "scheduler:UpdateSchedule", name, &path, "PUT", &headers, &body);
        put.await.map(drop)
    }

    async fn listed(
        &self,
        action: &'static str,
        resource: &str,
        mut request: Value,
        member: &str,
    ) -> Answer<Vec<Value>> {
        let mut all = Vec::new();
        loop {
            let mut page = self.of_rules(action, resource, &request).await?;
            all.extend(list(&mut page, member));
            let token = page["NextToken"].take();
            if token.is_null() {
                return Ok(all);
            }
            request["NextToken"] = token;
        }
    }

    async fn of_rules(
        &self,
        action: &'static str,
        resource: &str,
        request: &Value,
    ) -> Answer<Value> {
        let operation = action.replacen("events:", "AWSEvents.", 1);
        let headers =
            [("content-type", "application/x-amz-json-1.1"), ("x-amz-target", &*operation)];
        self.call(EVENTS, action, resource, "/", "POST", &headers, &request.to_string()).await
    }

    async fn of_schedules(
        &self,
        action: &'static str,
        resource: &str,
        method: &str,
        path: &str,
    ) -> Answer<Value> {
        self.call(SCHEDULER, action, resource, path, method, &[], "").await
    }

    #[allow(clippy::too_many_arguments, reason = "the parts of a request")]
    async fn call(
        &self,
        (service, service_id): Service,
        action: &'static str,
        resource: &str,
        path: &str,
        method: &str,
        headers: &[(&'static str, &str)],
        body: &str,
    ) -> Answer<Value> {
        let fips = if self.aws.config.use_fips() == Some(true) { "-fips" } else { "" };
        let own = || format!("https://{service}{fips}.{}.{}", self.aws.region, self.home.domain());
        let endpoint = endpoint(&self.aws.config, service_id).unwrap_or_else(own);
        let url = format!("{}{path}", endpoint.trim_end_matches('/'));
        let ask = || async {
            let unsigned = Unsigned { method, url: &url, headers, body: body.as_bytes() };
            let (status, error_type, text) = self.signer.ask(service, &unsigned).await?;
            read(status, error_type.as_deref(), &text)
        };
        let call = || self.aws.call(signed::within(self.aws, action, resource, ask()));
        with_backoff(self.aws, call).await
    }
}

fn list(page: &mut Value, member: &str) -> Vec<Value> {
    serde_json::from_value(page[member].take()).unwrap_or_default()
}

/// What an answer says. The code of a refusal is in a header or in the body, behind a namespace or before a URL.
fn read(status: u16, error_type: Option<&str>, text: &str) -> Result<Value, Failed> {
    let body: Option<Value> =
        if text.is_empty() { Some(Value::Null) } else { serde_json::from_str(text).ok() };
    if (200..300).contains(&status) {
        return body.ok_or_else(|| Failed::Broken("the answer is no JSON".to_owned()));
    }
    let body = body.unwrap_or_default();
    let member = |name: &str| body[name].as_str();
    let code = error_type.or_else(|| member("__type")).or_else(|| member("code"));
    let code = code.map(|code| code.split(':').next().unwrap_or(code));
    let code = code.map(|code| code.rsplit('#').next().unwrap_or(code).to_owned());
    let message = member("message").or_else(|| member("Message")).map(str::to_owned);
    Err(Failed::Refused(Refused { status, code, message }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_code_of_a_refusal_is_in_a_header_or_in_the_body() {
        let code = |error_type, text| match read(400, error_type, text) {
            Err(Failed::Refused(Refused { code, message, .. })) => (code, message),
            other => panic!("{other:?}"),
        };
        let named = |code: &str| (Some(code.to_owned()), Some("no".to_owned()));
        for (error_type, text, expected) in [
            (
                None,
                r#"{"__type":"ResourceNotFoundException","message":"no"}"#,
                "ResourceNotFoundException",
            ),
            (
                None,
                r#"{"__type":"com.amazon.coral#AccessDeniedException","Message":"no"}"#,
                "AccessDeniedException",
            ),
            (Some("ConflictException:http://x/"), r#"{"Message":"no"}"#, "ConflictException"),
        ] {
            assert_eq!(code(error_type, text), named(expected));
        }
        assert_eq!(code(None, "<html>"), (None, None));
        assert_eq!(read(200, None, "").unwrap(), Value::Null);
        assert!(read(200, None, "<html>").is_err());
    }
}
