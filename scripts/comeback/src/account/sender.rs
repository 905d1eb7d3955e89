//! What delivers events: a rule of EventBridge, or a schedule. Its target is the JSON that AWS has.

use std::fmt;

use serde_json::Value;

/// The bus and the group of schedules that every account has.
pub const DEFAULT: &str = "default";

#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Sender {
    /// A rule delivers to each of its targets, which have ids.
    Rule {
        bus: String,
        name: String,
        target: String,
    },
    Schedule {
        group: String,
        name: String,
    },
}

impl fmt::Display for Sender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rule { bus, name, target } if bus == DEFAULT => {
                write!(f, "target {target} of rule {name}")
            }
            Self::Rule { bus, name, target } => {
                write!(f, "target {target} of rule {name} on bus {bus}")
            }
            Self::Schedule { name, .. } => write!(f, "schedule {name}"),
        }
    }
}

impl Sender {
    /// The arguments of `comeback attach` and `comeback detach` that name it.
    pub fn arguments(&self) -> String {
        let other = |option: &str, value: &str| match value {
            DEFAULT => String::new(),
            value => format!(" --{option} {value}"),
        };
        match self {
            Self::Rule { bus, name, target } => {
                format!("--rule {name} --target {target}{}", other("bus", bus))
            }
            Self::Schedule { group, name } => {
                format!("--schedule {name}{}", other("group", group))
            }
        }
    }
}

/// The members of a rule's target that change what the target is given.
const CHANGES: [&str; 3] = ["Input", "InputPath", "InputTransformer"];

/// The ARN of the dead-letter queue in a target of a rule or a schedule.
pub fn dead_letters(target: &Value) -> Option<&str> {
    target["DeadLetterConfig"]["Arn"].as_str()
}

/// The member of a rule's target that has it given something else than the event.
pub fn change(target: &Value) -> Option<&'static str> {
    CHANGES.into_iter().find(|name| !target[*name].is_null())
}
