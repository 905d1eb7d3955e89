//! Tests errors of reqwest and hyper.

use std::{error::Error, time::Duration};

use comeback::{
    Failure,
    transient::{
        Boxed, HttpStatus, Kind, RetryHint, Rule, Standard, Transient, Verdict, judge, may_be_done,
    },
};
use hyper_util::{client::legacy::Client, rt::TokioExecutor};
use reqwest::{
    Url,
    dns::{Name, Resolve, Resolving},
};

use super::{answering, nowhere, response, silent_after};

const UNAVAILABLE: Verdict = Verdict::retry(Kind::Unavailable);
const IN_DOUBT: Verdict = Verdict::retry(Kind::InDoubt);
const TIMED_OUT: Verdict = Verdict::retry(Kind::TimedOut);

fn url(address: &str) -> Url {
    format!("http://{address}/").parse().unwrap()
}

/// Requests a JSON number from this address.
async fn ask(address: &str) -> Result<u32, Box<dyn Error + Send + Sync>> {
    let client = reqwest::Client::builder().no_proxy().build()?;
    let response = client.get(url(address)).send().await?;
    Ok(HttpStatus::check(response).await?.json().await?)
}

/// The verdict on the error of a request to this address.
async fn verdict(address: &str) -> Verdict {
    let error = ask(address).await.unwrap_err();
    let verdict = Boxed.judge(&error);
    // The verdict is the same inside another error.
    assert_eq!(judge(&std::io::Error::other(error)), verdict);
    verdict
}

/// Addresses that don't return a complete response head, and the expected verdict on each.
async fn unanswering() -> Vec<(String, Verdict)> {
    let mut all = vec![(nowhere(), UNAVAILABLE), ("no..name:80".to_owned(), UNAVAILABLE)];
    for (answer, expected) in [
        ("", IN_DOUBT),
        ("HTTP/", IN_DOUBT),
        ("HTTP/1.1 200 x\r", IN_DOUBT),
        ("HTTP/1.1 200 x\r\ncontent-length: 6\r\n", IN_DOUBT),
        ("SSH-2.0-OpenSSH_9.6\r\n\r\n", Verdict::Never),
    ] {
        all.push((answering(answer.to_owned()).await, expected));
    }
    all
}

