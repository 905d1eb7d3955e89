//! Recursive-loop detection: how often a function has run in one chain of requests.
//!
//! Lambda counts in the member `Lineage` of the X-Ray trace header, whether or not tracing is on. A function receives
//! the header with its own entry incremented. The AWS SDKs pass it on with every call, SQS stores it with the message
//! as `AWSTraceHeader`, and so it reaches the next invocation. AWS stops a function after "approximately" 16 runs; here
//! it is exactly 16.
//!
//! AWS writes `Lineage=a87bd80c:1|68fd508a:5`, each entry with a function's hash and how often it ran before, or
//! `Lineage=1:e547cb94:0` with another number first. The first form is written here, because it names every
//! function of a chain. Of the second form, the last two parts are read.

use std::{borrow::Cow, fmt::Write as _};

use comeback_core::Timestamp;
use md5::{Digest as _, Md5};
use serde::Serialize;

use crate::Ids;

/// How many runs of one function in one chain are allowed.
pub const RUNS_MAX: u32 = 16;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub enum RecursiveLoop {
    Allow,
    /// It is stopped, which is AWS's default.
    #[default]
    Terminate,
}

/// The members of a trace header that matter here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TraceHeader<'a> {
    root: Option<&'a str>,
    sampled: Option<&'a str>,
    /// Hashes of functions and how often each ran before its latest run.
    lineage: Vec<(&'a str, u32)>,
}

impl<'a> TraceHeader<'a> {
    /// Parses a header. Malformed members are ignored.
    pub fn parse(header: &'a str) -> Self {
        let mut parsed = Self::default();
        for member in header.split(';') {
            let Some((key, value)) = member.trim().split_once('=') else {
                continue;
            };
            if key.eq_ignore_ascii_case("root") {
                parsed.root = Some(value);
            } else if key.eq_ignore_ascii_case("sampled") {
                parsed.sampled = Some(value);
            } else if key.eq_ignore_ascii_case("lineage") {
                parsed.lineage = value.split('|').filter_map(entry).collect();
            }
        }
        parsed
    }

    /// How often the function with this hash has run in this chain.
    pub fn runs(&self, hash: &str) -> u32 {
        let entry = self.lineage.iter().find(|(of, _)| *of == hash);
        entry.map_or(0, |(_, before)| before.saturating_add(1))
    }

    /// A new header for an event without one.
    pub fn begin(now: Timestamp, ids: &mut Ids) -> String {
        format!("Root={};Parent={:016x};Sampled=0", root(now, ids), ids.number())
    }

    /// The header for a run of the function with this hash. This run is counted in it.
    pub fn enter(&self, hash: &str, now: Timestamp, ids: &mut Ids) -> String {
        let root = self.root.map_or_else(|| root(now, ids).into(), Cow::Borrowed);
        let (parent, sampled) = (ids.number(), self.sampled.unwrap_or("0"));
        let mut header = format!("Root={root};Parent={parent:016x};Sampled={sampled};Lineage=");
        // Writing to a string can't fail.
        for (of, before) in self.lineage.iter().filter(|(of, _)| *of != hash) {
            let _ = write!(header, "{of}:{before}|");
        }
        let _ = write!(header, "{hash}:{}", self.runs(hash));
        header
    }
}

fn root(now: Timestamp, ids: &mut Ids) -> String {
    format!("1-{:08x}-{:016x}{:08x}", now.timestamp(), ids.number(), ids.number() >> 32)
}

fn entry(text: &str) -> Option<(&str, u32)> {
    let (ahead, before) = text.rsplit_once(':')?;
    let hash = ahead.rsplit_once(':').map_or(ahead, |(_, hash)| hash);
    Some((hash, before.parse().ok()?))
}

/// The hash by which a lineage names the function with this ARN: eight hexadecimal digits, as on AWS.
pub fn hash(arn: &str) -> String {
    let digest = Md5::digest(arn);
    digest
        .first_chunk()
        .map(|bytes| format!("{:08x}", u32::from_be_bytes(*bytes)))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn enter(header: &str, name: &str) -> String {
        TraceHeader::parse(header).enter(&hash(name), Timestamp::UNIX_EPOCH, &mut Ids::new(1))
    }

    #[test]
    fn every_run_of_a_chain_is_counted_for_its_own_function_and_the_root_is_kept() {
        let root = "Root=1-5759e988-bd862e3fe1be46a994272793";
        let mut header = format!("{root};Parent=53995c3f42cd8ad8;Sampled=1");
        for run in 1..=20 {
            header = enter(&header, "target");
            header = enter(&header, "handler");
            assert!(header.starts_with(&format!("{root};Parent=")), "{header}");
            let parsed = TraceHeader::parse(&header);
            assert_eq!(parsed.runs(&hash("target")), run);
            assert_eq!(parsed.runs(&hash("handler")), run);
            assert_eq!((parsed.runs(&hash("other")), parsed.sampled), (0, Some("1")));
        }
    }

    #[test]
    fn both_of_awss_forms_are_read() {
        let hash = hash("f");
        for (lineage, runs) in [
            (format!("{hash}:1|68fd508a:5"), 2),
            (format!("68fd508a:5|{hash}:15"), 16),
            (format!("3:{hash}:0"), 1),
            (format!("{hash}:4294967295"), u32::MAX),
            ("68fd508a:5".to_owned(), 0),
        ] {
            let header = format!("Root=1-2-3;lineage={lineage}");
            assert_eq!(TraceHeader::parse(&header).runs(&hash), runs, "{lineage}");
        }
        for malformed in ["", ";;;", "Lineage", "Lineage=a|b:c|:", "x=y", "Lineage=a:-1"] {
            assert!(enter(malformed, "f").starts_with("Root=1-00000000-"), "{malformed}");
        }
    }
}
