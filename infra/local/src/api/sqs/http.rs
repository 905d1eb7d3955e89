//! SQS over HTTP: the headers of requests and responses, long polls, and the refusal of the query protocol, which SDKs
//! used until November 2023: forms in, XML out.

use axum::{
    extract::Request,
    http::{Method, StatusCode, header},
    response::{IntoResponse as _, Response},
};
use serde_json::json;

use super::{Call, answer, messages::ReceiveMessage, read, write};
use crate::{
    api::{BodyError, read_body, text},
    model::{
        ACCOUNT, Cloud,
        sqs::{MESSAGE_BYTES_MAX, SqsError, too_long},
    },
    present::until,
    shared::Shared,
};

/// The largest request, in bytes. JSON can be much longer than its message, because one byte may be escaped as six.
const BODY_BYTES_MAX: usize = 8 * MESSAGE_BYTES_MAX as usize;

pub(crate) async fn handle(shared: &Shared, request: Request, action: &str) -> Response {
    let (head, body) = request.into_parts();
    let host = text(&head.headers, "host").unwrap_or_default();
    let trace_header = text(&head.headers, "x-amzn-trace-id");
    let body = read_body(body, BODY_BYTES_MAX).await.map_err(|error| match error {
        BodyError::TooLong => too_long(MESSAGE_BYTES_MAX),
        BodyError::Broken(reason) => SqsError::Serialization(reason),
    });
    let reply = match (action, body) {
        ("ReceiveMessage", Ok(body)) => receive(shared, &body).await,
        (action, body) => {
            let step = |cloud: &mut Cloud, now| Reply {
                request_id: cloud.sqs.request_id(),
                answer: body.and_then(|body| {
                    let call = Call { sqs: &mut cloud.sqs, now, host, trace_header };
                    answer(action, &body, call)
                }),
            };
            // These don't change anything that long polls wait for.
            let is_reading = action.starts_with("Get") || action.starts_with("List");
            if is_reading { shared.look(step) } else { shared.step(step) }
        }
    };
    reply.respond()
}

struct Reply {
    answer: Result<Vec<u8>, SqsError>,
    request_id: String,
}

