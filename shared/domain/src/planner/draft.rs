//! A plan that is whole but for what it undoes, which the history of checkpoints may have to say.

use jiff::{SignedDuration, Timestamp};

use crate::checkpoint::{Checkpoint, CheckpointHeader};
use crate::plan::{Disowns, PartitionMove, Plan};
use crate::target::Undoes;

/// A plan that is whole but for what it undoes.
#[derive(Debug, PartialEq, Eq)]
pub struct Draft {
    plan: Plan,
    undoes: Undoes,
}

impl Draft {
    /// A plan that undoes what `undoes` says, if it undoes anything: one that only goes forward does not. A source that is
    /// dated ahead of the plan says nothing.
    pub(super) fn new(plan: Plan, undoes: Undoes) -> Self {
        let undoes = match undoes {
            _ if !plan.goes_back() => Undoes::Nothing,
            Undoes::Since(after) if after >= plan.created_at => Undoes::AsCheckpointsSay,
            undoes => undoes,
        };
        Self { plan, undoes }
    }

    /// The plan so far.
    #[must_use]
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// What has to be looked up in the history of checkpoints; `None` where nothing has.
    #[must_use]
    pub fn search(&self) -> Option<UndoneSearch<'_>> {
        let moves = &self.plan.moves;
        (self.undoes == Undoes::AsCheckpointsSay).then_some(UndoneSearch { moves })
    }

    /// The finished plan; `found` is what the search found, if there was one.
    #[must_use]
    pub fn finish(self, found: Option<Timestamp>) -> Plan {
        let after = match self.undoes {
            Undoes::Since(after) => Some(after),
            Undoes::AsCheckpointsSay => found,
            Undoes::Nothing => None,
        };
        Plan {
            disowns: after.map(|after| Disowns { after }),
            ..self.plan
        }
    }
}

/// The search for what moves undo: everything after the newest checkpoint that their targets do not lie before. It goes
/// through the checkpoints from the newest to the oldest.
#[derive(Debug, Clone, Copy)]
pub struct UndoneSearch<'a> {
    moves: &'a [PartitionMove],
}

impl UndoneSearch<'_> {
    /// Whether a checkpoint has to be read. What a rewind undid says nothing of how far this one goes.
    #[must_use]
    pub fn needs(&self, header: &CheckpointHeader) -> bool {
        let mut moved = self.moves.iter().map(|m| &m.partition);
        !moved.any(|partition| header.disowned.by(partition).is_some())
    }

    /// Since when the moves undo what was read, where this checkpoint says it.
    #[must_use]
    pub fn end_at(&self, checkpoint: &Checkpoint) -> Option<Timestamp> {
        (!checkpoint.is_beyond(self.moves)).then_some(checkpoint.ended_at)
    }

    /// Since when the moves undo what was read, where no checkpoint says it: all of them, which `headers` are.
    #[must_use]
    pub fn end(&self, headers: &[CheckpointHeader]) -> Option<Timestamp> {
        let oldest = headers.last()?;
        Some(oldest.ended_at - SignedDuration::from_nanos(1))
    }
}
