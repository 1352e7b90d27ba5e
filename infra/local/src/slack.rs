//! A stand-in for Slack's incoming webhook: it stores every message and answers as it is told.

use std::{
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use serde_json::Value;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

use crate::{
    Result,
    error::Doing,
    run::{Process, Run, until},
};

/// Room for the head of a request.
const HEAD_LIMIT: usize = 16 * 1024;
/// Slack refuses longer messages too.
const BODY_LIMIT: usize = 1024 * 1024;

/// How the sink answers from now on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Behaviour {
    /// Stores the message and answers 200.
    #[default]
    Accept,
    /// Answers 500 and stores nothing.
    Fail,
    /// Never answers, and stores nothing.
    Hang,
}

impl Behaviour {
    const fn name(self) -> &'static str {
        match self {
            Self::Accept => "accept",
            Self::Fail => "fail",
            Self::Hang => "hang",
        }
    }
}

/// The sink as its users see it, in whichever process they are.
#[derive(Debug, Clone)]
pub struct Sink {
    files: Files,
    url: String,
}

/// What the sink's process and its users share.
#[derive(Debug, Clone)]
struct Files {
    dir: PathBuf,
}

impl Files {
    fn messages(&self) -> PathBuf {
        self.dir.join("messages.jsonl")
    }

    fn behaviour(&self) -> PathBuf {
        self.dir.join("behaviour")
    }

    fn url(&self) -> PathBuf {
        self.dir.join("url")
    }
}

/// The process of a sink. Dropped, it is killed.
#[derive(Debug)]
pub(crate) struct SinkProcess(Process);

impl SinkProcess {
    pub(crate) async fn stop(mut self) -> Result<()> {
        self.0.stop().await
    }

    pub(crate) fn leave(self) {
        self.0.leave();
    }
}

impl Sink {
    /// Starts `program`, the `slack-sink` binary of this crate, and waits until it serves.
    pub(crate) async fn start(run: &Run, program: &Path) -> Result<(Self, SinkProcess)> {
        let files = Files {
            dir: run.dir().join("slack"),
        };
        fs::create_dir_all(&files.dir).doing(|| format!("create {}", files.dir.display()))?;
        let mut command = Command::new(program);
        command.arg(&files.dir);
        let mut process = run.spawn("slack-sink", &command)?;
        let url = until(
            "the Slack sink to serve",
            Duration::from_secs(10),
            async || {
                process.check_alive()?;
                Ok(fs::read_to_string(files.url()).ok())
            },
        )
        .await?;
        Ok((Self { files, url }, SinkProcess(process)))
    }

    /// The sink of a run that another process started.
    pub(crate) fn of(run: &Run) -> Result<Self> {
        let files = Files {
            dir: run.dir().join("slack"),
        };
        let url = crate::workdir::read(&files.url())?;
        Ok(Self { files, url })
    }

    /// Where messages are posted.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// All messages so far, in the order in which they came.
    ///
    /// # Errors
    /// If they cannot be read.
    pub fn messages(&self) -> Result<Vec<Value>> {
        let path = self.files.messages();
        let text = match fs::read_to_string(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            other => other.doing(|| format!("read {}", path.display()))?,
        };
        text.lines()
            .map(serde_json::from_str)
            .collect::<std::result::Result<_, _>>()
            .map_err(io::Error::other)
            .doing(|| format!("read {}", path.display()))
    }

    /// Waits for a message that `matches`.
    ///
    /// # Errors
    /// If none comes within `limit`.
    pub async fn until(&self, limit: Duration, matches: impl Fn(&Value) -> bool) -> Result<Value> {
        until("a Slack message", limit, async || {
            Ok(self
                .messages()?
                .into_iter()
                .find(|message| matches(message)))
        })
        .await
    }

    /// Makes it answer otherwise: to everybody, so only in a stack of one's own.
    ///
    /// # Errors
    /// If that cannot be written down.
    pub fn behave(&self, behaviour: Behaviour) -> Result<()> {
        let path = self.files.behaviour();
        fs::write(&path, behaviour.name()).doing(|| format!("write {}", path.display()))
    }
}

