//! The settings of the retry handler, read once at its start.
//!
//! Every bad value is found before any is complained of: whoever deploys this should have to read
//! one message, not one a deployment.

use std::{collections::BTreeMap, fmt, num::NonZeroU32};

use serde_json::value::RawValue;

use crate::{
    Attempt,
    arn::{FunctionArn, Home, is_function_name},
    backoff::Jitter,
    duration,
    error_type::NonRetryable,
    json::{self, Object},
    pattern,
    policy::Policy,
};

const DURATION: &str = "a duration such as 90, 90s, 15m, 24h or 7d";
const URL: &str =
    "the URL of a queue, such as https://sqs.us-east-1.amazonaws.com/123456789012/name";
const TABLE: &str = "the name or the ARN of a DynamoDB table";
const FUNCTION: &str = "the name or the ARN of a function";

/// The names that `POLICIES` may set for one function; each is a variable of its own too.
pub const POLICY_NAMES: [&str; 7] = [
    "BASE_BACKOFF",
    "MAX_BACKOFF",
    "MAX_AGE",
    "MAX_ATTEMPTS",
    "MAX_RETRIES",
    "JITTER",
    "NON_RETRYABLE_ERRORS",
];

/// The variables that are read, beside those of [`POLICY_NAMES`].
const OTHER_NAMES: [&str; 6] = [
    "DEAD_LETTER_QUEUE_URL",
    "DLQ_TARGET",
    "LEDGER_TABLE",
    "POLICIES",
    "RETRY_QUEUE_URL",
    "TARGET_FUNCTIONS",
];

/// A variable is taken for a misspelt setting if so few edits make it one, and no more than one for each
/// four characters of the setting.
const EDITS_MAX: usize = 2;

/// What the retry handler goes by.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where events are sent that are given up.
    pub dead_letter_queue_url: String,
    /// The queue that messages come from, where their own ARN does not tell.
    pub retry_queue_url: Option<String>,
    /// The functions that may be re-invoked.
    pub targets: Targets,
    /// The function that messages of a function's own dead-letter queue belong to.
    pub dlq_target: Option<Target>,
    /// The table in which each failure is claimed before it is acted on.
    pub ledger_table: Option<String>,
    /// How events are retried.
    pub policies: Policies,
}

impl Settings {
    /// Reads the settings from their variables. An empty variable counts as unset, as templates
    /// write one where an optional parameter is not given.
    ///
    /// # Errors
    ///
    /// Names every variable that is wrong.
    pub fn from_lookup(lookup: impl Fn(&str) -> Option<String>) -> Result<Self, BadSettings> {
        let lookup = |name: &str| lookup(name).filter(|value| !value.trim().is_empty());
        let mut faults = Vec::new();
        let url = |name: &str, faults: &mut Vec<Fault>| {
            let value = lookup(name)?;
            let good = is_queue_url(&value);
            good.then_some(()).or_else(|| fault(faults, name, URL, &value))?;
            Some(value)
        };
        let dead_letter_queue_url = url("DEAD_LETTER_QUEUE_URL", &mut faults);
        if lookup("DEAD_LETTER_QUEUE_URL").is_none() {
            faults.push(Fault::missing("DEAD_LETTER_QUEUE_URL", URL));
        }
        let retry_queue_url = url("RETRY_QUEUE_URL", &mut faults);
        let targets = lookup("TARGET_FUNCTIONS")
            .map_or(Targets::Home, |list| Targets::read(&list, &mut faults));
        let dlq_target = lookup("DLQ_TARGET").and_then(|text| {
            Target::parse(&text).or_else(|| fault(&mut faults, "DLQ_TARGET", FUNCTION, &text))
        });
        let ledger_table = lookup("LEDGER_TABLE");
        if let Some(table) = ledger_table.as_ref().filter(|table| !is_table(table)) {
            faults.push(Fault::new("LEDGER_TABLE", TABLE, table));
        }
        let policies = Policies::read(&lookup, &mut faults);
        match dead_letter_queue_url {
            Some(dead_letter_queue_url) if faults.is_empty() => Ok(Self {
                dead_letter_queue_url,
                retry_queue_url,
                targets,
                dlq_target,
                ledger_table,
                policies,
            }),
            _ => Err(BadSettings(faults)),
        }
    }
}

/// A variable that is no setting, but looks like one.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Misspelt {
    variable: String,
    setting: &'static str,
}

impl Misspelt {
    /// Finds those among the names of an environment's variables.
    pub fn among(variables: impl IntoIterator<Item = String>) -> Vec<Self> {
        let settings = || POLICY_NAMES.into_iter().chain(OTHER_NAMES);
        let others = variables.into_iter().filter(|name| !settings().any(|known| known == name));
        let misspelt = |variable: String| {
            let edits = |to: &str| strsim::osa_distance(&variable.to_ascii_uppercase(), to);
            let (edits, setting) = settings().map(|known| (edits(known), known)).min()?;
            (edits <= EDITS_MAX.min(setting.len() / 4)).then_some(Self { variable, setting })
        };
        others.filter_map(misspelt).collect()
    }
}

