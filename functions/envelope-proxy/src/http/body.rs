//! Finds the end of a message's body.

use httparse::Status;

use super::NotUnderstood;

#[derive(Debug)]
pub enum Body {
    /// This many bytes.
    Length(u64),
    /// Chunks, each with its length before it, and trailers.
    Chunked(Chunk),
    /// Everything until the connection is closed.
    UntilClose,
}

/// The position of the next byte in a chunked body.
#[derive(Debug)]
pub enum Chunk {
    Size(Vec<u8>),
    /// In a chunk, with this many bytes left.
    Data(u64),
    DataEnd,
    /// In the lines after the last chunk, with this many bytes of the current line so far.
    Trailers(usize),
    Over,
}

/// The longest line with a chunk's size: sixteen digits and some extensions.
const SIZE_LINE_MAX: usize = 4096;

impl Default for Body {
    fn default() -> Self {
        Self::NONE
    }
}

impl Body {
    /// No body.
    pub const NONE: Self = Self::Length(0);

    pub fn chunked() -> Self {
        Self::Chunked(Chunk::Size(Vec::new()))
    }

    pub fn is_over(&self) -> bool {
        matches!(self, Self::Length(0) | Self::Chunked(Chunk::Over))
    }

    /// Whether it is no longer than this, if its length is known.
    pub fn is_at_most(&self, bytes: usize) -> bool {
        !matches!(self, Self::Length(length) if *length > bytes as u64)
    }

    /// Takes the bytes that belong to the body, returns their number, and passes their content to `content`.
    pub fn take(
        &mut self,
        bytes: &[u8],
        mut content: impl FnMut(&[u8]),
    ) -> Result<usize, NotUnderstood> {
        match self {
            Self::UntilClose => {
                content(bytes);
                Ok(bytes.len())
            }
            Self::Length(left) => Ok(take_up_to(left, bytes, &mut content)),
            Self::Chunked(chunk) => {
                let mut taken = 0;
                while taken < bytes.len() && !matches!(chunk, Chunk::Over) {
                    taken += chunk.take(&bytes[taken..], &mut content)?;
                }
                Ok(taken)
            }
        }
    }
}

fn take_up_to(left: &mut u64, bytes: &[u8], content: &mut impl FnMut(&[u8])) -> usize {
    let taken = usize::try_from(*left).map_or(bytes.len(), |left| left.min(bytes.len()));
    content(&bytes[..taken]);
    *left -= taken as u64;
    taken
}

/// The bytes up to the end of the current line, and whether the line ends there.
fn line_of(bytes: &[u8]) -> (&[u8], bool) {
    match bytes.iter().position(|&byte| byte == b'\n') {
        Some(end) => (&bytes[..=end], true),
        None => (bytes, false),
    }
}

impl Chunk {
    /// Takes the bytes up to the next boundary, at least one.
    fn take(
        &mut self,
        bytes: &[u8],
        content: &mut impl FnMut(&[u8]),
    ) -> Result<usize, NotUnderstood> {
        let taken = match self {
            Self::Data(left) => {
                let taken = take_up_to(left, bytes, content);
                if *left == 0 {
                    *self = Self::DataEnd;
                }
                taken
            }
            Self::Size(begun) => {
                let (line, is_whole) = line_of(bytes);
                begun.extend_from_slice(line);
                if is_whole {
                    *self = Self::of_size(begun)?;
                } else if begun.len() > SIZE_LINE_MAX {
                    return Err(NotUnderstood);
                }
                line.len()
            }
            Self::DataEnd => {
                let (line, is_whole) = line_of(bytes);
                if !line.trim_ascii().is_empty() {
                    return Err(NotUnderstood);
                }
                if is_whole {
                    *self = Self::Size(Vec::new());
                }
                line.len()
            }
            Self::Trailers(length) => {
                let (line, is_whole) = line_of(bytes);
                *length += line.trim_ascii_end().len();
                if is_whole {
                    *self = if *length == 0 { Self::Over } else { Self::Trailers(0) };
                }
                line.len()
            }
            Self::Over => 0,
        };
        Ok(taken)
    }

    fn of_size(line: &[u8]) -> Result<Self, NotUnderstood> {
        match httparse::parse_chunk_size(line) {
            Ok(Status::Complete((_, 0))) => Ok(Self::Trailers(0)),
            Ok(Status::Complete((_, size))) => Ok(Self::Data(size)),
            Ok(Status::Partial) | Err(_) => Err(NotUnderstood),
        }
    }
}
