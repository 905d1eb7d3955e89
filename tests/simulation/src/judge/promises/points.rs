//! A dead letter that points to its payload has no room for it, and the payload is there.

use super::{Check, Happens, Kept, Promise, ensure};
use crate::judge::known::Known;

#[derive(Default)]
pub struct Points;

impl Promise for Points {
    fn on(&mut self, happens: Happens<'_>, known: &Known) -> Kept {
        let Happens::Points(case, record) = happens else { return Ok(()) };
        let of = &known.cases[case];
        let batch = known.events[of.of.event].batch().filter(|_| of.is_of_mapping());
        let is_there = str::from_utf8(record).is_ok_and(|record| match batch {
            // A part of a batch is in the whole, which may be JSON in a string.
            Some(batch) => batch.is_in(record),
            None => record.contains(&format!(r#""requestPayload":{}"#, known.received(of))),
        });
        ensure(is_there, Check::PointsTruly, || {
            "its dead letter points to a record that has another payload".to_owned()
        })
    }
}
