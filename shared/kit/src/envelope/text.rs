//! The text of a value, as the event lends it.

use std::{borrow::Cow, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{Error, MapAccess, Visitor},
};

use super::name::Name;

/// The name by which `serde_json`'s `RawValue` asks for a value's text.
pub(super) const RAW_VALUE: &str = "$serde_json::private::RawValue";

/// A value's text, as `RawValue` has it; but whether the event lends it or a copy is needed, is not the
/// type's to say.
pub(super) struct Text<'de>(pub(super) Cow<'de, str>);

impl<'de> Deserialize<'de> for Text<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_newtype_struct(RAW_VALUE, HandedOver)
    }
}

/// `serde_json` hands a text over as an object of one member.
struct HandedOver;

impl<'de> Visitor<'de> for HandedOver {
    type Value = Text<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any valid JSON value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Text<'de>, A::Error> {
        match map.next_key_seed(Name)? {
            Some(_) => map.next_value_seed(Name).map(Text),
            None => Err(A::Error::custom("expected the text of a value")),
        }
    }
}
