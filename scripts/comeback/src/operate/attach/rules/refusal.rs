//! Why something can not be attached or detached.

use crate::{
    account::{fault::Fault, function::Unsupported},
    text::counted,
};

#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    #[error("the retry handler can't be attached to itself")]
    IsHandler,
    #[error("expected the name of a retry queue of {handler} in --queue, got {got}; it has {}", .queues.join(", "))]
    NoSuchQueue { handler: String, got: String, queues: Vec<String> },
    #[error("functions share no single retry queue, there is {}; choose a queue with --queue", if .0.is_empty() { "none".to_owned() } else { .0.join(", ") })]
    ChooseQueue(Vec<String>),
    #[error("{queue} is the retry queue of {handler}: detach the function there first")]
    OtherSystem { queue: String, handler: String },
    #[error(
        "the function's failures already go to {0}; pass --replace to send them to the retry queue"
    )]
    OtherDestination(String),
    #[error("{handler} would not start with these settings: {fault}")]
    BadSettings { handler: String, fault: String },
    #[error(
        "the settings of {handler} would still not allow it; set TARGET_FUNCTIONS or QUEUE_TARGETS by hand"
    )]
    NotAllowed { handler: String },
    #[error("the variables of {handler} would have {bytes} bytes, and Lambda takes 4096")]
    TooManyVariables { handler: String, bytes: usize },
    #[error(
        "the policy of {queue} denies {role} sqs:SendMessage, other than by a list of roles: change it by hand"
    )]
    ClosedQueue { queue: String, role: String },
    #[error(
        "--transparent needs a ledger, which notes what an envelope would say, and {handler} has no LEDGER_TABLE: switch its ledger on, or leave --transparent out and let the function read the envelope"
    )]
    NoLedger { handler: String },
    #[error(
        "the function's on-failure destination has {0} characters, and a tag that keeps it has at most 256"
    )]
    LongDestination(usize),
    #[error(
        "the function's records go to the bucket {is}: detach it first, and then attach it with --records {other}"
    )]
    OtherBucket { is: String, other: String },
    #[error(
        "{bucket} already notifies {to} of objects below {prefix} (notification {id}), and S3 accepts no second notification for the same keys: remove that one, or let its filter leave out {prefix}"
    )]
    Told { bucket: String, id: String, to: String, prefix: String },
    #[error(
        "{0} has no event source mapping of a Kinesis stream, a DynamoDB stream or a Kafka topic: attach it without --streams"
    )]
    NoStream(String),
    #[error(
        "batches of {stream} that fail already go to {to} (mapping {uuid}): take that destination off, and run this again"
    )]
    OtherStreamDestination { stream: String, uuid: String, to: String },
    #[error(
        "the function's successes go to {0}. It says in them which records of a batch have failed, so the retry queue must be the on-success destination: take the other one off, and run this again"
    )]
    OtherSuccesses(String),
    #[error(
        "{queue} has AWS's own key for SQS, which {service} can't use: give the queue another key, whose policy lets {service} use it, or none"
    )]
    ClosedKey { queue: String, service: &'static str },
    #[error("{0}")]
    Unsupported(Unsupported),
    #[error(
        "a FIFO queue can't take part: its dead-letter queue must be FIFO too, and backoff would break its order"
    )]
    Fifo,
    #[error("expected the name or the ARN of a queue, such as imports, got {0}")]
    NoQueueName(String),
    #[error(
        "{queue} is in another account or region than the handler, where SQS moves no messages to: attach {own}, or deploy a handler there"
    )]
    Elsewhere { queue: String, own: String },
    #[error("there is no queue {0}")]
    NoSource(String),
    #[error(
        "{0} is a retry queue or the dead-letter queue itself: attach the queue that a producer sends to"
    )]
    IsRetryQueue(String),
    #[error(
        "messages of {name} already go to {queue} after {}; pass --replace to let them come back instead: {queue} stays as it is, and comeback detach restores it", counted(*.receives, "receive")
    )]
    HasDeadLetters { name: String, queue: String, receives: u64 },
    #[error("{0} was not attached by comeback attach: it has no tag comeback:before")]
    QueueNotAttached(String),
    #[error("there is no {0}")]
    NoSender(String),
    #[error("expected in --target the id of a target of rule {rule}; it has {}", if .ids.is_empty() { "none".to_owned() } else { .ids.join(", ") })]
    ChooseTarget { rule: String, ids: Vec<String> },
    #[error(
        "its target is {0}: events can come back only to a function or a standard queue, by its own ARN"
    )]
    OtherTarget(String),
    #[error("{target} is in another account or region than {handler}, which can't deliver to it")]
    TargetElsewhere { target: String, handler: String },
    #[error(
        "the {sender} has {member}, so its target is given something else than the event, and EventBridge keeps only the event: what came back would not be what was sent. Let the function make that change, and remove {member}"
    )]
    Changed { sender: String, member: &'static str },
    #[error(
        "undelivered events of the {sender} already go to {queue}: take that dead-letter queue off the target, and run this again. What lies in {queue} stays there: comeback dead redrive --queue {queue} --function {to} sends it to its target"
    )]
    OtherDeadLetters { sender: String, queue: String, to: String },
    #[error(
        "no retry queue is bound to {0}: attach it with comeback attach --queue, or choose a retry queue with --queue"
    )]
    UnboundQueue(String),
    #[error("the {0} has no retry queue of this handler as dead-letter queue")]
    SenderNotAttached(String),
    #[error("the function was not attached by comeback attach: it has no tag comeback:before")]
    NotAttached,
    #[error(transparent)]
    Fault(#[from] Fault),
}
