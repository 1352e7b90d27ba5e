//! A small HTTP server on loopback: it answers as the test says.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// One request.
#[derive(Debug, Clone)]
pub struct Request {
    /// The path, with its query.
    pub path: String,
    /// The headers, by names in lower case.
    pub headers: BTreeMap<String, String>,
    /// The body.
    pub body: Vec<u8>,
}

/// A server; it ends when this is dropped.
#[derive(Debug)]
pub struct Server {
    /// Where it serves.
    pub url: String,
    task: JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Server {
    /// Serves `answer`: a status and a body.
    ///
    /// # Errors
    /// There is no port.
    pub async fn start<F>(
        answer: impl Fn(Request) -> F + Send + Sync + 'static,
    ) -> std::io::Result<Self>
    where
        F: Future<Output = (u16, String)> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}", listener.local_addr()?);
        let answer = Arc::new(answer);
        let task = tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let answer = Arc::clone(&answer);
                tokio::spawn(async move {
                    if let Some(request) = read(&mut stream).await {
                        let (status, body) = answer(request).await;
                        let answer = format!(
                            "HTTP/1.1 {status} x\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\
                             connection: close\r\n\r\n{body}",
                            body.len()
                        );
                        // Whoever asked may be gone.
                        let _ = stream.write_all(answer.as_bytes()).await;
                    }
                });
            }
        });
        Ok(Self { url, task })
    }
}

/// Reads one request whose length its head says.
async fn read(stream: &mut TcpStream) -> Option<Request> {
    let mut received = Vec::new();
    let head = loop {
        if let Some(end) = received.windows(4).position(|four| four == b"\r\n\r\n") {
            break end;
        }
        if stream.read_buf(&mut received).await.ok()? == 0 {
            return None;
        }
    };
    let text = String::from_utf8(received[..head].to_vec()).ok()?;
    let mut lines = text.lines();
    let path = lines.next()?.split(' ').nth(1)?.to_owned();
    let headers: BTreeMap<String, String> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let length = headers.get("content-length");
    let length: usize = length.map_or(Some(0), |length| length.parse().ok())?;
    let mut body = received.split_off(head + 4);
    while body.len() < length {
        if stream.read_buf(&mut body).await.ok()? == 0 {
            return None;
        }
    }
    Some(Request {
        path,
        headers,
        body,
    })
}
