//! Asynchronous invocations, and CloudWatch's counts of all invocations.

use std::{borrow::Cow, time::Duration};

use aws_config::SdkConfig;
use aws_sdk_lambda::{
    Client, error::SdkError, operation::invoke::InvokeError, primitives::Blob,
    types::InvocationType,
};
use comeback_core::{
    Timestamp,
    circuit::Minute,
    fault::{InvokeFault, classify},
};
use comeback_flow::ports::{CallFault, Functions, Invocation};

use crate::{clients::fault_of, metrics::Metrics};

/// The header by which X-Ray and Lambda's recursive-loop detection follow an event.
const TRACE_HEADER: &str = "x-amzn-trace-id";

pub struct LambdaFunctions {
    lambda: Client,
    metrics: Option<Metrics>,
}

impl LambdaFunctions {
    /// The functions of this configuration's account, with their CloudWatch metrics if they are probed.
    pub fn new(aws: &SdkConfig, probes: bool) -> Self {
        Self { lambda: Client::new(aws), metrics: probes.then(|| Metrics::new(aws)) }
    }
}

impl Functions for LambdaFunctions {
    async fn invoke(&self, invocation: Invocation<'_>) -> Result<(), InvokeFault> {
        let trace = invocation.trace_header.map(str::to_owned);
        let call = self
            .lambda
            .invoke()
            .function_name(invocation.function)
            .invocation_type(InvocationType::Event)
            .set_tenant_id(invocation.tenant_id.map(Cow::into_owned))
            .set_durable_execution_name(invocation.execution_name)
            .payload(Blob::new(invocation.payload));
        // The SDK would send the trace of the batch, which contains other events too.
        let traced = call.customize().mutate_request(move |request| {
            let headers = request.headers_mut();
            headers.remove(TRACE_HEADER);
            // A trace that is not a valid header value is dropped.
            let _ = trace.clone().map(|trace| headers.try_insert(TRACE_HEADER, trace));
        });
        traced.send().await.map(drop).map_err(|error| fault(&error))
    }

    async fn minutes(
        &self,
        function: &str,
        from: Timestamp,
        until: Timestamp,
    ) -> Result<Vec<Minute>, CallFault> {
        match &self.metrics {
            Some(metrics) => metrics.minutes(function, from, until).await,
            None => Ok(Vec::new()),
        }
    }
}

fn fault(error: &SdkError<InvokeError>) -> InvokeFault {
    let (code, status, message) = fault_of(error);
    let kind = classify(code.as_deref(), status, &message, retry_after(error));
    InvokeFault { kind, code, message }
}

/// Lambda has this time in the error or in a header.
fn retry_after(error: &SdkError<InvokeError>) -> Option<Duration> {
    let in_error = match error.as_service_error() {
        Some(InvokeError::TooManyRequestsException(throttled)) => throttled.retry_after_seconds(),
        _ => None,
    };
    let in_header = || error.raw_response()?.headers().get("retry-after");
    Some(Duration::from_secs(in_error.or_else(in_header)?.parse().ok()?))
}