impl fmt::Display for Misspelt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { variable, setting } = self;
        write!(f, "{variable} is no setting and is ignored; did you mean {setting}?")
    }
}

/// Every setting that is wrong.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub struct BadSettings(Vec<Fault>);

impl BadSettings {
    /// The variables that are wrong; what is wrong within `POLICIES` by its path.
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

/// One setting that is wrong: what it must be and what it is.
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

    fn missing(name: &str, expected: &str) -> Self {
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

fn fault<T>(faults: &mut Vec<Fault>, name: &str, expected: &str, got: &str) -> Option<T> {
    faults.push(Fault::new(name, expected, got));
    None
}

/// The entries of a list, without the space around them and without empty ones.
pub(crate) fn list<'a>(entries: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let trimmed = entries.into_iter().map(str::trim);
    trimmed.filter(|entry| !entry.is_empty()).map(str::to_owned).collect()
}

fn is_queue_url(value: &str) -> bool {
    let rest = value.strip_prefix("https://").or_else(|| value.strip_prefix("http://"));
    let path = rest.and_then(|rest| rest.split_once('/'));
    path.is_some_and(|(host, name)| !host.is_empty() && !name.trim_matches('/').is_empty())
        && !value.contains(char::is_whitespace)
}

/// DynamoDB's own rule for the names of tables; an ARN names one of another account.
fn is_table(value: &str) -> bool {
    let named = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    let is_name = |name: &str| (3..=255).contains(&name.len()) && name.chars().all(named);
    match value.strip_prefix("arn:") {
        Some(rest) => rest
            .split_once(":table/")
            .is_some_and(|(owner, name)| owner.contains(":dynamodb:") && is_name(name)),
        None => is_name(value),
    }
}

/// The functions that may be re-invoked.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Targets {
    /// Any in the handler's own account and region.
    Home,
    /// Those that match one of these names or ARNs; a name is one of the same account and region.
    Listed(Vec<String>),
}

impl Targets {
    fn read(list_of_patterns: &str, faults: &mut Vec<Fault>) -> Self {
        let patterns = list(list_of_patterns.split(','));
        let name = |c: char| c.is_ascii_alphanumeric() || "-_*".contains(c);
        for bad in
            patterns.iter().filter(|text| !text.starts_with("arn:") && !text.chars().all(name))
        {
            let expected = "function names or ARNs, with * for any run, separated by commas";
            faults.push(Fault::new("TARGET_FUNCTIONS", expected, bad));
        }
        if patterns.is_empty() {
            faults.push(Fault::new(
                "TARGET_FUNCTIONS",
                "a list that names a function",
                list_of_patterns,
            ));
        }
        Self::Listed(patterns)
    }

    /// Whether this function may be re-invoked by a handler that lives at `home`.
    pub fn allow(&self, function: &FunctionArn, home: &Home) -> bool {
        let at_home = function.home() == *home;
        match self {
            Self::Home => at_home,
            Self::Listed(patterns) => patterns.iter().any(|listed| {
                if listed.starts_with("arn:") {
                    pattern::matches(listed, function.as_str())
                        || pattern::matches(listed, function.unqualified())
                } else {
                    at_home && pattern::matches(listed, function.name())
                }
            }),
        }
    }
}

/// A function, by its ARN or by its name at home.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Target {
    /// By its ARN.
    Arn(FunctionArn),
    /// By its name.
    Name(String),
}

impl Target {
    fn parse(text: &str) -> Option<Self> {
        FunctionArn::parse(text)
            .map(Self::Arn)
            .or_else(|| is_function_name(text).then(|| Self::Name(text.to_owned())))
    }

    /// The function's ARN, for a handler that lives at `home`.
    pub fn at(&self, home: &Home) -> Option<FunctionArn> {
        match self {
            Self::Arn(arn) => Some(arn.clone()),
            Self::Name(name) => home.function(name),
        }
    }
}

/// The rules for every function: the general ones, and those of the functions that have their own.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Policies {
    general: Policy,
    by_function: BTreeMap<String, Policy>,
}

impl Policies {
    /// The rules for the function of this name.
    pub fn of(&self, function: &str) -> &Policy {
        self.by_function.get(function).unwrap_or(&self.general)
    }

    fn read(lookup: &impl Fn(&str) -> Option<String>, faults: &mut Vec<Fault>) -> Self {
        let general = policy(&Policy::default(), "", lookup, faults);
        let by_function = lookup("POLICIES")
            .map(|text| Self::read_own(&text, &general, faults))
            .unwrap_or_default();
        Self { general, by_function }
    }

