//! The listener, the state that all requests share, and the pump that advances the model.
//!
//! Every request makes its [`Shared::step`] under one lock: the model is fast and never waits. After
//! a step, whatever became due is started, and whoever waits for a change is woken. Where nothing
//! happens from outside, the pump makes the next step at the moment that the model asks for.

use std::future::Future;
use std::io;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use crate::clock;
use crate::journal::{Journal, Watch};
use crate::model::Cloud;
use comeback_core::Timestamp;

/// How the local cloud is to be.
#[derive(Clone, Debug)]
pub struct Config {
    /// The port on 127.0.0.1 to listen on; 0 for any that is free.
    pub port: u16,
    /// How many runs of functions there may be at a time. AWS's default for an account is 1,000;
    /// here each of them is a process.
    pub concurrency: u32,
}

impl Default for Config {
    fn default() -> Self {
        Self { port: 0, concurrency: 100 }
    }
}

/// A local cloud that is running. It ends when it is dropped or stopped; to stop it also waits for
/// the functions' processes to be gone.
pub struct Server {
    endpoint: String,
    shared: Shared,
    tasks: Vec<JoinHandle<()>>,
}

/// Starts a local cloud.
///
/// # Errors
/// If the port can't be listened on.
pub async fn start(config: Config) -> io::Result<Server> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, config.port)).await?;
    let endpoint = format!("http://{}", listener.local_addr()?);
    let shared = Shared::new(config.concurrency);
    let pump = tokio::spawn(shared.clone().pump());
    let app = Router::new().fallback(answer).with_state(shared.clone());
    let serve = tokio::spawn(async move {
        // It ends only with the listener, which lives as long as this task.
        let _ = axum::serve(listener, app).await;
    });
    Ok(Server { endpoint, shared, tasks: vec![pump, serve] })
}

impl Server {
    /// Where SDKs are to be pointed: `http://127.0.0.1:PORT`.
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// What happens from now on.
    pub fn watch(&self) -> Watch {
        Watch::new(self.shared.0.journal.clone())
    }

    /// Stops listening, and ends every function's process.
    pub async fn stop(self) {}
}

impl Drop for Server {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

/// What all requests share.
#[derive(Clone)]
pub(crate) struct Shared(Arc<Inner>);

struct Inner {
    cloud: Mutex<Cloud>,
    journal: Journal,
    /// Wakes everyone who waits for a change.
    changed: Notify,
    /// Wakes the pump, because the moment of the next step may have moved.
    due: Notify,
}

impl Shared {
    fn new(concurrency: u32) -> Self {
        Self(Arc::new(Inner {
            cloud: Mutex::new(Cloud::new(concurrency, seed())),
            journal: Journal::default(),
            changed: Notify::new(),
            due: Notify::new(),
        }))
    }

    /// One step on the model at the present time. Afterwards whatever became due is started, and
    /// all who wait for a change are woken.
    pub(crate) fn step<T>(&self, step: impl FnOnce(&mut Cloud, Timestamp) -> T) -> T {
        let (result, _) = self.advance(step);
        self.0.changed.notify_waiters();
        self.0.due.notify_one();
        result
    }

    /// A step that changes nothing which others wait for, such as a receive: it wakes nobody by
    /// itself. Two long polls that woke each other by looking would never rest.
    pub(crate) fn look<T>(&self, look: impl FnOnce(&mut Cloud, Timestamp) -> T) -> T {
        let (result, happened) = self.advance(look);
        if happened {
            self.0.changed.notify_waiters();
        }
        self.0.due.notify_one();
        result
    }

    /// Resolves when anything has changed since this call: make it before looking, then wait on it.
    pub(crate) fn changed(&self) -> impl Future<Output = ()> + '_ {
        self.0.changed.notified()
    }

    /// Makes a step, and writes down what happened; whether anything did.
    fn advance<T>(&self, step: impl FnOnce(&mut Cloud, Timestamp) -> T) -> (T, bool) {
        let mut cloud = self.cloud();
        let result = step(&mut cloud, clock::now());
        let happened = cloud.take_happened();
        drop(cloud);
        let any = !happened.is_empty();
        if any {
            self.0.journal.write(happened);
        }
        (result, any)
    }

    fn cloud(&self) -> MutexGuard<'_, Cloud> {
        // A step that panicked has changed what it had changed; the others still want answers.
        self.0.cloud.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a step whenever the model asks for one.
    async fn pump(self) {
        loop {
            let due = self.0.due.notified();
            let next = self.cloud().next_wakeup(clock::now());
            match next {
                None => due.await,
                Some(next) => tokio::select! {
                    () = due => {}
                    () = tokio::time::sleep(clock::until(next)) => self.look(|_, _| ()),
                },
            }
        }
    }
}

/// Ids differ from one start to the next, as a client that outlives the local cloud expects.
fn seed() -> u64 {
    let nanos = clock::now().timestamp_nanos_opt().unwrap_or_default();
    nanos.cast_unsigned() ^ u64::from(std::process::id())
}

/// Every request: one of AWS's, for either service, or one for the observer's side door.
async fn answer(State(_shared): State<Shared>, request: Request) -> Response {
    if !is_signed(request.headers()) {
        return missing_authentication();
    }
    StatusCode::NOT_FOUND.into_response()
}

/// Whether a request carries a signature as every AWS client's does. Any key is good: the point is
/// that a web page can't send this header here.
fn is_signed(headers: &HeaderMap) -> bool {
    headers
        .get(header::AUTHORIZATION)
        .is_some_and(|value| value.as_bytes().starts_with(b"AWS4-HMAC-SHA256 "))
}

fn missing_authentication() -> Response {
    (
        StatusCode::FORBIDDEN,
        [("x-amzn-errortype", "MissingAuthenticationTokenException")],
        r#"{"message":"Missing Authentication Token"}"#,
    )
        .into_response()
}
