//! What is noted of a group's probes while two of its runs are at it.

use offset_guard::domain::guard::probe::{Begun, ProbeFault, ProbeNotes};
use offset_guard::domain::offset::TopicPartition;
use offset_guard::store::Store;

use super::support::{Kind, Table, at, group_key, on_both_tables};

async fn change(store: &Store, change: impl Fn(&mut ProbeNotes)) -> ProbeNotes {
    let group = group_key();
    let changed = store.change_probe_notes(&group, at(0), change);
    changed.await.unwrap()
}

/// A note that another run brought back would say for an hour that reading the record ended the process that read it.
async fn two_runs_undo_nothing_of_what_the_other_noted(on: Kind) {
    let table = Table::new(on).await;
    let store = table.store();
    let (p, q) = (TopicPartition::new("t", 0), TopicPartition::new("t", 1));
    let (one, other) = (Begun::new(&p, 43, at(1)), Begun::new(&q, 7, at(2)));
    change(&store, |notes| notes.begin(one.clone())).await;
    let seen = change(&store, |notes| notes.begin(other.clone())).await;
    assert_eq!(seen.forbid(&p, 43, at(3)), Some(ProbeFault::BeingRead));
    change(&store, |notes| notes.finish(&one, false)).await;
    let left = change(&store, |notes| notes.finish(&other, true)).await;
    assert_eq!(left.forbid(&p, 43, at(4)), None);
    let ended = ProbeFault::Ended { at: at(2) };
    assert_eq!(left.forbid(&q, 7, at(4)), Some(ended));
    let noted = store.probe_notes(&group_key()).await.unwrap();
    assert_eq!(noted, left);
}

async fn what_many_runs_note_at_once_is_all_noted(on: Kind) {
    let table = Table::new(on).await;
    let store = table.store();
    let begun: Vec<_> = (0..4)
        .map(|n| Begun::new(&TopicPartition::new("t", n), 43, at(1)))
        .collect();
    let noting = begun.iter().map(|begun| {
        let store = &store;
        change(store, |notes| notes.begin(begun.clone()))
    });
    futures_util::future::join_all(noting).await;
    let noted = store.probe_notes(&group_key()).await.unwrap();
    for begun in &begun {
        let forbidden = noted.forbid(&begun.partition, 43, at(2));
        assert_eq!(forbidden, Some(ProbeFault::BeingRead));
    }
}

on_both_tables! {
    two_runs_undo_nothing_of_what_the_other_noted,
    what_many_runs_note_at_once_is_all_noted,
}
