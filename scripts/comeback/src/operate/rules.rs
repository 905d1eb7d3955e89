//! The rules that several commands share: what a retry system is, how a call fails, which events a filter means, and
//! the lines that describe a plan or its results, on a terminal and on the live page.
//!
//! A module named `rules` reads no clock, environment or network, and writes to no terminal: a command fetches the
//! facts and shows the results. `tests/rooms` checks that no such module uses tokio, an SDK or a module that isn't a
//! rule.

pub mod life;
pub mod policies;
pub mod slips;

use std::{
    borrow::Cow,
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use comeback_core::{
    Timestamp,
    arn::{FunctionArn, QUEUE_PREFIX, QueueArn},
    error_type,
    fault::{FaultKind, classify},
    pattern,
    settings::{BadSettings, Settings},
    target::Target,
};

use crate::operate::rules::slips::not_empty;

/// The waits in seconds between the tries of a call that fails with a transient fault.
const BACKOFF: [u64; 5] = [1, 2, 4, 8, 16];

pub trait Clock {
    fn now(&self) -> Timestamp;

    fn sleep(&self, duration: Duration) -> impl Future<Output = ()>;
}

#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{action} on {resource} failed: {}{message}{}", code.as_ref().map(|code| format!("{code}: ")).unwrap_or_default(), advice(self))]
pub struct Fault {
    /// The name of the call, which is also the permission that it needs.
    pub action: &'static str,
    pub resource: String,
    pub kind: FaultKind,
    pub code: Option<String>,
    /// The error message of AWS, or why there was no answer.
    pub message: Box<str>,
    /// The chain of causes, for whoever wants to know everything.
    pub causes: Box<str>,
}

/// The result of a call to AWS, or the reason why it failed.
pub type Answer<T> = Result<T, Fault>;

impl Fault {
    /// A fault without an HTTP status of its own, such as that of one entry of a batch.
    pub fn of(action: &'static str, resource: &str, code: &str, message: &str) -> Self {
        Self {
            action,
            resource: resource.to_owned(),
            kind: classify(Some(code), Some(400), message, None),
            code: Some(code.to_owned()),
            message: message.into(),
            causes: Box::default(),
        }
    }

    pub fn is_denied(&self) -> bool {
        let code = self.code.as_deref().unwrap_or_default();
        ["AccessDenied", "UnauthorizedOperation", "AuthorizationError"]
            .iter()
            .any(|it| code.starts_with(it))
    }

    /// Whether an emulator lacks this API. Lambda, SQS and IAM themselves answer with an error code.
    pub fn is_unsupported(&self) -> bool {
        match self.code.as_deref() {
            Some(code) => {
                code.contains("UnsupportedOperation") || code.starts_with("UnknownOperation")
            }
            None => !self.passes(),
        }
    }

    pub fn passes(&self) -> bool {
        matches!(self.kind, FaultKind::Transient { .. })
    }
}

/// Retries a call while AWS answers with a transient fault, up to five times. For an answer, the call itself has
/// waited.
pub(crate) async fn with_backoff<T, F>(clock: &impl Clock, call: impl Fn() -> F) -> Answer<T>
where
    F: Future<Output = Answer<T>>,
{
    for seconds in BACKOFF {
        match call().await {
            Err(fault) if fault.passes() && fault.code.is_some() => {
                clock.sleep(Duration::from_secs(seconds)).await;
            }
            answer => return answer,
        }
    }
    call().await
}

fn advice(fault: &Fault) -> String {
    let Fault { action, resource, .. } = fault;
    if fault.is_denied() {
        format!("; your identity needs the permission {action} on {resource}")
    } else {
        String::new()
    }
}

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

    /// The ARN of Comeback's layer, if it has that.
    pub fn own_layer(&self) -> Option<&String> {
        self.layers.iter().find(|arn| arn.to_lowercase().contains("comeback"))
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

#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum NoSystem {
    #[error(
        "there is no retry system: none of {functions} functions has DEAD_LETTER_QUEUE_URL; is this the right region?"
    )]
    None { functions: usize },
    #[error(
        "{0} is no retry handler: there is no function of this name with DEAD_LETTER_QUEUE_URL"
    )]
    NotHandler(String),
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

