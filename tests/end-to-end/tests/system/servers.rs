//! HTTP servers of tests: a proxy before the local cloud that hangs for a while, one that answers some requests itself,
//! and an API that a function depends on, whose answers a test decides.

use std::{
    sync::{Arc, Mutex, OnceLock},
    time::Duration,
};

use axum::{
    Router,
    body::Body,
    http::{HeaderMap, Method, Uri},
    response::Response,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, copy, copy_bidirectional},
    net::{TcpListener, TcpStream},
    sync::watch,
};

/// Receives requests instead of the local cloud, and answers none, until `release`.
pub struct Proxy {
    pub endpoint: String,
    /// The address to which it forwards connections.
    behind: watch::Sender<Option<String>>,
    asked: watch::Receiver<()>,
    requests: Arc<Mutex<Vec<u8>>>,
}

impl Proxy {
    pub async fn hanging() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let (behind, state) = watch::channel(None);
        let (ask, asked) = watch::channel(());
        let requests = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&requests);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(serve(client, state.clone(), ask.clone(), Arc::clone(&seen)));
            }
        });
        Self { endpoint, behind, asked, requests }
    }

    /// Waits for the first request that was not forwarded.
    pub async fn asked(&mut self) {
        self.asked.changed().await.unwrap();
    }

    /// The text of all requests so far that were not forwarded.
    pub fn requests(&self) -> String {
        String::from_utf8_lossy(&self.requests.lock().unwrap()).into_owned()
    }

    /// Forwards new connections to this endpoint, and closes all others.
    pub fn release(&self, endpoint: &str) {
        let address = endpoint.trim_start_matches("http://").to_owned();
        self.behind.send(Some(address)).unwrap();
    }
}

async fn serve(
    mut client: TcpStream,
    mut state: watch::Receiver<Option<String>>,
    ask: watch::Sender<()>,
    requests: Arc<Mutex<Vec<u8>>>,
) {
    let behind = state.borrow_and_update().clone();
    if let Some(address) = behind {
        let mut server = TcpStream::connect(address).await.unwrap();
        tokio::select! {
            _ = copy_bidirectional(&mut client, &mut server) => {}
            _ = state.changed() => {}
        }
        return;
    }
    let mut buffer = [0; 4096];
    loop {
        tokio::select! {
            read = client.read(&mut buffer) => match read {
                Ok(0) | Err(_) => return,
                Ok(length) => {
                    requests.lock().unwrap().extend(&buffer[..length]);
                    ask.send(()).unwrap();
                }
            },
            _ = state.changed() => return,
        }
    }
}

/// A proxy that answers some requests itself, and forwards the others.
pub struct Faulty {
    pub endpoint: String,
    behind: Arc<OnceLock<String>>,
}

/// What a faulty proxy does with a request.
#[derive(Clone)]
pub enum Fate {
    /// It is forwarded after this time.
    Forwarded { after: Duration },
    /// It is answered with these bytes, and the connection is closed.
    Answered(Vec<u8>),
    /// It is never answered.
    Held,
}

impl Fate {
    /// It is forwarded at once.
    pub const FORWARDED: Self = Self::Forwarded { after: Duration::ZERO };
}

impl Faulty {
    /// `fate` says what becomes of each request, by its text.
    pub async fn start(fate: impl Fn(&str) -> Fate + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let (behind, fate) = (Arc::new(OnceLock::new()), Arc::new(fate));
        let to = Arc::clone(&behind);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let (to, fate) = (Arc::clone(&to), Arc::clone(&fate));
                tokio::spawn(async move { pass_on(client, &to, &*fate).await });
            }
        });
        Self { endpoint, behind }
    }

    pub fn forward_to(&self, endpoint: &str) {
        self.behind.set(endpoint.trim_start_matches("http://").to_owned()).unwrap();
    }
}

/// Serves one request. A client that has gone away needs no answer.
async fn pass_on(
    mut client: TcpStream,
    behind: &OnceLock<String>,
    fate: &(impl Fn(&str) -> Fate + Sync),
) {
    let Some(request) = whole_request(&mut client).await else { return };
    let fate = fate(&String::from_utf8_lossy(&request));
    match fate {
        Fate::Answered(answer) => drop(client.write_all(&answer).await),
        Fate::Held => std::future::pending().await,
        Fate::Forwarded { after } => {
            tokio::time::sleep(after).await;
            let mut server = TcpStream::connect(behind.get().unwrap()).await.unwrap();
            // The next request of this client needs a decision of its own.
            let line = request.iter().position(|byte| *byte == b'\n').unwrap() + 1;
            let request = [&request[..line], b"connection: close\r\n", &request[line..]].concat();
            server.write_all(&request).await.unwrap();
            let _ = copy(&mut server, &mut client).await;
        }
    }
}

/// The bytes of a request, or `None` if the connection ends before.
async fn whole_request(client: &mut TcpStream) -> Option<Vec<u8>> {
    let mut request = Vec::new();
    loop {
        let head = request.windows(4).position(|four| four == b"\r\n\r\n").map(|at| at + 4);
        if let Some(head) = head {
            let text = String::from_utf8_lossy(&request[..head]).to_lowercase();
            let length = text.split("content-length:").nth(1).and_then(|it| it.lines().next());
            let length: usize = length.map_or(0, |length| length.trim().parse().unwrap());
            if request.len() >= head + length {
                return Some(request);
            }
        }
        if client.read_buf(&mut request).await.ok()? == 0 {
            return None;
        }
    }
}

/// A request that the upstream has received.
#[derive(Clone, Debug)]
pub struct Asked {
    /// The method and the path.
    pub what: String,
    headers: HeaderMap,
    pub body: String,
}

impl Asked {
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }
}

/// An HTTP server. Tests decide how it answers.
pub struct Upstream {
    pub endpoint: String,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Upstream {
    /// Answers each request with the status, headers and body that `answer` returns for the request's method and path
    /// and the number of earlier requests with the same ones.
    pub async fn start(answer: fn(what: &str, before: usize) -> &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let asked = Arc::new(Mutex::new(Vec::new()));
        let keeps = Arc::clone(&asked);
        let app = Router::new().fallback(move |method: Method, uri: Uri, headers, body| {
            let what = format!("{method} {uri}");
            let answer = answer(&what, count(&keeps, &what));
            keeps.lock().unwrap().push(Asked { what, headers, body });
            async move { response(answer) }
        });
        tokio::spawn(async move { axum::serve(listener, app).await });
        Self { endpoint, asked }
    }

    /// All requests so far, in order.
    pub fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }

    /// The number of requests with this method and path.
    pub fn times(&self, what: &str) -> usize {
        count(&self.asked, what)
    }
}

fn count(asked: &Mutex<Vec<Asked>>, what: &str) -> usize {
    asked.lock().unwrap().iter().filter(|asked| asked.what == what).count()
}

fn response(answer: &'static str) -> Response {
    let (head, body) = answer.split_once("\n\n").unwrap_or((answer, ""));
    let (status, headers) = head.split_once('\n').unwrap_or((head, ""));
    let mut response = Response::builder().status(&status[..3]);
    for (name, value) in headers.lines().filter_map(|line| line.split_once(": ")) {
        response = response.header(name, value);
    }
    response.body(Body::from(body)).unwrap()
}
