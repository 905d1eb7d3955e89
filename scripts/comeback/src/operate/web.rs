//! The live page: `comeback local` serves it at its own address, and `comeback web` for an account.
//!
//! The server renders all HTML. The first response is a complete page. Then a stream of server-sent events has each
//! part that changes, with its id, and the page's script replaces that part. One function, `pages::page_of`, renders
//! both the page and its stream. The facts are those of the commands. [`poll`] reads them while a page is open.

mod act;
mod events;
mod files;
mod forms;
mod guard;
mod health;
mod history;
mod html;
mod jobs;
mod lesson;
mod letters;
mod life;
pub mod live;
mod overview;
mod pages;
mod panel;
mod play;
mod policy;
mod poll;
pub mod rules;
mod stream;
mod targets;

use std::{io, net::Ipv4Addr};

use axum::{
    Router,
    extract::{Path, State},
    http::{Uri, header},
    middleware,
    routing::{get, post},
};
use tokio::net::TcpListener;

use self::{
    files::FILES,
    live::{Cloud, Live, Shared, secret},
    pages::{event, history_page, missing, page, policy_page, query, show_letter},
    stream::changes,
};

use crate::{
    failure::Failure,
    operate::options::{SystemOptions, find},
    paint::{Line, Style},
    shell::{Outcome, Shell, Signals},
    typed::{When, when},
};

#[derive(Debug, clap::Args)]
pub struct WebArgs {
    /// The port on 127.0.0.1 to listen on; 0 for any free port.
    #[arg(long, value_name = "N", default_value_t = 4780)]
    pub port: u16,
    /// How much of the handler's log is read at the start: that of a duration, or since a time in UTC, such as 03:10.
    #[arg(long, value_name = "DURATION|TIME", default_value = "1h", value_parser = when)]
    pub since: When,
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
    tokio::spawn(Shared::clone(&live).follow_log(args.since.before((shell.now)())));
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
        .route("/dead/look", post(forms::refresh_letters))
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
        .route("/history", get(history_page))
        .route("/health", get(page))
        .route("/health/look", post(forms::check_again))
        .route("/play", get(page))
        .route("/play/send", post(forms::send))
        .route("/play/outage", post(forms::outage))
        .route("/play/lesson", post(forms::lesson))
        .route("/play/lesson/end", post(forms::end_lesson))
        .route("/confirm", get(forms::confirm).post(forms::confirm_form))
        .route("/do", post(forms::start))
        .route("/jobs/{number}/stop", post(forms::stop))
        .route("/stream", get(changes))
        .fallback(async |State(live): State<Shared>| missing(&live));
    // The page that asks for the token is outside.
    let router = if live.root == "/" { pages } else { files.nest(&live.root, pages) };
    router
        .layer(middleware::from_fn_with_state(Shared::clone(&live), guard::enter))
        .with_state(live)
}
