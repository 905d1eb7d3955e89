//! Pairs the entries of a call with their answers.
//!
//! A port returns one answer for each entry, in order. If there are fewer or more, nobody knows whose they are, so none
//! of them counts and every entry has failed. A message is then handled again, and maybe twice. If it had been given
//! its neighbour's answer instead, it could be lost.

use comeback_core::fault::{FaultKind, InvokeFault};

use crate::ports::CallFault;

/// A call's entries, each with its answer.
pub(crate) struct Answered<'a, T, E> {
    entries: &'a [T],
    answers: Vec<Result<(), E>>,
}

/// The name of the fault in the log.
const UNPAIRED: &str = "UnpairedAnswers";

/// There is not one answer for each entry. This is a defect of a port, so only a person can fix it.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("expected {entries} answers to a call, got {answers}")]
pub(crate) struct Unpaired {
    entries: usize,
    answers: usize,
}

impl<'a, T, E: Clone + From<Unpaired>> Answered<'a, T, E> {
    pub(crate) fn of(entries: &'a [T], answers: Vec<Result<(), E>>) -> Self {
        if answers.len() == entries.len() {
            return Self { entries, answers };
        }
        let unpaired = Unpaired { entries: entries.len(), answers: answers.len() };
        Self { entries, answers: vec![Err(unpaired.into()); entries.len()] }
    }

    pub(crate) fn pairs(self) -> impl Iterator<Item = (&'a T, Result<(), E>)> {
        self.entries.iter().zip(self.answers)
    }
}

impl<T> Answered<'_, T, InvokeFault> {
    /// Whether SQS has refused all entries of a call for good. It may have refused the call because of a single entry,
    /// so each has to be sent alone before any is given up.
    pub(crate) fn are_refused_together(&self) -> bool {
        let is_refused = |answer: &Result<(), InvokeFault>| {
            answer.as_ref().is_err_and(|fault| matches!(fault.kind, FaultKind::Refused(_)))
        };
        self.answers.len() > 1 && self.answers.iter().all(is_refused)
    }
}

impl From<Unpaired> for InvokeFault {
    fn from(unpaired: Unpaired) -> Self {
        let (kind, code) = (FaultKind::Configuration, Some(UNPAIRED.to_owned()));
        Self { kind, code, message: unpaired.to_string() }
    }
}

impl From<Unpaired> for CallFault {
    fn from(unpaired: Unpaired) -> Self {
        Self(format!("{UNPAIRED}: {unpaired}"))
    }
}

#[cfg(test)]
mod tests {
    use comeback_core::reason::Reason;

    use super::*;

    fn refused() -> Result<(), InvokeFault> {
        let kind = FaultKind::Refused(Reason::InvokeRejected);
        Err(InvokeFault { kind, code: None, message: "no".to_owned() })
    }

    #[test]
    fn as_many_answers_as_entries_are_paired_in_order() {
        let no = CallFault("no".to_owned());
        let pairs = Answered::of(&["a", "b"], vec![Ok(()), Err(no.clone())]).pairs();
        assert_eq!(pairs.collect::<Vec<_>>(), [(&"a", Ok(())), (&"b", Err(no))]);
        assert_eq!(Answered::<&str, CallFault>::of(&[], Vec::new()).pairs().count(), 0);
    }

    #[test]
    fn of_too_few_too_many_or_no_answers_none_counts_for_any_entry() {
        let entries = ["a", "b"];
        for count in [0, 1, 3] {
            let answers: Vec<_> = Answered::of(&entries, vec![Ok(()); count]).pairs().collect();
            let said = format!("UnpairedAnswers: expected 2 answers to a call, got {count}");
            let fault = Err(CallFault(said.clone()));
            assert_eq!(answers, [(&"a", fault.clone()), (&"b", fault)]);
            let sent = Answered::of(&entries, vec![Ok(()); count]);
            for (_, answer) in sent.pairs() {
                let fault: InvokeFault = answer.unwrap_err();
                assert_eq!(
                    (fault.kind, fault.to_string()),
                    (FaultKind::Configuration, said.clone())
                );
            }
        }
    }

    #[test]
    fn a_call_is_refused_as_a_whole_only_if_it_has_several_entries_and_every_answer_is_a_refusal() {
        for (entries, answers, expected) in [
            (&["a", "b"][..], vec![refused(), refused()], true),
            (&["a", "b"], vec![refused(), Ok(())], false),
            (&["a"], vec![refused()], false),
            (&["a", "b", "c"], vec![refused(), refused()], false),
        ] {
            let call = Answered::of(entries, answers.clone());
            assert_eq!(call.are_refused_together(), expected, "{answers:?}");
        }
    }
}
