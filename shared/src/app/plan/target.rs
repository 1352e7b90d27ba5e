//! Reads what the target of a request needs, and resolves it.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use crate::app::observe_stable;
use crate::domain::checkpoint::CheckpointHeader;
use crate::domain::group::GroupObservation;
use crate::domain::ids::{CheckpointId, GroupKey, PlanId};
use crate::domain::offset::TopicPartition;
use crate::domain::refusal::Refusal;
use crate::domain::request::{ResetSpec, RewindRequest};
use crate::domain::target::Target;
use crate::domain::target::checkpoint::{CheckpointSource, resolve_checkpoint};
use crate::domain::target::choice::{Search, find_named};
use crate::domain::target::earliest::resolve_earliest;
use crate::domain::target::executed::EarlierRecords;
use crate::domain::target::finish::{find_unfinished, resolve_finish};
use crate::domain::target::offsets::resolve_offsets;
use crate::domain::target::shift::resolve_shift;
use crate::domain::target::time::{FirstRecords, resolve_time, time_before};
use crate::domain::target::undo::{find_undoable, resolve_undo};
use crate::error::Error;
use crate::failure::chain;
use crate::ports::ReadGroups;
use crate::store::Store;

/// The group as it was read, and where it is to go; or why that cannot be said.
pub(super) struct Resolved {
    pub(super) seen: GroupObservation,
    pub(super) target: Result<Target, Refusal>,
}

/// Resolves the target of one request.
pub(super) struct Resolver<'a, R> {
    pub(super) store: &'a Store,
    pub(super) groups: &'a R,
    pub(super) group: &'a GroupKey,
    pub(super) request: &'a RewindRequest,
    pub(super) now: Timestamp,
}