/// Serves until the process ends, with its files in `dir`: what the `slack-sink` binary does.
///
/// # Errors
/// If it cannot listen.
pub async fn serve(dir: &Path) -> Result<()> {
    let files = Files {
        dir: dir.to_owned(),
    };
    let listener = TcpListener::bind(("127.0.0.1", 0))
        .await
        .doing(|| "listen".to_owned())?;
    let address = listener.local_addr().doing(|| "listen".to_owned())?;
    // Renamed into place, so that nobody reads half of it.
    let url = files.url();
    let unfinished = url.with_extension("unfinished");
    fs::write(&unfinished, format!("http://{address}/services/local"))
        .doing(|| format!("write {}", url.display()))?;
    fs::rename(&unfinished, &url).doing(|| format!("write {}", url.display()))?;
    loop {
        let (stream, _) = listener
            .accept()
            .await
            .doing(|| "accept a connection".to_owned())?;
        let files = files.clone();
        // A client that breaks off or talks nonsense ends its own connection alone.
        tokio::spawn(async move { answer(stream, &files).await });
    }
}

/// Answers one request and closes the connection.
async fn answer(mut stream: TcpStream, files: &Files) -> io::Result<()> {
    let Some(body) = read_body(&mut stream).await? else {
        return respond(&mut stream, "400 Bad Request", "invalid_payload").await;
    };
    match fs::read_to_string(files.behaviour())
        .unwrap_or_default()
        .as_str()
    {
        "fail" => respond(&mut stream, "500 Internal Server Error", "rollup_error").await,
        "hang" => std::future::pending().await,
        _ => match serde_json::from_slice::<Value>(&body) {
            Ok(message) if !fits(&message) => {
                respond(&mut stream, "400 Bad Request", "invalid_blocks").await
            }
            Ok(message) => {
                let mut file = fs::File::options()
                    .create(true)
                    .append(true)
                    .open(files.messages())?;
                // One write, so that lines of two messages never mix.
                file.write_all(format!("{message}\n").as_bytes())?;
                respond(&mut stream, "200 OK", "ok").await
            }
            Err(_) => respond(&mut stream, "400 Bad Request", "invalid_payload").await,
        },
    }
}

/// Whether a message keeps Slack's limits: 50 blocks, 3,000 characters a text (150 a header), and no text that is empty.
fn fits(message: &Value) -> bool {
    let blocks = message["blocks"].as_array().map_or(&[][..], Vec::as_slice);
    let texts = blocks.iter().flat_map(|block| {
        let elements = block["elements"].as_array().into_iter().flatten();
        elements.chain(block.get("text"))
    });
    let fit = |text: &Value| {
        let text = text["text"].as_str().unwrap_or_default();
        (1..=3_000).contains(&text.chars().count())
    };
    let header_fits = |block: &Value| {
        let text = block["text"]["text"].as_str().unwrap_or_default();
        block["type"] != "header" || text.chars().count() <= 150
    };
    blocks.len() <= 50 && blocks.iter().all(header_fits) && texts.into_iter().all(fit)
}

/// The body of a request that says how long it is; `None` for anything else.
async fn read_body(stream: &mut TcpStream) -> io::Result<Option<Vec<u8>>> {
    let mut received = Vec::new();
    loop {
        if stream.read_buf(&mut received).await? == 0 || received.len() > HEAD_LIMIT + BODY_LIMIT {
            return Ok(None);
        }
        let mut headers = [httparse::EMPTY_HEADER; 64];
        let mut request = httparse::Request::new(&mut headers);
        let head = match request.parse(&received) {
            Ok(httparse::Status::Complete(head)) => head,
            Ok(httparse::Status::Partial) => continue,
            Err(_) => return Ok(None),
        };
        let length = request
            .headers
            .iter()
            .find(|header| header.name.eq_ignore_ascii_case("content-length"))
            .and_then(|header| {
                std::str::from_utf8(header.value)
                    .ok()?
                    .parse::<usize>()
                    .ok()
            });
        match length {
            Some(length) if length <= BODY_LIMIT => {
                if let Some(body) = received.get(head..head + length) {
                    return Ok(Some(body.to_vec()));
                }
            }
            _ => return Ok(None),
        }
    }
}

async fn respond(stream: &mut TcpStream, status: &str, body: &str) -> io::Result<()> {
    let response = format!(
        "HTTP/1.1 {status}\r\ncontent-type: text/plain\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(response.as_bytes()).await?;
    stream.shutdown().await
}
