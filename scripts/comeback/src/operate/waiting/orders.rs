//! `comeback waiting retry-now` and `comeback waiting cancel`.

use comeback_core::claim::Order;
use serde::Serialize;

use crate::{
    operate::{
        rules::events,
        waiting::{
            OrderArgs,
            register::open,
            rules::{Plan, Tally, carry_out, visit},
        },
    },
    paint::{Line, Style},
    shell::{Failure, Outcome, Shell, confirm, progress, spinner, uninterrupted},
};

/// What `--json` prints.
#[derive(Serialize)]
struct Document<'a> {
    handler: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    plan: Option<&'a Plan>,
    #[serde(skip_serializing_if = "Option::is_none")]
    done: Option<&'a Tally>,
    interrupted: bool,
    error: Option<String>,
}

pub async fn run(order: Order, args: &OrderArgs, shell: &Shell) -> Result<Outcome, Failure> {
    let register = open(&args.system, shell.now).await?;
    let goes_on = uninterrupted()?;
    let selection = args.filter.selection((shell.now)());
    let parts = register.parts(&selection.functions).await?;
    let mut plan = None;
    if !args.yes || args.dry_run {
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
    if let Some(plan) = &plan {
        if !args.json {
            shell.print(&[Line::of(Style::Strong, register.place())]).await?;
            shell.print_notices(&plan.notices(order)).await?;
        }
        if args.dry_run || planned == 0 {
            if args.json {
                let handler = register.handler();
                let (plan, interrupted, error) = (Some(plan), false, None);
                let document = Document { handler, plan, done: None, interrupted, error };
                shell.print_json(&document).await?;
            }
            return Ok(Outcome::Success);
        }
        let question = match order {
            Order::Retry => format!("Retry {} now?", events(planned)),
            Order::Cancel => format!("Give up {}?", events(planned)),
        };
        confirm(&question)?;
    }
    let bar = if planned > 0 { progress(planned, "ordered") } else { spinner("ordered") };
    let (tally, ended) = carry_out(order, &selection, &parts, args.rate, &register, |tally| {
        bar.set_position(tally.ordered());
        goes_on()
    })
    .await;
    bar.finish_and_clear();
    let is_interrupted = !goes_on();
    if args.json {
        let document = Document {
            handler: register.handler(),
            plan: plan.as_ref(),
            done: Some(&tally),
            interrupted: is_interrupted,
            error: ended.as_ref().err().map(ToString::to_string),
        };
        shell.print_json(&document).await?;
    } else {
        shell.print_notices(&tally.notices(order)).await?;
    }
    ended?;
    Ok(match () {
        () if is_interrupted => Outcome::Interrupted,
        () if tally.failed + tally.not_shown > 0 => Outcome::Unsuccessful,
        () => Outcome::Success,
    })
}
