//! Tests of layers and of wrapper scripts, which start the runtime.

use std::{fs, path::PathBuf};

use serde_json::{Value, json};

use super::client::{Cloud, zip};

/// A wrapper script that passes on its own path, its arguments and the file `note` beside it as variables.
const WRAPPER: &[u8] = b"#!/bin/sh
export WRAPPER=\"$0\" COMMAND=\"$*\" NOTE=\"$(cat \"$(dirname \"$0\")/note\")\"
exec \"$@\"
";

/// A layer's content as a zip, in the request's format.
fn zipped(files: &[(&str, u32, &[u8])]) -> Value {
    json!({"ZipFile": zip(files)})
}

fn wrapped_by(wrapper: &str) -> Value {
    json!({"Variables": {"AWS_LAMBDA_EXEC_WRAPPER": wrapper}})
}

#[test]
fn a_wrapper_script_in_a_layer_starts_the_runtime_and_sees_all_layers() {
    let cloud = Cloud::start();
    let below =
        cloud.layer("below", &zipped(&[("bin/wrap", 0o755, WRAPPER), ("bin/note", 0o644, b"1")]));
    let above = cloud.layer("above", &zipped(&[("bin/note", 0o644, b"2")]));
    let f = cloud.function(
        "f",
        json!({"Layers": [below, above], "Environment": wrapped_by("/opt/bin/wrap")}),
    );
    let told = f.invoke(&json!({})).json();
    let variables = &told["variables"];
    assert!(variables["WRAPPER"].as_str().unwrap().ends_with("/bin/wrap"));
    assert_eq!(variables["COMMAND"], "python3 function.py");
    assert_eq!(variables["NOTE"], "2");
    assert_eq!(variables["AWS_LAMBDA_EXEC_WRAPPER"], "/opt/bin/wrap");

    let configuration = cloud.get("/2015-03-31/functions/f/configuration");
    let layers = configuration["Layers"].as_array().unwrap();
    assert_eq!(layers.iter().map(|layer| &layer["Arn"]).collect::<Vec<_>>(), [&below, &above]);
    let get = cloud.get("/2018-10-31/layers/above/versions/1");
    assert_eq!(get["LayerVersionArn"], above);
    assert_eq!(get["Content"]["CodeSize"], layers[1]["CodeSize"]);
}

#[test]
fn layers_change_with_the_configuration_and_leave_no_folders_behind() {
    let cloud = Cloud::start();
    let arn = cloud.layer("l", &zipped(&[("wrap", 0o755, WRAPPER), ("note", 0o644, b"1")]));
    let location = cloud.get("/2018-10-31/layers/l/versions/1");
    let location = location["Content"]["Location"].as_str().unwrap();
    let unpacked = PathBuf::from(location.strip_prefix("file://").unwrap());
    let unpacked = unpacked.parent().unwrap().to_owned();
    let count = || unpacked.read_dir().unwrap().count();
    assert_eq!(count(), 1);
    let f = cloud.function("f", json!({}));
    let update = |layers: &Value, wrapper: &str| {
        let path = "/2015-03-31/functions/f/configuration";
        cloud.ask("PUT", path, &json!({"Layers": layers, "Environment": wrapped_by(wrapper)}))
    };
    for _ in 0..2 {
        assert_eq!(update(&json!([arn]), "/opt/wrap").status, 200);
        assert_eq!(f.invoke(&json!({})).json()["variables"]["NOTE"], "1");
    }
    let missing = format!("{}7", arn.strip_suffix('1').unwrap());
    let refused = update(&json!([missing]), "/opt/wrap");
    assert_eq!(refused.header("x-amzn-errortype"), Some("InvalidParameterValueException"));
    assert_eq!(refused.json()["Message"], format!("Layer version {missing} does not exist."));
    assert_eq!(update(&json!([]), "").json().get("Layers"), None);
    assert_eq!(f.invoke(&json!({})).json()["variables"].get("NOTE"), None);
    cloud.signal("TERM");
    cloud.ended();
    assert!(!unpacked.exists());
}

#[test]
fn a_layer_from_a_folder_keeps_the_content_that_it_was_published_with() {
    let cloud = Cloud::start();
    let folder = std::env::temp_dir().join(format!("comeback-layer-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("note"), "before").unwrap();
    fs::write(folder.join("wrap"), WRAPPER).unwrap();
    let content = json!({"S3Bucket": "local-folder", "S3Key": folder});
    let arn = cloud.layer("l", &content);
    fs::write(folder.join("note"), "after").unwrap();
    let f = cloud.function("f", json!({"Layers": [arn], "Environment": wrapped_by("/opt/wrap")}));
    // Files keep their modes, so the wrapper script is not executable yet.
    assert!(f.invoke(&json!({})).text().contains("exit status 127"));
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(folder.join("wrap"), executable).unwrap();
    let again = cloud.layer("l", &content);
    fs::remove_dir_all(&folder).unwrap();
    assert!(again.ends_with(":2"));
    let environment = wrapped_by("/opt/wrap");
    let g = cloud.function("g", json!({"Layers": [again], "Environment": environment}));
    assert_eq!(g.invoke(&json!({})).json()["variables"]["NOTE"], "after");
}

#[test]
fn the_log_names_a_wrapper_script_that_cannot_be_started() {
    let cloud = Cloud::start();
    let arn = cloud.layer("l", &zipped(&[("data", 0o644, b"")]));
    for (name, layers, wrapper, said) in [
        ("a", json!([]), "/opt/wrap", "/opt/wrap can't be started: No such file"),
        ("b", json!([arn]), "/opt/wrap", "/wrap can't be started: No such file"),
        ("c", json!([arn]), "/opt/data", "/data can't be started: Permission denied"),
        ("d", json!([]), "/no/such/wrap", "/no/such/wrap can't be started: No such file"),
    ] {
        let f = cloud.function(name, json!({"Layers": layers, "Environment": wrapped_by(wrapper)}));
        let failure = f.invoke(&json!({}));
        // AWS's recorded error for a wrapper script that does not exist.
        assert!(failure.text().contains("Runtime.ExitError"));
        assert!(failure.text().contains("Runtime exited with error: exit status 127"));
        cloud.journal_until(|event| {
            event["function"] == name
                && event["line"].as_str().is_some_and(|line| line.contains(said))
        });
    }
}

#[test]
fn a_bootstrap_is_started_without_the_wrapper_script() {
    let cloud = Cloud::start();
    let function = include_bytes!("function.py");
    let code = json!({
        "PackageType": "Zip",
        "Code": zipped(&[("bootstrap", 0o755, function)]),
        "Environment": wrapped_by("/opt/wrap"),
    });
    assert!(!cloud.function("f", code).invoke(&json!({})).is_error);
}
