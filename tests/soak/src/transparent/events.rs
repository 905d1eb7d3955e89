//! How each event fails, and how it must end.

/// How often an event may be re-invoked.
pub const MAX_ATTEMPTS: u32 = 3;

/// The names of the functions. The part before the hyphen is the language.
pub const FUNCTIONS: [&str; 10] = [
    "python-1", "python-2", "python-3", "python-4", "node-1", "node-2", "node-3", "rust-1",
    "rust-2", "rust-3",
];

/// The number of the event's content. Half of the events share it with another.
fn content(event: usize) -> usize {
    if has_twin(event) { event - event % 2 } else { event }
}

pub fn has_twin(event: usize) -> bool {
    (event / 20).is_multiple_of(2)
}

pub fn function_of(event: usize) -> &'static str {
    FUNCTIONS[content(event) / 2 % FUNCTIONS.len()]
}

/// A number from 0 to 9, for each function alike.
fn kind(event: usize) -> usize {
    let content = content(event) / 2;
    (content / 10 + content * 7 + content / 100) % 10
}

/// Of 256 runs of the event, how many fail, and how.
pub fn payload(event: usize) -> String {
    let (fails, how) = match kind(event) {
        0..=4 => (128, "ConnectionFailed"),
        5 | 6 => (200, "ConnectionFailed"),
        7 if event.is_multiple_of(5) && !has_twin(event) => (128, "crash"),
        7 => (64, "ConnectionFailed"),
        8 => (256, "ConnectionFailed"),
        _ => (256, "PermanentFailure"),
    };
    format!(r#"{{"id": {}, "price": 10.10,"fails":{fails},"how":"{how}"}}"#, content(event))
}

/// Whether its first failure is the last.
pub fn is_permanent(event: usize) -> bool {
    kind(event) == 9
}

const TRACE: &str = "Root=1-00000000-";

/// The trace header of the event with this number.
pub fn trace(event: usize) -> String {
    format!("{TRACE}{event:024x};Parent=0000000000000001;Sampled=0")
}

/// The number of the event with this trace header.
pub fn event_of(trace: &str) -> Option<usize> {
    usize::from_str_radix(trace.strip_prefix(TRACE)?.get(..24)?, 16).ok()
}
