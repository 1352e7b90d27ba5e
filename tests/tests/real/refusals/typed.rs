//! Groups of other types, which look dead to those who ask for a consumer group.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use offset_guard_tests::{Outcome, World, on_kafka_4};
use serde_json::json;

use super::Scene;

on_kafka_4!(a_share_group, a_streams_group);

async fn a_share_group(world: &World) -> Outcome {
    let scene = Scene::new(world, "test", 1, 9).await?;
    Heartbeat::share(&scene, 0).send(world)?;
    // It lives, and it has no committed offsets: as a consumer group there is nothing of it.
    scene
        .refuses(
            &json!({"to_earliest": true}),
            &["GROUP_NOT_FOUND"],
            &["as a consumer group"],
        )
        .await?;
    Ok(())
}

async fn a_streams_group(world: &World) -> Outcome {
    let scene = Scene::new(world, "test", 1, 9).await?;
    Heartbeat::streams(&scene, 0).send(world)?;
    Heartbeat::streams(&scene, -1).send(world)?;
    scene.commit(&[6]).await?;
    let advice = [
        "not proven that the group is inactive",
        "what kind of group",
    ];
    scene
        .refuses(
            &json!({"to_earliest": true}),
            &["GROUP_STATE_UNPROVEN"],
            &advice,
        )
        .await?;
    Heartbeat::streams(&scene, 0).send(world)?;
    let mut named = scene.to_offset(3);
    named["restore_missing"] = json!(true);
    named["allow_stateful"] = json!(true);
    scene
        .refuses(&named, &["GROUP_STATE_UNPROVEN"], &advice)
        .await?;
    Ok(())
}

/// A heartbeat of a member of a group that no client library here speaks for (KIP-932, KIP-1071).
struct Heartbeat {
    api_key: i16,
    version: i16,
    body: Vec<u8>,
}

impl Heartbeat {
    fn start(scene: &Scene<'_>, api_key: i16, version: i16, epoch: i32) -> Self {
        let mut heartbeat = Self {
            api_key,
            version,
            body: Vec::new(),
        };
        heartbeat.text(&scene.group);
        heartbeat.text("AAAAAAAAAAAAAAAAAAAAAQ");
        heartbeat.int(epoch);
        heartbeat
    }

    /// `ShareGroupHeartbeat` 1: epoch 0 joins.
    fn share(scene: &Scene<'_>, epoch: i32) -> Self {
        let mut it = Self::start(scene, 76, 1, epoch);
        it.null();
        it.count(1);
        it.text(scene.topic());
        it.end()
    }

    /// `StreamsGroupHeartbeat` 0: epoch 0 joins with a topology of one source topic, -1 leaves.
    fn streams(scene: &Scene<'_>, epoch: i32) -> Self {
        let mut it = Self::start(scene, 88, 0, epoch);
        it.int(0);
        it.null();
        it.null();
        it.int(if epoch == 0 { 60_000 } else { -1 });
        if epoch == 0 {
            // A struct that may be null begins with a byte that says whether it is.
            it.body.push(1);
            it.int(0);
            it.count(1);
            it.text("0");
            it.count(1);
            it.text(scene.topic());
            for _ in 0..5 {
                it.count(0);
            }
            it.body.extend([0, 0]);
            for _ in 0..3 {
                it.count(0);
            }
            it.text("process");
        } else {
            it.body.push(255);
            for _ in 0..4 {
                it.null();
            }
        }
        it.body.push(255);
        for _ in 0..3 {
            it.null();
        }
        it.body.push(0);
        it.end()
    }

    fn int(&mut self, value: i32) {
        self.body.extend(value.to_be_bytes());
    }

    /// The length of an array, which is short enough for one byte here.
    fn count(&mut self, length: u8) {
        self.body.push(length + 1);
    }

    fn text(&mut self, text: &str) {
        // Lengths are varints of the length and one.
        let mut length = text.len() + 1;
        while length >= 128 {
            self.body
                .push(u8::try_from(length % 128 + 128).unwrap_or(255));
            length /= 128;
        }
        self.body.push(u8::try_from(length).unwrap_or(255));
        self.body.extend(text.as_bytes());
    }

    fn null(&mut self) {
        self.body.push(0);
    }

    /// No tagged fields follow.
    fn end(mut self) -> Self {
        self.body.push(0);
        self
    }

    /// Sends it, and fails if the broker does.
    fn send(self, world: &World) -> Outcome {
        let mut request = Vec::new();
        request.extend(self.api_key.to_be_bytes());
        request.extend(self.version.to_be_bytes());
        request.extend(1_i32.to_be_bytes());
        // No client id, no tagged fields.
        request.extend((-1_i16).to_be_bytes());
        request.push(0);
        request.extend(&self.body);
        let mut stream = TcpStream::connect(world.stack.bootstrap())?;
        stream.write_all(&u32::try_from(request.len())?.to_be_bytes())?;
        stream.write_all(&request)?;
        let mut length = [0; 4];
        stream.read_exact(&mut length)?;
        let mut answer = vec![0; usize::try_from(u32::from_be_bytes(length))?];
        stream.read_exact(&mut answer)?;
        // Correlation id, tagged fields, throttle time; then the error.
        match answer.get(9..11) {
            Some([0, 0]) => Ok(()),
            _ => Err(format!("the broker answered {}", String::from_utf8_lossy(&answer)).into()),
        }
    }
}
