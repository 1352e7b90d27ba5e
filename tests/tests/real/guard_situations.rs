//! The situations that the guard must never be wrong about, with real consumer processes. The whole set takes minutes:
//! `cargo run -p offset-guard-tests --bin situations`.

use std::path::PathBuf;

use offset_guard_tests::situations::guard::Guard;
use offset_guard_tests::situations::scene::Place;
use offset_guard_tests::situations::{catalogue, play_all, table};
use offset_guard_tests::{CLASSIC_ON_3_9, CLASSIC_ON_4, Outcome, Setting, World};
use ulid::Ulid;

const SITUATIONS: [&str; 12] = [
    "poison-leaves",
    "poison-dies",
    "twenty-bad",
    "nobody",
    "unassigned",
    "open-transaction",
    "markers",
    "ahead",
    "below-log-start",
    "assigned-by-itself",
    "outage",
    "owner-stuck",
];

/// All of them at once: each waits for a stall, and none for another.
async fn all_are_right(setting: Setting) -> Outcome {
    let world = World::enter(setting).await?;
    let bootstrap = world.stack.bootstrap();
    let guard = Guard::new(bootstrap, world.operator.sdk()).await;
    let place = Place {
        client: world.client.clone(),
        bootstrap: bootstrap.to_owned(),
        version: setting.kafka,
        guard: guard.map_err(|error| error.to_string())?,
        program: PathBuf::from(env!("CARGO_BIN_EXE_situations")),
    };
    let situations: Vec<_> = SITUATIONS
        .into_iter()
        .filter_map(catalogue::named)
        .collect();
    assert_eq!(situations.len(), SITUATIONS.len());
    let suffix = Ulid::generate().to_string().to_lowercase();
    let played = play_all(&situations, &place, &suffix, SITUATIONS.len(), |_| {}).await;
    let wrong: Vec<_> = played
        .iter()
        .filter(|played| !played.is_right())
        .map(table::lines)
        .collect();
    assert_eq!(wrong, Vec::<String>::new());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn on_3_9() -> Outcome {
    all_are_right(CLASSIC_ON_3_9).await
}

#[tokio::test(flavor = "multi_thread")]
async fn on_4() -> Outcome {
    all_are_right(CLASSIC_ON_4).await
}
