//! The retry systems of an account and a region.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use comeback_core::{
    arn::{QUEUE_PREFIX, QueueArn},
    settings::Settings,
};

use crate::operate::doctor::rules::queue_arn;

/// A function that has this setting is a retry handler.
const DEAD_LETTER_QUEUE_URL: &str = "DEAD_LETTER_QUEUE_URL";

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
    pub layers: Vec<String>,
    /// The SHA-256 of its code, in base64.
    pub code: String,
    /// Its own dead-letter queue or topic.
    pub dead_letter_target: Option<String>,
    pub log_group: String,
    /// Lambda's revision id, which changes with every update of the function.
    pub revision: Option<String>,
    /// Why its events can't be retried, if it is of such a kind. With tenant isolation, a setting makes it possible.
    pub unsupported: Option<Unsupported>,
}

/// A kind of function whose events can't be retried.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Unsupported {
    /// A function with `TenancyConfig`.
    #[error(
        "it has tenant isolation (TenancyConfig), and Lambda refuses a retry without a tenant id; set the handler's TENANT_ID, or that of the function in POLICIES, to the place of the tenant id in its payload, such as /tenant/id"
    )]
    TenantIsolation,
    /// A function with `DurableConfig`.
    #[error(
        "it is a durable function (DurableConfig), whose failures Lambda sends to no destination; let its steps retry, or make the retry queue its own dead-letter queue, name it in the handler's DLQ_TARGET, and set DURABLE to true"
    )]
    Durable,
}

impl Function {
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

    /// The same if it has a register, which is kept in the ledger table.
    pub fn register(&self) -> Option<&str> {
        let is_on = self.environment.get("REGISTER").is_some_and(|value| value.trim() == "true");
        self.ledger().filter(|_| is_on)
    }
}

/// The name of a role, from its ARN.
pub fn role_name(arn: &str) -> &str {
    arn.rsplit('/').next().unwrap_or(arn)
}

/// The name, which is the last part of an ARN.
pub fn last(arn: &str) -> &str {
    arn.rsplit(':').next().unwrap_or(arn)
}

/// Why no single retry system or dead-letter queue could be chosen.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum NoSystem {
    /// No function is a retry handler.
    #[error(
        "there is no retry system: none of {functions} functions has DEAD_LETTER_QUEUE_URL; is this the right region?"
    )]
    None { functions: usize },
    /// The named function is not a retry handler, or does not exist.
    #[error(
        "{0} is no retry handler: there is no function of this name with DEAD_LETTER_QUEUE_URL"
    )]
    NotHandler(String),
    /// Several handlers match; these are their names.
    #[error("there are several retry systems, those of {}; choose one with --handler", .0.join(", "))]
    Several(Vec<String>),
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

pub fn handlers(functions: &[Function]) -> impl Iterator<Item = &Function> {
    functions.iter().filter(|function| function.dead_letter_queue_url().is_some())
}

/// The retry handler with this name, or the only one if no name is given.
pub fn only(functions: &[Function], handler: Option<&str>) -> Result<Function, NoSystem> {
    match named(functions, handler)?[..] {
        [handler] => Ok(handler.clone()),
        ref several => Err(self::several(several)),
    }
}

/// The URL of the dead-letter queue of this handler. Without a name, all handlers must share one queue.
pub fn dead_letter_queue(
    functions: &[Function],
    handler: Option<&str>,
) -> Result<String, NoSystem> {
    let handlers = named(functions, handler)?;
    let urls: BTreeSet<_> = handlers.iter().filter_map(|it| it.dead_letter_queue_url()).collect();
    if urls.len() == 1 { Ok(urls.into_iter().collect()) } else { Err(several(&handlers)) }
}

/// The retry handlers with this name, or all of them if no name is given: at least one.
pub fn named<'a>(
    functions: &'a [Function],
    handler: Option<&str>,
) -> Result<Vec<&'a Function>, NoSystem> {
    let is_meant = |it: &&Function| handler.is_none_or(|handler| handler == it.name());
    let handlers: Vec<_> = handlers(functions).filter(is_meant).collect();
    match handler {
        _ if !handlers.is_empty() => Ok(handlers),
        Some(handler) => Err(NoSystem::NotHandler(handler.to_owned())),
        None => Err(NoSystem::None { functions: functions.len() }),
    }
}

fn several(handlers: &[&Function]) -> NoSystem {
    NoSystem::Several(handlers.iter().map(|handler| handler.name().to_owned()).collect())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A function with this name and its own role.
    pub(crate) fn function(name: &str) -> Function {
        Function {
            arn: format!("arn:aws:lambda:us-east-1:123456789012:function:{name}"),
            role: format!("arn:aws:iam::123456789012:role/service/{name}-role"),
            runtime: Some("nodejs24.x".to_owned()),
            timeout: Duration::from_secs(30),
            ..Function::default()
        }
    }

    fn with(name: &str, variable: &str, value: &str) -> Function {
        let environment = BTreeMap::from([(variable.to_owned(), value.to_owned())]);
        Function { environment, ..function(name) }
    }

    #[test]
    fn the_only_queue_is_found_and_of_several_one_must_be_named() {
        let orders = with("orders", "TABLE", "t");
        let handler = |name, url| with(name, DEAD_LETTER_QUEUE_URL, url);
        let [a, b, c] = [handler("a", "url-1"), handler("b", "url-2"), handler("c", "url-1")];
        let found = |functions: &[&Function], handler| {
            let functions: Vec<_> = functions.iter().map(|&it| it.clone()).collect();
            dead_letter_queue(&functions, handler)
        };
        let url = |url: &str| Ok(url.to_owned());
        assert_eq!(found(&[&orders, &a], None), url("url-1"));
        assert_eq!(found(&[&a, &c], None), url("url-1"), "two handlers of one queue");
        assert_eq!(found(&[&a, &b, &c], Some("b")), url("url-2"));
        assert_eq!(found(&[&orders], None), Err(NoSystem::None { functions: 1 }));
        assert_eq!(
            found(&[&orders, &a], Some("orders")),
            Err(NoSystem::NotHandler("orders".into()))
        );
        let several = found(&[&a, &b], None).unwrap_err().to_string();
        assert!(several.contains("those of a, b; choose one with --handler"), "{several}");
        let system = |functions: &[Function], handler| {
            only(functions, handler).map(|it| it.name().to_owned())
        };
        assert_eq!(system(&[orders, a.clone()], None), Ok("a".to_owned()));
        assert_eq!(system(&[a.clone(), c.clone()], Some("c")), Ok("c".to_owned()));
        assert!(matches!(system(&[a, c], None), Err(NoSystem::Several(_))));
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