    fn read_own(text: &str, general: &Policy, faults: &mut Vec<Fault>) -> BTreeMap<String, Policy> {
        let Some(functions) = Object::read(text) else {
            let expected = r#"a JSON object such as {"orders":{"MAX_AGE":"7d"}}"#;
            faults.push(Fault::new("POLICIES", expected, text));
            return BTreeMap::new();
        };
        let mut policies = BTreeMap::new();
        for (function, values) in functions.members() {
            let prefix = format!("POLICIES.{function}");
            if !is_function_name(function) {
                let expected = "for a function by its name, without ARN and alias";
                faults.push(Fault::new("POLICIES", expected, function));
            }
            let Some(values) = Object::read(values.get()) else {
                let expected = r#"an object such as {"MAX_AGE":"7d"}"#;
                faults.push(Fault::new(prefix, expected, values.get()));
                continue;
            };
            let unknown = values.members().filter(|(name, _)| !POLICY_NAMES.contains(name));
            for (name, _) in unknown {
                let expected = format!("one of {}", POLICY_NAMES.join(", "));
                faults.push(Fault::new(prefix.clone(), expected, name));
            }
            let own = |name: &str| values.get(name).map(plain);
            policies
                .insert(function.to_owned(), policy(general, &format!("{prefix}."), &own, faults));
        }
        policies
    }
}

/// A value of `POLICIES` as its variable would have it: a string or a number; a list joined by commas.
fn plain(value: &RawValue) -> String {
    json::text(value)
        .or_else(|| Some(serde_json::from_str::<Vec<String>>(value.get()).ok()?.join(",")))
        .unwrap_or_else(|| value.get().to_owned())
}

/// One policy: the values that `lookup` has, over those of `base`. Values that contradict each other
/// are named where one of them was set.
fn policy(
    base: &Policy,
    prefix: &str,
    lookup: &impl Fn(&str) -> Option<String>,
    faults: &mut Vec<Fault>,
) -> Policy {
    let mut read = Reader { prefix, lookup, faults };
    let mut policy = base.clone();
    read.value("BASE_BACKOFF", DURATION, duration::parse, &mut policy.backoff.base);
    read.value("MAX_BACKOFF", DURATION, duration::parse, &mut policy.backoff.max);
    read.value("MAX_AGE", DURATION, duration::parse, &mut policy.max_age);
    read.value("JITTER", "full, equal or none", jitter, &mut policy.backoff.jitter);
    read.max_attempts(&mut policy.max_attempts);
    if let Some(list) = lookup("NON_RETRYABLE_ERRORS") {
        policy.non_retryable = NonRetryable::parse(&list);
    }
    let inherited = base.faults();
    let is_own = |fault: &Fault| lookup(&fault.name).is_some() || !inherited.contains(fault);
    let own = policy.faults().into_iter().filter(is_own);
    faults.extend(own.map(|fault| Fault { name: format!("{prefix}{}", fault.name), ..fault }));
    policy
}

struct Reader<'a, L> {
    prefix: &'a str,
    lookup: &'a L,
    faults: &'a mut Vec<Fault>,
}

impl<L: Fn(&str) -> Option<String>> Reader<'_, L> {
    /// Puts a value that is set in its place; one that is wrong is noted, and the place left as it was.
    fn value<T>(
        &mut self,
        name: &str,
        expected: &str,
        parse: fn(&str) -> Option<T>,
        place: &mut T,
    ) {
        if let Some(text) = (self.lookup)(name) {
            match parse(text.trim()) {
                Some(value) => *place = value,
                None => {
                    self.faults.push(Fault::new(format!("{}{name}", self.prefix), expected, text))
                }
            }
        }
    }

    fn max_attempts(&mut self, place: &mut Option<Attempt>) {
        const EXPECTED: &str = "a whole number from 1";
        let (mut attempts, mut retries) = (None, None);
        self.value("MAX_ATTEMPTS", EXPECTED, |text| whole(text).map(Some), &mut attempts);
        self.value("MAX_RETRIES", EXPECTED, |text| whole(text).map(Some), &mut retries);
        match (attempts, retries) {
            (Some(attempts), Some(retries)) if attempts != retries => {
                let expected = format!("the same as MAX_ATTEMPTS, {attempts}, whose alias it is");
                let name = format!("{}MAX_RETRIES", self.prefix);
                self.faults.push(Fault::new(name, expected, retries.to_string()));
            }
            _ => *place = attempts.or(retries).or(*place),
        }
    }
}

fn whole(text: &str) -> Option<Attempt> {
    Attempt::new(text.parse::<NonZeroU32>().ok()?.get())
}

fn jitter(text: &str) -> Option<Jitter> {
    match text {
        "full" => Some(Jitter::Full),
        "equal" => Some(Jitter::Equal),
        "none" => Some(Jitter::None),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
