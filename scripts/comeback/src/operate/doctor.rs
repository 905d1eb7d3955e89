//! `comeback doctor`: problems in the retry systems, and how to fix them.

mod calls;
mod denials;
pub mod gather;
mod metrics;
pub mod rules;
pub mod shows;

use aws_sdk_dynamodb::types::TimeToLiveSpecification;
use aws_sdk_lambda::types::FunctionResponseType;
use clap::builder::PossibleValuesParser;
use comeback_core::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    account::{fault::Answer, setup::BATCH_SIZE},
    aws::{Aws, changes, connect::Connection, fault},
    failure::Failure,
    operate::doctor::{
        gather::gather,
        rules::{
            diagnose,
            finding::{Examined, Finding, Verdict},
            fix::{EXPIRES_AT, Fix},
            kinds, permissions,
        },
        shows::FindingJson,
    },
    paint::{Line, Style},
    shell::{Outcome, Shell, confirm},
    typed::not_empty,
    untrusted,
};

#[derive(Debug, clap::Args)]
pub struct DoctorArgs {
    /// Examine only these functions of the retry systems, by name, or queues, as sqs:NAME.
    #[arg(value_name = "FUNCTION", value_parser = not_empty)]
    pub functions: Vec<String>,
    /// Examine only the system of this retry handler.
    #[arg(long, value_name = "NAME")]
    pub handler: Option<String>,
    /// Ask, then run the commands that fix the findings.
    ///
    /// Commands that need a decision by a person are only printed.
    #[arg(long)]
    pub fix: bool,
    /// Don't ask.
    #[arg(long, requires = "fix")]
    pub yes: bool,
    /// Print the IAM policy that a command needs, and do nothing else.
    ///
    /// It allows nothing but that. Put the names of your functions, queues and roles in the place of the asterisks.
    #[arg(
        long,
        value_name = "COMMAND",
        num_args = 0..=1,
        default_missing_value = "doctor",
        conflicts_with_all = ["functions", "handler", "fix", "json"],
        value_parser = PossibleValuesParser::new(permissions::commands()),
    )]
    pub policy: Option<String>,
    /// List all findings that there are, with what they mean, and do nothing else.
    #[arg(long, conflicts_with_all = ["functions", "handler", "fix", "policy"])]
    pub list: bool,
    /// Print one JSON document instead of lines.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub connection: Connection,
}

/// The document of `--json`.
#[derive(JsonSchema, Serialize)]
pub struct DoctorJson {
    systems: Vec<SystemJson>,
    /// The commands that `--fix` has carried out.
    mended: Vec<Mended>,
}

#[derive(JsonSchema, Serialize)]
struct SystemJson {
    handler: String,
    region: String,
    findings: Vec<FindingJson>,
}

pub async fn document(args: &DoctorArgs, now: fn() -> Timestamp) -> Result<DoctorJson, Failure> {
    let (aws, examined) = examine(args, now).await?;
    Ok(json_of(args, &aws, &examined, Vec::new()))
}

fn json_of(args: &DoctorArgs, aws: &Aws, all: &[System], mended: Vec<Mended>) -> DoctorJson {
    let system = |(handler, examined): &System| {
        let findings = examined.iter().flat_map(|it| shows::findings_of(it, &args.connection));
        let (handler, region) = (handler.clone(), aws.region.clone());
        SystemJson { handler, region, findings: findings.collect() }
    };
    DoctorJson { systems: all.iter().map(system).collect(), mended }
}

/// A retry handler, and what was examined for it.
type System = (String, Vec<Examined>);

async fn examine(args: &DoctorArgs, now: fn() -> Timestamp) -> Result<(Aws, Vec<System>), Failure> {
    let aws = Aws::connect(&args.connection, now).await?;
    let all = gather(&aws, args.handler.as_deref(), &args.functions).await?;
    let all = all.iter().map(|facts| (facts.handler.name().to_owned(), diagnose(facts)));
    let all = all.collect();
    Ok((aws, all))
}

