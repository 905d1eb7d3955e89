//! The terminal as a face of orders: it shows the plan, asks, shows how far the work is, and tells what was done.

use indicatif::ProgressBar;

use super::{Account, Ended, Go, Order, Plan as _, Selects, Tally as _, Work, recorded};

use crate::{
    failure::Failure,
    notice::Notice,
    operate::{
        logbook::{self, rules::Through},
        options::OrderOptions,
    },
    paint::{Line, Style},
    shell::{Outcome, Shell, confirm, progress, spinner, uninterrupted},
    text::counted,
};

pub async fn run<O: Selects>(args: &O::Args, shell: &Shell) -> Result<Outcome, Failure> {
    let mut args = args.clone();
    O::check(&mut args)?;
    let options = O::options(&mut args);
    let account = Account::connect(O::connection(&mut args), shell.now).await?;
    give(O::open(args, account).await?, options, shell).await
}

/// Gives an order that was opened.
pub async fn give<O: Order>(
    mut order: O,
    options: OrderOptions,
    shell: &Shell,
) -> Result<Outcome, Failure> {
    let OrderOptions { yes, dry_run, json: is_json, .. } = options;
    for warning in order.warnings() {
        eprintln!("comeback: {warning}");
    }
    let goes_on = uninterrupted()?;
    // With --yes the counts are not needed, and reading a large queue takes time.
    let mut plan = None;
    if !yes || dry_run || order.needs_plan() {
        let made = planned(&mut order, &goes_on).await?;
        if !goes_on() {
            return Ok(Outcome::Interrupted);
        }
        order.edit(&made)?;
        plan = Some(made);
    }
    let number = plan.as_ref().map_or(order.about(), |plan| Some(plan.number()));
    let items = order.target().unwrap_or_else(|| O::KIND.items(&[], number.unwrap_or_default()));
    if let Some(plan) = plan.as_ref().filter(|_| !is_json) {
        shell.print(&[Line::of(Style::Strong, order.place())]).await?;
        shell.print_notices(&order.plan_notices(plan)).await?;
    } else if number.is_some() && !is_json {
        let line = format!("About {items} in {}", order.place());
        shell.print(&[Line::of(Style::Plain, line)]).await?;
    }
    if let Some(made) = plan.take_if(|plan| dry_run || plan.number() == 0) {
        let outcome = if made.is_stuck() { Outcome::Unsuccessful } else { Outcome::Success };
        if is_json {
            shell.print_json(&order.document(Some(made), None)).await?;
        }
        return Ok(outcome);
    }
    if let Some(why) = logbook::without(order.ledger()) {
        eprintln!("comeback: {why}");
    }
    if !yes {
        ask::<O>(&items)?;
    }
    let planned = plan.as_ref().map(O::Plan::number);
    let (tally, result) = carried_out(&order, planned, number, &goes_on).await;
    let (tried, is_stuck, is_interrupted) = (tally.tried(), tally.is_stuck(), !goes_on());
    if tried == 0 && result.is_ok() && !is_interrupted {
        order.refuse_unknown().await?;
    }
    if is_json {
        let error = result.as_ref().err().map(ToString::to_string);
        let ended = Ended { tally, is_interrupted, error };
        shell.print_json(&order.document(plan, Some(ended))).await?;
    } else {
        let mut notices = order.notices(&tally);
        if is_interrupted {
            let word = O::KIND.noun.word();
            notices.push(Notice::stopped(
                &match number.unwrap_or_default().saturating_sub(tried) {
                    0 => format!("an unknown number of {word}s"),
                    left => counted(left, word),
                },
            ));
        }
        shell.print_notices(&notices).await?;
    }
    result?;
    Ok(match () {
        () if is_interrupted => Outcome::Interrupted,
        () if is_stuck => Outcome::Unsuccessful,
        () => Outcome::Success,
    })
}

/// Asks whether an order for these items is carried out.
pub fn ask<O: Work>(items: &str) -> Result<(), Failure> {
    confirm(&format!("{}?", O::KIND.title(items)))
}

async fn planned<O: Order>(
    order: &mut O,
    goes_on: &(impl Fn() -> bool + Sync),
) -> Result<O::Plan, Failure> {
    let bar = bar(order.about(), "looked at");
    let plan = order.plan(|_| {
        bar.inc(1);
        if goes_on() { Go::On } else { Go::Stop }
    });
    let plan = plan.await?;
    bar.finish_and_clear();
    if plan.number() == 0 && goes_on() {
        order.refuse_unknown().await?;
    }
    Ok(plan)
}

async fn carried_out<O: Work>(
    order: &O,
    planned: Option<u64>,
    number: Option<u64>,
    goes_on: &(impl Fn() -> bool + Sync),
) -> (O::Tally, Result<(), Failure>) {
    let bar = bar(number, O::KIND.done);
    let done = recorded::carry_out(order, Through::Terminal, planned, |tally| {
        bar.set_position(tally.done());
        goes_on()
    });
    let done = done.await;
    bar.finish_and_clear();
    done
}

fn bar(number: Option<u64>, what: &str) -> ProgressBar {
    match number {
        Some(number) if number > 0 => progress(number, what),
        _ => spinner(what),
    }
}
