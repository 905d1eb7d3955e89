//! The life of an invocation.
//!
//! A synchronous invocation runs at once or is refused. An asynchronous one is queued, runs, is retried after a
//! failure, waits while it is throttled, and finally goes to the destinations of its function.

use std::sync::Arc;

use comeback_core::{Timestamp, time::later};

use super::{
    Cloud, Event, Payload, What,
    delivery::{ASYNCHRONOUS_BYTES_MAX, Condition},
    is_name,
    lambda::{
        Execution, Origin,
        error::LambdaError,
        function::Configuration,
        invoke_config::{self, QueuedEvent},
        name,
        recursion::{RUNS_MAX, RecursiveLoop, TraceHeader},
        run::{Outcome, Response, Run, RunId},
    },
};

/// The largest payload of a synchronous invocation, in bytes: 6 MB.
const SYNCHRONOUS_BYTES_MAX: usize = 6 * 1024 * 1024;

/// The longest name of a durable execution, in characters.
const EXECUTION_NAME_MAX: usize = 64;

/// The payload that a function receives if the invocation has none.
const NO_PAYLOAD: &[u8] = b"{}";

/// Lambda's own words, by which `comeback_core::fault` knows the refusal.
const NO_TENANT: &str = "The invoked function is enabled with tenancy configuration. Add a valid tenant ID in your request and try again.";

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InvocationType {
    #[default]
    RequestResponse,
    Event,
    /// Only the request is checked.
    DryRun,
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Invocation<'a> {
    pub function: &'a str,
    pub invocation_type: InvocationType,
    pub payload: &'a [u8],
    /// `X-Amzn-Trace-Id`.
    pub trace_header: Option<&'a str>,
    /// `X-Amz-Client-Context`, decoded.
    pub client_context: Option<&'a str>,
    /// `X-Amz-Tenant-Id`.
    pub tenant_id: Option<&'a str>,
    /// `X-Amz-Durable-Execution-Name`, which every invocation of a durable function has here.
    pub execution_name: Option<&'a str>,
    /// The function that invokes, if one does.
    pub by: Option<&'a str>,
}

/// The result of a request to run a function.
#[derive(Debug)]
pub enum Invoked {
    /// The event is in the asynchronous queue; it has this request id.
    Accepted(Arc<str>),
    /// The host must start this run, and the invoker waits for its response.
    Running(Box<Run>),
    /// The request of a dry run is valid.
    Possible,
}

impl Cloud {
    pub fn invoke(
        &mut self,
        now: Timestamp,
        invocation: Invocation<'_>,
    ) -> Result<Invoked, LambdaError> {
        let name = invocation.function;
        let function = self.lambda.function(name).map_err(|_| name::latest_not_found(name))?;
        let configuration = Arc::clone(&function.configuration);
        let payload = check_payload(invocation)?;
        let tenant_id = invocation.tenant_id.filter(|_| configuration.tenancy.is_some());
        if configuration.tenancy.is_some() && tenant_id.is_none_or(str::is_empty) {
            return Err(LambdaError::invalid(NO_TENANT));
        }
        let tenant_id = tenant_id.map(Arc::from);
        let execution = invocation.execution_name.filter(|_| configuration.durable.is_some());
        let execution =
            execution.map(|execution| (Arc::clone(&configuration.name), execution.into()));
        if let Some(key) = &execution
            && self.is_started(now, key, &payload, invocation.invocation_type)?
        {
            return Ok(Invoked::Accepted(self.lambda.ids.uuid().into()));
        }
        match invocation.invocation_type {
            InvocationType::DryRun => Ok(Invoked::Possible),
            InvocationType::Event => {
                self.begin_execution(execution, &payload);
                let header = invocation.trace_header.map(Arc::from);
                let by = invocation.by.map(Arc::from);
                Ok(Invoked::Accepted(self.accept(
                    now,
                    &configuration.name,
                    payload,
                    header,
                    tenant_id,
                    by,
                )))
            }
            InvocationType::RequestResponse => {
                let trace = TraceHeader::parse(invocation.trace_header.unwrap_or_default());
                let request_id: Arc<str> = self.lambda.ids.uuid().into();
                self.may_run(now, &configuration.name, &trace, Some(&request_id))?;
                self.begin_execution(execution, &payload);
                let origin = Origin::Synchronous;
                let mut run = self.begin(now, configuration, request_id, &trace, payload, origin);
                run.client_context = invocation.client_context.map(Arc::from);
                run.tenant_id = tenant_id;
                Ok(Invoked::Running(Box::new(run)))
            }
        }
    }

