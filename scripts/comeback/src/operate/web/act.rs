//! The page as a face of orders: the page that asks for confirmation with a plan, and the job that carries the order
//! out. Every page shows the jobs that run or have just ended.

use std::{collections::BTreeMap, time::Duration};

use comeback_core::{Timestamp, time::between};
use futures_util::future::{BoxFuture, FutureExt as _};
use maud::{Markup, html};
use tokio::sync::MutexGuard;

use super::{
    html::{Params, Untrusted, csrf, visible_json},
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
        dead_letters::rules::reasons,
        logbook::{self, rules::Through},
        order::{Choice, Effect, Go, Kind, Noun, Plan as _, Selects, Tally as _, recorded},
        orders::{Face, each},
    },
    text::count,
    typed::{nearest, not_empty},
};

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

/// The number of items that an order would change, and the lines of its plan.
type Planned = (u64, Vec<Notice>);

type Work<T> = BoxFuture<'static, Result<T, Failure>>;

/// What the page knows of an order. Its functions are those of its type.
#[derive(Clone, Copy)]
struct Known {
    kind: &'static Kind,
    check: fn(Choice) -> Result<(), Failure>,
    plan: fn(Shared, Choice) -> Work<Planned>,
    carry_out: fn(Shared, Choice, u64, Option<u64>) -> Work<Vec<Notice>>,
}

impl Known {
    fn of<O: Selects>() -> Self {
        Self {
            kind: const { &O::KIND },
            check: |choice| O::check(&mut O::chosen(choice)),
            plan: |live, choice| plan::<O>(live, choice).boxed(),
            carry_out: |live, choice, job, planned| {
                carry_out::<O>(live, choice, job, planned).boxed()
            },
        }
    }
}

#[derive(Default)]
struct All(Vec<Known>);

impl Face for All {
    fn order<O: Selects>(&mut self) {
        self.0.push(Known::of::<O>());
    }
}

fn all() -> Vec<Known> {
    let mut all = All::default();
    each(&mut all);
    all.0
}

/// An order that was given on the page.
struct Given {
    order: Known,
    choice: Choice,
}

fn given(live: &Live, params: &Params) -> Result<Given, Failure> {
    check_filters(live, params)?;
    let wanted = params.get("do").unwrap_or_default();
    let all = all();
    let order = all.iter().find(|known| known.kind.name == wanted).copied().ok_or_else(|| {
        let names = all.iter().map(|known| known.kind.name).collect::<Vec<_>>().join(", ");
        format!("expected one of {names} for `do`, got '{wanted}'")
    })?;
    // Browsers send line breaks as CR LF.
    let payload = params.get("payload").map(|payload| payload.replace("\r\n", "\n"));
    payload.as_deref().map_or(Ok(()), check_json)?;
    let choice = Choice {
        ids: params.list("id"),
        reasons: params.list("reason"),
        failures: letters::failures(params),
        payload,
        handler: live.cloud()?.handler.clone(),
    };
    (order.check)(choice.clone())?;
    Ok(Given { order, choice })
}

impl Given {
    /// What the order does to this number of items, which it names if it is for a single one.
    fn title(&self, number: u64) -> String {
        let Self { order: Known { kind, .. }, choice } = self;
        kind.title(&match kind.noun {
            Noun::Target | Noun::Step => target_name(self.target()).into_owned(),
            Noun::Event | Noun::Letter => kind.items(&choice.ids, number),
        })
    }

    fn target(&self) -> &str {
        self.choice.failures.functions.first().map_or("", String::as_str)
    }

    fn is_danger(&self) -> bool {
        self.order.kind.effect == Effect::GivesUp
    }

    fn back(&self) -> String {
        match (self.order.kind.noun, &*self.choice.ids) {
            (Noun::Event, [id]) => super::events::path(id),
            (Noun::Event, _) => "/events".to_owned(),
            (Noun::Letter, _) => "/dead".to_owned(),
            (Noun::Target | Noun::Step, _) => "/".to_owned(),
        }
    }

