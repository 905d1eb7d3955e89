//! The dead letter of an event that is given up.
//!
//! Dead letters have the same form for every reason. The body is the original payload, byte for byte, or the body as
//! received if the message could not be read. Message attributes say why the event was given up.
//!
//! SQS may refuse a letter because of its size. Then most attributes are dropped before the body, but not those that
//! say why the letter is there and for which function: whoever redrives it decides by them whom the event may reach. A
//! body whose sender can't be trusted is cut instead. A payload is never cut.
//!
//! If the failure record lies in a bucket, its payload stays there when it leaves no room for the attributes. The body
//! of the letter is then the notice of that record, and [`PAYLOAD_LOCATION`] says where it lies. If the letter is about
//! a part of a batch, [`BATCH_PART`] says which, so that a redrive sends no other.
//!
//! A function that is retried without an envelope may have a payload that looks like one. [`NO_ENVELOPE`] then says
//! that a redrive has to leave it as it is. [`SOURCE_ARN`] says the same of an event that was never delivered, which a
//! redrive delivers to the same target.
//!
//! The message of a queue is never cut either, as it can be of any size that SQS accepts. Its own attributes are kept
//! before the name of its queue, so that no redrive sends it back without them.

use std::borrow::Cow;

use crate::{
    attribute::{DATA_TYPE, SIZE_MAX, acceptable_json, is_accepted},
    envelope::{Envelope, INVOCATION_MAX},
    failure::{Condition, Event, Failure, Wrapping},
    message::{BATCH_PART, Message, NO_ENVELOPE, PAYLOAD_LOCATION, SOURCE_ARN, SOURCE_QUEUE_ARN},
    notice::Location,
    queued::{ORIGINAL_ATTRIBUTES, Queued},
    reason::Reason,
    time::rfc3339,
};

/// The maximum length of an external text in attributes and in the log, in bytes. Lambda cuts error messages at the
/// same length for its own dead-letter queues.
const TEXT_MAX: usize = 1024;

/// The attribute of a letter whose body was cut: the size of the whole body, in bytes.
pub const ORIGINAL_BODY_SIZE: &str = "OriginalBodySize";

/// The attribute that says what a person can do about the reason, where that follows from the event.
pub const ADVICE: &str = "Advice";

const WITHOUT_ENVELOPE: &str =
    "set TRANSPARENT=true for this function, then redrive: the payload fits without its envelope";

const WITH_BATCH: &str = "set an S3 bucket as the on-failure destination of the event source mapping: only there the record has the batch";

/// The attributes that tell people how a letter came about. Nothing reads them when it is moved back.
pub const HISTORY: [&str; 3] = ["Attempts", "FirstFailureAt", "LastFailureAt"];

/// The attributes that say why a letter is there, and whom a redrive of it may reach.
const IDENTITY: [&str; 3] = ["Reason", FUNCTION_ARN, "RequestId"];
const FUNCTION_ARN: &str = "FunctionArn";

/// A message for the dead-letter queue that SQS will accept.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct DeadLetter<'a> {
    pub body: Cow<'a, str>,
    /// Name and value of each attribute, the most important first.
    pub attributes: Vec<(&'static str, String)>,
}

