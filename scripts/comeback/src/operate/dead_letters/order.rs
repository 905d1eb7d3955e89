//! `comeback dead redrive` and `comeback dead purge`: orders for the selected letters.

use std::{fs, io, process::Command};

use comeback_core::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::{
    failure::Failure,
    filter::NEEDS_ALL,
    notice::Notice,
    operate::{
        dead_letters::{
            queue::{Queue, QueueOptions, look_at_all, open},
            rules::{
                Action, Facts, Order, Pace, Plan, PointerValue, Selection, Step, Tally, carry_out,
            },
        },
        options::OrderOptions,
    },
    paint::{Line, Style},
    shell::{Outcome, Shell, confirm, progress, uninterrupted},
    text::{count, letters},
    typed::{Rate, not_empty, rate},
    untrusted,
};

#[derive(Debug, clap::Args)]
pub struct OrderArgs {
    #[command(flatten)]
    pub options: OrderOptions,
    #[command(flatten)]
    pub selection: Selection,
    #[command(flatten)]
    pub queue: QueueOptions,
}

#[derive(Debug, clap::Args)]
pub struct RedriveArgs {
    /// The function or the queue, such as sqs:imports, in place of each letter's own, by its name or ARN. A function
    /// may have a version or an alias.
    #[arg(long, value_name = "FUNCTION[:ALIAS]|QUEUE", value_parser = not_empty)]
    pub to: Option<String>,
    /// Set a value in the payload, by a JSON pointer. A key that an object lacks is added. The value is JSON, or the
    /// text of a string; repeatable.
    #[arg(long, value_name = "/POINTER=VALUE", value_parser = PointerValue::parse)]
    pub set: Vec<PointerValue>,
    /// Edit the payload of the only selected letter in $VISUAL or $EDITOR.
    #[arg(long)]
    pub edit: bool,
    /// The most letters to redrive, such as 20, 0.5/s or 90/m [default: as many as possible].
    #[arg(long, value_name = "NUMBER[/UNIT]", value_parser = rate)]
    pub rate: Option<Rate>,
    /// How many batches of ten are redriven concurrently. More are faster when calls are slow, but if the command is
    /// killed, that many batches may be redriven twice.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=50))]
    pub batches: u8,
    #[command(flatten)]
    pub order: OrderArgs,
}

pub async fn redrive(args: &RedriveArgs, shell: &Shell) -> Result<Outcome, Failure> {
    let RedriveArgs { to, set, edit, rate, batches, order } = args;
    let action = Action::Redrive { to: to.clone(), set: set.clone(), payload: None };
    let pace = Pace { rate: *rate, batches: usize::from(*batches) };
    self::order(order, action, pace, *edit, shell).await
}

pub async fn purge(args: &OrderArgs, shell: &Shell) -> Result<Outcome, Failure> {
    let pace = Pace { rate: None, batches: 1 };
    order(args, Action::Purge, pace, false, shell).await
}

/// The document of `--json`.
#[derive(JsonSchema, Serialize)]
pub struct OrderJson {
    /// The URL of the queue.
    pub queue: String,
    /// How many letters are redriven to each function or queue, how many are deleted, and why others stay.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan: Option<Plan>,
    pub interrupted: bool,
    #[schemars(with = "Option<untrusted::Text>")]
    pub error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub done: Option<Tally>,
}

impl OrderJson {
    pub fn of(queue: &Queue, plan: Option<Plan>) -> Self {
        Self { queue: queue.url.clone(), plan, interrupted: false, error: None, done: None }
    }
}

/// Finds the queue, and the order that this action is for its letters.
pub async fn prepare(
    selection: Selection,
    action: Action,
    queue: &QueueOptions,
    now: fn() -> Timestamp,
) -> Result<(Queue, Order), Failure> {
    if action == Action::Purge {
        selection.failures.refuse_everything()?;
    }
    let queue = open(queue, now).await?;
    let policies = queue.policies_for(&action).await?;
    Ok((queue, Order { selection, given_at: now(), action, policies }))
}

