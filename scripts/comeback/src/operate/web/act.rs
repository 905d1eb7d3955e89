//! Commands from the page: the page that asks for confirmation with a plan, and the job that carries the command out.

use crate::operate::{
    dead_letters::rules as dead_letters,
    dead_letters::rules::{Action, Plan, look},
    rules::notice::Notice,
    rules::ports::Fault,
    rules::systems::function_name,
    waiting::rules as waiting,
    waiting::rules::{carry_out, visit},
};
use comeback_core::claim::Order;
use maud::{Markup, html};

use super::{
    html::{Untrusted, csrf},
    jobs::Job,
    letters,
    live::{Live, Shared},
    params::Params,
    work::{Progress, begin, uncancelled},
};
use crate::shell::Failure;

/// The number of batches of dead letters to redrive concurrently.
const BATCHES: usize = 4;

enum Command {
    Events(Order, waiting::Selection),
    Letters(dead_letters::Order),
    /// Pauses or resumes the retries of a function.
    Pause {
        target: String,
        is_pause: bool,
    },
}

fn command(live: &Live, params: &Params) -> Result<Command, Failure> {
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
        Some("retry") => Command::Events(Order::Retry, events()),
        Some("cancel") => Command::Events(Order::Cancel, events()),
        Some("pause") => Command::Pause { target: target(), is_pause: true },
        Some("resume") => Command::Pause { target: target(), is_pause: false },
        Some("purge") => Command::Letters(letters(Action::Purge)),
        Some("redrive") => {
            // Browsers send line breaks as CR LF.
            let payload = params.get("payload").map(|payload| payload.replace("\r\n", "\n"));
            if let Some(Err(error)) =
                payload.as_deref().map(serde_json::from_str::<serde::de::IgnoredAny>)
            {
                return Err(Failure::Refused(format!("the payload is not JSON: {error}")));
            }
            Command::Letters(letters(Action::Redrive { to: None, set: Vec::new(), payload }))
        }
        other => {
            let got = other.unwrap_or("nothing");
            return Err(Failure::Refused(format!("expected an order, got {got}")));
        }
    })
}

impl Command {
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

/// The number of items that a command would affect, and the lines of its plan.
async fn plan(live: &Live, command: &Command) -> Result<(u64, Vec<Notice>), Failure> {
    match command {
        Command::Events(order, selection) => plan_events(live, *order, selection).await,
        Command::Letters(order) => plan_letters(live, order).await,
        Command::Pause { target, is_pause } => {
            // Fails if there is no register, which a pause needs.
            live.register()?;
            let name = function_name(target);
            Ok((
                1,
                vec![Notice::plain(if *is_pause {
                    format!(
                        "Events of {name} keep waiting when they are due, until you resume it. No attempt is counted, but their age still grows. \"Retry now\" retries events in spite of the pause."
                    )
                } else {
                    format!("What was held back of {name} comes back within 15 minutes.")
                })],
            ))
        }
    }
}

async fn plan_events(
    live: &Live,
    order: Order,
    selection: &waiting::Selection,
) -> Result<(u64, Vec<Notice>), Failure> {
    let register = live.register()?;
    let parts = register.parts(&selection.functions).await?;
    let mut plan = waiting::Plan::default();
    visit(&parts, &register, |event| {
        if selection.matches(&event) {
            plan.count(event);
        }
        true
    })
    .await?;
    Ok((plan.all(), plan.notices(order)))
}

async fn plan_letters(
    live: &Live,
    order: &dead_letters::Order,
) -> Result<(u64, Vec<Notice>), Failure> {
    let _turn = live.letters.lock().await;
    let queue = live.dead_letters().await?;
    let mut plan = Plan::default();
    look(&queue, queue.letters(), |letter| {
        plan.count(&order.step(&letter, order.given_at));
        !live.is_ending()
    })
    .await?;
    Ok((plan.letters(), plan.notices()))
}

/// The title and the body of the page that asks for confirmation.
pub async fn confirm(live: &Shared, params: &Params) -> Result<(String, Markup), Failure> {
    let command = command(live, params)?;
    let (title, back) = (command.title(), command.back());
    let shared = Shared::clone(live);
    let planned = uncancelled(async move { plan(&shared, &command).await });
    let (number, notices) = planned.await?;
    let asked = format!("{title}?");
    Ok((
        asked,
        html! {
            ul { @for line in &notices { li { (Untrusted(&line.text)) } } }
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

/// Starts a job for a confirmed command and returns its number.
pub fn start(live: &Shared, params: &Params) -> Result<u64, Failure> {
    let command = command(live, params)?;
    let job = Job {
        title: command.title(),
        back: command.back(),
        of: params.number("planned"),
        ..Job::default()
    };
    Ok(begin(live, job, async move |live: Shared, progress: Progress| {
        let (mut notices, ended) = match command {
            Command::Events(order, selection) => {
                let register = live.register()?;
                let parts = register.parts(&selection.functions).await?;
                let goes_on = |tally: &waiting::Tally| progress.report(tally.ordered());
                let done = carry_out(order, &selection, &parts, None, &register, goes_on);
                let (tally, ended) = done.await;
                (tally.notices(order), ended)
            }
            Command::Letters(order) => {
                let (tally, ended) = order_letters(&live, &order, progress).await?;
                letters::refresh(&live);
                (tally.notices(), ended)
            }
            Command::Pause { target, is_pause } => {
                let register = live.register()?;
                register.pause(&target, is_pause.then(|| (live.now)())).await?;
                let done = waiting::pause_done(function_name(&target), is_pause);
                (vec![Notice::good(format!("{done}."))], Ok(()))
            }
        };
        // The error that ended the job early.
        notices.extend(ended.err().map(Notice::bad));
        Ok(notices)
    }))
}

async fn order_letters(
    live: &Live,
    order: &dead_letters::Order,
    progress: Progress,
) -> Result<(dead_letters::Tally, Result<(), Fault>), Failure> {
    let _turn = live.letters.lock().await;
    let queue = live.dead_letters().await?;
    let pace = dead_letters::Pace { letters_per_second: None, batches: BATCHES };
    let goes_on = |tally: &dead_letters::Tally| progress.report(tally.done());
    Ok(dead_letters::carry_out(order, pace, &queue, goes_on).await)
}
