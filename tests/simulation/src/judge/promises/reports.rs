//! A handler answers before its deadline, and a message is reported as done if and only if it is done.

use std::collections::BTreeSet;

use comeback_flow::report::Report;

use super::{Check, Happens, Kept, Promise, broken};
use crate::judge::known::{Delivery, Known};

#[derive(Default)]
pub struct Reports;

impl Promise for Reports {
    fn on(&mut self, happens: Happens<'_>, known: &Known) -> Kept {
        match happens {
            Happens::Hides(run, None) => {
                let what = format!("run {run} puts back a message that it was not given");
                broken(Check::ReportsTruly, None, what)
            }
            Happens::TimeIsUp(run) => {
                let what = format!("run {run} has no answer when its time is up");
                broken(Check::AnswersInTime, None, what)
            }
            Happens::Fails(run) => {
                let what = format!("run {run} found a record without an id");
                broken(Check::ReportsTruly, None, what)
            }
            Happens::Answers(run, report) => is_true(known, run, report),
            _ => Ok(()),
        }
    }
}

fn is_true(known: &Known, run: u64, report: &Report) -> Kept {
    let response = report.response();
    let kept: BTreeSet<&str> =
        response.batch_item_failures.iter().map(|item| item.item_identifier.as_str()).collect();
    // If a message is in a batch twice, both stay or neither.
    let batch = known.batch(run);
    let undone = batch.iter().filter(|message| !message.done);
    let undone: BTreeSet<&str> = undone.map(Delivery::message_id).collect();
    let wrong = batch.iter().find(|message| {
        let id = message.message_id();
        kept.contains(id) != undone.contains(id)
    });
    wrong.map_or(Ok(()), |message| {
        let (is, said) = match message.done {
            true => ("done", "stays in the queue"),
            false => ("not done", "is done"),
        };
        let what = format!("a message is {is}, and run {run} says that it {said}");
        broken(Check::ReportsTruly, known.event_of(message.case), what)
    })
}
