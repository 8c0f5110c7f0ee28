//! `wfctl` runs multi-step jobs on a schedule, with human gates, without a daemon.
//!
//! This page is the way into the house: its floors, its rooms in reading order, what must always be true, and
//! which test shows it.
//!
//! # Floors
//!
//! ```text
//! main.rs            the real clock, signals and environment; the one exit
//! cli                words in, words out: arguments, tables, JSON, progress, exit codes
//! engine             what a command does: admit, dispatch, resume, recover, cancel, prune
//! store | process    side by side, neither knows the other: files and locks | children and signals
//! state              a run as the fold of its journal, and pure decisions
//! domain             ids, workflows, triggers, policies, events: no io, no clock, no printing
//! ```
//!
//! Imports lead down only, and each effect has one owner: files in [`store`], locks in [`store::lock`] and
//! [`store::slots`], processes in [`process`] (with the only unsafe code), printing in [`cli`], the clock and the
//! exit in `main.rs`. `tests/architecture.rs` reads the source and fails on anything else; its exceptions have names
//! and reasons.
//!
//! # Reading order
//!
//! 1. [`domain::event`]: what can happen to a run. Then [`domain::ids`] and [`domain::workflow`].
//! 2. [`state::run`]: how events make a state, and which event may follow which. [`state::decide`]: what comes next,
//!    for the live path and for recovery alike.
//! 3. [`store::journal`]: how events become durable. [`store::runs`]: how the creation of a folder is the admission.
//!    [`store::slots`]: how a kernel lock says that an execution is alive. [`store::lock`]: who may change anything.
//! 4. [`process::child`], [`process::wake`] and [`process::stop`]: start, wait, stop and join.
//! 5. [`engine::attempt`]: one attempt from its first record to the release of its slot; the heart of it.
//!    [`engine::dispatch`] and [`engine::supervise`] around it.
//! 6. [`engine::recover`] and [`engine::cancel`]: what becomes of what was left behind.
//! 7. [`domain::trigger`], [`domain::policy`] and [`engine::tick`]: when something is due, and what then.
//! 8. [`engine::query`] and [`engine::fsck`]: looking, without a lock and without a change.
//! 9. [`cli`]: how all this is said.
//!
//! # What is always true
//!
//! 1. A step that may have been started is never started again, unless its workflow marks it `idempotent`; then it is
//!    started again with the same key, and by recovery only.
//! 2. The state of a run is the fold of its journal and nothing else. A torn last line does not count; any other bad
//!    line makes this run unreadable, and no other one.
//! 3. An occurrence is admitted at most once: its run's folder is created exclusively, and the cursor of its schedule,
//!    which takes over when the folder is pruned, never runs ahead of it.
//! 4. At most `capacity` runs execute, those counted whose `wfctl` was killed and whose steps live.
//! 5. A slot is released only when the processes of its step are gone, or the step has ended by itself.
//! 6. Nobody decides about a run that is live. Who looks takes no lock and changes nothing.
//! 7. Notifications, progress and output never change a run, however they fail.
//!
//! # Order on disk
//!
//! ```text
//! admitted, attempt_started, step_started     one write, one fdatasync
//!     the process is created
//!     the process has ended, or was stopped and joined
//! step_finished, and what follows from it     one write, one fdatasync
//!     the next process is created; or:
//! the slot is emptied and unlocked
//! the finished run is moved to runs/done
//! ```
//!
//! A crash between any two lines leaves a journal whose last event says what is unknown, if anything is, and
//! [`state::decide`] answers it. A write or sync that fails leaves the executing marker and the slot as they are.
//!
//! # What is promised, and which test shows it
//!
//! | promise | test |
//! |---|---|
//! | a cancelled run gives its capacity back and is never replayed | `caller_cancellation::interrupting_a_resume_gives_its_capacity_back_and_never_replays` |
//! | what cannot be reconciled keeps marker and slot, and is said | `caller_cancellation::what_cannot_be_reconciled_keeps_marker_and_slot_and_says_so` |
//! | a slot that is not ours any more is not released | `caller_cancellation::a_slot_that_is_not_ours_any_more_is_not_released` |
//! | an answer that comes while a step is being stopped is not believed | `caller_cancellation::a_result_that_comes_while_stopping_is_not_believed` |
//! | an ambiguous run is closed by a person alone | `caller_cancellation::an_ambiguous_run_is_closed_by_resolve_alone` |
//! | `cancel` frees one slot of a tick while its siblings go on | `cancel::cancelling_one_run_of_a_tick_frees_its_slot_for_the_next_while_siblings_go_on` |
//! | a step whose `wfctl` was killed is stopped, and its run ambiguous | `cancel::a_step_whose_wfctl_was_killed_is_stopped_and_its_run_ambiguous` |
//! | a fence decides nothing; recovery calls it ambiguous | `fence::sigterm_fences_a_resume_and_recovery_calls_it_ambiguous` |
//! | a draining store does not consume an answer | `fence::draining_rejects_a_resume_without_consuming_the_answer` |
//! | orphans count as capacity until they are gone | `slots::an_orphan_counts_as_capacity_until_it_is_gone` |
//! | lowering the capacity kills nothing | `slots::lowering_the_capacity_kills_nothing_and_is_honoured_at_once` |
//! | a step inherits its streams and its slot, nothing else | `process::a_step_inherits_its_streams_and_its_slot_and_nothing_else` |
//! | a process that left its group and session is found and joined | `process::a_process_in_another_session_is_found_by_the_descriptor` |
//! | a step cannot hide by closing or unlocking what it inherited | `process::unlocking_the_descriptor_hides_nobody` |
//! | a stop never hits what is being started for another run | `process::a_stop_never_hits_what_is_being_started_for_another_run` |
//! | triggers agree with an independent model, over years and zones | `trigger_oracle` |
//! | overlap and catch-up do as they say | `time_policies`, `policy::tests::receipts_add_up` |
//! | a clock that goes back admits nothing again | `time_policies::a_clock_that_goes_backwards_admits_nothing_again` |
//! | what was admitted before a crash is admitted once | `policy::tests::what_was_admitted_before_a_crash_keeps_its_run_and_no_second_receipt` |
//! | no id can leave the store | `ids::tests::no_id_can_leave_the_store` |
//! | a bad workflow is refused with place, reason and hint | `workflow_files::every_invalid_file_is_refused_at_the_place_with_the_reason_and_the_hint` |
//! | looking changes nothing | `query::tests::looking_changes_nothing` |
//! | a listing reads only its page | `query::tests::a_page_does_not_read_what_is_behind_it` |
//! | each broken invariant is named by `fsck` | `fsck::tests::a_damaged_run_is_named` and its neighbours |
//! | the manual and the completions are what is generated | `generated_files` |
//! | the README and the example workflows work | `readme`, `examples` |
//! | the floors hold | `architecture` |

pub mod cli;
pub mod domain;
pub mod engine;
pub mod process;
pub mod state;
pub mod store;
