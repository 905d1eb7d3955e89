//! Pauses: what may be paused, and how the pauses are listed.

use comeback_core::{
    Timestamp,
    arn::{FunctionArn, Home},
    settings::Targets,
    target::Target,
};

use crate::account::{
    function::Function,
    known::{Names, advice},
    names::target_name,
};

/// A target whose retries are held back. It need not exist.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Pause {
    /// Its ARN; that of a function has a qualifier.
    pub target: String,
    pub since: Timestamp,
}

#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum NotKnown {
    #[error("a pause is for one function or queue, got {name}{}", advice(.nearest.as_deref()))]
    Pattern { name: String, nearest: Option<String> },
    #[error("there is no function or queue {name} to retry{}", advice(.nearest.as_deref()))]
    Name { name: String, nearest: Option<String> },
    #[error("no failures of {name} are retried, but those of {}", .others.join(", "))]
    Qualifier { name: String, others: Vec<String> },
}

/// The functions and queues that a retry handler may retry.
pub struct Known {
    home: Option<Home>,
    names: Names,
    targets: Targets,
}

impl Known {
    /// `targets` are those of the handler's settings.
    pub fn of(handler: &Function, functions: &[Function], targets: Targets) -> Self {
        let names = Names::by([handler], functions).without(handler.name());
        Self { home: FunctionArn::parse(&handler.arn).map(|arn| arn.home()), names, targets }
    }

    /// Refuses a name that neither a function, a queue nor a setting has. `arn` is what it means.
    pub fn check(&self, name: &str, arn: &str) -> Result<(), NotKnown> {
        let target = Target::parse(arn);
        // Functions at other places can't be listed, nor queues that match a pattern. The settings are asked.
        let is_allowed = |target: &Target| {
            self.home.as_ref().is_some_and(|home| self.targets.allow(target, home))
        };
        let is_known = target.as_ref().is_some_and(|target| match target {
            Target::Function(function) if self.home.as_ref() == Some(&function.home()) => {
                self.names.has(function.name())
            }
            Target::Function(_) => is_allowed(target),
            Target::Queue(queue) => self.names.has(queue.target_name()) || is_allowed(target),
        });
        if is_known {
            return Ok(());
        }
        let meant = target.as_ref().map_or(name, Target::name);
        let nearest = self.names.nearest(meant);
        let name = name.to_owned();
        Err(if name.contains('*') {
            NotKnown::Pattern { name, nearest }
        } else {
            NotKnown::Name { name, nearest }
        })
    }
}

/// The ARNs to pause for this one: all that failures of the function may have, or only this one if it has a qualifier.
pub fn to_pause(arn: &str, all: Vec<String>) -> Result<Vec<String>, NotKnown> {
    if unqualified(arn) == arn {
        return Ok(all);
    }
    if all.iter().any(|other| other == arn) {
        return Ok(vec![arn.to_owned()]);
    }
    let others = all.iter().map(|other| target_name(other).into_owned()).collect();
    Err(NotKnown::Qualifier { name: target_name(arn).into_owned(), others })
}

/// The ARNs to resume for this one: those to pause, and those that are paused, whose alias or function may be gone.
pub fn to_resume(arn: &str, all: Vec<String>, pauses: &[Pause]) -> Vec<String> {
    let mut targets = if unqualified(arn) == arn { all } else { vec![arn.to_owned()] };
    let paused = pauses.iter().map(|pause| &pause.target);
    targets.extend(paused.filter(|it| *it == arn || unqualified(it) == arn).cloned());
    targets.sort_unstable();
    targets.dedup();
    targets
}

/// The ARN of a function without its qualifier; any other ARN as it is.
pub fn unqualified(arn: &str) -> &str {
    let length = FunctionArn::parse(arn).map_or(arn.len(), |it| it.unqualified().len());
    &arn[..length]
}

