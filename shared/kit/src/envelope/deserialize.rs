//! Reads a payload of type `T` out of its envelope, or bare, in one pass.
//!
//! To keep an event's text until it is known whether it is an envelope, and to read it again then,
//! would cost as much as reading it. So `T` reads from the event itself, through a deserializer that
//! passes on what `T` asks for ([`Peek`]), and what it is answered ([`Watch`](super::watch)), and only
//! looks at the names of the outermost object ([`Members`](super::members)). Nothing below them is
//! touched. Where the names are an envelope's, `T` is read from the payload in their midst, and what had
//! been begun with the object around it is dropped. Who asks for a value's text, as raw JSON does, has to be
//! given all of the event's where it is bare; there the event is looked through once more for a payload.
//!
//! What was read can't be read again, so three envelopes are errors that need not be: one whose payload
//! comes after a member that is neither of the two and doesn't fit `T`; one whose metadata stands twice,
//! the second time after the payload and unreadable; and one whose payload nests as deep as
//! `serde_json` reads, 127 levels, and is one deeper in its envelope. No writer of envelopes makes the
//! first two.

use std::{borrow::Cow, cell::OnceCell};

use comeback_core::envelope::Envelope;
use serde::{
    Deserialize, Deserializer,
    de::{DeserializeOwned, Error, Visitor, value::MapDeserializer},
};
use serde_json::value::RawValue;

use super::{
    Enveloped, Retried,
    text::{RAW_VALUE, Text},
    variant::Variant,
    watch::Watch,
};

/// Told to what reads an ordinary object when it turned out to be an envelope; nobody sees it.
pub(super) const OPENED: &str = "";

/// The envelope that was found.
pub(super) struct Opened<T> {
    /// What was read from it.
    pub(super) enveloped: OnceCell<Enveloped<T>>,
    /// Its facts, where `T` itself is given its payload.
    retried: OnceCell<Retried>,
}

impl<'de, T: DeserializeOwned> Deserialize<'de> for Enveloped<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let opened = Opened { enveloped: OnceCell::new(), retried: OnceCell::new() };
        let payload = T::deserialize(Peek { inner: deserializer, opened: &opened });
        match opened.enveloped.into_inner() {
            Some(enveloped) => Ok(enveloped),
            None => Ok(Self { payload: payload?, retried: opened.retried.into_inner() }),
        }
    }
}

/// A deserializer that looks for an envelope in what `T` is to be read from.
pub(super) struct Peek<'a, D, T> {
    pub(super) inner: D,
    pub(super) opened: &'a Opened<T>,
}

impl<'de, D: Deserializer<'de>, T: DeserializeOwned> Peek<'_, D, T> {
    /// Has `read` read for a visitor that looks out for the envelope.
    fn watched<V: Visitor<'de>>(
        self,
        visitor: V,
        read: impl FnOnce(D, Watch<'_, V, T>) -> Result<Option<V::Value>, D::Error>,
    ) -> Result<V::Value, D::Error> {
        let seen = read(self.inner, Watch { visitor, opened: self.opened })?;
        seen.ok_or_else(|| D::Error::custom(OPENED))
    }

    /// The text of the payload, be it in an envelope or bare.
    fn text(self) -> Result<Cow<'de, str>, D::Error> {
        let Text(event) = Text::deserialize(self.inner)?;
        let Some((payload, retried)) = find(&event) else {
            return Ok(event);
        };
        if payload == RawValue::NULL.get() {
            // An `Option` around who asks is to see that there is nothing.
            let payload = serde_json::from_str(&payload).map_err(D::Error::custom)?;
            let _ = self.opened.enveloped.set(Enveloped { payload, retried: Some(retried) });
            return Err(D::Error::custom(OPENED));
        }
        // It is empty: what is asked for a text is never asked again.
        let _ = self.opened.retried.set(retried);
        Ok(payload)
    }
}

/// What is in an envelope, where it stands if the event lends it, and its facts.
fn find<'de>(event: &Cow<'de, str>) -> Option<(Cow<'de, str>, Retried)> {
    let (payload, metadata) = match event {
        Cow::Borrowed(event) => {
            let (metadata, payload) = Envelope::find(event)?;
            (Cow::Borrowed(payload.get()), metadata)
        }
        Cow::Owned(event) => {
            let (metadata, payload) = Envelope::find(event)?;
            (Cow::Owned(payload.get().to_owned()), metadata)
        }
    };
    Some((payload, Retried(metadata)))
}

/// What is read as it is asked for: answers may be objects.
macro_rules! watch {
    ($($ask:ident($($argument:ident: $type:ty),*))*) => {$(
        fn $ask<V: Visitor<'de>>(self, $($argument: $type,)* visitor: V) -> Result<V::Value, D::Error> {
            self.watched(visitor, |inner, watch| inner.$ask($($argument,)* watch))
        }
    )*};
}

/// What is never an object, where `serde_json` would refuse one unseen. Asked for anything, it says
/// the same as when it is asked for this.
macro_rules! watch_any {
    ($($ask:ident($($argument:ident: $type:ty),*))*) => {$(
        fn $ask<V: Visitor<'de>>(self, $(_: $type,)* visitor: V) -> Result<V::Value, D::Error> {
            self.deserialize_any(visitor)
        }
    )*};
}

/// What is never an object, and is not the same when it is asked for as anything: `i128`, and all
/// numbers where they have arbitrary precision. They are short, so their text is looked at first.
macro_rules! from_text {
    ($($ask:ident)*) => {$(
        fn $ask<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
            let text = self.text()?;
            // `V` may borrow from the event, but not from what may be a copy of it: a reader lends nothing.
            let mut json = serde_json::Deserializer::from_reader(text.as_bytes());
            let value = json.$ask(visitor).map_err(D::Error::custom)?;
            json.end().map_err(D::Error::custom)?;
            Ok(value)
        }
    )*};
}

impl<'de, D: Deserializer<'de>, T: DeserializeOwned> Deserializer<'de> for Peek<'_, D, T> {
    type Error = D::Error;

    watch! {
        deserialize_any()
        deserialize_map()
        deserialize_option()
        deserialize_struct(name: &'static str, fields: &'static [&'static str])
    }

    watch_any! {
        deserialize_char()
        deserialize_identifier()
        deserialize_ignored_any()
        deserialize_seq()
        deserialize_str()
        deserialize_string()
        deserialize_tuple(length: usize)
        deserialize_tuple_struct(name: &'static str, length: usize)
        deserialize_unit()
        deserialize_unit_struct(name: &'static str)
    }

    from_text! {
        deserialize_bool
        deserialize_bytes
        deserialize_byte_buf
        deserialize_f32
        deserialize_f64
        deserialize_i8
        deserialize_i16
        deserialize_i32
        deserialize_i64
        deserialize_i128
        deserialize_u8
        deserialize_u16
        deserialize_u32
        deserialize_u64
        deserialize_u128
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        if name == RAW_VALUE {
            let text = self.text()?;
            // As `serde_json` hands it over: an object of one member, which is the text.
            return visitor.visit_map(MapDeserializer::new([(name, text)].into_iter()));
        }
        self.watched(visitor, |inner, watch| inner.deserialize_newtype_struct(name, watch))
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.deserialize_any(Variant(visitor))
    }

    fn is_human_readable(&self) -> bool {
        self.inner.is_human_readable()
    }
}
