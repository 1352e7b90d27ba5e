//! What the store promises, on the table of the local AWS.

#![forbid(unsafe_code)]

#[cfg(test)]
mod alerts;
#[cfg(test)]
mod approvals;
#[cfg(test)]
mod audits;
#[cfg(test)]
mod checkpoints;
#[cfg(test)]
mod decision;
#[cfg(test)]
mod executions;
#[cfg(test)]
mod fleet;
#[cfg(test)]
mod guard_runs;
#[cfg(test)]
mod incidents;
#[cfg(test)]
mod names;
#[cfg(test)]
mod people;
#[cfg(test)]
mod plans;
#[cfg(test)]
mod probes;
#[cfg(test)]
mod quarantine;
#[cfg(test)]
mod readings;
#[cfg(test)]
mod reconcile;
#[cfg(test)]
mod recoveries;
#[cfg(test)]
mod replaced;
#[cfg(test)]
mod requesters;
#[cfg(test)]
mod samples;
#[cfg(test)]
mod supersede;
#[cfg(test)]
mod support;
#[cfg(test)]
mod sweep;
#[cfg(test)]
mod untold;
