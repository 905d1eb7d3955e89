//! The retry systems of an account and a region.

use std::collections::{BTreeMap, BTreeSet};

/// The setting by which a function is recognized as a retry handler.
const DEAD_LETTER_QUEUE_URL: &str = "DEAD_LETTER_QUEUE_URL";

/// What is known about a function.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// Its ARN, without a qualifier.
    pub arn: String,
    /// Its environment variables.
    pub environment: BTreeMap<String, String>,
    /// Where its log is.
    pub log_group: String,
}

/// A retry system.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct System {
    /// The name of the retry handler.
    pub handler: String,
    /// Its ARN.
    pub arn: String,
    /// Where it sends dead letters.
    pub dead_letter_queue_url: String,
    /// Where its log is.
    pub log_group: String,
    /// Its environment variables, which are its settings.
    pub settings: BTreeMap<String, String>,
}

impl System {
    /// The ARN of a function that is named by its name or ARN: a name means the handler's own account and region.
    pub fn arn_of(&self, function: &str) -> String {
        match self.arn.rsplit_once(':') {
            Some((home, _)) if !function.starts_with("arn:") => format!("{home}:{function}"),
            _ => function.to_owned(),
        }
    }

    /// The table of its ledger, if it has one.
    pub fn ledger(&self) -> Option<&str> {
        let table = self.settings.get("LEDGER_TABLE").map(|table| table.trim());
        table.filter(|table| !table.is_empty())
    }

    /// The table of its register, if it has one.
    pub fn register(&self) -> Option<&str> {
        let is_on = self.settings.get("REGISTER").is_some_and(|value| value.trim() == "true");
        self.ledger().filter(|_| is_on)
    }
}

/// Why no single retry system or dead-letter queue could be chosen.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum NoSystem {
    /// There is no retry system.
    #[error(
        "expected a retry system, got {functions} functions and none with DEAD_LETTER_QUEUE_URL; is this the right region?"
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
    /// There are several.
    #[error("expected one retry system, got those of {}; choose one with --handler", .0.join(", "))]
    Several(Vec<String>),
}

/// The name in a function's ARN with its qualifier, unless that is `$LATEST`.
pub fn function_name(arn: &str) -> &str {
    let name = arn.splitn(7, ':').nth(6).unwrap_or(arn);
    name.strip_suffix(":$LATEST").unwrap_or(name)
}

/// The retry systems among these functions.
pub fn find(functions: &[Function]) -> Vec<System> {
    let system = |function: &Function| {
        Some(System {
            handler: function.name.clone(),
            arn: function.arn.clone(),
            log_group: function.log_group.clone(),
            dead_letter_queue_url: function.environment.get(DEAD_LETTER_QUEUE_URL)?.clone(),
            settings: function.environment.clone(),
        })
    };
    functions.iter().filter_map(system).collect()
}

/// The retry system of this handler, or the only one.
///
/// # Errors
///
/// If there is none, or more than one.
pub fn only(functions: &[Function], handler: Option<&str>) -> Result<System, NoSystem> {
    let mut systems = named(functions, handler)?;
    if systems.len() == 1 { Ok(systems.remove(0)) } else { Err(several(systems)) }
}

/// The URL of the dead-letter queue of this handler, or the only one. Several handlers may share it.
///
/// # Errors
///
/// If there is none, or more than one.
pub fn dead_letter_queue(
    functions: &[Function],
    handler: Option<&str>,
) -> Result<String, NoSystem> {
    let systems = named(functions, handler)?;
    let urls: BTreeSet<_> = systems.iter().map(|it| it.dead_letter_queue_url.as_str()).collect();
    if urls.len() == 1 { Ok(urls.into_iter().collect()) } else { Err(several(systems)) }
}

fn named(functions: &[Function], handler: Option<&str>) -> Result<Vec<System>, NoSystem> {
    let mut systems = find(functions);
    if let Some(handler) = handler {
        systems.retain(|system| system.handler == handler);
    }
    match handler {
        _ if !systems.is_empty() => Ok(systems),
        Some(handler) => Err(NoSystem::NotHandler(handler.to_owned())),
        None => Err(NoSystem::None { functions: functions.len() }),
    }
}

fn several(systems: Vec<System>) -> NoSystem {
    NoSystem::Several(systems.into_iter().map(|system| system.handler).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function(name: &str, variable: &str, value: &str) -> Function {
        let environment = BTreeMap::from([(variable.to_owned(), value.to_owned())]);
        Function { name: name.to_owned(), environment, ..Function::default() }
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
        assert_eq!(found(&[&orders], None), Err(NoSystem::None { functions: 1 }));
        assert_eq!(
            found(&[&orders, &a], Some("orders")),
            Err(NoSystem::NotHandler("orders".into()))
        );
        let several = found(&[&a, &b], None).unwrap_err().to_string();
        assert!(several.contains("those of a, b; choose one with --handler"), "{several}");
        let system =
            |functions: &[Function], handler| only(functions, handler).map(|it| it.handler);
        assert_eq!(system(&[orders, a.clone()], None), Ok("a".to_owned()));
        assert_eq!(system(&[a.clone(), c.clone()], Some("c")), Ok("c".to_owned()));
        assert!(matches!(system(&[a, c], None), Err(NoSystem::Several(_))));
    }

    #[test]
    fn a_name_means_a_function_beside_the_handler() {
        let function = Function {
            name: "retries".to_owned(),
            arn: "arn:aws-cn:lambda:cn-north-1:1:function:retries".to_owned(),
            environment: [(DEAD_LETTER_QUEUE_URL, "url"), ("LEDGER_TABLE", "table")]
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into(),
            ..Function::default()
        };
        let mut system = only(&[function], None).unwrap();
        for (name, expected) in [
            ("orders", "arn:aws-cn:lambda:cn-north-1:1:function:orders"),
            ("orders:live", "arn:aws-cn:lambda:cn-north-1:1:function:orders:live"),
            ("arn:aws:lambda:us-east-1:2:function:a", "arn:aws:lambda:us-east-1:2:function:a"),
        ] {
            assert_eq!(system.arn_of(name), expected);
        }
        assert_eq!(system.register(), None, "REGISTER is not set");
        system.settings.insert("REGISTER".to_owned(), "true".to_owned());
        assert_eq!(system.register(), Some("table"));
    }
}
