//! Groups of events or letters: how many there are, and from when to when.

use std::{cmp::Reverse, collections::BTreeMap};

use comeback_core::Timestamp;

#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Groups(BTreeMap<Vec<String>, Group>);

#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Group {
    pub count: u64,
    pub first_at: Option<Timestamp>,
    pub last_at: Option<Timestamp>,
}

impl Groups {
    pub fn count(&mut self, key: Vec<String>, at: Option<Timestamp>) {
        let group = self.0.entry(key).or_default();
        group.count += 1;
        group.first_at = group.first_at.into_iter().chain(at).min();
        group.last_at = group.last_at.max(at);
    }

    pub fn largest_first(&self) -> Vec<(&[String], Group)> {
        let mut groups: Vec<_> =
            self.0.iter().map(|(key, group)| (key.as_slice(), *group)).collect();
        groups.sort_by_key(|(_, group)| Reverse(group.count));
        groups
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use comeback_core::time::parse;

    #[test]
    fn a_group_has_a_count_and_the_range_of_its_times() {
        let mut groups = Groups::default();
        let [early, late] =
            ["2026-01-01T10:00:00Z", "2026-01-03T00:00:00Z"].map(|text| parse(text).unwrap());
        for (key, at) in [("a", Some(late)), ("b", None), ("b", Some(late)), ("b", Some(early))] {
            groups.count(vec![key.to_owned()], at);
        }
        let group = |count, first_at, last_at| Group { count, first_at, last_at };
        let expected =
            [("b", group(3, Some(early), Some(late))), ("a", group(1, Some(late), Some(late)))];
        let found = groups.largest_first();
        let found: Vec<_> = found.iter().map(|(key, group)| (&*key[0], *group)).collect();
        assert_eq!(found, expected);
    }
}
