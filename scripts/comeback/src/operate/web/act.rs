//! Commands from the page: the page that asks for confirmation with a plan, and the job that carries the command out.
//! Every page shows the jobs that run or have just ended.

use std::{collections::BTreeMap, time::Duration};

use comeback_core::{Timestamp, claim::Order, time::between};
use maud::{Markup, html};

use super::{
    html::{ID_MAX, Params, Untrusted, csrf, visible_json},
    jobs::{Job, uncancelled},
    letters,
    live::{Live, Shared},
    rules::{Change, difference},
};

use crate::{
    account::names::target_name,
    failure::Failure,
    notice::{Notice, Tone},
    operate::{
        dead_letters::{
            rules as dead_letters,
            rules::{Action, Plan, look, reasons},
        },
        waiting::{
            rules as waiting,
            rules::{pauses::pause_done, visit},
        },
    },
    text::{count, counted, shortened},
    typed::{nearest, not_empty},
};

/// The number of batches of dead letters to redrive concurrently.
const BATCHES: usize = 4;

enum Command {
    Events(Order, waiting::Selection),
    Letters(dead_letters::Order),
    Pause { target: String, is_pause: bool },
}

/// Why a text is not JSON, in words that a person can act on.
pub fn check_json(text: &str) -> Result<(), String> {
    let read = serde_json::from_str::<serde::de::IgnoredAny>(text);
    read.map(drop).map_err(|error| {
        let (line, column) = (error.line(), error.column());
        let what = error.to_string();
        let what = what.split(" at line ").next().unwrap_or_default();
        format!("the payload is not JSON: {what}, at line {line}, column {column}")
    })
}

fn command(live: &Live, params: &Params) -> Result<Command, Failure> {
    let events = || waiting::Selection {
        ids: params.list("id"),
        failures: letters::failures(params),
        due_before: None,
        named: None,
    };
    let letters = |action| dead_letters::Order {
        selection: letters::selection(params),
        given_at: (live.now)(),
        action,
        policies: Vec::new(),
    };
    let target = || params.text("function").unwrap_or_default();
    check_filters(live, params)?;
    let command = match params.get("do") {
        Some("retry") => Command::Events(Order::Retry, events()),
        Some("cancel") => Command::Events(Order::Cancel, events()),
        Some("pause") => Command::Pause { target: target(), is_pause: true },
        Some("resume") => Command::Pause { target: target(), is_pause: false },
        Some("purge") => Command::Letters(letters(Action::Purge)),
        Some("redrive") => {
            // Browsers send line breaks as CR LF.
            let payload = params.get("payload").map(|payload| payload.replace("\r\n", "\n"));
            payload.as_deref().map_or(Ok(()), check_json)?;
            Command::Letters(letters(Action::Redrive { to: None, set: Vec::new(), payload }))
        }
        other => {
            let expected = "expected retry, cancel, pause, resume, redrive or purge for `do`";
            return Err(format!("{expected}, got '{}'", other.unwrap_or_default()).into());
        }
    };
    if command.is_danger() {
        letters::failures(params).refuse_everything()?;
    }
    Ok(command)
}

/// Refuses filters that can only be slips: without a value, with a reason that no letter has, or a selection of
/// nothing.
fn check_filters(live: &Live, params: &Params) -> Result<(), Failure> {
    const FILTERS: [&str; 5] = ["id", "reason", "function", "error", "message"];
    for (name, value) in params.pairs().filter(|(name, _)| FILTERS.contains(name)) {
        not_empty(value).map_err(|expected| format!("{name}: {expected}"))?;
    }
    let is_of_letter = |reason: &str| {
        let seen = live.seen();
        seen.looked.as_ref().is_some_and(|looked| looked.has_reason(reason))
    };
    for reason in params.list("reason") {
        if !reasons().any(|known| known == reason) && !is_of_letter(&reason) {
            let nearest = nearest(&reason, reasons());
            let nearest = nearest.map_or(String::new(), |it| format!("; did you mean {it}?"));
            return Err(format!("no letter has the reason {reason}{nearest}").into());
        }
    }
    if params.get("chosen").is_some() && params.list("id").is_empty() {
        return Err("nothing is selected".into());
    }
    Ok(())
}

