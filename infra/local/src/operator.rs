//! What people do with a deployed Offset Guard: take checkpoints, ask for rewinds, read what is told, decide on the page.

use std::time::Duration;

use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_credential_types::Credentials;
use aws_sdk_sfn::types::ExecutionStatus;
use serde_json::{Value, json};
use ulid::Ulid;

use crate::{Error, Result, error::Doing, run::until, stack::Stack};
use offset_guard_domain::ids::ExecutionArn;

/// How long a started execution may take where nobody is waited for.
const EXECUTION_LIMIT: Duration = Duration::from_secs(120);
/// How long a function may take to answer: longer than the longest may run.
const INVOKE_LIMIT: Duration = Duration::from_secs(330);

/// Somebody with access to a stack.
#[derive(Debug, Clone)]
pub struct Operator {
    endpoint: String,
    sdk: SdkConfig,
    executions: aws_sdk_sfn::Client,
    state_machine: String,
    http: reqwest::Client,
}

/// A function of the template, by the output that names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Function {
    /// Takes checkpoints.
    Checkpoint,
    /// Judges groups, keeps records, proposes plans.
    Guard,
    /// Plans, observes, verifies.
    Rewind,
    /// Applies.
    RewindApply,
    /// Asks, admits, reports, sweeps.
    ApprovalTask,
    /// Shows the page and takes the decision.
    ApprovalPage,
    /// Takes alerts and operators' requests.
    Webhook,
}

impl Function {
    /// The template's output that holds its name.
    #[must_use]
    pub const fn output(self) -> &'static str {
        match self {
            Self::Checkpoint => "CheckpointFunction",
            Self::Guard => "GuardFunction",
            Self::Rewind => "RewindFunction",
            Self::RewindApply => "RewindApplyFunction",
            Self::ApprovalTask => "ApprovalTaskFunction",
            Self::ApprovalPage => "ApprovalPageFunction",
            Self::Webhook => "WebhookFunction",
        }
    }
}

/// How an execution ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// `SUCCEEDED`, `FAILED`, `ABORTED` or `TIMED_OUT`.
    pub status: String,
    /// The error's name; for a refusal, its code.
    pub error: Option<String>,
    /// Its text.
    pub cause: Option<String>,
    /// The output, where it succeeded.
    pub output: Value,
}

impl Ended {
    /// The code of the report, whichever way the execution ended.
    #[must_use]
    pub fn code(&self) -> &str {
        self.error
            .as_deref()
            .or_else(|| self.output["report"]["code"].as_str())
            .unwrap_or_default()
    }
}

/// What a function answered: its result, or its error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Invoked {
    /// What it returned.
    Returned(Value),
    /// What it failed with.
    Failed {
        /// `errorType`.
        error: String,
        /// `errorMessage`.
        message: String,
    },
}

/// A running or ended execution of the recovery state machine.
#[derive(Debug, Clone)]
pub struct Execution {
    operator: Operator,
    /// Its ARN.
    pub arn: ExecutionArn,
}

impl Operator {
    /// Somebody with access to `stack`.
    ///
    /// # Errors
    /// If the template has no state machine.
    pub fn of(stack: &Stack) -> Result<Self> {
        let environment = stack.aws_env();
        let value = |name: &str| environment.get(name).cloned().unwrap_or_default();
        let credentials = Credentials::new(
            value("AWS_ACCESS_KEY_ID"),
            value("AWS_SECRET_ACCESS_KEY"),
            None,
            None,
            "local",
        );
        let sdk = SdkConfig::builder()
            .behavior_version(BehaviorVersion::latest())
            .region(Region::new(value("AWS_REGION")))
            .endpoint_url(stack.aws_endpoint())
            .credentials_provider(
                aws_credential_types::provider::SharedCredentialsProvider::new(credentials),
            )
            .http_client(aws_smithy_http_client::Builder::new().build_http())
            .sleep_impl(aws_smithy_async::rt::sleep::SharedAsyncSleep::new(
                aws_smithy_async::rt::sleep::TokioSleep::new(),
            ))
            .build();
        Ok(Self {
            endpoint: stack.aws_endpoint().to_owned(),
            executions: aws_sdk_sfn::Client::new(&sdk),
            sdk,
            state_machine: stack.output("StateMachineArn")?.to_owned(),
            http: reqwest::Client::builder()
                .redirect(reqwest::redirect::Policy::none())
                .no_proxy()
                .build()
                .doing(|| "build an HTTP client".to_owned())?,
        })
    }

    /// The ARN of the state machine.
    #[must_use]
    pub fn state_machine(&self) -> &str {
        &self.state_machine
    }

    /// The AWS SDK's configuration for the local AWS.
    #[must_use]
    pub fn sdk(&self) -> &SdkConfig {
        &self.sdk
    }

