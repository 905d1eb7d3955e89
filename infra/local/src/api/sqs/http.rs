//! SQS over HTTP: the headers of requests and responses, and long polls.

use axum::{
    extract::Request,
    http::{StatusCode, header},
    response::{IntoResponse as _, Response},
};
use serde_json::json;

use super::{Call, Caller, answer, fault, read, receive::ReceiveMessage, write};
use crate::{
    api::{BodyError, read_body},
    clock,
    model::{
        Cloud,
        sqs::{MESSAGE_BYTES_MAX, SqsError, too_long},
    },
    shared::Shared,
};

/// The largest request, in bytes. JSON can be much longer than its message, because one byte may be escaped as six.
const BODY_BYTES_MAX: usize = 8 * MESSAGE_BYTES_MAX as usize;

pub(crate) async fn handle(shared: &Shared, request: Request, action: &str) -> Response {
    let (head, body) = request.into_parts();
    let text = |name: &str| head.headers.get(name).and_then(|value| value.to_str().ok());
    let caller = Caller {
        host: text(header::HOST.as_str()).unwrap_or_default(),
        trace_header: text("x-amzn-trace-id"),
    };
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
                    let call = Call { sqs: &mut cloud.sqs, now, caller: &caller };
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
        let (poll, request_id) = shared.look(|cloud, now| {
            let request = request.as_ref().map_err(Clone::clone);
            let poll = request.and_then(|request| request.short_poll(&mut cloud.sqs, now));
            (poll, cloud.sqs.request_id())
        });
        let poll = match poll {
            Ok(poll) => poll,
            Err(error) => return Reply { answer: Err(error), request_id },
        };
        if !poll.found_nothing() || poll.wait.is_zero() {
            return Reply { answer: write(&poll.answer), request_id };
        }
        let deadline = deadline.get_or_insert_with(|| Box::pin(tokio::time::sleep(poll.wait)));
        let visible = async {
            match poll.next_visible_at {
                Some(at) => tokio::time::sleep(clock::until(at)).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = changed => {}
            () = visible => {}
            () = deadline => return Reply { answer: write(&poll.answer), request_id },
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
                let name = fault::name(&error);
                let content = json!({ "__type": name.shape, "message": error.to_string() });
                let status = StatusCode::from_u16(name.status).unwrap_or(StatusCode::BAD_REQUEST);
                let code = [("x-amzn-query-error", format!("{};Sender", name.code))];
                let body = write(&content).unwrap_or_default();
                (status, request_id, code, json, body).into_response()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;

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

    fn send(shared: &Shared, queue: &str, body: &str) {
        let message = Outgoing { body: body.into(), ..Outgoing::default() };
        shared.step(|cloud, now| cloud.sqs.send(now, queue, message).map(drop)).unwrap();
    }

    fn hold(shared: &Shared, queue: &str, seconds: u32) -> String {
        let step = |cloud: &mut Cloud, now| cloud.sqs.receive(now, queue, 1, Some(seconds));
        shared.step(step).unwrap().remove(0).receipt_handle
    }

    /// A long poll of this queue, which has found nothing yet.
    fn waiting<'a>(
        server: &'a Server,
        queue: &'static str,
    ) -> Pin<Box<impl Future<Output = Reply> + use<'a>>> {
        let body = json!({ "QueueUrl": queue, "WaitTimeSeconds": 20 }).to_string();
        let mut poll = Box::pin(async move { receive(server.shared(), body.as_bytes()).await });
        assert!(poll.as_mut().now_or_never().is_none());
        poll
    }

    fn body_text(reply: &Reply) -> &str {
        std::str::from_utf8(reply.answer.as_deref().unwrap()).unwrap()
    }

    #[tokio::test]
    async fn a_receive_without_a_wait_time_returns_at_once() {
        let server = cloud().await;
        let reply = receive(server.shared(), br#"{"QueueUrl":"q"}"#).now_or_never();
        assert_eq!(reply.as_ref().map(body_text), Some("{}"));
    }

    #[tokio::test]
    async fn a_receive_waits_until_a_message_is_sent() {
        let server = cloud().await;
        let mut receive = waiting(&server, "q");
        send(server.shared(), "dead", "elsewhere");
        assert!(receive.as_mut().now_or_never().is_none());
        send(server.shared(), "q", "here");
        assert!(body_text(&receive.await).contains(r#""Body":"here""#));
    }

    #[tokio::test]
    async fn a_receive_waits_until_a_message_is_released() {
        let server = cloud().await;
        send(server.shared(), "dead", "held");
        let handle = hold(server.shared(), "dead", 600);
        let receive = waiting(&server, "dead");
        let release = |cloud: &mut Cloud, now| cloud.sqs.change_visibility(now, "dead", &handle, 0);
        server.shared().step(release).unwrap();
        assert!(body_text(&receive.await).contains(r#""Body":"held""#));
    }

    #[tokio::test]
    async fn a_receive_waits_until_a_message_becomes_visible() {
        let server = cloud().await;
        send(server.shared(), "dead", "held");
        hold(server.shared(), "dead", 1);
        let receive = waiting(&server, "dead");
        assert!(body_text(&receive.await).contains(r#""Body":"held""#));
    }

    #[tokio::test]
    async fn a_receive_of_a_dead_letter_queue_waits_until_another_receive_fills_it() {
        let server = cloud().await;
        send(server.shared(), "q", "worn out");
        hold(server.shared(), "q", 0);
        let waiting = waiting(&server, "dead");
        assert_eq!(body_text(&receive(server.shared(), br#"{"QueueUrl":"q"}"#).await), "{}");
        assert!(body_text(&waiting.await).contains(r#""Body":"worn out""#));
    }

    #[tokio::test]
    async fn a_receive_waits_until_a_move_task_fills_its_queue() {
        let server = cloud().await;
        (0..2).for_each(|_| send(server.shared(), "dead", "moved"));
        let start = |cloud: &mut Cloud, now| {
            let (dead, q) = (queue_arn("dead"), queue_arn("q"));
            cloud.sqs.start_move_task(now, &dead, Some(&q), Some(1))
        };
        server.shared().step(start).unwrap();
        hold(server.shared(), "q", 600);
        let receive = waiting(&server, "q");
        assert!(body_text(&receive.await).contains(r#""Body":"moved""#));
    }

    #[tokio::test]
    async fn a_receive_ends_when_its_queue_is_deleted() {
        let server = cloud().await;
        let receive = waiting(&server, "q");
        server.shared().step(|cloud, now| cloud.sqs.delete_queue(now, "q")).unwrap();
        let error = receive.await.answer.unwrap_err();
        assert_eq!(fault::name(&error).shape, "com.amazonaws.sqs#QueueDoesNotExist");
    }

    async fn respond(
        server: &Server,
        target: &str,
        body: impl Into<Body>,
    ) -> (u16, String, String) {
        let request = Request::builder()
            .header("x-amz-target", target)
            .header("host", "127.0.0.1:4566")
            .header("authorization", "AWS4-HMAC-SHA256 Credential=x")
            .body(body.into());
        let answer = server.answer(request.unwrap()).await;
        let header = |name: &str| match answer.headers().get(name) {
            Some(value) => value.to_str().unwrap().to_owned(),
            None => String::new(),
        };
        assert_eq!(header("content-type"), "application/x-amz-json-1.0");
        assert_eq!(header("x-amzn-requestid").len(), 36);
        let (status, code) = (answer.status().as_u16(), header("x-amzn-query-error"));
        let body = axum::body::to_bytes(answer.into_body(), usize::MAX).await.unwrap();
        (status, code, String::from_utf8(body.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn a_body_longer_than_any_message_is_refused_as_a_long_message() {
        let server = cloud().await;
        let body = vec![b'x'; BODY_BYTES_MAX + 1];
        let (status, code, told) = respond(&server, "AmazonSQS.SendMessage", body).await;
        assert_eq!((status, code.as_str()), (400, "InvalidParameterValue;Sender"));
        assert!(told.contains("Message must be shorter than 1048576 bytes."), "{told}");
    }
}
