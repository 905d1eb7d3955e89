//! A proxy between the handler and the local cloud. Tests decide how it answers.

use std::sync::{Arc, Mutex};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional},
    net::{TcpListener, TcpStream},
    sync::watch,
};

#[derive(Clone)]
enum Behaviour {
    /// Accept the connection and never answer.
    Hang,
    Answer(&'static str),
    /// Forward the connection to this address.
    Pass(String),
}

/// Receives requests instead of the local cloud until `release`.
pub struct Proxy {
    pub endpoint: String,
    behaviour: watch::Sender<Behaviour>,
    asked: watch::Receiver<()>,
    requests: Arc<Mutex<Vec<u8>>>,
}

impl Proxy {
    /// A proxy that never answers.
    pub async fn hanging() -> Self {
        Self::with(Behaviour::Hang).await
    }

    /// A proxy that gives every request this answer.
    pub async fn answering(answer: &'static str) -> Self {
        Self::with(Behaviour::Answer(answer)).await
    }

    async fn with(behaviour: Behaviour) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let (behaviour, state) = watch::channel(behaviour);
        let (ask, asked) = watch::channel(());
        let requests = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&requests);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(serve(client, state.clone(), ask.clone(), Arc::clone(&seen)));
            }
        });
        Self { endpoint, behaviour, asked, requests }
    }

    /// Waits for the first request that was not forwarded.
    pub async fn asked(&mut self) {
        self.asked.changed().await.unwrap();
    }

    /// The text of all requests so far that were not forwarded.
    pub fn requests(&self) -> String {
        String::from_utf8_lossy(&self.requests.lock().unwrap()).into_owned()
    }

    /// Forwards new connections to this endpoint, and closes those that hang.
    pub fn release(&self, endpoint: &str) {
        let address = endpoint.trim_start_matches("http://").to_owned();
        self.behaviour.send(Behaviour::Pass(address)).unwrap();
    }
}

async fn serve(
    mut client: TcpStream,
    mut state: watch::Receiver<Behaviour>,
    ask: watch::Sender<()>,
    requests: Arc<Mutex<Vec<u8>>>,
) {
    let behaviour = state.borrow_and_update().clone();
    if let Behaviour::Pass(address) = behaviour {
        let mut server = TcpStream::connect(address).await.unwrap();
        let _ = copy_bidirectional(&mut client, &mut server).await;
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
                    if let Behaviour::Answer(answer) = behaviour {
                        let _ = client.write_all(answer.as_bytes()).await;
                        return;
                    }
                }
            },
            _ = state.changed() => return,
        }
    }
}
