//! How batches are read, cut, and taken for processed.
//!
//! The samples are those of the AWS Lambda Developer Guide: "Using AWS Lambda with Amazon Kinesis", "Process Amazon
//! DynamoDB records with Lambda" and "Using Lambda with Amazon MSK".

use proptest::prelude::*;
use serde_json::Value;

use super::*;

const KINESIS: &str = include_str!("../../fixtures/batches/kinesis.json");
const DYNAMODB: &str = include_str!("../../fixtures/batches/dynamodb.json");
const KAFKA: &str = include_str!("../../fixtures/batches/kafka.json");

/// A batch of Kafka with these records in three lists, one of them empty.
fn kafka(first: &[&str], second: &[&str]) -> String {
    format!(
        r#"{{"eventSource":"SelfManagedKafka", "records" : {{ "a-\u0030" :[{}] ,"e-0":[], "b-1":[ {} ]}},"bootstrapServers":"b:9092"}}"#,
        first.join(" , "),
        second.join(",")
    )
}

fn part(first: usize, last: usize) -> Part {
    Part { first, last }
}

fn records(text: &str) -> Vec<String> {
    let mut records = Vec::new();
    let batch = Batch::read(text).unwrap();
    batch.for_each(|_, _, record| records.push(record.get().to_owned())).unwrap();
    records
}

