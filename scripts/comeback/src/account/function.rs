//! A function, as Lambda describes it.

use std::{collections::BTreeMap, time::Duration};

use comeback_core::{
    arn::{FunctionArn, QUEUE_PREFIX},
    settings::{BadSettings, Settings},
};

use crate::account::{
    fault::Answer,
    names::{last, queue_arn, role_name},
};

/// A function that has this setting is a retry handler.
pub const DEAD_LETTER_QUEUE_URL: &str = "DEAD_LETTER_QUEUE_URL";

/// A function, as Lambda lists it.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Function {
    /// Its ARN, without a qualifier.
    pub arn: String,
    pub role: String,
    /// Its environment variables, which are the settings of a retry handler.
    pub environment: BTreeMap<String, String>,
    /// Its runtime. A container image has none.
    pub runtime: Option<String>,
    pub architecture: String,
    pub timeout: Duration,
    /// Whether it reaches the network through subnets of a VPC.
    pub in_vpc: bool,
    /// The SHA-256 of its code, in base64.
    pub code: String,
    pub dead_letter_target: Option<String>,
    pub log_group: String,
    /// Lambda's revision id, which changes with every update of the function.
    pub revision: Option<String>,
    /// Why its events can't be retried, if it is of such a kind. With tenant isolation, a setting makes it possible.
    pub unsupported: Option<Unsupported>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Unsupported {
    #[error(
        "it has tenant isolation (TenancyConfig), and Lambda refuses a retry without a tenant id; set the handler's TENANT_ID, or that of the function in POLICIES, to the place of the tenant id in its payload, such as /tenant/id"
    )]
    TenantIsolation,
    #[error(
        "it is a durable function (DurableConfig), whose failures Lambda sends to no destination; let its steps retry, or make the retry queue its own dead-letter queue, name it in the handler's DLQ_TARGET, and set DURABLE to true"
    )]
    Durable,
}

impl Function {
    /// Its settings, parsed as the handler does it.
    pub fn settings(&self) -> Result<Settings, BadSettings> {
        Settings::from_lookup(|name| self.environment.get(name).cloned())
    }

    /// Why its events can't be retried by a handler with these settings.
    pub fn unsupported_by(&self, settings: Option<&Settings>) -> Option<Unsupported> {
        let has_tenants = |it: &Settings| it.rules.policies.of(self.name()).tenant_id.is_some();
        let is_solved =
            |it| it == Unsupported::TenantIsolation && settings.is_some_and(has_tenants);
        self.unsupported.filter(|it| !is_solved(*it))
    }

    pub fn name(&self) -> &str {
        last(&self.arn)
    }

    pub fn role_name(&self) -> &str {
        role_name(&self.role)
    }

    /// The URL of its dead-letter queue, if it is a retry handler.
    pub fn dead_letter_queue_url(&self) -> Option<&str> {
        self.environment.get(DEAD_LETTER_QUEUE_URL).map(String::as_str)
    }

    /// The ARN of a function, from its name or ARN, or of a queue, from `sqs:NAME`. A name refers to this function's
    /// own account and region.
    pub fn arn_of(&self, function: &str) -> String {
        if let Some(queue) = function.strip_prefix(QUEUE_PREFIX) {
            return queue_arn(queue, &self.arn);
        }
        match self.arn.rsplit_once(':') {
            Some((home, _)) if !function.starts_with("arn:") => format!("{home}:{function}"),
            _ => function.to_owned(),
        }
    }

    /// The name or ARN of its ledger table, if it has a ledger.
    pub fn ledger(&self) -> Option<&str> {
        let table = self.environment.get("LEDGER_TABLE").map(|table| table.trim());
        table.filter(|table| !table.is_empty())
    }

    /// The ARN of its ledger table, if it has a ledger.
    pub fn ledger_arn(&self) -> Option<String> {
        let table = self.ledger()?;
        if table.starts_with("arn:") {
            return Some(table.to_owned());
        }
        let home = self.arn.split(":function:").next().unwrap_or_default();
        Some(format!("{}:table/{table}", home.replacen(":lambda:", ":dynamodb:", 1)))
    }

    /// The ARN of the function that messages of its own dead-letter queue belong to, if the handler retries those.
    pub fn dlq_target(&self) -> Option<FunctionArn> {
        self.settings().ok()?.rules.dlq_target?.at(&FunctionArn::parse(&self.arn)?.home())
    }

    /// The ledger table if it has a register, which is kept in the ledger table.
    pub fn register(&self) -> Option<&str> {
        let is_on = self.environment.get("REGISTER").is_some_and(|value| value.trim() == "true");
        self.ledger().filter(|_| is_on)
    }
}

/// The facts about a function that take separate calls.
#[derive(Clone, Debug)]
pub struct Running {
    pub state: Answer<State>,
    pub may_loop: Answer<bool>,
    pub reserved: Answer<Option<u32>>,
}

#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct State {
    /// `Active`, `Pending`, `Inactive` or `Failed`.
    pub state: String,
    pub reason: Option<String>,
    pub failed_update: Option<String>,
}

#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct InvokeConfig {
    /// The alias or version that it applies to; `None` is the function itself.
    pub qualifier: Option<String>,
    pub retries: Option<u32>,
    /// The age at which Lambda drops an event.
    pub age_max: Option<Duration>,
    pub on_failure: Option<String>,
    pub on_success: Option<String>,
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// A function with this name and its own role.
    pub fn function(name: &str) -> Function {
        Function {
            arn: format!("arn:aws:lambda:us-east-1:123456789012:function:{name}"),
            role: format!("arn:aws:iam::123456789012:role/service/{name}-role"),
            runtime: Some("nodejs24.x".to_owned()),
            architecture: "x86_64".to_owned(),
            timeout: Duration::from_secs(30),
            ..Function::default()
        }
    }

    pub fn with(name: &str, variable: &str, value: &str) -> Function {
        let environment = BTreeMap::from([(variable.to_owned(), value.to_owned())]);
        Function { environment, ..function(name) }
    }

    #[test]
    fn a_name_means_a_function_beside_the_handler() {
        let mut handler = with("retries", "LEDGER_TABLE", "table");
        for (name, expected) in [
            ("orders", "arn:aws:lambda:us-east-1:123456789012:function:orders"),
            ("orders:live", "arn:aws:lambda:us-east-1:123456789012:function:orders:live"),
            ("sqs:imports", "arn:aws:sqs:us-east-1:123456789012:imports"),
            (
                "arn:aws-cn:lambda:cn-north-1:2:function:a",
                "arn:aws-cn:lambda:cn-north-1:2:function:a",
            ),
        ] {
            assert_eq!(handler.arn_of(name), expected);
        }
        assert_eq!(handler.register(), None, "REGISTER is not set");
        handler.environment.insert("REGISTER".to_owned(), "true".to_owned());
        assert_eq!(handler.register(), Some("table"));
    }
}
