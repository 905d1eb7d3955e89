//! Runs each command with only the permissions of its policy, on moto, which can enforce IAM policies.

use std::{
    io::{Read, Write},
    net::TcpStream,
    process::Output,
};

use crate::deliveries::deliver_to_orders;
use crate::support::{attribute, comeback, create_on_moto, on_moto, text};
use moto::Moto;
use serde_json::{Value, json};

const USER: &str = "operator";
const QUEUE: &str = "arn:aws:sqs:us-east-1:000000000000:retry";

/// A retry system on moto, and an operator without permissions.
struct System {
    moto: Moto,
    iam: aws_sdk_iam::Client,
    key: (String, String),
}

impl System {
    async fn start() -> Self {
        let moto = Moto::start();
        let sdk = moto::config(&moto.endpoint);
        let iam = aws_sdk_iam::Client::new(&sdk);
        let lambda = aws_sdk_lambda::Client::new(&sdk);
        let logs = aws_sdk_cloudwatchlogs::Client::new(&sdk);
        let sqs = aws_sdk_sqs::Client::new(&sdk);
        moto::create_register(&aws_sdk_dynamodb::Client::new(&sdk), "ledger").await;
        logs.create_log_group().log_group_name("/aws/lambda/handler").send().await.unwrap();
        let queue = |name: &'static str| sqs.create_queue().queue_name(name).send();
        let dead = queue("dead").await.unwrap().queue_url.unwrap();
        queue("retry").await.unwrap();
        let handler = [
            ("DEAD_LETTER_QUEUE_URL", dead.as_str()),
            ("LEDGER_TABLE", "ledger"),
            // With two policies of errors, the doctor asks the log which have decided.
            ("POLICIES", r#"{"*":{"ERRORS":{"Down":{},"Limited":{}}}}"#),
            ("REGISTER", "true"),
        ];
        create_on_moto(&sdk, "handler", &handler).await;
        create_on_moto(&sdk, "orders", &[]).await;
        let arn = "arn:aws:lambda:us-east-1:000000000000:function:orders";
        let before = "queue=retry config=no loop=no settings=no";
        let call = lambda.tag_resource().resource(arn).tags("comeback:before", before);
        call.send().await.unwrap();
        create_on_moto(&sdk, "billing", &[]).await;
        deliver_to_orders(&moto);
        let mapping = lambda.create_event_source_mapping().function_name("handler");
        mapping.event_source_arn(QUEUE).send().await.unwrap();
        let sent = sqs.send_message().queue_url(&dead).message_body("{}");
        let sent = sent.message_attributes("Reason", attribute("String", "not_retryable"));
        sent.send().await.unwrap();

        iam.create_user().user_name(USER).send().await.unwrap();
        let key = iam.create_access_key().user_name(USER).send().await.unwrap().access_key.unwrap();
        let key = (key.access_key_id, key.secret_access_key);
        Self { moto, iam, key }
    }

    /// Turns the enforcement of policies in moto on or off.
    fn enforce(&self, enforce: bool) {
        let address = self.moto.endpoint.strip_prefix("http://").unwrap();
        let count = if enforce { "0" } else { "inf" };
        let mut connection = TcpStream::connect(address).unwrap();
        write!(
            connection,
            "POST /moto-api/reset-auth HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\
             content-length: {}\r\n\r\n{count}",
            count.len()
        )
        .unwrap();
        let mut answer = String::new();
        connection.read_to_string(&mut answer).unwrap();
        assert!(answer.contains(" 200 "), "{answer}");
    }

    /// Runs a command with these permissions only.
    async fn run(&self, arguments: &[&str], policy: &Value) -> Output {
        let put = self.iam.put_user_policy().user_name(USER).policy_name("only");
        put.policy_document(policy.to_string()).send().await.unwrap();
        self.enforce(true);
        let output = on_moto(&self.moto, arguments)
            // moto answers actions that it doesn't implement with errors that the SDK would retry.
            .env("AWS_MAX_ATTEMPTS", "1")
            .env("AWS_ACCESS_KEY_ID", &self.key.0)
            .env("AWS_SECRET_ACCESS_KEY", &self.key.1)
            .output()
            .unwrap();
        self.enforce(false);
        output
    }
}

fn actions(command: &str) -> Vec<String> {
    let policy =
        crate::support::json(&comeback().args(["doctor", "--policy", command]).output().unwrap());
    let statements = policy["Statement"].as_array().unwrap().iter();
    let actions = statements.flat_map(|it| it["Action"].as_array().unwrap());
    actions.map(|it| it.as_str().unwrap().to_owned()).collect()
}

/// A policy for these actions. moto checks only actions, and names some of them after their API operation.
fn for_moto(actions: &[String]) -> Value {
    let own = |action: &String| match action.as_str() {
        "sqs:DeleteMessage" | "sqs:ChangeMessageVisibility" => vec![format!("{action}Batch")],
        "lambda:InvokeFunction" => vec!["lambda:Invoke".to_owned()],
        "cloudwatch:GetMetricData" => vec!["monitoring:GetMetricData".to_owned()],
        _ => vec![action.clone()],
    };
    let actions: Vec<_> = actions.iter().flat_map(own).collect();
    json!({ "Version": "2012-10-17", "Statement": [{ "Effect": "Allow", "Action": actions, "Resource": "*" }] })
}

/// The words of a command's output. Numbers are left out, because they include times.
fn said(output: &Output) -> String {
    let said = text(&output.stdout) + &text(&output.stderr);
    let words = said.replace(|it: char| it.is_ascii_digit(), "");
    words.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The actions that moto does not implement, and those on buckets, which this system does not have.
const UNKNOWN_TO_MOTO: [&str; 8] = [
    "lambda:GetFunctionRecursionConfig",
    "iam:SimulatePrincipalPolicy",
    "cloudwatch:GetMetricData",
    "s3:GetBucketNotification",
    "s3:GetLifecycleConfiguration",
    "s3:GetBucketPublicAccessBlock",
    "s3:GetBucketPolicy",
    "s3:GetEncryptionConfiguration",
];

#[tokio::test]
async fn each_command_needs_the_permissions_of_its_policy_and_no_others() {
    let system = System::start().await;
    // `unused` are actions of the policy that the line does not need, or that moto does not implement.
    for (command, line, unused) in [
        ("doctor", "doctor", UNKNOWN_TO_MOTO.as_slice()),
        // The register is read if there is one, and is not missed.
        ("trace", "trace abcdefab", &["dynamodb:Scan"]),
        (
            "waiting",
            "waiting",
            &[
                "lambda:ListFunctionEventInvokeConfigs",
                "dynamodb:GetItem",
                "dynamodb:Query",
                "logs:FilterLogEvents",
            ],
        ),
        (
            "waiting",
            "waiting --function orders",
            &["dynamodb:GetItem", "dynamodb:Scan", "logs:FilterLogEvents"],
        ),
        (
            "dead-list",
            "dead list --queue dead",
            &["lambda:ListFunctions", "sqs:ChangeMessageVisibility"],
        ),
        ("history", "history", &[]),
        // Without the last permission of the policy, the letter would stay hidden.
        ("dead-list", "dead list", &["sqs:GetQueueUrl"]),
    ] {
        let line: Vec<_> = line.split(' ').collect();
        let all = actions(command);
        let expected = said(&system.run(&line, &for_moto(&["*".to_owned()])).await);
        let output = said(&system.run(&line, &for_moto(&all)).await);
        assert_eq!(output, expected, "{command}");
        for without in all.iter().filter(|it| !unused.contains(&it.as_str())) {
            let others: Vec<_> = all.iter().filter(|it| *it != without).cloned().collect();
            let output = said(&system.run(&line, &for_moto(&others)).await);
            assert_ne!(output, expected, "{command} does not need {without}");
        }
    }
}

#[tokio::test]
async fn commands_that_change_something_may_do_so_with_their_policies() {
    let system = System::start().await;
    for (command, line, part) in [
        ("attach", "attach billing --yes --queue retry", "✓ billing: asynchronous invocations"),
        ("detach", "detach billing --yes --now", "✓ billing: tags"),
        ("attach-rule", "attach --rule links --yes", "✓ target main of rule links: dead-letter"),
        ("detach-rule", "detach --rule links --yes", "✓ target main of rule links: dead-letter"),
        ("attach-schedule", "attach --schedule nightly --yes", "✓ schedule nightly: dead-letter"),
        ("detach-schedule", "detach --schedule nightly --yes", "✓ schedule nightly: dead-letter"),
        ("doctor-fix", "doctor --fix --yes", "✓ aws lambda update-event-source-mapping"),
        ("pause", "pause orders --yes", "✓ orders is paused"),
        ("resume", "resume orders --yes", "✓ orders is resumed"),
        ("waiting-retry-now", "waiting retry-now --yes", "Nothing was changed."),
        ("waiting-cancel", "waiting cancel --all --yes", "Nothing was changed."),
        ("dead-redrive", "dead redrive --yes --to missing", "ResourceNotFoundException"),
        ("dead-purge", "dead purge --all --yes", "✓ letter deleted"),
    ] {
        let line: Vec<_> = line.split(' ').collect();
        let output = said(&system.run(&line, &for_moto(&actions(command))).await);
        assert!(output.contains(part), "{command}: {output}");
        for (role, policy) in
            [("billing-role", "comeback-send-billing"), ("handler-role", "comeback-invoke-billing")]
        {
            let call = system.iam.get_role_policy().role_name(role).policy_name(policy);
            assert_eq!(call.send().await.is_ok(), command == "attach", "{command}: {policy}");
        }
    }
}

#[tokio::test]
async fn an_order_whose_record_cannot_be_written_does_not_begin() {
    let system = System::start().await;
    let all = actions("pause");
    let others: Vec<_> = all.iter().filter(|it| *it != "dynamodb:PutItem").cloned().collect();
    assert_eq!(others.len() + 1, all.len());
    let pause = ["pause", "orders", "--yes"];
    let refused = system.run(&pause, &for_moto(&others)).await;
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    let told = text(&refused.stderr);
    // moto denies it in a form that DynamoDB doesn't have, so the message has no advice.
    for part in ["so nothing was changed", "dynamodb:PutItem on ledger failed"] {
        assert!(told.contains(part), "{part}: {told}");
    }
    let listed = said(&system.run(&["pause"], &for_moto(&all)).await);
    assert!(listed.contains("pauses at handler") && !listed.contains("orders"), "{listed}");
    // Such an order leaves no half of a record either.
    let history = crate::support::json(
        &system.run(&["history", "--json"], &for_moto(&actions("history"))).await,
    );
    assert_eq!(history["orders"], json!([]), "{history}");
}

#[tokio::test]
async fn an_interrupted_attach_reports_its_progress_and_can_continue() {
    let system = System::start().await;
    let attach = ["attach", "billing", "--yes"];
    let all = actions("attach");
    let denied = "lambda:PutFunctionEventInvokeConfig";
    let others: Vec<_> = all.iter().filter(|action| *action != denied).cloned().collect();
    let stopped = system.run(&attach, &for_moto(&others)).await;
    assert_eq!(stopped.status.code(), Some(1), "{stopped:?}");
    let told = text(&stopped.stderr);
    let parts = [denied, "3 of 4 steps were carried out", "comeback detach billing to undo them"];
    assert!(parts.iter().all(|part| told.contains(part)), "{told}");
    let rest = system.run(&attach, &for_moto(&all)).await;
    assert!(rest.status.success(), "{rest:?}");
    let rest = text(&rest.stdout);
    let done: Vec<_> = rest.lines().filter(|line| line.starts_with('✓')).collect();
    assert_eq!(done, ["✓ billing: asynchronous invocations"]);
}
