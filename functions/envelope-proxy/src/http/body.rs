//! The body of a message, to its last byte.

use httparse::Status;

use super::NotUnderstood;

/// What is still to come of a body.
#[derive(Debug)]
pub enum Body {
    /// So many bytes.
    Length(u64),
    /// Chunks, each with its length before it, and trailers.
    Chunked(Chunk),
    /// All until the connection is closed.
    UntilClose,
}

/// Where in a chunked body the next byte is.
#[derive(Debug)]
pub enum Chunk {
    /// In the line that says how long a chunk is.
    Size(Vec<u8>),
    /// In a chunk, with so many bytes to come.
    Data(u64),
    /// In the line end after a chunk.
    DataEnd,
    /// In the lines after the last chunk, with so many bytes of one so far.
    Trailers(usize),
    /// Behind it all.
    Over,
}

/// The longest line of a chunk's size that is read: sixteen digits and some extensions.
const SIZE_LINE_MAX: usize = 4096;

impl Default for Body {
    fn default() -> Self {
        Self::NONE
    }
}

impl Body {
    /// No body.
    pub const NONE: Self = Self::Length(0);

    /// A chunked one.
    pub fn chunked() -> Self {
        Self::Chunked(Chunk::Size(Vec::new()))
    }

    /// Whether nothing of it is to come.
    pub fn is_over(&self) -> bool {
        matches!(self, Self::Length(0) | Self::Chunked(Chunk::Over))
    }

    /// Whether it is no longer than this, as far as it is said.
    pub fn is_at_most(&self, bytes: usize) -> bool {
        !matches!(self, Self::Length(length) if *length > bytes as u64)
    }

    /// Takes what belongs to the body of these bytes, and returns how many those are. `content` is given
    /// what they carry.
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

/// What belongs to the line that these bytes are in, and whether it ends with them.
fn line_of(bytes: &[u8]) -> (&[u8], bool) {
    match bytes.iter().position(|&byte| byte == b'\n') {
        Some(end) => (&bytes[..=end], true),
        None => (bytes, false),
    }
}

impl Chunk {
    /// Takes the bytes up to the next boundary, which there is at least one of.
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

    /// What follows the line of a size.
    fn of_size(line: &[u8]) -> Result<Self, NotUnderstood> {
        match httparse::parse_chunk_size(line) {
            Ok(Status::Complete((_, 0))) => Ok(Self::Trailers(0)),
            Ok(Status::Complete((_, size))) => Ok(Self::Data(size)),
            Ok(Status::Partial) | Err(_) => Err(NotUnderstood),
        }
    }
}