async fn order(
    args: &OrderArgs,
    action: Action,
    pace: Pace,
    edit: bool,
    shell: &Shell,
) -> Result<Outcome, Failure> {
    let OrderOptions { all, yes, dry_run, json: is_json } = args.options;
    if action == Action::Purge && !all && args.selection == Selection::default() {
        return Err(NEEDS_ALL.into());
    }
    let (ask, done) = match action {
        Action::Redrive { .. } => ("Redrive", "redriven"),
        Action::Purge => ("Delete", "deleted"),
    };
    let prepared = prepare(args.selection.clone(), action, &args.queue, shell.now);
    let (queue, mut order) = prepared.await?;
    let goes_on = uninterrupted()?;

    // With --yes the counts are not needed, and reading a large queue takes time.
    let is_planned = !yes || dry_run || edit;
    let (mut plan, mut last) = (Plan::default(), None);
    if is_planned {
        look_at_all(&queue, |letter| {
            let step = order.step(&letter, order.given_at);
            plan.count(&step);
            if matches!(step, Step::Redrive(_)) {
                last = Some(letter);
            }
            goes_on()
        })
        .await?;
        if !goes_on() {
            return Ok(Outcome::Interrupted);
        }
    }
    if is_planned && plan.letters() == 0 && goes_on() {
        queue.refuse_unknown(&order.selection.failures.functions).await?;
    }
    if edit {
        let facts = last.map(|letter| order.facts(&letter));
        edited(&mut order.action, &plan, facts, yes)?;
    }

    let number = if is_planned { plan.letters() } else { queue.visible };
    let place = format!("{} ({})", queue.name(), queue.region());
    let plan = is_planned.then_some(plan);
    match &plan {
        _ if is_json => {}
        Some(plan) => {
            shell.print(&[Line::of(Style::Strong, place)]).await?;
            shell.print_notices(&plan.notices()).await?;
        }
        None => {
            let line = format!("About {} in {place}", letters(number));
            shell.print(&[Line::of(Style::Plain, line)]).await?;
        }
    }
    let mut document = OrderJson::of(&queue, plan);
    if let Some(plan) = document.plan.as_ref().filter(|_| dry_run || number == 0) {
        if is_json {
            shell.print_json(&document).await?;
        }
        return Ok(if plan.is_stuck() { Outcome::Unsuccessful } else { Outcome::Success });
    }
    if !yes {
        confirm(&format!("{ask} {}?", letters(number)))?;
    }

    let bar = progress(number, done);
    let (tally, ended) = carry_out(&order, pace, &queue, |tally| {
        bar.set_position(tally.done());
        goes_on()
    })
    .await;
    drop(bar);

    let is_stuck = tally.kept_back() > 0;
    if tally.tried() == 0 && goes_on() {
        queue.refuse_unknown(&order.selection.failures.functions).await?;
    }
    if is_json {
        document.interrupted = !goes_on();
        document.error = ended.as_ref().err().map(ToString::to_string);
        document.done = Some(tally);
        shell.print_json(&document).await?;
    } else {
        let mut notices = tally.notices();
        if !goes_on() {
            let left = number.saturating_sub(tally.tried());
            notices.push(Notice::stopped(&letters(left)));
        }
        shell.print_notices(&notices).await?;
    }
    ended?;
    Ok(match () {
        () if !goes_on() => Outcome::Interrupted,
        () if is_stuck => Outcome::Unsuccessful,
        () => Outcome::Success,
    })
}

/// Lets the operator edit the payload of the only selected letter. If it was not changed, the operator has to confirm.
fn edited(
    action: &mut Action,
    plan: &Plan,
    facts: Option<Facts>,
    is_confirmed: bool,
) -> Result<(), Failure> {
    let (Some(facts), 1) = (facts, plan.letters()) else {
        let stays = plan.leave.keys().find(|reason| reason.is_selected());
        return Err(match stays.filter(|_| plan.letters() == 0) {
            Some(reason) => format!("there is no letter to edit: {}", reason.text()),
            None => {
                let letters = count(plan.letters());
                format!(
                    "expected one letter for --edit, got {letters}: pass --id or another filter"
                )
            }
        }
        .into());
    };
    let before = facts.payload.as_deref().unwrap_or_default();
    let after = edit(before).map_err(|error| format!("can't edit the payload: {error}"))?;
    if after == before {
        let text = "the payload was not changed";
        if is_confirmed {
            return Err(format!("{text}, so nothing is redriven: leave out --edit").into());
        }
        eprintln!("comeback: {text}");
    }
    if let Action::Redrive { payload, .. } = action {
        *payload = Some(after);
    }
    Ok(())
}

/// Opens the operator's editor, as the shell finds it, with a text. Returns the text that it has saved, which is JSON.
/// If it is not, and somebody can be asked, the editor is opened again. Otherwise the text stays in its file.
fn edit(text: &str) -> io::Result<String> {
    const EDITOR: &str = r#"eval "${VISUAL:-${EDITOR:-vi}} \"\$1\"""#;
    let file = tempfile::Builder::new().prefix("payload-").suffix(".json").tempfile()?;
    fs::write(file.path(), text)?;
    loop {
        let ended = Command::new("sh").args(["-c", EDITOR, "edit"]).arg(file.path()).status()?;
        if !ended.success() {
            return Err(io::Error::other(format!(
                "the editor ended with {ended}; nothing is redriven"
            )));
        }
        let saved = fs::read_to_string(file.path())?;
        // Editors end a file with a line break.
        let saved = match saved.strip_suffix('\n') {
            Some(line) if !text.ends_with('\n') => line.to_owned(),
            _ => saved,
        };
        let Err(error) = serde_json::from_str::<&RawValue>(&saved) else { return Ok(saved) };
        eprintln!("comeback: the edited payload is not JSON: {error}");
        if confirm("Edit it again?").is_err() {
            let (_, path) = file.keep()?;
            let place = path.display();
            return Err(io::Error::other(format!(
                "the edited payload is not JSON; nothing is redriven, and your text is in {place}"
            )));
        }
    }
}
