//! Shows groups of events or dead letters, as a table or as JSON.

use crate::operate::rules::groups::{Group, Groups};
use serde_json::{Map, Value, json};

use super::text::{count, table};
use crate::paint::Line;

/// A table of groups. `names` are the columns of the group key. `columns` are the count and the two `times`.
pub fn lines(
    names: &[&str],
    columns: [&str; 3],
    groups: &Groups,
    times: impl Fn(&Group) -> [String; 2],
    width: Option<usize>,
) -> Vec<Line> {
    let header: Vec<_> = names.iter().chain(&columns).map(|&name| name.to_owned()).collect();
    let row = |(key, group): &(&[String], Group)| {
        let cells = [count(group.count)].into_iter().chain(times(group));
        key.iter().cloned().chain(cells).collect()
    };
    table(&header, &groups.largest_first().iter().map(row).collect::<Vec<_>>(), width)
}

pub fn json(names: &[&str], groups: &Groups, group: impl Fn(&Group) -> Value) -> Vec<Value> {
    let json = |(key, it): (&[String], Group)| {
        let by = names.iter().zip(key).map(|(&name, key)| (name.to_owned(), json!(key)));
        json!({ "by": by.collect::<Map<_, _>>(), "group": group(&it) })
    };
    groups.largest_first().into_iter().map(json).collect()
}
