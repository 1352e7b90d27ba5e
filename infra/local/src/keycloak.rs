//! Keycloak: a certified OpenID Connect provider, as people have one at work.

use std::{fs, path::PathBuf, process::Command, time::Duration};

use crate::{
    Result,
    aws::loopback_client,
    error::Doing,
    run::{Process, Run, free_ports, until},
    workdir::{blocking, install, maven, read, resource, run_tool},
};

const VERSION: &str = "26.4.7";
/// Ten times what it needs on a machine that does nothing else.
const START_LIMIT: Duration = Duration::from_secs(180);

/// The groups of its realm: `mara` and `dana` are in the first, `otto` is in the second.
pub const APPROVERS: &str = "offset-approvers";
/// See [`APPROVERS`].
pub const BYSTANDERS: &str = "bystanders";
/// The client that the approval page is.
pub const PAGE_CLIENT: &str = "offset-guard-page";
/// That client's secret.
pub const PAGE_SECRET: &str = "the pages/own+secret:with=signs";
/// The client that people ask for access tokens with.
pub const API_CLIENT: &str = "offset-guard-cli";
/// The client that a program has for itself; its service account is in [`APPROVERS`] too.
pub const MACHINE_CLIENT: &str = "offset-guard-ci";
/// That client's secret.
pub const MACHINE_SECRET: &str = "the-programs-own-secret";
/// The audience of those tokens.
pub const API_AUDIENCE: &str = "offset-guard-api";

/// A running Keycloak with the realm of `keycloak/realm.json`. Dropped, it is killed.
#[derive(Debug)]
pub struct Keycloak {
    port: u16,
    process: Process,
    _run: Run,
}

impl Keycloak {
    /// Starts one. It serves after [`Keycloak::ready`]; its issuer's name is known at once.
    ///
    /// # Errors
    /// If it cannot be fetched or started.
    pub async fn start() -> Result<Self> {
        let home = home().await?;
        let run = Run::open(Duration::ZERO)?;
        let [port, management] = free_ports::<2>()?;
        let mut command = kc(&home);
        command
            .args(["start", "--optimized", "--import-realm"])
            .args(["--http-enabled=true", "--http-host=127.0.0.1"])
            .arg(format!("--http-port={port}"))
            .arg(format!("--hostname=http://127.0.0.1:{port}"))
            .arg(format!("--http-management-port={management}"));
        let process = run.spawn("keycloak", &command)?;
        Ok(Self {
            port,
            process,
            _run: run,
        })
    }

    /// The issuer's identifier.
    pub fn issuer(&self) -> String {
        format!("http://127.0.0.1:{}/realms/guard", self.port)
    }

    /// Waits until people can sign in.
    ///
    /// # Errors
    /// If it does not come up; one that died says the end of its log.
    pub async fn ready(&mut self) -> Result<()> {
        let address = format!("{}/.well-known/openid-configuration", self.issuer());
        let client = loopback_client()?;
        until("Keycloak to serve", START_LIMIT, async || {
            self.process.check_alive()?;
            let answer = client.get(&address).send().await;
            Ok(answer
                .is_ok_and(|answer| answer.status().is_success())
                .then_some(()))
        })
        .await
    }

    /// Stops it and waits for it.
    ///
    /// # Errors
    /// If the system cannot end it.
    pub async fn stop(mut self) -> Result<()> {
        self.process.stop().await
    }
}

/// The password of a person in the realm.
pub fn password(person: &str) -> String {
    format!("password of {person}")
}

/// Its folder, fetched and made ready on first use.
async fn home() -> Result<PathBuf> {
    let realm = read(&resource("keycloak/realm.json"))?;
    let made_from = format!("{VERSION}\n{realm}");
    let notice = format!("Fetching Keycloak {VERSION} (159 MB) ...");
    let dir = install("keycloak", made_from, &notice, async move |dir: PathBuf| {
        let mut maven = maven(&resource("keycloak/pom.xml"));
        maven
            .arg("dependency:unpack")
            .arg(format!(
                "-Dartifact=org.keycloak:keycloak-quarkus-dist:{VERSION}:zip"
            ))
            .arg(format!("-DoutputDirectory={}", dir.display()));
        let home = home_in(&dir);
        let import = home.join("data/import");
        blocking(move || {
            run_tool(&mut maven)?;
            fs::create_dir_all(&import).doing(|| format!("create {}", import.display()))?;
            let file = import.join("guard-realm.json");
            fs::write(&file, realm).doing(|| format!("write {}", file.display()))?;
            let mut build = kc(&home);
            // In memory: every start begins with the realm as it stands here.
            run_tool(build.args(["build", "--db=dev-mem"]))
        })
        .await
    })
    .await?;
    Ok(home_in(&dir))
}

fn home_in(dir: &std::path::Path) -> PathBuf {
    dir.join(format!("keycloak-{VERSION}"))
}

fn kc(home: &std::path::Path) -> Command {
    let mut command = Command::new("bash");
    command
        .arg(home.join("bin/kc.sh"))
        .env("JAVA_OPTS_KC_HEAP", "-Xms64m -Xmx512m")
        // No second compiler, for a program that lives for a minute or two.
        .env("JAVA_OPTS_APPEND", "-XX:TieredStopAtLevel=1");
    command
}
