//! The buckets from which failure records are read.

use std::{collections::BTreeSet, net::Ipv4Addr};

use super::bad_settings::Fault;

/// The names of buckets. Nothing is read from any other.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct RecordBuckets(BTreeSet<String>);

impl RecordBuckets {
    pub(crate) fn read(list: &str, faults: &mut Vec<Fault>) -> Self {
        let names: Vec<_> = list.split(',').map(str::trim).collect();
        for name in &names {
            if !is_bucket_name(name) {
                let expected = "names of buckets, which are no URLs or ARNs, without *, separated \
                                by single commas";
                faults.push(Fault::new("RECORD_BUCKETS", expected, *name));
            }
        }
        Self(names.into_iter().map(str::to_owned).collect())
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    pub fn contain(&self, bucket: &str) -> bool {
        self.0.contains(bucket)
    }
}

/// S3's rules for the names of buckets.
pub fn is_bucket_name(name: &str) -> bool {
    let is_end = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let ends = [name.as_bytes().first(), name.as_bytes().last()];
    (3..=63).contains(&name.len())
        && name.bytes().all(|b| is_end(b) || b"-.".contains(&b))
        && ends.into_iter().flatten().all(|&b| is_end(b))
        && !name.contains("..")
        && name.parse::<Ipv4Addr>().is_err()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(list: &str) -> (RecordBuckets, Vec<String>) {
        let mut faults = Vec::new();
        let buckets = RecordBuckets::read(list, &mut faults);
        (buckets, faults.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn every_part_that_is_no_name_of_a_bucket_is_a_fault_of_its_own() {
        let long = "b".repeat(63);
        for good in
            ["records", "my.records-2026", "a1b", &*long, "records,other", " records , other "]
        {
            assert_eq!(read(good).1, [""; 0], "{good}");
        }
        let too_long = "b".repeat(64);
        for bad in [
            "https://records.s3.amazonaws.com",
            "s3://records",
            "arn:aws:s3:::records",
            "rec*",
            "*",
            "",
            "ab",
            &*too_long,
            "Records",
            "re_cords",
            "-records",
            "records.",
            "re..cords",
            "192.168.5.4",
            "récords",
            "records/aws",
        ] {
            let list = format!("records,{bad}");
            let faults = read(&list).1;
            let [fault] = &faults[..] else { panic!("{bad}: {faults:?}") };
            assert!(fault.starts_with("RECORD_BUCKETS must be names of buckets"), "{fault}");
            assert!(fault.ends_with(&format!(", got {bad:?}")), "{fault}");
        }
        assert_eq!(read("a,,s3://b,*").1.len(), 4, "all are named in one message");
    }

    #[test]
    fn nothing_is_read_from_a_bucket_that_is_not_listed() {
        let (buckets, _) = read("records, other");
        assert!(buckets.contain("records") && buckets.contain("other"));
        assert!(!buckets.contain("record") && !buckets.contain("records2"));
        assert!(!buckets.is_empty() && RecordBuckets::default().is_empty());
    }
}