    /// Whether an execution of a durable function has been started before with the same payload.
    fn is_started(
        &mut self,
        now: Timestamp,
        key: &(Arc<str>, Arc<str>),
        payload: &Payload,
        invocation_type: InvocationType,
    ) -> Result<bool, LambdaError> {
        let (function, name) = key;
        if !is_name(name, EXECUTION_NAME_MAX) {
            let rule = "Member must satisfy regular expression pattern: [a-zA-Z0-9-_]+";
            return Err(LambdaError::constraint("durableExecutionName", name, rule));
        }
        let Some(execution) = self.lambda.executions.get(key) else { return Ok(false) };
        if execution.payload != *payload {
            return Err(LambdaError::DurableExecutionAlreadyStarted(name.to_string()));
        }
        if invocation_type == InvocationType::RequestResponse {
            return Err(LambdaError::invalid(
                "this local cloud does not keep the results of executions: invoke it as an Event",
            ));
        }
        self.happened.push(Event::new(now, function, None, What::AlreadyStarted));
        Ok(true)
    }

    fn begin_execution(&mut self, key: Option<(Arc<str>, Arc<str>)>, payload: &Payload) {
        if let Some(key) = key {
            let (function, id) = (name::qualified_arn(&key.0), self.lambda.ids.uuid());
            let arn = format!("{function}/durable-execution/{}/{id}", key.1).into();
            self.lambda.executions.insert(key, Execution { arn, payload: payload.clone() });
        }
    }

    pub(super) fn accept(
        &mut self,
        now: Timestamp,
        function: &Arc<str>,
        payload: Payload,
        trace_header: Option<Arc<str>>,
        tenant_id: Option<Arc<str>>,
        by: Option<Arc<str>>,
    ) -> Arc<str> {
        let request_id: Arc<str> = self.lambda.ids.uuid().into();
        let trace_header =
            trace_header.unwrap_or_else(|| TraceHeader::begin(now, &mut self.lambda.ids).into());
        let what = What::Accepted { payload: payload.clone(), by };
        self.happened.push(Event::new(now, function, Some(&request_id), what));
        let event = QueuedEvent {
            function: Arc::clone(function),
            request_id: Arc::clone(&request_id),
            payload,
            trace_header,
            tenant_id,
            accepted_at: now,
            runs: 0,
            throttles: 0,
        };
        self.lambda.queue.push(now, event);
        request_id
    }

    pub(super) fn run_due_events(&mut self, now: Timestamp, runs: &mut Vec<Run>) {
        while let Some(event) = self.lambda.queue.pop_due(now) {
            runs.extend(self.run_event(now, event));
        }
    }

    fn run_event(&mut self, now: Timestamp, mut event: QueuedEvent) -> Option<Run> {
        let Ok(function) = self.lambda.function(&event.function) else {
            // The destinations are deleted with the function.
            let what = What::GivenUp { condition: "FunctionDeleted", lost: true };
            self.note(now, &event, what);
            return None;
        };
        let configuration = Arc::clone(&function.configuration);
        let paused = function.reserved_concurrency == Some(0);
        let age = invoke_config::event_age(function.event_invoke_config.as_ref());
        let expires_at = later(event.accepted_at, age);
        if paused {
            self.settle(now, &event, Condition::ZeroReservedConcurrency, None);
            return None;
        }
        if now >= expires_at {
            self.settle(now, &event, Condition::EventAgeExceeded, None);
            return None;
        }
        let original_header = Arc::clone(&event.trace_header);
        let trace = TraceHeader::parse(&original_header);
        match self.may_run(now, &event.function, &trace, Some(&event.request_id)) {
            Ok(()) => {}
            Err(LambdaError::RecursiveInvocation(_)) => {
                self.settle(now, &event, Condition::RecursiveInvocation, None);
                return None;
            }
            Err(_) => {
                event.throttles += 1;
                // If the event expires before that, it is taken out of the queue then, and given up.
                let due = event.throttled_until(now).min(expires_at);
                self.lambda.queue.push(due, event);
                return None;
            }
        }
        event.runs += 1;
        event.throttles = 0;
        let request_id = Arc::clone(&event.request_id);
        let payload = event.payload.clone();
        let tenant_id = event.tenant_id.clone();
        let origin = Origin::Asynchronous(event);
        let run = self.begin(now, configuration, request_id, &trace, payload, origin);
        Some(Run { tenant_id, ..run })
    }

