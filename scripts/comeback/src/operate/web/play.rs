//! The page to try the local cloud with: it sends events and simulates outages. A lesson does both automatically.

use std::time::Duration;

use aws_sdk_lambda::{primitives::Blob, types::InvocationType};
use comeback_core::{
    Timestamp,
    arn::QUEUE_PREFIX,
    time::{between, later},
};
use comeback_local::Outage;
use maud::{Markup, html};
use serde_json::json;

use super::{
    html::{Params, Untrusted, csrf, json_field, until},
    live::{Live, Seen, Shared},
};
use crate::{
    operate::{
        aws::fault,
        rules::target_name,
        web::rules::{Event, State},
    },
    shell::Failure,
};

/// The initial payload in the form. Its event fails twice.
const PAYLOAD: &str = r#"{"id": "order-1", "fail": {"attempts": 2}}"#;

/// The longest outage, and the most events to send at once.
const OUTAGE_MAX: Duration = Duration::from_hours(1);
const EVENTS_MAX: u32 = 500;

/// The lesson: its events, its outage, its time limit, how long its conclusion is shown, and how often it checks the
/// state of its events.
const LESSON_EVENTS: u32 = 12;
const LESSON_OUTAGE: Duration = Duration::from_secs(12);
const LESSON_MAX: Duration = Duration::from_mins(2);
const LESSON_SHOWN: Duration = Duration::from_mins(1);
const LESSON_LOOK: Duration = Duration::from_millis(500);

/// The kinds of outages: the name in the form, the value, and a description.
const OUTAGES: [(&str, Outage, &str); 3] = [
    ("error", Outage::Error, "fails"),
    ("timeout", Outage::TimeOut, "times out"),
    ("throttle", Outage::Throttle, "is throttled (concurrency 0)"),
];

const END: &str = "end";

pub fn lesson(seen: &Seen) -> Markup {
    html! { @if let Some(text) = &seen.lesson { p.notice.busy role="status" { (text) } } }
}

/// The outages that are played. All pages show them.
pub fn outages(live: &Live, now: Timestamp) -> Markup {
    let how = |outage| OUTAGES.iter().find(|(_, it, _)| *it == outage).map_or("", |it| it.2);
    html! {
        @for (name, (outage, until_at)) in &live.outages.all(now) {
            form.notice.waits method="post" action="/play/outage" {
                (csrf(&live.csrf))
                input type="hidden" name="function" value=(name);
                input type="hidden" name="how" value=(END);
                div { strong { (Untrusted(name)) } " is down: it " (how(*outage)) ". You play this outage. It is back " (until(*until_at, now)) "." }
                button { "End it now" }
            }
        }
    }
}

/// The forms. `error` says what is wrong with the payload that was sent before.
pub fn forms(live: &Live, seen: &Seen, sent: &Params, error: Option<&str>) -> Markup {
    let functions: Vec<_> =
        seen.snapshot.functions.iter().map(|it| target_name(&it.function)).collect();
    let choose = || {
        html! {
            label { "Function or queue " select name="function" required { @for name in &functions { option value=(name) selected[sent.get("function") == Some(name)] { (name) } } } }
        }
    };
    html! {
        section.card {
            h2 { "A one-minute lesson" }
            p { (LESSON_EVENTS) " events are sent, their function or the consumer of their queue fails for " (LESSON_OUTAGE.as_secs()) " seconds, and you watch them come back." }
            form method="post" action="/play/lesson" { (csrf(&live.csrf)) (choose()) button.primary { "Start the lesson" } }
        }
        section.card {
            h2 { "Send events" }
            form method="post" action="/play/send" {
                (csrf(&live.csrf))
                (choose())
                label { "How many " input name="events" type="number" min="1" max=(EVENTS_MAX) value=(sent.get("events").unwrap_or("1")); }
                (json_field("Payload, as JSON", 4, sent.get("payload").unwrap_or(PAYLOAD), error))
                p.faint { "The example function fails as " code { "fail" } " says: " code { "{\"attempts\": 2}" } " fails twice, " code { "{\"error\": \"PermanentFailure\"}" } " is given up at once, " code { "{\"by\": \"crash\"}" } " ends its process." }
                button { "Send" }
            }
        }
        section.card {
            h2 { "Play an outage" }
            form method="post" action="/play/outage" {
                (csrf(&live.csrf))
                (choose())
                label { "It " select name="how" { @for (name, _, text) in OUTAGES { option value=(name) { (text) } } } }
                label { "For seconds " input name="seconds" type="number" min="1" max=(OUTAGE_MAX.as_secs()) value="30"; }
                button { "Begin" }
            }
        }
    }
}

