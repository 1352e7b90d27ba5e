//! What becomes of one partition.

use super::making::Making;
use crate::offset::{CommittedOffset, TopicPartition, Watermarks, distance};
use crate::plan::{LeftAlone, PartitionMove};
use crate::refusal::Refusal;
use crate::target::{Wanted, WantedCommit, read_position};

/// What becomes of one partition.
pub(super) enum Becomes {
    Moved {
        m: PartitionMove,
        drops_metadata: bool,
    },
    LeftAlone(LeftAlone),
    Refused(Refusal),
}

impl Making<'_> {
    /// Judges a partition that the request is about.
    pub(super) fn judge_partition(self, partition: &TopicPartition, wanted: &Wanted) -> Becomes {
        let wanted = match wanted {
            Wanted::NotAsked(why) | Wanted::Leave(why) => return Becomes::LeftAlone(why.clone()),
            Wanted::Refuse(refusal) => return Becomes::Refused(refusal.clone()),
            Wanted::Nothing => None,
            Wanted::Commit(wanted) => Some(wanted),
        };
        let (from, log) = match read_position(self.planning.seen, partition) {
            Ok(position) => position,
            Err(refusal) => return Becomes::Refused(refusal),
        };
        let m = PartitionMove {
            partition: partition.clone(),
            topic_id: self.topic_id_now(&partition.topic),
            from: from.cloned(),
            to: None,
            log: *log,
            lost: 0,
            may_rise_to: None,
        };
        match wanted {
            Some(wanted) => self.judge_commit(m, wanted),
            None if from.is_none() => Becomes::LeftAlone(LeftAlone::AlreadyThere),
            None => Becomes::Moved {
                m,
                drops_metadata: false,
            },
        }
    }

    /// Judges a move that still has no target.
    fn judge_commit(self, m: PartitionMove, wanted: &WantedCommit) -> Becomes {
        let (from, log) = (m.from.as_ref(), &m.log);
        // Before the bounds: a group that is where it should be needs no move, even if retention has passed it.
        if is_at(from, &wanted.commit, wanted.as_committed) {
            return Becomes::LeftAlone(LeftAlone::AlreadyThere);
        }
        let offset = match self.bound(&m, wanted) {
            Ok(offset) => offset,
            Err(refusal) => return Becomes::Refused(refusal),
        };
        let as_committed = wanted.as_committed && offset == wanted.commit.offset;
        let to = if as_committed {
            drop_unreached_epoch(&wanted.commit, log)
        } else {
            CommittedOffset::bare(offset)
        };
        // And after them: a clamped target may be where the group is.
        if is_at(from, &to, as_committed) {
            return Becomes::LeftAlone(LeftAlone::AlreadyThere);
        }
        let had_metadata = !wanted.commit.metadata.is_empty()
            || from.is_some_and(|from| !from.metadata.is_empty());
        let drops_metadata = had_metadata && to.metadata.is_empty();
        // Offsets below 0 never held a record.
        let lost = distance(wanted.commit.offset.max(0), offset);
        let m = PartitionMove {
            may_rise_to: wanted.may_rise.then_some(log.high),
            to: Some(to),
            lost,
            ..m
        };
        Becomes::Moved { m, drops_metadata }
    }

    /// The target within the log, clamped only where that is allowed.
    fn bound(self, m: &PartitionMove, wanted: &WantedCommit) -> Result<i64, Refusal> {
        let (log, requested) = (&m.log, wanted.commit.offset);
        let partition = || m.partition.clone();
        if requested > log.high {
            return Err(Refusal::OffsetAboveHighWatermark {
                partition: partition(),
                requested,
                high: log.high,
            });
        }
        if requested < log.log_start && !wanted.may_rise {
            return Err(Refusal::OffsetBelowLogStart {
                partition: partition(),
                requested,
                log_start: log.log_start,
            });
        }
        let target = requested.max(log.log_start);
        let forward = self.planning.request.allow.forward || self.target.rules.forward;
        // From a position that retention has passed, the log start is no step forward: nothing there is left to skip.
        if let Some(from) = &m.from
            && target > from.offset.max(log.log_start)
            && !forward
        {
            return Err(Refusal::ForwardMove {
                partition: partition(),
                current: from.offset,
                target,
            });
        }
        Ok(target)
    }
}

/// Whether the group is at `target` already.
///
/// For a position that was committed so once, the metadata belongs to it: some clients keep there which records beyond
/// the offset are done. The epoch does not: the same position is committed again under every new leader.
fn is_at(from: Option<&CommittedOffset>, target: &CommittedOffset, as_committed: bool) -> bool {
    from.is_some_and(|from| {
        from.offset == target.offset && (!as_committed || from.metadata == target.metadata)
    })
}

/// The commit to write where a commit is restored as it was. An epoch that the log has not reached (an unclean election,
/// another cluster) or whose log's epoch is unknown is left out: consumers would see a truncation.
fn drop_unreached_epoch(wanted: &CommittedOffset, log: &Watermarks) -> CommittedOffset {
    CommittedOffset {
        offset: wanted.offset,
        leader_epoch: wanted
            .leader_epoch
            .filter(|epoch| log.leader_epoch.is_some_and(|current| *epoch <= current)),
        metadata: wanted.metadata.clone(),
    }
}
