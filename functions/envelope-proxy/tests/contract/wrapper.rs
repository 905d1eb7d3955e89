//! The wrapper, between Lambda and the runtime.

use std::{io::Write, process::Command};

use super::{
    Api,
    extension::{Opt, registered},
    free_port, guarded, sees,
};

const PRINT_API: [&str; 4] =
    ["sh", "-c", "echo \"$AWS_LAMBDA_RUNTIME_API $1 $2\"; exit 7", "runtime"];

#[test]
fn the_runtime_is_started_with_the_proxys_address_and_its_own_arguments() {
    let (opt, api, port) = (Opt::new("starts"), Api::new(), free_port());
    let _extension = opt.extension(&api.address(), port);
    let _waiting = registered(&api);
    let command = [&PRINT_API[..], &["a  b", "*"]].concat();
    let ran = opt.runtime(&api.address(), port, &command);
    assert_eq!(String::from_utf8(ran.stdout).unwrap(), format!("127.0.0.1:{port} a  b *\n"));
    assert_eq!(ran.status.code(), Some(7));
    // The first connection only checked that the API is there.
    drop(api.accept());
    // A wrapper around the wrapper changes nothing.
    let ran = opt.runtime(&format!("127.0.0.1:{port}"), port, &command);
    assert_eq!(String::from_utf8(ran.stdout).unwrap(), format!("127.0.0.1:{port} a  b *\n"));
    let mut runtime = guarded(std::net::TcpStream::connect(("127.0.0.1", port)).unwrap());
    runtime.write_all(b"GET /x HTTP/1.1\r\n\r\n").unwrap();
    sees(&mut api.accept(), b"GET /x HTTP/1.1\r\n\r\n");
}

#[test]
fn another_proxy_stays_between_this_one_and_lambda() {
    let (opt, lambda, other, port) = (Opt::new("chain"), Api::new(), Api::new(), free_port());
    let _extension = opt.extension(&lambda.address(), port);
    let _waiting = registered(&lambda);
    // Another vendor's wrapper, which puts a proxy of its own before Lambda, and a wrapper that runs both, as in
    // the README.
    let theirs =
        format!("#!/bin/sh\nexport AWS_LAMBDA_RUNTIME_API={}\nexec \"$@\"\n", other.address());
    let theirs = opt.program("the-other-one", &theirs);
    let both = format!("#!/bin/sh\nexec {theirs} {} \"$@\"\n", opt.path("comeback-exec"));
    let mut both = Command::new(opt.program("both", &both));
    both.args(PRINT_API).env("AWS_LAMBDA_RUNTIME_API", lambda.address());
    let ran = both.env("COMEBACK_PROXY_PORT", port.to_string()).output().unwrap();
    assert_eq!(String::from_utf8(ran.stdout).unwrap(), format!("127.0.0.1:{port}  \n"));
    // The first connection only checked that it is there.
    drop(other.accept());
    let mut runtime = guarded(std::net::TcpStream::connect(("127.0.0.1", port)).unwrap());
    runtime.write_all(b"GET /x HTTP/1.1\r\n\r\n").unwrap();
    sees(&mut other.accept(), b"GET /x HTTP/1.1\r\n\r\n");
}

#[test]
fn without_an_api_behind_it_no_runtime_is_started() {
    let (opt, api, port) = (Opt::new("unreachable"), Api::new(), free_port());
    let _extension = opt.extension(&api.address(), port);
    let _waiting = registered(&api);
    let nobody = format!("127.0.0.1:{}", free_port());
    let ran = opt.runtime(&nobody, port, &PRINT_API);
    assert_eq!((ran.status.code(), ran.stdout.len()), (Some(1), 0));
    let expected = format!(
        "comeback: the Runtime API at {nobody} (AWS_LAMBDA_RUNTIME_API) can't be reached: Connection refused (os error 111)\n"
    );
    assert_eq!(String::from_utf8(ran.stderr).unwrap(), expected);
}

#[test]
fn without_the_extension_no_runtime_is_started() {
    let (opt, api, port) = (Opt::new("alone"), Api::new(), free_port());
    let ran = opt.runtime(&api.address(), port, &PRINT_API);
    assert_eq!((ran.status.code(), ran.stdout.len()), (Some(1), 0));
    let expected = format!("comeback: the extension does not listen for port {port}: ");
    let said = String::from_utf8(ran.stderr).unwrap();
    assert!(said.starts_with(&expected), "{said}");
}
