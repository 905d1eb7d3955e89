//! The name of a member: looked at first, then shown to who reads the object, as `serde_json` would.

use std::{borrow::Cow, fmt, marker::PhantomData};

use serde::{
    Deserializer,
    de::{DeserializeSeed, Error, IntoDeserializer, Visitor},
    forward_to_deserialize_any,
};

/// Reads a name, without a copy where the event lends it.
pub(super) struct Name;

impl<'de> DeserializeSeed<'de> for Name {
    type Value = Cow<'de, str>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for Name {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_borrowed_str<E>(self, name: &'de str) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(name))
    }

    fn visit_str<E>(self, name: &str) -> Result<Self::Value, E> {
        Ok(Cow::Owned(name.to_owned()))
    }

    fn visit_string<E>(self, name: String) -> Result<Self::Value, E> {
        Ok(Cow::Owned(name))
    }
}

/// Shows a name. Where another type than a string is asked for, it is read from the name's text, as
/// the keys of a `HashMap<u64, _>` are.
pub(super) struct NameDeserializer<'de, E> {
    name: Cow<'de, str>,
    error: PhantomData<E>,
}

impl<'de, E> NameDeserializer<'de, E> {
    pub(super) fn new(name: Cow<'de, str>) -> Self {
        Self { name, error: PhantomData }
    }
}

macro_rules! numbers {
    ($($ask:ident)*) => {$(
        fn $ask<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, E> {
            if !self.name.starts_with(|c: char| c == '-' || c.is_ascii_digit()) {
                return self.deserialize_any(visitor);
            }
            let mut number = serde_json::Deserializer::from_reader(self.name.as_bytes());
            let value = number.$ask(visitor).map_err(E::custom)?;
            number.end().map_err(E::custom)?;
            Ok(value)
        }
    )*};
}

impl<'de, E: Error> Deserializer<'de> for NameDeserializer<'de, E> {
    type Error = E;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, E> {
        match self.name {
            Cow::Borrowed(name) => visitor.visit_borrowed_str(name),
            Cow::Owned(name) => visitor.visit_string(name),
        }
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, E> {
        match &*self.name {
            "true" => visitor.visit_bool(true),
            "false" => visitor.visit_bool(false),
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_bytes<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, E> {
        match self.name {
            Cow::Borrowed(name) => visitor.visit_borrowed_bytes(name.as_bytes()),
            Cow::Owned(name) => visitor.visit_byte_buf(name.into_bytes()),
        }
    }

    fn deserialize_byte_buf<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, E> {
        self.deserialize_bytes(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, E> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, E> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, E> {
        self.name.into_deserializer().deserialize_enum(name, variants, visitor)
    }

    numbers! {
        deserialize_f32 deserialize_f64
        deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64 deserialize_i128
        deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64 deserialize_u128
    }

    forward_to_deserialize_any! {
        char identifier ignored_any map seq str string struct tuple tuple_struct unit unit_struct
    }
}
