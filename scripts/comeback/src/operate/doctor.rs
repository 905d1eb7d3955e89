//! `comeback doctor`: problems in the retry systems, and how to fix them.

mod calls;
mod denials;
pub mod gather;
pub mod mend;
mod metrics;
pub mod rules;
pub mod shows;

use clap::builder::PossibleValuesParser;
use comeback_core::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    account::function::Function,
    aws::{Aws, connect::Connection},
    failure::Failure,
    operate::{
        doctor::{
            gather::gather,
            mend::{Mend, Mended},
            rules::{
                diagnose,
                finding::{Examined, Finding, Verdict},
                kinds, permissions,
            },
            shows::FindingJson,
        },
        logbook::{self, rules::Through},
        order::{Work as _, recorded, terminal::ask},
    },
    paint::{Line, Style},
    shell::{Outcome, Shell},
    text::counted,
    typed::not_empty,
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
        let (handler, region) = (handler.name().to_owned(), aws.region.clone());
        SystemJson { handler, region, findings: findings.collect() }
    };
    DoctorJson { systems: all.iter().map(system).collect(), mended }
}

/// A retry handler, and what was examined for it.
type System = (Function, Vec<Examined>);

async fn examine(args: &DoctorArgs, now: fn() -> Timestamp) -> Result<(Aws, Vec<System>), Failure> {
    let aws = Aws::connect(&args.connection, now).await?;
    let all = gather(&aws, args.handler.as_deref(), &args.functions).await?;
    let all = all.iter().map(|facts| (facts.handler.clone(), diagnose(facts)));
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
            let title = format!("{} ({})", handler.name(), aws.region);
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
        let mut orders = Vec::new();
        for (handler, examined) in &all {
            let findings = examined.iter().flat_map(|it| &it.findings);
            orders.push(Mend::of(&aws, handler, findings, &args.connection, &orders));
        }
        orders.retain(|order| order.number() > 0);
        for why in orders.iter().filter_map(|order| logbook::without(order.ledger())) {
            eprintln!("comeback: {why}");
        }
        if !args.yes && !orders.is_empty() {
            ask::<Mend>(&counted(orders.iter().map(Mend::number).sum(), "command"))?;
        }
        for order in &orders {
            let number = Some(order.number());
            let (done, ended) =
                recorded::carry_out(order, Through::Terminal, number, |_| true).await;
            if !args.json {
                shell.print_notices(&order.notices(&done)).await?;
            }
            ended?;
            mended.extend(done.0);
        }
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
