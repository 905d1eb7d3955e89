//! The retry systems of an account and a region.

use std::collections::{BTreeMap, BTreeSet};

/// The setting by which a function is recognized as a retry handler.
const DEAD_LETTER_QUEUE_URL: &str = "DEAD_LETTER_QUEUE_URL";

/// What is known about a function.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// Its environment variables.
    pub environment: BTreeMap<String, String>,
}

/// A retry system.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct System {
    /// The name of the retry handler.
    pub handler: String,
    /// Where it sends dead letters.
    pub dead_letter_queue_url: String,
}

/// Why there is not one dead-letter queue.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum NoQueue {
    /// There is no retry system.
    #[error(
        "expected a retry system, got none of {functions} functions with DEAD_LETTER_QUEUE_URL; is this its region? If so, name its queue with --queue"
    )]
    None {
        /// How many functions there are.
        functions: usize,
    },
    /// The named function is no retry handler.
    #[error(
        "expected {0} to be a retry handler, got no function of this name with DEAD_LETTER_QUEUE_URL"
    )]
    NotHandler(String),
    /// There are several queues.
    #[error("expected one dead-letter queue, got those of {}; choose one with --handler or --queue", .0.join(", "))]
    Several(Vec<String>),
}

/// The retry systems among these functions.
pub fn find(functions: &[Function]) -> Vec<System> {
    let system = |function: &Function| {
        let url = function.environment.get(DEAD_LETTER_QUEUE_URL)?;
        Some(System { handler: function.name.clone(), dead_letter_queue_url: url.clone() })
    };
    functions.iter().filter_map(system).collect()
}

/// The URL of the dead-letter queue of this handler, or the only one.
///
/// # Errors
///
/// If there is none, or more than one.
pub fn dead_letter_queue(functions: &[Function], handler: Option<&str>) -> Result<String, NoQueue> {
    let mut systems = find(functions);
    if let Some(handler) = handler {
        systems.retain(|system| system.handler == handler);
    }
    let urls: BTreeSet<_> = systems.iter().map(|it| it.dead_letter_queue_url.as_str()).collect();
    match (urls.len(), handler) {
        (0, Some(handler)) => Err(NoQueue::NotHandler(handler.to_owned())),
        (0, None) => Err(NoQueue::None { functions: functions.len() }),
        (1, _) => Ok(urls.into_iter().collect()),
        _ => Err(NoQueue::Several(systems.into_iter().map(|system| system.handler).collect())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function(name: &str, variable: &str, value: &str) -> Function {
        let environment = BTreeMap::from([(variable.to_owned(), value.to_owned())]);
        Function { name: name.to_owned(), environment }
    }

    #[test]
    fn the_only_queue_is_found_and_of_several_one_must_be_named() {
        let orders = function("orders", "TABLE", "t");
        let handler = |name, url| function(name, DEAD_LETTER_QUEUE_URL, url);
        let [a, b, c] = [handler("a", "url-1"), handler("b", "url-2"), handler("c", "url-1")];
        let found = |functions: &[&Function], handler| {
            let functions: Vec<_> = functions.iter().map(|&it| it.clone()).collect();
            dead_letter_queue(&functions, handler)
        };
        let url = |url: &str| Ok(url.to_owned());
        assert_eq!(found(&[&orders, &a], None), url("url-1"));
        assert_eq!(found(&[&a, &c], None), url("url-1"), "two handlers of one queue");
        assert_eq!(found(&[&a, &b, &c], Some("b")), url("url-2"));
        assert_eq!(found(&[&orders], None), Err(NoQueue::None { functions: 1 }));
        assert_eq!(
            found(&[&orders, &a], Some("orders")),
            Err(NoQueue::NotHandler("orders".into()))
        );
        let several = found(&[&a, &b], None).unwrap_err().to_string();
        assert!(several.contains("those of a, b; choose one with --handler"), "{several}");
    }
}
