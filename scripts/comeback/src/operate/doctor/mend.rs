//! The order that `comeback doctor --fix` gives: run the commands that mend the findings.

use aws_sdk_dynamodb::types::TimeToLiveSpecification;
use aws_sdk_lambda::types::FunctionResponseType;
use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    account::{fault::Answer, function::Function, setup::BATCH_SIZE},
    aws::{Aws, changes, connect::Connection, fault},
    failure::Failure,
    notice::Notice,
    operate::{
        doctor::{
            rules::{
                finding::Finding,
                fix::{EXPIRES_AT, Fix},
            },
            shows,
        },
        logbook::{Begun, Ledger},
        order::{
            Kind, Work,
            steps::{self, Done, STEPS},
        },
    },
    text::counted,
    untrusted,
};

pub struct Mend {
    aws: Aws,
    handler: Function,
    /// The automatic fixes, each with its command.
    fixes: Vec<(Fix, String)>,
}

/// A command that was carried out, with the error if it failed.
#[derive(Clone, JsonSchema, Serialize)]
pub struct Mended {
    #[serde(skip)]
    pub fix: Fix,
    pub command: String,
    #[schemars(with = "Option<untrusted::Text>")]
    pub error: Option<String>,
}

impl steps::Step for Mended {
    fn has_failed(&self) -> bool {
        self.error.is_some()
    }
}

impl Mend {
    /// The automatic commands of what was found for a handler, each only once, and none that an `earlier` order has.
    pub fn of<'a>(
        aws: &Aws,
        handler: &Function,
        findings: impl Iterator<Item = &'a Finding>,
        connection: &Connection,
        earlier: &[Self],
    ) -> Self {
        let mut own = Self { aws: aws.clone(), handler: handler.clone(), fixes: Vec::new() };
        for fix in findings.filter_map(|finding| finding.fix.as_ref()) {
            let is_known = |order: &Self| order.fixes.iter().any(|(other, _)| other == fix);
            if fix.is_automatic() && !is_known(&own) && !earlier.iter().any(is_known) {
                own.fixes.push((fix.clone(), shows::command(fix, connection)));
            }
        }
        own
    }

    /// The number of commands.
    pub fn number(&self) -> u64 {
        self.fixes.len() as u64
    }
}

impl Work for Mend {
    type Tally = Done<Mended>;

    const KIND: Kind = Kind { name: "mend", title: "Carry out {}", ..STEPS };

    fn target(&self) -> Option<String> {
        Some(counted(self.number(), "command"))
    }

    fn ledger(&self) -> Option<Ledger> {
        Some(Ledger { aws: self.aws.clone(), handler: self.handler.clone() })
    }

    fn filter(&self) -> Vec<(&'static str, String)> {
        self.fixes.iter().map(|(_, command)| ("command", command.clone())).collect()
    }

    /// A command that fails doesn't keep the others from being carried out.
    async fn carry_out(
        &self,
        _: &Begun,
        mut goes_on: impl FnMut(&Done<Mended>) -> bool + Send,
    ) -> (Done<Mended>, Result<(), Failure>) {
        let mut done = Done::default();
        for (fix, command) in &self.fixes {
            let error = mend(&self.aws, fix).await.err().map(|fault| fault.to_string());
            done.0.push(Mended { fix: fix.clone(), command: command.clone(), error });
            if !goes_on(&done) {
                break;
            }
        }
        (done, Ok(()))
    }

    fn notices(&self, Done(mended): &Done<Mended>) -> Vec<Notice> {
        let notice = |it: &Mended| match &it.error {
            None => Notice::good(&it.command),
            Some(error) => Notice::bad(error),
        };
        mended.iter().map(notice).collect()
    }
}

/// Carries out an automatic fix. Does nothing for a fix that needs a decision by a person.
pub async fn mend(aws: &Aws, fix: &Fix) -> Answer<()> {
    match fix {
        Fix::Mapping { uuid } => {
            let call = aws.lambda.update_event_source_mapping().uuid(uuid).enabled(true);
            let call = call.batch_size(i32::try_from(BATCH_SIZE).unwrap_or(i32::MAX));
            let call = call.maximum_batching_window_in_seconds(0);
            let call = call.function_response_types(FunctionResponseType::ReportBatchItemFailures);
            call.send().await.map(drop).map_err(fault("lambda:UpdateEventSourceMapping", uuid))
        }
        Fix::Queue { url, attribute, value } => {
            changes::set_queue_attribute(aws, url, attribute, value).await
        }
        Fix::Retries { function, qualifier } => {
            let call = aws.lambda.update_function_event_invoke_config().function_name(function);
            let call = call.set_qualifier(qualifier.clone()).maximum_retry_attempts(0);
            let action = "lambda:UpdateFunctionEventInvokeConfig";
            call.send().await.map(drop).map_err(fault(action, function))
        }
        Fix::Loop { function } => changes::set_loop(aws, function, true).await,
        Fix::Permission { role, policy, document } => {
            changes::put_role_policy(aws, role, policy, document).await
        }
        Fix::Expiry { table } => {
            let expiry =
                TimeToLiveSpecification::builder().enabled(true).attribute_name(EXPIRES_AT);
            let call = aws.dynamodb.update_time_to_live().table_name(table);
            // All required members are set.
            let call = call.set_time_to_live_specification(expiry.build().ok());
            call.send().await.map(drop).map_err(fault("dynamodb:UpdateTimeToLive", table))
        }
        Fix::ByHand(_) => Ok(()),
    }
}
