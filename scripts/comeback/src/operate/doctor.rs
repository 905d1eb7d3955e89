//! `comeback doctor`: problems in the retry systems, and how to fix them. The facts are gathered with as many
//! concurrent calls as possible.

pub mod rules;

use std::collections::{BTreeMap, BTreeSet};

use aws_sdk_dynamodb::types::TimeToLiveSpecification;
use aws_sdk_lambda::types::FunctionResponseType;
use clap::builder::PossibleValuesParser;
use comeback_core::arn::QUEUE_PREFIX;
use futures_util::future::join_all;
use serde::Serialize;
use serde_json::json;

use crate::{
    operate::{
        aws::{Aws, Connection, LOCAL, actions, fault, functions},
        doctor::rules::{
            BATCH_SIZE, EXPIRES_AT, Examined, Facts, Finding, Fix, InvokeConfig, KnownBy, Mapping,
            Source, Verdict, diagnose,
        },
        rules::{
            Answer, Fault, Function, handlers, last, named, named_queues, named_targets, policies,
            queue_arn, queue_targets, slips::not_empty,
        },
    },
    paint::{Line, Style},
    shell::{Failure, Outcome, Shell, confirm},
};

#[derive(Serialize)]
struct FindingJson<'a> {
    part: &'a str,
    #[serde(flatten)]
    finding: Finding,
    command: Option<String>,
    is_automatic: bool,
}

/// A command that was carried out, with the error if it failed.
#[derive(Serialize)]
struct Mended<'a> {
    #[serde(skip)]
    fix: &'a Fix,
    command: String,
    error: Option<String>,
}

pub async fn run(args: &DoctorArgs, shell: &Shell) -> Result<Outcome, Failure> {
    if let Some(policy) = args.policy.as_deref().and_then(policies::for_command) {
        let text = serde_json::to_string_pretty(&policy).unwrap_or_default();
        let lines = text.lines().map(|line| Line::of(Style::Plain, line));
        shell.print(&lines.collect::<Vec<_>>()).await?;
        return Ok(Outcome::Success);
    }
    let aws = Aws::connect(&args.connection, shell.now).await?;
    let all = gather(&aws, args.handler.as_deref(), &args.functions).await?;
    let all = all.iter().map(|facts| (facts.handler.name().to_owned(), diagnose(facts)));
    let all: Vec<_> = all.collect();
    if !args.json {
        for (index, (handler, examined)) in all.iter().enumerate() {
            let title = format!("{handler} ({})", aws.region);
            let gap = (index > 0).then(Line::default);
            let lines = gap.into_iter().chain([Line::of(Style::Strong, title)]);
            let lines = lines.chain(examined.iter().flat_map(|it| lines_of(it, &args.connection)));
            shell.print(&lines.collect::<Vec<_>>()).await?;
        }
    }
    let findings = || all.iter().flat_map(|(_, examined)| examined).flat_map(|it| &it.findings);
    let mut mended = Vec::new();
    if args.fix {
        mended = apply_fixes(args, &aws, findings(), shell).await?;
    }
    if args.json {
        let system = |(handler, examined): &(String, Vec<Examined>)| {
            let findings = examined.iter().flat_map(|it| findings_of(it, &args.connection));
            let findings: Vec<_> = findings.collect();
            json!({ "handler": handler, "region": aws.region, "findings": findings })
        };
        let systems: Vec<_> = all.iter().map(system).collect();
        shell.print_json(&json!({ "systems": systems, "mended": mended })).await?;
    } else {
        shell.print(&[summary(findings())]).await?;
    }
    let is_mended = |finding: &Finding| {
        mended.iter().any(|it| it.error.is_none() && Some(it.fix) == finding.fix.as_ref())
    };
    let is_well = findings().all(|it| it.verdict != Verdict::Bad || is_mended(it))
        && mended.iter().all(|it| it.error.is_none());
    Ok(if is_well { Outcome::Success } else { Outcome::Unsuccessful })
}

/// Carries out the automatic commands, each only once.
async fn apply_fixes<'a>(
    args: &DoctorArgs,
    aws: &Aws,
    findings: impl Iterator<Item = &'a Finding>,
    shell: &Shell,
) -> Result<Vec<Mended<'a>>, Failure> {
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
        let command = command(fix, &args.connection);
        let done = carry_out(aws, fix).await;
        if !args.json {
            let line = match &done {
                Ok(()) => Line::of(Style::Good, "✓ ").and(Style::Plain, &command),
                Err(fault) => Line::of(Style::Bad, "✗ ").and(Style::Plain, fault.to_string()),
            };
            shell.print(&[line]).await?;
        }
        all.push(Mended { fix, command, error: done.err().map(|fault| fault.to_string()) });
    }
    Ok(all)
}

