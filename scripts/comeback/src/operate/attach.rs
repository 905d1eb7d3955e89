//! `comeback attach` and `comeback detach`.

mod account;
pub mod rules;

use serde_json::json;

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
        rules::Function,
    },
    paint::{Line, Style},
    shell::{Failure, Outcome, Shell, confirm},
};

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        refusal.to_string().into()
    }
}

pub async fn run_attach(args: &AttachArgs, shell: &Shell) -> Result<Outcome, Failure> {
    let AttachArgs { function, queue, retry_queue, max_receives, replace, transparent, options } =
        args;
    let aws = Aws::connect(&options.connection, shell.now).await?;
    let (plan, name, handler, undo) = if let Some(named) = function {
        let facts = facts(&aws, named, transparent.as_deref(), options).await?;
        let order = Order {
            qualifier: named.1.clone(),
            queue: queue.clone(),
            replace: *replace,
            transparent: transparent.clone(),
        };
        (attach(&facts, &order)?, full_name(named), facts.handler, full_name(named))
    } else {
        let source = queue.as_deref().unwrap_or_default();
        let facts = queue_facts(&aws, source, retry_queue.as_deref(), options).await?;
        let plan = attach_queue(&facts, *max_receives, *replace)?;
        let undo = format!("--queue {}", facts.source.name());
        (plan, facts.source.target_name().to_owned(), facts.handler, undo)
    };
    run(&aws, plan, (&name, &handler), Some(undo), options, shell).await
}

pub async fn run_detach(args: &DetachArgs, shell: &Shell) -> Result<Outcome, Failure> {
    let DetachArgs { function, queue, now, options } = args;
    let aws = Aws::connect(&options.connection, shell.now).await?;
    let (plan, name, handler) = if let Some(named) = function {
        let facts = facts(&aws, named, None, options).await?;
        (detach(&facts, named.1.as_deref(), *now)?, full_name(named), facts.handler)
    } else {
        let source = queue.as_deref().unwrap_or_default();
        let facts = queue_facts(&aws, source, None, options).await?;
        (detach_queue(&facts)?, facts.source.target_name().to_owned(), facts.handler)
    };
    run(&aws, plan, (&name, &handler), None, options, shell).await
}

fn full_name((name, qualifier): &QualifiedName) -> String {
    qualifier.as_ref().map_or_else(|| name.clone(), |qualifier| format!("{name}:{qualifier}"))
}

/// Carries out a plan to attach `name`, or to detach it. `undo` has the arguments of `comeback detach` that undo an
/// attachment.
async fn run(
    aws: &Aws,
    plan: Plan,
    (name, handler): (&str, &Function),
    undo: Option<String>,
    options: &CommonOptions,
    shell: &Shell,
) -> Result<Outcome, Failure> {
    let (verb, preposition) = if undo.is_some() { ("Attach", "to") } else { ("Detach", "from") };
    let Plan { queue, steps, warnings, waiting } = plan;
    if !options.json {
        let title = format!("{verb} {name} {preposition} {queue} of {}", handler.name());
        shell.print(&plan_lines(&title, &steps, &warnings)).await?;
    }
    if !options.yes && !options.dry_run && !steps.is_empty() {
        confirm(&format!("{verb} {name}?"))?;
    }
    let mut done = Vec::new();
    let ended = if options.dry_run {
        Ok(())
    } else {
        let note = |planned: &Planned| done.push(planned.what.clone());
        carry_out(&steps, aws, async |step: &Step| account::change(aws, step).await, note).await
    };
    if options.json {
        let error = ended.as_ref().err().map(ToString::to_string);
        let document = json!({
            "function": name, "queue": queue, "plan": steps, "warnings": warnings, "waiting": waiting,
            "done": done.len(), "error": error,
        });
        shell.print_json(&document).await?;
    } else {
        let done = done.iter().map(|what| Line::of(Style::Good, "✓ ").and(Style::Plain, what));
        let waits = (waiting > 0).then(|| {
            let text = format!(
                "{queue} still has {waiting} messages, so the permissions and settings that their retries need are kept: run this again when it is empty, or with --now"
            );
            Line::of(Style::GivenUp, "! ").and(Style::Plain, text)
        });
        shell.print(&done.chain(waits).collect::<Vec<_>>()).await?;
    }
    ended.map(|()| Outcome::Success).map_err(|stopped| {
        let (done, of) = (stopped.done, steps.len());
        let undo = undo.map(|undo| format!(", or comeback detach {undo} to undo them"));
        let text = format!(
            "{stopped}; {done} of {of} steps were carried out: run the same command again to continue{}",
            undo.unwrap_or_default()
        );
        text.into()
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