#[tokio::test]
async fn a_failed_connection_is_transient_with_and_without_reqwest() {
    assert_eq!(ask(&answering(response(200, "", "12")).await).await.unwrap(), 12);
    for (address, expected) in unanswering().await {
        assert_eq!(verdict(&address).await, expected, "{address}");
    }
    for (server, expected) in unanswering().await {
        let client = Client::builder(TokioExecutor::new()).build_http::<String>();
        let error = client.get(format!("http://{server}/").parse().unwrap()).await.unwrap_err();
        assert_eq!(Standard.judge(&error), expected, "{error:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_response_or_a_body_that_does_not_arrive_is_a_timeout() {
    let client = || reqwest::Client::builder().no_proxy();
    let client_of_all = client().timeout(Duration::from_secs(3)).build().unwrap();
    let error = client_of_all.get(url(&silent_after("").await)).send().await.unwrap_err();
    assert_eq!(Standard.judge(&error), TIMED_OUT, "{error:?}");

    let client_of_reads = client().read_timeout(Duration::from_secs(3)).build().unwrap();
    let body = silent_after("HTTP/1.1 200 x\r\ncontent-length: 9\r\n\r\n12").await;
    let response = client_of_reads.get(url(&body)).send().await.unwrap();
    let error = response.json::<u32>().await.unwrap_err();
    assert_eq!(Standard.judge(&error), TIMED_OUT, "{error:?}");
}

/// A resolver that never answers.
struct Silent;

impl Resolve for Silent {
    fn resolve(&self, _: Name) -> Resolving {
        Box::pin(std::future::pending())
    }
}

#[tokio::test(start_paused = true)]
async fn after_a_connect_timeout_nothing_was_done() {
    let client = reqwest::Client::builder().no_proxy().dns_resolver(Silent);
    let client = client.connect_timeout(Duration::from_secs(3)).build().unwrap();
    let error = client.get(url("example.com")).send().await.unwrap_err();
    assert_eq!(Standard.judge(&error), UNAVAILABLE, "{error:?}");
    assert!(!may_be_done(&error));
}

#[tokio::test]
async fn a_success_with_an_unreadable_or_truncated_body_is_in_doubt() {
    let chunked = "HTTP/1.1 200 x\r\ntransfer-encoding: chunked\r\n\r\nno length\r\n12";
    let truncated = response(200, "", "123456").replace("456", "");
    for answer in
        [response(200, "", "twelve"), response(201, "", ""), chunked.to_owned(), truncated]
    {
        let server = answering(answer.clone()).await;
        assert_eq!(verdict(&server).await, IN_DOUBT, "{answer:?}");
    }
}

#[tokio::test]
async fn the_body_of_a_refusal_is_kept() {
    let whole = response(402, "", "card declined");
    let broken = whole[..whole.len() - 4].to_owned();
    for (answer, body) in [(whole, "card declined"), (broken, "card decl")] {
        let error = ask(&answering(answer).await).await.unwrap_err();
        assert_eq!(Boxed.judge(&error), Verdict::Never, "{error:?}");
        assert_eq!(error.downcast_ref::<HttpStatus>().unwrap().body(), body);
        let message = format!("the response has the status 402 Payment Required: {body}");
        assert_eq!(Failure::from(error).message(), message);
    }
}

#[tokio::test]
async fn a_retry_hint_is_in_the_verdict_and_reaches_the_retry_loop() {
    let hint = Some(RetryHint::In(Duration::from_secs(7)));
    let hinted = |kind| Verdict::Retry(Transient { kind, hint });
    let now = Some(RetryHint::In(Duration::ZERO));
    for (status, header, expected, error_type) in [
        (429, "retry-after: 7\r\n", hinted(Kind::Throttled), "RetryAfter"),
        (409, "retry-after: 7\r\n", hinted(Kind::InDoubt), "RetryAfter"),
        (
            503,
            "retry-after: 0\r\n",
            Verdict::Retry(Transient { kind: Kind::Unavailable, hint: now }),
            "Error",
        ),
        (503, "", UNAVAILABLE, "Error"),
        (404, "retry-after: 7\r\n", Verdict::Never, "Error"),
    ] {
        let error = ask(&answering(response(status, header, "")).await).await.unwrap_err();
        assert_eq!(Boxed.judge(&error), expected, "{status} {header}");
        let failure = Failure::from(error);
        assert_eq!(failure.error_type(), error_type, "{status} {header}");
        assert_eq!(failure.message().starts_with("7s: "), error_type == "RetryAfter", "{failure}");
    }
}

#[tokio::test(start_paused = true)]
async fn reqwest_0_12_has_the_same_verdicts() {
    let client = reqwest_0_12::Client::builder().no_proxy().timeout(Duration::from_secs(3));
    let client = client.build().unwrap();
    let ask = async |address: String| -> Result<u32, Box<dyn Error + Send + Sync>> {
        let answer = client.get(url(&address)).send().await?;
        Ok(HttpStatus::check(answer).await?.json().await?)
    };
    let busy = response(503, "retry-after: 7\r\n", "busy");
    let hint = Some(RetryHint::In(Duration::from_secs(7)));
    for (server, expected) in [
        (silent_after("").await, TIMED_OUT),
        (answering(response(200, "", "twelve")).await, IN_DOUBT),
        (answering(busy).await, Verdict::Retry(Transient { kind: Kind::Unavailable, hint })),
        (nowhere(), UNAVAILABLE),
    ] {
        let error = ask(server).await.unwrap_err();
        assert_eq!(Boxed.judge(&error), expected, "{error:?}");
    }
}

#[tokio::test]
async fn an_error_of_reqwest_alone_has_its_verdict() {
    let too_many = reqwest::redirect::Policy::custom(|attempt| attempt.error("too many"));
    let client = reqwest::Client::builder().no_proxy().redirect(too_many).build().unwrap();
    let header = "location: /\r\nretry-after: 7\r\n";
    for (status, expected) in [(302, Verdict::Never), (503, UNAVAILABLE), (400, Verdict::Never)] {
        let server = answering(response(status, header, "")).await;
        let answer = client.get(url(&server)).send().await;
        let error = answer.and_then(reqwest::Response::error_for_status).unwrap_err();
        assert_eq!(Standard.judge(&error), expected, "{status}");
    }
    for unbuilt in ["no url", "ftp://127.0.0.1/"] {
        let error = client.get(unbuilt).send().await.unwrap_err();
        assert_eq!(Standard.judge(&error), Verdict::Never, "{error:?}");
    }
}
