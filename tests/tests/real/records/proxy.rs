//! A broker seen through a proxy, which damages or cuts what it answers.

use std::error::Error;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use offset_guard_local::kafka::{Kafka, KafkaOptions, Version};
use offset_guard_local::run::Run;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// What is looked for in the answers.
pub(super) const MARK: &[u8] = b"-here-be-damage-";

/// What the proxy does to answers.
#[derive(Debug)]
pub(super) struct Damage {
    /// Changes one bit of each [`MARK`] that passes.
    pub(super) flip: AtomicBool,
    /// So many bytes more are passed on; then every connection ends, and every new one too.
    pub(super) left: AtomicUsize,
}

/// A Kafka that calls itself by the address of a proxy.
pub(super) struct Proxied {
    pub(super) kafka: Kafka,
    pub(super) bootstrap: String,
    pub(super) damage: Arc<Damage>,
}

impl Proxied {
    pub(super) async fn start() -> Result<Self, Box<dyn Error>> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let bootstrap = format!("127.0.0.1:{}", listener.local_addr()?.port());
        let options = KafkaOptions {
            version: Version::V4,
            properties: [
                (
                    "advertised.listeners".to_owned(),
                    format!("PLAINTEXT://{bootstrap}"),
                ),
                ("message.max.bytes".to_owned(), "20000000".to_owned()),
            ]
            .into(),
            ..KafkaOptions::default()
        };
        let damage = Arc::new(Damage {
            flip: AtomicBool::new(false),
            left: AtomicUsize::new(usize::MAX),
        });
        let broker = Arc::new(OnceLock::new());
        tokio::spawn(serve(listener, Arc::clone(&broker), Arc::clone(&damage)));
        let kafka = Kafka::start(&Run::open(Duration::ZERO)?, &options).await?;
        broker.get_or_init(|| kafka.bootstrap());
        Ok(Self {
            kafka,
            bootstrap,
            damage,
        })
    }
}

/// Passes connections on to the broker, as soon as its address is known.
async fn serve(listener: TcpListener, broker: Arc<OnceLock<String>>, damage: Arc<Damage>) {
    while let Ok((client, _)) = listener.accept().await {
        let Some(broker) = broker.get().cloned() else {
            continue;
        };
        let damage = Arc::clone(&damage);
        tokio::spawn(async move {
            if damage.left.load(Ordering::SeqCst) == 0 {
                return;
            }
            // A connection that breaks is what this is about.
            if let Ok(broker) = TcpStream::connect(broker).await {
                let _ = pass(client, broker, &damage).await;
            }
        });
    }
}

async fn pass(client: TcpStream, broker: TcpStream, damage: &Damage) -> std::io::Result<()> {
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_broker, mut to_broker) = broker.into_split();
    let requests =
        tokio::spawn(async move { tokio::io::copy(&mut from_client, &mut to_broker).await });
    let mut buffer = vec![0; 64 * 1024];
    let answered = async {
        loop {
            let read = from_broker.read(&mut buffer).await?;
            let left = damage.left.load(Ordering::SeqCst);
            let passed = read.min(left);
            if left != usize::MAX {
                damage.left.store(left - passed, Ordering::SeqCst);
            }
            let bytes = &mut buffer[..passed];
            if damage.flip.load(Ordering::SeqCst) {
                let marks = bytes.windows(MARK.len()).position(|window| window == MARK);
                if let Some(byte) = marks.and_then(|at| bytes.get_mut(at)) {
                    *byte ^= 1;
                }
            }
            to_client.write_all(bytes).await?;
            if read == 0 || passed < read {
                return Ok(());
            }
        }
    };
    let answered: std::io::Result<()> = answered.await;
    requests.abort();
    answered
}
