//! The difference between two payloads, line by line.

use std::iter::repeat_n;

/// The most pairs of lines to compare. Beyond that, the whole changed part counts as removed and added.
const PAIRS_MAX: usize = 1_000_000;

/// The number of unchanged lines to show before and after a change.
const CONTEXT: usize = 3;

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Change {
    Same,
    Removed,
    Added,
}

/// The lines of two JSON texts, with what has changed. Only a few unchanged lines around the changes are kept.
pub fn difference(before: &str, after: &str) -> Vec<(Change, String)> {
    let (before, after) = (indented(before), indented(after));
    let (old, new): (Vec<_>, Vec<_>) = (before.lines().collect(), after.lines().collect());
    let head = old.iter().zip(&new).take_while(|(old, new)| old == new).count();
    let rest = old[head..].iter().rev().zip(new[head..].iter().rev());
    let tail = rest.take_while(|(old, new)| old == new).count();
    let same = |lines: &[&str]| -> Vec<_> {
        lines.iter().map(|line| (Change::Same, (*line).to_owned())).collect()
    };
    let mut lines = same(&old[head.saturating_sub(CONTEXT)..head]);
    lines.extend(middle(&old[head..old.len() - tail], &new[head..new.len() - tail]));
    lines.extend(same(&old[old.len() - tail..][..tail.min(CONTEXT)]));
    lines
}

/// The changes between two lists of lines, by their longest common subsequence.
fn middle(old: &[&str], new: &[&str]) -> Vec<(Change, String)> {
    let width = new.len() + 1;
    // The length of the longest common subsequence of what follows each pair of lines.
    let mut longest = vec![0_u32; (old.len() + 1) * width];
    let is_small = old.len() * new.len() <= PAIRS_MAX;
    for (i, j) in (0..old.len()).rev().flat_map(|i| (0..new.len()).rev().map(move |j| (i, j))) {
        if !is_small {
            break;
        }
        longest[i * width + j] = if old[i] == new[j] {
            longest[(i + 1) * width + j + 1] + 1
        } else {
            longest[(i + 1) * width + j].max(longest[i * width + j + 1])
        };
    }
    let (mut i, mut j, mut lines) = (0, 0, Vec::new());
    while i < old.len() || j < new.len() {
        let is_removed = j == new.len()
            || i < old.len() && longest[(i + 1) * width + j] >= longest[i * width + j + 1];
        if i < old.len() && j < new.len() && is_small && old[i] == new[j] {
            lines.push((Change::Same, old[i].to_owned()));
            (i, j) = (i + 1, j + 1);
        } else if is_removed {
            lines.push((Change::Removed, old[i].to_owned()));
            i += 1;
        } else {
            lines.push((Change::Added, new[j].to_owned()));
            j += 1;
        }
    }
    lines
}

/// JSON with a line for each member. Numbers keep all of their digits, because no value is parsed.
pub fn indented(json: &str) -> String {
    let (mut text, mut depth, mut is_string, mut is_escaped) =
        (String::new(), 0_usize, false, false);
    let line = |text: &mut String, depth: usize| {
        text.push('\n');
        text.extend(repeat_n("  ", depth));
    };
    for c in json.chars() {
        if is_string || c == '"' {
            is_string = c != '"' || !is_string || is_escaped;
            is_escaped = c == '\\' && !is_escaped;
            text.push(c);
            continue;
        }
        match c {
            '{' | '[' => {
                text.push(c);
                depth += 1;
                line(&mut text, depth);
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                text.truncate(text.trim_end().len());
                if !text.ends_with(['{', '[']) {
                    line(&mut text, depth);
                }
                text.push(c);
            }
            ',' => {
                text.push(c);
                line(&mut text, depth);
            }
            ':' => text.push_str(": "),
            c if c.is_whitespace() => {}
            c => text.push(c),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(before: &str, after: &str) -> String {
        let line = |(change, line): (Change, String)| {
            let sign = match change {
                Change::Same => ' ',
                Change::Removed => '-',
                Change::Added => '+',
            };
            format!("{sign}{line}\n")
        };
        difference(before, after).into_iter().map(line).collect()
    }

    #[test]
    fn json_has_a_line_for_each_member() {
        let json = r#"{"a":[1,{},[]], "b\"{":"x, \\","c":12345678901234567890}"#;
        let expected = "{\n  \"a\": [\n    1,\n    {},\n    []\n  ],\n  \"b\\\"{\": \"x, \\\\\",\n  \"c\": 12345678901234567890\n}";
        assert_eq!(indented(json), expected);
    }

    #[test]
    fn only_what_has_changed_is_shown_with_the_lines_around_it() {
        let before = r#"{"a":1,"b":2,"c":3,"d":4,"e":5,"f":6}"#;
        let after = r#"{"a":1,"b":2,"c":3,"d":40,"e":5,"f":6}"#;
        let expected = "   \"a\": 1,\n   \"b\": 2,\n   \"c\": 3,\n-  \"d\": 4,\n+  \"d\": 40,\n   \"e\": 5,\n   \"f\": 6\n }\n";
        assert_eq!(told(before, after), expected);
        assert_eq!(told("[1,2,3]", "[2,3,4]"), " [\n-  1,\n   2,\n-  3\n+  3,\n+  4\n ]\n");
        assert_eq!(told("1", "2"), "-1\n+2\n");
        assert_eq!(told("12345678901234567890123", "12345678901234567890124").lines().count(), 2);
    }
}
