//! The pages: each is its title, its heading and its parts, in the frame that all share.

use axum::{
    extract::State,
    http::{StatusCode, Uri},
    response::{IntoResponse as _, Response},
};
use comeback_core::Timestamp;
use maud::{Markup, html};

use super::{
    act, events, health, history,
    html::{self, Params, Untrusted},
    lesson, letters, life,
    live::{Live, Shared},
    overview, panel, play, policy,
};

use crate::failure::Failure;

const PAGES: [(&str, &str); 6] = [
    ("/", "Overview"),
    ("/events", "Events"),
    ("/dead", "Dead letters"),
    ("/policy", "Policy"),
    ("/history", "History"),
    ("/health", "Health"),
];
const PLAY: (&str, &str) = ("/play", "Play");

pub type Part = (&'static str, Markup);

/// The parts that every page has: outages that are played, the lesson, the operator's jobs, and errors of polls.
pub fn common(live: &Live, now: Timestamp) -> Vec<Part> {
    let seen = live.seen();
    vec![
        ("outages", play::outages(live, now)),
        ("lesson", lesson::banner(live, &seen)),
        ("did", act::jobs(live, now)),
        (
            "faults",
            html! { @for fault in seen.faults.values() { p.notice.bad role="alert" { (Untrusted(fault)) } } },
        ),
    ]
}

/// A page with the navigation. `heading` is its title, which may be updated.
pub fn frame(live: &Live, path: &str, title: &str, heading: &Markup, body: &Markup) -> Response {
    let pages = PAGES.into_iter().chain(live.is_local().then_some(PLAY));
    let body = html! {
        a.skip href="#main" { "Skip to the content" }
        header {
            a.brand href="/" { img src="/icon.svg" alt="" width="24" height="24"; " Comeback" }
            nav aria-label="Pages" {
                @for (to, name) in pages {
                    @let is_here = path == to || (to != "/" && path.starts_with(to));
                    a href=(to) aria-current=[is_here.then_some("page")] { (name) }
                }
            }
            p.place { (live.region.as_deref().unwrap_or("the local cloud")) }
        }
        p #connection role="status" hidden {}
        main #main data-live {
            @for (id, part) in common(live, (live.now)()) { section id=(id) { (part) } }
            h1 #title { (heading) }
            (body)
        }
    };
    html::page(title, &body)
}

pub fn query(uri: &Uri) -> Params {
    Params::parse(uri.query().unwrap_or_default().as_bytes())
}

/// A page: its title, its heading, which may be updated, and its parts, which are.
pub struct Page {
    pub title: String,
    pub heading: Markup,
    pub parts: Vec<Part>,
}

/// Renders a page, for the first response or for its stream.
pub fn page_of(live: &Shared, path: &str, params: &Params, now: Timestamp) -> Option<Page> {
    let page = |title: &str, parts| {
        Some(Page { title: title.to_owned(), heading: html! { (title) }, parts })
    };
    let mut steps = path.trim_matches('/').split('/');
    match (steps.next().unwrap_or_default(), steps.next()) {
        ("", None) => page("Overview", overview::parts(live, &live.seen(), params, now)),
        ("events", None) => {
            page("Events", vec![("events", events::list(&live.seen(), params, now))])
        }
        ("events", Some(id)) => {
            let id = events::id_of(id);
            let function = life::function_of(&live.seen(), &id);
            let policy = function.and_then(|function| live.policy(&function));
            let connection = live.cloud().ok().map(|cloud| cloud.connection.clone());
            let connection = connection.unwrap_or_default();
            let seen = live.seen();
            let life = life::life(&seen, &id, policy.as_ref(), &connection, params, now);
            let heading = life::heading(&seen, &id, now);
            Some(Page { title: "An event".to_owned(), heading, parts: vec![("life", life)] })
        }
        ("dead", None) => {
            let list = letters::list(live, &live.seen(), params, now);
            page("Dead letters", vec![("letters", list)])
        }
        ("health", None) => page("Health", vec![("health", health::list(live, &live.seen(), now))]),
        ("play", None) if live.is_local() => {
            page("Play", vec![("forms", play::forms(live, &live.seen(), params, None))])
        }
        _ => None,
    }
}

pub async fn page(State(live): State<Shared>, uri: Uri) -> Response {
    live.touch();
    if uri.path() == "/dead" {
        letters::look_again(&live, true);
    }
    let above = match uri.path() {
        "/events" => events::form(&live.seen(), &query(&uri)),
        _ => html! {},
    };
    show(&live, &uri, &above, &html! {})
}

/// Shows a page, with content that is not updated above and beside its parts.
fn show(live: &Shared, uri: &Uri, above: &Markup, beside: &Markup) -> Response {
    let Some(page) = page_of(live, uri.path(), &query(uri), (live.now)()) else {
        return missing(live);
    };
    let body = html! {
        (above)
        div.parts {
            div { @for (id, part) in &page.parts { section id=(id) { (part) } } }
            (beside)
        }
    };
    frame(live, uri.path(), &page.title, &page.heading, &body)
}

pub fn missing(live: &Live) -> Response {
    let title = "There is no such page";
    let body = html! {
        p {
            "The address is wrong, or the page is from an earlier version. "
            a href="/" { "Go to the overview" }
        }
    };
    (StatusCode::NOT_FOUND, frame(live, "", title, &html! { (title) }, &body)).into_response()
}

pub async fn event(State(live): State<Shared>, uri: Uri) -> Response {
    live.touch();
    let id = events::id_of(uri.path().trim_start_matches("/events/"));
    let runs =
        if live.is_local() { panel::runs(&live, &id).await } else { Ok(panel::Runs::default()) };
    let panel = panel::panel(&live, &id, &runs, &query(&uri));
    let is_known = live.seen().events.get(&id).is_some();
    let mut response = show(&live, &uri, &html! {}, &panel);
    if !is_known {
        *response.status_mut() = StatusCode::NOT_FOUND;
    }
    response
}

pub async fn show_letter(
    live: &Shared,
    id: &str,
    params: &Params,
    error: Option<&str>,
) -> Response {
    let body = match letters::find(live, id).await {
        Ok(letter) => letters::letter(live, &letter, params, error, (live.now)()),
        Err(failure) => problem(&failure),
    };
    frame(live, "/dead", "A dead letter", &html! { "A dead letter" }, &body)
}

pub async fn policy_page(State(live): State<Shared>, uri: Uri) -> Response {
    live.touch();
    let body = policy::page(&live, &query(&uri));
    frame(&live, uri.path(), "Policy", &html! { "Policy" }, &body)
}

pub async fn history_page(State(live): State<Shared>, uri: Uri) -> Response {
    live.touch();
    let body = history::list(&live).await.unwrap_or_else(|failure| problem(&failure));
    frame(&live, uri.path(), "History", &html! { "History" }, &body)
}

pub fn problem(failure: &Failure) -> Markup {
    html! { p.notice.bad role="alert" { (Untrusted(&failure.to_string())) } }
}
