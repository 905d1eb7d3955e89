//! `comeback policy`: the policy that is in force for a function or a queue, and for one of its errors.

use std::time::Duration;

use comeback_core::{
    Attempt, Timestamp, backoff::Jitter, duration::format, error_type::ErrorReport,
    settings::policy::Policy, target::Target,
};
use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    account::{handlers::only, known::Names},
    aws::{Aws, reads::functions},
    failure::Failure,
    operate::options::SystemOptions,
    paint::{Line, Style},
    shell::{Outcome, Shell},
    typed::not_empty,
    untrusted,
};

/// How many waits are shown one by one.
const WAITS_SHOWN: u32 = 12;

#[derive(Debug, clap::Args)]
pub struct PolicyArgs {
    /// The function, or a queue such as sqs:imports, by its name or ARN.
    #[arg(value_name = "FUNCTION|QUEUE", value_parser = not_empty)]
    pub function: String,
    /// The type of the error with which an event failed, as its runtime reports it.
    #[arg(long, value_name = "TYPE", value_parser = not_empty)]
    pub error: Option<String>,
    /// Print one JSON document instead of text.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub system: SystemOptions,
}

/// The document of `--json`. Durations are in seconds.
#[derive(JsonSchema, Serialize)]
pub struct PolicyJson {
    handler: String,
    function: String,
    #[schemars(with = "Option<untrusted::Text>")]
    error: Option<String>,
    /// The name of the policy of the error, if it has one of its own.
    by: Option<String>,
    /// Whether an event that fails with the error is retried.
    retried: bool,
    /// The longest wait before each of the first attempts.
    waits: Vec<u64>,
    jitter: &'static str,
    max_age: u64,
    max_attempts: Option<u32>,
    transparent: bool,
    /// The names of the policies of errors that this function has.
    errors: Vec<String>,
}

impl PolicyJson {
    fn of(handler: &str, function: &str, policy: &Policy, error: Option<&str>) -> Self {
        let report = ErrorReport { error_type: error.map(str::to_owned), ..ErrorReport::default() };
        let own = policy.of_error(&report);
        let used = policy.after(&report);
        let attempts = (1..=WAITS_SHOWN).filter_map(Attempt::new);
        let attempts = attempts.filter(|it| used.max_attempts.is_none_or(|max| *it <= max));
        Self {
            handler: handler.to_owned(),
            function: function.to_owned(),
            error: error.map(str::to_owned),
            by: own.map(|own| own.name.clone()),
            retried: !used.non_retryable.covers(&report),
            waits: attempts.map(|attempt| used.ceiling(attempt).as_secs()).collect(),
            jitter: match used.backoff.jitter {
                Jitter::Full => "full",
                Jitter::Equal => "equal",
                Jitter::None => "none",
            },
            max_age: used.max_age.as_secs(),
            max_attempts: used.max_attempts.map(Attempt::get),
            transparent: policy.transparent,
            errors: policy.errors.iter().map(|own| own.name.clone()).collect(),
        }
    }

    fn lines(&self) -> Vec<Line> {
        let seconds = |seconds: u64| format(Duration::from_secs(seconds));
        let mut title = format!("{}, by {}", self.function, self.handler);
        if let Some(error) = &self.error {
            title += &format!(", after {error}");
        }
        let mut lines = vec![Line::of(Style::Strong, title)];
        if !self.retried {
            lines.push(Line::of(Style::Plain, "given up at once: the error is not retryable"));
            return lines;
        }
        let waits = self.waits.iter().map(|wait| seconds(*wait)).collect::<Vec<_>>().join(", ");
        let on = if self.max_attempts.is_some_and(|max| max <= WAITS_SHOWN) { "" } else { ", …" };
        let attempts = self.max_attempts.map_or("no limit".to_owned(), |it| it.to_string());
        let errors = match self.errors.as_slice() {
            [] => "none".to_owned(),
            errors => errors.join(", "),
        };
        let facts = [
            ("decided by", self.by.clone().unwrap_or("the function's own policy".to_owned())),
            ("waits up to", waits + on),
            ("jitter", self.jitter.to_owned()),
            ("given up after", seconds(self.max_age)),
            ("attempts", attempts),
            ("envelope", if self.transparent { "none" } else { "yes" }.to_owned()),
            ("errors with policies", errors),
        ];
        let line = |(name, what): (&str, String)| {
            Line::of(Style::Faint, format!("  {name:<22}")).and(Style::Plain, what)
        };
        lines.extend(facts.map(line));
        lines
    }
}

pub async fn document(args: &PolicyArgs, now: fn() -> Timestamp) -> Result<PolicyJson, Failure> {
    let aws = Aws::connect(&args.system.connection, now).await?;
    let functions = functions(&aws).await?;
    let handler = only(&functions, args.system.handler.as_deref())?;
    let settings = handler.settings()?;
    let arn = handler.arn_of(&args.function);
    let target = Target::parse(&arn).ok_or_else(|| {
        format!("expected the name of a function or a queue, got {}", args.function)
    })?;
    Names::of(&functions).find(target.name()).map_err(|unknown| unknown.to_string())?;
    // All versions and aliases of a function have one policy.
    let policy = settings.rules.policies.of(target.name());
    Ok(PolicyJson::of(handler.name(), target.name(), policy, args.error.as_deref()))
}

pub async fn run(args: &PolicyArgs, shell: &Shell) -> Result<Outcome, Failure> {
    let document = document(args, shell.now).await?;
    if args.json {
        shell.print_json(&document).await?;
    } else {
        shell.print(&document.lines()).await?;
    }
    Ok(Outcome::Success)
}

#[cfg(test)]
mod tests {
    use comeback_core::settings::Settings;

    use super::*;
    use crate::paint::tests::texts;

    #[test]
    fn the_policy_of_a_function_and_of_an_error_is_told() {
        let settings = Settings::from_lookup(|name| {
            let value = match name {
                "DEAD_LETTER_QUEUE_URL" => "https://sqs.us-east-1.amazonaws.com/123456789012/dead",
                "MAX_ATTEMPTS" => "3",
                "POLICIES" => {
                    r#"{"*":{"ERRORS":{"app.Limited*":{"BACKOFFS":"4s,3h"}}},"orders":{"MAX_AGE":"7d"}}"#
                }
                _ => return None,
            };
            Some(value.to_owned())
        });
        let rules = settings.unwrap().rules;
        let told = |function: &str, error| {
            let told = PolicyJson::of("retries", function, rules.policies.of(function), error);
            texts(&told.lines()).join("\n")
        };
        let orders = told("orders", None);
        for part in [
            "orders, by retries",
            "1s, 2s, 4s\n",
            "given up after        7d",
            "attempts              3",
        ] {
            assert!(orders.contains(part), "{part}: {orders}");
        }
        let limited = told("mails", Some("app.LimitedByRate"));
        for part in ["after app.LimitedByRate", "app.Limited* of *", "4s, 3h, 3h"] {
            assert!(limited.contains(part), "{part}: {limited}");
        }
        assert!(told("mails", Some("PermanentFailure")).contains("given up at once"));
    }
}