/// Receives messages. If there are none, tries again when a message becomes visible or something changes, until the
/// long poll ends.
async fn receive(shared: &Shared, body: &[u8]) -> Reply {
    let request = read::<ReceiveMessage>(body);
    let mut deadline = None;
    loop {
        // Subscribed before the receive, so that no change in between is missed.
        let changed = shared.changed();
        let (poll, request_id, at) = shared.look(|cloud, now| {
            let request = request.as_ref().map_err(Clone::clone);
            let poll = request.and_then(|request| request.short_poll(&mut cloud.sqs, now));
            (poll, cloud.sqs.request_id(), now)
        });
        let poll = match poll {
            Ok(poll) => poll,
            Err(error) => return Reply { answer: Err(error), request_id },
        };
        let received = || {
            shared.0.journal.received(at, &poll.queue, poll.answer.messages.len());
            write(&poll.answer)
        };
        if !poll.answer.messages.is_empty() || poll.wait.is_zero() {
            return Reply { answer: received(), request_id };
        }
        let deadline = deadline.get_or_insert_with(|| Box::pin(tokio::time::sleep(poll.wait)));
        let visible = async {
            match poll.next_visible_at {
                Some(at) => tokio::time::sleep(until(at)).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = changed => {}
            () = visible => {}
            () = deadline => return Reply { answer: received(), request_id },
        }
    }
}

impl Reply {
    fn respond(self) -> Response {
        let json = [(header::CONTENT_TYPE, "application/x-amz-json-1.0")];
        let request_id = [("x-amzn-requestid", self.request_id)];
        match self.answer {
            Ok(body) => (request_id, json, body).into_response(),
            Err(error) => {
                let name = error.name();
                let content = json!({ "__type": name.shape, "message": error.to_string() });
                let status = StatusCode::from_u16(name.status).unwrap_or(StatusCode::BAD_REQUEST);
                let code = [("x-amzn-query-error", format!("{};Sender", name.code))];
                let body = write(&content).unwrap_or_default();
                (status, request_id, code, json, body).into_response()
            }
        }
    }
}

/// The versions are those of AWS's own table:
/// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-json-faqs.html>.
const REFUSAL: &str = "<ErrorResponse xmlns=\"http://queue.amazonaws.com/doc/2012-11-05/\"><Error>\
<Type>Sender</Type><Code>AWS.SimpleQueueService.UnsupportedOperation</Code><Message>This local cloud \
speaks SQS's JSON protocol, not its query protocol. Use an SDK or AWS CLI from after November 2023: boto3 \
1.28.82, botocore 1.31.82, the AWS SDK for Java 1.12.585 or 2.21.19, for Go 1.47.7, for JavaScript \
3.447.0, for .NET 3.7.681, for PHP 3.285.2, aws-sdk-sqs 1.67.0 for Ruby, or newer.</Message></Error>\
</ErrorResponse>";

/// Whether a request uses SQS's query protocol: it is a form, or has an action in the URL.
pub(crate) fn is_query_request(request: &Request) -> bool {
    let path = request.uri().path().trim_start_matches('/');
    let is_form = request.method() == Method::POST
        && request
            .headers()
            .get(header::CONTENT_TYPE)
            .is_some_and(|kind| kind.as_bytes().starts_with(b"application/x-www-form-urlencoded"));
    let has_action = request.uri().query().is_some_and(|query| query.contains("Action="));
    (path.is_empty() || path.starts_with(ACCOUNT)) && (is_form || has_action)
}

pub(crate) fn refuse_query() -> Response {
    (StatusCode::BAD_REQUEST, [(header::CONTENT_TYPE, "text/xml")], REFUSAL).into_response()
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use futures_util::FutureExt as _;

    use super::*;
    use crate::{
        Config, Server,
        model::{
            queue_arn,
            sqs::{Attributes, Outgoing},
        },
        start,
    };

    /// A local cloud with queue `q`, which moves messages to its dead-letter queue `dead` after one receive.
    async fn cloud() -> Server {
        let server = start(Config::default()).await.unwrap();
        server.shared().step(|cloud, now| {
            cloud.sqs.create_queue(now, "dead", &Attributes::new()).unwrap();
            let arn = queue_arn("dead");
            let policy = format!(r#"{{"deadLetterTargetArn":"{arn}","maxReceiveCount":1}}"#);
            let attributes = [("RedrivePolicy".to_owned(), policy)].into();
            cloud.sqs.create_queue(now, "q", &attributes).unwrap();
        });
        server
    }

    fn send(shared: &Shared, queue: &str) {
        let message = Outgoing { body: "it".into(), ..Outgoing::default() };
        shared.step(|cloud, now| cloud.sqs.send(now, queue, message).map(drop)).unwrap();
    }

    fn hold(shared: &Shared, queue: &str, seconds: u32) -> String {
        let step = |cloud: &mut Cloud, now| cloud.sqs.receive(now, queue, 1, Some(seconds));
        shared.step(step).unwrap().remove(0).receipt_handle
    }

    fn release(shared: &Shared, handle: &str) {
        let step = |cloud: &mut Cloud, now| cloud.sqs.change_visibility(now, "dead", handle, 0);
        shared.step(step).unwrap();
    }

    fn move_slowly(shared: &Shared) {
        let (dead, q) = (queue_arn("dead"), queue_arn("q"));
        shared.step(|cloud, now| cloud.sqs.start_move_task(now, &dead, Some(&q), Some(1))).unwrap();
    }

    /// Each row has what happens before a receive waits at a queue, and what happens meanwhile.
    #[tokio::test]
    async fn a_receive_waits_until_a_message_is_there_for_whatever_reason() {
        type Step = fn(&Shared, &str);
        let nothing: Step = |_, _| {};
        let one_held: Step = |shared, _| send(shared, "dead");
        for (why, queue, before, handled, meanwhile) in [
            ("sent", "q", nothing, None, (|shared, _| send(shared, "q")) as Step),
            ("released", "dead", one_held, Some(("dead", 600)), |shared, handle| {
                release(shared, handle);
            }),
            ("visible again", "dead", one_held, Some(("dead", 1)), nothing),
            (
                "given up by another receive",
                "dead",
                |shared, _| send(shared, "q"),
                Some(("q", 0)),
                |shared, _| {
                    let receive = |cloud: &mut Cloud, now| cloud.sqs.receive(now, "q", 1, None);
                    assert!(shared.look(receive).unwrap().is_empty());
                },
            ),
            (
                "moved by a task",
                "q",
                |shared, _| {
                    (0..2).for_each(|_| send(shared, "dead"));
                    move_slowly(shared);
                },
                Some(("q", 600)),
                nothing,
            ),
        ] {
            let server = cloud().await;
            let shared = server.shared();
            before(shared, "");
            let handle =
                handled.map_or(String::new(), |(queue, seconds)| hold(shared, queue, seconds));
            let request =
                |wait: u32| json!({ "QueueUrl": queue, "WaitTimeSeconds": wait }).to_string();
            let at_once = receive(shared, request(0).as_bytes()).now_or_never().unwrap();
            assert_eq!(at_once.answer.unwrap(), b"{}", "{why}");
            let request = request(20);
            let mut waiting = Box::pin(receive(shared, request.as_bytes()));
            assert!(waiting.as_mut().now_or_never().is_none(), "{why}");
            meanwhile(shared, &handle);
            let told = String::from_utf8(waiting.await.answer.unwrap()).unwrap();
            assert!(told.contains(r#""Body":"it""#), "{why}: {told}");
        }
    }

    #[tokio::test]
    async fn a_receive_ends_when_its_queue_is_deleted() {
        let server = cloud().await;
        let mut waiting =
            Box::pin(receive(server.shared(), br#"{"QueueUrl":"q","WaitTimeSeconds":20}"#));
        assert!(waiting.as_mut().now_or_never().is_none());
        server.shared().step(|cloud, now| cloud.sqs.delete_queue(now, "q")).unwrap();
        assert_eq!(waiting.await.answer, Err(SqsError::QueueDoesNotExist));
    }

    #[tokio::test]
    async fn a_body_longer_than_any_message_is_refused_as_a_long_message() {
        let server = cloud().await;
        let request = Request::new(Body::from(vec![b'x'; BODY_BYTES_MAX + 1]));
        let answer = handle(server.shared(), request, "SendMessage").await;
        assert_eq!(answer.headers()["x-amzn-query-error"], "InvalidParameterValue;Sender");
        let body = axum::body::to_bytes(answer.into_body(), usize::MAX).await.unwrap();
        assert!(body.ends_with(br#"Message must be shorter than 1048576 bytes."}"#), "{body:?}");
    }

    #[test]
    fn only_forms_and_actions_to_sqs_use_the_query_protocol() {
        let form = "application/x-www-form-urlencoded; charset=utf-8";
        for (method, uri, kind, expected) in [
            ("POST", "/000000000000/q", form, true),
            ("GET", "/?Action=ListQueues&Version=2012-11-05", "", true),
            ("GET", "/000000000000/q?Action=ReceiveMessage", "", true),
            ("POST", "/", "application/x-amz-json-1.0", false),
            ("POST", "/2015-03-31/functions/f/invocations", form, false),
            ("GET", "/2015-03-31/functions/?Action=", "", false),
        ] {
            let request = Request::builder().method(method).uri(uri);
            let request = request.header(header::CONTENT_TYPE, kind).body(Body::empty()).unwrap();
            assert_eq!(is_query_request(&request), expected, "{method} {uri} {kind}");
        }
    }
}
