//! Tests of streamed responses.

use serde_json::json;

use super::client::Cloud;

#[test]
fn a_streamed_response_is_returned_like_any_other() {
    let cloud = Cloud::start();
    let f = cloud.function("f", json!({}));
    let answer = f.invoke(&json!({"do": "stream", "chunks": ["[1,", "2", "]"]}));
    assert_eq!((answer.is_error, answer.text()), (false, "[1,2]"));
    let answer = f.invoke(&json!({"do": "stream", "chunks": ["[3]"], "expect": true}));
    assert_eq!((answer.is_error, answer.text()), (false, "[3]"));
    cloud.journal_until(|event| event["line"] == "expected HTTP/1.1 100 Continue");
}

#[test]
fn a_stream_that_ends_with_an_error_is_a_function_error() {
    let cloud = Cloud::start();
    let f = cloud.function("f", json!({}));
    let error = r#"{"errorType":"Own","errorMessage":"no luck"}"#;
    let answer = f.invoke(&json!({"do": "stream", "chunks": ["[1,"], "error": error}));
    assert_eq!((answer.is_error, answer.text()), (true, error));
    assert!(!f.invoke(&json!({})).is_error);
}

#[test]
fn a_stream_is_read_to_its_end_even_if_it_is_too_long_for_the_invoker() {
    let cloud = Cloud::start();
    let f = cloud.function("f", json!({"Timeout": 60}));
    let long = json!({"do": "stream", "chunks": ["[1,"], "times": 20, "of": 1_048_576});
    let answer = f.invoke(&long);
    assert!(answer.is_error);
    assert_eq!(answer.json()["errorType"], "Function.ResponseSizeTooLarge");
    cloud.journal_until(|event| event["line"] == "streamed HTTP/1.1 202 Accepted");
}
