//! Prometheus Alertmanager itself.

use std::{fs, process::Command, time::Duration};

use offset_guard_preflight::Need;
use serde_json::Value;

use crate::{
    Result,
    aws::loopback_client,
    error::Doing,
    run::{Process, Run, free_ports, until},
};

const START_LIMIT: Duration = Duration::from_secs(30);

/// A running Alertmanager that knows of no other. Dropped, it is killed.
#[derive(Debug)]
pub struct Alertmanager {
    url: String,
    http: reqwest::Client,
    process: Process,
    _run: Run,
}

impl Alertmanager {
    /// Starts one with this configuration, in YAML.
    ///
    /// # Errors
    /// If it is missing or does not start.
    pub async fn start(config: &str) -> Result<Self> {
        offset_guard_preflight::check(&[Need::Alertmanager])?;
        let run = Run::open(Duration::ZERO)?;
        let file = run.dir().join("alertmanager.yml");
        fs::write(&file, config).doing(|| format!("write {}", file.display()))?;
        let port = free_ports::<1>()?[0];
        let mut command = Command::new("prometheus-alertmanager");
        command
            .arg(format!("--config.file={}", file.display()))
            .arg(format!(
                "--storage.path={}",
                run.dir().join("data").display()
            ))
            .arg(format!("--web.listen-address=127.0.0.1:{port}"))
            // Alone: two of them then tell the same alert twice, as two do that have lost each other.
            .arg("--cluster.listen-address=");
        let mut process = run.spawn("alertmanager", &command)?;
        let url = format!("http://127.0.0.1:{port}");
        let http = loopback_client()?;
        let ready = format!("{url}/-/ready");
        until("Alertmanager to serve", START_LIMIT, async || {
            process.check_alive()?;
            let answer = http.get(&ready).send().await;
            Ok(answer
                .is_ok_and(|answer| answer.status().is_success())
                .then_some(()))
        })
        .await?;
        Ok(Self {
            url,
            http,
            process,
            _run: run,
        })
    }

    /// Gives it alerts, as Prometheus does (`POST /api/v2/alerts`).
    ///
    /// # Errors
    /// If it does not take them.
    pub async fn post(&self, alerts: &Value) -> Result<()> {
        let doing = || "post alerts".to_owned();
        let url = format!("{}/api/v2/alerts", self.url);
        let answer = self.http.post(url).json(alerts).send().await.doing(doing)?;
        answer.error_for_status().doing(doing)?;
        Ok(())
    }

    /// What it counts of itself, as one text.
    ///
    /// # Errors
    /// If it does not answer.
    pub async fn metrics(&self) -> Result<String> {
        let doing = || "read Alertmanager's metrics".to_owned();
        let url = format!("{}/metrics", self.url);
        let answer = self.http.get(url).send().await.doing(doing)?;
        answer.text().await.doing(doing)
    }

    /// Stops it.
    ///
    /// # Errors
    /// If the system cannot end it.
    pub async fn stop(mut self) -> Result<()> {
        self.process.stop().await
    }
}
