//! Through reqwest and hyper.

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

use crate::server::{answering, nowhere, response, silent_after};

const UNAVAILABLE: Verdict = Verdict::retry(Kind::Unavailable);
const IN_DOUBT: Verdict = Verdict::retry(Kind::InDoubt);
const TIMED_OUT: Verdict = Verdict::retry(Kind::TimedOut);

fn url(address: &str) -> Url {
    format!("http://{address}/").parse().unwrap()
}

/// What becomes of asking there for a number in JSON.
async fn ask(address: &str) -> Result<u32, Box<dyn Error + Send + Sync>> {
    let client = reqwest::Client::builder().no_proxy().build()?;
    let response = client.get(url(address)).send().await?;
    Ok(HttpStatus::check(response).await?.json().await?)
}

/// The verdict on what becomes of it.
async fn verdict(address: &str) -> Verdict {
    let error = ask(address).await.unwrap_err();
    let verdict = Boxed.judge(&error);
    // An error inside an error of the author's is no other.
    assert_eq!(judge(&std::io::Error::other(error)), verdict);
    verdict
}

#[tokio::test]
async fn an_answer_is_no_error() {
    let server = answering(response(200, "", "12")).await;
    assert_eq!(ask(&server).await.unwrap(), 12);
}

#[tokio::test]
async fn a_connection_that_is_refused_is_transient() {
    assert_eq!(verdict(&nowhere().await).await, UNAVAILABLE);
}

#[tokio::test]
async fn a_name_that_is_not_found_is_transient() {
    assert_eq!(verdict("no..name:80").await, UNAVAILABLE);
}

