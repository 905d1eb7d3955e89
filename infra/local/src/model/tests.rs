//! Tests of the rules that involve both services: asynchronous events, destinations, batches and recursion.

mod invocations;
mod mapping;
mod properties;
mod recursion;

use std::{sync::Arc, time::Duration};

use comeback_core::{Timestamp, time::later};
use serde_json::Value;

use super::{
    Cloud, Invocation, InvocationType, Invoked, Waiting,
    lambda::{
        error::LambdaError,
        function::{Code, Program, Settings},
        invoke_config::EventInvokeSettings,
        mapping::{MappingSettings, ScalingConfig},
        run::{Outcome, Run},
    },
    queue_arn,
    sqs::{Outgoing, Received},
};
use crate::journal::What;

/// A cloud and its clock, which only the tests advance.
struct World {
    cloud: Cloud,
    now: Timestamp,
    runs: Vec<Run>,
}

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn failure() -> Outcome {
    Outcome::Failed(br#"{"errorType":"E","errorMessage":"no luck"}"#.to_vec())
}

fn success() -> Outcome {
    Outcome::Returned(b"null".to_vec())
}

impl World {
    /// A cloud with the function `f` and an account limit of `concurrency` concurrent runs.
    fn with_concurrency(concurrency: u32) -> Self {
        let mut world = Self {
            cloud: Cloud::new(concurrency, 1),
            now: Timestamp::from_timestamp(1_700_000_000, 0).unwrap(),
            runs: Vec::new(),
        };
        world.function("f", Settings::default());
        world
    }

    fn new() -> Self {
        Self::with_concurrency(100)
    }

    fn function(&mut self, name: &str, settings: Settings) {
        let code =
            Code { program: Program::Bootstrap("/f".into()), size: 0, sha256: String::new() };
        self.cloud.lambda.create_function(self.now, name, code, settings).unwrap();
    }

    fn queue(&mut self, name: &str, attributes: &[(&str, &str)]) {
        let attributes = attributes.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned()));
        self.cloud.sqs.create_queue(self.now, name, &attributes.collect()).unwrap();
    }

    /// Sets the event invoke config of `f`, with the queue `failed` as the on-failure destination.
    fn on_failure(&mut self, retries: i64, age: i64) {
        self.queue("failed", &[]);
        let settings = EventInvokeSettings {
            maximum_retry_attempts: Some(retries),
            maximum_event_age_in_seconds: Some(age),
            on_success: None,
            on_failure: Some(queue_arn("failed")),
        };
        self.cloud.lambda.set_event_invoke_config(self.now, "f", &settings, false).unwrap();
    }

    /// Maps a queue to `f` and waits until the mapping is enabled.
    fn map(&mut self, queue: &str, settings: &MappingSettings) -> Arc<str> {
        let mapping = self.cloud.create_mapping(self.now, &queue_arn(queue), "f", settings);
        let uuid = mapping.unwrap().uuid.clone();
        self.pass(secs(1));
        uuid
    }

    fn invoke(
        &mut self,
        invocation_type: InvocationType,
        payload: &str,
        trace_header: Option<&str>,
    ) -> Result<Invoked, LambdaError> {
        self.cloud.invoke(
            self.now,
            Invocation {
                function: "f",
                invocation_type,
                payload: payload.as_bytes(),
                trace_header,
                client_context: None,
                tenant_id: None,
            },
        )
    }

    fn event(&mut self, payload: &str) -> String {
        let invoked = self.invoke(InvocationType::Event, payload, None).unwrap();
        let Invoked::Accepted(request_id) = invoked else { panic!("{invoked:?}") };
        request_id.to_string()
    }

    fn send(&mut self, queue: &str, body: &str) {
        let message = Outgoing { body: body.into(), ..Outgoing::default() };
        self.cloud.sqs.send(self.now, queue, message).unwrap();
    }

    /// Lets the cloud do everything that is due now. Returns the runs that start.
    fn advance(&mut self) -> Vec<Run> {
        self.cloud.advance(self.now)
    }

    fn run(&mut self) -> Run {
        let mut runs = self.advance();
        assert_eq!(runs.len(), 1, "{runs:?}");
        runs.remove(0)
    }

    fn finish(&mut self, run: &Run, outcome: Outcome) {
        self.cloud.finish(self.now, run.id, outcome).unwrap();
    }

    /// Sends an event to `f`, whose only run ends so. Returns its request id.
    fn play(&mut self, payload: &str, outcome: Outcome) -> String {
        let request_id = self.event(payload);
        let run = self.run();
        self.finish(&run, outcome);
        request_id
    }

    /// Advances the clock until something is due. Returns by how much.
    fn wait(&mut self) -> Option<Duration> {
        let next = self.cloud.next_wakeup(self.now)?;
        let waited = comeback_core::time::between(self.now, next);
        self.now = self.now.max(next);
        Some(waited)
    }

    fn pass(&mut self, duration: Duration) {
        self.now = later(self.now, duration);
    }

    fn receive(&mut self, queue: &str) -> Vec<Received> {
        self.cloud.sqs.receive(self.now, queue, 10, None).unwrap()
    }

    fn record(&mut self, queue: &str) -> Value {
        let messages = self.receive(queue);
        assert_eq!(messages.len(), 1, "{messages:?}");
        serde_json::from_str(&messages[0].body).unwrap()
    }

    fn count(&mut self, queue: &str, attribute: &str) -> u32 {
        let attributes = self.cloud.sqs.attributes(self.now, queue).unwrap();
        attributes[attribute].parse().unwrap()
    }

    fn messages(&mut self, queue: &str) -> u32 {
        self.count(queue, "ApproximateNumberOfMessages")
            + self.count(queue, "ApproximateNumberOfMessagesNotVisible")
    }
}

fn ended(record: &Value) -> (&str, u64) {
    let context = &record["requestContext"];
    let condition = context["condition"].as_str().unwrap();
    (condition, context["approximateInvokeCount"].as_u64().unwrap())
}