pub async fn send(live: &Live, params: &Params) -> Result<(), Failure> {
    let function = params.get("function").unwrap_or_default();
    let events = params.number::<u32>("events").unwrap_or(1).clamp(1, EVENTS_MAX);
    let payload = params.get("payload").unwrap_or("null").to_owned();
    for _ in 0..events {
        send_one(live, function, &payload).await?;
    }
    Ok(())
}

/// Invokes a function, or sends a message to a queue.
async fn send_one(live: &Live, target: &str, payload: &str) -> Result<(), Failure> {
    let aws = &live.cloud()?.aws;
    if let Some(queue) = target.strip_prefix(QUEUE_PREFIX) {
        let url = aws.sqs.get_queue_url().queue_name(queue).send().await;
        let url = url.map_err(fault("sqs:GetQueueUrl", queue))?.queue_url.unwrap_or_default();
        let call = aws.sqs.send_message().queue_url(url).message_body(payload);
        call.send().await.map_err(fault("sqs:SendMessage", queue))?;
        return Ok(());
    }
    let call = aws.lambda.invoke().function_name(target);
    let call = call.invocation_type(InvocationType::Event).payload(Blob::new(payload.as_bytes()));
    call.send().await.map_err(fault("lambda:InvokeFunction", target))?;
    Ok(())
}

/// The function that fails in an outage of a target: the target, or the consumer of a queue.
async fn failing(live: &Live, target: &str) -> Result<String, Failure> {
    let Some(queue) = target.strip_prefix(QUEUE_PREFIX) else { return Ok(target.to_owned()) };
    let mappings = live.cloud()?.aws.mappings().await?;
    let mapping = mappings.iter().find(|it| it.queue.rsplit(':').next() == Some(queue));
    let mapping = mapping.ok_or_else(|| {
        format!(
            "the consumer of {queue} is a program of your own: end it, and it is down until you start it again"
        )
    });
    Ok(target_name(&mapping?.function).into_owned())
}

pub async fn outage(live: &Shared, params: &Params) -> Result<(), Failure> {
    let function =
        params.get("function").ok_or("no function was chosen: choose one in the form")?;
    let function = failing(live, function).await?;
    let seconds = params.number::<u64>("seconds").unwrap_or(30).clamp(1, OUTAGE_MAX.as_secs());
    let until = later((live.now)(), Duration::from_secs(seconds));
    let how = params.get("how").unwrap_or_default();
    if how == END {
        live.outages.end(&function);
        live.changed();
        return Ok(());
    }
    let unknown = || {
        let known = OUTAGES.map(|(name, ..)| name).join(", ");
        format!("expected {known} or {END} for `how`, got '{how}'")
    };
    let (_, outage, _) = OUTAGES.into_iter().find(|(name, ..)| *name == how).ok_or_else(unknown)?;
    if outage == Outage::Throttle && throttled_until(live, &function).is_none() {
        throttle(live, &function, until).await?;
    } else {
        live.outages.begin(&function, outage, until);
    }
    live.changed();
    Ok(())
}

fn throttled_until(live: &Live, function: &str) -> Option<Timestamp> {
    let (outage, until) = live.outages.now(function, (live.now)())?;
    (outage == Outage::Throttle).then_some(until)
}

/// Sets a function's reserved concurrency to 0 until its outage is over.
async fn throttle(live: &Shared, function: &str, until: Timestamp) -> Result<(), Failure> {
    let lambda = live.cloud()?.aws.lambda.clone();
    let call = lambda.put_function_concurrency().function_name(function);
    let call = call.reserved_concurrent_executions(0).send();
    call.await.map_err(fault("lambda:PutFunctionConcurrency", function))?;
    live.outages.begin(function, Outage::Throttle, until);
    let (live, function) = (Shared::clone(live), function.to_owned());
    tokio::spawn(async move {
        let mut changes = live.changes();
        while let Some(until) = throttled_until(&live, &function) {
            // After a change, the outage may have been ended or extended.
            let left = between((live.now)(), until);
            let _ = tokio::time::timeout(left, changes.changed()).await;
        }
        // If the function no longer exists, there is nothing to undo.
        let _ = lambda.delete_function_concurrency().function_name(function).send().await;
    });
    Ok(())
}

