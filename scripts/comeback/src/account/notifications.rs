//! A bucket's notifications: whom it notifies of what happens to its objects.
//!
//! S3 only replaces a bucket's notifications as a whole. So each part of them is kept as S3 wrote it, known or not, and
//! a change adds or removes one part.

use quick_xml::{Reader, de, events::Event};
use serde::Deserialize;

const ROOT: &str = "NotificationConfiguration";

const XMLNS: &str = "http://s3.amazonaws.com/doc/2006-03-01/";

/// The events of which a notification must have one: Lambda puts each record as a whole.
const EVENTS: [&str; 2] = ["s3:ObjectCreated:*", "s3:ObjectCreated:Put"];

const CREATED: &str = "s3:ObjectCreated:";

#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Notifications(Vec<Part>);

#[derive(Clone, Debug, Eq, PartialEq)]
struct Part {
    /// As S3 wrote it.
    xml: String,
    kind: Kind,
}

#[derive(Clone, Debug, Eq, PartialEq)]
enum Kind {
    Sent(Notification),
    EventBridge,
    Other,
}

/// One notification of a bucket: its receiver, and of which events and objects it learns.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Notification {
    pub id: String,
    /// The ARN of a queue, a topic or a function.
    pub to: String,
    pub events: Vec<String>,
    pub prefix: String,
    pub suffix: String,
}

impl Notification {
    pub fn is_to_queue(&self) -> bool {
        self.to.contains(":sqs:")
    }

    /// Whether it is sent for each record below this prefix.
    pub fn covers(&self, prefix: &str) -> bool {
        prefix.starts_with(&self.prefix)
            && self.suffix.is_empty()
            && self.events.iter().any(|event| EVENTS.contains(&event.as_str()))
    }

    /// Whether S3 accepts no second notification for records below this prefix beside it.
    pub fn overlaps(&self, prefix: &str) -> bool {
        (prefix.starts_with(&self.prefix) || self.prefix.starts_with(prefix))
            && self.events.iter().any(|event| event.starts_with(CREATED))
    }

    /// What it is about, in a sentence for a person: `s3:ObjectRemoved:* of a/…`.
    pub fn about(&self) -> String {
        let Self { events, prefix, suffix, .. } = self;
        format!("{} of {prefix}…{suffix}", events.join(", "))
    }
}

#[derive(Deserialize)]
struct Written {
    #[serde(rename = "Id", default)]
    id: String,
    #[serde(rename = "Queue", alias = "Topic", alias = "CloudFunction", default)]
    to: String,
    #[serde(rename = "Event", default)]
    events: Vec<String>,
    #[serde(rename = "Filter", default)]
    filter: Filter,
}

#[derive(Default, Deserialize)]
struct Filter {
    #[serde(rename = "S3Key", default)]
    key: KeyFilter,
}

#[derive(Default, Deserialize)]
struct KeyFilter {
    #[serde(rename = "FilterRule", default)]
    rules: Vec<FilterRule>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct FilterRule {
    name: String,
    #[serde(default)]
    value: String,
}

impl Written {
    fn notification(self) -> Notification {
        let Self { id, to, events, filter: Filter { key: KeyFilter { rules } } } = self;
        // S3 writes the names in both ways.
        let filter = |name: &str| {
            let rule = rules.iter().find(|rule| rule.name.eq_ignore_ascii_case(name));
            rule.map(|rule| rule.value.clone()).unwrap_or_default()
        };
        Notification { id, to, events, prefix: filter("prefix"), suffix: filter("suffix") }
    }
}

impl Notifications {
    /// Reads S3's answer; the error says what is wrong with it.
    pub fn read(xml: &str) -> Result<Self, String> {
        let mut reader = Reader::from_str(xml);
        let (mut parts, mut open, mut begins) = (Vec::new(), Vec::new(), 0);
        loop {
            let before = position(&reader);
            let event = reader.read_event().map_err(|error| error.to_string())?;
            match event {
                Event::Start(element) => {
                    if open.len() == 1 {
                        begins = before;
                    }
                    open.push(element.local_name().as_ref().to_owned());
                }
                Event::Empty(element) => match open.len() {
                    0 => open.push(element.local_name().as_ref().to_owned()),
                    1 => {
                        let text = &xml[before..position(&reader)];
                        parts.push(Part::read(element.local_name().as_ref(), text)?);
                    }
                    _ => {}
                },
                Event::End(_) => {
                    let ended = if open.len() > 1 { open.pop() } else { None };
                    if let Some(ended) = ended.filter(|_| open.len() == 1) {
                        parts.push(Part::read(&ended, &xml[begins..position(&reader)])?);
                    }
                }
                Event::Eof => break,
                Event::Text(_)
                | Event::CData(_)
                | Event::Comment(_)
                | Event::Decl(_)
                | Event::PI(_)
                | Event::DocType(_)
                | Event::GeneralRef(_) => {}
            }
        }
        match open.first() {
            Some(root) if root == ROOT => Ok(Self(parts)),
            other => Err(format!("expected {ROOT}, got {}", other.map_or("nothing", |it| it))),
        }
    }

