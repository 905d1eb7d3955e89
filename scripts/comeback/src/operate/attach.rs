//! `comeback attach` and `comeback detach`: they read the configuration of a function or a queue, and
//! change it in steps.

mod calls;
mod change;
mod gather;
mod options;
pub mod rules;

use serde_json::json;

use crate::{
    account::function::Function,
    aws::Aws,
    failure::Failure,
    operate::attach::{
        options::CommonOptions,
        rules::{
            carry_out::carry_out,
            functions::{attach, detach},
            order::{Order, QualifiedName, parse},
            plan::Plan,
            queues::{attach_queue, detach_queue},
            refusal::Refusal,
            steps::{Planned, Step},
        },
    },
    paint::{Line, Style},
    shell::{Outcome, Shell, confirm},
};

#[derive(Debug, clap::Args)]
pub struct AttachArgs {
    #[command(flatten)]
    pub order: Order,
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

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal.to_string())
    }
}

pub async fn run_attach(args: &AttachArgs, shell: &Shell) -> Result<Outcome, Failure> {
    let AttachArgs { order, options } = args;
    let aws = Aws::connect(&options.connection, shell.now).await?;
    let (plan, name, handler, undo) = if let Some(named) = &order.function {
        let facts = gather::facts(&aws, named, order.records.as_deref(), options).await?;
        (attach(&facts, order)?, full_name(named), facts.handler, full_name(named))
    } else {
        let source = order.queue.as_deref().unwrap_or_default();
        let facts =
            gather::queue_facts(&aws, source, order.retry_queue.as_deref(), options).await?;
        let plan = attach_queue(&facts, order)?;
        let undo = format!("--queue {}", facts.source.name());
        (plan, facts.source.target_name().to_owned(), facts.handler, undo)
    };
    run(&aws, plan, (&name, &handler), Some(undo), options, shell).await
}

pub async fn run_detach(args: &DetachArgs, shell: &Shell) -> Result<Outcome, Failure> {
    let DetachArgs { function, queue, now, options } = args;
    let aws = Aws::connect(&options.connection, shell.now).await?;
    let (plan, name, handler) = if let Some(named) = function {
        let facts = gather::facts(&aws, named, None, options).await?;
        (detach(&facts, named.1.as_deref(), *now)?, full_name(named), facts.handler)
    } else {
        let source = queue.as_deref().unwrap_or_default();
        let facts = gather::queue_facts(&aws, source, None, options).await?;
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
        carry_out(&steps, aws, async |step: &Step| change::change(aws, step).await, note).await
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
