//! The messages of the retry queues that no handler has received: failures that nothing has decided about yet, and
//! events whose wait is over. The register and the log know nothing of the former.

use std::collections::BTreeSet;

use comeback_core::pattern;
use futures_util::future::try_join_all;

use crate::{
    account::{
        fault::{Answer, Fault},
        function::Function,
        handlers::queue_targets,
        names::{last, target_name},
    },
    aws::{Aws, attached::retry_queues, reads},
    filter::any,
};

/// How many messages of these functions' queues are visible, as SQS counts them. A shared queue may have those of other
/// functions, too.
pub async fn not_received(aws: &Aws, handler: &Function, functions: &[String]) -> Answer<u64> {
    let all = retry_queues(aws, handler).await?;
    let counts = of_functions(&all, handler, functions).into_iter().map(async |arn| {
        let queue = reads::queue(aws, arn).await.attributes?;
        let missing =
            || Fault::of("sqs:GetQueueAttributes", arn, "NonExistentQueue", "no such queue");
        queue.map(|attributes| attributes.visible).ok_or_else(missing)
    });
    Ok(try_join_all(counts).await?.into_iter().sum())
}

/// The queues that these functions may use: all of them if there are no names, or patterns.
fn of_functions<'a>(
    all: &'a BTreeSet<String>,
    handler: &Function,
    functions: &[String],
) -> Vec<&'a String> {
    let bound = queue_targets(&handler.environment);
    let names: Vec<_> = functions.iter().map(|name| handler.arn_of(name)).collect();
    let may_use = |queue: &str, arn: &str| {
        let name = target_name(arn);
        let allowed = bound.get(last(queue));
        name.contains('*')
            || allowed.is_none_or(|it| it.iter().any(|it| pattern::matches(it, &name)))
    };
    all.iter().filter(|queue| any(&names, |arn| may_use(queue, arn))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::account::function::tests::with;

    #[test]
    fn a_function_may_use_its_own_queue_and_the_shared_one_and_a_pattern_has_all() {
        let targets = r#"{"retry-orders":["orders"],"retry-mails":["mails"],"retry":["*"]}"#;
        let handler = with("handler", "QUEUE_TARGETS", targets);
        let arn = |name: &str| format!("arn:aws:sqs:eu-west-1:123456789012:{name}");
        let all: BTreeSet<_> = ["retry", "retry-mails", "retry-orders"].map(arn).into();
        for (functions, expected) in [
            (&[] as &[&str], &["retry", "retry-mails", "retry-orders"] as &[&str]),
            (&["orders"], &["retry", "retry-orders"]),
            (&["others"], &["retry"]),
            (&["orders", "m*"], &["retry", "retry-mails", "retry-orders"]),
        ] {
            let functions: Vec<_> = functions.iter().map(|&name| name.to_owned()).collect();
            let found = of_functions(&all, &handler, &functions);
            let found: Vec<_> = found.into_iter().map(|arn| last(arn)).collect();
            assert_eq!(found, expected, "{functions:?}");
        }
    }
}
