//! HTTP servers of tests: a proxy before the local cloud that hangs for a while, and an API that a function depends on,
//! whose answers a test decides.

use std::sync::{Arc, Mutex};

use axum::{
    Router,
    body::Body,
    http::{HeaderMap, Method, Uri},
    response::Response,
};
use tokio::{
    io::{AsyncReadExt, copy_bidirectional},
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
