//! The stream of an open page: each part that changes, as a server-sent event.

use std::{convert::Infallible, time::Duration};

use axum::{
    extract::State,
    http::Uri,
    response::sse::{Event, KeepAlive, Sse},
};
use comeback_core::time::between;
use futures_util::{Stream, stream};
use serde_json::{Map, Value};

use super::{
    guard,
    html::Params,
    letters,
    live::Shared,
    pages::{common, page_of, query},
};

/// The minimum time between two updates of a page. Much of the overview changes with every event, so a shorter time
/// would slow down the local cloud without a visible benefit.
const UPDATE_INTERVAL_MIN: Duration = Duration::from_millis(100);

/// A page that takes long to render, such as a search of 100,000 events, is updated less often: after a pause of this
/// many times the rendering time. So one open page uses at most a tenth of a core.
const PAUSE_FACTOR: u32 = 9;

/// The maximum time between two updates. Even if nothing has changed, due times come nearer.
const UPDATE_INTERVAL_MAX: Duration = Duration::from_secs(5);

pub async fn changes(
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