/// The name of a function, without a qualifier, from all that Lambda takes for one: the name, a part of the ARN or the
/// ARN, each also with a version or an alias.
pub fn function_name(target: &str) -> &str {
    let name = target.rsplit_once(":function:").map_or(target, |(_, name)| name);
    name.split(':').next().unwrap_or(name)
}

pub fn handlers(functions: &[Function]) -> impl Iterator<Item = &Function> {
    functions.iter().filter(|function| function.dead_letter_queue_url().is_some())
}

/// The functions that may use each queue, from `QUEUE_TARGETS` in the handler's environment.
pub fn queue_targets(environment: &BTreeMap<String, String>) -> BTreeMap<String, Vec<String>> {
    let text = environment.get("QUEUE_TARGETS");
    text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
}

/// The functions that settings in the handler's environment name. Patterns are left out.
pub fn named_targets(environment: &BTreeMap<String, String>) -> BTreeSet<String> {
    let list = |name| environment.get(name).into_iter().flat_map(|text: &String| text.split(','));
    let bound = queue_targets(environment).into_values().flatten();
    let listed = list("TARGET_FUNCTIONS").chain(list("DLQ_TARGET")).map(|it| it.trim().to_owned());
    listed
        .chain(bound)
        .filter(|name| !name.is_empty() && !name.contains('*') && !is_queue(name))
        .map(|name| FunctionArn::parse(&name).map_or(name, |arn| arn.name().to_owned()))
        .collect()
}

/// The queues whose messages the handler retries according to its settings, with the ARNs of the retry queues that are
/// bound to them.
pub fn named_queues(handler: &Function) -> BTreeMap<String, BTreeSet<String>> {
    let arn = |name: &str| handler.arn_of(name.trim());
    let mut queues: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
    for (retry, names) in queue_targets(&handler.environment) {
        for name in names.iter().filter(|name| is_queue(name)) {
            queues.entry(arn(name)).or_default().insert(queue_arn(&retry, &handler.arn));
        }
    }
    let listed = handler.environment.get("TARGET_FUNCTIONS").map_or("", String::as_str).split(',');
    for name in listed.filter(|name| is_queue(name.trim()) && !name.contains('*')) {
        queues.entry(arn(name)).or_default();
    }
    queues
}

/// The queues that are bound to a retry queue, each with its own. A queue for redrives is bound to several targets.
pub fn bound_queues(handler: &Function) -> Vec<(String, String)> {
    let targets: BTreeMap<_, _> = queue_targets(&handler.environment)
        .iter()
        .map(|(retry, names)| (queue_arn(retry, &handler.arn), names.len()))
        .collect();
    let own = |bound: BTreeSet<String>| bound.into_iter().min_by_key(|retry| targets.get(retry));
    named_queues(handler).into_iter().filter_map(|(arn, bound)| Some((arn, own(bound)?))).collect()
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

/// Whether any of the wanted values matches. An empty list matches everything.
pub fn any(wanted: &[String], matches: impl Fn(&str) -> bool) -> bool {
    wanted.is_empty() || wanted.iter().any(|wanted| matches(wanted))
}

/// Whether the function or queue has this name or ARN, in which `*` matches any characters.
pub fn is_target(target: &Target, wanted: &str) -> bool {
    let unqualified = match target {
        Target::Function(function) => function.unqualified(),
        Target::Queue(queue) => queue.as_str(),
    };
    let names = [target.name(), unqualified, target.as_str()];
    names.iter().any(|name| pattern::matches(wanted, name))
}

/// Stands for a missing error type, reason or function.
pub const NONE: &str = "none";

/// Filters on the last failure. All filters must match. A repeatable filter matches if one of its values does.
#[derive(Clone, Debug, Default, Eq, PartialEq, clap::Args)]
pub struct FailureFilter {
    /// A function, or a queue such as sqs:imports, by its name or ARN; * matches any characters; repeatable.
    #[arg(long = "function", value_name = "FUNCTION", value_parser = not_empty)]
    pub functions: Vec<String>,
    /// An error type, whole or its last segment, or none; * matches any characters; repeatable.
    #[arg(long = "error", value_name = "TYPE", value_parser = not_empty)]
    pub errors: Vec<String>,
    /// A part of the error message.
    #[arg(long, value_name = "TEXT", value_parser = not_empty)]
    pub message: Option<String>,
}

impl FailureFilter {
    pub fn matches(
        &self,
        target: Option<&Target>,
        error_type: Option<&str>,
        message: Option<&str>,
    ) -> bool {
        any(&self.functions, |wanted| target.map_or(wanted == NONE, |it| is_target(it, wanted)))
            && any(&self.errors, |wanted| is_error_of(error_type, wanted))
            && self.message.as_ref().is_none_or(|it| contains(message.unwrap_or_default(), it))
    }

    /// Refuses a filter that matches everything, for an order that can't be undone: `$NAME*` is `*` if the variable is
    /// not set.
    pub fn refuse_everything(&self) -> Result<(), String> {
        let is_bare = |value: &&String| value.chars().all(|c| c == '*');
        for (filter, values) in [("function", &self.functions), ("error", &self.errors)] {
            if let Some(value) = values.iter().find(is_bare) {
                return Err(format!(
                    "the filter {filter} '{value}' matches everything: leave it out if that is what you mean"
                ));
            }
        }
        Ok(())
    }
}

/// Parses an option.
pub fn duration(text: &str) -> Result<Duration, &'static str> {
    let read = comeback_core::duration::parse(text);
    read.ok_or("expected a duration such as 90s, 15m, 24h or 7d")
}