/// Starts a lesson with the function or queue that was chosen, or else with the first one.
pub fn start_lesson(live: &Shared, params: &Params) -> Result<(), Failure> {
    let mut seen = live.seen();
    if seen.lesson_runs {
        return Ok(());
    }
    let first = || seen.snapshot.functions.first().map(|it| target_name(&it.function).into_owned());
    let target = params.text("function").or_else(first);
    let target =
        target.ok_or("no function is deployed yet: start the lesson again in a few seconds")?;
    seen.lesson_runs = true;
    drop(seen);
    let live = Shared::clone(live);
    tokio::spawn(async move {
        let taught = teach(&live, &target).await;
        let end = taught.unwrap_or_else(|failure| format!("The lesson ended: {failure}"));
        live.seen().lesson_runs = false;
        say(&live, Some(end.clone()));
        tokio::time::sleep(LESSON_SHOWN).await;
        // Another lesson may have begun.
        if live.seen().lesson.as_ref() == Some(&end) {
            say(&live, None);
        }
    });
    Ok(())
}

fn say(live: &Live, text: Option<String>) {
    live.seen().lesson = text;
    live.changed();
}

async fn teach(live: &Shared, target: &str) -> Result<String, Failure> {
    let function = failing(live, target).await?;
    let (moves, alone) = if function == target {
        (
            "",
            "Lambda alone tries twice more, one and two minutes after a failure: it would have brought them back after a minute, but an outage of more than three minutes would have lost all of them.",
        )
    } else {
        (
            "SQS moves each message to the retry queue when its visibility timeout ends. ",
            "SQS alone shows a message again a few times, always after the same time, and then moves it to a dead-letter queue.",
        )
    };
    let say = |text: String| say(live, Some(text));
    let began = (live.now)();
    let until = later(began, LESSON_OUTAGE);
    live.outages.begin(&function, Outage::Error, until);
    say(format!(
        "1 of 4: {function} is down for {} s. {LESSON_EVENTS} events are sent to {target}, and all of them fail.",
        LESSON_OUTAGE.as_secs()
    ));
    let name = |nth: u32| format!("lesson-{nth}");
    for nth in 0..LESSON_EVENTS {
        send_one(live, target, &json!({ "id": name(nth) }).to_string()).await?;
        tokio::time::sleep(LESSON_LOOK / 4).await;
    }
    say(format!(
        "2 of 4: {moves}Each event waits in the retry queue for a random time, which doubles with each failure. See how their due times differ."
    ));
    let mut is_back = false;
    loop {
        let now = (live.now)();
        let (open, given_up) = {
            let seen = live.seen();
            let wanted = Default::default();
            let page = seen.events.page(&wanted, None, usize::MAX);
            let recent = || page.events.iter().filter(|event| event.began >= began);
            let given_up = recent().filter(|event| event.state() == State::GivenUp).count();
            let is_over = |it: &&&Event| matches!(it.state(), State::Succeeded | State::GivenUp);
            (recent().count() - recent().filter(is_over).count(), given_up)
        };
        if now >= until && !is_back {
            is_back = true;
            say(format!(
                "3 of 4: {function} is back. Each event is tried again when it is due, so they come back one by one and not all at once."
            ));
        }
        if is_back && open == 0 && given_up > 0 {
            return Ok(format!(
                "4 of 4: {given_up} events were given up, because no attempt fits within MAX_AGE or MAX_ATTEMPTS. See the dead letters."
            ));
        }
        if is_back && open == 0 {
            let seconds = between(began, now).as_secs();
            return Ok(format!(
                "4 of 4: All events have come back within {seconds} s. {alone} Here they are retried for as long as MAX_AGE says. Click an event to see its life."
            ));
        }
        if now > later(began, LESSON_MAX) {
            return Ok(format!(
                "4 of 4: {open} events still wait. With a long MAX_BACKOFF that takes a while: see when they are due."
            ));
        }
        tokio::time::sleep(LESSON_LOOK).await;
    }
}
