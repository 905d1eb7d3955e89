//! Events in envelopes, as the runtime receives them.

use std::io::{Read, Write};

use super::{Api, Proxy, sees};

const NEXT: &[u8] = b"GET /2018-06-01/runtime/invocation/next HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n";
const CONTEXT: &str = r#"{"custom":{"comeback":"{\"attempt\":2,\"initial_timestamp\":1643667670,\"request_id\":\"e4b46cbf\"}"}}"#;

fn envelope(payload: &str) -> String {
    format!(
        r#"{{"_retry_metadata":{{"attempt":2,"initial_timestamp":1643667670,"request_id":"e4b46cbf"}},"_original_payload":{payload}}}"#
    )
}

#[test]
fn every_byte_of_a_payload_of_1_mib_arrives_and_the_connection_stays_usable() {
    let api = Api::new();
    let proxy = Proxy::before(&api);
    let (mut runtime, mut api) = proxy.connection(&api);
    let large = format!(r#"{{"b" :1.50,"a":"{}"}}"#, "é\\u00e9 ".repeat(100_000));
    for payload in [&large, "12345678901234567890.10", "null", &large] {
        runtime.write_all(NEXT).unwrap();
        sees(&mut api, NEXT);
        let body = envelope(payload);
        let head = format!(
            "HTTP/1.1 200 OK\r\nLambda-Runtime-Aws-Request-Id: 1\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        let answer = head + &body;
        let expected = format!(
            "HTTP/1.1 200 OK\r\nLambda-Runtime-Aws-Request-Id: 1\r\nContent-Length: {}\r\n\
             Lambda-Runtime-Client-Context: {CONTEXT}\r\n\r\n{payload}",
            payload.len()
        );
        std::thread::scope(|scope| {
            scope.spawn(|| api.write_all(answer.as_bytes()).unwrap());
            sees(&mut runtime, expected.as_bytes());
        });
    }
}

#[test]
fn events_for_several_threads_of_a_runtime_are_not_mixed_up() {
    let api = Api::new();
    let proxy = Proxy::before(&api);
    let mut connections: Vec<_> = (0..20).map(|_| proxy.connection(&api)).collect();
    for (runtime, _) in &mut connections {
        runtime.write_all(NEXT).unwrap();
    }
    for (number, (_, api)) in connections.iter_mut().enumerate().rev() {
        sees(api, NEXT);
        let body = envelope(&number.to_string());
        let length = body.len();
        write!(api, "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{body}").unwrap();
        api.shutdown(std::net::Shutdown::Write).unwrap();
    }
    for (number, (runtime, _)) in connections.iter_mut().enumerate() {
        let mut event = String::new();
        runtime.read_to_string(&mut event).unwrap();
        assert!(event.ends_with(&format!("\r\n\r\n{number}")), "{event}");
    }
}