#[tokio::test]
async fn a_connection_that_is_closed_without_an_answer_is_transient() {
    assert_eq!(verdict(&answering(String::new()).await).await, IN_DOUBT);
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_transient_wherever_it_does() {
    let whole = response(200, "", "123456");
    for end in [5, 15, 35, whole.len() - 3] {
        let server = answering(whole[..end].to_owned()).await;
        assert_eq!(verdict(&server).await, IN_DOUBT, "{:?}", &whole[..end]);
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_does_not_come_in_time_is_a_time_out() {
    let client = reqwest::Client::builder().no_proxy().timeout(Duration::from_secs(3)).build();
    let error = client.unwrap().get(url(&silent_after("").await)).send().await.unwrap_err();
    assert_eq!(Standard.judge(&error), TIMED_OUT, "{error:?}");
}

#[tokio::test(start_paused = true)]
async fn a_body_that_does_not_come_in_time_is_a_time_out() {
    let client = reqwest::Client::builder().no_proxy().read_timeout(Duration::from_secs(3)).build();
    let body = silent_after("HTTP/1.1 200 x\r\ncontent-length: 9\r\n\r\n12").await;
    let response = client.unwrap().get(url(&body)).send().await.unwrap();
    let error = response.json::<u32>().await.unwrap_err();
    assert_eq!(Standard.judge(&error), TIMED_OUT, "{error:?}");
}

/// Names that nobody ever knows anything of.
struct Silent;

impl Resolve for Silent {
    fn resolve(&self, _: Name) -> Resolving {
        Box::pin(std::future::pending())
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_is_not_made_in_time_has_asked_for_nothing() {
    let client = reqwest::Client::builder().no_proxy().dns_resolver(Silent);
    let client = client.connect_timeout(Duration::from_secs(3)).build().unwrap();
    let error = client.get(url("example.com")).send().await.unwrap_err();
    assert_eq!(Standard.judge(&error), UNAVAILABLE, "{error:?}");
    assert!(!may_be_done(&error));
}

#[tokio::test]
async fn a_success_whose_body_can_not_be_read_leaves_in_doubt_what_was_done() {
    let chunked = "HTTP/1.1 200 x\r\ntransfer-encoding: chunked\r\n\r\nno length\r\n12";
    for answer in [response(200, "", "twelve"), response(201, "", ""), chunked.to_owned()] {
        let server = answering(answer.clone()).await;
        assert_eq!(verdict(&server).await, IN_DOUBT, "{answer:?}");
    }
}

#[tokio::test]
async fn what_is_no_http_is_never_asked_for_again() {
    let server = answering("SSH-2.0-OpenSSH_9.6\r\n\r\n".to_owned()).await;
    assert_eq!(verdict(&server).await, Verdict::Never);
}

#[tokio::test]
async fn what_a_server_says_of_a_refusal_is_kept_and_told() {
    let declined = r#"{"error":{"code":"card_declined"}}"#;
    let server = answering(response(402, "", declined)).await;
    let error = ask(&server).await.unwrap_err();
    let status = error.downcast_ref::<HttpStatus>().unwrap();
    assert_eq!(status.body(), declined);
    let told = format!("the response has the status 402 Payment Required: {declined}");
    assert_eq!(Failure::from(error).message(), told);
}

#[tokio::test]
async fn a_refusal_whose_body_breaks_off_is_a_refusal() {
    let whole = response(402, "", "card declined");
    let server = answering(whole[..whole.len() - 4].to_owned()).await;
    let error = ask(&server).await.unwrap_err();
    assert_eq!(Boxed.judge(&error), Verdict::Never, "{error:?}");
}

#[tokio::test]
async fn a_hint_of_a_status_reaches_the_retry_loop_without_a_retry_around_it() {
    for (status, header, error_type) in [
        (429, "retry-after: 7\r\n", "RetryAfter"),
        (503, "retry-after: 7\r\n", "RetryAfter"),
        (409, "retry-after: 7\r\n", "RetryAfter"),
        (503, "retry-after: 0\r\n", "Error"),
        (503, "", "Error"),
        (403, "retry-after: 7\r\n", "Error"),
    ] {
        let error = ask(&answering(response(status, header, "")).await).await.unwrap_err();
        let failure = Failure::from(error);
        assert_eq!(failure.error_type(), error_type, "{status} {header}");
        assert_eq!(failure.message().starts_with("7s: "), error_type == "RetryAfter", "{failure}");
    }
}

#[tokio::test]
async fn no_query_user_or_password_of_a_request_is_told() {
    let url = format!("http://user:hunter2@{}/rates?api_key=hunter2", nowhere().await);
    let error = reqwest::Client::builder().no_proxy().build().unwrap().get(&url).send().await;
    let error = error.unwrap_err();
    assert!(error.to_string().contains("hunter2"), "{error}");
    let failure = Failure::from(error);
    assert!(!failure.message().contains("hunter2"), "{failure}");
    assert!(failure.message().contains("/rates"), "{failure}");
}

#[tokio::test(start_paused = true)]
async fn reqwest_0_12_tells_the_same() {
    let client = || reqwest_0_12::Client::builder().no_proxy().timeout(Duration::from_secs(3));
    let ask = async |address: String| -> Result<u32, Box<dyn Error + Send + Sync>> {
        let answer = client().build()?.get(url(&address)).send().await?;
        Ok(HttpStatus::check(answer).await?.json().await?)
    };
    let busy = response(503, "retry-after: 7\r\n", "busy");
    let hint = Some(RetryHint::In(Duration::from_secs(7)));
    for (server, expected) in [
        (silent_after("").await, TIMED_OUT),
        (nowhere().await, UNAVAILABLE),
        (answering(String::new()).await, IN_DOUBT),
        (answering(response(200, "", "twelve")).await, IN_DOUBT),
        (answering(busy).await, Verdict::Retry(Transient { kind: Kind::Unavailable, hint })),
        (answering(response(422, "", "")).await, Verdict::Never),
    ] {
        let error = ask(server).await.unwrap_err();
        assert_eq!(Boxed.judge(&error), expected, "{error:?}");
    }
    let answer = client().build().unwrap().get(url(&answering(response(503, "", "")).await)).send();
    let error = answer.await.unwrap().error_for_status().unwrap_err();
    assert_eq!(Standard.judge(&error), UNAVAILABLE, "{error:?}");
}

#[tokio::test]
async fn a_request_that_can_not_be_made_is_never_made_again() {
    for url in ["no url", "ftp://127.0.0.1/"] {
        let error = reqwest::Client::new().get(url).send().await.unwrap_err();
        assert_eq!(Standard.judge(&error), Verdict::Never, "{error:?}");
    }
}

#[tokio::test]
async fn a_redirect_too_many_is_never_followed_again() {
    let server = answering(response(302, "location: /\r\n", "")).await;
    let policy = reqwest::redirect::Policy::custom(|attempt| attempt.error("too many"));
    let client = reqwest::Client::builder().no_proxy().redirect(policy).build().unwrap();
    let error = client.get(url(&server)).send().await.unwrap_err();
    assert_eq!(Standard.judge(&error), Verdict::Never, "{error:?}");
}

#[tokio::test]
async fn a_status_keeps_when_the_server_wants_to_be_asked_again() {
    let hint = Some(RetryHint::In(Duration::from_secs(7)));
    let kept = |kind| Verdict::Retry(Transient { kind, hint });
    for (status, expected) in [
        (429, kept(Kind::Throttled)),
        (500, kept(Kind::InDoubt)),
        (503, kept(Kind::Unavailable)),
        (504, kept(Kind::TimedOut)),
        (403, Verdict::Never),
        (404, Verdict::Never),
    ] {
        let server = answering(response(status, "retry-after: 7\r\n", "")).await;
        assert_eq!(verdict(&server).await, expected, "{status}");
    }
}

#[tokio::test]
async fn a_status_that_reqwest_tells_counts_as_well_but_for_the_servers_hint() {
    for (status, expected) in [(503, UNAVAILABLE), (400, Verdict::Never)] {
        let server = answering(response(status, "retry-after: 7\r\n", "")).await;
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        let answer = client.get(url(&server)).send().await.unwrap();
        let error = answer.error_for_status().unwrap_err();
        assert_eq!(Standard.judge(&error), expected, "{status}");
    }
}

#[tokio::test]
async fn hyper_by_itself_tells_the_same() {
    let closed = answering(String::new()).await;
    let broken = answering("HTTP/1.1 200".to_owned()).await;
    let nonsense = answering("SSH-2.0-OpenSSH_9.6\r\n\r\n".to_owned()).await;
    for (server, expected) in [
        (nowhere().await, UNAVAILABLE),
        (closed, IN_DOUBT),
        (broken, IN_DOUBT),
        (nonsense, Verdict::Never),
    ] {
        let client = Client::builder(TokioExecutor::new()).build_http::<String>();
        let error = client.get(format!("http://{server}/").parse().unwrap()).await.unwrap_err();
        assert_eq!(Standard.judge(&error), expected, "{error:?}");
    }
}
