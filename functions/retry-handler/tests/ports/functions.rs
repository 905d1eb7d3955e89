//! Invocations, and CloudWatch's counts of them.

use std::time::Duration;

use aws_config::{SdkConfig, retry::RetryConfig};
use comeback_core::{Timestamp, circuit::Minute, fault::FaultKind, reason::Reason};
use comeback_flow::ports::{CallFault, Functions, Invocation, Invoked};
use minicbor::{Encoder, data::IanaTag};
use moto::config;
use retry_handler::LambdaFunctions;
use tokio::{
    io::AsyncWriteExt,
    net::{TcpListener, TcpSocket},
};

use super::{answering, request, response};

const PAYLOAD: &str = r#"{"a":1.0}"#;

async fn invoke(endpoint: &str, trace_header: Option<&str>) -> Invoked {
    invoke_with(&config(endpoint), trace_header).await
}

async fn invoke_with(aws: &SdkConfig, trace_header: Option<&str>) -> Invoked {
    let functions = LambdaFunctions::new(aws, false);
    let function = "arn:aws:lambda:us-east-1:123456789012:function:orders:$LATEST";
    let payload = PAYLOAD.to_owned();
    let tenant_id = Some("blue @1".into());
    let execution_name = Some("3b72eb0b-1".into());
    let invocation = Invocation { function, payload, tenant_id, execution_name, trace_header };
    functions.invoke(invocation).await
}

#[tokio::test]
async fn an_invocation_is_asynchronous_with_the_tenant_the_execution_and_the_trace_of_its_message()
{
    let (endpoint, asked) = answering(response(202, "x-amzn-requestid: r-2\r\n", "")).await;
    let trace = "Root=1-5759e988-bd862e3fe1be46a994272793;Lineage=a87bd80c:3";
    let invoked = invoke(&endpoint, Some(trace)).await;
    let id = Some("r-2".to_owned());
    assert_eq!(invoked, Invoked { answer: Ok(id), unanswered: 0 });
    let asked = asked.await.unwrap();
    let path = "/2015-03-31/functions/arn%3Aaws%3Alambda%3Aus-east-1%3A123456789012%3Afunction%3Aorders%3A%24LATEST/invocations";
    assert!(asked.starts_with(&format!("POST {path} ")), "{asked}");
    assert!(asked.contains("x-amz-invocation-type: Event\r\n"), "{asked}");
    assert!(asked.contains(&format!("x-amzn-trace-id: {trace}\r\n")), "{asked}");
    assert!(asked.contains("x-amz-tenant-id: blue @1\r\n"), "{asked}");
    assert!(asked.contains("x-amz-durable-execution-name: 3b72eb0b-1\r\n"), "{asked}");
    assert!(asked.ends_with("\r\n\r\n{\"a\":1.0}"), "{asked}");
    let (endpoint, asked) = answering(response(202, "", "")).await;
    invoke(&endpoint, Some("Root=1\r\nX-Evil: yes")).await.answer.unwrap();
    assert!(!asked.await.unwrap().contains("x-amzn-trace-id"), "no header value");
}

