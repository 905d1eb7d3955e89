//! Orders: what would be done, and then it is done.

use comeback_core::claim::Order;
use comeback_operate::{
    dead_letters::{self, Action, Plan, Step, look},
    systems::function_name,
    waiting::{self, carry_out, visit},
};
use maud::{Markup, html};

use super::{
    html::{Foreign, csrf},
    jobs::{Progress, begin, on_a_thread},
    letters,
    live::{Live, Shared},
    params::Params,
};
use crate::{
    operate::{dead_letters::letters_text, waiting::events},
    shell::Failure,
};

/// How many batches of dead letters are worked on at the same time.
const BATCHES: usize = 4;

/// What an operator wants.
enum Wish {
    /// Something for events that wait.
    Events(Order, waiting::Selection),
    /// Something with dead letters.
    Letters(dead_letters::Order),
    /// The retries of a function are held back, or no longer.
    Pause { target: String, is_pause: bool },
}

fn wish(live: &Live, params: &Params) -> Result<Wish, Failure> {
    let events = || waiting::Selection {
        ids: params.list("id"),
        functions: params.list("function"),
        errors: params.list("error"),
        message: params.text("message"),
        due_before: None,
    };
    let letters = |action| dead_letters::Order {
        selection: letters::selection(params),
        given_at: (live.now)(),
        action,
    };
    let target = || params.text("function").unwrap_or_default();
    Ok(match params.get("do") {
        Some("retry") => Wish::Events(Order::Retry, events()),
        Some("cancel") => Wish::Events(Order::Cancel, events()),
        Some("pause") => Wish::Pause { target: target(), is_pause: true },
        Some("resume") => Wish::Pause { target: target(), is_pause: false },
        Some("purge") => Wish::Letters(letters(Action::Purge)),
        Some("redrive") => {
            // A browser sends the ends of lines as two characters.
            let payload = params.get("payload").map(|payload| payload.replace("\r\n", "\n"));
            if let Some(Err(error)) =
                payload.as_deref().map(serde_json::from_str::<serde::de::IgnoredAny>)
            {
                return Err(Failure::Refused(format!(
                    "expected a payload that is JSON, got: {error}"
                )));
            }
            Wish::Letters(letters(Action::Redrive { to: None, set: Vec::new(), payload }))
        }
        other => {
            let got = other.unwrap_or("nothing");
            return Err(Failure::Refused(format!("expected an order, got {got}")));
        }
    })
}

impl Wish {
    fn title(&self) -> String {
        match self {
            Self::Events(Order::Retry, _) => "Retry events now".to_owned(),
            Self::Events(Order::Cancel, _) => "Cancel events".to_owned(),
            Self::Letters(dead_letters::Order { action: Action::Purge, .. }) => {
                "Delete dead letters".to_owned()
            }
            Self::Letters(_) => "Redrive dead letters".to_owned(),
            Self::Pause { target, is_pause: true } => format!("Pause {}", function_name(target)),
            Self::Pause { target, .. } => format!("Resume {}", function_name(target)),
        }
    }

    fn back(&self) -> &'static str {
        match self {
            Self::Events(..) => "/events",
            Self::Letters(_) => "/dead",
            Self::Pause { .. } => "/",
        }
    }
}

/// What would be done: how much, and in sentences.
async fn plan(live: &Shared, params: &Params) -> Result<(u64, Vec<String>), Failure> {
    let (live, params) = (Shared::clone(live), params.clone());
    on_a_thread(async move || match wish(&live, &params)? {
        Wish::Events(order, selection) => plan_events(&live, order, &selection).await,
        Wish::Letters(order) => plan_letters(&live, &order).await,
        Wish::Pause { target, is_pause } => {
            // Without a register nothing can be paused.
            live.register()?;
            let name = function_name(&target).to_owned();
            Ok((1, vec![if is_pause {
                format!("Events of {name} that are due wait again until you resume it. No attempt is counted, but their age goes on. Events that you retry one by one are retried all the same.")
            } else {
                format!("What was held back of {name} comes back within 15 minutes.")
            }]))
        }
    })
    .await
}

async fn plan_events(
    live: &Live,
    order: Order,
    selection: &waiting::Selection,
) -> Result<(u64, Vec<String>), Failure> {
    let register = live.register()?;
    let parts = register.parts(&selection.functions).await?;
    let mut plan = waiting::Plan::default();
    visit(&parts, &register, |event| {
        if selection.means(&event) {
            plan.count(event);
        }
        true
    })
    .await?;
    let what = match order {
        Order::Retry => "to retry now; each attempt counts like any other",
        Order::Cancel => "to give up, as dead letters with the reason cancelled",
    };
    let sentence = |(function, number): (&String, &u64)| {
        format!("{} of {} {what}", events(*number), function_name(function))
    };
    let mut sentences: Vec<_> = plan.events.iter().map(sentence).collect();
    if plan.delayed > 0 {
        sentences.push(format!("{} of these delayed: within 15 minutes", events(plan.delayed)));
    }
    Ok((plan.all(), sentences))
}

