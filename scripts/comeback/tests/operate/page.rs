//! Requests to the live page of a local cloud, without a browser. `tests/page` has those with one.

use std::{
    io::{Read, Write},
    net::TcpStream,
};

use crate::support::{Cloud, TARGET};
use comeback_local_client::deploy::Function;

/// The text of the answer to a request of the page.
pub fn ask(cloud: &Cloud, method: &str, path: &str, form: &str) -> String {
    let address = cloud.endpoint.strip_prefix("http://").unwrap();
    let mut browser = TcpStream::connect(address).unwrap();
    write!(
        browser,
        "{method} {path} HTTP/1.1\r\nhost: {address}\r\norigin: http://{address}\r\nconnection: close\r\n\
         content-type: application/x-www-form-urlencoded\r\ncontent-length: {}\r\n\r\n{form}",
        form.len()
    )
    .unwrap();
    let mut answer = String::new();
    browser.read_to_string(&mut answer).unwrap();
    answer
}

/// What the page asks for confirmation, once it has found the retry handler. It looks for that while it is open.
fn planned(cloud: &Cloud, query: &str) -> String {
    loop {
        ask(cloud, "GET", "/", "");
        let answer = ask(cloud, "GET", &format!("/confirm?{query}"), "");
        if !answer.contains("no retry handler was found yet") {
            return answer;
        }
    }
}

pub fn confirm(cloud: &Cloud, query: &str) {
    let page = planned(cloud, query);
    let csrf = page.split("name=\"csrf\" value=\"").nth(1).unwrap().split('"').next().unwrap();
    let started = ask(cloud, "POST", "/do", &format!("csrf={csrf}&planned=1&{query}"));
    assert!(started.starts_with("HTTP/1.1 303"), "{started}");
}

#[tokio::test]
async fn a_request_whose_filter_is_a_slip_is_refused() {
    let cloud = Cloud::start(&[]);
    cloud.send(&["{}".to_owned()], &[]).await;
    for (query, part) in [
        ("do=purge&id=", "id: expected a value, got none"),
        ("do=redrive&function=&error=a", "function: expected a value"),
        ("do=cancel&error=", "error: expected a value"),
        ("do=purge&function=*", "the filter function '*' matches everything"),
        ("do=cancel&error=**", "matches everything"),
        ("do=purge&chosen=id", "nothing is selected"),
        ("do=cancel&chosen=id", "nothing is selected"),
        ("do=redrive&reason=not_retriable", "did you mean not_retryable?"),
        ("do=pause&function=example-targt", "did you mean example-target?"),
        ("do=pause&function=", "function: expected a value"),
        ("do=resume&function=example-targt", "did you mean example-target?"),
    ] {
        let refused = planned(&cloud, query);
        assert!(refused.contains(part), "{query}: {refused}");
        assert!(!refused.contains("name=\"planned\""), "{query}: {refused}");
    }
    for query in ["do=purge", "do=purge&chosen=id&id=x", "do=pause&function=example-target"] {
        let asked = planned(&cloud, query);
        assert!(asked.contains("name=\"planned\""), "{query}: {asked}");
    }
}

#[tokio::test]
async fn a_letter_of_a_tenant_is_redriven_with_its_tenant_id() {
    let policies = r#"POLICIES={"by-tenant":{"TENANT_ID":"/tenant"}}"#;
    let cloud = Cloud::start(&["--set", policies]);
    let function = Function { tenants: true, ..Cloud::function("by-tenant") };
    cloud.client.create(&function).await.unwrap();
    let payload = r#"{"id":"1","tenant":"blue"}"#;
    let arn = TARGET.replace("example-target", "by-tenant");
    cloud.send(&[payload.to_owned()], &[("FunctionArn", &arn)]).await;
    confirm(&cloud, "do=redrive");
    assert_eq!(cloud.runs_of("by-tenant", 1).await, [payload]);
    while cloud.letters().await != [0, 0] {}
}