#[tokio::test]
async fn every_answer_of_lambda_is_taken_for_what_it_is() {
    let transient = |seconds: Option<u64>| FaultKind::Transient {
        retry_after: seconds.map(Duration::from_secs),
    };
    let table = [
        (429, "TooManyRequestsException", "", transient(None), false),
        (429, "TooManyRequestsException", "retry-after: 7\r\n", transient(Some(7)), false),
        (503, "", "", transient(None), true),
        (500, "ServiceException", "", transient(None), true),
        (502, "KMSDisabledException", "", FaultKind::Configuration, false),
        (502, "ENINotReadyException", "", transient(None), false),
        (413, "RequestTooLargeException", "", FaultKind::Refused(Reason::PayloadTooLarge), false),
    ];
    for (status, code, headers, kind, may_be_accepted) in table {
        let headers = format!("x-amzn-errortype: {code}\r\n{headers}");
        let (endpoint, _asked) = answering(response(status, &headers, r#"{"message":"no"}"#)).await;
        let invoked = invoke(&endpoint, None).await;
        assert_eq!(invoked.unanswered, u32::from(may_be_accepted), "{status} {code}");
        assert_eq!(invoked.answer.unwrap_err().kind, kind, "{status} {code}");
    }
}

/// Its execution is named after event and attempt, and an earlier call's answer was lost.
#[tokio::test]
async fn an_execution_that_has_begun_already_is_the_retry_and_no_fault() {
    let code = "x-amzn-errortype: DurableExecutionAlreadyStartedException\r\n";
    let (endpoint, _asked) = answering(response(409, code, r#"{"message":"started"}"#)).await;
    assert_eq!(invoke(&endpoint, None).await, Invoked { answer: Ok(None), unanswered: 0 });
}

/// The SDK repeats a call by itself.
#[tokio::test]
async fn each_call_for_an_invocation_is_judged_by_its_own_answer() {
    let accepted = (202, "x-amzn-requestid: r-2\r\n");
    let throttled = (429, "x-amzn-errortype: TooManyRequestsException:\r\n");
    let (broken, reset) = ((503, ""), (0, ""));
    for (answers, is_accepted, unanswered) in [
        (vec![accepted], true, 0),
        (vec![throttled, accepted], true, 0),
        (vec![throttled, throttled, throttled], false, 0),
        (vec![broken, accepted], true, 1),
        (vec![reset, accepted], true, 1),
        (vec![reset, broken, accepted], true, 2),
        (vec![throttled, broken, accepted], true, 1),
        (vec![broken, reset, throttled], false, 2),
        (vec![broken, broken, broken], false, 3),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let script = answers.clone();
        let lambda = tokio::spawn(async move {
            let mut payloads = Vec::new();
            for (status, headers) in script {
                let (request, mut stream) = request(&listener).await;
                if status > 0 {
                    let headers = format!("connection: close\r\n{headers}");
                    let answer = response(status, &headers, "{}");
                    stream.write_all(answer.as_bytes()).await.unwrap();
                }
                payloads.push(request.split_once("\r\n\r\n").unwrap().1.to_owned());
            }
            payloads
        });
        let retries = RetryConfig::standard().with_initial_backoff(Duration::from_millis(1));
        let aws = config(&endpoint).to_builder().retry_config(retries).build();
        let invoked = invoke_with(&aws, None).await;
        assert_eq!(invoked.answer.is_ok(), is_accepted, "{answers:?}");
        assert_eq!(invoked.unanswered, unanswered, "{answers:?}");
        assert_eq!(lambda.await.unwrap(), vec![PAYLOAD; answers.len()]);
    }
}

#[tokio::test]
async fn an_endpoint_that_nobody_listens_at_is_a_transient_fault() {
    // Its port is taken, so no other test listens there.
    let bound = TcpSocket::new_v4().unwrap();
    bound.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let endpoint = format!("http://{}", bound.local_addr().unwrap());
    let fault = invoke(&endpoint, None).await.answer.unwrap_err();
    assert_eq!((fault.kind, fault.code), (FaultKind::Transient { retry_after: None }, None));
}

/// CloudWatch's answer, in CBOR: for each query the seconds at which its minutes began, and their sums.
fn answer_of(results: &[(&str, &[f64], &[f64])]) -> Vec<u8> {
    let mut cbor = Encoder::new(Vec::new());
    cbor.map(1).unwrap().str("MetricDataResults").unwrap().array(results.len() as u64).unwrap();
    for (id, minutes, sums) in results {
        cbor.map(3).unwrap().str("Id").unwrap().str(id).unwrap();
        cbor.str("Timestamps").unwrap().array(minutes.len() as u64).unwrap();
        for at in *minutes {
            cbor.tag(IanaTag::Timestamp).unwrap().f64(*at).unwrap();
        }
        cbor.str("Values").unwrap().array(sums.len() as u64).unwrap();
        for sum in *sums {
            cbor.f64(*sum).unwrap();
        }
    }
    cbor.into_writer()
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_timestamp(second, 0).unwrap()
}

/// Asks a server that gives this answer. Returns the request, with its binary parts replaced, and the minutes.
async fn asked(function: &str, answer: Vec<u8>) -> (String, Result<Vec<Minute>, CallFault>) {
    let headers = "smithy-protocol: rpc-v2-cbor\r\ncontent-type: application/cbor\r\n";
    let head = format!("HTTP/1.1 200 x\r\n{headers}content-length: {}\r\n\r\n", answer.len());
    let (endpoint, server) = answering([head.as_bytes(), &answer].concat()).await;
    let functions = LambdaFunctions::new(&config(&endpoint), true);
    let minutes = functions.minutes(function, at(1_769_947_230), at(1_769_947_700)).await;
    (server.await.unwrap(), minutes)
}

#[tokio::test]
async fn the_sums_of_invocations_and_errors_are_put_together_by_the_minute() {
    let answer = answer_of(&[
        ("invocations", &[1_769_947_260.0, 1_769_947_200.0], &[100.0, 7.0]),
        ("errors", &[1_769_947_260.0], &[97.0]),
    ]);
    let function = "arn:aws:lambda:us-east-1:123456789012:function:orders:$LATEST";
    let (request, minutes) = asked(function, answer.clone()).await;
    let minute = |began, invocations, errors| Minute { began: at(began), invocations, errors };
    assert_eq!(minutes.unwrap(), [minute(1_769_947_200, 7, 0), minute(1_769_947_260, 100, 97)]);
    for part in ["/operation/GetMetricData", "AWS/Lambda", "Invocations", "Errors", "orders"] {
        assert!(request.contains(part), "{part}: {request}");
    }
    assert!(!request.contains("Resource"), "{request}");
    let (request, _) = asked(&function.replace("$LATEST", "live"), answer).await;
    assert!(request.contains("Resource") && request.contains("orders:live"), "{request}");
}

#[tokio::test]
async fn a_result_with_a_minute_too_few_or_too_many_is_a_fault_and_no_count_goes_to_another_minute()
{
    let minutes = [1_769_947_260.0, 1_769_947_200.0];
    for (sums, got) in [(&[97.0][..], 1), (&[97.0, 7.0, 1.0], 3), (&[], 0)] {
        let answer = answer_of(&[("errors", &minutes, sums)]);
        let (_, minutes) =
            asked("arn:aws:lambda:us-east-1:123456789012:function:o:1", answer).await;
        let said = format!("expected a value for each of 2 minutes, got {got}");
        assert_eq!(minutes, Err(CallFault(said)));
    }
}