async fn plan_letters(
    live: &Live,
    order: &dead_letters::Order,
) -> Result<(u64, Vec<String>), Failure> {
    let _turn = live.letters.lock().await;
    let queue = live.dead_letters().await?;
    let mut plan = Plan::default();
    look(&queue, &queue, |letter| {
        let step = order.step(&letter, order.given_at);
        if !matches!(step, Step::Leave(dead_letters::Left::NotSelected)) {
            plan.count(&step);
        }
        true
    })
    .await?;
    let mut sentences = Vec::new();
    for (function, number) in &plan.redrive {
        let to = function_name(function);
        sentences.push(format!("{} to redrive to {to}", letters_text(*number)));
    }
    if plan.purge > 0 {
        sentences.push(format!("{} to delete for good", letters_text(plan.purge)));
    }
    for (left, number) in &plan.leave {
        sentences.push(format!("{} stay: {}", letters_text(*number), left.text()));
    }
    Ok((plan.letters(), sentences))
}

/// The page that asks.
///
/// # Errors
///
/// If the order is none, or can't be planned.
pub async fn confirm(live: &Shared, params: &Params) -> Result<(String, Markup), Failure> {
    let wish = wish(live, params)?;
    let (title, back) = (wish.title(), wish.back());
    let (number, sentences) = plan(live, params).await?;
    let asked = format!("{title}?");
    Ok((
        asked,
        html! {
            @if number == 0 { p { "There is nothing to do: no event or letter is meant any more." } }
            ul { @for sentence in &sentences { li { (Foreign(sentence)) } } }
            @if params.get("payload").is_some() { p { "The function is given the payload that you edited." } }
            form.actions method="post" action="/do" {
                (csrf(live))
                input type="hidden" name="planned" value=(number);
                @for (name, value) in params.pairs() {
                    @if name == "payload" { textarea.hidden name="payload" aria-hidden="true" tabindex="-1" readonly { (value) } }
                    @else { input type="hidden" name=(name) value=(value); }
                }
                @if number > 0 { button.primary autofocus { (title) } " " }
                a.button href=(back) { "Back" }
            }
        },
    ))
}

/// Starts what was confirmed. Returns the number of the job.
///
/// # Errors
///
/// If the order is none.
pub fn start(live: &Shared, params: &Params) -> Result<u64, Failure> {
    let wish = wish(live, params)?;
    let (title, back) = (wish.title(), wish.back());
    let of = params.number("planned");
    Ok(begin(live, &title, back, of, async move |live: Shared, progress: Progress| {
        let done = match wish {
            Wish::Events(order, selection) => {
                order_events(&live, order, &selection, progress).await?
            }
            Wish::Letters(order) => {
                let done = order_letters(&live, &order, progress).await?;
                letters::look_again(&live);
                done
            }
            Wish::Pause { target, is_pause } => {
                let register = live.register()?;
                register.pause(&target, is_pause.then(|| (live.now)())).await?;
                let name = function_name(&target);
                vec![if is_pause {
                    format!("{name} is paused: what is due waits until you resume it.")
                } else {
                    format!("{name} is resumed: what was held back comes within 15 minutes.")
                }]
            }
        };
        Ok(done)
    }))
}

async fn order_events(
    live: &Live,
    order: Order,
    selection: &waiting::Selection,
    progress: Progress,
) -> Result<Vec<String>, Failure> {
    let register = live.register()?;
    let parts = register.parts(&selection.functions).await?;
    let pace = waiting::Pace::default();
    let (tally, ended) =
        carry_out(order, selection, &parts, pace, &register, |tally| progress.is(tally.ordered()))
            .await;
    ended?;
    let what = match order {
        Order::Retry => "now come back",
        Order::Cancel => "are given up",
    };
    let mut said = vec![format!("{} {what}.", events(tally.ordered()))];
    for (number, text) in [
        (tally.delayed, "of these are delayed: they come back within 15 minutes"),
        (tally.too_late, "no longer waited"),
        (tally.not_shown, "could not be brought forward: they are handled when they are due"),
        (tally.failed, "could not be ordered"),
    ] {
        if number > 0 {
            said.push(format!("{} {text}.", events(number)));
        }
    }
    said.extend(tally.faults);
    Ok(said)
}

async fn order_letters(
    live: &Live,
    order: &dead_letters::Order,
    progress: Progress,
) -> Result<Vec<String>, Failure> {
    let _turn = live.letters.lock().await;
    let queue = live.dead_letters().await?;
    let pace = dead_letters::Pace { letters_per_second: None, batches: BATCHES };
    let (tally, ended) =
        dead_letters::carry_out(order, pace, &queue, |tally| progress.is(tally.done())).await;
    ended?;
    let mut said = Vec::new();
    for (function, number) in &tally.redriven {
        said.push(format!("{} redriven to {}.", letters_text(*number), function_name(function)));
    }
    if tally.purged > 0 {
        said.push(format!("{} deleted.", letters_text(tally.purged)));
    }
    for (left, number) in &tally.left {
        if *left != dead_letters::Left::NotSelected {
            said.push(format!("{} stay: {}.", letters_text(*number), left.text()));
        }
    }
    if tally.not_deleted > 0 {
        said.push(format!(
            "{} redriven, but not deleted: they come back.",
            letters_text(tally.not_deleted)
        ));
    }
    if said.is_empty() {
        said.push("No letter was meant any more.".to_owned());
    }
    said.extend(tally.faults);
    Ok(said)
}
