//! `comeback attach` and `comeback detach`: they read the configuration of a function, a queue, a rule or a schedule,
//! and change it in steps.

mod calls;
mod change;
mod gather;
mod options;
mod order;
pub mod rules;

use crate::{
    aws::Aws,
    failure::Failure,
    operate::{
        attach::{
            options::CommonOptions,
            order::{Attach, Detach},
            rules::{
                deliveries,
                functions::{attach, detach},
                order::{Order, QualifiedName, parse},
                queues::{attach_queue, detach_queue},
                refusal::Refusal,
                sender::SenderArgs,
            },
        },
        order::terminal::give,
    },
    shell::{Outcome, Shell},
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
    #[arg(value_name = "FUNCTION[:ALIAS]", value_parser = parse, required_unless_present_any = ["queue", "rule", "schedule"])]
    pub function: Option<QualifiedName>,
    #[command(flatten)]
    pub sender: SenderArgs,
    /// The queue whose consumer fails, as it was attached.
    #[arg(long, value_name = "QUEUE", conflicts_with_all = ["function", "rule", "schedule"])]
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
    } else if order.sender.is_some() {
        let facts = gather::delivery_facts(&aws, &order.sender, options).await?;
        let plan = deliveries::attach(&facts, order)?;
        (plan, facts.sender.to_string(), facts.handler, facts.sender.arguments())
    } else {
        let source = order.queue.as_deref().unwrap_or_default();
        let facts =
            gather::queue_facts(&aws, source, order.retry_queue.as_deref(), options).await?;
        let plan = attach_queue(&facts, order)?;
        let undo = format!("--queue {}", facts.source.name());
        (plan, facts.source.target_name().to_owned(), facts.handler, undo)
    };
    let order = Attach { aws, plan, name, handler, undo: Some(undo) };
    give(order, options.order(), shell).await
}

pub async fn run_detach(args: &DetachArgs, shell: &Shell) -> Result<Outcome, Failure> {
    let DetachArgs { function, sender, queue, now, options } = args;
    let aws = Aws::connect(&options.connection, shell.now).await?;
    let (plan, name, handler) = if let Some(named) = function {
        let facts = gather::facts(&aws, named, None, options).await?;
        (detach(&facts, named.1.as_deref(), *now)?, full_name(named), facts.handler)
    } else if sender.is_some() {
        let facts = gather::delivery_facts(&aws, sender, options).await?;
        (deliveries::detach(&facts)?, facts.sender.to_string(), facts.handler)
    } else {
        let source = queue.as_deref().unwrap_or_default();
        let facts = gather::queue_facts(&aws, source, None, options).await?;
        (detach_queue(&facts)?, facts.source.target_name().to_owned(), facts.handler)
    };
    let order = Detach { aws, plan, name, handler, undo: None };
    give(order, options.order(), shell).await
}

fn full_name((name, qualifier): &QualifiedName) -> String {
    qualifier.as_ref().map_or_else(|| name.clone(), |qualifier| format!("{name}:{qualifier}"))
}
