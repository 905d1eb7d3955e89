//! How an event fails and how it must end. The event's number decides both.

/// How often an event may be re-invoked.
pub const MAX_ATTEMPTS: u32 = 3;

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum End {
    Succeeded,
    /// It was given up, for this reason.
    DeadLetter(&'static str),
}

/// The payload of the event with this number. It tells the target how to fail.
pub fn payload(id: usize) -> String {
    let fail = match id % 10 {
        0..=5 => r#"{"attempts":1}"#,
        6 => r#"{"attempts":2}"#,
        7 => r#"{"attempts":1,"by":"crash"}"#,
        8 => "{}",
        _ => r#"{"error":"PermanentFailure"}"#,
    };
    format!(r#"{{"id":{id},"fail":{fail}}}"#)
}

/// How the event with this number must end.
pub fn end(id: usize) -> End {
    match id % 10 {
        0..=7 => End::Succeeded,
        8 => End::DeadLetter("max_attempts_exceeded"),
        _ => End::DeadLetter("not_retryable"),
    }
}