    fn undo(&self) -> Option<Params> {
        let undo = self.order.kind.undo?;
        Some(Params::default().with("do", undo).with("function", self.target()))
    }
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

async fn plan<O: Selects>(live: Shared, choice: Choice) -> Result<Planned, Failure> {
    let _turn = turn::<O>(&live).await;
    let mut order = O::open(O::chosen(choice), live.account()?).await?;
    let plan = order.plan(|_| if live.is_ending() { Go::Stop } else { Go::On }).await?;
    let refused = plan.targets().filter(|_| O::KIND.effect == Effect::Invokes);
    let refused = refused.and_then(|targets| refused_of(&live, targets));
    let unrecorded = logbook::without(order.ledger()).map(Notice::plain);
    let notices = order.plan_notices(&plan).into_iter().chain(refused).chain(unrecorded);
    Ok((plan.number(), notices.collect()))
}

/// Only one order at a time reads the dead letters: those that it has received are hidden from the others.
async fn turn<O: Selects>(live: &Live) -> Option<MutexGuard<'_, ()>> {
    if O::KIND.noun == Noun::Letter { Some(live.letters.lock().await) } else { None }
}

/// How many of the events in a plan belong to functions that can't run, by function.
fn refused_of(live: &Live, planned: &BTreeMap<String, u64>) -> Option<Notice> {
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

/// The title and the body of the page that asks for confirmation.
pub async fn confirm(live: &Shared, params: &Params) -> Result<(String, Markup), Failure> {
    let given = given(live, params)?;
    let (back, is_danger) = (given.back(), given.is_danger());
    let edited = match (params.get("payload"), params.get("id")) {
        (Some(payload), Some(id)) => Some((letters::find(live, id).await?, payload)),
        _ => None,
    };
    let shared = Shared::clone(live);
    let planned = uncancelled(async move {
        let (number, notices) = (given.order.plan)(shared, given.choice.clone()).await?;
        Ok((given.title(number), number, notices))
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

/// Starts a job for a confirmed order. Returns the path of the page that shows its result.
pub fn start(live: &Shared, params: &Params) -> Result<String, Failure> {
    let given = given(live, params)?;
    let of = params.number::<u64>("planned");
    let title = given.title(of.unwrap_or_default());
    if given.is_danger() && of != Some(1) && of != params.number("typed") {
        let number = of.map_or("nothing".to_owned(), |of| of.to_string());
        return Err(format!("{title}: type {number} to confirm").into());
    }
    params.number("undoes").into_iter().for_each(|number| live.jobs.stop(number));
    let (back, undo) = (given.back(), given.undo());
    let number = live.jobs.add(Job { title, of, undo, ..Job::default() });
    let live = Shared::clone(live);
    let Given { order, choice } = given;
    tokio::spawn(async move {
        let done = uncancelled((order.carry_out)(Shared::clone(&live), choice, number, of)).await;
        let notices = done.unwrap_or_else(|failure| vec![Notice::bad(failure)]);
        live.jobs.change(number, |job| job.ended = Some(((live.now)(), notices)));
        live.changed();
    });
    Ok(back)
}

async fn carry_out<O: Selects>(
    live: Shared,
    choice: Choice,
    job: u64,
    planned: Option<u64>,
) -> Result<Vec<Notice>, Failure> {
    let turn = turn::<O>(&live).await;
    let order = O::open(O::chosen(choice), live.account()?).await?;
    let progress = |tally: &O::Tally| progress(&live, job, tally.done());
    let (tally, ended) = recorded::carry_out(&order, Through::Page, planned, progress).await;
    drop(turn);
    // The page's own numbers and lists are from before.
    let read = match O::KIND.noun {
        Noun::Event | Noun::Step => Ok(()),
        Noun::Letter => letters::look_now(&live).await,
        Noun::Target => live.poll().await,
    };
    // The error that ended the job early.
    let error = ended.and(read).err().map(Notice::bad);
    Ok(order.notices(&tally).into_iter().chain(error).collect())
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
