//! `comeback attach` and `comeback detach`.

mod account;
pub mod rules;

use serde::Serialize;

use crate::{
    operate::{
        attach::{
            account::{facts, queue_facts},
            rules::{
                Order, Plan, Planned, Refusal, Step, attach, attach_queue, carry_out, detach,
                detach_queue, parse,
            },
        },
        aws::Aws,
        options::Connection,
    },
    paint::{Line, Style},
    shell::{Failure, Outcome, Shell, confirm},
};

/// What `--json` prints.
#[derive(Serialize)]
struct Document<'a> {
    function: &'a str,
    queue: &'a str,
    plan: Vec<StepJson<'a>>,
    warnings: &'a [String],
    waiting: u64,
    done: usize,
    error: Option<String>,
}

#[derive(Serialize)]
struct StepJson<'a> {
    what: &'a str,
    is: &'a str,
    becomes: &'a str,
}

/// A planned change, with the texts to show.
struct Change {
    title: String,
    question: String,
    function: String,
    plan: Plan,
    /// What to do if a step fails.
    advice: String,
}

pub async fn run_attach(args: &AttachArgs, shell: &Shell) -> Result<Outcome, Failure> {
    let AttachArgs { function: named, queue, replace, transparent, options, .. } = args;
    let aws = Aws::connect(&options.connection, shell.now).await?;
    let Some(named) = named else { return run_attach_queue(&aws, args, shell).await };
    let facts = facts(&aws, named, options).await?;
    let order = Order {
        qualifier: named.1.clone(),
        queue: queue.clone(),
        replace: *replace,
        transparent: transparent.clone(),
    };
    let plan = attach(&facts, &order).map_err(refused)?;
    let function = full_name(named);
    let advice = format!(
        "run the same command again to continue, or comeback detach {function} to undo them"
    );
    let title = format!("Attach {function} to {} of {}", plan.queue, facts.handler.name());
    let question = format!("Attach {function}?");
    run(&aws, Change { title, question, function, plan, advice }, options, shell).await
}

pub async fn run_detach(args: &DetachArgs, shell: &Shell) -> Result<Outcome, Failure> {
    let DetachArgs { function: named, queue, now, options } = args;
    let aws = Aws::connect(&options.connection, shell.now).await?;
    let Some(named) = named else {
        let source = queue.as_deref().unwrap_or_default();
        let facts = queue_facts(&aws, source, None, options).await?;
        let plan = detach_queue(&facts).map_err(refused)?;
        let function = facts.source.target_name().to_owned();
        let advice = "run the same command again to continue".to_owned();
        let title = format!("Detach {function} from {} of {}", plan.queue, facts.handler.name());
        let question = format!("Detach {function}?");
        return run(&aws, Change { title, question, function, plan, advice }, options, shell).await;
    };
    let facts = facts(&aws, named, options).await?;
    let plan = detach(&facts, named.1.as_deref(), *now).map_err(refused)?;
    let function = full_name(named);
    let advice = "run the same command again to continue".to_owned();
    let title = format!("Detach {function} from {} of {}", plan.queue, facts.handler.name());
    let question = format!("Detach {function}?");
    run(&aws, Change { title, question, function, plan, advice }, options, shell).await
}

async fn run_attach_queue(aws: &Aws, args: &AttachArgs, shell: &Shell) -> Result<Outcome, Failure> {
    let AttachArgs { queue, retry_queue, max_receives, replace, options, .. } = args;
    let source = queue.as_deref().unwrap_or_default();
    let facts = queue_facts(aws, source, retry_queue.as_deref(), options).await?;
    let plan = attach_queue(&facts, *max_receives, *replace).map_err(refused)?;
    let function = facts.source.target_name().to_owned();
    let advice = format!(
        "run the same command again to continue, or comeback detach --queue {} to undo them",
        facts.source.name()
    );
    let title = format!("Attach {function} to {} of {}", plan.queue, facts.handler.name());
    let question = format!("Attach {function}?");
    run(aws, Change { title, question, function, plan, advice }, options, shell).await
}

fn refused(refusal: Refusal) -> Failure {
    Failure::Refused(refusal.to_string())
}

fn full_name((name, qualifier): &QualifiedName) -> String {
    qualifier.as_ref().map_or_else(|| name.clone(), |qualifier| format!("{name}:{qualifier}"))
}

