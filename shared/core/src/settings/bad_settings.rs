//! What is wrong with settings: each by its name, with the value that it must have and the one that it has.

use std::fmt;

/// One invalid setting, with its expected and its actual value.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Fault {
    pub(crate) name: String,
    expected: String,
    got: Option<String>,
}

impl Fault {
    pub(crate) fn new(
        name: impl Into<String>,
        expected: impl Into<String>,
        got: impl Into<String>,
    ) -> Self {
        Self { name: name.into(), expected: expected.into(), got: Some(got.into()) }
    }

    /// The same fault, for a value nested in the one that `prefix` names.
    pub(crate) fn within(self, prefix: &str) -> Self {
        Self { name: format!("{prefix}{}", self.name), ..self }
    }

    /// The same fault of a value that is wrong beside those of one function.
    pub(crate) fn of(self, function: &str) -> Self {
        Self { name: format!("{} for {function}", self.name), ..self }
    }

    pub(crate) fn missing(name: &str, expected: &str) -> Self {
        Self { name: name.to_owned(), expected: expected.to_owned(), got: None }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, expected, got } = self;
        match got {
            Some(got) => write!(f, "{name} must be {expected}, got {got:?}"),
            None => write!(f, "{name} must be {expected}, and is not set"),
        }
    }
}

/// Errors in settings. Each names the variable, the expected value and the actual value.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub struct BadSettings(pub(crate) Vec<Fault>);

impl BadSettings {
    /// The names of the invalid variables. A value within `POLICIES` is named by its path.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|fault| fault.name.as_str())
    }
}

impl fmt::Display for BadSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, fault) in self.0.iter().enumerate() {
            let separator = if index == 0 { "" } else { "; " };
            write!(f, "{separator}{fault}")?;
        }
        Ok(())
    }
}
