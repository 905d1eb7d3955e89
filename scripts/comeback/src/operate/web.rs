//! The live page: `comeback local` serves it at its own address, and `comeback web` for an account.
//!
//! The server renders all HTML. The first response is a complete page. Then a stream of server-sent events has each
//! part that changes, with its id, and the page's script replaces that part. One function, `page_of`, renders both the
//! page and its stream. The facts are those of the commands. [`live`] polls them while a page is open.

mod act;
mod events;
mod guard;
mod health;
mod html;
mod jobs;
mod lesson;
mod letters;
mod life;
pub mod live;
mod overview;
mod play;
mod policy;
pub mod rules;
mod targets;

use std::{convert::Infallible, io, net::Ipv4Addr, time::Duration};

use axum::{
    Router,
    extract::{Path, State},
    http::{HeaderMap, StatusCode, Uri, header},
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
use html::{Params, Untrusted};
use live::{Cloud, Live, Shared, secret};
use maud::{Markup, html};
use serde_json::{Map, Value};
use tokio::net::TcpListener;

use super::{
    options::{SystemOptions, find},
    rules::duration,
};
use crate::{
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

const PAGES: [(&str, &str); 5] = [
    ("/", "Overview"),
    ("/events", "Events"),
    ("/dead", "Dead letters"),
    ("/policy", "Policy"),
    ("/health", "Health"),
];
const PLAY: (&str, &str) = ("/play", "Play");

type Part = (&'static str, Markup);

/// The files of all pages: the path, the type and the content.
const FILES: [(&str, &str, &str); 3] = [
    ("/page.css", "text/css; charset=utf-8", include_str!("web/page.css")),
    ("/page.js", "text/javascript; charset=utf-8", include_str!("web/page.js")),
    ("/icon.svg", "image/svg+xml", include_str!("web/icon.svg")),
];

#[derive(Debug, clap::Args)]
pub struct WebArgs {
    /// The port on 127.0.0.1 to listen on; 0 for any free port.
    #[arg(long, value_name = "N", default_value_t = 4780)]
    pub port: u16,
    /// How much of the handler's log is read at the start.
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = duration)]
    pub since: Duration,
    #[command(flatten)]
    pub system: SystemOptions,
}

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
    let url = format!("http://{address}{}?token={token}", live.root);
    let lines = [
        Line::of(Style::Strong, url),
        Line::of(
            Style::Plain,
            "Open this in a browser on this machine. Whoever has the token can act with your credentials. \
             Ctrl-C ends it.",
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
    let mut files = Router::new();
    for (path, kind, text) in FILES {
        files = files.route(path, get(async move || ([(header::CONTENT_TYPE, kind)], text)));
    }
    let pages = files
        .clone()
        .route("/", get(page))
        .route("/events", get(page))
        .route("/events/{id}", get(event))
        .route("/dead", get(page))
        .route("/dead/look", post(refresh_letters))
        .route(
            "/dead/{id}",
            get(async |State(live): State<Shared>, Path(id): Path<String>, uri: Uri| {
                show_letter(&live, &id, &query(&uri), None).await
            }),
        )
        .route("/policy", get(policy_page))
        .route(
            "/policy/forecast",
            get(async |State(live): State<Shared>, uri: Uri| {
                policy::forecast(&live, &query(&uri)).into_string()
            }),
        )
        .route("/health", get(page))
        .route("/health/look", post(check_again))
        .route("/play", get(page))
        .route("/play/send", post(send))
        .route("/play/outage", post(outage))
        .route("/play/lesson", post(lesson))
        .route("/play/lesson/end", post(end_lesson))
        .route("/confirm", get(confirm).post(confirm_form))
        .route("/do", post(start))
        .route("/jobs/{number}/stop", post(stop))
        .route("/stream", get(changes))
        .fallback(async |State(live): State<Shared>| missing(&live));
    // The page that asks for the token is outside.
    let router = if live.root == "/" { pages } else { files.nest(&live.root, pages) };
    router
        .layer(middleware::from_fn_with_state(Shared::clone(&live), guard::enter))
        .with_state(live)
}

/// The parts that every page has: outages that are played, the lesson, the operator's jobs, and errors of polls.
fn common(live: &Live, now: Timestamp) -> Vec<Part> {
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
fn frame(live: &Live, path: &str, title: &str, heading: &Markup, body: &Markup) -> Response {
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

fn query(uri: &Uri) -> Params {
    Params::parse(uri.query().unwrap_or_default().as_bytes())
}

/// A page: its title, its heading, which may be updated, and its parts, which are.
struct Page {
    title: String,
    heading: Markup,
    parts: Vec<Part>,
}

/// Renders a page, for the first response or for its stream.
fn page_of(live: &Shared, path: &str, params: &Params, now: Timestamp) -> Option<Page> {
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
            let seen = live.seen();
            let life = life::life(&seen, &id, policy.as_ref(), params, now);
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

async fn page(State(live): State<Shared>, uri: Uri) -> Response {
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

fn missing(live: &Live) -> Response {
    let title = "There is no such page";
    let body = html! {
        p {
            "The address is wrong, or the page is from an earlier version. "
            a href="/" { "Go to the overview" }
        }
    };
    (StatusCode::NOT_FOUND, frame(live, "", title, &html! { (title) }, &body)).into_response()
}

async fn event(State(live): State<Shared>, uri: Uri) -> Response {
    live.touch();
    let id = events::id_of(uri.path().trim_start_matches("/events/"));
    let runs =
        if live.is_local() { life::runs(&live, &id).await } else { Ok(life::Runs::default()) };
    let panel = life::panel(&live, &id, &runs, &query(&uri));
    let is_known = live.seen().events.get(&id).is_some();
    let mut response = show(&live, &uri, &html! {}, &panel);
    if !is_known {
        *response.status_mut() = StatusCode::NOT_FOUND;
    }
    response
}

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
                if live.is_ending() {
                    return None;
                }
                changes.borrow_and_update();
                let began = (live.now)();
                if path == "/dead" {
                    letters::look_again(&live, false);
                }
                let mut parts = common(&live, began);
                if let Some(page) = page_of(&live, &path, &params, began) {
                    parts.push(("title", page.heading));
                    parts.extend(page.parts);
                }
                pause = Some(UPDATE_INTERVAL_MIN.max(between(began, (live.now)()) * PAUSE_FACTOR));
                let mut news = Map::new();
                for (id, part) in parts {
                    let part = guard::links_from_root(&live.root, &part.into_string());
                    let part = Value::String(part);
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

async fn refresh_letters(State(live): State<Shared>, Form(_): Form) -> Redirect {
    letters::refresh(&live);
    Redirect::to("/dead")
}

async fn show_letter(live: &Shared, id: &str, params: &Params, error: Option<&str>) -> Response {
    let body = match letters::find(live, id).await {
        Ok(letter) => letters::letter(live, &letter, params, error, (live.now)()),
        Err(failure) => problem(&failure),
    };
    frame(live, "/dead", "A dead letter", &html! { "A dead letter" }, &body)
}

async fn policy_page(State(live): State<Shared>, uri: Uri) -> Response {
    live.touch();
    let body = policy::page(&live, &query(&uri));
    frame(&live, uri.path(), "Policy", &html! { "Policy" }, &body)
}

fn problem(failure: &Failure) -> Markup {
    html! { p.notice.bad role="alert" { (Untrusted(&failure.to_string())) } }
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

async fn send(State(live): State<Shared>, Form(params): Form) -> Response {
    let checked = play::check(&live.seen(), &params);
    if let Err(error) = checked {
        let body = play::forms(&live, &live.seen(), &params, Some(&error));
        return frame(&live, "/play", "Play", &html! { "Play" }, &body);
    }
    let done = play::send(&live, &params).await;
    after(&live, done, if params.get("events") == Some("1") { "/events" } else { "/" })
}

async fn outage(State(live): State<Shared>, Form(params): Form) -> Response {
    let done = play::outage(&live, &params).await;
    let chosen = params.get("function").unwrap_or_default();
    after(&live, done, &format!("/play?{}", Params::default().with("function", chosen)))
}

async fn lesson(State(live): State<Shared>, Form(params): Form) -> Response {
    after(&live, lesson::start(&live, &params), "/")
}

async fn end_lesson(State(live): State<Shared>, headers: HeaderMap, Form(_): Form) -> Redirect {
    lesson::end(&live);
    back(&headers)
}

async fn check_again(State(live): State<Shared>, Form(_): Form) -> Redirect {
    health::refresh(&live);
    Redirect::to("/health")
}

async fn confirm(State(live): State<Shared>, uri: Uri) -> Response {
    asked(&live, &query(&uri)).await
}

async fn confirm_form(State(live): State<Shared>, Form(params): Form) -> Response {
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

async fn start(State(live): State<Shared>, Form(params): Form) -> Response {
    match act::start(&live, &params) {
        Ok(back) => Redirect::to(&back).into_response(),
        Err(failure) => after(&live, Err(failure), "/"),
    }
}

/// Stops a job, or dismisses its result.
async fn stop(
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
