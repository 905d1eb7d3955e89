//! The cloud of a world at its beginning: queues, functions and mappings as they would be deployed.
#![allow(clippy::expect_used, reason = "the model and production accept every plan")]

use std::{
    collections::{BTreeMap, HashMap},
    fmt::Display,
    rc::Rc,
};

use comeback_core::{
    arn::{FunctionArn, Home},
    in_flight::IN_FLIGHT_MAX,
    settings,
};
use comeback_flow::ports::Stored;
use comeback_local_model::{
    ACCOUNT, REGION, bucket_arn,
    lambda::{
        function::{Code, DeadLetterConfig, Program, Settings},
        invoke_config::{DestinationConfig, EventInvokeSettings},
        mapping::{MappingSettings, ScalingConfig},
        name::qualified_arn,
        recursion::RecursiveLoop,
    },
    queue_arn,
    s3::NotificationConfiguration,
};
use serde_json::json;

use super::World;
use crate::{
    plan::{Form, Plan, TargetPlan},
    policy::Policy,
};

/// The longest time for which SQS keeps a message, in seconds.
const RETENTION: &str = "1209600";

/// The queue in which a topic or a bus holds the records that it forwards to this retry queue.
pub fn relay_queue(name: &str, form: Form) -> String {
    match form {
        Form::Notification => format!("{name}-topic"),
        Form::EventBridge => format!("{name}-bus"),
        Form::Record | Form::Bare | Form::Queue { .. } | Form::Bucket(_) => name.to_owned(),
    }
}

/// The queue in which the notices about a function's records are, on their way to the retry queue.
pub fn notices_queue(function: &str) -> String {
    format!("{function}-notices")
}

pub fn home() -> Rc<Home> {
    FunctionArn::parse(&qualified_arn("any")).expect("the ARN of a function").home().into()
}

