//! The live page: `comeback local` serves it at its own address, and `comeback web` for an account.
//!
//! The server renders all HTML. The first response is a complete page. Then a stream of server-sent events has each
//! part that changes, with its id, and the page's script replaces that part. One function, `page_of`, renders both the
//! page and its stream. The facts are those of the commands. [`live`] polls them while a page is open.

mod act;
pub mod args;
mod events;
mod guard;
mod html;
mod jobs;
mod letters;
pub mod live;
mod overview;
mod params;
mod play;
mod policy;
pub mod rules;
mod work;

use std::{convert::Infallible, io, net::Ipv4Addr, time::Duration};

use crate::operate::rules::notice::{Notice, Tone};
use args::WebArgs;
use axum::{
    Router,
    extract::{Path, State},
    http::{StatusCode, Uri, header},
    middleware,
    response::{
        IntoResponse, Redirect, Response,
        sse::{Event, KeepAlive, Sse},
    },
    routing::{get, post},
};
use comeback_core::{Timestamp, time::between};
use futures_util::{Stream, stream};
use guard::Form;
use html::{Untrusted, csrf, frame, plain};
use live::{Cloud, Live, Shared, secret};
use maud::{Markup, html};
use params::Params;
use serde_json::{Map, Value};
use tokio::net::TcpListener;

use super::{attached::find, options::SystemOptions};
use crate::{
    journal::Journal,
    paint::{Line, Style},
    shell::{Failure, Outcome, Shell, Signals},
};

/// The minimum time between two updates of a page. Much of the overview changes with every event, so a shorter time
/// would slow down the local cloud without a visible benefit.
const UPDATE_INTERVAL_MIN: Duration = Duration::from_millis(100);

/// A page that takes long to render, such as a search of 100,000 events, is updated less often: after a pause of this
/// many times the rendering time. So one open page uses at most a tenth of a core.
const PAUSE_FACTOR: u32 = 9;

/// The maximum time between two updates. Even if nothing has changed, due times come nearer.
const UPDATE_INTERVAL_MAX: Duration = Duration::from_secs(5);