/// Whether the error type, or its last segment, is the wanted one, in which `*` matches any characters. [`NONE`]
/// matches an unknown error type.
pub fn is_error_of(error: Option<&str>, wanted: &str) -> bool {
    error.map_or(wanted == NONE, |error| {
        error_type::names(error).iter().any(|name| pattern::matches(wanted, name))
    })
}

pub fn contains(text: &str, part: &str) -> bool {
    text.to_lowercase().contains(&part.to_lowercase())
}

#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Groups(BTreeMap<Vec<String>, Group>);

#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Group {
    pub count: u64,
    pub first_at: Option<Timestamp>,
    pub last_at: Option<Timestamp>,
}

impl Groups {
    pub fn count(&mut self, key: Vec<String>, at: Option<Timestamp>) {
        let group = self.0.entry(key).or_default();
        group.count += 1;
        group.first_at = group.first_at.into_iter().chain(at).min();
        group.last_at = group.last_at.max(at);
    }

    pub fn largest_first(&self) -> Vec<(&[String], Group)> {
        let mut groups: Vec<_> =
            self.0.iter().map(|(key, group)| (key.as_slice(), *group)).collect();
        groups.sort_by_key(|(_, group)| Reverse(group.count));
        groups
    }
}

/// The tone of a notice, which determines its color.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Tone {
    Good,
    Plain,
    Faint,
    Bad,
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Notice {
    pub tone: Tone,
    pub text: String,
}

impl Notice {
    pub fn good(text: impl Into<String>) -> Self {
        Self { tone: Tone::Good, text: text.into() }
    }

    pub fn plain(text: impl Into<String>) -> Self {
        Self { tone: Tone::Plain, text: text.into() }
    }

    pub fn bad(text: impl ToString) -> Self {
        Self { tone: Tone::Bad, text: text.to_string() }
    }

    pub(crate) fn nothing_to_do() -> Self {
        Self::plain("nothing to do")
    }

    pub(crate) fn nothing_done() -> Self {
        Self::plain("Nothing was changed.")
    }
}

/// A number with its noun: `1 event`, `2 events`.
pub fn counted(number: u64, noun: &str) -> String {
    format!("{} {noun}{}", count(number), if number == 1 { "" } else { "s" })
}

pub fn events(number: u64) -> String {
    counted(number, "event")
}

pub fn letters(number: u64) -> String {
    counted(number, "letter")
}

/// A whole number with separators: `36,000`.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let groups = digits.as_bytes().rchunks(3).rev().map(String::from_utf8_lossy);
    groups.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
pub(crate) mod tests {
    use comeback_core::time::parse;

    use super::*;

    #[test]
    fn a_fault_names_action_and_resource_and_the_permission_that_is_missing() {
        let fault = |code: Option<&str>| Fault {
            code: code.map(str::to_owned),
            ..Fault::of("sqs:DeleteMessage", "arn:aws:sqs:us-east-1:1:dead", "", "as told")
        };
        let start = "sqs:DeleteMessage on arn:aws:sqs:us-east-1:1:dead failed: ";
        let advice = "; your identity needs the permission sqs:DeleteMessage on arn:aws:sqs:us-east-1:1:dead";
        for (code, end) in [
            (Some("AccessDenied"), format!("AccessDenied: as told{advice}")),
            (Some("AccessDeniedException"), format!("AccessDeniedException: as told{advice}")),
            (Some("InvalidAddress"), "InvalidAddress: as told".to_owned()),
            (None, "as told".to_owned()),
        ] {
            assert_eq!(fault(code).to_string(), format!("{start}{end}"));
        }
    }