    /// The request body that makes these the bucket's notifications.
    pub fn xml(&self) -> String {
        let parts: String = self.0.iter().map(|part| part.xml.as_str()).collect();
        format!("<{ROOT} xmlns=\"{XMLNS}\">{parts}</{ROOT}>")
    }

    pub fn sent(&self) -> impl Iterator<Item = &Notification> {
        self.0.iter().filter_map(|part| match &part.kind {
            Kind::Sent(notification) => Some(notification),
            Kind::EventBridge | Kind::Other => None,
        })
    }

    pub fn uses_event_bridge(&self) -> bool {
        self.0.iter().any(|part| part.kind == Kind::EventBridge)
    }

    /// The same with a notification to a queue of each record below a prefix, in the place of one with the same id. An
    /// id, the ARN of a queue and a prefix have no characters that XML would escape.
    #[must_use]
    pub fn with(&self, id: &str, queue: &str, prefix: &str) -> Self {
        let event = EVENTS[0];
        let xml = format!(
            "<QueueConfiguration><Id>{id}</Id><Queue>{queue}</Queue><Event>{event}</Event><Filter><S3Key><FilterRule>\
             <Name>prefix</Name><Value>{prefix}</Value></FilterRule></S3Key></Filter></QueueConfiguration>"
        );
        let notification = Notification {
            id: id.to_owned(),
            to: queue.to_owned(),
            events: vec![event.to_owned()],
            prefix: prefix.to_owned(),
            suffix: String::new(),
        };
        let mut all = self.without(id);
        all.0.push(Part { xml, kind: Kind::Sent(notification) });
        all
    }

    /// The same without the notification with this id.
    #[must_use]
    pub fn without(&self, id: &str) -> Self {
        let is_it = |part: &Part| matches!(&part.kind, Kind::Sent(it) if it.id == id);
        Self(self.0.iter().filter(|part| !is_it(part)).cloned().collect())
    }
}

impl Part {
    fn read(name: &str, xml: &str) -> Result<Self, String> {
        let kind = match name {
            "EventBridgeConfiguration" => Kind::EventBridge,
            "QueueConfiguration" | "TopicConfiguration" | "CloudFunctionConfiguration" => {
                let written: Written = de::from_str(xml).map_err(|error| error.to_string())?;
                Kind::Sent(written.notification())
            }
            _ => Kind::Other,
        };
        Ok(Self { xml: xml.to_owned(), kind })
    }
}

fn position(reader: &Reader<&[u8]>) -> usize {
    usize::try_from(reader.buffer_position()).unwrap_or(usize::MAX)
}

#[cfg(test)]
pub mod tests {
    use super::*;

    const QUEUE: &str = "arn:aws:sqs:us-east-1:123456789012:retry";
    const PREFIX: &str = "aws/lambda/async/orders/";

    /// Notifications that consist of these parts.
    pub fn notifications(parts: &str) -> Notifications {
        Notifications::read(&format!("<{ROOT} xmlns=\"{XMLNS}\">{parts}</{ROOT}>")).unwrap()
    }

