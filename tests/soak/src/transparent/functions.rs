//! The functions of the soak, which know nothing of retries.

use std::time::Duration;

use end_to_end::{
    cloud::{Function, binary, command, function},
    code::{Code, REQUIREMENTS, installed, python},
};

use super::events::FUNCTIONS;

/// All functions, and the folders of their code, which are removed when they are dropped.
pub fn all() -> (Vec<Function>, [Code; 2]) {
    let in_python = Code::new("target.py", include_str!("target.py"));
    let in_node_js = Code::new("target.js", include_str!("target.js"));
    let interpreter = python(REQUIREMENTS).display().to_string();
    let client = installed("node", "tests/node").join("aws-lambda-ric/bin/index.mjs");
    let functions = FUNCTIONS.map(|name| {
        let mut function = function(name, "soak-target");
        let words = match name.split('-').next() {
            Some("python") => {
                function.environment = vec![("PYTHONPATH".to_owned(), in_python.folder())];
                [&*interpreter, "-m", "awslambdaric", "target.handler"].join("\n")
            }
            Some("node") => {
                let handler = in_node_js.folder() + "/target.handler";
                ["node", &client.display().to_string(), &handler].join("\n")
            }
            _ => binary("soak-target").display().to_string(),
        };
        function.code = command(words.split('\n'));
        function.timeout = Duration::from_secs(30);
        function
    });
    (functions.into(), [in_python, in_node_js])
}
