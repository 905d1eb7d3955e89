//! The retry handlers of an account, and the functions and queues that their settings name.

use std::collections::{BTreeMap, BTreeSet};

use comeback_core::{arn::FunctionArn, pattern};

use crate::account::{
    function::Function,
    names::{is_queue, last, queue_arn},
};

pub fn handlers(functions: &[Function]) -> impl Iterator<Item = &Function> {
    functions.iter().filter(|function| function.dead_letter_queue_url().is_some())
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

/// The retry handler with this name, or the only one if no name is given.
pub fn only(functions: &[Function], handler: Option<&str>) -> Result<Function, NoSystem> {
    match named(functions, handler)?[..] {
        [handler] => Ok(handler.clone()),
        ref several => Err(self::several(several)),
    }
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

/// The URL of the dead-letter queue of this handler. Without a name, all handlers must share one queue.
pub fn dead_letter_queue(
    functions: &[Function],
    handler: Option<&str>,
) -> Result<String, NoSystem> {
    let handlers = named(functions, handler)?;
    let urls: BTreeSet<_> = handlers.iter().filter_map(|it| it.dead_letter_queue_url()).collect();
    if urls.len() == 1 { Ok(urls.into_iter().collect()) } else { Err(several(&handlers)) }
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

/// The retry queue of a function whose failures go to a bucket: of these queues, the one that is bound to it, or one
/// that it may use.
pub fn queue_for<'a>(
    handler: &Function,
    queues: &'a BTreeSet<String>,
    function: &str,
) -> Option<&'a String> {
    let bound = queue_targets(&handler.environment);
    let names = |arn: &String| bound.get(last(arn));
    let is_own = |arn: &&String| names(arn).is_some_and(|it| it.iter().any(|it| it == function));
    let may_use = |arn: &&String| {
        names(arn).is_none_or(|it| it.iter().any(|it| pattern::matches(it, function)))
    };
    queues.iter().find(is_own).or_else(|| queues.iter().find(may_use))
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::account::function::{DEAD_LETTER_QUEUE_URL, tests::with};

    #[test]
    fn the_only_queue_is_found_and_one_of_several_must_be_named() {
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
    fn a_function_with_a_bucket_has_the_queue_that_is_bound_to_it_or_one_that_it_may_use() {
        let targets =
            r#"{"retry-orders":["orders"],"retry-many":["mail-*"],"a-imports":["sqs:imports"]}"#;
        let handler = with("handler", "QUEUE_TARGETS", targets);
        let arn = |name: &str| format!("arn:aws:sqs:us-east-1:123456789012:{name}");
        let bound = ["retry-orders", "retry-many", "a-imports"].map(arn);
        let queues = BTreeSet::from(bound);
        let of = |function: &str| queue_for(&handler, &queues, function).map(|arn| last(arn));
        assert_eq!(
            [of("orders"), of("mail-out"), of("billing")],
            [Some("retry-orders"), Some("retry-many"), None]
        );
        let shared = BTreeSet::from([arn("retry")]);
        assert_eq!(queue_for(&handler, &shared, "billing"), shared.first());
    }
}