async fn run(
    aws: &Aws,
    change: Change,
    options: &CommonOptions,
    shell: &Shell,
) -> Result<Outcome, Failure> {
    let Change { title, question, function, plan, advice } = change;
    let Plan { queue, steps, warnings, waiting } = plan;
    if !options.json {
        shell.print(&plan_lines(&title, &steps, &warnings)).await?;
    }
    let is_asked = !options.yes && !options.dry_run && !steps.is_empty();
    if is_asked {
        confirm(&question)?;
    }
    let mut done = Vec::new();
    let ended = if options.dry_run {
        Ok(())
    } else {
        let note = |planned: &Planned| done.push(planned.what.clone());
        carry_out(&steps, aws, async |step: &Step| account::change(aws, step).await, note).await
    };
    let done_lines = done.iter().map(|what| Line::of(Style::Good, "✓ ").and(Style::Plain, what));
    let mut lines: Vec<_> = done_lines.collect();
    if waiting > 0 {
        let text = format!(
            "{queue} still has {waiting} messages, so the permissions and settings that their retries need are kept: run this again when it is empty, or with --now"
        );
        lines.push(Line::of(Style::GivenUp, "! ").and(Style::Plain, text));
    }
    if options.json {
        let plan =
            steps.iter().map(|Planned { what, is, becomes, .. }| StepJson { what, is, becomes });
        let document = Document {
            function: &function,
            queue: &queue,
            plan: plan.collect(),
            warnings: &warnings,
            waiting,
            done: done.len(),
            error: ended.as_ref().err().map(ToString::to_string),
        };
        shell.print_json(&document).await?;
    } else {
        shell.print(&lines).await?;
    }
    ended.map(|()| Outcome::Success).map_err(|stopped| {
        let done = stopped.done;
        Failure::Refused(format!(
            "{stopped}; {done} of {} steps were carried out: {advice}",
            steps.len()
        ))
    })
}

fn plan_lines(title: &str, steps: &[Planned], warnings: &[String]) -> Vec<Line> {
    let mut lines = vec![Line::of(Style::Strong, title)];
    for Planned { what, is, becomes, .. } in steps {
        lines.push(Line::of(Style::Plain, format!("  {what}")));
        lines.push(Line::of(Style::Faint, format!("    is:      {is}")));
        lines.push(Line::of(Style::Plain, format!("    will be: {becomes}")));
    }
    if steps.is_empty() {
        lines.push(Line::of(Style::Plain, "  nothing to do"));
    }
    let warning = |text: &String| Line::of(Style::GivenUp, "! ").and(Style::Plain, text);
    lines.extend(warnings.iter().map(warning));
    lines
}

/// The name of a function, with its alias or version.
pub type QualifiedName = (String, Option<String>);

/// Options of `comeback attach`.
#[derive(Debug, clap::Args)]
pub struct AttachArgs {
    /// The function, by its name or ARN, with an alias or a version if that is what is invoked.
    #[arg(value_name = "FUNCTION[:ALIAS]", value_parser = parse, required_unless_present = "queue")]
    pub function: Option<QualifiedName>,
    /// Without a function: the queue whose consumer fails, by its name or ARN. With a function: the retry queue, by its
    /// name, URL or ARN [default: the only one that functions share].
    #[arg(long, value_name = "QUEUE")]
    pub queue: Option<String>,
    /// The retry queue of the queue, by its name, which is created if it doesn't exist [default: retry-QUEUE].
    #[arg(long, value_name = "NAME", conflicts_with = "function")]
    pub retry_queue: Option<String>,
    /// How often SQS lets a consumer of the queue try before it moves a message [default: 1].
    #[arg(long, value_name = "N", conflicts_with = "function", value_parser = clap::value_parser!(u64).range(1..=10))]
    pub max_receives: Option<u64>,
    /// Replace another on-failure destination, or the queue's dead-letter queue.
    #[arg(long)]
    pub replace: bool,
    /// Have this layer take the envelope off, so that the function gets its original payload in every attempt.
    #[arg(long, value_name = "LAYER_ARN", requires = "function")]
    pub transparent: Option<String>,
    #[command(flatten)]
    pub options: CommonOptions,
}

/// Options of `comeback detach`.
#[derive(Debug, clap::Args)]
pub struct DetachArgs {
    /// The function, as it was attached.
    #[arg(value_name = "FUNCTION[:ALIAS]", value_parser = parse, required_unless_present = "queue")]
    pub function: Option<QualifiedName>,
    /// The queue whose consumer fails, as it was attached.
    #[arg(long, value_name = "QUEUE", conflicts_with = "function")]
    pub queue: Option<String>,
    /// Don't wait until the queue is empty: the function's waiting events are dead-lettered.
    #[arg(long, requires = "function")]
    pub now: bool,
    #[command(flatten)]
    pub options: CommonOptions,
}

/// Options of both commands.
#[derive(Debug, clap::Args)]
pub struct CommonOptions {
    /// The retry handler [default: the only one].
    #[arg(long, value_name = "NAME")]
    pub handler: Option<String>,
    /// Show the plan and change nothing.
    #[arg(long, conflicts_with = "yes")]
    pub dry_run: bool,
    /// Don't ask.
    #[arg(long)]
    pub yes: bool,
    /// Print one JSON document instead of lines.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub connection: Connection,
}
