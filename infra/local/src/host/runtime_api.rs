//! The Lambda Runtime API of one environment.
//!
//! Each environment has its own listener, because runtime clients can be configured with a host and a port, but not
//! with a path. There is one event at a time. It goes to the next request for an event, and ends with a response or an
//! error for its request id.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{
    Router,
    body::Body,
    extract::{Path, State},
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use comeback_core::time::later;
use serde_json::json;
use tokio::sync::{Notify, oneshot};

use super::response::{Read, read};
use crate::{
    model::lambda::run::{Outcome, RESPONSE_BYTES_MAX, Run},
    present::{lock, now},
};

#[derive(Debug)]
pub(super) struct Answer {
    pub(super) outcome: Outcome,
    pub(super) reusable: bool,
}

/// Resolves when the function first asks for an event, or reports a failed initialisation.
pub(super) type Init = oneshot::Receiver<Result<(), Vec<u8>>>;

pub(super) struct RuntimeApi {
    state: Mutex<Exchange>,
    offered: Notify,
    asked: Notify,
}

#[derive(Default)]
struct Exchange {
    init: Option<oneshot::Sender<Result<(), Vec<u8>>>>,
    waiting: Option<Offer>,
    asks: bool,
    /// Receives the answer to the event that the function is handling.
    answer: Option<oneshot::Sender<Answer>>,
    latest: Option<Arc<str>>,
}

struct Offer {
    run: Run,
    limit: Duration,
    taken: oneshot::Sender<()>,
    answer: oneshot::Sender<Answer>,
}

impl RuntimeApi {
    pub(super) fn new() -> (Arc<Self>, Init) {
        let (sender, init) = oneshot::channel();
        let state = Mutex::new(Exchange { init: Some(sender), ..Exchange::default() });
        (Arc::new(Self { state, offered: Notify::new(), asked: Notify::new() }), init)
    }

    /// Offers an event to the next request, with the time limit for the function. The first receiver resolves when the
    /// function has taken the event, the second when it has answered.
    pub(super) fn offer(
        &self,
        run: &Run,
        limit: Duration,
    ) -> (oneshot::Receiver<()>, oneshot::Receiver<Answer>) {
        let (taken, is_taken) = oneshot::channel();
        let (answer, is_answered) = oneshot::channel();
        lock(&self.state).waiting = Some(Offer { run: run.clone(), limit, taken, answer });
        self.offered.notify_one();
        (is_taken, is_answered)
    }

    pub(super) async fn asked(&self) {
        loop {
            let asked = self.asked.notified();
            if lock(&self.state).asks {
                return;
            }
            asked.await;
        }
    }

    /// The request id for the function's log lines: that of the latest event, because a line that was written before
    /// the answer may be read after it.
    pub(super) fn latest_request_id(&self) -> Option<Arc<str>> {
        lock(&self.state).latest.clone()
    }

    /// Takes the waiting event, if there is one, and its time limit.
    fn take(&self) -> Option<(Run, Duration)> {
        let mut exchange = lock(&self.state);
        if let Some(init) = exchange.init.take() {
            let _ = init.send(Ok(()));
        }
        let offer = exchange.waiting.take();
        exchange.asks = offer.is_none();
        self.asked.notify_waiters();
        let Offer { run, limit, taken, answer } = offer?;
        exchange.latest = Some(Arc::clone(&run.request_id));
        exchange.answer = Some(answer);
        let _ = taken.send(());
        Some((run, limit))
    }

    /// Answers the event with this id, if it is the current one.
    fn answer(&self, request_id: &str, answer: Answer) -> bool {
        let mut exchange = lock(&self.state);
        let is_latest = exchange.latest.as_deref() == Some(request_id);
        let current = if is_latest { exchange.answer.take() } else { None };
        current.map(|current| current.send(answer)).is_some()
    }
}

impl Exchange {
    /// Why an answer to the event with this id is refused.
    fn refuses(&self, request_id: &str) -> Option<Response> {
        if self.latest.as_deref() != Some(request_id) {
            Some(refusal(StatusCode::BAD_REQUEST, "InvalidRequestID", "Invalid request ID"))
        } else if self.answer.is_none() {
            Some(invalid_state("the event has been answered"))
        } else {
            None
        }
    }
}

