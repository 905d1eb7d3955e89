//! A proxy before DynamoDB that now and then kills a handler when it is about to note what Lambda has accepted. What
//! the handler sent is not forwarded, so Lambda has the invocation, and nobody knows its request id.

use std::{
    fs,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use end_to_end::{
    processes::{self, Pid},
    retry_loop::HANDLER,
};
use rand::{Rng as _, SeedableRng as _, rngs::Xoshiro256PlusPlus};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};

/// One in so many answers is not noted. By time instead, the last events would never be noted.
const CUT_ONE_IN: u64 = 60;

pub struct Cutter {
    pub endpoint: String,
    killed: Arc<AtomicUsize>,
}

/// What each connection knows.
#[derive(Clone)]
struct Shared {
    /// The address of DynamoDB.
    behind: Arc<str>,
    /// The process whose descendants the handlers are.
    cloud: u32,
    /// The port of the proxy itself.
    port: u16,
    /// Draws which handlers are killed.
    rng: Arc<Mutex<Xoshiro256PlusPlus>>,
    killed: Arc<AtomicUsize>,
}

impl Cutter {
    /// Begins to forward to the DynamoDB at this endpoint.
    pub async fn before(endpoint: &str, cloud: u32, seed: u64) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let own = listener.local_addr().unwrap();
        let killed = Arc::new(AtomicUsize::new(0));
        let shared = Shared {
            behind: endpoint.trim_start_matches("http://").into(),
            cloud,
            port: own.port(),
            rng: Arc::new(Mutex::new(Xoshiro256PlusPlus::seed_from_u64(!seed))),
            killed: Arc::clone(&killed),
        };
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(forward(client, shared.clone()));
            }
        });
        Self { endpoint: format!("http://{own}"), killed }
    }

    pub fn killed(&self) -> usize {
        self.killed.load(Ordering::SeqCst)
    }
}

impl Shared {
    fn is_cut(&self) -> bool {
        self.rng.lock().unwrap().next_u64().is_multiple_of(CUT_ONE_IN)
    }
}

/// Forwards the requests of one connection, and their responses.
async fn forward(mut client: TcpStream, shared: Shared) -> Option<()> {
    let mut server = TcpStream::connect(&*shared.behind).await.ok()?;
    loop {
        let request = message(&mut client).await?;
        if notes_an_answer(&request) && shared.is_cut() {
            let sender = sender(client.peer_addr().ok()?.port(), &shared)?;
            shared.killed.fetch_add(usize::from(processes::kill(sender)), Ordering::SeqCst);
            return None;
        }
        server.write_all(&request).await.ok()?;
        client.write_all(&message(&mut server).await?).await.ok()?;
    }
}

/// Whether this is the write after Lambda's answer: the note names its parent.
fn notes_an_answer(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request);
    text.contains("UpdateItem") && text.contains(r#""parent_call""#)
}

/// Reads a request or a response with its body.
async fn message(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let mut read = Vec::new();
    let end_of_head = loop {
        if let Some(at) = read.windows(4).position(|end| end == b"\r\n\r\n") {
            break at + 4;
        }
        if stream.read_buf(&mut read).await.ok()? == 0 {
            return None;
        }
    };
    let head = String::from_utf8_lossy(&read[..end_of_head]).to_ascii_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length:"));
    let length: usize = length.map_or(Some(0), |length| length.trim().parse().ok())?;
    while read.len() < end_of_head + length {
        if stream.read_buf(&mut read).await.ok()? == 0 {
            return None;
        }
    }
    Some(read)
}

/// The handler that has this port of a connection to the proxy.
fn sender(port: u16, shared: &Shared) -> Option<Pid> {
    let sockets = fs::read_to_string("/proc/net/tcp").ok()?;
    let (own, other) = (format!("0100007F:{port:04X}"), format!("0100007F:{:04X}", shared.port));
    let inode = sockets.lines().find_map(|line| {
        let fields: Vec<_> = line.split_whitespace().collect();
        (fields.get(1) == Some(&&*own) && fields.get(2) == Some(&&*other)).then(|| fields[9])
    })?;
    let socket = format!("socket:[{inode}]");
    let has_it = |pid: &Pid| {
        let files = fs::read_dir(format!("/proc/{}/fd", pid.as_raw_pid()));
        let mut files = files.into_iter().flatten().flatten();
        files.any(|file| fs::read_link(file.path()).is_ok_and(|of| of.as_os_str() == &*socket))
    };
    processes::descendants(shared.cloud, HANDLER).into_iter().find(has_it)
}