    /// Invokes a function and waits for its answer.
    ///
    /// # Errors
    /// If it cannot be invoked. A function that fails is an answer.
    pub async fn invoke(
        &self,
        stack: &Stack,
        function: Function,
        event: &Value,
    ) -> Result<Invoked> {
        let name = stack.output(function.output())?;
        let url = format!("{}/2015-03-31/functions/{name}/invocations", self.endpoint);
        let doing = || format!("invoke {name}");
        let answer = self
            .http
            .post(url)
            .timeout(INVOKE_LIMIT)
            .json(event)
            .send()
            .await
            .doing(doing)?;
        let failed = answer.headers().contains_key("x-amz-function-error");
        let body: Value = answer.json().await.doing(doing)?;
        let text = |field: &str| body[field].as_str().unwrap_or_default().to_owned();
        Ok(if failed {
            Invoked::Failed {
                error: text("errorType"),
                message: text("errorMessage"),
            }
        } else {
            Invoked::Returned(body)
        })
    }

    /// Starts a recovery for `request`.
    ///
    /// # Errors
    /// If it cannot be started.
    pub async fn request(&self, request: Value) -> Result<Execution> {
        self.start(json!({ "request": request })).await
    }

    /// Starts an execution of the recovery state machine with any input.
    ///
    /// # Errors
    /// If it cannot be started.
    pub async fn start(&self, input: Value) -> Result<Execution> {
        let started = self
            .executions
            .start_execution()
            .state_machine_arn(&self.state_machine)
            .name(Ulid::generate().to_string())
            .input(input.to_string())
            .send()
            .await;
        let started = started.map_err(|error| refused("StartExecution", &error))?;
        Ok(self.execution(ExecutionArn(started.execution_arn)))
    }

    /// An execution of the recovery state machine by its name.
    #[must_use]
    pub fn named(&self, name: &str) -> Execution {
        let arn = ExecutionArn::child(&self.state_machine, name);
        self.execution(arn.unwrap_or_else(|| name.into()))
    }

    /// An execution by its ARN.
    #[must_use]
    pub fn execution(&self, arn: ExecutionArn) -> Execution {
        Execution {
            operator: self.clone(),
            arn,
        }
    }

    /// Reads a page as a browser would.
    ///
    /// # Errors
    /// If there is no answer.
    pub async fn get(&self, url: &str) -> Result<(u16, String)> {
        let answer = self
            .to_loopback(url)?
            .get(url)
            .send()
            .await
            .doing(|| "get the approval page".to_owned())?;
        let status = answer.status().as_u16();
        let text = answer.text().await;
        Ok((status, text.doing(|| "read the approval page".to_owned())?))
    }

    /// Approves through the page's own form: reads the page, takes the form's token, posts it as a browser would.
    ///
    /// # Errors
    /// If the page shows no form, or does not take it.
    pub async fn approve(&self, url: &str, group: &str) -> Result<()> {
        let (_, page) = self.get(url).await?;
        let token = form_token(&page, "approve").ok_or_else(|| Error::Unexpected {
            from: "the approval page".to_owned(),
            answer: "there is no form to approve".to_owned(),
        })?;
        let form = [("decision", "approve"), ("token", &token), ("group", group)];
        let (status, _) = self.post(url, &form, true).await?;
        if status == 303 {
            return Ok(());
        }
        Err(Error::Unexpected {
            from: "the approval page".to_owned(),
            answer: format!("status {status} to the form"),
        })
    }

    /// Posts a form to a page, with the `Origin` that a browser would send or without.
    ///
    /// # Errors
    /// If there is no answer.
    pub async fn post(
        &self,
        url: &str,
        form: &[(&str, &str)],
        with_origin: bool,
    ) -> Result<(u16, String)> {
        let mut body = reqwest::Url::parse("form:?").map_err(|_| Error::Unexpected {
            from: "the URL parser".to_owned(),
            answer: "a form is no query".to_owned(),
        })?;
        body.query_pairs_mut().extend_pairs(form);
        let parsed = reqwest::Url::parse(url).map_err(|_| not_a_url(url))?;
        let mut request = self
            .to_loopback(url)?
            .post(url)
            .header("content-type", "application/x-www-form-urlencoded")
            .body(body.query().unwrap_or_default().to_owned());
        if with_origin {
            request = request.header("origin", parsed.origin().ascii_serialization());
        }
        let answer = request
            .send()
            .await
            .doing(|| "post to the approval page".to_owned())?;
        let status = answer.status().as_u16();
        let text = answer.text().await;
        Ok((status, text.doing(|| "read the approval page".to_owned())?))
    }