    /// Refuses a run if the function is in a recursive loop or has no free concurrency.
    pub(super) fn may_run(
        &mut self,
        now: Timestamp,
        name: &str,
        trace: &TraceHeader<'_>,
        request_id: Option<&Arc<str>>,
    ) -> Result<(), LambdaError> {
        let function = self.lambda.function(name)?;
        let name = &function.configuration.name;
        if function.recursive_loop == RecursiveLoop::Terminate
            && trace.runs(&function.configuration.hash) >= RUNS_MAX
        {
            self.happened.push(Event::new(now, name, request_id, What::RecursionStopped));
            return Err(LambdaError::RecursiveInvocation(name.to_string()));
        }
        if let Some(reason) = self.lambda.throttle(function) {
            self.happened.push(Event::new(now, name, request_id, What::Throttled));
            return Err(LambdaError::TooManyRequests(reason));
        }
        Ok(())
    }

    pub(super) fn begin(
        &mut self,
        now: Timestamp,
        configuration: Arc<Configuration>,
        request_id: Arc<str>,
        trace: &TraceHeader<'_>,
        payload: Payload,
        origin: Origin,
    ) -> Run {
        let header: Arc<str> = trace.enter(&configuration.hash, now, &mut self.lambda.ids).into();
        let what = What::Started { payload: payload.clone() };
        self.happened.push(Event::new(now, &configuration.name, Some(&request_id), what));
        let id = self.lambda.begin(
            Arc::clone(&configuration),
            Arc::clone(&request_id),
            Arc::clone(&header),
            origin,
        );
        Run {
            id,
            configuration,
            request_id,
            payload,
            trace_header: header,
            client_context: None,
            tenant_id: None,
        }
    }

    /// Records a run's outcome: settles its event or queues it again, or deletes the messages of its batch. Returns the
    /// response for the invoker, or `None` if there is no such run.
    pub fn finish(&mut self, now: Timestamp, run: RunId, outcome: Outcome) -> Option<Response> {
        let running = self.lambda.end(run)?;
        let timeout = running.configuration.timeout();
        let response = outcome.response(&running.request_id, timeout);
        let payload = Payload::of_response(&response.payload);
        let what = What::Finished { outcome: response.ending, response: payload };
        let function = &running.configuration.name;
        self.happened.push(Event::new(now, function, Some(&running.request_id), what));
        match running.origin {
            Origin::Synchronous => {}
            Origin::Asynchronous(mut event) => {
                let original_header =
                    std::mem::replace(&mut event.trace_header, running.trace_header);
                self.finish_event(now, event, original_header, &response);
            }
            Origin::Mapping { uuid, queue, report_batch_item_failures, batch } => {
                if !response.is_error() {
                    let report = report_batch_item_failures.then_some(&*response.payload);
                    self.delete_batch(now, &queue, &batch, report);
                }
                if let Some(mapping) = self.lambda.mappings.get_mut(&uuid) {
                    mapping.poller.finished();
                }
            }
            Origin::Stream { uuid, records } => {
                self.finish_batch(now, &uuid, &records, &running.request_id, &response);
            }
        }
        Some(response)
    }

    /// Settles an event whose run has ended, or queues it again. `event` has the trace header of the run, which its
    /// record needs. It is queued again with `original_header`.
    fn finish_event(
        &mut self,
        now: Timestamp,
        mut event: QueuedEvent,
        original_header: Arc<str>,
        response: &Response,
    ) {
        let function = self.lambda.function(&event.function).ok();
        let config = function.and_then(|function| function.event_invoke_config.as_ref());
        // Without checkpoints, the first failure ends a durable execution.
        let is_durable = function.is_some_and(|it| it.configuration.durable.is_some());
        let retries = if is_durable { 0 } else { invoke_config::retry_attempts(config) };
        let expires_at = later(event.accepted_at, invoke_config::event_age(config));
        let retry_at = event.retry_at(now);
        let condition = if !response.is_error() {
            Condition::Success
        } else if event.runs > retries {
            Condition::RetriesExhausted
        } else if retry_at > expires_at {
            // The event would be too old by then.
            Condition::EventAgeExceeded
        } else {
            event.trace_header = original_header;
            self.lambda.queue.push(retry_at, event);
            return;
        };
        self.settle(now, &event, condition, Some(response));
    }
}

fn check_payload(invocation: Invocation<'_>) -> Result<Payload, LambdaError> {
    let (limit, invocation_type) = match invocation.invocation_type {
        InvocationType::Event => (ASYNCHRONOUS_BYTES_MAX, "Event"),
        InvocationType::RequestResponse => (SYNCHRONOUS_BYTES_MAX, "RequestResponse"),
        InvocationType::DryRun => (SYNCHRONOUS_BYTES_MAX, "DryRun"),
    };
    let bytes = invocation.payload.len();
    if bytes > limit {
        return Err(LambdaError::RequestTooLarge { bytes, invocation_type, limit });
    }
    let payload = if bytes == 0 { NO_PAYLOAD } else { invocation.payload };
    Payload::parse(payload).map_err(|error| LambdaError::InvalidRequestContent(error.to_string()))
}
