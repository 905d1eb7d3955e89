//! The names of the functions and queues that a person can mean. A misspelt name is never silence.

use std::collections::BTreeSet;

use comeback_core::{arn::QueueArn, pattern, target::Target};

use crate::{
    account::{
        function::Function,
        handlers::{handlers, named_queues, named_targets},
        names::is_queue,
    },
    typed::{NONE, nearest},
};

/// A name that nothing has.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("there is no function or queue {name}{}", advice(.nearest.as_deref()))]
pub struct NotKnown {
    pub name: String,
    /// What was probably meant.
    pub nearest: Option<String>,
}

/// The end of a sentence about a name that nothing has.
pub fn advice(nearest: Option<&str>) -> String {
    nearest.map_or(String::new(), |nearest| format!("; did you mean {nearest}?"))
}

/// The names of the functions of an account and region, and of the functions and queues that settings of retry handlers
/// name.
pub struct Names(BTreeSet<String>);

impl Names {
    /// All that there are.
    pub fn of(functions: &[Function]) -> Self {
        Self::by(handlers(functions), functions)
    }

    /// Those that these handlers know.
    pub fn by<'a>(
        handlers: impl IntoIterator<Item = &'a Function>,
        functions: &[Function],
    ) -> Self {
        let mut names: BTreeSet<_> = functions.iter().map(|it| it.name().to_owned()).collect();
        for handler in handlers {
            names.extend(named_targets(&handler.environment));
            let queues = named_queues(handler).into_keys();
            names.extend(
                queues.filter_map(|arn| Some(QueueArn::parse(&arn)?.target_name().to_owned())),
            );
        }
        Self(names)
    }

    pub fn without(mut self, name: &str) -> Self {
        self.0.remove(name);
        self
    }

    pub fn has(&self, name: &str) -> bool {
        self.0.contains(name)
    }

    pub fn nearest(&self, name: &str) -> Option<String> {
        nearest(name, self.0.iter().map(String::as_str)).map(str::to_owned)
    }

    /// Refuses a name that nothing has.
    pub fn find(&self, name: &str) -> Result<(), NotKnown> {
        if self.has(name) {
            return Ok(());
        }
        Err(NotKnown { name: name.to_owned(), nearest: self.nearest(name) })
    }

    /// Refuses filters of which one fits no name. Whether a function has a version or an alias is not known.
    pub fn check<'a>(&self, wanted: impl IntoIterator<Item = &'a String>) -> Result<(), NotKnown> {
        for wanted in wanted {
            let target = Target::parse(wanted);
            let name = target.as_ref().map_or(wanted.as_str(), Target::name);
            let qualified = if is_queue(name) { None } else { name.split_once(':') };
            let name = qualified.map_or(name, |(name, _)| name);
            // An ARN with an asterisk is no ARN.
            let is_known = wanted == NONE
                || (wanted.contains('*') && wanted.starts_with("arn:"))
                || self.0.iter().any(|known| pattern::matches(name, known));
            if !is_known {
                return Err(NotKnown { name: wanted.clone(), nearest: self.nearest(name) });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::account::function::tests::{function, with};

    #[test]
    fn a_filter_that_fits_no_name_is_refused_with_the_nearest() {
        let mut handler = with("retry", "TARGET_FUNCTIONS", "orders,gone,sqs:mails");
        let letters = "https://sqs.us-east-1.amazonaws.com/123456789012/dead";
        handler.environment.insert("DEAD_LETTER_QUEUE_URL".to_owned(), letters.to_owned());
        let names = Names::of(&[handler, function("orders")]);
        let check = |wanted: &str| names.check(&[wanted.to_owned()]).map_err(|it| it.to_string());
        for known in [
            "orders",
            "ord*",
            "*",
            "none",
            "gone",
            "orders:live",
            "sqs:mails",
            "sqs:*",
            "*:live",
            "arn:aws:lambda:us-east-1:123456789012:function:orders:3",
            "arn:aws:sqs:us-east-1:123456789012:mails",
        ] {
            assert_eq!(check(known), Ok(()), "{known}");
        }
        for (wanted, nearest) in [
            ("ordrs", "; did you mean orders?"),
            ("ordrs:live", "; did you mean orders?"),
            ("pay*", ""),
            ("sqs:mials*", "; did you mean sqs:mails?"),
            ("mails", "; did you mean sqs:mails?"),
            ("arn:aws:lambda:us-east-1:123456789012:function:x", ""),
        ] {
            let says = format!("there is no function or queue {wanted}{nearest}");
            assert_eq!(check(wanted), Err(says));
        }
        let both = ["orders".to_owned(), "mial".to_owned()];
        assert_eq!(names.check(&both).unwrap_err().name, "mial", "each is checked");
        assert_eq!(names.find("orders"), Ok(()));
        assert!(names.find("ord*").is_err(), "a name is no pattern");
    }
}