fn lines_of(examined: &Examined, connection: &Connection) -> Vec<Line> {
    let Examined { part, good, findings } = examined;
    let mut lines = Vec::new();
    if findings.iter().all(|finding| finding.verdict == Verdict::Unknown) && !good.is_empty() {
        let line = Line::of(Style::Good, "✓ ").and(Style::Plain, format!("{part}: "));
        lines.push(line.and(Style::Faint, good));
    }
    for finding in findings {
        let (sign, style) = match finding.verdict {
            Verdict::Good => ("✓", Style::Good),
            Verdict::Unknown => ("?", Style::Faint),
            Verdict::Warning => ("!", Style::GivenUp),
            Verdict::Bad => ("✗", Style::Bad),
        };
        let line = Line::of(style, format!("{sign} ")).and(Style::Plain, format!("{part}: "));
        let line = line.and(Style::Plain, &finding.says);
        lines.push(line.and(Style::Faint, format!(" ({})", finding.name)));
        if !finding.why.is_empty() {
            lines.push(Line::of(Style::Plain, format!("  {}", finding.why)));
        }
        if let Some(fix) = &finding.fix {
            lines.push(Line::of(Style::Busy, format!("  {}", command(fix, connection))));
        }
    }
    lines
}

fn summary<'a>(findings: impl Iterator<Item = &'a Finding> + Clone) -> Line {
    let kinds = [
        (Verdict::Bad, "problem", "problems"),
        (Verdict::Warning, "warning", "warnings"),
        (Verdict::Unknown, "check was not possible", "checks were not possible"),
    ];
    let is_bad = findings.clone().any(|finding| finding.verdict == Verdict::Bad);
    let counted = kinds.into_iter().filter_map(|(verdict, one, many)| {
        let count = findings.clone().filter(|finding| finding.verdict == verdict).count();
        (count > 0).then(|| format!("{count} {}", if count == 1 { one } else { many }))
    });
    let counted: Vec<_> = counted.collect();
    match &counted[..] {
        [] => Line::of(Style::Good, "All is well."),
        _ => Line::of(if is_bad { Style::Bad } else { Style::Plain }, counted.join(", ")),
    }
}

fn findings_of<'a>(examined: &'a Examined, connection: &Connection) -> Vec<FindingJson<'a>> {
    let is_good = examined.findings.iter().all(|finding| finding.verdict == Verdict::Unknown);
    let good = is_good.then(|| Finding {
        name: "good",
        verdict: Verdict::Good,
        says: examined.good.clone(),
        why: "",
        fix: None,
    });
    let all = good.into_iter().chain(examined.findings.iter().cloned());
    let json = |finding: Finding| FindingJson {
        part: &examined.part,
        command: finding.fix.as_ref().map(|fix| command(fix, connection)),
        is_automatic: finding.fix.as_ref().is_some_and(Fix::is_automatic),
        finding,
    };
    all.map(json).collect()
}

