//! The members of the outermost object, one by one to who reads it, until one of an envelope's two
//! names comes.

use std::borrow::Cow;

use comeback_core::envelope::{METADATA, PAYLOAD, RetryMetadata};
use serde::de::{DeserializeOwned, DeserializeSeed, Error, IgnoredAny, MapAccess};

use super::{
    Enveloped, Retried,
    deserialize::{OPENED, Opened},
    name::{Name, NameDeserializer},
    text::Text,
};

/// A member whose value is not read yet.
type Kept<'de> = (Cow<'de, str>, Text<'de>);

/// An object's members.
pub(super) struct Members<'a, 'de, A, T> {
    map: A,
    opened: &'a Opened<T>,
    /// What is next, where it was looked at already.
    ahead: Option<Step<'de>>,
    /// What is left of an object that has one of the names and is no envelope.
    kept: std::vec::IntoIter<Kept<'de>>,
    /// The value of the last name, where it is a kept one.
    value: Option<Text<'de>>,
}

/// What comes next in an object.
pub(super) enum Step<'de> {
    /// A member of this name.
    Name(Cow<'de, str>),
    /// Nothing.
    End,
    /// Nothing of it counts: it is an envelope, and was opened.
    Opened,
}

impl<'a, 'de, A: MapAccess<'de>, T: DeserializeOwned> Members<'a, 'de, A, T> {
    pub(super) fn new(map: A, opened: &'a Opened<T>) -> Self {
        Self { map, opened, ahead: None, kept: Vec::new().into_iter(), value: None }
    }

    /// Takes the next step.
    pub(super) fn step(&mut self) -> Result<Step<'de>, A::Error> {
        if let Some(step) = self.ahead.take() {
            return Ok(step);
        }
        if self.kept.len() == 0 {
            match self.map.next_key_seed(Name)? {
                None => return Ok(Step::End),
                Some(name) if name != METADATA && name != PAYLOAD => return Ok(Step::Name(name)),
                Some(name) => match rest(&mut self.map, name)? {
                    Rest::Envelope(enveloped) => {
                        // It is empty: whoever fills it ends the reading.
                        let _ = self.opened.enveloped.set(enveloped);
                        return Ok(Step::Opened);
                    }
                    Rest::Ordinary(members) => self.kept = members.into_iter(),
                },
            }
        }
        Ok(self.kept.next().map_or(Step::End, |(name, value)| {
            self.value = Some(value);
            Step::Name(name)
        }))
    }

    /// Takes a step back.
    pub(super) fn put_back(&mut self, step: Step<'de>) {
        self.ahead = Some(step);
    }
}

impl<'de, A: MapAccess<'de>, T: DeserializeOwned> MapAccess<'de> for Members<'_, 'de, A, T> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, A::Error> {
        match self.step()? {
            Step::Name(name) => seed.deserialize(NameDeserializer::new(name)).map(Some),
            Step::End => Ok(None),
            Step::Opened => Err(A::Error::custom(OPENED)),
        }
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, A::Error> {
        let Some(Text(kept)) = self.value.take() else {
            return self.map.next_value_seed(seed);
        };
        // `V` may borrow from the event, but not from what may be a copy of it: a reader lends nothing.
        let mut value = serde_json::Deserializer::from_reader(kept.as_bytes());
        seed.deserialize(&mut value).map_err(A::Error::custom)
    }
}

/// What an object is, from its first member on that has one of the two names.
enum Rest<'de, T> {
    Envelope(Enveloped<T>),
    Ordinary(Vec<Kept<'de>>),
}

/// Reads an object to its end.
fn rest<'de, A: MapAccess<'de>, T: DeserializeOwned>(
    map: &mut A,
    name: Cow<'de, str>,
) -> Result<Rest<'de, T>, A::Error> {
    let mut next = Some(name);
    let mut members: Vec<Kept<'de>> = Vec::new();
    while let Some(name) = next {
        // As envelopes are written: the payload, which may be large, comes after its metadata.
        if name == PAYLOAD
            && let Some(metadata) = metadata(&members)
        {
            return envelope(map, metadata).map(Rest::Envelope);
        }
        members.push((name, map.next_value()?));
        next = map.next_key_seed(Name)?;
    }
    match (metadata(&members), last(&members, PAYLOAD)) {
        (Some(metadata), Some(payload)) => {
            let payload = serde_json::from_str(payload).map_err(A::Error::custom)?;
            Ok(Rest::Envelope(Enveloped { payload, retried: Some(Retried(metadata)) }))
        }
        (Some(_) | None, Some(_) | None) => Ok(Rest::Ordinary(members)),
    }
}

/// Reads an envelope from its payload on. Where a name stands twice the last one counts.
fn envelope<'de, A: MapAccess<'de>, T: DeserializeOwned>(
    map: &mut A,
    metadata: RetryMetadata,
) -> Result<Enveloped<T>, A::Error> {
    let mut metadata = Some(metadata);
    let mut payload = map.next_value()?;
    while let Some(name) = map.next_key_seed(Name)? {
        match &*name {
            PAYLOAD => payload = map.next_value()?,
            METADATA => metadata = RetryMetadata::read(&map.next_value::<Text<'de>>()?.0),
            _ => map.next_value().map(|IgnoredAny| ())?,
        }
    }
    let metadata = metadata.ok_or_else(|| A::Error::custom(UNREADABLE))?;
    Ok(Enveloped { payload, retried: Some(Retried(metadata)) })
}

const UNREADABLE: &str = "`_retry_metadata` stands twice, and the second can't be read";

fn metadata(members: &[Kept<'_>]) -> Option<RetryMetadata> {
    RetryMetadata::read(last(members, METADATA)?)
}

fn last<'a>(members: &'a [Kept<'_>], name: &str) -> Option<&'a str> {
    members.iter().rfind(|(member, _)| member == name).map(|(_, Text(value))| &**value)
}