    /// A function with this name and its own role.
    pub(crate) fn function(name: &str) -> Function {
        Function {
            arn: format!("arn:aws:lambda:us-east-1:123456789012:function:{name}"),
            role: format!("arn:aws:iam::123456789012:role/service/{name}-role"),
            runtime: Some("nodejs24.x".to_owned()),
            architecture: "x86_64".to_owned(),
            timeout: Duration::from_secs(30),
            ..Function::default()
        }
    }

    pub(crate) fn with(name: &str, variable: &str, value: &str) -> Function {
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

    #[test]
    fn a_filter_that_matches_everything_is_refused() {
        let filter = |function: &str, error: &str| {
            let list = |value: &str| match value {
                "" => Vec::new(),
                value => vec!["orders".to_owned(), value.to_owned()],
            };
            FailureFilter { functions: list(function), errors: list(error), message: None }
        };
        for (function, error) in [("", ""), ("a*", "*.Down"), ("*a", "")] {
            assert_eq!(filter(function, error).refuse_everything(), Ok(()));
        }
        for (function, error, named) in [("*", "", "function '*'"), ("a", "**", "error '**'")] {
            let refused = filter(function, error).refuse_everything().unwrap_err();
            assert!(refused.contains(named), "{refused}");
        }
    }

    #[test]
    fn a_group_has_a_count_and_the_range_of_its_times() {
        let mut groups = Groups::default();
        let [early, late] =
            ["2026-01-01T10:00:00Z", "2026-01-03T00:00:00Z"].map(|text| parse(text).unwrap());
        for (key, at) in [("a", Some(late)), ("b", None), ("b", Some(late)), ("b", Some(early))] {
            groups.count(vec![key.to_owned()], at);
        }
        let group = |count, first_at, last_at| Group { count, first_at, last_at };
        let expected =
            [("b", group(3, Some(early), Some(late))), ("a", group(1, Some(late), Some(late)))];
        let found = groups.largest_first();
        let found: Vec<_> = found.iter().map(|(key, group)| (&*key[0], *group)).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn numbers_have_separators_and_their_nouns() {
        for (value, expected) in [(0, "0"), (999, "999"), (1000, "1,000"), (1_234_567, "1,234,567")]
        {
            assert_eq!(count(value), expected);
        }
        assert_eq!((events(1), letters(1)), ("1 event".to_owned(), "1 letter".to_owned()));
        assert_eq!((events(0), letters(2)), ("0 events".to_owned(), "2 letters".to_owned()));
    }

    #[test]
    fn settings_name_functions_and_queues_without_patterns() {
        let arn = |name: &str| format!("arn:aws:sqs:us-east-1:123456789012:{name}");
        let billing = "arn:aws:lambda:us-east-1:123456789012:function:billing:live";
        let list = format!("orders, {billing}, {},sqs:many-*,mail-*", arn("exports"));
        let mut handler = with("handler", "TARGET_FUNCTIONS", &list);
        let targets = r#"{"retry":["refunds","orders","*"],"retry-imports":["sqs:imports"]}"#;
        for (name, value) in [("QUEUE_TARGETS", targets), ("DLQ_TARGET", "legacy")] {
            handler.environment.insert(name.to_owned(), value.to_owned());
        }
        let functions = ["billing", "legacy", "orders", "refunds"].map(str::to_owned).into();
        assert_eq!(named_targets(&handler.environment), functions);
        let bound = BTreeSet::from([arn("retry-imports")]);
        let expected = [(arn("imports"), bound), (arn("exports"), BTreeSet::new())].into();
        assert_eq!(named_queues(&handler), expected);
        let with_redrives =
            r#"{"a-redrive":["orders","sqs:imports"],"retry-imports":["sqs:imports"]}"#;
        handler.environment.insert("QUEUE_TARGETS".to_owned(), with_redrives.to_owned());
        assert_eq!(bound_queues(&handler), [(arn("imports"), arn("retry-imports"))]);
    }

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
