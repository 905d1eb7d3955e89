//! Everything except envelopes passes unchanged, whatever the bytes are and however they are split into pieces.

use proptest::{collection::vec, prelude::*, sample::select};

use super::*;

const METADATA: &str =
    r#""_retry_metadata":{"attempt":2,"initial_timestamp":1643667670,"request_id":"e4b46cbf"}"#;
const CONTEXT: &str = r#"{"custom":{"comeback":"{\"attempt\":2,\"initial_timestamp\":1643667670,\"request_id\":\"e4b46cbf\"}"}}"#;
const NEXT: &str = "GET /2018-06-01/runtime/invocation/next HTTP/1.1\r\nHost: x\r\n\r\n";

/// The bytes that the runtime receives if these answers arrive in pieces that end at `cuts`.
fn passed(answers: &[u8], asked: &[Asked], cuts: &[usize]) -> Vec<u8> {
    let mut open = asked.iter().copied().collect();
    let (mut state, mut out) = (Answers::new(), Vec::new());
    for piece in pieces(answers, cuts) {
        state.pass(piece, &mut open, &mut out);
    }
    state.end(&mut out);
    out
}

fn asked_for(requests: &[u8], cuts: &[usize]) -> Vec<Asked> {
    let (mut state, mut asked) = (Requests::new(), VecDeque::new());
    for piece in pieces(requests, cuts) {
        state.look(piece, &mut asked);
    }
    asked.into()
}

fn pieces<'a>(bytes: &'a [u8], cuts: &[usize]) -> Vec<&'a [u8]> {
    let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % (bytes.len() + 1)).collect();
    cuts.extend([0, bytes.len()]);
    cuts.sort_unstable();
    cuts.windows(2).map(|cut| &bytes[cut[0]..cut[1]]).collect()
}

fn chunked(body: &[u8], size: usize, trailers: &str) -> Vec<u8> {
    let mut chunked = Vec::new();
    for chunk in body.chunks(size) {
        chunked.extend_from_slice(format!("{:X};ext=1\r\n", chunk.len()).as_bytes());
        chunked.extend_from_slice(chunk);
        chunked.extend_from_slice(b"\r\n");
    }
    chunked.extend_from_slice(format!("0\r\n{trailers}\r\n").as_bytes());
    chunked
}

/// How the length of a body is announced.
#[derive(Clone, Copy, Debug)]
enum Framing {
    Length,
    Chunked(usize),
    UntilClose,
}

fn answer(headers: &[u8], framing: Framing, body: &[u8]) -> Vec<u8> {
    let mut answer = b"HTTP/1.1 200 OK\r\n".to_vec();
    answer.extend_from_slice(headers);
    let body = match framing {
        Framing::Length => {
            answer.extend_from_slice(format!("content-length: {}\r\n\r\n", body.len()).as_bytes());
            body.to_vec()
        }
        Framing::Chunked(size) => {
            answer.extend_from_slice(b"transfer-encoding: chunked\r\n\r\n");
            chunked(body, size, "x-sum: 7\r\n")
        }
        Framing::UntilClose => {
            answer.extend_from_slice(b"\r\n");
            body.to_vec()
        }
    };
    answer.extend_from_slice(&body);
    answer
}