impl Command {
    /// What the command does to this number of items, which it names if it is for a single one.
    fn title(&self, number: u64) -> String {
        let named = |ids: &[String], one: &str| match ids {
            [id] => format!("{one} {}", shortened(id, ID_MAX)),
            _ => counted(number, one),
        };
        match self {
            Self::Events(order, waiting::Selection { ids, .. }) => {
                let events = named(ids, "event");
                match order {
                    Order::Retry => format!("Retry {events} now"),
                    Order::Cancel => format!("Cancel {events}"),
                }
            }
            Self::Letters(dead_letters::Order { selection, action, .. }) => {
                let letters = named(&selection.ids, "dead letter");
                let what = if *action == Action::Purge { "Delete" } else { "Redrive" };
                format!("{what} {letters}")
            }
            Self::Pause { target, is_pause: true } => format!("Pause {}", target_name(target)),
            Self::Pause { target, .. } => format!("Resume {}", target_name(target)),
        }
    }

    /// Whether the command can't be undone, and no event comes back because of it.
    fn is_danger(&self) -> bool {
        match self {
            Self::Events(order, _) => *order == Order::Cancel,
            Self::Letters(order) => order.action == Action::Purge,
            Self::Pause { .. } => false,
        }
    }

    fn back(&self) -> String {
        match self {
            Self::Events(_, waiting::Selection { ids, .. }) => match &**ids {
                [id] => super::events::path(id),
                _ => "/events".to_owned(),
            },
            Self::Letters(_) => "/dead".to_owned(),
            Self::Pause { .. } => "/".to_owned(),
        }
    }
}

/// The number of items that a command would affect, and the lines of its plan.
async fn plan(live: &Live, command: &Command) -> Result<(u64, Vec<Notice>), Failure> {
    match command {
        Command::Events(order, selection) => {
            let register = live.register()?;
            let parts = register.parts(&selection.failures.functions).await?;
            let mut plan = waiting::Plan::default();
            visit(&parts, &register, |event| {
                if selection.matches(&event) {
                    plan.count(event);
                }
                true
            })
            .await?;
            let refused = refused(live, &plan.events).filter(|_| *order == Order::Retry);
            Ok((plan.all(), plan.notices(*order).into_iter().chain(refused).collect()))
        }
        Command::Letters(order) => {
            let _turn = live.letters.lock().await;
            let queue = live.dead_letters().await?;
            let policies = queue.policies_for(&order.action).await?;
            let order = dead_letters::Order { policies, ..order.clone() };
            let mut plan = Plan::default();
            look(&queue, queue.letters(), |letter| {
                plan.count(&order.step(&letter, order.given_at));
                !live.is_ending()
            })
            .await?;
            let refused = refused(live, &plan.redrive);
            Ok((plan.letters(), plan.notices().into_iter().chain(refused).collect()))
        }
        Command::Pause { target, is_pause } => {
            // Fails if there is no register, which a pause needs, and if nothing has this name.
            pauses(live, target, *is_pause).await?;
            let name = target_name(target);
            Ok((
                1,
                vec![Notice::plain(if *is_pause {
                    format!(
                        "Events of {name} keep waiting when they are due, until you resume it. No attempt \
                        is counted, but their age still grows. \"Retry now\" retries events in spite of \
                        the pause."
                    )
                } else {
                    format!("The events of {name} that were held back come back within 15 minutes.")
                })],
            ))
        }
    }
}

/// How many of the events in a plan belong to functions that can't run, by function.
fn refused(live: &Live, planned: &BTreeMap<String, u64>) -> Option<Notice> {
    let seen = live.seen();
    let of = planned.iter().map(|(target, number)| (target_name(target), *number));
    let of: Vec<_> = of.filter(|(name, _)| seen.events.refused_since(name).is_some()).collect();
    let names: Vec<_> = of.iter().map(|(name, _)| &**name).collect();
    let number: u64 = of.iter().map(|(_, number)| number).sum();
    let (verb, wait) = if number == 1 { ("belongs", "it waits") } else { ("belong", "they wait") };
    (number > 0).then(|| {
        Notice::bad(format!(
            "{} of these {verb} to {}, which can't run: Lambda refuses it (reserved concurrency 0), so {wait} again",
            count(number),
            names.join(", "),
        ))
    })
}

