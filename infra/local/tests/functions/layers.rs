//! Tests of layers: code and data that functions share.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};

use super::client::{Cloud, Function, zip};

/// A layer's content with this note beside the packages of Python, in the request's format.
fn zipped(note: &[u8]) -> Value {
    json!({"ZipFile": zip(&[("python/note", 0o644, note)])})
}

/// A function of the runtime of Python, whose client it brings along: `function.py`.
fn function<'a>(cloud: &'a Cloud, name: &str, layers: &[&str]) -> Function<'a> {
    let code = zip(&[
        ("awslambdaric/__init__.py", 0o644, b""),
        ("awslambdaric/bootstrap.py", 0o644, b""),
        ("awslambdaric/__main__.py", 0o644, include_bytes!("function.py")),
        ("runtime_client.py", 0o644, b""),
    ]);
    let code = json!({"PackageType": "Zip", "Runtime": "python3.11", "Layers": layers,
        "Code": {"ZipFile": code}});
    cloud.function(name, code)
}

/// The note that the function finds where Python looks for packages first.
fn note(f: &Function<'_>) -> Option<String> {
    let told = f.invoke(&json!({})).json();
    let path = told["variables"]["PYTHONPATH"].as_str().unwrap();
    let (first, _) = path.split_once(':')?;
    Some(fs::read_to_string(Path::new(first).join("note")).unwrap())
}

#[test]
fn packages_in_layers_are_found_by_the_runtime_and_later_layers_replace_files_of_earlier_ones() {
    let cloud = Cloud::start();
    let below = cloud.layer("below", &zipped(b"1"));
    let above = cloud.layer("above", &zipped(b"2"));
    let f = function(&cloud, "f", &[&below, &above]);
    assert_eq!(note(&f).as_deref(), Some("2"));

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
    let arn = cloud.layer("l", &zipped(b"1"));
    let location = cloud.get("/2018-10-31/layers/l/versions/1");
    let location = location["Content"]["Location"].as_str().unwrap();
    let unpacked = PathBuf::from(location.strip_prefix("file://").unwrap());
    let unpacked = unpacked.parent().unwrap().to_owned();
    let count = || unpacked.read_dir().unwrap().count();
    assert_eq!(count(), 1);
    let f = function(&cloud, "f", &[]);
    let update = |layers: &Value| {
        let path = "/2015-03-31/functions/f/configuration";
        cloud.ask("PUT", path, &json!({"Layers": layers}))
    };
    for _ in 0..2 {
        assert_eq!(update(&json!([arn])).status, 200);
        assert_eq!(note(&f).as_deref(), Some("1"));
    }
    let missing = format!("{}7", arn.strip_suffix('1').unwrap());
    let refused = update(&json!([missing]));
    assert_eq!(refused.header("x-amzn-errortype"), Some("InvalidParameterValueException"));
    assert_eq!(refused.json()["Message"], format!("Layer version {missing} does not exist."));
    assert_eq!(update(&json!([])).json().get("Layers"), None);
    assert_eq!(note(&f), None);
    cloud.signal("TERM");
    cloud.ended();
    assert!(!unpacked.exists());
}

#[test]
fn a_layer_from_a_folder_keeps_the_content_that_it_was_published_with() {
    let cloud = Cloud::start();
    let folder = std::env::temp_dir().join(format!("comeback-layer-{}", std::process::id()));
    fs::create_dir_all(folder.join("python")).unwrap();
    let publish = |note: &str| {
        fs::write(folder.join("python/note"), note).unwrap();
        cloud.layer("l", &json!({"S3Bucket": "local-folder", "S3Key": folder}))
    };
    let (first, second) = (publish("before"), publish("after"));
    fs::remove_dir_all(&folder).unwrap();
    assert!(second.ends_with(":2"));
    assert_eq!(note(&function(&cloud, "f", &[&first])).as_deref(), Some("before"));
    assert_eq!(note(&function(&cloud, "g", &[&second])).as_deref(), Some("after"));
}
