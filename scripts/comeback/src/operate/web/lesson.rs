//! The lesson: an outage of a minute in four steps, which a line on every page tells.

use std::time::Duration;

use comeback_core::{
    Timestamp,
    time::{between, later},
};
use comeback_local::Outage;
use maud::{Markup, html};
use serde_json::json;

use super::{
    html::{Params, Untrusted, csrf},
    live::{Lesson, Live, Seen, Shared},
    targets::{Sent, choice, failing, send_one},
};

use crate::{
    failure::Failure,
    operate::web::rules::{EventFilter, State},
    text::events_that,
};

/// Its events, how long its function is down, and its time limit.
pub const EVENTS: u32 = 12;
pub const OUTAGE: Duration = Duration::from_secs(12);
const MAX: Duration = Duration::from_mins(2);

/// The least time for which a step is shown, so that it can be read.
const STEP_MIN: Duration = Duration::from_secs(5);

/// How often it looks at its events, and how far apart it sends them.
const LOOK: Duration = Duration::from_millis(500);
const APART: Duration = Duration::from_millis(125);

const STEPS: [&str; 4] = ["It fails", "It waits", "It is back", "All is over"];

pub fn banner(live: &Live, seen: &Seen) -> Markup {
    let Some(lesson) = &seen.lesson else { return html! {} };
    let class = if lesson.is_bad { "bad" } else { "busy" };
    html! {
        div class=(format!("notice {class}")) role="status" {
            ol.steps aria-label="The lesson" { @for (nth, name) in (1..).zip(STEPS) {
                li class=[(nth < lesson.step).then_some("done")]
                    aria-current=[(nth == lesson.step).then_some("step")] {
                    (name)
                }
            } }
            form method="post" action="/play/lesson/end" {
                (csrf(&live.csrf))
                button { @if lesson.has_ended { "Dismiss" } @else { "End the lesson" } }
            }
            p.told { (Untrusted(&lesson.text)) }
        }
    }
}

/// Ends the lesson and its outage, or dismisses what it says at its end.
pub fn end(live: &Live) {
    live.seen().lesson = None;
    live.changed();
}

/// Starts a lesson with the function or queue that was chosen, or else with one that needs no choice.
pub fn start(live: &Shared, params: &Params) -> Result<(), Failure> {
    let began = (live.now)();
    let mut seen = live.seen();
    if seen.lesson.as_ref().is_some_and(|lesson| !lesson.has_ended) {
        return Ok(());
    }
    let target = choice(&seen, params);
    let target =
        target.ok_or("no function is deployed yet: start the lesson again in a few seconds")?;
    let text = "It begins…".to_owned();
    seen.lesson = Some(Lesson { began, step: 0, text, is_bad: false, has_ended: false });
    drop(seen);
    live.changed();
    let live = Shared::clone(live);
    tokio::spawn(async move {
        let taught = tokio::select! {
            taught = teach(&live, &target, began) => taught,
            () = ended(&live, began) => Err("it was ended".into()),
        };
        let (step, text, is_bad) = match taught {
            Ok(text) => (Some(STEPS.len()), text, false),
            Err(failure) => {
                if let Ok(function) = failing(&live, &target).await {
                    live.outages.end(&function);
                }
                (None, format!("The lesson ended: {failure}"), true)
            }
        };
        change(&live, began, |it| {
            let step = step.unwrap_or(it.step);
            *it = Lesson { began, step, text, is_bad, has_ended: true };
        });
    });
    Ok(())
}

/// Changes the text of the lesson that began at this time, unless it was ended.
fn change(live: &Live, began: Timestamp, change: impl FnOnce(&mut Lesson)) {
    let mut seen = live.seen();
    seen.lesson.as_mut().filter(|lesson| lesson.began == began).map(change);
    drop(seen);
    live.changed();
}

/// Waits until somebody has ended the lesson that began at this time.
async fn ended(live: &Live, began: Timestamp) {
    let mut changes = live.changes();
    while live.seen().lesson.as_ref().is_some_and(|lesson| lesson.began == began) {
        let _ = changes.changed().await;
    }
}

/// Says the text of a step, and waits long enough for a person to read it.
async fn say(live: &Live, began: Timestamp, step: usize, text: String) {
    change(live, began, |lesson| *lesson = Lesson { step, text, ..lesson.clone() });
    tokio::time::sleep(STEP_MIN).await;
}

/// Teaches, and returns the conclusion.
async fn teach(live: &Shared, target: &str, began: Timestamp) -> Result<String, Failure> {
    let function = failing(live, target).await?;
    let (moves, alone) = if function == target {
        (
            "",
            "Lambda alone tries twice more, one and two minutes after a failure: it would have brought them \
             back after a minute, but an outage of more than three minutes would have lost all of them.",
        )
    } else {
        (
            "SQS moves each message to the retry queue when its visibility timeout ends. ",
            "SQS alone shows a message again a few times, always after the same time, and then moves it to \
             a dead-letter queue.",
        )
    };
    let payload = |nth| json!({ "id": format!("lesson-{nth}") }).to_string();
    let event = |nth| Sent::of(&live.seen(), target, &payload(nth));
    let events = (1..=EVENTS).map(event).collect::<Result<Vec<_>, _>>()?;
    let until = later((live.now)(), OUTAGE);
    live.outages.begin(&function, Outage::Error, until);
    let seconds = OUTAGE.as_secs();
    let text = format!(
        "{function} is down for {seconds} s. {EVENTS} events are sent to {target}, and all of them fail."
    );
    let send = async {
        for event in &events {
            send_one(live, target, event).await?;
            tokio::time::sleep(APART).await;
        }
        Ok::<_, Failure>(())
    };
    let (sent, ()) = tokio::join!(send, say(live, began, 1, text));
    sent?;
    let text = format!(
        "{moves}Each event waits in the retry queue for a random time below a ceiling, which doubles with \
        each failure. See how their due times differ."
    );
    say(live, began, 2, text).await;
    tokio::time::sleep(between((live.now)(), until)).await;
    let text = format!(
        "{function} is back. Each event is tried again when it is due, so they come back one by one and \
        not all at once."
    );
    say(live, began, 3, text).await;
    loop {
        let now = (live.now)();
        let (open, given_up) = progress(&live.seen(), target, began);
        if open == 0 && given_up > 0 {
            return Ok(format!(
                "{}, because no attempt fits within MAX_AGE or MAX_ATTEMPTS. See the dead letters.",
                events_that(given_up as u64, "was given up", "were given up")
            ));
        }
        if open == 0 {
            let seconds = between(began, now).as_secs();
            return Ok(format!(
                "All events have come back within {seconds} s. {alone} Here they are retried for as long \
                as MAX_AGE says. Click an event to see its life."
            ));
        }
        if now > later(began, MAX) {
            return Ok(format!(
                "{}. With a long MAX_BACKOFF that takes a while: see what happens next.",
                events_that(open as u64, "still waits", "still wait")
            ));
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// How many events of the lesson go on, and how many were given up.
fn progress(seen: &Seen, target: &str, began: Timestamp) -> (usize, usize) {
    let all = EventFilter { function: Some(target.to_owned()), ..EventFilter::default() };
    let page = seen.events.page(&all, None, usize::MAX);
    let states = page.events.iter().filter(|event| event.began >= began).map(|it| it.state());
    let given_up = states.clone().filter(|state| *state == State::GivenUp).count();
    let is_over = |it: &State| matches!(it, State::Succeeded | State::Delivered | State::GivenUp);
    let open = states.filter(|it| !is_over(it)).count();
    (open, given_up)
}
