//! What the forms of the pages do, and where they lead.

use axum::{
    extract::{Path, State},
    http::{HeaderMap, Uri, header},
    response::{IntoResponse as _, Redirect, Response},
};
use maud::html;

use super::{
    act,
    guard::Form,
    health,
    html::Params,
    lesson, letters,
    live::{Live, Shared},
    pages::{frame, problem, query, show_letter},
    play,
};

use crate::failure::Failure;

pub async fn refresh_letters(State(live): State<Shared>, Form(_): Form) -> Redirect {
    letters::refresh(&live);
    Redirect::to("/dead")
}

/// Redirects after an action, or shows its error.
fn after(live: &Live, done: Result<(), Failure>, back: &str) -> Response {
    match done {
        Ok(()) => Redirect::to(back).into_response(),
        Err(failure) => {
            let body =
                html! { (problem(&failure)) p { a.button data-close href=(back) { "Back" } } };
            let title = "That did not work";
            frame(live, back, title, &html! { (title) }, &body)
        }
    }
}

pub async fn send(State(live): State<Shared>, Form(params): Form) -> Response {
    let checked = play::check(&live.seen(), &params);
    if let Err(error) = checked {
        let body = play::forms(&live, &live.seen(), &params, Some(&error));
        return frame(&live, "/play", "Play", &html! { "Play" }, &body);
    }
    let done = play::send(&live, &params).await;
    after(&live, done, if params.get("events") == Some("1") { "/events" } else { "/" })
}

pub async fn outage(State(live): State<Shared>, Form(params): Form) -> Response {
    let done = play::outage(&live, &params).await;
    let chosen = params.get("function").unwrap_or_default();
    after(&live, done, &format!("/play?{}", Params::default().with("function", chosen)))
}

pub async fn lesson(State(live): State<Shared>, Form(params): Form) -> Response {
    after(&live, lesson::start(&live, &params), "/")
}

pub async fn end_lesson(State(live): State<Shared>, headers: HeaderMap, Form(_): Form) -> Redirect {
    lesson::end(&live);
    back(&headers)
}

pub async fn check_again(State(live): State<Shared>, Form(_): Form) -> Redirect {
    health::refresh(&live);
    Redirect::to("/health")
}

pub async fn confirm(State(live): State<Shared>, uri: Uri) -> Response {
    asked(&live, &query(&uri)).await
}

pub async fn confirm_form(State(live): State<Shared>, Form(params): Form) -> Response {
    match (act::check_json(params.get("payload").unwrap_or_default()), params.get("id")) {
        (Err(error), Some(id)) => show_letter(&live, id, &params, Some(&error)).await,
        _ => asked(&live, &params).await,
    }
}

async fn asked(live: &Shared, params: &Params) -> Response {
    match act::confirm(live, params).await {
        Ok((title, body)) => frame(live, "/confirm", &title, &html! { (title) }, &body),
        Err(failure) => after(live, Err(failure), "/"),
    }
}

pub async fn start(State(live): State<Shared>, Form(params): Form) -> Response {
    match act::start(&live, &params) {
        Ok(back) => Redirect::to(&back).into_response(),
        Err(failure) => after(&live, Err(failure), "/"),
    }
}

/// Stops a job, or dismisses its result.
pub async fn stop(
    State(live): State<Shared>,
    Path(number): Path<u64>,
    headers: HeaderMap,
    Form(_): Form,
) -> Redirect {
    live.jobs.stop(number);
    live.changed();
    back(&headers)
}

/// Redirects to the page with the form.
fn back(headers: &HeaderMap) -> Redirect {
    let from =
        headers.get(header::REFERER).and_then(|from| from.to_str().ok()?.parse::<Uri>().ok());
    let path = from.as_ref().and_then(Uri::path_and_query).map_or("/", |it| it.as_str());
    Redirect::to(path)
}
