//! Orders for waiting events: retry them now, or cancel them.

use comeback_core::claim::Order;
use serde_json::json;

use crate::{
    failure::Failure,
    operate::{
        options::{OrderOptions, SystemOptions},
        waiting::{
            filter::Filter,
            register::open,
            rules::{Plan, carry_out, visit},
        },
    },
    paint::{Line, Style},
    shell::{Outcome, Shell, confirm, progress, spinner, uninterrupted},
    text::events,
};

#[derive(Debug, clap::Args)]
pub struct OrderArgs {
    /// The most events a second [default: as many as possible].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub rate: Option<u32>,
    #[command(flatten)]
    pub options: OrderOptions,
    #[command(flatten)]
    pub filter: Filter,
    #[command(flatten)]
    pub system: SystemOptions,
}

pub async fn order(order: Order, args: &OrderArgs, shell: &Shell) -> Result<Outcome, Failure> {
    let OrderOptions { yes, dry_run, json: is_json } = args.options;
    if order == Order::Cancel {
        args.filter.selection.failures.refuse_everything()?;
    }
    let register = open(&args.system, shell.now).await?;
    let goes_on = uninterrupted()?;
    let selection = args.filter.selection((shell.now)());
    let parts = register.parts(&selection.failures.functions).await?;
    let mut plan = None;
    if !yes || dry_run {
        let mut planned = Plan::default();
        let spinner = spinner("events read");
        visit(&parts, &register, |event| {
            spinner.inc(1);
            if selection.matches(&event) {
                planned.count(event);
            }
            goes_on()
        })
        .await?;
        spinner.finish_and_clear();
        if !goes_on() {
            return Ok(Outcome::Interrupted);
        }
        plan = Some(planned);
    }
    let planned = plan.as_ref().map_or(0, Plan::all);
    let mut document =
        json!({ "handler": register.handler(), "interrupted": false, "error": null });
    if let Some(plan) = &plan {
        document["plan"] = json!(plan);
        if !is_json {
            shell.print(&[Line::of(Style::Strong, register.place())]).await?;
            shell.print_notices(&plan.notices(order)).await?;
        }
        if dry_run || planned == 0 {
            if is_json {
                shell.print_json(&document).await?;
            }
            return Ok(Outcome::Success);
        }
        confirm(&match order {
            Order::Retry => format!("Retry {} now?", events(planned)),
            Order::Cancel => format!("Give up {}?", events(planned)),
        })?;
    }
    let bar = if planned > 0 { progress(planned, "ordered") } else { spinner("ordered") };
    let (tally, ended) = carry_out(order, &selection, &parts, args.rate, &register, |tally| {
        bar.set_position(tally.ordered());
        goes_on()
    })
    .await;
    bar.finish_and_clear();
    document["interrupted"] = json!(!goes_on());
    document["error"] = json!(ended.as_ref().err().map(ToString::to_string));
    document["done"] = json!(tally);
    if is_json {
        shell.print_json(&document).await?;
    } else {
        shell.print_notices(&tally.notices(order)).await?;
    }
    ended?;
    Ok(match () {
        () if !goes_on() => Outcome::Interrupted,
        () if tally.failed + tally.not_shown > 0 => Outcome::Unsuccessful,
        () => Outcome::Success,
    })
}