impl World {
    pub fn build(&mut self) {
        let plan = Rc::clone(&self.plan);
        for handler in &plan.handlers {
            self.create_queue(&handler.dead_letter_queue, &[]);
        }
        for (number, handler) in plan.handlers.iter().enumerate() {
            let settings =
                Settings { timeout: Some(handler.timeout.into()), ..Settings::default() };
            self.create_function(&handler.name, settings, RecursiveLoop::Allow);
            let lambda = &mut self.cloud.lambda;
            let reserved = lambda.set_reserved_concurrency(&handler.name, handler.reserved);
            reserved.expect("the account has as much");
            self.handlers.insert(handler.name.as_str().into(), number);
        }
        for queue in &plan.queues {
            let handler = &plan.handlers[queue.handler];
            let dead_letters = queue_arn(&handler.dead_letter_queue);
            let redrive =
                format!(r#"{{"deadLetterTargetArn":"{dead_letters}","maxReceiveCount":1000}}"#);
            let attributes = [
                ("VisibilityTimeout", (6 * handler.timeout).to_string()),
                ("MessageRetentionPeriod", RETENTION.to_owned()),
                ("RedrivePolicy", redrive),
            ];
            self.create_queue(&queue.name, &attributes);
            self.create_queue(&relay_queue(&queue.name, Form::Notification), &[]);
            self.create_queue(&relay_queue(&queue.name, Form::EventBridge), &[]);
            let settings = MappingSettings {
                batch_size: Some(queue.batch.into()),
                // Batches of more than ten messages need a window.
                maximum_batching_window_in_seconds: Some((queue.batch > 10).into()),
                function_response_types: Some(vec!["ReportBatchItemFailures".to_owned()]),
                scaling_config: Some(ScalingConfig {
                    maximum_concurrency: queue.concurrency.map(i64::from),
                }),
                enabled: Some(true),
            };
            let arn = queue_arn(&queue.name);
            let created = self.cloud.create_mapping(self.now, &arn, &handler.name, &settings);
            created.expect("a queue hides messages for long enough");
        }
        for (number, target) in plan.targets.iter().enumerate() {
            if target.successor_of.is_none() {
                self.create_target(number);
            }
        }
    }

    /// Deploys a target, for the first time or again.
    pub fn create_target(&mut self, number: usize) {
        let plan = Rc::clone(&self.plan);
        let target = &plan.targets[number];
        let queue = queue_arn(&relay_queue(&plan.queues[target.queue].name, target.form));
        // Its answers may name the records of a batch that it has not processed.
        let is_of_stream = plan.batches > 0.0 && target.bucket().is_some();
        let on_success = is_of_stream.then(|| queue_arn(&plan.queues[target.queue].name));
        let (on_failure, dead_letter_config) = match target.form {
            Form::Bare => (None, Some(DeadLetterConfig { target_arn: Some(queue) })),
            Form::Record | Form::Notification | Form::EventBridge => (Some(queue), None),
            Form::Bucket(_) => (target.bucket().map(|it| bucket_arn(&it)), None),
            Form::Queue { tries, hidden } => {
                let redrive = json!({ "deadLetterTargetArn": queue, "maxReceiveCount": tries });
                let attributes = [
                    ("VisibilityTimeout", hidden.to_string()),
                    ("RedrivePolicy", redrive.to_string()),
                    ("MessageRetentionPeriod", RETENTION.to_owned()),
                ];
                self.create_queue(&target.name, &attributes);
                self.targets.insert(target.name.as_str().into(), number);
                return;
            }
        };
        self.create_bucket(target);
        let settings = Settings { timeout: Some(60), dead_letter_config, ..Settings::default() };
        let in_loops = match target.stopped_in_loops {
            true => RecursiveLoop::Terminate,
            false => RecursiveLoop::Allow,
        };
        self.create_function(&target.name, settings, in_loops);
        let config = EventInvokeSettings {
            maximum_retry_attempts: Some(0),
            destination_config: on_failure
                .map(|it| DestinationConfig::on_failure(it).and_on_success(on_success)),
            ..EventInvokeSettings::default()
        };
        let lambda = &mut self.cloud.lambda;
        let set = lambda.set_event_invoke_config(self.now, &target.name, &config, false);
        set.expect("the function was just created");
        self.targets.insert(target.name.as_str().into(), number);
    }

    /// The bucket of a function and its relay of notices, unless the function is deployed again.
    fn create_bucket(&mut self, target: &TargetPlan) {
        let Some(bucket) = target.bucket() else { return };
        if self.cloud.s3.check_bucket(&bucket).is_ok() {
            return;
        }
        let relay = notices_queue(&target.name);
        self.create_queue(&relay, &[]);
        self.cloud.s3.create_bucket(&bucket).expect("its name is valid");
        let ids = self.cloud.s3.request_ids();
        let notices = NotificationConfiguration::of_queue(&queue_arn(&relay), "aws/lambda/");
        let set = self.cloud.set_notifications(self.now, &bucket, notices, &ids);
        set.expect("bucket and queue were just created");
    }

    fn create_queue(&mut self, name: &str, attributes: &[(&str, String)]) {
        let attributes = attributes.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
        let created = self.cloud.sqs.create_queue(self.now, name, &attributes.collect());
        created.expect("the queue's attributes are valid");
    }

    fn create_function(&mut self, name: &str, settings: Settings, in_loops: RecursiveLoop) {
        let code = Code { program: Program::Bootstrap("/".into()), size: 0, sha256: String::new() };
        let lambda = &mut self.cloud.lambda;
        lambda.create_function(self.now, name, code, settings).expect("its settings are valid");
        lambda.function_mut(name).expect("it was just created").recursive_loop = in_loops;
    }
}

/// The settings of a handler's process. Production reads them from the variables that would be deployed.
///
/// # Errors
///
/// If the handler would refuse them.
pub fn settings(
    plan: &Plan,
    number: usize,
    variant: usize,
    is_turned: bool,
) -> Result<settings::Settings, String> {
    let handler = &plan.handlers[number];
    let targets =
        || plan.targets.iter().filter(|target| plan.queues[target.queue].handler == number);
    // A function and a queue may have the same name.
    let named = |target: &TargetPlan| match target.is_queue() {
        true => format!("sqs:{}", target.name),
        false => target.name.clone(),
    };
    let is_transparent = handler.transparent[usize::from(is_turned)];
    let policy = |target: &TargetPlan| {
        let mut policy = target.own.as_ref().map(Policy::variables).unwrap_or_default();
        policy
            .extend(target.own.as_ref().and_then(Policy::errors_written).map(|it| ("ERRORS", it)));
        let own = target.transparent[usize::from(is_turned)];
        if own != is_transparent && !target.is_queue() {
            policy.insert("TRANSPARENT", own.to_string());
        }
        (!policy.is_empty()).then(|| (named(target), policy))
    };
    let errors = handler.general.errors_written();
    let of_all = errors.map(|errors| ("*".to_owned(), BTreeMap::from([("ERRORS", errors)])));
    let policies: BTreeMap<_, _> = targets().filter_map(policy).chain(of_all).collect();
    let has_ledger = handler.probes
        || handler.has_register
        || is_transparent
        || targets().any(|it| it.transparent[usize::from(is_turned)]);
    let queues = plan.queues.iter().enumerate().filter(|(_, queue)| queue.handler == number);
    let bound = queues.map(|(number, queue)| {
        let is_open = plan.attack.is_some_and(|attack| attack.open_queue == number);
        let bound = targets().filter(|it| it.bound && (it.queue == number || is_open));
        let mut names: Vec<_> = bound.map(named).collect();
        if plan.attack.is_none() || names.is_empty() {
            names.push("nobody".to_owned());
        }
        // Only messages from this queue would be moved rightly, if none is bound.
        if targets().any(|it| it.is_queue() && it.queue == number) {
            names.push("sqs:nobody".to_owned());
        }
        (queue.name.as_str(), names)
    });
    let bound: BTreeMap<_, Vec<_>> = bound.collect();
    let listed = targets().filter(|target| target.listed).map(named);
    let nobody = targets().any(TargetPlan::is_queue).then(|| "sqs:nobody".to_owned());
    let listed: Vec<_> = listed.chain(nobody).chain(["nobody".to_owned()]).collect();
    let read = targets().filter(|it| !it.is_bucket_unlisted);
    let buckets: Vec<_> = read.filter_map(TargetPlan::bucket).collect();
    let in_flight_max = handler.in_flight_max[variant];
    let dead_letters = &handler.dead_letter_queue;
    let dead_letters = format!("https://sqs.{REGION}.amazonaws.com/{ACCOUNT}/{dead_letters}");
    let if_so = |is_so: bool, value: &dyn Display| is_so.then(|| value.to_string());
    let others = [
        ("DEAD_LETTER_QUEUE_URL", Some(dead_letters)),
        ("POLICIES", if_so(!policies.is_empty(), &json!(policies))),
        ("IN_FLIGHT_MAX", if_so(in_flight_max != IN_FLIGHT_MAX.get(), &in_flight_max)),
        ("LEDGER_TABLE", if_so(has_ledger, &"ledger")),
        ("TRANSPARENT", if_so(is_transparent, &true)),
        ("PROBE", if_so(handler.probes, &true)),
        ("REGISTER", if_so(handler.has_register, &true)),
        ("QUEUE_TARGETS", if_so(handler.binds_queues && !bound.is_empty(), &json!(bound))),
        ("TARGET_FUNCTIONS", if_so(handler.lists_targets, &listed.join(","))),
        ("RECORD_BUCKETS", if_so(!buckets.is_empty(), &buckets.join(","))),
        ("DLQ_TARGET", targets().find(|it| it.form == Form::Bare).map(|it| it.name.clone())),
    ];
    let mut variables = handler.general.variables();
    variables.extend(others.into_iter().filter_map(|(name, value)| Some((name, value?))));
    let settings = settings::Settings::from_lookup(|name| variables.get(name).cloned());
    settings.map_err(|error| error.to_string())
}

/// The circuits that exist when a world begins, by the ARNs of their targets.
pub fn circuits(plan: &Plan) -> HashMap<String, Stored> {
    let of = |target: &TargetPlan| {
        let text = target.circuit.as_ref()?.to_string();
        Some((qualified_arn(&target.name), Stored { version: 1, text: Some(text) }))
    };
    plan.targets.iter().filter_map(of).collect()
}