impl<'a> DeadLetter<'a> {
    /// The dead letter of an event. `location` is where its failure record lies, if the message only says so.
    pub fn of(
        failure: &'a Failure<'_>,
        message: &Message<'a>,
        location: Option<&Location>,
        reason: Reason,
    ) -> Self {
        let payload = failure.event.as_ref().map(|event| event.payload());
        let target = if failure.target.is_queue() { SOURCE_QUEUE_ARN } else { FUNCTION_ARN };
        let body = payload.unwrap_or(message.body);
        let attribute = |name, value: Option<String>| Some((name, value?));
        let said = |text: &Option<String>| Some(acceptable_beginning(text.as_deref()?));
        let looks_wrapped = matches!(failure.wrapping, Wrapping::Own)
            && payload.is_some_and(|it| Envelope::find(it).is_some());
        let is_only_too_large_wrapped = reason == Reason::PayloadTooLarge
            && !failure.target.is_queue()
            && !failure.is_sent_bare()
            && payload.is_some_and(|it| (1..=INVOCATION_MAX).contains(&it.len()));
        let is_in_bucket = matches!(failure.event, Some(Event::TooLarge | Event::InParts(_)));
        let lacks_batch = failure.condition == Condition::OfBatch && failure.event.is_none();
        let advice = if lacks_batch {
            Some(WITH_BATCH.to_owned())
        } else {
            is_only_too_large_wrapped.then(|| WITHOUT_ENVELOPE.to_owned())
        };
        let attributes = [
            attribute("Reason", Some(reason.to_string())),
            attribute(NO_ENVELOPE, looks_wrapped.then(|| "true".to_owned())),
            attribute(SOURCE_ARN, said(&failure.undelivered_by)),
            attribute(ORIGINAL_ATTRIBUTES, failure.queued().and_then(Queued::attributes_json)),
            attribute(target, Some(failure.target.to_string())),
            attribute(
                "RequestId",
                Some(acceptable_beginning(
                    failure.first_request_id().unwrap_or(&failure.request_id),
                )),
            ),
            attribute(ADVICE, advice),
            attribute("Attempts", Some(failure.attempts_made().to_string())),
            attribute("FirstFailureAt", Some(rfc3339(failure.first_failure()))),
            attribute("LastFailureAt", Some(rfc3339(failure.failed_at))),
            attribute("ErrorType", said(&failure.error.error_type)),
            attribute("ErrorMessage", said(&failure.error.message)),
        ];
        let mut attributes: Vec<_> = attributes.into_iter().flatten().collect();
        if let Some(location) = location
            && (is_in_bucket || size(&acceptable_body(body), &attributes) > SIZE_MAX)
        {
            let place = acceptable_beginning(&location.to_string());
            attributes.insert(1, (PAYLOAD_LOCATION, place));
            attributes.extend(batch_part(message));
            return Self::fitting(message.body, attributes, &[]);
        }
        // A payload that leaves no room for all three keeps its bytes, and the reason.
        let kept = if failure.target.is_queue() {
            &[]
        } else if payload.is_none() || reason == Reason::TargetNotAllowed {
            &IDENTITY[..]
        } else {
            &IDENTITY[..1]
        };
        Self::fitting(body, attributes, kept)
    }

    /// The dead letter of a message that describes no failure.
    pub fn unread(message: &Message<'a>, reason: Reason, why: &str) -> Self {
        let mut attributes =
            vec![("Reason", reason.to_string()), ("ErrorMessage", acceptable_beginning(why))];
        attributes.extend(batch_part(message));
        Self::fitting(message.body, attributes, &IDENTITY)
    }

    pub fn into_owned(self) -> DeadLetter<'static> {
        DeadLetter { body: Cow::Owned(self.body.into_owned()), attributes: self.attributes }
    }

    /// The size as SQS counts it, up to [`SIZE_MAX`].
    pub fn size(&self) -> usize {
        size(&self.body, &self.attributes)
    }

    fn fitting(body: &'a str, attributes: Vec<(&'static str, String)>, kept: &[&str]) -> Self {
        let mut letter = Self { body: acceptable_body(body), attributes };
        // SQS refuses an attribute without a value.
        letter.attributes.retain(|(_, value)| !value.is_empty());
        while letter.size() > SIZE_MAX
            && letter.attributes.pop_if(|(name, _)| !kept.contains(name)).is_some()
        {}
        if letter.size() > SIZE_MAX {
            letter.cut_body();
        }
        letter
    }

    fn cut_body(&mut self) {
        self.attributes.push((ORIGINAL_BODY_SIZE, self.body.len().to_string()));
        let excess = self.size().saturating_sub(SIZE_MAX);
        let end = self.body.floor_char_boundary(self.body.len().saturating_sub(excess));
        self.body.to_mut().truncate(end);
    }
}

/// The attribute that says which part of a batch the message is about.
fn batch_part(message: &Message<'_>) -> Option<(&'static str, String)> {
    Some((BATCH_PART, acceptable_beginning(message.attributes.batch_part?)))
}

fn size(body: &str, attributes: &[(&str, String)]) -> usize {
    let of = |(name, value): &(&str, String)| name.len() + DATA_TYPE.len() + value.len();
    body.len() + attributes.iter().map(of).sum::<usize>()
}