    /// A client for which the page's name is loopback: browsers know that of every `*.localhost`, resolvers need not.
    fn to_loopback(&self, url: &str) -> Result<reqwest::Client> {
        let parsed = reqwest::Url::parse(url).map_err(|_| not_a_url(url))?;
        let host = parsed.host_str().ok_or_else(|| not_a_url(url))?;
        let port = parsed.port_or_known_default().unwrap_or(80);
        reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .resolve(host, ([127, 0, 0, 1], port).into())
            .build()
            .doing(|| "build an HTTP client".to_owned())
    }
}

impl Execution {
    /// Waits until it ended.
    ///
    /// # Errors
    /// If it takes longer than `limit`.
    pub async fn ended_within(&self, limit: Duration) -> Result<Ended> {
        until("an execution to end", limit, async || self.ended().await).await
    }

    /// Waits until it ended; for executions that wait for nobody.
    ///
    /// # Errors
    /// If it takes too long.
    pub async fn end(&self) -> Result<Ended> {
        self.ended_within(EXECUTION_LIMIT).await
    }

    /// How it ended, or `None` while it runs.
    ///
    /// # Errors
    /// If there is no such execution.
    pub async fn ended(&self) -> Result<Option<Ended>> {
        let call = self.operator.executions.describe_execution();
        let found = call.execution_arn(&self.arn.0).send().await;
        let found = found.map_err(|error| refused("DescribeExecution", &error))?;
        if *found.status() == ExecutionStatus::Running {
            return Ok(None);
        }
        let output = found.output().map(serde_json::from_str);
        Ok(Some(Ended {
            status: found.status().as_str().to_owned(),
            error: found.error().map(str::to_owned),
            cause: found.cause().map(str::to_owned),
            output: output
                .and_then(std::result::Result::ok)
                .unwrap_or(Value::Null),
        }))
    }

    /// Stops it from outside.
    ///
    /// # Errors
    /// If it cannot be stopped.
    pub async fn abort(&self) -> Result<()> {
        let call = self.operator.executions.stop_execution();
        let stopped = call.execution_arn(&self.arn.0).send().await;
        stopped.map_err(|error| refused("StopExecution", &error))?;
        Ok(())
    }

    /// The link to the approval page, once it was told.
    ///
    /// # Errors
    /// If none is told within `limit`.
    pub async fn link(&self, stack: &Stack, group: &str, limit: Duration) -> Result<String> {
        let known = std::cell::Cell::new(None);
        let found = stack.slack().until(limit, |message| {
            let text = text_of(message);
            let link = link_in(&text).filter(|_| text.contains(group));
            if let Some(link) = link {
                known.set(Some(link.to_owned()));
                return true;
            }
            false
        });
        found.await?;
        known.into_inner().ok_or_else(|| Error::Unexpected {
            from: "Slack".to_owned(),
            answer: "a message without a link".to_owned(),
        })
    }
}

/// A message's own text, as its sections hold it.
#[must_use]
pub fn text_of(message: &Value) -> String {
    let blocks = message["blocks"].as_array();
    // A section has one text, a context has elements.
    let texts: Vec<_> = blocks
        .into_iter()
        .flatten()
        .flat_map(|block| {
            let elements = block["elements"].as_array().into_iter().flatten();
            elements.chain([&block["text"]])
        })
        .filter_map(|text| text["text"].as_str())
        .collect();
    texts.join("\n")
}

/// The link to an approval page in a message, which Slack writes as `<url|text>`. It stands behind the time until which
/// to decide; another place in the text may hold what a stranger wrote.
#[must_use]
pub fn link_in(text: &str) -> Option<&str> {
    const BEFORE: &str = " UTC: <";
    let start = text.find(&format!("{BEFORE}http"))? + BEFORE.len();
    let end = text[start..].find('|')?;
    Some(&text[start..start + end])
}

/// The hidden token of the form that makes `decision`.
#[must_use]
pub fn form_token(page: &str, decision: &str) -> Option<String> {
    let form = page
        .split("<form")
        .find(|form| form.contains(&format!("value=\"{decision}\"")))?;
    let field = form.split("name=\"token\"").nth(1)?;
    let value = field.split("value=\"").nth(1)?;
    Some(value.split('"').next()?.to_owned())
}

fn not_a_url(url: &str) -> Error {
    Error::Unexpected {
        from: "Slack".to_owned(),
        answer: format!("a link that is no URL ({} characters)", url.len()),
    }
}

fn refused(operation: &str, error: &dyn std::error::Error) -> Error {
    let mut answer = error.to_string();
    let mut cause = error.source();
    while let Some(source) = cause {
        answer.push_str(&format!(": {source}"));
        cause = source.source();
    }
    Error::Unexpected {
        from: operation.to_owned(),
        answer,
    }
}
