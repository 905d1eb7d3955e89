//! The tags by which `comeback attach` remembers how a function or a queue was before.

use std::{collections::BTreeMap, fmt};

use crate::account::names::last;

pub type Tags = BTreeMap<String, String>;

/// The configuration of a function or a queue before it was attached, and the changes that attaching made. Of a queue,
/// it is the redrive policy: `on_failure` and `retries`, the number of receives. It is stored in tags of it, whose
/// values may only contain letters, digits, spaces and `_.:/=+-@`.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Previous {
    pub queue: String,
    pub had_config: bool,
    pub retries: Option<u32>,
    pub on_failure: Option<String>,
    /// Whether its `RecursiveLoop` was `Allow`, if that is known.
    pub may_loop: Option<bool>,
    pub settings: bool,
    pub policy: bool,
    /// If it became transparent: the value of `TRANSPARENT` in its own policy before, or an empty text.
    pub transparent: Option<String>,
    /// The bucket that its records go to.
    pub records: Option<String>,
    /// Whether the bucket was added to `RECORD_BUCKETS`.
    pub listed: bool,
    /// Whether the retry queue became its on-success destination.
    pub successes: bool,
}

/// The tag with everything except the ARN of the destination.
const TAG: &str = "comeback:before";

/// In a tag, stands for a setting that was not there.
const NO_VALUE: &str = "none";

const TAG_OF_DESTINATION: &str = "comeback:before-destination";

pub const VALUE_MAX: usize = 256;

impl Previous {
    pub fn tags(&self, qualifier: Option<&str>) -> Tags {
        let mut tags = BTreeMap::from([(key(TAG, qualifier), self.to_string())]);
        tags.extend(self.on_failure.clone().map(|arn| (key(TAG_OF_DESTINATION, qualifier), arn)));
        tags
    }

    /// Reads the state from a function's tags; `None` if it was not attached.
    pub fn read(tags: &Tags, qualifier: Option<&str>) -> Option<Self> {
        let text = tags.get(&key(TAG, qualifier))?;
        let words: BTreeMap<_, _> = text.split(' ').filter_map(|it| it.split_once('=')).collect();
        let is = |name: &str| words.get(name) == Some(&"yes");
        Some(Self {
            queue: words.get("queue").copied().unwrap_or_default().to_owned(),
            had_config: is("config"),
            retries: words.get("retries").and_then(|text| text.parse().ok()),
            on_failure: tags.get(&key(TAG_OF_DESTINATION, qualifier)).cloned(),
            may_loop: words.get("loop").map(|text| *text == "yes"),
            settings: is("settings"),
            policy: is("policy"),
            transparent: words.get("transparent").map(|it| it.replace(NO_VALUE, "")),
            records: words.get("records").map(|&it| it.to_owned()),
            listed: is("listed"),
            successes: is("successes"),
        })
    }

    /// The states of the other aliases and versions of a function that are attached, each with its qualifier.
    pub fn others(tags: &Tags, qualifier: Option<&str>) -> Vec<(Option<String>, Self)> {
        let others = Self::qualifiers(tags).filter(|it| it.as_deref() != qualifier);
        others.filter_map(|it| Some((it.clone(), Self::read(tags, it.as_deref())?))).collect()
    }

    fn qualifiers(tags: &Tags) -> impl Iterator<Item = Option<String>> {
        tags.keys().filter_map(|key| match key.strip_prefix(TAG)? {
            "" => Some(None),
            rest => Some(Some(rest.strip_prefix(':')?.to_owned())),
        })
    }

    /// The same with what another state of the function has changed that all of its aliases and versions share. Whoever
    /// is detached last restores it.
    #[must_use]
    pub fn inheriting(&self, from: &Self) -> Self {
        Self {
            may_loop: if from.may_loop == Some(false) { Some(false) } else { self.may_loop },
            settings: self.settings || from.settings,
            policy: self.policy || from.policy && from.queue == self.queue,
            transparent: self.transparent.clone().or_else(|| from.transparent.clone()),
            listed: self.listed || from.listed && from.records == self.records,
            ..self.clone()
        }
    }

    /// The names of the queues that the function, its aliases and versions were attached to.
    pub fn queues(tags: &Tags) -> impl Iterator<Item = String> {
        let queue = |it: Option<String>| Some(Self::read(tags, it.as_deref())?.queue);
        Self::qualifiers(tags).filter_map(queue).map(|queue| last(&queue).to_owned())
    }

    pub fn keys(qualifier: Option<&str>) -> [String; 2] {
        [TAG, TAG_OF_DESTINATION].map(|tag| key(tag, qualifier))
    }
}

impl fmt::Display for Previous {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "queue={} config={}", self.queue, yes(self.had_config))?;
        if let Some(retries) = self.retries {
            write!(f, " retries={retries}")?;
        }
        if let Some(may_loop) = self.may_loop {
            write!(f, " loop={}", yes(may_loop))?;
        }
        if let Some(bucket) = &self.records {
            write!(f, " records={bucket}")?;
        }
        for (name, is) in [
            ("settings", self.settings),
            ("policy", self.policy),
            ("listed", self.listed),
            ("successes", self.successes),
        ] {
            if is {
                write!(f, " {name}=yes")?;
            }
        }
        if let Some(before) = &self.transparent {
            write!(f, " transparent={}", if before.is_empty() { NO_VALUE } else { before })?;
        }
        Ok(())
    }
}

/// A mapping of a stream before its batches went to the bucket of its function's records. It is stored in a tag of the
/// function, which an attached mapping has and no other.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct PreviousStream {
    /// Whether the bucket was its on-failure destination already.
    pub had_bucket: bool,
    pub was_endless: bool,
}

/// The tag of a mapping, without its id.
const TAG_OF_STREAM: &str = "comeback:before-stream-";

impl PreviousStream {
    pub fn tags(self, mapping: &str, qualifier: Option<&str>) -> Tags {
        BTreeMap::from([(Self::key(mapping, qualifier), self.to_string())])
    }

    pub fn key(mapping: &str, qualifier: Option<&str>) -> String {
        key(&format!("{TAG_OF_STREAM}{mapping}"), qualifier)
    }

    /// The attached mappings of a function, an alias or a version, by their ids.
    pub fn all(tags: &Tags, qualifier: Option<&str>) -> BTreeMap<String, Self> {
        let read = |(key, value): (&String, &String)| {
            let rest = key.strip_prefix(TAG_OF_STREAM)?;
            let (mapping, of) =
                rest.split_once(':').map_or((rest, None), |(it, of)| (it, Some(of)));
            let is = |word: &str| value.split(' ').any(|it| it == word);
            let before = Self { had_bucket: is("bucket=yes"), was_endless: is("endless=yes") };
            (of == qualifier).then(|| (mapping.to_owned(), before))
        };
        tags.iter().filter_map(read).collect()
    }
}

impl fmt::Display for PreviousStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "bucket={} endless={}", yes(self.had_bucket), yes(self.was_endless))
    }
}

fn yes(is: bool) -> &'static str {
    if is { "yes" } else { "no" }
}

fn key(tag: &str, qualifier: Option<&str>) -> String {
    qualifier.map_or_else(|| tag.to_owned(), |qualifier| format!("{tag}:{qualifier}"))
}
