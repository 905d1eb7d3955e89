//! Tests the verdicts on errors of real connections and responses.

mod aws;
mod http;

use std::sync::{Arc, OnceLock};

use rcgen::{CertifiedKey, generate_simple_self_signed};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpSocket},
};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{ServerConfig, crypto::aws_lc_rs},
};

/// An address on which no server listens.
fn nowhere() -> String {
    // Its port is taken, so no other test listens there.
    static BOUND: OnceLock<TcpSocket> = OnceLock::new();
    let socket = BOUND.get_or_init(|| {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        socket
    });
    socket.local_addr().unwrap().to_string()
}

/// A server that responds to one request with exactly these bytes, and closes the connection.
async fn answering(answer: String) -> String {
    serve(answer, true).await
}

/// A server that responds to one request with these bytes, and then stays silent.
async fn silent_after(start: &str) -> String {
    serve(start.to_owned(), false).await
}

async fn serve(answer: String, closes: bool) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        read_head(&mut stream).await;
        stream.write_all(answer.as_bytes()).await.unwrap();
        if closes {
            stream.shutdown().await.unwrap();
        }
        // Read until the client closes the connection, because unread bytes would reset it.
        let _ = tokio::io::copy(&mut stream, &mut tokio::io::sink()).await;
    });
    address
}

/// A server with a self-signed certificate.
async fn untrusted() -> String {
    let CertifiedKey { cert, signing_key } =
        generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let key = signing_key.serialize_der().try_into().unwrap();
    // A build of the whole workspace has two providers, and rustls chooses none of them by itself.
    let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![cert.der().clone()], key)
        .unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        // The client aborts the handshake.
        TlsAcceptor::from(Arc::new(config)).accept(stream).await.unwrap_err();
    });
    address
}

/// A response with this body and these headers, each of which ends with a line break.
fn response(status: u16, headers: &str, body: &str) -> String {
    format!("HTTP/1.1 {status} x\r\n{headers}content-length: {}\r\n\r\n{body}", body.len())
}

async fn read_head(stream: &mut (impl AsyncRead + Unpin)) {
    let mut request = Vec::new();
    while !request.windows(4).any(|end| end == b"\r\n\r\n") {
        assert_ne!(stream.read_buf(&mut request).await.unwrap(), 0, "a request");
    }
}