impl<R: ReadGroups> Resolver<'_, R> {
    pub(super) async fn resolve(&self) -> Result<Resolved, Error> {
        let request = self.request;
        match &request.target {
            ResetSpec::RewindBefore(before) => {
                let source = self.newest_before(*before).await?;
                self.to_checkpoint(source).await
            }
            ResetSpec::Checkpoint(id) => {
                let source = self.named_checkpoint(id).await?;
                self.to_checkpoint(source).await
            }
            ResetSpec::ToDatetime(at) => self.to_time(Ok(*at)).await,
            ResetSpec::ByDuration(duration) => self.to_time(time_before(self.now, *duration)).await,
            ResetSpec::ToOffsets(offsets) => {
                let named = offsets.keys().cloned().collect();
                let seen = self.observe(&self.committed_of(&named).await?).await?;
                let target = Ok(resolve_offsets(offsets, request, &seen));
                Ok(Resolved { seen, target })
            }
            ResetSpec::ShiftBy(by) => {
                let seen = self.observe(&BTreeSet::new()).await?;
                let target = Ok(resolve_shift(*by, request, &seen));
                Ok(Resolved { seen, target })
            }
            ResetSpec::ToEarliest => {
                let seen = self.observe(&BTreeSet::new()).await?;
                let target = Ok(resolve_earliest(&seen));
                Ok(Resolved { seen, target })
            }
            ResetSpec::Undo(plan) => {
                let found = find_undoable(plan, self.records_of(plan).await?, request);
                let partitions = found.as_ref().map(|of| of.partitions());
                let seen = self.observe(&partitions.unwrap_or_default()).await?;
                let target = found.and_then(|of| resolve_undo(&of, request, &seen));
                Ok(Resolved { seen, target })
            }
            ResetSpec::Finish(plan) => {
                let found = find_unfinished(plan, self.records_of(plan).await?, request);
                let partitions = found.as_ref().map(|of| of.partitions());
                let seen = self.observe(&partitions.unwrap_or_default()).await?;
                let target = found.and_then(|of| resolve_finish(&of, request, &seen));
                Ok(Resolved { seen, target })
            }
        }
    }

    async fn observe(
        &self,
        partitions: &BTreeSet<TopicPartition>,
    ) -> Result<GroupObservation, Error> {
        observe_stable(self.groups, &self.request.group, partitions).await
    }

    async fn to_checkpoint(
        &self,
        found: Result<CheckpointSource, Refusal>,
    ) -> Result<Resolved, Error> {
        let partitions = found.as_ref().map(CheckpointSource::partitions);
        let seen = self.observe(&partitions.unwrap_or_default()).await?;
        let target = found.and_then(|source| resolve_checkpoint(&source, self.request, &seen));
        Ok(Resolved { seen, target })
    }

    async fn to_time(&self, at: Result<Timestamp, Refusal>) -> Result<Resolved, Error> {
        let seen = self.observe(&BTreeSet::new()).await?;
        let target = match at {
            Ok(at) => {
                // Only now is it known which partitions to ask about.
                let found = self.first_records(seen.partitions.keys(), at).await?;
                Ok(resolve_time(at, &found, self.request, &seen))
            }
            Err(refusal) => Err(refusal),
        };
        Ok(Resolved { seen, target })
    }

    /// The newest checkpoint before a time, or for each partition the newest that no rewind undid for it.
    async fn newest_before(
        &self,
        before: Timestamp,
    ) -> Result<Result<CheckpointSource, Refusal>, Error> {
        let (store, group) = (self.store, self.group);
        let headers = store.headers(group, self.now).await?;
        let mut search = Search::new(&self.request.selection);
        for header in headers.iter().filter(|header| header.ended_at < before) {
            if search.needs(header) {
                let checkpoint = store.checkpoint(group, header).await?;
                search.read(header, checkpoint);
            }
            if search.is_over() {
                break;
            }
        }
        match search.end().source(before, &headers) {
            Ok(source) => self.with_evidence(source, &headers).await.map(Ok),
            Err(refusal) => Ok(Err(refusal)),
        }
    }

    async fn named_checkpoint(
        &self,
        id: &CheckpointId,
    ) -> Result<Result<CheckpointSource, Refusal>, Error> {
        let (store, group) = (self.store, self.group);
        let headers = store.headers(group, self.now).await?;
        let Some(header) = headers.iter().find(|header| header.id == *id) else {
            return Ok(Err(Refusal::CheckpointNotFound { id: id.clone() }));
        };
        let checkpoint = store.checkpoint(group, header).await?;
        match find_named(&self.request.selection, header, checkpoint) {
            Ok(source) => self.with_evidence(source, &headers).await.map(Ok),
            Err(refusal) => Ok(Err(refusal)),
        }
    }

    /// A checkpoint with what later ones say of it.
    async fn with_evidence(
        &self,
        source: CheckpointSource,
        headers: &[CheckpointHeader],
    ) -> Result<CheckpointSource, Error> {
        let newest = match source.newer(headers) {
            Some(newest) => Some(self.store.checkpoint(self.group, newest).await?),
            None => None,
        };
        Ok(source.among(headers, newest))
    }

    /// The first record of each partition at or after a time. Of one that is dated suspiciously late it is asked as well
    /// whether any behind it is dated later.
    async fn first_records(
        &self,
        partitions: impl Iterator<Item = &TopicPartition>,
        at: Timestamp,
    ) -> Result<FirstRecords, Error> {
        let wanted: Vec<_> = partitions
            .map(|partition| (partition.clone(), at))
            .collect();
        let mut first = self.groups.offsets_for_times(&wanted).await?;
        let suspicious: Vec<_> = first
            .iter()
            .filter_map(|(partition, found)| {
                let found = found.as_ref().ok()?.as_ref()?;
                Some((partition.clone(), found.to_ask_behind(at)?))
            })
            .collect();
        if suspicious.is_empty() {
            return Ok(first);
        }
        // It is for a warning alone, which no plan fails for.
        let behind = self.groups.offsets_for_times(&suspicious).await;
        let behind = behind.unwrap_or_else(|error| {
            tracing::warn!(
                error = chain(&error),
                "the order of times was not looked at"
            );
            BTreeMap::new()
        });
        for (partition, found) in behind {
            if let (Ok(behind), Some(Ok(Some(first)))) = (found, first.get_mut(&partition)) {
                first.overtaken = Some(behind.is_some());
            }
        }
        Ok(first)
    }

    /// Which of the partitions that a request names the group has a commit for, or may have. What it has none for is not
    /// read at all: whoever may ask for a group learns nothing of topics that the group does not read.
    async fn committed_of(
        &self,
        named: &BTreeSet<TopicPartition>,
    ) -> Result<BTreeSet<TopicPartition>, Error> {
        let named: Vec<_> = named.iter().cloned().collect();
        let committed = self.groups.committed(&self.request.group, &named).await?;
        let known = committed
            .into_iter()
            .filter(|(_, committed)| *committed != Ok(None));
        Ok(known.map(|(partition, _)| partition).collect())
    }

    /// All that is on record of an earlier plan.
    async fn records_of(&self, plan: &PlanId) -> Result<EarlierRecords, Error> {
        let store = self.store;
        Ok(EarlierRecords {
            plan: store.plan(plan).await?,
            pre_image: store.pre_image(plan).await?,
            recovery: store.recovery(plan).await?,
            answers: store.answers(plan).await?,
            outcomes: store.result(plan).await?.unwrap_or_default(),
        })
    }
}
