//! The lines that describe a plan or its results, on a terminal and on the live page.

/// The tone of a notice, which determines its color.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Tone {
    Good,
    Plain,
    Faint,
    Warning,
    Bad,
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Notice {
    pub tone: Tone,
    pub text: String,
}

impl Notice {
    pub fn good(text: impl Into<String>) -> Self {
        Self { tone: Tone::Good, text: text.into() }
    }

    pub fn plain(text: impl Into<String>) -> Self {
        Self { tone: Tone::Plain, text: text.into() }
    }

    pub fn warning(text: impl Into<String>) -> Self {
        Self { tone: Tone::Warning, text: text.into() }
    }

    pub fn bad(text: impl ToString) -> Self {
        Self { tone: Tone::Bad, text: text.to_string() }
    }

    /// Says that Ctrl-C has ended the work, and how much of it is left, such as `2,900 letters`.
    pub fn stopped(left: &str) -> Self {
        Self::bad(format!("stopped before the end: {left} left"))
    }

    pub fn nothing_to_do() -> Self {
        Self::plain("nothing to do")
    }

    pub fn nothing_done() -> Self {
        Self::plain("Nothing was changed.")
    }
}
