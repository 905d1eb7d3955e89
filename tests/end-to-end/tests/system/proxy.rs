//! An endpoint between the handler and the local cloud that can be told to hang.

use tokio::{
    io::{AsyncReadExt, copy_bidirectional},
    net::{TcpListener, TcpStream},
    sync::watch,
};

/// Takes requests and never answers, until it is told where to pass them on to.
pub struct Proxy {
    pub endpoint: String,
    destination: watch::Sender<Option<String>>,
    asked: watch::Receiver<()>,
}

impl Proxy {
    /// A proxy that hangs.
    pub async fn hanging() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let (destination, state) = watch::channel(None);
        let (ask, asked) = watch::channel(());
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(serve(client, state.clone(), ask.clone()));
            }
        });
        Self { endpoint, destination, asked }
    }

    /// Waits until somebody has sent a request that is not answered.
    pub async fn asked(&mut self) {
        self.asked.changed().await.unwrap();
    }

    /// From now on new connections are passed on to this endpoint; those that hang are cut.
    pub fn release(&self, endpoint: &str) {
        let address = endpoint.trim_start_matches("http://").to_owned();
        self.destination.send(Some(address)).unwrap();
    }
}

async fn serve(
    mut client: TcpStream,
    mut state: watch::Receiver<Option<String>>,
    ask: watch::Sender<()>,
) {
    let destination = state.borrow_and_update().clone();
    if let Some(address) = destination {
        let mut server = TcpStream::connect(address).await.unwrap();
        let _ = copy_bidirectional(&mut client, &mut server).await;
        return;
    }
    let mut sink = [0; 4096];
    loop {
        tokio::select! {
            read = client.read(&mut sink) => match read {
                Ok(1..) => ask.send(()).unwrap(),
                Ok(0) | Err(_) => return,
            },
            _ = state.changed() => return,
        }
    }
}
