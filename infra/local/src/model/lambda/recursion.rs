//! Recursive-loop detection: how often a function has run in one chain of requests.
//!
//! Lambda counts in the member `Lineage` of the X-Ray trace header, whether or not tracing is on. A function is
//! given the header with its own entry incremented. The AWS SDKs pass it on with every call, SQS stores it with
//! the message as `AWSTraceHeader`, and so it comes back with the next invocation. AWS stops a function after
//! "approximately" 16 runs; here it is exactly 16.
//!
//! AWS writes `Lineage=a87bd80c:1|68fd508a:5`, each entry with a function's hash and how often it ran before, or
//! `Lineage=1:e547cb94:0` with another number first. The first form is written here, because it names every
//! function of a chain. Of the second form, the last two parts are read.

use comeback_core::Timestamp;
use md5::{Digest as _, Md5};

use super::name;
use crate::model::ids::Ids;

/// How many runs of one function in one chain are allowed.
pub const RUNS_MAX: u32 = 16;

/// What happens to a function in a recursive loop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RecursiveLoop {
    /// It continues.
    Allow,
    /// It is stopped, which is AWS's default.
    #[default]
    Terminate,
}

/// The members of a trace header that matter here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TraceHeader {
    root: Option<String>,
    sampled: Option<String>,
    /// Hashes of functions and how often each ran before its latest run.
    lineage: Vec<(String, u32)>,
}

impl TraceHeader {
    /// Reads a header. Members that can't be read are left out.
    pub(crate) fn parse(header: &str) -> Self {
        let mut parsed = Self::default();
        for member in header.split(';') {
            let Some((key, value)) = member.trim().split_once('=') else {
                continue;
            };
            match key.to_ascii_lowercase().as_str() {
                "root" => parsed.root = Some(value.to_owned()),
                "sampled" => parsed.sampled = Some(value.to_owned()),
                "lineage" => parsed.lineage = value.split('|').filter_map(entry).collect(),
                _ => {}
            }
        }
        parsed
    }

    /// How often the function `name` has run in this chain.
    pub(crate) fn runs(&self, name: &str) -> u32 {
        self.runs_of(&hash(name))
    }

    fn runs_of(&self, hash: &str) -> u32 {
        let entry = self.lineage.iter().find(|(of, _)| *of == hash);
        entry.map_or(0, |(_, before)| before.saturating_add(1))
    }

    /// The header of an event that comes without one.
    pub(crate) fn begin(now: Timestamp, ids: &mut Ids) -> String {
        format!("Root={};Parent={};Sampled=0", root(now, ids), ids.hex(16))
    }

    /// The header that a run of the function `name` is given, with this run counted.
    pub(crate) fn enter(&self, name: &str, now: Timestamp, ids: &mut Ids) -> String {
        let root = match &self.root {
            Some(root) => root.clone(),
            None => root(now, ids),
        };
        let (parent, sampled) = (ids.hex(16), self.sampled.as_deref().unwrap_or("0"));
        let mut header = format!("Root={root};Parent={parent};Sampled={sampled};Lineage=");
        let hash = hash(name);
        for (of, before) in self.lineage.iter().filter(|(of, _)| *of != hash) {
            header.extend([of, ":", &before.to_string(), "|"]);
        }
        header.extend([&hash, ":", &self.runs_of(&hash).to_string()]);
        header
    }
}

/// A new trace's name.
fn root(now: Timestamp, ids: &mut Ids) -> String {
    format!("1-{:08x}-{}", now.timestamp(), ids.hex(24))
}

/// One entry of a lineage.
fn entry(text: &str) -> Option<(String, u32)> {
    let (ahead, before) = text.rsplit_once(':')?;
    let hash = ahead.rsplit_once(':').map_or(ahead, |(_, hash)| hash);
    Some((hash.to_owned(), before.parse().ok()?))
}

/// A function's hash in a lineage: eight hexadecimal digits, as on AWS.
fn hash(name: &str) -> String {
    let digest = Md5::digest(name::arn(name));
    digest
        .first_chunk()
        .map(|bytes| format!("{:08x}", u32::from_be_bytes(*bytes)))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn enter(header: &str, name: &str) -> String {
        TraceHeader::parse(header).enter(name, Timestamp::UNIX_EPOCH, &mut Ids::new(1))
    }

    #[test]
    fn every_run_of_a_chain_is_counted_for_its_own_function() {
        let mut header = String::new();
        for run in 1..=20 {
            header = enter(&header, "target");
            header = enter(&header, "handler");
            let parsed = TraceHeader::parse(&header);
            assert_eq!(parsed.runs("target"), run);
            assert_eq!(parsed.runs("handler"), run);
            assert_eq!(parsed.runs("other"), 0);
        }
    }

    #[test]
    fn a_header_without_lineage_begins_one_and_keeps_its_root() {
        let root = "Root=1-5759e988-bd862e3fe1be46a994272793";
        let entered = enter(&format!("{root};Parent=53995c3f42cd8ad8;Sampled=1"), "f");
        assert!(entered.starts_with(&format!("{root};Parent=")), "{entered}");
        assert!(entered.contains(";Sampled=1;Lineage="), "{entered}");
        assert!(entered.ends_with(":0"), "{entered}");
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
            let header = TraceHeader::parse(&format!("Root=1-2-3;lineage={lineage}"));
            assert_eq!(header.runs("f"), runs, "{lineage}");
        }
    }

    #[test]
    fn members_that_cannot_be_read_are_left_out() {
        for header in ["", ";;;", "Lineage", "Lineage=;", "Lineage=a|b:c|:", "x=y", "Lineage=a:-1"]
        {
            assert_eq!(TraceHeader::parse(header).runs("f"), 0, "{header}");
            assert!(enter(header, "f").starts_with("Root=1-00000000-"), "{header}");
        }
    }
}
