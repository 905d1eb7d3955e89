//! Text for a terminal, which text of others must not control: styled lines, and JSON. Lines are values that tests can
//! compare. Only `paint` adds escape sequences.

use serde::Serialize;

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Style {
    Plain,
    Strong,
    Faint,
    Good,
    Bad,
    Busy,
    GivenUp,
}

impl Style {
    /// The SGR parameter ("select graphic rendition", ECMA-48). Only the eight basic colours are used, because every
    /// theme makes those readable.
    fn rendition(self) -> Option<&'static str> {
        match self {
            Self::Plain => None,
            Self::Strong => Some("1"),
            Self::Faint => Some("2"),
            Self::Good => Some("32"),
            Self::Bad => Some("31"),
            Self::Busy => Some("36"),
            Self::GivenUp => Some("35"),
        }
    }
}

/// One line of styled text. Every character counts as one column.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Line(Vec<(Style, String)>);

impl Line {
    pub fn of(style: Style, text: impl AsRef<str>) -> Self {
        Self::default().and(style, text)
    }

    /// Appends a piece. Tabs and line breaks become spaces, and other hidden characters become U+FFFD, so that the
    /// output of a function can't control the terminal.
    #[must_use]
    pub fn and(mut self, style: Style, text: impl AsRef<str>) -> Self {
        let text = text.as_ref().replace(['\t', '\r', '\n'], " ");
        let text = text.replace(is_hidden, "\u{fffd}");
        match self.0.last_mut() {
            Some((last, so_far)) if *last == style => so_far.push_str(&text),
            _ if text.is_empty() => {}
            _ => self.0.push((style, text)),
        }
        self
    }

    /// The line as lines of at most `width` columns, broken between words. The next lines are indented a little more.
    pub fn wrapped(&self, width: usize) -> Vec<Self> {
        let mut lines = vec![Self::default()];
        let first = self.0.first().map_or("", |(_, text)| text);
        let indent = " ".repeat(first.len() - first.trim_start().len() + 4);
        for (style, text) in &self.0 {
            for word in text.split_inclusive(' ') {
                let used = lines.last().map_or(0, Self::width);
                if used > indent.len() && used + word.trim_end().chars().count() > width {
                    lines.push(Self::of(Style::Plain, &indent));
                }
                if let Some(last) = lines.last_mut() {
                    *last = std::mem::take(last).and(*style, word);
                }
            }
        }
        lines
    }

    pub fn width(&self) -> usize {
        self.0.iter().map(|(_, text)| text.chars().count()).sum()
    }

    #[must_use]
    pub fn padded(self, width: usize) -> Self {
        let missing = width.saturating_sub(self.width());
        self.and(Style::Plain, " ".repeat(missing))
    }

    #[must_use]
    pub fn cut(self, width: usize) -> Self {
        let mut left = width;
        let mut line = Self::default();
        for (style, text) in self.0 {
            let kept: String = text.chars().take(left).collect();
            left -= kept.chars().count();
            line = line.and(style, kept);
        }
        line
    }

    /// The text of the line, with escape sequences if `colour` is set.
    pub fn paint(&self, colour: bool) -> String {
        let piece = |(style, text): &(Style, String)| match style.rendition() {
            Some(rendition) if colour => format!("\x1b[{rendition}m{text}\x1b[0m"),
            _ => text.clone(),
        };
        self.0.iter().map(piece).collect()
    }
}

/// A value as a JSON document, in which no text of others can control the terminal. All JSON is printed by this.
///
/// # Errors
///
/// If the value can't be serialized.
pub fn json(value: &impl Serialize) -> serde_json::Result<String> {
    serde_json::to_string(value).map(|json| visible_json(&json))
}

/// JSON whose hidden characters are escaped, so that they can't reorder it on the screen. They can only be in strings,
/// so its value stays the same.
pub fn visible_json(json: &str) -> String {
    let mut text = String::new();
    for c in json.chars() {
        if is_hidden(c) && !c.is_ascii_whitespace() {
            c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| text += &format!("\\u{unit:04x}"));
        } else {
            text.push(c);
        }
    }
    text
}

/// Whether a character is not seen but changes how the text around it is seen: a control or format character, or a
/// separator of lines or paragraphs. Text of others is shown without them. Some of them reverse the order of a text.
pub fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{ad}'
                | '\u{600}'..='\u{605}'
                | '\u{61c}'
                | '\u{6dd}'
                | '\u{70f}'
                | '\u{890}'..='\u{891}'
                | '\u{8e2}'
                | '\u{180e}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{feff}'
                | '\u{fff9}'..='\u{fffb}'
                | '\u{110bd}'
                | '\u{110cd}'
                | '\u{13430}'..='\u{1343f}'
                | '\u{1bca0}'..='\u{1bca3}'
                | '\u{1d173}'..='\u{1d17a}'
                | '\u{e0000}'..='\u{e007f}'
        )
}

#[cfg(test)]
pub mod tests {
    use super::*;

    pub fn texts(lines: &[Line]) -> Vec<String> {
        lines.iter().map(|line| line.paint(false)).collect()
    }

    fn line() -> Line {
        Line::of(Style::Good, "✓ ").and(Style::Good, "yes").and(Style::Plain, "!")
    }

    #[test]
    fn a_line_is_painted_with_colours_or_without() {
        assert_eq!(line().paint(false), "✓ yes!");
        assert_eq!(line().paint(true), "\x1b[32m✓ yes\x1b[0m!");
    }

    #[test]
    fn a_line_is_padded_and_cut_by_columns_not_by_bytes() {
        assert_eq!(line().padded(8).paint(false), "✓ yes!  ");
        assert_eq!(line().padded(3), line());
        assert_eq!(line().cut(1).paint(true), "\x1b[32m✓\x1b[0m");
        assert_eq!(line().cut(80), line());
        assert_eq!(line().cut(0).width(), 0);
    }

    #[test]
    fn control_characters_do_not_reach_the_terminal() {
        let line = line().and(Style::Plain, "a\x1b[2Jb\r\n");
        assert_eq!(line.paint(false), "✓ yes!a�[2Jb  ");
    }

    #[test]
    fn a_json_document_has_no_hidden_character_and_says_the_same() {
        let text = "\u{9b}2J \u{7f} \u{85} \u{202e}abc\u{2066} \u{feff} \u{e0041} \n\"ä🎈";
        let value = serde_json::json!({ "a\u{9b}": [text] });
        let document = json(&value).unwrap();
        assert!(!document.chars().any(is_hidden), "{document:?}");
        assert!(document.contains(r"\u009b2J \u007f \u0085 \u202eabc\u2066 \ufeff \udb40\udc41"));
        assert!(document.contains("ä🎈"), "what is seen stays: {document}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&document).unwrap(), value);
        // A document that is passed on as it is may have line breaks between its tokens.
        let raw = "{\n\t\"a\": \"\u{9b}\"\n}";
        assert_eq!(visible_json(raw), "{\n\t\"a\": \"\\u009b\"\n}");
    }

    #[test]
    fn a_long_line_is_broken_between_words_and_a_table_is_not_changed() {
        let long = Line::of(Style::Bad, "  ✗ ").and(Style::Plain, "one two three four");
        assert_eq!(texts(&long.wrapped(12)), ["  ✗ one two ", "      three ", "      four"]);
        let row = Line::of(Style::Plain, "a   b     c");
        assert_eq!(row.wrapped(80), [row]);
        assert_eq!(Line::default().wrapped(80), [Line::default()]);
    }
}
