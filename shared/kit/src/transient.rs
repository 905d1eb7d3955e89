//! Which errors are transient.
//!
//! A [`Rule`] looks at an error and gives one of three answers: retry it, never retry it, or no opinion.
//! General rules come first, and specific ones stand over them: what [`Standard`] says of connections,
//! time-outs, statuses and formats holds until a rule of the author's has an opinion of its own.
//!
//! ```
//! use comeback::transient::{Kind, Rule, Standard, Transient, Verdict};
//!
//! #[derive(Debug, thiserror::Error)]
//! enum RatesError {
//!     #[error("the rates are being computed")]
//!     NotReady,
//!     #[error("the connection failed")]
//!     Connection(#[from] std::io::Error),
//! }
//!
//! let rule = Standard.under(|error: &RatesError| match error {
//!     RatesError::NotReady => Verdict::Retry(Transient::new(Kind::Unavailable)),
//!     RatesError::Connection(_) => Verdict::NoOpinion,
//! });
//! let reset = std::io::Error::from(std::io::ErrorKind::ConnectionReset);
//! for error in [RatesError::NotReady, RatesError::Connection(reset)] {
//!     assert_eq!(rule.judge(&error), Verdict::Retry(Transient::new(Kind::Unavailable)));
//! }
//! ```
//!
//! Where nobody has an opinion, an error is not retried.

mod standard;
mod wish;

pub use standard::{Boxed, Standard, judge};
pub use wish::Wish;

/// What a rule says of an error.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Verdict {
    /// The same attempt may succeed later.
    Retry(Transient),
    /// No repetition will heal it.
    Never,
    /// A more general rule is to say.
    NoOpinion,
}

impl Verdict {
    /// This verdict; without an opinion, the one of a more general rule.
    ///
    /// ```
    /// # use comeback::transient::Verdict;
    /// assert_eq!(Verdict::NoOpinion.or_else(|| Verdict::Never), Verdict::Never);
    /// ```
    #[must_use]
    pub fn or_else(self, general: impl FnOnce() -> Self) -> Self {
        match self {
            Self::Retry(_) | Self::Never => self,
            Self::NoOpinion => general(),
        }
    }
}

/// A fault that will pass.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Transient {
    /// What it is.
    pub kind: Kind,
    /// When the server wants to be asked again, if it said so.
    pub wish: Option<Wish>,
}

impl Transient {
    /// One of this kind, without a server's wish.
    ///
    /// ```
    /// # use comeback::transient::{Kind, Transient};
    /// assert_eq!(Transient::new(Kind::Throttled).wish, None);
    /// ```
    pub const fn new(kind: Kind) -> Self {
        Self { kind, wish: None }
    }

    /// The same with a server's wish.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use comeback::transient::{Kind, Transient, Wish};
    /// let wish = Wish::In(Duration::from_secs(3));
    /// assert_eq!(Transient::new(Kind::Throttled).with_wish(wish).wish, Some(wish));
    /// ```
    #[must_use]
    pub const fn with_wish(self, wish: Wish) -> Self {
        Self { wish: Some(wish), ..self }
    }
}

/// What a transient fault is.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Kind {
    /// The service asks for fewer calls.
    Throttled,
    /// There was no answer in time. The operation may have been done.
    TimedOut,
    /// The service could not be reached, or could not do it now.
    Unavailable,
}

impl Kind {
    /// Its name, as events and logs tell it.
    ///
    /// ```
    /// # use comeback::transient::Kind;
    /// assert_eq!(Kind::TimedOut.as_str(), "timed_out");
    /// ```
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Throttled => "throttled",
            Self::TimedOut => "timed_out",
            Self::Unavailable => "unavailable",
        }
    }
}

/// Says whether errors of a type are transient. Every `Fn(&E) -> Verdict` is a rule.
pub trait Rule<E: ?Sized> {
    /// Judges an error.
    ///
    /// ```
    /// # use comeback::transient::{Rule, Standard, Verdict};
    /// let error = "twelve".parse::<u32>().unwrap_err();
    /// assert_eq!(Standard.judge(&error), Verdict::Never);
    /// ```
    fn judge(&self, error: &E) -> Verdict;

    /// Puts a specific rule over this general one, which is asked where the specific rule has no opinion.
    ///
    /// ```
    /// # use comeback::transient::{Kind, Rule, Standard, Transient, Verdict};
    /// # use std::io::{Error, ErrorKind};
    /// let rule = Standard.under(|error: &Error| match error.kind() {
    ///     ErrorKind::ConnectionRefused => Verdict::Never,
    ///     _ => Verdict::NoOpinion,
    /// });
    /// assert_eq!(rule.judge(&ErrorKind::ConnectionRefused.into()), Verdict::Never);
    /// let reset = Verdict::Retry(Transient::new(Kind::Unavailable));
    /// assert_eq!(rule.judge(&ErrorKind::ConnectionReset.into()), reset);
    /// ```
    fn under<S: Rule<E>>(self, specific: S) -> Under<Self, S>
    where
        Self: Sized,
    {
        Under { general: self, specific }
    }
}

impl<E: ?Sized, F: Fn(&E) -> Verdict> Rule<E> for F {
    fn judge(&self, error: &E) -> Verdict {
        self(error)
    }
}

/// A general rule under a specific one; see [`Rule::under`].
#[derive(Clone, Copy, Debug)]
pub struct Under<G, S> {
    general: G,
    specific: S,
}

impl<E: ?Sized, G: Rule<E>, S: Rule<E>> Rule<E> for Under<G, S> {
    fn judge(&self, error: &E) -> Verdict {
        self.specific.judge(error).or_else(|| self.general.judge(error))
    }
}
