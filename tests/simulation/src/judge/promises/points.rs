//! A dead letter that points to its payload has no room for it, and the payload is there.

use super::{Check, Happens, Kept, Promise, ensure};
use crate::judge::known::Known;

#[derive(Default)]
pub struct Points;

impl Promise for Points {
    fn on(&mut self, happens: Happens<'_>, known: &Known) -> Kept {
        let Happens::Points(case, record) = happens else { return Ok(()) };
        let payload = known.received(&known.cases[case]);
        let is_of_mapping = known.cases[case].is_of_mapping();
        let is_there = str::from_utf8(record).is_ok_and(|record| match is_of_mapping {
            // A part of a batch is in the whole, which may be JSON in a string.
            true => known.events[known.event_of(case)].batch().is_some_and(|it| it.is_in(record)),
            false => record.contains(&format!(r#""requestPayload":{payload}"#)),
        });
        ensure(is_there, Check::PointsTruly, || {
            "its dead letter points to a record that has another payload".to_owned()
        })
    }
}