/// The beginning of an external text, as long as an attribute may be. Characters that SQS refuses are replaced before
/// the cut, because U+FFFD takes three bytes where a control character takes one.
fn acceptable_beginning(text: &str) -> String {
    // A replacement is never shorter than the character, so text after these bytes would be cut anyway.
    let replaced = |c| if is_accepted(c) { c } else { char::REPLACEMENT_CHARACTER };
    let mut acceptable: String = beginning(text).chars().map(replaced).collect();
    acceptable.truncate(acceptable.floor_char_boundary(TEXT_MAX));
    acceptable
}

/// The beginning of an external text, cut to the maximum length.
pub fn beginning(text: &str) -> &str {
    &text[..text.floor_char_boundary(TEXT_MAX)]
}

/// A body that SQS accepts. Almost every body is acceptable, because it came from a queue. Only a payload that was
/// decoded from an SNS notification can contain U+FFFE and U+FFFF. An empty body, which only an emulator can have sent,
/// becomes JSON's empty string.
fn acceptable_body(body: &str) -> Cow<'_, str> {
    if body.is_empty() {
        return Cow::Borrowed("\"\"");
    }
    acceptable_json(Cow::Borrowed(body))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        decision::{Judgement, decide},
        envelope::RetryMetadata,
        message::MessageAttributes,
        settings::Rules,
        testing::{self, message},
    };

    fn letter(body: &str, reason: Reason) -> DeadLetter<'static> {
        let message = message(body);
        let failure = testing::read(&message);
        DeadLetter::of(&failure, &message, None, reason).into_owned()
    }

    #[test]
    fn an_attribute_holds_only_what_sqs_accepts_and_an_empty_one_is_left_out() {
        let said = |json: &str| {
            let body = testing::record_of("1")
                .replace("\"errorMessage\"", &format!(r#""errorMessage":{json},"was""#));
            letter(&body, Reason::NotRetryable)
                .attributes
                .into_iter()
                .find(|(name, _)| *name == "ErrorMessage")
                .map(|(_, value)| value)
        };
        assert_eq!(
            said(r#""tab\tand\u0000nul\ufffe\uffff\u001b""#).as_deref(),
            Some("tab\tand\u{fffd}nul\u{fffd}\u{fffd}\u{fffd}")
        );
        assert_eq!(said(r#""""#), None);
        let long = "é".repeat(600);
        assert_eq!(said(&format!("\"a{long}\"")).unwrap(), format!("a{}", "é".repeat(511)));
    }

    proptest::proptest! {
        #[test]
        fn no_text_from_outside_takes_more_than_1024_bytes_of_an_attribute(
            error_type in "[\u{0}-\u{1f}aé\u{ffff}]{0,1500}", message in "[\u{0}-\u{1f}aé\u{ffff}]{0,1500}",
        ) {
            let failure = serde_json::json!({ "errorType": error_type, "errorMessage": message });
            let body = testing::record_of("1").replace("\"responsePayload\"", &format!(r#""responsePayload":{failure},"was""#));
            let letter = letter(&body, Reason::NotRetryable);
            for (name, value) in &letter.attributes {
                proptest::prop_assert!(value.len() <= 1024 && value.chars().all(is_accepted), "{name}: {} bytes", value.len());
            }
        }
    }

    #[test]
    fn attributes_are_given_up_before_a_payload_and_its_reason_never() {
        let with_spare = |spare: usize| {
            let payload = format!("\"{}\"", "x".repeat(SIZE_MAX - spare - 2));
            let letter = letter(&testing::record_of(&payload), Reason::NotRetryable);
            assert_eq!(letter.body, payload);
            assert!(letter.size() <= SIZE_MAX);
            letter
        };
        let whole = with_spare(2000);
        let taken = |letter: &DeadLetter| letter.size() - letter.body.len();
        // Each has a name, the type `String` and a value.
        let values: usize =
            whole.attributes.iter().map(|(name, value)| name.len() + 6 + value.len()).sum();
        assert_eq!((whole.attributes.len(), taken(&whole)), (7, values));
        let identity: usize = 3 * 6
            + "ReasonFunctionArnRequestId".len()
            + whole.attributes[..3].iter().map(|(_, value)| value.len()).sum::<usize>();
        let kept =
            [(values, 7), (values - 1, 6), (identity, 3), (identity - 1, 2), (100, 1), (29, 1)];
        for (spare, kept) in kept {
            assert_eq!(with_spare(spare).attributes.len(), kept, "{spare} bytes to spare");
        }
    }

    #[test]
    fn a_body_that_nobody_vouches_for_is_cut_before_the_letter_loses_its_reason_function_or_id() {
        let fill = |body: &str, size: usize| format!("{body}{}", " ".repeat(size - body.len()));
        let foreign = fill(&testing::record_of("1"), SIZE_MAX);
        let no_payload = foreign.replacen("requestPayload", "requestpayload", 1);
        for size in [SIZE_MAX, SIZE_MAX - 20] {
            let unread = fill(&"ü".repeat(1000), size);
            let letter = DeadLetter::unread(&message(&unread), Reason::Unreadable, "why");
            assert_eq!(letter.attributes[0], ("Reason", "unreadable".to_owned()));
            assert_eq!(letter.attributes[1], (ORIGINAL_BODY_SIZE, size.to_string()));
            assert!(unread.starts_with(&*letter.body) && letter.size() == SIZE_MAX);
        }
        let whole = fill("no JSON", SIZE_MAX - 40);
        let unread = DeadLetter::unread(
            &message(&whole),
            Reason::Unreadable,
            "a reason that takes more than the rest",
        );
        assert_eq!((&*unread.body, unread.attributes.len()), (&*whole, 1), "the error goes first");
        let names = |body: &str, reason| {
            let letter = letter(body, reason);
            assert!(letter.size() <= SIZE_MAX);
            letter.attributes.into_iter().map(|(name, _)| name).collect::<Vec<_>>()
        };
        let cut = ["Reason", "FunctionArn", "RequestId", ORIGINAL_BODY_SIZE];
        assert_eq!(names(&no_payload, Reason::PayloadMissing), cut);
        let large = format!("\"{}\"", "x".repeat(SIZE_MAX - 2));
        assert_eq!(names(&testing::record_of(&large), Reason::TargetNotAllowed), cut);
    }

    #[test]
    fn a_body_that_sqs_would_refuse_means_the_same_after_its_escape() {
        let letter =
            DeadLetter::unread(&message("\"\u{fffe}\u{10ffff}\""), Reason::Unreadable, "why");
        assert_eq!(letter.body, "\"\\ufffe\u{10ffff}\"");
        assert_eq!(letter.attributes[1], ("ErrorMessage", "why".to_owned()));
        assert_eq!(DeadLetter::unread(&message(""), Reason::Unreadable, "why").body, "\"\"");
    }
    #[test]
    fn a_letter_says_what_to_set_if_only_the_envelope_was_too_large() {
        let transparent = testing::rules(&[("TRANSPARENT", "true"), ("LEDGER_TABLE", "ledger")]);
        for (rules, size, reason, says) in [
            (&testing::rules(&[]), INVOCATION_MAX, Reason::PayloadTooLarge, true),
            (&testing::rules(&[]), INVOCATION_MAX + 1, Reason::PayloadTooLarge, false),
            (&testing::rules(&[]), INVOCATION_MAX, Reason::Cancelled, false),
            (&transparent, INVOCATION_MAX, Reason::PayloadTooLarge, false),
        ] {
            let record = testing::record_of(&format!("\"{}\"", "x".repeat(size - 2)));
            let notice = message(include_str!("../fixtures/s3_notification.json"));
            let judgement = judged(notice, &record, rules);
            let letter = judgement.dead_letter(reason);
            let said = letter.attributes.iter().any(|(_, value)| value == WITHOUT_ENVELOPE);
            assert_eq!(said, says, "{size} {reason}");
        }
    }

    /// The message judged, with its record if that lies in a bucket.
    fn judged<'a>(message: Message<'a>, record: &str, rules: &Rules) -> Judgement<'a> {
        let (home, now) = (testing::home(), testing::at("2019-11-14T19:00:00Z"));
        let judgement = decide(message, &home, rules, now);
        match judgement.location {
            Some(_) => judgement.fetched(Ok(record.as_bytes()), &home, rules, now),
            None => judgement,
        }
    }

    /// The payload that is retried next.
    fn retried(judgement: &Judgement<'_>) -> String {
        judgement.failure.as_ref().unwrap().event.as_ref().unwrap().payload().to_owned()
    }

    #[test]
    fn a_payload_that_is_known_to_be_no_envelope_comes_back_whole_from_all_its_dead_letters() {
        let rules = testing::rules(&[("TRANSPARENT", "true"), ("LEDGER_TABLE", "ledger")]);
        let now = testing::at("2019-11-14T19:00:00Z");
        let notice = include_str!("../fixtures/s3_notification.json");
        let large = format!("\"{}\"", "x".repeat(SIZE_MAX - 200));
        for (inner, is_in_bucket) in [("[1.0]", false), ("[1.0]", true), (&*large, true)] {
            let payload = testing::envelope(7, 1, "other", inner);
            let record = testing::record_of(&payload);
            let body = if is_in_bucket { notice } else { &record };
            let first = judged(message(body), &record, &rules);
            assert_eq!(retried(&first), inner, "without a note, it is an envelope");
            let letter = first.dead_letter(Reason::MaxAttemptsExceeded);
            assert!(letter.attributes.iter().all(|(name, _)| *name != NO_ENVELOPE));
            let noted = first.clone().continuing(RetryMetadata::first(now, "r"), &rules, now);
            let mut letter = noted.dead_letter(Reason::MaxAttemptsExceeded).into_owned();
            for _ in 0..2 {
                assert_eq!(letter.attributes.iter().filter(|it| it.0 == NO_ENVELOPE).count(), 1);
                let value = |of: &str| {
                    let found = letter.attributes.iter().find(|(name, _)| *name == of);
                    found.map(|(_, value)| value.as_str())
                };
                let attributes = MessageAttributes {
                    reason: value("Reason"),
                    function_arn: value(FUNCTION_ARN),
                    payload_location: value(PAYLOAD_LOCATION),
                    no_envelope: value(NO_ENVELOPE),
                    ..MessageAttributes::default()
                };
                let moved = Message { attributes, ..message(&letter.body) };
                let moved = judged(moved, &record, &rules);
                assert_eq!(retried(&moved), payload);
                let again = moved.dead_letter(Reason::Cancelled).into_owned();
                assert_eq!(again.body, letter.body);
                letter = again;
            }
        }
        let plain = testing::record_of("1");
        let plain = judged(message(&plain), "", &rules);
        let plain = plain.continuing(RetryMetadata::first(now, "r"), &rules, now);
        let letter = plain.dead_letter(Reason::Cancelled);
        assert!(letter.attributes.iter().all(|(name, _)| *name != NO_ENVELOPE), "nothing to say");
    }

    #[test]
    fn a_payload_in_a_bucket_stays_there_if_it_leaves_no_room_for_the_attributes() {
        let notice = include_str!("../fixtures/s3_notification.json");
        let message = message(notice);
        let location =
            Location::of("failure-records", "aws/lambda/async/my-function/2019/11/14/x", None);
        let letter = |payload: &str| {
            let text = testing::record_of(payload);
            let sent = Message { body: &text, ..message.clone() };
            let failure = testing::read(&sent);
            DeadLetter::of(&failure, &message, location.as_ref(), Reason::NotRetryable).into_owned()
        };
        let of = |size: usize| format!("\"{}\"", "x".repeat(size - 2));
        let taken = letter("1").size() - 1;
        let fits = of(SIZE_MAX - taken);
        let whole = letter(&fits);
        assert_eq!((&*whole.body, whole.size(), whole.attributes.len()), (&*fits, SIZE_MAX, 7));
        for size in [SIZE_MAX - taken + 1, SIZE_MAX, 6 << 20] {
            let pointer = letter(&of(size));
            assert_eq!(pointer.body, notice);
            let place = "s3://failure-records/aws/lambda/async/my-function/2019/11/14/x";
            assert_eq!(pointer.attributes[1], (PAYLOAD_LOCATION, place.to_owned()));
            let others = pointer.attributes.iter().filter(|(name, _)| *name != PAYLOAD_LOCATION);
            assert!(others.eq(whole.attributes.iter()), "{:?}", pointer.attributes);
        }
    }
}
