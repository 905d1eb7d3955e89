//! The requests to CloudWatch, and how its answers are interpreted. They are CBOR.

use comeback_core::{Timestamp, circuit::Minute};
use comeback_flow::ports::Functions;
use retry_handler::LambdaFunctions;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

use super::{config, is_whole};

/// The head of a CBOR item of this kind with up to 23 members or bytes.
fn head(kind: u8, length: usize) -> u8 {
    assert!(length < 24);
    kind << 5 | u8::try_from(length).unwrap()
}

fn text(text: &str) -> Vec<u8> {
    [&[head(3, text.len())], text.as_bytes()].concat()
}

fn number(number: f64) -> Vec<u8> {
    [&[0xfb][..], &number.to_be_bytes()].concat()
}

fn array(items: &[Vec<u8>]) -> Vec<u8> {
    [vec![head(4, items.len())], items.concat()].concat()
}

fn map(members: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let written = members.iter().map(|(name, value)| [text(name), value.clone()].concat());
    [vec![head(5, members.len())], written.collect::<Vec<_>>().concat()].concat()
}

fn result(id: &str, sums: &[(f64, f64)]) -> Vec<u8> {
    // CBOR's tag 1 marks a time.
    let times: Vec<_> = sums.iter().map(|&(at, _)| [vec![0xc1], number(at)].concat()).collect();
    let values: Vec<_> = sums.iter().map(|&(_, sum)| number(sum)).collect();
    map(&[("Id", text(id)), ("Timestamps", array(&times)), ("Values", array(&values))])
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_timestamp(second, 0).unwrap()
}

/// Asks a server that gives this answer. Returns the request, with its binary parts replaced, and the minutes.
async fn asked(function: &str, answer: Vec<u8>) -> (String, Vec<Minute>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = Vec::new();
        while !is_whole(&request) {
            assert_ne!(stream.read_buf(&mut request).await.unwrap(), 0);
        }
        let headers = "smithy-protocol: rpc-v2-cbor\r\ncontent-type: application/cbor\r\n";
        let head = format!("HTTP/1.1 200 x\r\n{headers}content-length: {}\r\n\r\n", answer.len());
        stream.write_all(&[head.as_bytes(), &answer].concat()).await.unwrap();
        String::from_utf8_lossy(&request).into_owned()
    });
    let functions = LambdaFunctions::new(&config(&endpoint), true);
    let minutes = functions.minutes(function, at(1_769_947_230), at(1_769_947_700)).await.unwrap();
    (server.await.unwrap(), minutes)
}

#[tokio::test]
async fn the_sums_of_invocations_and_errors_are_put_together_by_the_minute() {
    let invocations = result("invocations", &[(1_769_947_260.0, 100.0), (1_769_947_200.0, 7.0)]);
    let errors = result("errors", &[(1_769_947_260.0, 97.0)]);
    let answer = map(&[("MetricDataResults", array(&[invocations, errors]))]);
    let function = "arn:aws:lambda:us-east-1:123456789012:function:orders:$LATEST";
    let (request, minutes) = asked(function, answer.clone()).await;
    let minute = |began, invocations, errors| Minute { began: at(began), invocations, errors };
    assert_eq!(minutes, [minute(1_769_947_200, 7, 0), minute(1_769_947_260, 100, 97)]);
    for part in ["/operation/GetMetricData", "AWS/Lambda", "Invocations", "Errors", "orders"] {
        assert!(request.contains(part), "{part}: {request}");
    }
    assert!(!request.contains("Resource"), "{request}");
    let (request, _) = asked(&function.replace("$LATEST", "live"), answer).await;
    assert!(request.contains("Resource") && request.contains("orders:live"), "{request}");
}
