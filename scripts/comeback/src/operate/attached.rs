//! The functions whose failures are retried.

use std::collections::BTreeSet;

use comeback_core::arn::FunctionArn;
use comeback_operate::{doctor::InvokeConfig, ports::Fault, systems::Function};
use futures_util::future::try_join_all;

use super::{aws::Aws, calls::Calls};

/// How AWS names the lack of a function.
const NOT_FOUND: &str = "ResourceNotFoundException";

/// A function that sends its failures to a retry queue.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Attached {
    /// Its ARN with the qualifier, as failure records name it.
    pub arn: String,
    /// The ARN of the queue.
    pub queue_arn: String,
}

/// The functions that send their failures to a queue of this retry handler.
pub async fn attached(
    aws: &Aws,
    handler: &Function,
    functions: &[Function],
) -> Result<Vec<Attached>, Fault> {
    let calls = Calls::new(aws);
    // Those of an alias of the handler are among them.
    let is_handler = |arn: &str| {
        FunctionArn::parse(arn).is_some_and(|function| function.unqualified() == handler.arn)
    };
    let mappings = calls.mappings().await?.into_iter();
    let mappings = mappings.filter(|mapping| is_handler(&mapping.function));
    let queues: BTreeSet<_> = mappings.map(|mapping| mapping.queue).collect();
    let functions = functions.iter().filter(|function| function.arn != handler.arn);
    let asked = functions.map(|function| destinations(&calls, &function.arn));
    let found = try_join_all(asked).await?.into_iter().flatten();
    let mut attached: Vec<_> = found.filter(|it| queues.contains(&it.queue_arn)).collect();
    attached.sort_unstable();
    Ok(attached)
}

/// The ARNs by which failure records may name this function: of the qualifier that it has, or else of `$LATEST` and of
/// every qualifier with a destination of its own.
pub async fn qualified(aws: &Aws, arn: &str) -> Result<Vec<String>, Fault> {
    let is_qualified =
        FunctionArn::parse(arn).is_none_or(|function| function.as_str() != function.unqualified());
    if is_qualified {
        return Ok(vec![arn.to_owned()]);
    }
    let found = destinations(&Calls::new(aws), arn).await?.into_iter();
    let arns: BTreeSet<_> = found.map(|it| it.arn).chain([format!("{arn}:$LATEST")]).collect();
    Ok(arns.into_iter().collect())
}

/// Where this function sends its failures, by its qualifiers.
async fn destinations(calls: &Calls, arn: &str) -> Result<Vec<Attached>, Fault> {
    let configs = match calls.invoke_configs(arn).await {
        // It was deleted since it was listed. Its events may still wait.
        Err(fault) if fault.code.as_deref() == Some(NOT_FOUND) => return Ok(Vec::new()),
        configs => configs?,
    };
    let attached = |config: InvokeConfig| {
        let qualifier = config.qualifier.as_deref().unwrap_or("$LATEST");
        Some(Attached { arn: format!("{arn}:{qualifier}"), queue_arn: config.on_failure? })
    };
    Ok(configs.into_iter().filter_map(attached).collect())
}
