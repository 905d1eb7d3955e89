//! One connection of the runtime, and the matching connection to the Runtime API.

use std::{
    collections::VecDeque,
    io::{self, ErrorKind},
    sync::{Mutex, MutexGuard, PoisonError},
};

use tokio::{
    io::AsyncWriteExt,
    net::{
        TcpStream,
        tcp::{ReadHalf, WriteHalf},
    },
};

use crate::exchange::{Answers, Asked, Requests};

const READ_MAX: usize = 64 * 1024;

/// The requests without an answer so far, in their order.
type Open = Mutex<VecDeque<Asked>>;

/// Passes on the bytes of both sides until both have ended. If the connection of one side is reset, so is that of the
/// other side.
pub async fn relay(mut client: TcpStream, mut upstream: TcpStream) -> io::Result<()> {
    // Small messages go out at once, as the peers intended.
    client.set_nodelay(true)?;
    upstream.set_nodelay(true)?;
    let open = Open::default();
    let (from_client, to_client) = client.split();
    let (from_upstream, to_upstream) = upstream.split();
    let (up, down) = (up(from_client, to_upstream, &open), down(from_upstream, to_client, &open));
    let ended = tokio::try_join!(up, down);
    if ended.is_err() {
        client.set_zero_linger()?;
        upstream.set_zero_linger()?;
    }
    ended.map(drop)
}

async fn up(from: ReadHalf<'_>, mut to: WriteHalf<'_>, open: &Open) -> io::Result<()> {
    let mut requests = Requests::new();
    loop {
        let read = read(&from, |bytes| {
            // The bytes are observed before they are sent, so that every answer belongs to a known request.
            requests.look(bytes, &mut lock(open));
            let sent = to.try_write(bytes).unwrap_or_default();
            Ok(bytes[sent..].to_vec())
        });
        match read.await? {
            // An API that refuses a request stops reading it. Its answer is still passed on.
            Some(unsent) if to.write_all(&unsent).await.is_err() => return Ok(()),
            Some(_) => {}
            None => return to.shutdown().await,
        }
    }
}

/// Passes on answers as they arrive, except events.
async fn down(from: ReadHalf<'_>, mut to: WriteHalf<'_>, open: &Open) -> io::Result<()> {
    let mut answers = Answers::new();
    loop {
        let mut out = Vec::new();
        let read = read(&from, |bytes| {
            answers.pass(bytes, &mut lock(open), &mut out);
            Ok(())
        });
        let read = read.await;
        if !matches!(read, Ok(Some(()))) {
            answers.end(&mut out);
        }
        to.write_all(&out).await?;
        if read?.is_none() {
            return to.shutdown().await;
        }
    }
}

/// Waits for bytes and passes them to `with`; returns `None` at the end of the stream. It holds no buffer while it
/// waits, because a runtime may have any number of idle connections.
async fn read<T>(
    from: &ReadHalf<'_>,
    mut with: impl FnMut(&[u8]) -> io::Result<T>,
) -> io::Result<Option<T>> {
    loop {
        from.readable().await?;
        let mut bytes = [0; READ_MAX];
        match from.try_read(&mut bytes) {
            Ok(0) => return Ok(None),
            Ok(read) => return with(&bytes[..read]).map(Some),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
}

fn lock(open: &Open) -> MutexGuard<'_, VecDeque<Asked>> {
    open.lock().unwrap_or_else(PoisonError::into_inner)
}