pub async fn run(args: &DoctorArgs, shell: &Shell) -> Result<Outcome, Failure> {
    if let Some(policy) = args.policy.as_deref().and_then(permissions::for_command) {
        let text = serde_json::to_string_pretty(&policy).unwrap_or_default();
        let lines = text.lines().map(|line| Line::of(Style::Plain, line));
        shell.print(&lines.collect::<Vec<_>>()).await?;
        return Ok(Outcome::Success);
    }
    if args.list {
        if args.json {
            shell.print_json(&kinds::ALL).await?;
        } else {
            shell
                .print(&kinds::ALL.iter().flat_map(shows::lines_of_kind).collect::<Vec<_>>())
                .await?;
        }
        return Ok(Outcome::Success);
    }
    let (aws, all) = examine(args, shell.now).await?;
    if !args.json {
        for (index, (handler, examined)) in all.iter().enumerate() {
            let title = format!("{handler} ({})", aws.region);
            let gap = (index > 0).then(Line::default);
            let lines = gap.into_iter().chain([Line::of(Style::Strong, title)]);
            let lines =
                lines.chain(examined.iter().flat_map(|it| shows::lines_of(it, &args.connection)));
            shell.print(&lines.collect::<Vec<_>>()).await?;
        }
    }
    let findings = || all.iter().flat_map(|(_, examined)| examined).flat_map(|it| &it.findings);
    let mut mended = Vec::new();
    if args.fix {
        mended = apply_fixes(args, &aws, findings(), shell).await?;
    }
    let is_mended = |finding: &Finding| {
        mended.iter().any(|it| it.error.is_none() && Some(&it.fix) == finding.fix.as_ref())
    };
    let is_well = findings().all(|it| it.verdict != Verdict::Bad || is_mended(it))
        && mended.iter().all(|it| it.error.is_none());
    if args.json {
        shell.print_json(&json_of(args, &aws, &all, mended)).await?;
    } else {
        shell.print(&[shows::summary(findings())]).await?;
    }
    Ok(if is_well { Outcome::Success } else { Outcome::Unsuccessful })
}

/// A command that was carried out, with the error if it failed.
#[derive(JsonSchema, Serialize)]
struct Mended {
    #[serde(skip)]
    fix: Fix,
    command: String,
    #[schemars(with = "Option<untrusted::Text>")]
    error: Option<String>,
}

/// Carries out the automatic commands, each only once.
async fn apply_fixes<'a>(
    args: &DoctorArgs,
    aws: &Aws,
    findings: impl Iterator<Item = &'a Finding>,
    shell: &Shell,
) -> Result<Vec<Mended>, Failure> {
    let mut fixes: Vec<&Fix> = Vec::new();
    for fix in findings.filter_map(|finding| finding.fix.as_ref()) {
        if fix.is_automatic() && !fixes.contains(&fix) {
            fixes.push(fix);
        }
    }
    if !args.yes && !fixes.is_empty() {
        let commands = if fixes.len() == 1 { "command" } else { "commands" };
        confirm(&format!("Carry out {} {commands}?", fixes.len()))?;
    }
    let mut all = Vec::new();
    for fix in fixes {
        let command = shows::command(fix, &args.connection);
        let done = carry_out(aws, fix).await;
        if !args.json {
            let line = match &done {
                Ok(()) => Line::of(Style::Good, "✓ ").and(Style::Plain, &command),
                Err(fault) => Line::of(Style::Bad, "✗ ").and(Style::Plain, fault.to_string()),
            };
            shell.print(&[line]).await?;
        }
        all.push(Mended {
            fix: fix.clone(),
            command,
            error: done.err().map(|fault| fault.to_string()),
        });
    }
    Ok(all)
}

/// Carries out an automatic fix. Does nothing for a fix that needs a decision by a person.
pub async fn carry_out(aws: &Aws, fix: &Fix) -> Answer<()> {
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