/// A part of a page that is updated: its id and its content.
type Part = (&'static str, Markup);

/// Serves the page of an account until Ctrl-C.
pub async fn run(args: &WebArgs, shell: &Shell) -> Result<Outcome, Failure> {
    let (aws, _) = find(&args.system, shell.now).await?;
    let token = secret()?;
    let live = Live::new(Some(aws.region.clone()), shell.now, Some(token.clone()))?;
    let SystemOptions { handler, connection } = args.system.clone();
    live.connect(Cloud { aws, handler, connection });
    let port = args.port;
    let refused = |source: io::Error| Failure::Port { port, source };
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await.map_err(refused)?;
    let address = listener.local_addr()?;
    tokio::spawn(Shared::clone(&live).follow_log(args.since));
    let url = format!("http://{address}/?token={token}");
    let lines = [
        Line::of(Style::Strong, url),
        Line::of(
            Style::Plain,
            "Open this in a browser on this machine. Whoever has the token can act with your credentials. Ctrl-C ends it.",
        ),
    ];
    shell.print(&lines).await?;
    let mut signals = Signals::listen()?;
    tokio::select! {
        served = axum::serve(listener, router(Shared::clone(&live))) => served?,
        () = signals.any() => {}
    }
    live.end();
    // Whoever reads the dead-letter queue makes its letters visible again first. A second signal doesn't wait for that.
    tokio::select! {
        _turn = live.letters.lock() => {}
        () = signals.any() => {}
    }
    Ok(Outcome::Interrupted)
}

/// The routes of the page. Also starts to poll facts.
pub fn router(live: Shared) -> Router {
    tokio::spawn(Shared::clone(&live).keep_current());
    let file = |kind: &'static str, text: &'static str| {
        get(async move || ([(header::CONTENT_TYPE, kind)], text))
    };
    Router::new()
        .route("/", get(page))
        .route("/events", get(page))
        .route("/events/{id}", get(page))
        .route("/events/{id}/payload", get(payloads))
        .route("/dead", get(dead))
        .route("/dead/look", post(refresh_letters))
        .route("/dead/{id}", get(letter))
        .route("/policy", get(policy_page))
        .route(
            "/policy/forecast",
            get(async |uri: Uri| policy::forecast(&query(&uri)).into_string()),
        )
        .route("/policy.svg", get(async |uri: Uri| policy::picture(&query(&uri))))
        .route("/play", get(page))
        .route("/play/send", post(send))
        .route("/play/outage", post(outage))
        .route("/play/lesson", post(lesson))
        .route("/confirm", get(confirm).post(confirm_form))
        .route("/do", post(start))
        .route("/jobs/{number}", get(page))
        .route("/jobs/{number}/stop", post(stop))
        .route("/stream", get(changes))
        .route("/page.css", file("text/css; charset=utf-8", include_str!("web/page.css")))
        .route("/page.js", file("text/javascript; charset=utf-8", include_str!("web/page.js")))
        .route("/icon.svg", file("image/svg+xml", include_str!("web/icon.svg")))
        .fallback(async || plain(StatusCode::NOT_FOUND, "There is no such page."))
        .layer(middleware::from_fn_with_state(Shared::clone(&live), guard::enter))
        .with_state(live)
}

fn query(uri: &Uri) -> Params {
    Params::parse(uri.query().unwrap_or_default().as_bytes())
}

/// A page: its title, the content that is not updated, and the parts that are.
struct Page {
    title: String,
    fixed: Markup,
    parts: Vec<Part>,
}

/// Renders a page, for the first response or for its stream.
fn page_of(live: &Live, path: &str, params: &Params, now: Timestamp) -> Option<Page> {
    let none = || html! {};
    let page = |title: &str, fixed, parts| Some(Page { title: title.to_owned(), fixed, parts });
    let mut steps = path.trim_matches('/').split('/');
    match (steps.next().unwrap_or_default(), steps.next()) {
        ("", None) => page("Overview", none(), overview::parts(live, &live.seen(), now)),
        ("events", None) => {
            let list = events::list(&live.seen(), params, now);
            page("Events", events::form(params), vec![("events", list)])
        }
        ("events", Some(id)) => {
            let id = form_urlencoded::parse(id.as_bytes()).next().map(|(id, _)| id.into_owned());
            let id = id.unwrap_or_default();
            let function = events::function_of(&live.seen(), &id);
            let policy = function.and_then(|function| live.policy(&function));
            let life = events::life(live, &live.seen(), &id, policy.as_ref(), now);
            page("The life of an event", none(), vec![("life", life)])
        }
        ("dead", None) => {
            let list = letters::list(live, &live.seen(), params, now);
            page("Dead letters", none(), vec![("letters", list)])
        }
        ("play", None) if live.is_local() => {
            page("Play", none(), play::parts(live, &live.seen(), now))
        }
        ("jobs", Some(number)) => {
            let job = live.jobs.get(number.parse().ok()?)?;
            let title = job.title.clone();
            page(&title, none(), vec![("job", job_part(live, number, &job))])
        }
        _ => None,
    }
}

fn job_part(live: &Live, number: &str, job: &jobs::Job) -> Markup {
    use super::text::count;
    html! {
        @match &job.ended {
            None => {
                progress max=[job.of] value=[job.of.map(|_| job.done)] aria-label=(job.title) {}
                p role="status" {
                    (count(job.done)) @if let Some(of) = job.of { " of about " (count(of)) }
                    @if job.is_stopped { ". Stopping after the current step." }
                }
                form method="post" action=(format!("/jobs/{number}/stop")) {
                    (csrf(live))
                    button disabled[job.is_stopped] { "Stop" }
                }
            }
            Some(notices) => {
                @for Notice { tone, text } in notices {
                    @match tone {
                        Tone::Good => p.notice.good role="status" { (Untrusted(text)) },
                        Tone::Bad => p.notice.bad role="alert" { (Untrusted(text)) },
                        Tone::Plain | Tone::Faint => p { (Untrusted(text)) },
                    }
                }
                @if job.is_stopped { p { "It was stopped before it was done." } }
                p { a.button href=(job.back) { "Back" } }
            }
        }
    }
}

async fn page(State(live): State<Shared>, uri: Uri) -> Response {
    live.touch();
    let params = query(&uri);
    let Some(page) = page_of(&live, uri.path(), &params, (live.now)()) else {
        return plain(StatusCode::NOT_FOUND, "There is no such page.");
    };
    show(&live, uri.path(), &page)
}

fn show(live: &Live, path: &str, page: &Page) -> Response {
    let body = html! {
        (page.fixed)
        div #parts data-live {
            @for (id, part) in &page.parts { section id=(id) { (part) } }
        }
    };
    frame(live, path, &page.title, &body)
}

/// Streams the parts of a page whenever they change.
async fn changes(
    State(live): State<Shared>,
    uri: Uri,
) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let given = query(&uri);
    let path = given.get("path").unwrap_or("/").to_owned();
    let params = Params::parse(given.get("query").unwrap_or_default().as_bytes());
    let changes = live.changes();
    let begin = (live, changes, Map::new(), None);
    let stream = stream::unfold(begin, move |(live, mut changes, mut known, mut pause)| {
        let (path, params) = (path.clone(), params.clone());
        async move {
            loop {
                if let Some(pause) = pause {
                    tokio::time::sleep(pause).await;
                    let _ = tokio::time::timeout(UPDATE_INTERVAL_MAX, changes.changed()).await;
                }
                live.touch();
                if live.is_closed() {
                    return None;
                }
                changes.borrow_and_update();
                let began = (live.now)();
                let page = page_of(&live, &path, &params, began);
                pause = Some(UPDATE_INTERVAL_MIN.max(between(began, (live.now)()) * PAUSE_FACTOR));
                let mut news = Map::new();
                for (id, part) in page.into_iter().flat_map(|page| page.parts) {
                    let part = Value::String(part.into_string());
                    if known.get(id) != Some(&part) {
                        known.insert(id.to_owned(), part.clone());
                        news.insert(id.to_owned(), part);
                    }
                }
                if !news.is_empty() {
                    let event = Event::default().data(Value::Object(news).to_string());
                    return Some((Ok(event), (live, changes, known, pause)));
                }
            }
        }
    });
    Sse::new(stream).keep_alive(KeepAlive::default())
}

