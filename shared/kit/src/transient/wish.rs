//! When a server wants to be asked again.

use std::time::Duration;

use comeback_core::{Timestamp, time::between};

/// When a server wants to be asked again.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Wish {
    /// After this time.
    In(Duration),
    /// At this time.
    At(Timestamp),
}

impl Wish {
    /// Reads the value of a `Retry-After` header: whole seconds, or an HTTP date.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use comeback::transient::Wish;
    /// assert_eq!(Wish::parse("120"), Some(Wish::In(Duration::from_secs(120))));
    /// assert!(matches!(Wish::parse("Wed, 21 Oct 2015 07:28:00 GMT"), Some(Wish::At(_))));
    /// assert_eq!(Wish::parse("soon"), None);
    /// ```
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        match text.parse() {
            Ok(seconds) => Some(Self::In(Duration::from_secs(seconds))),
            Err(_) => httpdate::parse_http_date(text).ok().map(|at| Self::At(at.into())),
        }
    }

    /// How long it is until then; nothing where that time is over.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use comeback::transient::Wish;
    /// let now = std::time::SystemTime::UNIX_EPOCH.into();
    /// assert_eq!(Wish::In(Duration::from_secs(3)).wait(now), Duration::from_secs(3));
    /// assert_eq!(Wish::At(now).wait(now), Duration::ZERO);
    /// ```
    pub fn wait(self, now: Timestamp) -> Duration {
        match self {
            Self::In(wait) => wait,
            Self::At(at) => between(now, at),
        }
    }
}