pub(super) fn router(api: Arc<RuntimeApi>) -> Router {
    Router::new()
        .route("/2018-06-01/runtime/invocation/next", get(next))
        .route(
            "/2018-06-01/runtime/invocation/{id}/response",
            post(|api, id, headers, body| settle(api, id, headers, body, Outcome::Returned)),
        )
        .route(
            "/2018-06-01/runtime/invocation/{id}/error",
            post(|api, id, headers, body| settle(api, id, headers, body, Outcome::Failed)),
        )
        .route("/2018-06-01/runtime/init/error", post(init_error))
        .fallback(|| async {
            refusal(StatusCode::NOT_FOUND, "InvalidPath", "there is no such path")
        })
        .with_state(api)
}

async fn next(State(api): State<Arc<RuntimeApi>>) -> Response {
    loop {
        let offered = api.offered.notified();
        if let Some((run, limit)) = api.take() {
            return event(&run, limit);
        }
        offered.await;
    }
}

fn event(run: &Run, limit: Duration) -> Response {
    let deadline = later(now(), limit).timestamp_millis().to_string();
    let mut headers = HeaderMap::new();
    for (name, value) in [
        ("lambda-runtime-aws-request-id", &*run.request_id),
        ("lambda-runtime-deadline-ms", &deadline),
        ("lambda-runtime-invoked-function-arn", &run.configuration.arn),
        ("lambda-runtime-trace-id", &run.trace_header),
        ("lambda-runtime-client-context", run.client_context.as_deref().unwrap_or_default()),
        ("lambda-runtime-aws-tenant-id", run.tenant_id.as_deref().unwrap_or_default()),
    ] {
        // Only a client context can have characters that are invalid in a header. It is left out then.
        if let Ok(value) = value.parse::<HeaderValue>()
            && !value.is_empty()
        {
            headers.insert(name, value);
        }
    }
    let json = [(header::CONTENT_TYPE, "application/json")];
    (headers, json, run.payload.get().to_owned()).into_response()
}

async fn settle(
    State(api): State<Arc<RuntimeApi>>,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Body,
    outcome: fn(Vec<u8>) -> Outcome,
) -> Response {
    if let Some(refused) = lock(&api.state).refuses(&id) {
        return refused;
    }
    let (outcome, reusable) = match read(&headers, body).await {
        Read::Whole(bytes) => (outcome(bytes), true),
        Read::Failed(report) => (Outcome::Failed(report), true),
        Read::Long => (Outcome::ResponseTooLarge, true),
        Read::TooLarge => (Outcome::ResponseTooLarge, false),
        // The function closed the connection. Its exit will be reported.
        Read::Broken => return incomplete(),
    };
    if !api.answer(&id, Answer { outcome, reusable }) {
        return invalid_state("the event has been answered");
    }
    if reusable {
        return accepted();
    }
    let message = format!("Exceeded maximum allowed payload size ({RESPONSE_BYTES_MAX} bytes).");
    refusal(StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLarge", &message)
}

async fn init_error(
    State(api): State<Arc<RuntimeApi>>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let Read::Whole(report) = read(&headers, body).await else {
        return incomplete();
    };
    let init = lock(&api.state).init.take();
    match init {
        Some(init) => {
            let _ = init.send(Err(report));
            accepted()
        }
        None => invalid_state("an error of the initialisation came after it"),
    }
}

fn invalid_state(message: &str) -> Response {
    refusal(StatusCode::FORBIDDEN, "InvalidStateTransition", message)
}

fn incomplete() -> Response {
    refusal(StatusCode::BAD_REQUEST, "InvalidRequest", "incomplete body")
}

fn accepted() -> Response {
    let json = [(header::CONTENT_TYPE, "application/json")];
    (StatusCode::ACCEPTED, json, "{\"status\":\"OK\"}\n").into_response()
}

fn refusal(status: StatusCode, error_type: &str, message: &str) -> Response {
    let json = [(header::CONTENT_TYPE, "application/json")];
    let body = json!({ "errorMessage": message, "errorType": error_type });
    (status, json, body.to_string()).into_response()
}
