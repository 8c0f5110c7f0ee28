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
//! | a run is durable before its step begins, and costs two syncs | `durability_order::a_run_is_durable_before_its_step_begins_and_costs_two_syncs` |
//! | a step's end is durable before the next step begins | `durability_order::a_steps_end_is_durable_before_the_next_step_begins` |
//! | the end of a run is durable before its slot is free | `durability_order::the_end_of_a_run_is_durable_before_its_slot_is_free` |
//! | a started step is ambiguous after a crash, and never started again | `recovery::a_started_step_is_ambiguous_and_never_started_again` |
//! | an idempotent one is started again with the same key | `recovery::a_started_idempotent_step_is_started_again_with_the_same_key` |
//! | a finished step is not replayed | `recovery::a_finished_step_is_not_replayed` |
//! | recovering one run touches nothing else | `recovery::recovering_one_run_touches_nothing_else` |
//! | a torn last line does not count, wherever it is torn | `recovery::a_torn_last_line_is_ignored_at_every_length_and_cut_off_by_the_next_writer` |
//! | the damage of one run stays its own | `recovery::a_corrupt_record_is_refused_and_named_while_others_go_on` |
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
//! | a step gets the environment that is promised, nothing else | `execution::a_step_gets_the_environment_that_is_promised_and_nothing_else` |
//! | a step inherits its streams and its slot, nothing else | `process::a_step_inherits_its_streams_and_its_slot_and_nothing_else` |
//! | a process that left its group and session is found and joined | `process::a_process_in_another_session_is_found_by_the_descriptor` |
//! | a step cannot hide by closing or unlocking what it inherited | `process::unlocking_the_descriptor_hides_nobody` |
//! | a stop never hits what is being started for another run | `process::a_stop_never_hits_what_is_being_started_for_another_run` |
//! | killed before any call to the kernel, every command keeps every promise | `proof_kill::whatever_is_killed_when_every_promise_holds` |
//! | with any call failing, nothing is claimed that is not so | `proof_errors::whatever_call_fails_nothing_is_claimed_that_is_not_so` |
//! | a full disk refuses, and everything goes on when there is room | `proof_errors::a_full_disk_refuses_and_everything_goes_on_when_there_is_room_again` |
//! | no step escapes a timeout or a Ctrl-C that keeps its group or its slot | `proof_process::a_timeout_takes_the_whole_family`, `proof_process::a_ctrl_c_takes_the_whole_family` |
//! | what `wfctl` was started with reaches no step and no file | `proof_process::what_wfctl_inherited_reaches_no_step`, `proof_process::closed_streams_never_become_files_of_the_store` |
//! | what a step prints comes back as it was | `proof_process::bytes_that_are_no_text_are_given_back_unchanged_and_json_stays_json`, `proof_process::much_output_is_kept_and_given_back_whole` |
//! | a power cut that loses any of what was not synced breaks no promise | `proof_disk::whatever_a_power_cut_loses_every_promise_holds`, `proof_power::no_power_cut_breaks_a_promise` |
//! | no order of claims, records, kills and recoveries starts a step twice | `proof_model::two_runs_with_kills_and_fences_never_start_a_step_twice_and_always_come_to_rest` |
//! | damage to any file stays where it is | `proof_garbage::damage_to_any_file_stays_where_it_is` |
//! | an ambiguous run goes nowhere until a person resolves it | `state::tests::an_ambiguous_run_goes_nowhere_until_a_person_resolves_it` |
//! | a lost line end is not taken for a torn write | `journal::tests::any_flipped_bit_is_noticed` |
//! | triggers agree with an independent model, over years and zones | `trigger_oracle` |
//! | every nominal time has exactly one receipt | `time_model::every_nominal_time_has_exactly_one_receipt` |
//! | overlap and catch-up do as they say | `time_policies`, `policy::tests::receipts_add_up` |
//! | a clock that goes back admits nothing again | `time_policies::a_clock_that_goes_backwards_admits_nothing_again` |
//! | what was admitted before a crash is admitted once | `policy::tests::what_was_admitted_before_a_crash_keeps_its_run_and_no_second_receipt` |
//! | no id can leave the store | `ids::tests::no_id_can_leave_the_store` |
//! | a bad workflow is refused with place, reason and hint | `workflow_files::every_invalid_file_is_refused_at_the_place_with_the_reason_and_the_hint` |
//! | looking takes no lock and changes nothing | `store_lock::reading_needs_no_lock_and_changes_nothing`, `query::tests::looking_changes_nothing` |
//! | until an attempt is durable a signal changes nothing | `store_lock::signals_while_waiting_for_a_slot_leave_the_gate_open` |
//! | a listing reads only its page | `query::tests::a_page_does_not_read_what_is_behind_it` |
//! | each broken invariant is named by `fsck` | `fsck::tests::a_damaged_run_is_named` and its neighbours |
//! | the manual and the completions are what is generated | `generated_files` |
//! | the README and the example workflows work | `readme`, `examples` |
//! | the floors hold | `architecture` |
//!
//! The proofs run in a bounded form with the other tests. In full, as root (minutes):
//!
//! ```text
//! WFCTL_PROOF=full cargo test --test proof_kill --test proof_errors --test proof_disk --test proof_power \
//!     --test proof_model --test proof_garbage --test proof_process -- --nocapture
//! ```

pub mod cli;
pub mod domain;
pub mod engine;
pub mod process;
pub mod state;
pub mod store;
