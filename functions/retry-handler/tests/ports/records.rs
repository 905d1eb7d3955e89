//! The requests to S3, and how its answers are interpreted.

use comeback_core::{
    arn::{FunctionArn, Home},
    fault::RecordFault,
    notice::Location,
};
use comeback_flow::ports::RECORD_MAX;
use retry_handler::S3Records;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::{answering, of_moto, request, response};

const PREFIX: &str = "aws/lambda/async/orders/2026/02/01/";

fn location(bucket: &str, rest: &str) -> Location {
    Location::of(bucket, &format!("{PREFIX}{rest}"), None).unwrap()
}

fn home() -> Home {
    FunctionArn::parse("arn:aws:lambda:us-east-1:123456789012:function:retry-handler")
        .unwrap()
        .home()
}

/// Sends a PUT to moto.
async fn put(path: &str, body: &[u8]) {
    let aws = of_moto();
    let host = aws.endpoint_url().unwrap().strip_prefix("http://").unwrap();
    let mut stream = tokio::net::TcpStream::connect(host).await.unwrap();
    let head = format!(
        "PUT {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\nauthorization: AWS4-HMAC-SHA256 Credential=key/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(body).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

async fn read(bucket: &str, rest: &str) -> Result<Vec<u8>, RecordFault> {
    S3Records::new(&of_moto()).read(&location(bucket, rest), &home()).await
}

#[tokio::test]
async fn an_object_is_read_byte_for_byte_under_a_key_of_any_characters() {
    put("/any-key", b"").await;
    for (rest, path) in [
        ("plain-3f1c", "plain-3f1c"),
        ("a b", "a%20b"),
        ("a+b", "a%2Bb"),
        ("é☃", "%C3%A9%E2%98%83"),
    ] {
        let body = [rest.as_bytes(), &[0, 255, b'\r', b'\n']].concat();
        put(&format!("/any-key/{PREFIX}{path}"), &body).await;
        assert_eq!(read("any-key", rest).await, Ok(body), "{rest}");
    }
}

#[tokio::test]
async fn an_object_or_a_bucket_that_is_not_there_is_gone() {
    put("/not-there", b"").await;
    assert_eq!(read("not-there", "x").await, Err(RecordFault::Gone));
    assert_eq!(read("no-such-bucket", "x").await, Err(RecordFault::Gone));
}

#[tokio::test]
async fn an_object_of_8_mib_is_read_and_one_byte_more_is_too_large() {
    put("/large", b"").await;
    for (size, is_read) in [(RECORD_MAX, true), (RECORD_MAX + 1, false)] {
        let body = vec![b'x'; size];
        put(&format!("/large/{PREFIX}{size}"), &body).await;
        let got = read("large", &size.to_string()).await;
        assert_eq!(got, if is_read { Ok(body) } else { Err(RecordFault::TooLarge) });
    }
}

/// What comes of this answer to a read.
async fn of(answer: impl Into<Vec<u8>>) -> Result<Vec<u8>, RecordFault> {
    let (endpoint, asked) = answering(answer).await;
    let aws = of_moto().into_builder().endpoint_url(endpoint).build();
    let read = S3Records::new(&aws).read(&location("records", "x"), &home()).await;
    let asked = asked.await.unwrap();
    assert!(asked.starts_with(&format!("GET /records/{PREFIX}x HTTP/1.1")), "{asked}");
    assert!(asked.contains("x-amz-expected-bucket-owner: 123456789012"), "{asked}");
    read
}

#[tokio::test]
async fn errors_are_known_by_their_codes_and_pass_or_wait_for_a_person() {
    for (status, code, passes) in [
        (403, "AccessDenied", false),
        (400, "KMS.DisabledException", false),
        (301, "PermanentRedirect", false),
        (503, "SlowDown", true),
        (500, "InternalError", true),
    ] {
        let xml = format!("<Error><Code>{code}</Code><Message>why</Message></Error>");
        let Err(RecordFault::Store(fault)) = of(response(status, "", &xml)).await else {
            panic!("{code}");
        };
        assert_eq!((fault.is_transient, fault.code.as_deref()), (passes, Some(code)));
        assert_eq!(fault.message, "why");
    }
    let Err(RecordFault::Store(fault)) = of(response(502, "", "<html>")).await else { panic!() };
    assert_eq!((fault.is_transient, &*fault.message), (true, "S3 answered with HTTP status 502"));
}

#[tokio::test]
async fn an_answer_that_is_cut_off_passes_and_one_that_is_too_large_is_not_read_to_its_end() {
    let cut = "HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf";
    let Err(RecordFault::Store(fault)) = of(cut).await else { panic!("half a record") };
    assert!(fault.is_transient && fault.message.contains("cut off"), "{fault}");
    let announced = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", RECORD_MAX + 1);
    assert_eq!(of(announced).await, Err(RecordFault::TooLarge));
    let chunk = vec![b'x'; RECORD_MAX + 1];
    let head =
        format!("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n{:x}\r\n", chunk.len());
    assert_eq!(of([head.as_bytes(), &chunk].concat()).await, Err(RecordFault::TooLarge));
}

#[tokio::test]
async fn a_request_whose_connection_is_closed_is_made_once_more() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let served = tokio::spawn(async move {
        drop(request(&listener).await);
        let (_, mut stream) = request(&listener).await;
        stream.write_all(response(200, "", "record").as_bytes()).await.unwrap();
    });
    let aws = of_moto().into_builder().endpoint_url(endpoint).build();
    let read = S3Records::new(&aws).read(&location("records", "x"), &home()).await;
    assert_eq!(read, Ok(b"record".to_vec()));
    served.await.unwrap();
}
