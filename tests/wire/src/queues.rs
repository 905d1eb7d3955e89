//! SQS, as a port asks for it.

use comeback_core::{dead_letter::DeadLetter, fault::InvokeFault};
use comeback_flow::ports::{Attribute, CallFault, Queues, Resent, Value, VisibilityChange};
use comeback_local_model::sqs::{AttributeValue, MessageAttribute, Outgoing};

use crate::{
    port::Port,
    reply::Found,
    request::{Origin, Request},
};

impl Queues for Port {
    async fn change_visibility(
        &self,
        queue_url: &str,
        changes: &[VisibilityChange<'_>],
    ) -> Vec<Result<(), CallFault>> {
        let handle = |change: &VisibilityChange<'_>| change.receipt_handle.to_owned();
        let changes = changes.iter().map(|change| (handle(change), change.timeout)).collect();
        let answers = self.ask(Request::Hide { queue_url: queue_url.to_owned(), changes }).await;
        answers.entries.into_iter().map(|answer| answer.map_err(CallFault::from)).collect()
    }

    async fn in_flight(&self, queue_url: &str) -> Result<u64, CallFault> {
        let found = self.read(Request::Count { queue_url: queue_url.to_owned() }).await?;
        Ok(if let Found::Count(count) = found { count } else { 0 })
    }

    async fn send_again(
        &self,
        queue_url: &str,
        messages: &[&Resent<'_>],
    ) -> Vec<Result<(), InvokeFault>> {
        let origins = messages.iter().map(|message| Origin::of(message.trace_header)).collect();
        let messages = messages.iter().map(|message| outgoing(message)).collect();
        let queue_url = queue_url.to_owned();
        self.ask_to_send(Request::Again { queue_url, messages, origins }).await
    }

    async fn send_dead_letters(&self, letters: &[&DeadLetter<'_>]) -> Vec<Result<(), InvokeFault>> {
        let letters = letters.iter().map(|&letter| letter.clone().into_owned()).collect();
        self.ask_to_send(Request::Letters(letters)).await
    }
}

/// A message as it is sent to its queue again.
fn outgoing(message: &Resent<'_>) -> Outgoing {
    let attribute = |attribute: &Attribute<'_>| {
        let value = match &attribute.value {
            Value::Text(text) => AttributeValue::String(text.to_string()),
            Value::Binary(bytes) => AttributeValue::Binary(bytes.to_vec()),
        };
        let data_type = attribute.data_type.to_string();
        (attribute.name.to_string(), MessageAttribute { data_type, value })
    };
    Outgoing {
        body: message.body.into(),
        attributes: message.attributes.iter().map(attribute).collect(),
        trace_header: message.trace_header.map(str::to_owned),
        group_id: message.group_id.map(str::to_owned),
        delay: Some(message.delay),
        ..Outgoing::default()
    }
}
