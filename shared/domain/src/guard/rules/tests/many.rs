//! Groups that somebody made large. Whatever compares their members each with each, or all of them for each partition,
//! takes minutes here.

use super::super::super::verdict::Verdict;
use crate::group::MemberSeen;
use crate::testing::guard::History;

/// A client can join a group as often as it likes, under a new name each time.
#[test]
fn thousands_of_members_that_are_others_in_every_look_are_judged() {
    let mut history = History::of(1);
    for _ in 0..4 {
        history.stable(&[("a1", &[])]).run().look().look();
    }
    history.empty().runs(2);
    for (n, look) in history.samples.iter_mut().enumerate() {
        if look.members.is_empty() {
            continue;
        }
        let member = |id: u32| MemberSeen {
            member_id: format!("{n}-{id}"),
            client_id: "a".to_owned(),
            host: "/10.0.0.97".to_owned(),
        };
        look.members = (0..10_000).map(member).collect();
        look.members.sort();
    }
    assert_eq!(history.verdict(0), Verdict::CrashLoop);
}

/// One partition moves and very many stand, while all members are others in every run.
#[test]
fn what_the_members_did_is_not_worked_out_anew_for_each_partition() {
    let mut history = History::of(1_000);
    for n in 0..12 {
        let names: Vec<_> = (0..400).map(|id| format!("a{n}-{id}")).collect();
        let members: Vec<(&str, &[i32])> = names.iter().map(|n| (n.as_str(), &[][..])).collect();
        history.stable(&members).work(&[1]).run().look().look();
    }
    let assessment = history.judged_without_probes();
    assert_eq!(assessment.findings.len(), 1_000);
}