async fn dead(State(live): State<Shared>, uri: Uri) -> Response {
    if live.seen().looked.is_none() && live.cloud().is_ok() {
        letters::refresh(&live);
    }
    page(State(live), uri).await
}

async fn refresh_letters(State(live): State<Shared>, Form(_): Form) -> Redirect {
    let number = letters::refresh(&live);
    Redirect::to(&format!("/jobs/{number}"))
}

async fn letter(State(live): State<Shared>, Path(id): Path<String>, uri: Uri) -> Response {
    let with_payload = query(&uri).get("payload").is_some();
    let body = match letters::find(&live, &id).await {
        Ok(letter) => letters::letter(&live, &letter, with_payload, (live.now)()),
        Err(failure) => problem(&failure),
    };
    frame(&live, uri.path(), "A dead letter", &body)
}

async fn policy_page(State(live): State<Shared>, uri: Uri) -> Response {
    live.touch();
    frame(&live, uri.path(), "Policy", &policy::page(&live, &query(&uri)))
}

/// The payloads of an event's runs. The local cloud keeps those of the latest runs.
async fn payloads(State(live): State<Shared>, Path(id): Path<String>, uri: Uri) -> Response {
    let body = match runs(&live, &id).await {
        Ok(runs) if runs.is_empty() => {
            html! { p { "The local cloud has forgotten the payloads of this event: it keeps those of the latest runs." } }
        }
        Ok(runs) => html! {
            @for (attempt, payload) in &runs {
                h2 { @if *attempt == 0 { "The first run" } @else { "Attempt " (attempt) } }
                pre tabindex="0" { (Untrusted(&letters::beginning(payload))) }
            }
        },
        Err(failure) => problem(&failure),
    };
    frame(
        &live,
        uri.path(),
        "The payload of each run",
        &html! { (body) p { a.button href=(events::path(&id)) { "Back" } } },
    )
}

async fn runs(live: &Live, id: &str) -> Result<Vec<(u32, String)>, Failure> {
    let local = live.cloud()?.connection.local.clone().flatten().unwrap_or_default();
    let mut journal = Journal::of(&local);
    let mut runs = Vec::new();
    loop {
        let entries = journal.next(Duration::ZERO).await?;
        if entries.is_empty() {
            return Ok(runs);
        }
        for entry in &entries {
            let activity = crate::activity::read(entry).map(|activity| activity.kind);
            if let (Some(crate::activity::Kind::Started(run)), Some(payload)) =
                (activity, &entry.payload)
                && *run.event_id == *id
            {
                runs.push((run.attempt, payload.get().to_owned()));
            }
        }
    }
}

fn problem(failure: &Failure) -> Markup {
    html! { p.notice.bad role="alert" { (Untrusted(&failure.to_string())) } }
}

/// Redirects after an action, or shows its error.
fn after(live: &Live, done: Result<(), Failure>, back: &str) -> Response {
    match done {
        Ok(()) => Redirect::to(back).into_response(),
        Err(failure) => {
            let body = html! { (problem(&failure)) p { a.button href=(back) { "Back" } } };
            frame(live, back, "That did not work", &body)
        }
    }
}

async fn send(State(live): State<Shared>, Form(params): Form) -> Response {
    let done = play::send(&live, &params).await;
    after(&live, done, if params.get("events") == Some("1") { "/events" } else { "/" })
}

async fn outage(State(live): State<Shared>, Form(params): Form) -> Response {
    let done = play::outage(&live, &params).await;
    after(&live, done, "/play")
}

async fn lesson(State(live): State<Shared>, Form(_): Form) -> Response {
    after(&live, play::start_lesson(&live), "/")
}

async fn confirm(State(live): State<Shared>, uri: Uri) -> Response {
    asked(&live, &query(&uri)).await
}

async fn confirm_form(State(live): State<Shared>, Form(params): Form) -> Response {
    asked(&live, &params).await
}

async fn asked(live: &Shared, params: &Params) -> Response {
    match act::confirm(live, params).await {
        Ok((title, body)) => frame(live, "/confirm", &title, &body),
        Err(failure) => after(live, Err(failure), "/"),
    }
}

async fn start(State(live): State<Shared>, Form(params): Form) -> Response {
    match act::start(&live, &params) {
        Ok(number) => Redirect::to(&format!("/jobs/{number}")).into_response(),
        Err(failure) => after(&live, Err(failure), "/"),
    }
}

async fn stop(State(live): State<Shared>, Path(number): Path<u64>, Form(_): Form) -> Redirect {
    live.jobs.stop(number);
    live.changed();
    Redirect::to(&format!("/jobs/{number}"))
}
