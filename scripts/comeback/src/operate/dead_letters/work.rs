//! `comeback dead redrive` and `comeback dead purge`.

use std::{fs, io, process::Command};

use serde::Serialize;
use serde_json::value::RawValue;

use crate::{
    operate::{
        console::{confirm, progress, uninterrupted},
        dead_letters::{
            OrderArgs, RedriveArgs,
            queue::{Queue, look_at_all, open},
            rules::{
                Action, Letter, Order, Pace, Plan, Selection, StayReason, Step, Tally, carry_out,
            },
        },
        rules::{notice, ports::Fault},
        text::{count, lines},
    },
    paint::{Line, Style},
    shell::{Failure, Outcome, Shell},
};

/// What `--json` prints.
#[derive(Serialize)]
struct Document<'a> {
    queue: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    plan: Option<&'a Plan>,
    #[serde(skip_serializing_if = "Option::is_none")]
    done: Option<&'a Tally>,
    interrupted: bool,
    error: Option<String>,
}

pub async fn redrive(args: &RedriveArgs, shell: &Shell) -> Result<Outcome, Failure> {
    let RedriveArgs { to, set, edit, rate, batches, order } = args;
    let action = Action::Redrive { to: to.clone(), set: set.clone(), payload: None };
    let pace = Pace { letters_per_second: *rate, batches: usize::from(*batches) };
    run(order, action, pace, *edit, shell).await
}

pub async fn purge(args: &OrderArgs, shell: &Shell) -> Result<Outcome, Failure> {
    let pace = Pace { letters_per_second: None, batches: 1 };
    run(args, Action::Purge, pace, false, shell).await
}

async fn run(
    args: &OrderArgs,
    action: Action,
    pace: Pace,
    edit: bool,
    shell: &Shell,
) -> Result<Outcome, Failure> {
    let queue = open(&args.queue, shell).await?;
    let goes_on = uninterrupted()?;
    let selection = Selection::from(&args.filter);
    let mut order = Order { selection, given_at: (shell.now)(), action };
    // With --yes the counts are not needed, and reading a large queue takes time.
    let is_planned = !args.yes || args.dry_run || edit;
    let mut planned = None;
    if is_planned {
        let (plan, letter) = plan(&queue, &order, &goes_on).await?;
        if !goes_on() {
            return Ok(Outcome::Interrupted);
        }
        if edit {
            edited(&mut order.action, &plan, letter, args.yes)?;
        }
        if !args.json {
            let title = format!("{} ({})", queue.name(), queue.region());
            shell.print(&[Line::of(Style::Strong, title)]).await?;
            shell.print(&lines(&plan.notices())).await?;
        }
        if args.dry_run || plan.letters() == 0 {
            if args.json {
                print_json(shell, &queue, Some(&plan), None, false, None).await?;
            }
            let is_stuck = plan
                .leave
                .keys()
                .any(|left| !matches!(left, StayReason::NotSelected | StayReason::Newer));
            return Ok(if is_stuck { Outcome::Unsuccessful } else { Outcome::Success });
        }
        if !args.yes {
            let what = match order.action {
                Action::Redrive { .. } => "Redrive",
                Action::Purge => "Delete",
            };
            confirm(&format!("{what} {}?", notice::letters(plan.letters())))?;
        }
        planned = Some(plan);
    } else if !args.json {
        let line = format!(
            "About {} in {} ({})",
            notice::letters(queue.visible),
            queue.name(),
            queue.region()
        );
        shell.print(&[Line::of(Style::Plain, line)]).await?;
    }
    let letters = planned.as_ref().map_or(queue.visible, Plan::letters);
    let (tally, ended) = work(&queue, &order, pace, letters, &goes_on).await;
    let is_interrupted = !goes_on();
    let error = ended.as_ref().err().map(ToString::to_string);
    if args.json {
        print_json(shell, &queue, planned.as_ref(), Some(&tally), is_interrupted, error).await?;
    } else {
        shell.print(&lines(&tally.notices())).await?;
    }
    ended?;
    Ok(match () {
        () if is_interrupted => Outcome::Interrupted,
        () if tally.kept_back() > 0 => Outcome::Unsuccessful,
        () => Outcome::Success,
    })
}

/// Plans the order. Also returns the last letter that it would redrive.
async fn plan(
    queue: &Queue,
    order: &Order,
    goes_on: &impl Fn() -> bool,
) -> Result<(Plan, Option<Letter>), Fault> {
    let (mut plan, mut last) = (Plan::default(), None);
    look_at_all(queue, goes_on, |letter| {
        let step = order.step(&letter, order.given_at);
        plan.count(&step);
        if matches!(step, Step::Redrive(_)) {
            last = Some(letter);
        }
        true
    })
    .await?;
    Ok((plan, last))
}

async fn work(
    queue: &Queue,
    order: &Order,
    pace: Pace,
    letters: u64,
    goes_on: &impl Fn() -> bool,
) -> (Tally, Result<(), Fault>) {
    let what = match order.action {
        Action::Redrive { .. } => "redriven",
        Action::Purge => "deleted",
    };
    let bar = progress(letters, what);
    let done = carry_out(order, pace, queue, |tally| {
        bar.set_position(tally.done());
        goes_on()
    })
    .await;
    bar.finish_and_clear();
    done
}

/// Lets the operator edit the payload of the only selected letter. If it was not changed, the operator has to confirm.
fn edited(
    action: &mut Action,
    plan: &Plan,
    letter: Option<Letter>,
    is_confirmed: bool,
) -> Result<(), Failure> {
    let refused = |text: String| Failure::Refused(text);
    let (Some(letter), 1) = (letter, plan.letters()) else {
        let letters = count(plan.letters());
        return Err(refused(format!(
            "expected one letter for --edit, got {letters}: pass --id or another filter"
        )));
    };
    let facts = letter.facts();
    let before = facts.payload.as_deref().unwrap_or_default();
    let after =
        edit(before).map_err(|error| refused(format!("can't edit the payload: {error}")))?;
    // Editors end a file with a line break.
    let after = if before.ends_with('\n') {
        after.as_str()
    } else {
        after.strip_suffix('\n').unwrap_or(&after)
    };
    if after == before {
        let text = "the payload was not changed";
        if is_confirmed {
            return Err(refused(format!("{text}, so nothing is redriven: leave out --edit")));
        }
        eprintln!("comeback: {text}");
    }
    serde_json::from_str::<&RawValue>(after)
        .map_err(|error| refused(format!("the edited payload is not JSON: {error}")))?;
    if let Action::Redrive { payload, .. } = action {
        *payload = Some(after.to_owned());
    }
    Ok(())
}

/// Opens the operator's editor, as the shell finds it, with a text. Returns the text that it has saved.
fn edit(text: &str) -> io::Result<String> {
    const EDITOR: &str = r#"eval "${VISUAL:-${EDITOR:-vi}} \"\$1\"""#;
    let file = tempfile::Builder::new().prefix("payload-").suffix(".json").tempfile()?;
    fs::write(file.path(), text)?;
    let ended = Command::new("sh").args(["-c", EDITOR, "edit"]).arg(file.path()).status()?;
    if !ended.success() {
        return Err(io::Error::other(format!(
            "the editor ended with {ended}; nothing is redriven"
        )));
    }
    fs::read_to_string(file.path())
}

async fn print_json(
    shell: &Shell,
    queue: &Queue,
    plan: Option<&Plan>,
    done: Option<&Tally>,
    interrupted: bool,
    error: Option<String>,
) -> io::Result<()> {
    shell.print_json(&Document { queue: &queue.url, plan, done, interrupted, error }).await
}