/// The ARNs to pause or to resume.
async fn pauses(live: &Live, target: &str, is_pause: bool) -> Result<Vec<String>, Failure> {
    let register = live.register()?;
    if is_pause {
        register.to_pause(target).await
    } else {
        register.to_resume(target, &register.pauses().await?).await
    }
}

/// The title and the body of the page that asks for confirmation.
pub async fn confirm(live: &Shared, params: &Params) -> Result<(String, Markup), Failure> {
    let command = command(live, params)?;
    let (back, is_danger) = (command.back(), command.is_danger());
    let edited = match (params.get("payload"), params.get("id")) {
        (Some(payload), Some(id)) => Some((letters::find(live, id).await?, payload)),
        _ => None,
    };
    let shared = Shared::clone(live);
    let planned = uncancelled(async move {
        let (number, notices) = plan(&shared, &command).await?;
        Ok((command.title(number), number, notices))
    });
    let (title, number, notices) = planned.await?;
    Ok((
        format!("{title}?"),
        html! {
            ul { @for line in &notices { li { (Untrusted(&line.text)) } } }
            @if let Some((letter, payload)) = edited {
                p {
                    @if letter.facts().target.is_some_and(|it| it.is_queue()) { "The queue's consumer" } @else { "The function" }
                    " is given the payload that you edited:"
                }
                pre.difference tabindex="0" {
                    @let before = letter.facts().payload.unwrap_or_default();
                    @for (change, line) in difference(&before, &payload.replace("\r\n", "\n")) {
                        @let line = visible_json(&line);
                        @match change {
                            Change::Same => span { "  " (line) "\n" },
                            Change::Removed => del { "- " (line) "\n" },
                            Change::Added => ins { "+ " (line) "\n" },
                        }
                    }
                }
            }
            form.actions method="post" action="/do" {
                (csrf(&live.csrf))
                input type="hidden" name="planned" value=(number);
                @for (name, value) in params.pairs() {
                    @if name == "payload" {
                        textarea.hidden name="payload" aria-hidden="true" tabindex="-1" readonly {
                            (value)
                        }
                    }
                    @else { input type="hidden" name=(name) value=(value); }
                }
                @if is_danger { p { "This can't be undone." } }
                @if is_danger && number > 1 {
                    label {
                        "Type " (number) " to confirm "
                        input name="typed" inputmode="numeric" pattern=(number) size="8"
                            autocomplete="off" required;
                    }
                }
                // A key that was pressed twice must not act.
                a.button data-close href=(back) autofocus { "Back" } " "
                @if number > 0 { button class=(if is_danger { "danger" } else { "primary" }) { (title) } }
            }
        },
    ))
}

/// Starts a job for a confirmed command. Returns the path of the page that shows its result.
pub fn start(live: &Shared, params: &Params) -> Result<String, Failure> {
    let command = command(live, params)?;
    let of = params.number::<u64>("planned");
    if command.is_danger() && of != Some(1) && of != params.number("typed") {
        let title = command.title(of.unwrap_or_default());
        let number = of.map_or("nothing".to_owned(), |of| of.to_string());
        return Err(format!("{title}: type {number} to confirm").into());
    }
    let undo = match &command {
        Command::Pause { target, is_pause } => {
            let undo = Params::default().with("do", if *is_pause { "resume" } else { "pause" });
            Some(undo.with("function", target))
        }
        Command::Events(..) | Command::Letters(_) => None,
    };
    params.number("undoes").into_iter().for_each(|number| live.jobs.stop(number));
    let title = command.title(of.unwrap_or_default());
    let back = command.back();
    let number = live.jobs.add(Job { title, of, undo, ..Job::default() });
    let live = Shared::clone(live);
    tokio::spawn(async move {
        let done = uncancelled(carry_out(Shared::clone(&live), command, number)).await;
        let notices = done.unwrap_or_else(|failure| vec![Notice::bad(failure)]);
        live.jobs.change(number, |job| job.ended = Some(((live.now)(), notices)));
        live.changed();
    });
    Ok(back)
}