#[test]
fn a_part_is_an_event_of_the_same_shape_with_the_same_bytes() {
    for (source, text) in [("kinesis", KINESIS), ("dynamodb", DYNAMODB), ("kafka", KAFKA)] {
        let batch = Batch::read(text).unwrap();
        assert!(batch.is_of_stream(), "{source}");
        let all = records(text);
        for (place, record) in all.iter().enumerate() {
            let cut = batch.cut(part(place, place)).unwrap();
            assert_eq!(records(&cut), [record.as_str()], "{source}");
        }
        let whole = batch.cut(part(0, all.len() - 1)).unwrap();
        let parsed = |text: &str| serde_json::from_str::<Value>(text).unwrap();
        assert_eq!(parsed(&whole), parsed(text), "{source}");
        assert_eq!(batch.cut(part(0, all.len())), None, "{source}");
        assert_eq!(batch.cut(part(all.len(), all.len())), None, "{source}");
    }
    let text = kafka(&["1.0", r#"{"a":12345678901234567890123}"#], &["[ ]", "null"]);
    let batch = Batch::read(&text).unwrap();
    let around = |records: &str| {
        format!(
            r#"{{"eventSource":"SelfManagedKafka", "records" : {{{records}}},"bootstrapServers":"b:9092"}}"#
        )
    };
    for (first, last, expected) in [
        (0, 0, r#""a-\u0030" :[1.0]"#),
        (0, 1, r#""a-\u0030" :[1.0 , {"a":12345678901234567890123}]"#),
        (1, 2, r#""a-\u0030" :[{"a":12345678901234567890123}],"b-1":[[ ]]"#),
        (3, 3, r#""b-1":[null]"#),
    ] {
        assert_eq!(batch.cut(part(first, last)), Some(around(expected)), "{first}-{last}");
    }
}

#[test]
fn what_is_no_batch_is_not_divided() {
    for text in [
        "",
        "no JSON",
        "null",
        "[]",
        "{}",
        r#"{"Records":[]}"#,
        r#"{"Records":{"a":[1]}}"#,
        r#"{"Records":[1]} x"#,
        r#"{"records":{"a-0":[1]}}"#,
        r#"{"eventSource":"aws:kafka","records":{"a-0":[]}}"#,
        r#"{"eventSource":"aws:kafka","records":{"a-0":1}}"#,
        r#"{"eventSource":"aws:kafka","records":[1]}"#,
    ] {
        assert!(Batch::read(text).is_none(), "{text}");
    }
    for text in [r#"{"Records":[1]}"#, r#"{"Records":[{"eventSource":"aws:sqs"}]}"#] {
        assert!(!Batch::read(text).unwrap().is_of_stream(), "{text}");
    }
}

#[test]
fn the_name_of_a_part_has_one_spelling() {
    for text in ["0-0", "0-499", "17-9999"] {
        assert_eq!(Part::parse(text).map(|part| part.to_string()).as_deref(), Some(text));
    }
    for text in
        ["", "0", "-", "1-0", "00-1", "+0-1", "0 -1", "0-1-2", "0-99999999999999999999", "a-b"]
    {
        assert_eq!(Part::parse(text), None, "{text}");
    }
}

/// The answers that AWS documents for Kinesis and DynamoDB, and those that others have recorded: LocalStack's tests
/// `test_kinesis_report_batch_item_failure_scenarios` and `test_dynamodb_report_batch_item_failure_scenarios`.
#[test]
fn what_a_function_names_is_taken_as_an_event_source_mapping_takes_it() {
    let (all, none) = (Some(Unprocessed::All), None);
    let second = || Some(Unprocessed::Only(part(1, 1)));
    let ids = [
        (KINESIS, "49590338271490256608559692538361571095921575989136588898"),
        (KINESIS, "49590338271490256608559692540925702759324208523137515618"),
        (DYNAMODB, "111"),
        (DYNAMODB, "222"),
    ];
    for (nth, (text, id)) in ids.into_iter().enumerate() {
        let named = format!(r#"{{"batchItemFailures":[{{"itemIdentifier":"{id}"}}]}}"#);
        let expected = if nth % 2 == 1 { second() } else { Some(Unprocessed::All) };
        assert_eq!(Batch::read(text).unwrap().unprocessed(&named), expected, "{named}");
    }
    let id = |id: &str| format!(r#"{{"itemIdentifier":{id}}}"#);
    for (list, expected) in [
        ("[]".to_owned(), &none),
        ("null".to_owned(), &none),
        (format!("[{},{}]", id("\"222\""), id("\"111\"")), &all),
        (format!("[{},{}]", id("\"222\""), id("\"222\"")), &second()),
        (format!("[{},{}]", id("\"222\""), id("\"333\"")), &all),
        (format!("[{}]", id("\"\"")), &all),
        (format!("[{},{}]", id("\"222\""), id("null")), &all),
        (format!("[{}]", id("222")), &all),
        (r#"[{"foo":"222"}]"#.to_owned(), &all),
        ("[null]".to_owned(), &all),
        (r#""222""#.to_owned(), &all),
        (r#"{"itemIdentifier":"222"}"#.to_owned(), &all),
    ] {
        let answer = format!(r#"{{"other":1,"batchItemFailures":{list}}}"#);
        assert_eq!(&Batch::read(DYNAMODB).unwrap().unprocessed(&answer), expected, "{answer}");
    }
    for answer in ["{}", "null", "\"\"", "[]", "7", r#"{"other":[1]}"#] {
        assert_eq!(Batch::read(DYNAMODB).unwrap().unprocessed(answer), None, "{answer}");
    }
    // AWS documents no identifier for Kafka.
    let named = r#"{"batchItemFailures":[{"itemIdentifier":{"partition":"a-0","offset":1}}]}"#;
    assert_eq!(Batch::read(KAFKA).unwrap().unprocessed(named), Some(Unprocessed::All));
}

proptest! {
    #[test]
    fn the_parts_are_all_records_in_order_and_as_few_as_fit(
        first in prop::collection::vec("[a-z]{0,40}", 0..30),
        second in prop::collection::vec("[a-z]{0,40}", 1..30),
        is_list in any::<bool>(),
        size_max in 90..400_usize,
    ) {
        let quoted = |texts: &[String]| texts.iter().map(|it| format!("\"{it}\"")).collect::<Vec<_>>();
        let (first, second) = (quoted(&first), quoted(&second));
        let all = [first.clone(), second.clone()].concat();
        fn borrowed(texts: &[String]) -> Vec<&str> {
            texts.iter().map(String::as_str).collect()
        }
        let text = match is_list {
            true => format!(r#"{{ "Records":[ {} ],"window":1.0}}"#, all.join(" ,")),
            false => kafka(&borrowed(&first), &borrowed(&second)),
        };
        let batch = Batch::read(&text).unwrap();
        let parts = batch.parts(size_max);
        prop_assert_eq!((parts[0].first, parts[parts.len() - 1].last), (0, all.len() - 1));
        let mut there = Vec::new();
        for part in &parts {
            let cut = batch.cut(*part).unwrap();
            prop_assert!(part.first == part.last || cut.len() <= size_max, "{} bytes", cut.len());
            prop_assert_eq!(part.first, there.len(), "no gap");
            there.extend(records(&cut));
            let outside = |text: &str| {
                let mut event: Value = serde_json::from_str(text).unwrap();
                event.as_object_mut().unwrap().retain(|name, _| !["Records", "records"].contains(&&**name));
                event
            };
            prop_assert_eq!(outside(&cut), outside(&text), "with all other members");
        }
        prop_assert_eq!(&there, &all);
        for pair in parts.windows(2) {
            let more = batch.cut(Part { first: pair[0].first, last: pair[1].first }).unwrap();
            prop_assert!(more.len() > size_max, "one more fits: {} of {size_max} bytes", more.len());
        }
    }
}
