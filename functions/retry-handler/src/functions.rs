//! The port for functions: asynchronous invocations by Lambda, and CloudWatch's counts.

use std::{
    borrow::Cow,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use aws_config::SdkConfig;
use aws_sdk_lambda::{
    Client,
    config::{
        ConfigBag, Intercept, RuntimeComponents,
        interceptors::{BeforeTransmitInterceptorContextRef, FinalizerInterceptorContextRef},
    },
    error::{BoxError, SdkError},
    operation::{RequestId, invoke::InvokeError},
    primitives::Blob,
    types::InvocationType,
};
use comeback_core::{
    Timestamp,
    arn::FunctionArn,
    circuit::Minute,
    fault::{InvokeFault, classify, is_made_already, may_be_accepted},
};
use comeback_flow::ports::{CallFault, Functions, Invocation, Invoked};

use crate::{clients::fault_of, counts};

/// The header by which X-Ray and Lambda's recursive-loop detection follow an event.
const TRACE_HEADER: &str = "x-amzn-trace-id";

/// The header with the code of an error.
const ERROR_CODE: &str = "x-amzn-errortype";

pub struct LambdaFunctions {
    lambda: Client,
    /// For the counts, if functions are probed.
    metrics: Option<aws_sdk_cloudwatch::Client>,
}

impl LambdaFunctions {
    /// The functions of this configuration's account, with their CloudWatch metrics if they are probed.
    pub fn new(aws: &SdkConfig, probes: bool) -> Self {
        let metrics = probes.then(|| aws_sdk_cloudwatch::Client::new(aws));
        Self { lambda: Client::new(aws), metrics }
    }
}

/// Counts the calls that are made for one invocation, as the SDK repeats them, and those of them that Lambda has surely
/// refused.
#[derive(Clone, Debug, Default)]
struct Calls(Arc<(AtomicU32, AtomicU32)>);

impl Calls {
    /// How many calls Lambda may have accepted.
    fn open(&self) -> u32 {
        let (made, refused) = &*self.0;
        made.load(Ordering::Relaxed).saturating_sub(refused.load(Ordering::Relaxed))
    }
}

impl Intercept for Calls {
    fn name(&self) -> &'static str {
        "Calls"
    }

    fn read_before_transmit(
        &self,
        _: &BeforeTransmitInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        self.0.0.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn read_after_attempt(
        &self,
        context: &FinalizerInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let Some(response) = context.response() else { return Ok(()) };
        let code = response.headers().get(ERROR_CODE);
        if !may_be_accepted(code, Some(response.status().as_u16())) {
            self.0.1.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }
}

impl Functions for LambdaFunctions {
    async fn invoke(&self, invocation: Invocation<'_>) -> Invoked {
        let calls = Calls::default();
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
        let traced = call.customize().interceptor(calls.clone()).mutate_request(move |request| {
            let headers = request.headers_mut();
            headers.remove(TRACE_HEADER);
            // A trace that is not a valid header value is dropped.
            let _ = trace.clone().map(|trace| headers.try_insert(TRACE_HEADER, trace));
        });
        let answer = match traced.send().await {
            Ok(accepted) => Ok(accepted.request_id().map(str::to_owned)),
            Err(error) => match fault(&error) {
                // This answer does not say by which request the execution has begun.
                made if made.code.as_deref().is_some_and(is_made_already) => Ok(None),
                fault => Err(fault),
            },
        };
        let unanswered = calls.open().saturating_sub(u32::from(answer.is_ok()));
        Invoked { answer, unanswered }
    }

    async fn minutes(
        &self,
        function: &str,
        from: Timestamp,
        until: Timestamp,
    ) -> Result<Vec<Minute>, CallFault> {
        match (&self.metrics, FunctionArn::parse(function)) {
            (Some(metrics), Some(function)) => {
                counts::minutes(metrics, &function, from, until).await
            }
            (None, _) | (_, None) => Ok(Vec::new()),
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