    /// A notification as S3 writes it. `to` begins with the element that has the ARN: `Queue`, `Topic` or
    /// `CloudFunction`.
    pub fn part(id: &str, (kind, to): (&str, &str), event: &str, prefix: &str) -> String {
        format!(
            "<{kind}Configuration>\n  <Id>{id}</Id><{kind}>{to}</{kind}><Event>{event}</Event><Filter><S3Key>\
             <FilterRule><Name>Prefix</Name><Value>{prefix}</Value></FilterRule></S3Key></Filter></{kind}Configuration>"
        )
    }

    #[test]
    fn a_part_is_added_or_removed_and_all_others_keep_their_bytes_and_their_order() {
        let topic =
            part("t", ("Topic", "arn:aws:sns:us-east-1:1:t"), "s3:ObjectRemoved:*", "a&amp;b/");
        let function = part("f", ("CloudFunction", "arn:aws:lambda:x:1:function:f"), "x", "é/");
        let unknown =
            "<NewConfiguration><A b=\"c\"><Id>comeback-orders</Id></A></NewConfiguration>";
        let bridge = "<EventBridgeConfiguration/>";
        let others = [&*topic, &function, unknown, bridge].concat();
        let before = notifications(&others);
        assert_eq!(before.xml(), format!("<{ROOT} xmlns=\"{XMLNS}\">{others}</{ROOT}>"));
        assert!(before.uses_event_bridge());
        let prefixes: Vec<_> = before.sent().map(|it| it.prefix.as_str()).collect();
        assert_eq!(prefixes, ["a&b/", "é/"]);
        let after = before.with("comeback-orders", QUEUE, PREFIX);
        assert!(after.xml().contains(&others), "{}", after.xml());
        let read = Notifications::read(&after.xml()).unwrap();
        assert_eq!(read, after);
        assert_eq!(read.with("comeback-orders", QUEUE, PREFIX), after, "it is replaced");
        assert_eq!(read.without("comeback-orders"), before);
        let it = read.sent().last().unwrap();
        assert!(it.is_to_queue() && it.covers(PREFIX) && !it.covers("aws/lambda/async/mails/"));
    }

    #[test]
    fn a_bucket_that_tells_nobody_has_an_empty_element_and_anything_else_is_an_error() {
        for xml in [
            format!("<?xml version=\"1.0\"?>\n<{ROOT} xmlns=\"{XMLNS}\"/>"),
            format!("<{ROOT}></{ROOT}>"),
        ] {
            assert_eq!(Notifications::read(&xml), Ok(Notifications::default()), "{xml}");
        }
        for (xml, part) in [
            ("", "got nothing"),
            ("<html>", "got html"),
            (
                "<NotificationConfiguration><QueueConfiguration></NotificationConfiguration>",
                "expected",
            ),
            ("{\"no\": \"XML\"}", "got nothing"),
        ] {
            let error = Notifications::read(xml).unwrap_err();
            assert!(error.contains(part), "{xml}: {error}");
        }
    }

    #[test]
    fn a_notification_must_tell_of_every_new_record_of_a_function() {
        for (event, prefix, suffix, covers, overlaps) in [
            ("s3:ObjectCreated:*", PREFIX, "", true, true),
            ("s3:ObjectCreated:Put", "aws/lambda/async/", "", true, true),
            ("s3:ObjectCreated:*", "", "", true, true),
            ("s3:ObjectCreated:*", "", ".json", false, true),
            ("s3:ObjectCreated:*", "aws/lambda/async/orders/2026/", "", false, true),
            ("s3:ObjectCreated:*", "aws/lambda/async/mails/", "", false, false),
            ("s3:ObjectCreated:Copy", "", "", false, true),
            ("s3:ObjectRemoved:*", "", "", false, false),
        ] {
            let it = Notification {
                id: String::new(),
                to: QUEUE.to_owned(),
                events: vec!["s3:ObjectRestore:*".to_owned(), event.to_owned()],
                prefix: prefix.to_owned(),
                suffix: suffix.to_owned(),
            };
            assert_eq!((it.covers(PREFIX), it.overlaps(PREFIX)), (covers, overlaps), "{it:?}");
        }
    }
}
