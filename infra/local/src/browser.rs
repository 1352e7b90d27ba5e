//! A real headless Chromium.

use std::{
    fs,
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

pub use fantoccini::key::Key;
use fantoccini::{ClientBuilder, Locator, wd::WebDriverCompatibleCommand};
use hyper_util::client::legacy::connect::HttpConnector;
use offset_guard_preflight::Need;
use reqwest::Method;
use serde_json::{Value, json};
use url::{ParseError, Url};

use crate::{
    Error, Result,
    error::Doing,
    run::{Process, Run, until},
};

const START_LIMIT: Duration = Duration::from_secs(30);
/// How often chromedriver is started until it serves.
const DRIVER_TRIES: u32 = 5;
/// What chromedriver prints before its port.
const SERVING: &str = "started successfully on port ";

/// A browser window. Dropped, it is killed.
#[derive(Debug)]
pub struct Browser {
    client: fantoccini::Client,
    driver: Process,
    _run: Run,
}

impl Browser {
    /// Opens a browser with an empty profile.
    ///
    /// # Errors
    /// If Chromium or its driver is missing or does not start.
    pub async fn start() -> Result<Self> {
        offset_guard_preflight::check(&[Need::Browser])?;
        let run = Run::open(Duration::ZERO)?;
        let profile = run.dir().join("profile");
        fs::create_dir(&profile).doing(|| format!("create {}", profile.display()))?;
        let (driver, port) = start_driver(&run).await?;
        let options = json!({ "goog:chromeOptions": { "args": [
            "--headless",
            // Chromium refuses to run as root otherwise; it sees nothing but pages of this machine.
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--no-proxy-server",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            format!("--user-data-dir={}", profile.display()),
        ] } });
        let mut builder = ClientBuilder::new(HttpConnector::new());
        if let Value::Object(capabilities) = options {
            builder.capabilities(capabilities);
        }
        let client = builder
            .connect(&format!("http://127.0.0.1:{port}"))
            .await
            .map_err(Box::new)?;
        Ok(Self {
            client,
            driver,
            _run: run,
        })
    }

    /// Opens a page.
    ///
    /// # Errors
    /// If it cannot be loaded.
    pub async fn goto(&self, url: &str) -> Result<()> {
        self.client
            .goto(url)
            .await
            .doing(|| "open the page".to_owned())
    }

    /// Types `text` into the field at a CSS selector.
    ///
    /// # Errors
    /// If there is no such field.
    pub async fn fill(&self, selector: &str, text: &str) -> Result<()> {
        let doing = || format!("type into {selector}");
        let field = self
            .client
            .find(Locator::Css(selector))
            .await
            .doing(doing)?;
        field.clear().await.doing(doing)?;
        field.send_keys(text).await.doing(doing)
    }

    /// Clicks what is at a CSS selector.
    ///
    /// # Errors
    /// If there is no such thing.
    pub async fn click(&self, selector: &str) -> Result<()> {
        let doing = || format!("click {selector}");
        let element = self
            .client
            .find(Locator::Css(selector))
            .await
            .doing(doing)?;
        element.click().await.doing(doing)
    }

    /// The text that a person sees at a CSS selector.
    ///
    /// # Errors
    /// If there is no such thing.
    pub async fn text(&self, selector: &str) -> Result<String> {
        let doing = || format!("read {selector}");
        let element = self
            .client
            .find(Locator::Css(selector))
            .await
            .doing(doing)?;
        element.text().await.doing(doing)
    }

    /// Waits until the text at a CSS selector contains `wanted`, across page loads.
    ///
    /// # Errors
    /// If that takes longer than `limit`; says what stood there instead.
    pub async fn until_text(
        &self,
        selector: &str,
        wanted: &str,
        limit: Duration,
    ) -> Result<String> {
        let start = Instant::now();
        loop {
            let text = self.text(selector).await.unwrap_or_default();
            if text.contains(wanted) {
                return Ok(text);
            }
            if start.elapsed() > limit {
                return Err(Error::Unexpected {
                    from: format!("the page, waited on for {wanted:?},"),
                    answer: text,
                });
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Shows pages as a screen of this many CSS pixels does, of somebody who prefers dark pages or light ones.
    ///
    /// A window of its own cannot be as narrow as a phone.
    ///
    /// # Errors
    /// If the browser refuses.
    pub async fn emulate(&self, width: u32, height: u32, dark: bool) -> Result<()> {
        let scheme = if dark { "dark" } else { "light" };
        let screen = json!({
            "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600,
        });
        let media = json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] });
        for (method, params) in [
            ("Emulation.setDeviceMetricsOverride", screen),
            ("Emulation.setEmulatedMedia", media),
        ] {
            let sent = self.client.issue_cmd(DevTools { method, params }).await;
            sent.doing(|| "emulate a screen".to_owned())?;
        }
        Ok(())
    }

    /// Writes what the window shows as a PNG.
    ///
    /// # Errors
    /// If it cannot be taken or written.
    pub async fn screenshot(&self, path: &Path) -> Result<()> {
        let png = self
            .client
            .screenshot()
            .await
            .doing(|| "take a screenshot".to_owned())?;
        fs::write(path, png).doing(|| format!("write {}", path.display()))
    }

    /// Whether a dialog box (`alert` and its like) stands open, which only a script can open.
    ///
    /// # Errors
    /// If the browser does not say.
    pub async fn has_dialog(&self) -> Result<bool> {
        match self.client.get_alert_text().await {
            Ok(_) => Ok(true),
            Err(error) if error.is_no_such_alert() => Ok(false),
            Err(error) => Err(error).doing(|| "look for a dialog box".to_owned()),
        }
    }

    /// WebDriver itself, for what has no method here.
    pub fn webdriver(&self) -> &fantoccini::Client {
        &self.client
    }

    /// Closes the browser.
    ///
    /// # Errors
    /// If it does not end.
    pub async fn stop(mut self) -> Result<()> {
        self.client
            .clone()
            .close()
            .await
            .doing(|| "close".to_owned())?;
        self.driver.stop().await
    }
}

/// A command of Chromium's DevTools protocol, which chromedriver passes on.
#[derive(Debug)]
struct DevTools {
    method: &'static str,
    params: Value,
}

impl WebDriverCompatibleCommand for DevTools {
    fn endpoint(&self, base: &Url, session: Option<&str>) -> std::result::Result<Url, ParseError> {
        let session = session.unwrap_or_default();
        base.join(&format!("session/{session}/goog/cdp/execute"))
    }

    fn method_and_body(&self, _: &Url) -> (Method, Option<String>) {
        let body = json!({ "cmd": self.method, "params": self.params });
        (Method::POST, Some(body.to_string()))
    }
}

/// Starts chromedriver and returns its port.
///
/// chromedriver takes a port that is free in IPv4, and ends with "Address already in use" if another program has the same
/// port in IPv6. Each try takes another port.
async fn start_driver(run: &Run) -> Result<(Process, u16)> {
    let mut tries = 1;
    loop {
        match try_driver(run).await {
            Err(Error::Died { .. }) if tries < DRIVER_TRIES => tries += 1,
            started => return started,
        }
    }
}

async fn try_driver(run: &Run) -> Result<(Process, u16)> {
    let stdout = run.dir().join("chromedriver.out");
    let mut command = Command::new("chromedriver");
    command.arg("--port=0").env("TMPDIR", run.dir());
    let mut driver = run.spawn_with_stdout("chromedriver", &command, &stdout)?;
    let port = until("chromedriver to serve", START_LIMIT, async || {
        driver.check_alive()?;
        let text = fs::read_to_string(&stdout).doing(|| format!("read {}", stdout.display()))?;
        Ok(find_port(&text))
    })
    .await?;
    Ok((driver, port))
}

fn find_port(text: &str) -> Option<u16> {
    let (_, after) = text.split_once(SERVING)?;
    after.split_once('.')?.0.parse().ok()
}
