//! An enum, read from whatever it is written as: a string or an object of one member.

use std::fmt;

use serde::de::{
    Error, IgnoredAny, IntoDeserializer, MapAccess, Visitor, value::MapAccessDeserializer,
};

/// Shows what was read as anything to the visitor of an enum.
pub(super) struct Variant<V>(pub(super) V);

impl<'de, V: Visitor<'de>> Visitor<'de> for Variant<V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.expecting(f)
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<V::Value, E> {
        self.0.visit_enum(name.into_deserializer())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<V::Value, A::Error> {
        let value = self.0.visit_enum(MapAccessDeserializer::new(&mut map))?;
        match map.next_key()? {
            None => Ok(value),
            Some(IgnoredAny) => Err(A::Error::custom("expected an object of one member")),
        }
    }
}
