//! The cloud of a world at its beginning: queues, functions, mappings, as they would be deployed.

use std::{collections::BTreeMap, rc::Rc, sync::Arc};

use comeback_local::model::{
    ACCOUNT, REGION,
    lambda::{
        function::{Code, Program, Settings},
        invoke_config::EventInvokeSettings,
        mapping::MappingSettings,
        recursion::RecursiveLoop,
    },
};

use super::World;
use crate::plan::{Form, HandlerPlan, Plan};

/// Where the SQS of a queue's ARN is found.
pub(super) fn queue_url(name: &str) -> String {
    format!("https://sqs.{REGION}.amazonaws.com/{ACCOUNT}/{name}")
}

pub(super) fn queue_arn(name: &str) -> String {
    format!("arn:aws:sqs:{REGION}:{ACCOUNT}:{name}")
}

/// The queue from which a topic or a bus takes what it passes on to this retry queue.
pub(super) fn relay_queue(name: &str, form: Form) -> String {
    match form {
        Form::Notification => format!("{name}-topic"),
        Form::EventBridge => format!("{name}-bus"),
        Form::Record | Form::Bare => name.to_owned(),
    }
}

impl World {
    #[allow(clippy::expect_used, reason = "what a plan has the model takes, or the plan is wrong")]
    pub(super) fn build(&mut self) {
        let plan = Rc::clone(&self.plan);
        for handler in &plan.handlers {
            self.create_queue(&handler.dead_letter_queue, &[]);
        }
        for (number, handler) in plan.handlers.iter().enumerate() {
            let settings =
                Settings { timeout: Some(handler.timeout.into()), ..Settings::default() };
            self.create_function(&handler.name, settings);
            self.handlers.insert(handler.name.as_str().into(), number);
            let loops = RecursiveLoop::Allow;
            self.cloud
                .lambda
                .set_recursive_loop(&handler.name, loops)
                .expect("it was just created");
        }
        for queue in &plan.queues {
            let handler = &plan.handlers[queue.handler];
            let redrive = format!(
                r#"{{"deadLetterTargetArn":"{}","maxReceiveCount":1000}}"#,
                queue_arn(&handler.dead_letter_queue)
            );
            self.create_queue(
                &queue.name,
                &[
                    ("VisibilityTimeout", queue.visibility.to_string()),
                    ("MessageRetentionPeriod", "1209600".to_owned()),
                    ("RedrivePolicy", redrive),
                ],
            );
            self.create_queue(&relay_queue(&queue.name, Form::Notification), &[]);
            self.create_queue(&relay_queue(&queue.name, Form::EventBridge), &[]);
            let settings = MappingSettings {
                batch_size: Some(queue.batch.into()),
                maximum_batching_window_in_seconds: Some(queue.window.into()),
                function_response_types: Some(vec!["ReportBatchItemFailures".to_owned()]),
                maximum_concurrency: Some(queue.concurrency.map(i64::from)),
                enabled: Some(true),
            };
            let arn = queue_arn(&queue.name);
            self.cloud
                .create_mapping(self.now, &arn, &handler.name, &settings)
                .expect("a queue hides messages for long enough");
        }
        for (number, target) in plan.targets.iter().enumerate() {
            if target.successor_of.is_none() {
                self.create_target(number);
            }
        }
    }

    /// Deploys a target, for the first time or again.
    #[allow(clippy::expect_used, reason = "what a plan has the model takes, or the plan is wrong")]
    pub(super) fn create_target(&mut self, number: usize) {
        let plan = Rc::clone(&self.plan);
        let target = &plan.targets[number];
        let queue = relay_queue(&plan.queues[target.queue].name, target.form);
        let bare = target.form == Form::Bare;
        let settings = Settings {
            timeout: Some(60),
            dead_letter_target: bare.then(|| queue_arn(&queue)),
            ..Settings::default()
        };
        self.create_function(&target.name, settings);
        let invoke_config = EventInvokeSettings {
            maximum_retry_attempts: Some(0),
            on_failure: (!bare).then(|| queue_arn(&queue)),
            ..EventInvokeSettings::default()
        };
        self.cloud
            .lambda
            .set_event_invoke_config(self.now, &target.name, &invoke_config, false)
            .expect("the function was just created");
        if !target.stopped_in_loops {
            let loops = RecursiveLoop::Allow;
            self.cloud.lambda.set_recursive_loop(&target.name, loops).expect("likewise");
        }
        self.targets.insert(Arc::from(target.name.as_str()), number);
    }

    #[allow(clippy::expect_used, reason = "what a plan has the model takes, or the plan is wrong")]
    fn create_queue(&mut self, name: &str, attributes: &[(&str, String)]) {
        let attributes = attributes.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
        self.cloud
            .sqs
            .create_queue(self.now, name, &attributes.collect())
            .expect("the queue's attributes are good");
    }

    #[allow(clippy::expect_used, reason = "what a plan has the model takes, or the plan is wrong")]
    fn create_function(&mut self, name: &str, settings: Settings) {
        let code = Code { program: Program::Bootstrap("/".into()), size: 0, sha256: String::new() };
        self.cloud
            .lambda
            .create_function(self.now, name, code, settings)
            .expect("the function's settings are good");
    }
}

/// The settings of a handler, read by production from the variables that would be deployed.
#[allow(clippy::expect_used, reason = "what a plan has production takes, or the plan is wrong")]
pub(super) fn settings(plan: &Plan, number: usize) -> comeback_core::settings::Settings {
    let variables = variables(plan, number, &plan.handlers[number]);
    comeback_core::settings::Settings::from_lookup(|name| variables.get(name).cloned())
        .expect("the variables are good")
}

fn variables(plan: &Plan, number: usize, handler: &HandlerPlan) -> BTreeMap<&'static str, String> {
    let mut variables: BTreeMap<_, _> = handler.general.variables().into_iter().collect();
    variables.insert("DEAD_LETTER_QUEUE_URL", queue_url(&handler.dead_letter_queue));
    let own = plan.targets.iter().filter(|target| plan.queues[target.queue].handler == number);
    let policies: Vec<String> = own
        .clone()
        .filter_map(|target| {
            let values = target.own.as_ref()?.variables();
            let values: Vec<_> =
                values.iter().map(|(name, value)| format!(r#""{name}":"{value}""#)).collect();
            Some(format!(r#""{}":{{{}}}"#, target.name, values.join(",")))
        })
        .collect();
    if !policies.is_empty() {
        variables.insert("POLICIES", format!("{{{}}}", policies.join(",")));
    }
    if handler.lists_targets {
        let listed: Vec<&str> = own
            .clone()
            .filter(|target| target.allowed)
            .map(|target| target.name.as_str())
            .chain(["nobody"])
            .collect();
        variables.insert("TARGET_FUNCTIONS", listed.join(","));
    }
    if let Some(bare) = own.clone().find(|target| target.form == Form::Bare) {
        variables.insert("DLQ_TARGET", bare.name.clone());
    }
    variables
}
