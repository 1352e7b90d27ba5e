//! A local AWS: it runs the function binaries as processes behind its own Step Functions, DynamoDB,
//! API Gateway and the rest.

use std::{collections::BTreeMap, env, fs, process::Command, time::Duration};

use crate::{
    Error, Result,
    error::Doing,
    run::{Process, Run, free_ports, until},
    workdir::python,
};

/// The region that everything local is in.
pub const REGION: &str = "eu-west-1";

const START_LIMIT: Duration = Duration::from_secs(60);
/// How often another port is tried when somebody else took one between its choice and its use.
const START_ATTEMPTS: usize = 3;

/// A running local AWS. Dropped, it is killed, with the functions that it runs.
#[derive(Debug)]
pub struct LocalAws {
    port: u16,
    process: Process,
}

impl LocalAws {
    /// Starts one, with further environment variables for itself and the functions that it runs, and
    /// waits until it answers.
    ///
    /// # Errors
    /// If it cannot be fetched or started; one that died says the end of its log.
    pub async fn start(run: &Run, environment: &BTreeMap<String, String>) -> Result<Self> {
        for _ in 1..START_ATTEMPTS {
            match Self::start_on(run, environment, free_ports::<1>()?[0]).await {
                Err(Error::Died { log, .. }) if log.contains("already in use") => {}
                other => return other,
            }
        }
        Self::start_on(run, environment, free_ports::<1>()?[0]).await
    }

    async fn start_on(
        run: &Run,
        environment: &BTreeMap<String, String>,
        port: u16,
    ) -> Result<Self> {
        let name = format!("aws-{port}");
        let files = run.dir().join(&name);
        fs::create_dir_all(&files).doing(|| format!("create {}", files.display()))?;
        let mut command = Command::new("/usr/bin/env");
        // Functions inherit what it has: nothing of this process may leak into them.
        command.arg("-i");
        let own = [
            ("PATH", env::var("PATH").unwrap_or_default()),
            ("HOME", files.display().to_string()),
            ("TMPDIR", files.display().to_string()),
            // Its default is every interface.
            ("BIND_HOST", "127.0.0.1".to_owned()),
            ("GATEWAY_PORT", port.to_string()),
            ("MINISTACK_REGION", REGION.to_owned()),
            ("IOT_MTLS_ENABLED", "0".to_owned()),
        ];
        let own = own.map(|(key, value)| (key.to_owned(), value));
        for (key, value) in own
            .into_iter()
            .chain(aws_environment(&endpoint(port)))
            .chain(environment.clone())
        {
            command.arg(format!("{key}={value}"));
        }
        command.arg(python().await?).args(["-m", "ministack"]);
        let mut process = run.spawn(&name, &command)?;
        let health = format!("{}/_ministack/health", endpoint(port));
        let client = loopback_client()?;
        until("the local AWS to serve", START_LIMIT, async || {
            process.check_alive()?;
            let answer = client.get(&health).send().await;
            Ok(answer
                .is_ok_and(|answer| answer.status().is_success())
                .then_some(()))
        })
        .await?;
        Ok(Self { port, process })
    }

    /// Where it serves every AWS API.
    pub fn endpoint(&self) -> String {
        endpoint(self.port)
    }

    /// The environment of a client.
    pub fn env(&self) -> BTreeMap<String, String> {
        aws_environment(&self.endpoint())
    }

    /// Stops it, and the functions that it runs.
    ///
    /// # Errors
    /// If the system cannot end it.
    pub async fn stop(mut self) -> Result<()> {
        self.process.stop().await
    }

    /// Leaves it to the run's watchdog.
    pub(crate) fn leave(self) {
        self.process.leave();
    }
}

fn endpoint(port: u16) -> String {
    format!("http://127.0.0.1:{port}")
}

/// The variables that lead an AWS client to `endpoint`.
pub(crate) fn aws_environment(endpoint: &str) -> BTreeMap<String, String> {
    [
        ("AWS_ENDPOINT_URL", endpoint),
        ("AWS_REGION", REGION),
        ("AWS_DEFAULT_REGION", REGION),
        ("AWS_ACCESS_KEY_ID", "test"),
        ("AWS_SECRET_ACCESS_KEY", "test"),
        // Else a client may ask the machine's metadata address for a role.
        ("AWS_EC2_METADATA_DISABLED", "true"),
    ]
    .map(|(key, value)| (key.to_owned(), value.to_owned()))
    .into()
}

/// An HTTP client that asks no proxy for an address on loopback.
pub(crate) fn loopback_client() -> Result<reqwest::Client> {
    reqwest::Client::builder()
        .no_proxy()
        .timeout(Duration::from_secs(5))
        .build()
        .doing(|| "create an HTTP client".to_owned())
}