#[test]
fn only_an_answer_to_a_request_for_an_event_is_opened() {
    let body = format!(r#"{{{METADATA},"_original_payload":7}}"#);
    let bytes = answer(b"", Framing::Length, body.as_bytes());
    assert_eq!(passed(&bytes, &[Asked::Other], &[]), bytes);
    assert_eq!(passed(&bytes, &[], &[]), bytes);
    let failed = String::from_utf8(bytes).unwrap().replace("200 OK", "500 No");
    assert_eq!(passed(failed.as_bytes(), &[Asked::Event], &[]), failed.as_bytes());
    for (path, is_event) in [
        ("/2018-06-01/runtime/invocation/next", true),
        ("/2031-01-01/runtime/invocation/next?wait=1", true),
        ("/2018-06-01/runtime/invocation/next/", false),
        ("/2018-06-01/runtime/restore/next", false),
        ("/a/2018-06-01/runtime/invocation/next", false),
        ("/runtime/invocation/next", false),
    ] {
        let request = format!("GET {path} HTTP/1.1\r\n\r\n");
        let expected = if is_event { Asked::Event } else { Asked::Other };
        assert_eq!(asked_for(request.as_bytes(), &[]), [expected], "{path}");
    }
    let posted = NEXT.replace("GET", "POST");
    assert_eq!(asked_for(posted.as_bytes(), &[]), [Asked::Other]);
}

#[test]
fn an_envelope_that_is_cut_short_is_passed_on_as_far_as_it_arrived() {
    let body = format!(r#"{{{METADATA},"_original_payload":"{}"}}"#, "x".repeat(100));
    for framing in [Framing::Length, Framing::Chunked(9)] {
        let whole = answer(b"", framing, body.as_bytes());
        for length in 0..whole.len() {
            assert_eq!(passed(&whole[..length], &[Asked::Event], &[]), whole[..length]);
        }
    }
}

#[test]
fn a_body_that_cannot_be_an_envelope_is_not_held_back() {
    for body in ["[1,", "\"text", "7", " \r\n\tnull"] {
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len() + 1);
        let mut out = Vec::new();
        let begun = head + body;
        Answers::new().pass(begun.as_bytes(), &mut [Asked::Event].into(), &mut out);
        assert_eq!(out, begun.as_bytes());
    }
    // Larger than any asynchronous invocation, known from its length or after it has arrived.
    let said = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{{", INVOCATION_MAX + 1);
    let mut come = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n200000\r\n{".to_vec();
    come.resize(come.len() + INVOCATION_MAX, b' ');
    for begun in [said.into_bytes(), come] {
        let mut out = Vec::new();
        Answers::new().pass(&begun, &mut [Asked::Event].into(), &mut out);
        assert!(out == begun);
    }
}

#[test]
fn the_bytes_held_back_are_limited_even_if_the_content_is_small() {
    let mut answer = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
    let chunk = format!("1;{}\r\n{{\r\n", "x".repeat(4000));
    while answer.len() <= HELD_BACK_MAX {
        answer.extend_from_slice(chunk.as_bytes());
    }
    let mut out = Vec::new();
    let (mut answers, mut asked) = (Answers::new(), [Asked::Event].into());
    for piece in answer.chunks(64 * 1024) {
        answers.pass(piece, &mut asked, &mut out);
    }
    assert!(out == answer);
}

#[test]
fn a_head_after_an_empty_line_and_with_trailers_is_rewritten() {
    let body = format!(r#"{{{METADATA},"_original_payload":7}}"#);
    let event = answer(b"Trailer: x-sum\r\n", Framing::Chunked(50), body.as_bytes());
    let expected = format!(
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nLambda-Runtime-Client-Context: {CONTEXT}\r\n\r\n7"
    );
    let given = passed(&[b"\r\n", &*event].concat(), &[Asked::Event], &[]);
    assert_eq!(String::from_utf8(given).unwrap(), expected);
}

#[test]
fn each_answer_belongs_to_its_request() {
    let opened = format!(
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nLambda-Runtime-Client-Context: {CONTEXT}\r\n\r\n7"
    );
    let body = format!(r#"{{{METADATA},"_original_payload":7}}"#);
    let event = String::from_utf8(answer(b"", Framing::Length, body.as_bytes())).unwrap();
    let requests = format!(
        "POST /a HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\nhello{NEXT}\
         HEAD /b HTTP/1.1\r\n\r\nPOST /c HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n\r\n\
         3\r\nabc\r\n0\r\nSum: 1\r\n\r\n{NEXT}"
    );
    let asked = [Asked::Other, Asked::Event, Asked::Head, Asked::Other, Asked::Event];
    for cut in 0..requests.len() {
        assert_eq!(asked_for(requests.as_bytes(), &[cut]), asked, "cut at {cut}");
    }
    let around = |event: &str| {
        format!(
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 202 Accepted\r\nContent-Length: 2\r\n\r\nok{event}\
             HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n{event}"
        )
    };
    let given = passed(around(&event).as_bytes(), &asked, &[]);
    assert_eq!(String::from_utf8(given).unwrap(), around(&opened));
}

#[test]
fn a_message_that_is_not_understood_is_passed_on_with_everything_after_it() {
    let body = format!(r#"{{{METADATA},"_original_payload":7}}"#);
    let event = String::from_utf8(answer(b"", Framing::Length, body.as_bytes())).unwrap();
    for odd in [
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nContent-Length: 1\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: +1\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nabcd\r\n",
        "what is this\r\n\r\n",
    ] {
        let bytes = format!("{odd}{event}");
        let given = passed(bytes.as_bytes(), &[Asked::Event, Asked::Event], &[]);
        assert_eq!(String::from_utf8(given).unwrap(), bytes);
    }
    for odd in ["CONNECT x:1 HTTP/1.1\r\n\r\n", "GET / HTTP/7\r\n\r\n", "\0\r\n\r\n"] {
        assert_eq!(asked_for(format!("{odd}{NEXT}").as_bytes(), &[]), [], "{odd}");
    }
    let endless = "x".repeat(3 * 1024 * 1024);
    assert_eq!(passed(endless.as_bytes(), &[Asked::Event], &[9, 1 << 20]), endless.as_bytes());
}

fn headers() -> impl Strategy<Value = Vec<u8>> {
    let name = "[!#$%&'*+.^_`|~0-9A-Za-z-]{1,20}".prop_filter("not the length", |name| {
        !["content-length", "transfer-encoding"].contains(&name.to_ascii_lowercase().as_str())
    });
    let value = vec(prop_oneof![Just(b'\t'), b' '..=b'~', 0x80..=0xff_u8], 0..40);
    vec((name, value), 0..20).prop_map(|headers| {
        let line =
            |(name, value): (String, Vec<u8>)| [name.as_bytes(), b":", &value, b"\r\n"].concat();
        headers.into_iter().flat_map(line).collect()
    })
}

fn framing() -> impl Strategy<Value = Framing> {
    prop_oneof![
        Just(Framing::Length),
        (1..50_usize).prop_map(Framing::Chunked),
        Just(Framing::UntilClose)
    ]
}

/// Bodies that are not envelopes, although many are similar to one.
fn ordinary_body() -> impl Strategy<Value = Vec<u8>> {
    let text = select(vec![
        "",
        "null",
        r#"{"_retry_metadata":{"attempt":0,"initial_timestamp":5},"_original_payload":7}"#,
        r#""{\"_retry_metadata\":{\"attempt\":1,\"initial_timestamp\":5},\"_original_payload\":7}""#,
        r#"{"_retry_metadata":{"attempt":1,"initial_timestamp":5},"_original_payload":7"#,
    ]);
    prop_oneof![text.prop_map(|text| text.as_bytes().to_vec()), vec(any::<u8>(), 0..300)]
}

proptest! {
    #[test]
    fn any_answer_without_an_envelope_passes_unchanged(
        headers in headers(),
        framing in framing(),
        body in ordinary_body(),
        before in framing(),
        cuts in vec(any::<usize>(), 0..6),
    ) {
        let mut bytes = match before {
            Framing::UntilClose => Vec::new(),
            Framing::Length | Framing::Chunked(_) => answer(&headers, before, &body),
        };
        let asked = vec![Asked::Event; if bytes.is_empty() { 1 } else { 2 }];
        bytes.extend(answer(&headers, framing, &body));
        prop_assert_eq!(passed(&bytes, &asked, &cuts), bytes);
    }

    #[test]
    fn any_bytes_pass_unchanged(
        bytes in vec(any::<u8>(), 0..400),
        asked in vec(select(vec![Asked::Event, Asked::Head, Asked::Other]), 0..3),
        cuts in vec(any::<usize>(), 0..6),
    ) {
        asked_for(&bytes, &cuts);
        prop_assert_eq!(passed(&bytes, &asked, &cuts), bytes);
    }

    #[test]
    fn an_envelope_is_opened_however_it_is_cut_into_pieces(
        headers in headers(),
        framing in framing(),
        payload in "[ -~é]{0,60}",
        cuts in vec(any::<usize>(), 0..6),
    ) {
        let payload = serde_json::to_string(&payload).unwrap();
        let body = format!(r#"{{{METADATA},"_original_payload":{payload}}}"#);
        let bytes = answer(&headers, framing, body.as_bytes());
        let given = passed(&bytes, &[Asked::Event], &cuts);
        let at_once = passed(&bytes, &[Asked::Event], &[]);
        prop_assert_eq!(&given, &at_once);
        let end = given.windows(4).position(|it| it == b"\r\n\r\n").unwrap() + 4;
        prop_assert_eq!(&given[end..], payload.as_bytes());
        let length = format!("\r\nContent-Length: {}\r\n", payload.len());
        prop_assert_eq!(count(&given[..end], length.as_bytes()), 1);
        prop_assert_eq!(count(&given[..end], CONTEXT.as_bytes()), 1);
    }
}

fn count(bytes: &[u8], part: &[u8]) -> usize {
    bytes.windows(part.len()).filter(|it| *it == part).count()
}
