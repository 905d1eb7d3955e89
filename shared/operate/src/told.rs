//! The lines that tell an operator what a plan means, or what was done: the same in a terminal and on the live page.

/// How a line is meant.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Tone {
    /// It was done.
    Good,
    /// It is as expected.
    Plain,
    /// It matters less.
    Faint,
    /// It could not be done.
    Bad,
}

/// A line.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Told {
    /// How it is meant.
    pub tone: Tone,
    /// What it says.
    pub text: String,
}

impl Told {
    /// What was done.
    pub fn good(text: impl Into<String>) -> Self {
        Self { tone: Tone::Good, text: text.into() }
    }

    /// What is as expected.
    pub fn plain(text: impl Into<String>) -> Self {
        Self { tone: Tone::Plain, text: text.into() }
    }

    /// What could not be done, or why.
    pub fn bad(text: impl ToString) -> Self {
        Self { tone: Tone::Bad, text: text.to_string() }
    }

    /// The line for a plan that would change nothing.
    pub(crate) fn nothing_to_do() -> Self {
        Self::plain("nothing to do")
    }

    /// The line for work that has changed nothing.
    pub(crate) fn nothing_done() -> Self {
        Self::plain("Nothing was changed.")
    }
}

/// A number of events.
pub fn events(number: u64) -> String {
    format!("{} {}", count(number), if number == 1 { "event" } else { "events" })
}

/// A number of dead letters.
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
