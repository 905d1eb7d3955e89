//! Ids in few bytes.

use simulation::ids::{Id, Trace};

#[test]
fn an_id_has_the_text_that_it_was_made_of() {
    let lambda = "5f0c7c8e-1a57-4d2b-9f3e-0123456789ab";
    let upper = lambda.to_uppercase();
    let owners = [7, 255].map(|number| format!("{lambda}/{number}"));
    let others = ["/07", "/256", "/", "/7/7"].map(|end| format!("{lambda}{end}"));
    let more = ["", "stranger-7", &upper, &lambda.replace('-', "")].map(str::to_owned);
    let short = [lambda.to_owned()].into_iter().chain(owners).map(|text| (text, true));
    let long = others.into_iter().chain(more).map(|text| (text, false));
    for (text, is_short) in short.chain(long) {
        let id = Id::from(&*text);
        assert_eq!(id.to_string(), text);
        assert!(id == *text, "{id}");
        assert_eq!(!matches!(id, Id::Other(_)), is_short, "{text}");
    }
}

#[test]
fn headers_that_differ_anywhere_are_different_traces() {
    let header = "Root=1-69813980-00000000c3a5d1f2b4e69788;Parent=53995c3f42cd8ad8;Sampled=0";
    let changed = |at: usize| format!("{}x{}", &header[..at], &header[at + 1..]);
    assert!((0..header.len()).all(|at| Trace::from(&*changed(at)) != Trace::from(header)));
    assert!(Trace::from(header) == Trace::from(&*header.to_owned()));
}