pub fn pause_done(function: &str, is_pause: bool) -> String {
    if is_pause { format!("{function} is paused") } else { format!("{function} is resumed") }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::account::function::tests::{function, with};

    /// A handler that retries `orders`, the queues `imports` and `many-…`, and functions of another account.
    fn handler() -> Function {
        let targets =
            "legacy,sqs:imports,sqs:many-*,arn:aws:lambda:us-east-1:210987654321:function:*";
        with("retries", "TARGET_FUNCTIONS", targets)
    }

    fn known() -> (Function, Known) {
        let mut handler = handler();
        let url = "https://sqs.us-east-1.amazonaws.com/123456789012/dead".to_owned();
        handler.environment.insert("DEAD_LETTER_QUEUE_URL".to_owned(), url);
        let functions = [function("orders"), function("billing"), handler.clone()];
        let targets = handler.settings().unwrap().rules.targets;
        let known = Known::of(&handler, &functions, targets);
        (handler, known)
    }

    #[test]
    fn an_unknown_name_is_refused_with_the_nearest_one() {
        let (handler, known) = known();
        let elsewhere = "arn:aws:lambda:us-east-1:210987654321:function:orders";
        for name in ["orders", "orders:live", "legacy", "sqs:imports", "sqs:many-mails", elsewhere]
        {
            assert_eq!(known.check(name, &handler.arn_of(name)), Ok(()), "{name}");
        }
        let other_region = "arn:aws:lambda:eu-west-1:123456789012:function:orders";
        for (name, expected) in [
            ("ordrs", "there is no function or queue ordrs to retry; did you mean orders?"),
            (
                "ordrs:live",
                "there is no function or queue ordrs:live to retry; did you mean orders?",
            ),
            ("ord*", "a pause is for one function or queue, got ord*; did you mean orders?"),
            (
                "imports",
                "there is no function or queue imports to retry; did you mean sqs:imports?",
            ),
            (
                "sqs:import",
                "there is no function or queue sqs:import to retry; did you mean sqs:imports?",
            ),
            ("*", "a pause is for one function or queue, got *"),
            ("retries", "there is no function or queue retries to retry"),
            (
                other_region,
                &format!(
                    "there is no function or queue {other_region} to retry; did you mean orders?"
                ),
            ),
        ] {
            let refused = known.check(name, &handler.arn_of(name)).unwrap_err();
            assert_eq!(refused.to_string(), expected);
        }
    }

    #[test]
    fn a_qualifier_without_failures_is_refused() {
        let arn = |rest: &str| format!("arn:aws:lambda:us-east-1:123456789012:function:{rest}");
        let all = || vec![arn("orders:$LATEST"), arn("orders:live")];
        assert_eq!(to_pause(&arn("orders"), all()), Ok(all()));
        assert_eq!(to_pause(&arn("orders:live"), all()), Ok(vec![arn("orders:live")]));
        let refused = to_pause(&arn("orders:lvie"), all()).unwrap_err().to_string();
        assert_eq!(
            refused,
            "no failures of orders:lvie are retried, but those of orders, orders:live"
        );
        let queue = "arn:aws:sqs:us-east-1:123456789012:imports".to_owned();
        assert_eq!(to_pause(&queue, vec![queue.clone()]), Ok(vec![queue.clone()]));
    }

    #[test]
    fn a_paused_function_that_is_gone_can_be_resumed() {
        let arn = |rest: &str| format!("arn:aws:lambda:us-east-1:123456789012:function:{rest}");
        let pause = |target| Pause { target, since: Timestamp::UNIX_EPOCH };
        let pauses = [arn("orders:old"), arn("orders-eu:old"), arn("ord*")].map(pause);
        let all = vec![arn("orders:$LATEST")];
        let expected = [arn("orders:$LATEST"), arn("orders:old")];
        assert_eq!(to_resume(&arn("orders"), all.clone(), &pauses), expected);
        assert_eq!(to_resume(&arn("orders:old"), all, &pauses), [arn("orders:old")]);
        assert_eq!(to_resume(&arn("ord*"), vec![arn("ord*")], &pauses), [arn("ord*")]);
    }
}
