//! The refusal of a transaction.

use std::fmt;

use aws_sdk_dynamodb::types::CancellationReason;

/// DynamoDB's code for a write that did not cause the cancellation.
const NO_REASON: &str = "None";

/// The reasons why DynamoDB refused the writes of an operation.
///
/// This needs the feature `dynamodb`.
///
/// ```
/// use aws_sdk_dynamodb::types::CancellationReason;
/// use comeback::idempotency::Error;
///
/// fn is_taken(error: &Error<std::fmt::Error>) -> bool {
///     let failed = |reason: &CancellationReason| reason.code() == Some("ConditionalCheckFailed");
///     matches!(error, Error::Cancelled(cancelled) if cancelled.reasons().iter().any(failed))
/// }
/// # assert!(!is_taken(&Error::Operation(std::fmt::Error)));
/// ```
#[derive(Clone, PartialEq, thiserror::Error)]
#[error("{}", self.words())]
pub struct Cancelled(pub(super) Vec<CancellationReason>);

/// Omits the items that the reasons may contain.
impl fmt::Debug for Cancelled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.blamed()).finish()
    }
}

impl Cancelled {
    /// DynamoDB's reason for each write of the operation, in their order, and for the mark. The code is the text
    /// `None` if a write did not cause the cancellation.
    pub fn reasons(&self) -> &[CancellationReason] {
        &self.0
    }

    /// The writes that caused the cancellation, counted from 1.
    pub(super) fn blamed(&self) -> impl Iterator<Item = (usize, &str)> {
        let codes = (1..).zip(self.0.iter().map(|reason| reason.code().unwrap_or(NO_REASON)));
        codes.filter(|(_, code)| *code != NO_REASON)
    }

    fn words(&self) -> String {
        let blamed = self.blamed().map(|(write, code)| format!("write {write}: {code}"));
        blamed.collect::<Vec<_>>().join(", ")
    }
}

#[cfg(test)]
mod tests {
    use aws_sdk_dynamodb::types::AttributeValue;

    use super::*;

    #[test]
    fn debug_output_omits_the_items_in_the_reasons() {
        let card = AttributeValue::S("4711".to_owned());
        let met = CancellationReason::builder().code(NO_REASON).build();
        let failed =
            CancellationReason::builder().code("ConditionalCheckFailed").item("card", card).build();
        let shown = format!("{:?}", Cancelled(vec![met, failed]));
        assert_eq!(shown, r#"[(2, "ConditionalCheckFailed")]"#);
    }
}
