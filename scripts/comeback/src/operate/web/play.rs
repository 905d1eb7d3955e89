//! The page to try the local cloud with: it sends events to a function or a queue, and plays outages.

use std::time::Duration;

use comeback_core::{
    Timestamp,
    time::{between, later},
};
use comeback_local::Outage;
use maud::{Markup, html};
use serde_json::value::RawValue;

use super::{
    act::check_json,
    html::{Params, Untrusted, csrf, json_field, until},
    lesson,
    live::{Live, Seen, Shared},
    targets::{Sent, TENANT, choice, failing, send_one, targets},
};

use crate::{account::names::is_queue, aws::fault, failure::Failure, functions::TARGET};

/// The payload in the form, until another one was sent, and that for the example function. Its event fails twice.
const PAYLOAD: &str = r#"{"id": "order-1"}"#;
const FAILING: &str = r#"{"id": "order-1", "fail": {"attempts": 2}}"#;

/// The longest outage, and the most events to send at once.
const OUTAGE_MAX: Duration = Duration::from_hours(1);
const EVENTS_MAX: u32 = 500;

/// The kinds of outages: the name in the form, the value, and a description.
const OUTAGES: [(&str, Outage, &str); 3] = [
    ("error", Outage::Error, "fails"),
    ("timeout", Outage::TimeOut, "times out"),
    ("throttle", Outage::Throttle, "is throttled (concurrency 0)"),
];

const END: &str = "end";

/// The outages that are played. All pages show them.
pub fn outages(live: &Live, now: Timestamp) -> Markup {
    let how = |outage| OUTAGES.iter().find(|(_, it, _)| *it == outage).map_or("", |it| it.2);
    html! {
        @for (name, (outage, until_at)) in &live.outages.all(now) {
            form.notice.waits method="post" action="/play/outage" {
                (csrf(&live.csrf))
                input type="hidden" name="function" value=(name);
                input type="hidden" name="how" value=(END);
                div {
                    strong { (Untrusted(name)) } " is down: it " (how(*outage))
                    ". You play this outage. It is back " (until(*until_at, now)) "."
                }
                button { "End it now" }
            }
        }
    }
}

/// What is wrong with an event in the form.
pub fn check(seen: &Seen, params: &Params) -> Result<(), String> {
    let payload = params.get("payload").unwrap_or_default();
    check_json(payload)?;
    let target = params.get("function").unwrap_or_default();
    let policy = seen.policy(target).filter(|_| seen.tenants.contains(target));
    let (Some(policy), Ok(payload)) = (policy, RawValue::from_string(payload.to_owned())) else {
        return Ok(());
    };
    let tenant = policy.tenant(&payload).map_err(|fault| fault.message)?;
    let typed = params.get("tenant").unwrap_or_default();
    match (tenant, &policy.tenant_id) {
        (Some(tenant), Some(pointer)) if tenant != typed => Err(format!(
            "the tenant is {typed}, but the payload has {tenant} at {pointer}, so its retries would run as {tenant}"
        )),
        _ => Ok(()),
    }
}

/// The forms for one function or queue, which is chosen once. `error` says what is wrong with the event that was sent.
pub fn forms(live: &Live, seen: &Seen, params: &Params, error: Option<&str>) -> Markup {
    let Some(target) = choice(seen, params) else {
        return html! { p.faint { "Looking for functions…" } };
    };
    let hidden = || {
        html! { (csrf(&live.csrf)) input type="hidden" name="function" value=(target); }
    };
    html! {
        form.picker method="get" action="/play" data-choose {
            label for="function" { "Function or queue" }
            select #function name="function" { @for name in targets(seen) {
                option value=(name) selected[name == target] { (name) }
            } }
            button { "Choose" }
        }
        div.cards {
            section.card { (event(seen, &target, params, error, &hidden())) }
            section.card {
                h2 { "Play an outage" }
                form method="post" action="/play/outage" {
                    (hidden())
                    label {
                        @if is_queue(&target) { "Its consumer " } @else { "It " }
                        select name="how" {
                            @for (name, _, text) in OUTAGES { option value=(name) { (text) } }
                        }
                    }
                    label {
                        "For seconds "
                        input name="seconds" type="number" min="1" max=(OUTAGE_MAX.as_secs())
                            value="30";
                    }
                    button { "Begin" }
                }
            }
            section.card {
                h2 { "A one-minute lesson" }
                p {
                    (lesson::EVENTS) " events are sent, "
                    @if is_queue(&target) { "the consumer fails" } @else { "the function fails" }
                    " for " (lesson::OUTAGE.as_secs()) " seconds, and you watch them come back."
                }
                form method="post" action="/play/lesson" { (hidden()) button.primary { "Start the lesson" } }
            }
        }
    }
}

/// The form that sends events. It begins with what was sent to this function last.
fn event(
    seen: &Seen,
    target: &str,
    params: &Params,
    error: Option<&str>,
    hidden: &Markup,
) -> Markup {
    let sent = error.map(|_| params).or_else(|| seen.sent.get(target));
    let is_example = target == TARGET;
    let usual = Sent::of(seen, target, if is_example { FAILING } else { PAYLOAD });
    let payload = usual.as_ref().map_or_else(|_| PAYLOAD.to_owned(), |it| it.payload.clone());
    let value = |name: &str, usual: &str| {
        sent.and_then(|it| it.text(name)).unwrap_or_else(|| usual.to_owned())
    };
    let pointer = seen.policy(target).and_then(|policy| policy.tenant_id);
    html! {
        h2 { "Send events" }
        @if let Err(why) = &usual { p.notice.waits { (Untrusted(&why.to_string())) } }
        form method="post" action="/play/send" {
            (hidden)
            label {
                "How many "
                input name="events" type="number" min="1" max=(EVENTS_MAX)
                    value=(value("events", "1"));
            }
            @if seen.tenants.contains(target) {
                label { "Tenant " input name="tenant" value=(value("tenant", TENANT)) required maxlength="256"; }
                @if let Some(pointer) = pointer {
                    p.faint {
                        "A retry takes the tenant from the payload, at "
                        code { (pointer.to_string()) } "."
                    }
                }
            }
            (json_field("Payload, as JSON", 4, &value("payload", &payload), error))
            @if is_example {
                p.faint {
                    "The example function fails as " code { "fail" } " says: "
                    code { "{\"attempts\": 2}" } " fails twice, "
                    code { "{\"error\": \"PermanentFailure\"}" } " is given up at once, "
                    code { "{\"by\": \"crash\"}" } " ends its process."
                }
            }
            button { "Send" }
        }
    }
}

pub async fn send(live: &Live, params: &Params) -> Result<(), Failure> {
    let target = params.text("function").unwrap_or_default();
    let events = params.number::<u32>("events").unwrap_or(1).clamp(1, EVENTS_MAX);
    let payload = params.get("payload").unwrap_or("null").to_owned();
    let event = Sent { payload, tenant: params.text("tenant") };
    for _ in 0..events {
        send_one(live, &target, &event).await?;
    }
    live.seen().sent.insert(target, params.with("events", ""));
    Ok(())
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
