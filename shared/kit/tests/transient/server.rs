//! Servers that fail.

use rcgen::{CertifiedKey, generate_simple_self_signed};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};
use tokio_rustls::{TlsAcceptor, rustls::ServerConfig};

/// Where nobody listens.
pub async fn nowhere() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    listener.local_addr().unwrap().to_string()
}

/// A server that gives this answer to one request, word for word, and closes the connection.
pub async fn answering(answer: String) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        read_head(&mut stream).await;
        stream.write_all(answer.as_bytes()).await.unwrap();
        stream.shutdown().await.unwrap();
        // Until the client has gone too: what it still sends would reset the connection.
        let _ = tokio::io::copy(&mut stream, &mut tokio::io::sink()).await;
    });
    address
}

/// A server that begins its answer to one request so, and never goes on.
pub async fn silent_after(beginning: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        read_head(&mut stream).await;
        stream.write_all(beginning.as_bytes()).await.unwrap();
        let _ = tokio::io::copy(&mut stream, &mut tokio::io::sink()).await;
    });
    address
}

/// A server whose certificate nobody has signed but itself.
pub async fn untrusted() -> String {
    let CertifiedKey { cert, signing_key } =
        generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let key = signing_key.serialize_der().try_into().unwrap();
    let config = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![cert.der().clone()], key)
        .unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        // The client breaks it off.
        TlsAcceptor::from(std::sync::Arc::new(config)).accept(stream).await.unwrap_err();
    });
    address
}

/// A response with these headers, each with its line's end, and this body.
pub fn response(status: u16, headers: &str, body: &str) -> String {
    format!("HTTP/1.1 {status} x\r\n{headers}content-length: {}\r\n\r\n{body}", body.len())
}

async fn read_head(stream: &mut (impl AsyncRead + Unpin)) {
    let mut request = Vec::new();
    while !request.windows(4).any(|end| end == b"\r\n\r\n") {
        assert_ne!(stream.read_buf(&mut request).await.unwrap(), 0, "a request");
    }
}
