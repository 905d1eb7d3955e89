//! Splits messages that are sent to a queue into calls with several entries.

use comeback_core::attribute::SIZE_MAX;

use crate::ports::ENTRIES_MAX;

/// How many calls of each kind run at the same time. A batch has ten messages by default, and a function of 128 MB
/// has CPU for no more.
pub(crate) const CALLS_AT_ONCE: usize = 10;

/// Splits `entries`, in order, into parts that fit into one call: at most ten entries, and together no larger than
/// SQS accepts. An entry that is too large by itself gets a part of its own.
pub(crate) fn by_size<T>(entries: &[T], size: impl Fn(&T) -> usize) -> Vec<&[T]> {
    let mut parts = Vec::new();
    let (mut start, mut total) = (0, 0);
    for (index, entry) in entries.iter().enumerate() {
        let size = size(entry);
        if index > start && (index - start == ENTRIES_MAX || total + size > SIZE_MAX) {
            parts.push(&entries[start..index]);
            (start, total) = (index, 0);
        }
        total += size;
    }
    if start < entries.len() {
        parts.push(&entries[start..]);
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_holds_ten_entries_and_what_fits_into_one_message() {
        let lengths = |sizes: &[usize]| {
            by_size(sizes, |&size| size).iter().map(|part| part.len()).collect::<Vec<_>>()
        };
        assert_eq!(lengths(&[]), [0usize; 0]);
        assert_eq!(lengths(&[1; 10]), [10]);
        assert_eq!(lengths(&[1; 21]), [10, 10, 1]);
        assert_eq!(lengths(&[SIZE_MAX / 2; 5]), [2, 2, 1]);
        assert_eq!(lengths(&[1, SIZE_MAX, 1, SIZE_MAX - 1]), [1, 1, 2]);
        assert_eq!(lengths(&[SIZE_MAX + 1, SIZE_MAX + 1]), [1, 1]);
    }
}