/// The command of a fix, with the connection options of this run.
pub fn command(fix: &Fix, connection: &Connection) -> String {
    let Connection { local, region, profile, verbose: _ } = connection;
    let mut command = fix.command();
    let is_ours = command.starts_with("comeback ");
    if let Some(local) = local {
        let url = local.as_deref().unwrap_or(LOCAL);
        command +=
            &if is_ours { format!(" --local={url}") } else { format!(" --endpoint-url {url}") };
    }
    for (option, value) in [("--region", region), ("--profile", profile)] {
        if let Some(value) = value {
            command += &format!(" {option} {value}");
        }
    }
    command
}

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
        value_parser = PossibleValuesParser::new(policies::commands()),
    )]
    pub policy: Option<String>,
    /// Print one JSON document instead of lines.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub connection: Connection,
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
            aws.set_queue_attribute(url, attribute, value).await
        }
        Fix::Retries { function, qualifier } => {
            let call = aws.lambda.update_function_event_invoke_config().function_name(function);
            let call = call.set_qualifier(qualifier.clone()).maximum_retry_attempts(0);
            let action = "lambda:UpdateFunctionEventInvokeConfig";
            call.send().await.map(drop).map_err(fault(action, function))
        }
        Fix::Loop { function } => aws.set_loop(function, true).await,
        Fix::Permission { role, policy, document } => {
            aws.put_role_policy(role, policy, document).await
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

/// The functions of the account and region, with what shows whether their failures are retried.
struct Account {
    functions: BTreeMap<String, Function>,
    mappings: Answer<Vec<Mapping>>,
    configs: BTreeMap<String, Answer<Vec<InvokeConfig>>>,
    /// The names of the queues that functions were attached to, according to their tags.
    attached: BTreeMap<String, Answer<BTreeSet<String>>>,
    counted: BTreeSet<String>,
    /// The retry queues of all systems, examined or not: the name of the handler by the queue's ARN.
    retry_queues: BTreeMap<String, String>,
}

/// Gathers the facts of all retry systems, or of those that `handler` or `only` names.
pub async fn gather(
    aws: &Aws,
    handler: Option<&str>,
    only: &[String],
) -> Result<Vec<Facts>, Failure> {
    let aws = &aws.adaptive();
    let (listed, mappings) = tokio::join!(aws.call(functions(aws)), aws.mappings());
    let listed = listed?;
    let examined = named(&listed, handler)?.into_iter().map(|it| it.name().to_owned());
    let examined: BTreeSet<_> = examined.collect();
    let all: BTreeSet<_> = handlers(&listed).map(|it| it.name().to_owned()).collect();
    let functions: BTreeMap<_, _> =
        listed.into_iter().map(|it| (it.name().to_owned(), it)).collect();
    let is_function = |name: &&String| !name.starts_with(QUEUE_PREFIX);
    let mut wanted = only.iter().filter(is_function);
    if let Some(unknown) = wanted.find(|name| !functions.contains_key(*name)) {
        let text =
            format!("expected the name of a function of this account and region, got {unknown}");
        return Err(text.into());
    }
    let asked = functions.keys().filter(|name| only.is_empty() || only.contains(name));
    let asked: Vec<_> = asked.cloned().collect();
    let (configs, attached, counted) = tokio::join!(
        join_all(asked.iter().map(|name| aws.invoke_configs(name))),
        join_all(asked.iter().map(|name| aws.attached(&functions[name].arn))),
        aws.counted(&asked),
    );
    let configs = asked.iter().cloned().zip(configs).collect();
    let attached = asked.iter().cloned().zip(attached).collect();
    // If the metrics can't be read, each system has a finding for it.
    let counted = counted.unwrap_or_default();
    let retry_queues = mappings.iter().flatten();
    let retry_queues = retry_queues.filter(|it| all.contains(it.consumer()));
    let retry_queues =
        retry_queues.map(|it| (it.queue.clone(), it.consumer().to_owned())).collect();
    let account = Account { functions, mappings, configs, attached, counted, retry_queues };
    let facts = examined.iter().map(|handler| of_system(aws, &account, handler, only));
    let mut facts: Vec<_> = join_all(facts).await.into_iter().flatten().collect();
    // With several systems, a function belongs to those that name it, or to whose retry queues it sends its failures.
    if facts.len() > 1 && !only.is_empty() {
        facts.retain(|it| {
            it.targets
                .iter()
                .any(|target| target.known_by == KnownBy::Setting || !target.may_send.is_empty())
                || !it.sources.is_empty()
        });
    }
    let has = |name: &String| {
        let is_it = |source: &Source| name.strip_prefix(QUEUE_PREFIX) == Some(source.queue.name());
        facts.iter().any(|it| it.sources.iter().any(is_it))
    };
    if let Some(unknown) = only.iter().find(|name| !is_function(name) && !has(name)) {
        return Err(format!("no retry handler's settings name {unknown}").into());
    }
    if facts.is_empty() {
        let text =
            "the function belongs to none of several retry systems: choose one with --handler";
        return Err(text.into());
    }
    Ok(facts)
}

impl Account {
    /// What shows that a system with these retry queues should retry the function's failures, apart from settings.
    fn known_by(&self, function: &Function, queues: &BTreeSet<String>) -> Option<KnownBy> {
        let name = function.name();
        let configs = self.configs.get(name).into_iter().flatten().flatten();
        let destinations = configs.filter_map(|config| config.on_failure.as_deref());
        let destinations: Vec<_> =
            destinations.chain(function.dead_letter_target.as_deref()).collect();
        if destinations.iter().any(|arn| queues.contains(*arn)) {
            return Some(KnownBy::Destination);
        }
        // It may be another system's.
        if destinations.iter().any(|arn| self.retry_queues.contains_key(*arn)) {
            return None;
        }
        let is_own = |queue: &String| queues.iter().any(|arn| last(arn) == queue);
        if self.attached.get(name).into_iter().flatten().flatten().any(is_own) {
            return Some(KnownBy::Tag);
        }
        self.counted.contains(name).then_some(KnownBy::Metrics)
    }
}

async fn of_system(aws: &Aws, account: &Account, handler: &str, only: &[String]) -> Option<Facts> {
    let handler = account.functions.get(handler)?;
    let Function { arn: handler_arn, role, environment, .. } = handler;
    let is_own = |mapping: &&Mapping| mapping.consumer() == handler.name();
    let mappings = account
        .mappings
        .as_ref()
        .map(|all| all.iter().filter(is_own).cloned().collect::<Vec<_>>())
        .map_err(Fault::clone);
    let consumers = |queue: &str| {
        let others = account.mappings.iter().flatten().filter(|it| !is_own(it));
        others.filter(|it| it.queue == queue).cloned().collect::<Vec<_>>()
    };
    let mapped = mappings.iter().flatten().map(|mapping| mapping.queue.clone());
    let bound = queue_targets(environment).into_keys();
    let queues: BTreeSet<_> = mapped.chain(bound.map(|it| queue_arn(&it, handler_arn))).collect();

    let named = named_targets(environment);
    let known_by = |name: &str| match account.functions.get(name) {
        _ if named.contains(name) => Some(KnownBy::Setting),
        Some(function) => account.known_by(function, &queues),
        None => None,
    };
    let mut sources = named_queues(handler);
    // A function that the command names may be a target, a consumer, or both.
    let received = |name: &str| {
        let mappings = account.mappings.iter().flatten().filter(|it| it.consumer() == name);
        mappings.map(|it| it.queue.as_str()).collect::<Vec<_>>()
    };
    let targets: BTreeMap<_, _> = if only.is_empty() {
        let all = account.functions.keys().chain(&named).filter(|name| *name != handler.name());
        all.filter_map(|name| Some((name, known_by(name)?))).collect()
    } else {
        let functions = only.iter().filter(|name| !name.starts_with(QUEUE_PREFIX));
        let why = |name: &String| match received(name) {
            _ if known_by(name).is_some() => known_by(name),
            queues if queues.is_empty() => Some(KnownBy::Destination),
            queues if queues.iter().any(|arn| sources.contains_key(*arn)) => None,
            _ => Some(KnownBy::Consumes),
        };
        functions.filter_map(|name| Some((name, why(name)?))).collect()
    };
    let is_wanted = |arn: &str| {
        let is_consumer = |name: &String| received(name).contains(&arn);
        only.contains(&format!("{QUEUE_PREFIX}{}", last(arn))) || only.iter().any(is_consumer)
    };
    sources.retain(|arn, _| only.is_empty() || is_wanted(arn));
    let dead_letters_url = environment.get("DEAD_LETTER_QUEUE_URL").cloned().unwrap_or_default();
    let dead_letters_arn = queue_arn(&dead_letters_url, handler_arn);

    let (running, mut targets, sources, queues, dead_letters, dead_letters_denied, ledger) = tokio::join!(
        aws.running(handler.name()),
        join_all(targets.iter().map(|(name, known_by)| {
            // Without configs, the function doesn't exist.
            let configs = account.configs.get(*name).cloned().unwrap_or(Ok(Vec::new()));
            aws.target(name, account.functions.get(*name), *known_by, configs, &queues)
        })),
        join_all(sources.into_iter().map(|(arn, bound)| {
            let consumers = consumers(&arn).into_iter();
            let function = |it: &Mapping| account.functions.get(it.consumer()).cloned();
            let consumers = consumers.map(|it| (it.clone(), function(&it))).collect();
            aws.source(handler, arn, bound, consumers)
        })),
        join_all(queues.iter().map(|arn| {
            let others = consumers(arn).iter().map(|it| it.consumer().to_owned()).collect();
            aws.retry_queue(arn, role, others)
        })),
        aws.queue_at(&dead_letters_arn, dead_letters_url),
        aws.denied(role, &["sqs:SendMessage"], vec![dead_letters_arn.clone()]),
        aws.ledger(handler),
    );
    let with_keys: Vec<_> = queues.iter().map(|it| &it.queue).chain([&dead_letters]).collect();
    let (metrics, invocations, keys) = tokio::join!(
        aws.metrics(handler, &targets, &sources, &dead_letters),
        aws.invocations(handler, &targets),
        aws.keys(handler, &with_keys, &targets),
    );
    for (target, may_be_invoked) in targets.iter_mut().zip(invocations) {
        target.may_be_invoked = may_be_invoked;
    }
    let is_other = |name: &str| targets.iter().all(|target| target.name != name);
    let configs = account.configs.iter().filter(|(name, _)| is_other(name));
    let attached = account.attached.iter().filter(|(name, _)| is_other(name));
    let others = (configs.map(|(_, configs)| configs.clone().map(drop)))
        .chain(attached.map(|(_, attached)| attached.clone().map(drop)))
        .collect();
    let queues_of_others = account.retry_queues.iter().filter(|(_, of)| *of != handler.name());
    Some(Facts {
        handler: handler.clone(),
        running,
        functions: account.functions.keys().cloned().collect(),
        mappings,
        queues,
        queues_of_others: queues_of_others.map(|(arn, of)| (arn.clone(), of.clone())).collect(),
        dead_letters,
        dead_letters_denied: dead_letters_denied.map(actions),
        targets,
        sources,
        keys,
        others,
        ledger,
        metrics,
    })
}
