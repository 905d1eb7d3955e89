//! Tables and bars for a terminal.

use std::collections::BTreeMap;

use comfy_table::{ContentArrangement, Table, presets};
use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    groups::{Group, Groups},
    paint::{Line, Style},
    text::count,
    untrusted,
};

/// The spaces beside the text of a table's cell.
const PADDING: usize = 2;

/// A table that has only some of its columns in a narrow terminal. `narrow` is the width below which it is narrow, and
/// the indexes of these columns.
pub fn narrowed<const N: usize>(
    header: [&str; N],
    rows: impl Iterator<Item = [String; N]>,
    width: Option<usize>,
    narrow: (usize, &[usize]),
) -> Vec<Line> {
    let is_narrow = width.is_some_and(|width| width < narrow.0);
    let columns = if is_narrow { narrow.1.to_vec() } else { (0..N).collect() };
    let chosen = |cells: [String; N]| columns.iter().map(|nth| cells[*nth].clone()).collect();
    let rows: Vec<Vec<_>> = rows.map(chosen).collect();
    table(&chosen(header.map(str::to_owned)), &rows, width)
}

/// A table that has as many of its first columns as fit into the width, and at least this many.
pub fn fitting<const N: usize>(
    header: [&str; N],
    rows: &[[String; N]],
    width: Option<usize>,
    least: usize,
) -> Vec<Line> {
    let header = header.map(str::to_owned);
    let cells = |nth: usize| rows.iter().chain([&header]).map(move |row| row[nth].chars().count());
    let mut used = 0;
    let mut fits = |nth: usize| {
        used += cells(nth).max().unwrap_or(0) + PADDING;
        nth < least || width.is_none_or(|width| used <= width)
    };
    let columns = (0..N).take_while(|nth| fits(*nth)).count();
    let rows: Vec<_> = rows.iter().map(|row| row[..columns].to_vec()).collect();
    table(&header[..columns], &rows, width)
}

/// A table without borders. Its cells wrap if it would be wider than `width`.
pub fn table(header: &[String], rows: &[Vec<String>], width: Option<usize>) -> Vec<Line> {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    if let Some(width) = width {
        let width = u16::try_from(width).unwrap_or(u16::MAX);
        table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
    }
    // Untrusted text must not control the terminal.
    let plain = |text: &String| Line::of(Style::Plain, text).paint(false);
    table.set_header(header.iter().map(plain));
    table.add_rows(rows.iter().map(|row| row.iter().map(plain)));
    let style = |index| if index == 0 { Style::Strong } else { Style::Plain };
    let lines = table.lines().enumerate();
    lines.map(|(index, line)| Line::of(style(index), line.trim_end())).collect()
}

/// A row of bars of `width` characters. `max` is the value of a full bar. A bar shows the highest of its values.
pub fn bars(values: &[f64], max: f64, width: usize) -> String {
    const LEVELS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let bar = |column: usize| {
        let (from, to) = (column * values.len() / width, (column + 1) * values.len() / width);
        let highest = values
            .get(from..to.max(from + 1))
            .into_iter()
            .flatten()
            .fold(0.0, |a: f64, b| a.max(*b));
        // Rounded up, so that a positive value is never drawn as a blank.
        LEVELS[((highest / max * 8.0).ceil() as usize).min(8)]
    };
    if max > 0.0 { (0..width).map(bar).collect() } else { String::new() }
}

/// A table of groups. `names` are the columns of the group key. `columns` are the count and the two `times`.
pub fn group_lines(
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

/// A group in a document: what its members have in common, and how many there are.
#[derive(JsonSchema, Serialize)]
pub struct GroupJson<T> {
    #[schemars(with = "BTreeMap<String, untrusted::Text>")]
    by: BTreeMap<&'static str, String>,
    group: T,
}

pub fn group_json<T>(
    names: &[&'static str],
    groups: &Groups,
    group: impl Fn(&Group) -> T,
) -> Vec<GroupJson<T>> {
    let shown = |(key, it): (&[String], Group)| {
        let by = names.iter().copied().zip(key.iter().cloned()).collect();
        GroupJson { by, group: group(&it) }
    };
    groups.largest_first().into_iter().map(shown).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_wraps_at_the_width_of_the_terminal() {
        let text = |text: &str| text.to_owned();
        let header = [text("name"), text("what it is")];
        let rows = [
            vec![text("one"), text("a long sentence of many words")],
            vec![text("t\x1bw\u{202e}o\u{2028}")],
        ];
        let widest = |width| table(&header, &rows, width).iter().map(Line::width).max();
        assert_eq!(widest(None), Some(38));
        assert!(widest(Some(20)) <= Some(20));
        let written: String =
            table(&header, &rows, None).iter().map(|it| it.paint(false)).collect();
        assert!(written.contains("t\u{fffd}w\u{fffd}o\u{fffd}"), "{written}");
    }

    #[test]
    fn a_table_has_the_first_columns_that_fit() {
        let header = ["one", "two", "three"];
        let rows = [["1", "2222", "3"].map(str::to_owned)];
        let text = |width, least| fitting(header, &rows, width, least)[0].paint(false);
        for (width, least, expected) in [
            (None, 0, " one  two   three"),
            (Some(18), 0, " one  two   three"),
            (Some(17), 0, " one  two"),
            (Some(10), 0, " one"),
            (Some(10), 2, " one  two"),
        ] {
            assert_eq!(text(width, least), expected, "{width:?} {least}");
        }
    }

    #[test]
    fn bars_show_the_highest_value_of_each_column() {
        assert_eq!(bars(&[0.0, 4.0, 8.0, 0.0, 0.1, 0.0], 8.0, 3), "▄█▁");
        assert_eq!(bars(&[1.0], 1.0, 4), "████");
        assert_eq!(bars(&[0.0], 0.0, 4), "");
    }
}
