//! What is to be attached.

use comeback_core::{arn::FunctionArn, settings::is_bucket_name};

use crate::operate::attach::rules::sender::SenderArgs;

/// The name of a function, with its alias or version.
pub type QualifiedName = (String, Option<String>);

#[derive(Clone, Debug, Default, Eq, PartialEq, clap::Args)]
pub struct Order {
    /// The function, by its name or ARN, with an alias or a version if that is what is invoked.
    #[arg(value_name = "FUNCTION[:ALIAS]", value_parser = parse, required_unless_present_any = ["queue", "rule", "schedule"])]
    pub function: Option<QualifiedName>,
    #[command(flatten)]
    pub sender: SenderArgs,
    /// Alone: the queue whose consumer fails, by its name or ARN. With a function, a rule or a schedule: the retry
    /// queue, by its name, URL or ARN [default: the only one that functions share].
    #[arg(long, value_name = "QUEUE")]
    pub queue: Option<String>,
    /// The retry queue of the queue, by its name, which is created if it doesn't exist [default: retry-QUEUE].
    #[arg(long, value_name = "NAME", conflicts_with_all = ["function", "rule", "schedule"])]
    pub retry_queue: Option<String>,
    /// How often SQS lets a consumer of the queue try before it moves a message [default: 1].
    #[arg(long, value_name = "N", conflicts_with_all = ["function", "rule", "schedule"], value_parser = clap::value_parser!(u64).range(1..=10))]
    pub max_receives: Option<u64>,
    /// Replace another on-failure destination, or the queue's dead-letter queue.
    #[arg(long, conflicts_with_all = ["rule", "schedule"])]
    pub replace: bool,
    /// Re-invoke the function with its original payload, without an envelope. Works for any function, and needs the
    /// handler's ledger.
    #[arg(long, requires = "function")]
    pub transparent: bool,
    /// Re-invoke the function with an envelope again, although it was attached with --transparent. What waits goes on
    /// from the attempt that it is at.
    #[arg(long, requires = "function", conflicts_with = "transparent")]
    pub envelope: bool,
    /// Send the function's failure records to this bucket, which notifies the retry queue: no record is too large for a
    /// bucket. The bucket must exist, in the handler's account and region.
    #[arg(long, value_name = "BUCKET", requires = "function", value_parser = bucket)]
    pub records: Option<String>,
    /// Send the batches of streams that the function could not process to that bucket, too, so that they come back.
    /// Their order is lost.
    #[arg(long, requires = "records")]
    pub streams: bool,
}

impl Order {
    /// Whether the function is to be re-invoked without an envelope; `None` leaves that as it is.
    pub fn transparency(&self) -> Option<bool> {
        (self.transparent || self.envelope).then_some(self.transparent)
    }

    /// The alias or version to attach; `None` is the function itself.
    pub fn qualifier(&self) -> Option<&str> {
        self.function.as_ref()?.1.as_deref()
    }
}

fn bucket(text: &str) -> Result<String, String> {
    let expected = "expected the name of a bucket, which is no URL or ARN";
    is_bucket_name(text).then(|| text.to_owned()).ok_or_else(|| expected.to_owned())
}

/// Parses a function's name or ARN into the name and the alias or version.
pub fn parse(text: &str) -> Result<QualifiedName, String> {
    let unqualified = |text: &str| (text != "$LATEST").then(|| text.to_owned());
    let named = if let Some(arn) = FunctionArn::parse(text) {
        let qualifier = text.strip_prefix(arn.unqualified()).unwrap_or_default();
        Some((arn.name().to_owned(), qualifier.strip_prefix(':').and_then(unqualified)))
    } else {
        let (name, qualifier) =
            text.split_once(':').map_or((text, None), |(name, it)| (name, Some(it)));
        let is_good = comeback_core::arn::is_function_name(name) && qualifier != Some("");
        is_good.then(|| (name.to_owned(), qualifier.and_then(unqualified)))
    };
    named.ok_or_else(|| "expected a function such as orders, orders:live or an ARN".to_owned())
}