async fn carry_out(live: Shared, command: Command, job: u64) -> Result<Vec<Notice>, Failure> {
    let (mut notices, ended) = match command {
        Command::Events(order, selection) => {
            let register = live.register()?;
            let parts = register.parts(&selection.failures.functions).await?;
            let goes_on = |tally: &waiting::Tally| progress(&live, job, tally.ordered());
            let done = waiting::carry_out(order, &selection, &parts, None, &register, goes_on);
            let (tally, ended) = done.await;
            (tally.notices(order), ended.map_err(Failure::from))
        }
        Command::Letters(order) => {
            let turn = live.letters.lock().await;
            let queue = live.dead_letters().await?;
            let policies = queue.policies_for(&order.action).await?;
            let order = dead_letters::Order { policies, ..order };
            let pace = dead_letters::Pace { rate: None, batches: BATCHES };
            let goes_on = |tally: &dead_letters::Tally| progress(&live, job, tally.done());
            let (tally, ended) = dead_letters::carry_out(&order, pace, &queue, goes_on).await;
            drop(turn);
            // The list of letters is from before.
            let looked = letters::look_now(&live).await;
            (tally.notices(), ended.map_err(Failure::from).and(looked))
        }
        Command::Pause { target, is_pause } => {
            let register = live.register()?;
            for target in pauses(&live, &target, is_pause).await? {
                register.pause(&target, is_pause.then(|| (live.now)())).await?;
            }
            live.poll().await?;
            let done = pause_done(&target_name(&target), is_pause);
            (vec![Notice::good(format!("{done}."))], Ok(()))
        }
    };
    // The error that ended the job early.
    notices.extend(ended.err().map(Notice::bad));
    Ok(notices)
}

/// Notes how many items of a job are done. Returns false if the job should stop.
fn progress(live: &Live, job: u64, done: u64) -> bool {
    let mut is_stopped = false;
    live.jobs.change(job, |job| {
        job.done = done;
        is_stopped = job.is_stopped;
    });
    live.changed();
    !is_stopped && !live.is_ending()
}

/// How long the result of a job is shown, unless it is dismissed.
const SHOWN_FOR: Duration = Duration::from_mins(1);

/// A line for each job: how far it is, or what it has done.
pub fn jobs(live: &Live, now: Timestamp) -> Markup {
    let all = live.jobs.all();
    let is_shown =
        |job: &Job| job.ended.as_ref().is_none_or(|(at, _)| between(*at, now) < SHOWN_FOR);
    // An earlier command may have been overridden since, so it can't be undone.
    let is_latest = |number: &u64| all.last_key_value().is_some_and(|(latest, _)| latest == number);
    html! {
        @for (number, job) in all.iter().rev().filter(|(_, job)| is_shown(job)) {
            @let notices = job.ended.as_ref().map(|(_, notices)| notices.as_slice());
            @let is_bad = notices.unwrap_or_default().iter().any(|it| it.tone == Tone::Bad);
            @let class = if is_bad { "bad" } else if notices.is_some() { "good" } else { "busy" };
            div id=(format!("job-{number}")) class=(format!("notice {class}"))
                role=(if is_bad { "alert" } else { "status" }) {
                div {
                    strong { (Untrusted(&job.title)) } ": "
                    @match notices {
                        None => {
                            (count(job.done)) @if let Some(of) = job.of { " of about " (count(of)) }
                            @if job.is_stopped { ", stopping after the current step" }
                            " " progress max=[job.of] value=[job.of.map(|_| job.done)] aria-label=(job.title) {}
                        }
                        Some(notices) => {
                            @for (nth, Notice { text, .. }) in notices.iter().enumerate() {
                                @if nth > 0 { "; " } (Untrusted(text))
                            }
                            @if job.is_stopped { "; stopped before it was done" }
                        }
                    }
                }
                @if let Some(undo) = job.undo.as_ref().filter(|_| notices.is_some() && !is_bad && is_latest(number)) {
                    form method="post" action="/do" {
                        (csrf(&live.csrf))
                        input type="hidden" name="undoes" value=(number);
                        @for (name, value) in undo.pairs() { input type="hidden" name=(name) value=(value); }
                        button { "Undo" }
                    }
                }
                form method="post" action=(format!("/jobs/{number}/stop")) {
                    (csrf(&live.csrf))
                    button disabled[job.is_stopped && notices.is_none()] {
                        @if notices.is_some() { "Dismiss" } @else { "Stop" }
                    }
                }
            }
        }
    }
}
