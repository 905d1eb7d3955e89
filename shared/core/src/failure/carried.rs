//! What a failure takes along when its message is sent again, to wait as a delay: a new message has a new id and a new
//! time, and SQS doesn't say where it was moved from.

use super::Failure;
use crate::{
    message::{FAILED_AT, MESSAGE_ID, Message, SOURCE_QUEUE_ARN},
    time,
};

impl Failure<'_> {
    /// The attributes that carry the failure's time, the first message's id, and the source of a queue's message into a
    /// message that is sent again. An event that was not delivered to a queue names it in an attribute of EventBridge.
    pub fn carried(&self, message: &Message) -> Vec<(&'static str, String)> {
        let id = if self.is_of_consumer() { &self.request_id } else { message.first_id() };
        let mut carried =
            vec![(FAILED_AT, time::rfc3339_exact(self.failed_at)), (MESSAGE_ID, id.to_owned())];
        if self.target.is_queue() && !self.is_of_eventbridge() {
            carried.push((SOURCE_QUEUE_ARN, self.target.to_string()));
        }
        carried
    }

    /// Whether the message may be sent again to wait as a delay. One that SQS moved needs room for what it loses then.
    pub fn may_be_sent_again(&self, message: &Message) -> bool {
        if self.is_of_eventbridge() {
            return message.has_room_beside_history(&self.carried(message));
        }
        !self.is_of_consumer()
            || message.moved_from.is_none()
            || message.has_room(&self.carried(message))
    }
}
