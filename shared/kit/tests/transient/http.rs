//! Through reqwest and hyper.

use std::{error::Error, time::Duration};

use comeback::transient::{
    Boxed, HttpStatus, Kind, RetryHint, Rule, Standard, Transient, Verdict, judge,
};
use hyper_util::{client::legacy::Client, rt::TokioExecutor};
use reqwest::Url;

use crate::server::{answering, nowhere, response, silent_after};

const UNAVAILABLE: Verdict = Verdict::retry(Kind::Unavailable);
const TIMED_OUT: Verdict = Verdict::retry(Kind::TimedOut);

fn url(address: &str) -> Url {
    format!("http://{address}/").parse().unwrap()
}

/// What becomes of asking there for a number in JSON.
async fn ask(address: &str) -> Result<u32, Box<dyn Error + Send + Sync>> {
    let client = reqwest::Client::builder().no_proxy().build()?;
    let response = client.get(url(address)).send().await?;
    Ok(HttpStatus::check(response)?.json().await?)
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
    assert_eq!(verdict(&answering(String::new()).await).await, UNAVAILABLE);
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_transient_wherever_it_does() {
    let whole = response(200, "", "123456");
    for end in [5, 15, 35, whole.len() - 3] {
        let server = answering(whole[..end].to_owned()).await;
        assert_eq!(verdict(&server).await, UNAVAILABLE, "{:?}", &whole[..end]);
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

#[tokio::test]
async fn an_answer_that_is_not_understood_is_never_asked_for_again() {
    for answer in [response(200, "", "twelve"), "SSH-2.0-OpenSSH_9.6\r\n\r\n".to_owned()] {
        let server = answering(answer.clone()).await;
        assert_eq!(verdict(&server).await, Verdict::Never, "{answer:?}");
    }
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
        (500, kept(Kind::Unavailable)),
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
        (closed, UNAVAILABLE),
        (broken, UNAVAILABLE),
        (nonsense, Verdict::Never),
    ] {
        let client = Client::builder(TokioExecutor::new()).build_http::<String>();
        let error = client.get(format!("http://{server}/").parse().unwrap()).await.unwrap_err();
        assert_eq!(Standard.judge(&error), expected, "{error:?}");
    }
}
