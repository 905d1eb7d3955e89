//! The lines that describe a plan or its results to an operator, both on a terminal and on the live page.

/// The tone of a notice, which determines its color.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Tone {
    /// Something was done.
    Good,
    Plain,
    Faint,
    /// Something could not be done.
    Bad,
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Notice {
    pub tone: Tone,
    pub text: String,
}

impl Notice {
    /// A line about something that was done.
    pub fn good(text: impl Into<String>) -> Self {
        Self { tone: Tone::Good, text: text.into() }
    }

    /// A line of neutral information.
    pub fn plain(text: impl Into<String>) -> Self {
        Self { tone: Tone::Plain, text: text.into() }
    }

    /// A line about something that could not be done, or the reason.
    pub fn bad(text: impl ToString) -> Self {
        Self { tone: Tone::Bad, text: text.to_string() }
    }

    /// The line for an empty plan.
    pub(crate) fn nothing_to_do() -> Self {
        Self::plain("nothing to do")
    }

    pub(crate) fn nothing_done() -> Self {
        Self::plain("Nothing was changed.")
    }
}

/// A number of events with its noun: `1 event`.
pub fn events(number: u64) -> String {
    format!("{} {}", count(number), if number == 1 { "event" } else { "events" })
}

/// A number of dead letters with its noun: `2 letters`.
pub fn letters(number: u64) -> String {
    format!("{} {}", count(number), if number == 1 { "letter" } else { "letters" })
}

/// A whole number with separators: `36,000`.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_separators_and_their_nouns() {
        for (value, expected) in [(0, "0"), (999, "999"), (1000, "1,000"), (1_234_567, "1,234,567")]
        {
            assert_eq!(count(value), expected);
        }
        assert_eq!((events(1), letters(1)), ("1 event".to_owned(), "1 letter".to_owned()));
        assert_eq!((events(0), letters(2)), ("0 events".to_owned(), "2 letters".to_owned()));
    }
}
