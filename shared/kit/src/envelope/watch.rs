//! A visitor that passes on what it is shown, and looks out for an envelope.

use std::fmt;

use serde::{
    Deserializer,
    de::{DeserializeOwned, EnumAccess, Error, MapAccess, SeqAccess, Visitor},
};

use super::{
    deserialize::{Opened, Peek},
    members::{Members, Step},
};

/// Shows `visitor` what it would have been shown, or nothing of it, where it is an envelope: then that
/// was opened.
pub(super) struct Watch<'a, V, T> {
    pub(super) visitor: V,
    pub(super) opened: &'a Opened<T>,
}

impl<V, T> Watch<'_, V, T> {
    /// What the visitor made of it, which counts for nothing after an envelope was opened: it was
    /// stopped halfway, and may have made do with that.
    fn unless_opened<R, E>(opened: &Opened<T>, made: Result<R, E>) -> Result<Option<R>, E> {
        if opened.enveloped.get().is_some() { Ok(None) } else { made.map(Some) }
    }
}

macro_rules! pass_on {
    ($($visit:ident($type:ty))*) => {$(
        fn $visit<E: Error>(self, value: $type) -> Result<Self::Value, E> {
            self.visitor.$visit(value).map(Some)
        }
    )*};
}

impl<'de, V: Visitor<'de>, T: DeserializeOwned> Visitor<'de> for Watch<'_, V, T> {
    type Value = Option<V::Value>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.visitor.expecting(f)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        let Self { visitor, opened } = self;
        let mut members = Members::new(map, opened);
        // An envelope has one of its names first, unless others put something before them.
        match members.step()? {
            Step::Opened => return Ok(None),
            first @ (Step::Name(_) | Step::End) => members.put_back(first),
        }
        Self::unless_opened(opened, visitor.visit_map(members))
    }

    fn visit_some<D: Deserializer<'de>>(self, inner: D) -> Result<Self::Value, D::Error> {
        let Self { visitor, opened } = self;
        Self::unless_opened(opened, visitor.visit_some(Peek { inner, opened }))
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, inner: D) -> Result<Self::Value, D::Error> {
        let Self { visitor, opened } = self;
        Self::unless_opened(opened, visitor.visit_newtype_struct(Peek { inner, opened }))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Self::Value, A::Error> {
        self.visitor.visit_seq(seq).map(Some)
    }

    fn visit_enum<A: EnumAccess<'de>>(self, variant: A) -> Result<Self::Value, A::Error> {
        self.visitor.visit_enum(variant).map(Some)
    }

    fn visit_none<E: Error>(self) -> Result<Self::Value, E> {
        self.visitor.visit_none().map(Some)
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        self.visitor.visit_unit().map(Some)
    }

    pass_on! {
        visit_bool(bool)
        visit_i8(i8) visit_i16(i16) visit_i32(i32) visit_i64(i64) visit_i128(i128)
        visit_u8(u8) visit_u16(u16) visit_u32(u32) visit_u64(u64) visit_u128(u128)
        visit_f32(f32) visit_f64(f64)
        visit_char(char)
        visit_str(&str) visit_borrowed_str(&'de str) visit_string(String)
        visit_bytes(&[u8]) visit_borrowed_bytes(&'de [u8]) visit_byte_buf(Vec<u8>)
    }
}
