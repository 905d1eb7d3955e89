//! The services as they are spoken to: requests in, steps on the model, AWS's answers out.

pub(crate) mod lambda;
pub(crate) mod sqs;
