"""What `make test` leaves to `make test-all`, and why.

`make test` shows every promise once, on a machine that has only Python, make and git, in at most five minutes on two
cores. It leaves out long loops (marked `soak`), the tests listed here, and tests that start the program or a sandbox
without being named by a row of acceptance/rows.toml. `tests/test_acceptance.py` checks that every row keeps a test in
`make test`, unless all its tests need another program.
"""

import ast
import functools
import tomllib
from collections.abc import Collection
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ROWS = ROOT / "acceptance" / "rows.toml"

NEEDS = {
    "tests/fleet": "PostgreSQL",
    "tests/acceptance/test_browser.py": "Chromium",
    "tests/server/test_dashboard.py": "Chromium",
    "tests/server/test_pages.py": "Chromium",
    "tests/server/test_pages_seen.py": "Chromium",
    "tests/server/service/test_systemd.py": "systemd",
}
"""A folder or file → the program that a newcomer's machine does not have."""

LONG = {
    "tests/acceptance/test_acp.py": """
        test_a_turn_that_loses_its_editor_is_gone_on_with
        test_prompts_bring_words_data_and_files_and_nothing_from_outside
    """,
    "tests/acceptance/test_conversations.py": """
        test_the_small_model_names_it_once_and_a_name_by_hand_stays
    """,
    "tests/acceptance/test_git_remotes.py": """
        test_fetch_pull_and_push_over_http
    """,
    "tests/acceptance/test_managed.py": """
        test_what_is_broken_stops_the_program
    """,
    "tests/acceptance/test_mcp.py": """
        test_a_changed_tool_is_off_and_said_everywhere
        test_serve_runs_calls_behind_the_same_gate
        test_supervised_asks_and_nobody_is_no
        test_the_menu_has_prompts_of_servers_with_their_arguments
    """,
    "tests/acceptance/test_modes.py": """
        test_12_a_mode_of_the_operator_counts_after_init
    """,
    "tests/acceptance/test_replay_tasks.py": """
        test_killed_between_a_calls_intent_and_its_receipt
    """,
    "tests/acceptance/test_spec.py": """
        test_many_writers_lose_nothing
    """,
    "tests/acceptance/test_start.py": """
        test_10_the_home_and_the_root_are_no_workspace_of_any_command
        test_13_what_is_explained_is_what_a_run_decides
    """,
    "tests/acceptance/test_stop_and_limits.py": """
        test_a_signal_ends_the_run_with_no_child_left
    """,
    "tests/acceptance/test_surprises.py": """
        test_14_a_command_without_network_names_the_setting_and_registries_are_offered
        test_17_one_limit_for_every_result_and_read_pages_the_whole
    """,
    "tests/acceptance/test_tasks.py": """
        test_a_script_that_misbehaves_does_no_harm
        test_each_demo_skill_runs_on_each_wire
    """,
    "tests/bench/test_run.py": """
        test_an_idle_and_a_cheating_model_pass_nothing_and_see_no_check
        test_an_interrupted_bench_continues_with_the_same_file
    """,
    "tests/bench/test_tasks.py": """
        test_checks_tell_right_from_wrong
        test_tests_that_only_count_how_often_they_were_run_find_nothing
        test_what_no_check_can_copy_neither_ends_it_nor_changes_what_it_says
    """,
    "tests/terminal/commands/test_plain.py": """
        test_the_usual_command_lines_of_agent_are_plain
    """,
    "tests/models/credentials/test_oauth.py": """
        test_the_browsers_answer_is_refused
    """,
    "tests/models/credentials/test_vault.py": """
        test_a_header_cannot_be_weakened
    """,
    "tests/flows/test_agentfile_language.py": """
        test_a_file_that_is_made_to_hold_us_up_is_done_with_in_seconds
    """,
    "tests/flows/test_sdlc_replaced.py": """
        test_honest_tests_are_never_turned_back
    """,
    "tests/policy/test_corpus.py": """
        test_denied_in_supervised
        test_harmless_commands_are_not_denied
    """,
    "tests/policy/test_differential.py": """
        test_bash_does_with_the_text_what_it_does_with_the_plan
        test_what_stands_in_a_process_substitution_is_compared_too
    """,
    "tests/policy/test_guards.py": """
        test_hostile_sizes_are_denied_soon
    """,
    "tests/policy/test_rules.py": """
        test_gitignore_as_pathspec_has_it
    """,
    "tests/policy/test_scenarios.py": """
        test_a_profile_decides_whatever_the_autonomy
        test_nobody_to_ask_is_a_denial
    """,
    "tests/policy/test_shell.py": """
        test_any_text_gives_a_plan_or_raw
        test_bash_sees_accepted_soup_as_we_do
        test_bash_sees_the_plan_as_it_sees_the_text
    """,
    "tests/tools/mcp/test_servers.py": """
        test_a_changed_tool_is_off_until_it_is_approved
        test_a_loss_that_is_found_twice_leaves_the_next_connection_alone
        test_a_question_goes_to_the_operator
        test_one_that_dies_in_a_call_is_started_again
        test_one_that_was_lost_takes_its_leave_beside_the_next
    """,
    "tests/models/providers/oracle/test_openai_responses.py": """
        test_requests_fit_the_types_and_come_out_of_the_sdk_as_they_went_in
    """,
    "tests/models/providers/test_anthropic_reply.py": """
        test_cut_in_two_at_every_byte_the_answer_is_the_same
    """,
    "tests/models/providers/test_gemini_reply.py": """
        test_cut_at_every_byte_the_answer_is_the_same
    """,
    "tests/models/providers/test_openai_corpus.py": """
        test_cut_in_two_at_every_byte_the_events_are_the_same
        test_in_pieces_of_any_size_it_says_the_same
    """,
    "tests/sandbox/test_confinement.py": """
        test_no_way_out_for_a_normal_user
    """,
    "tests/sandbox/test_process.py": """
        test_nothing_outlives_a_killed_program
    """,
    "tests/sandbox/test_protected_paths.py": """
        test_no_other_command_changes_what_is_there_and_the_rest_is_reported
    """,
    "tests/flows/schedules/test_year.py": """
        test_a_year_is_begun_exactly_as_the_oracle_says
    """,
    "tests/server/test_attach.py": """
        test_a_window_on_a_conversation_that_goes_on_without_it
    """,
    "tests/storage/test_anchors.py": """
        test_the_script_agrees_on_every_broken_log
    """,
    "tests/core/test_decode_plain.py": """
        test_the_plain_check_takes_nothing_that_pydantic_would_not
    """,
    "tests/test_packages.py": """
        test_completion_completes_in_its_shell
        test_the_wheel_has_every_file_of_the_package_and_nothing_else
        test_what_is_read_before_any_command_is_completed
    """,
    "tests/test_program.py": """
        test_a_skip_is_a_failure_where_all_is_required
    """,
    "tests/test_second_run.py": """
        test_these_count_at_once
        test_up_to_three_that_pass_then_are_named_in_both_reports
    """,
    "tests/test_supply_chain.py": """
        test_the_scripts_of_ci_find_nothing
    """,
    "tests/test_workflows.py": """
        test_a_container_without_namespaces_runs_commands_only_where_landlock_is_accepted
        test_a_workflow_of_others_reports_through_nothing_that_the_agent_planted
        test_a_workflow_of_others_runs_an_agentfile_within_a_budget_and_reports
    """,
    "tests/tools/test_hostile_repository.py": """
        test_git_runs_no_program_that_a_repository_names
        test_so_do_those_of_a_repository_within
    """,
    "tests/tools/test_media.py": """
        test_a_pdf_that_is_asked_for_what_it_has_not
    """,
    "tests/tools/test_shell.py": """
        test_a_flood_ends_with_the_time_limit_and_is_not_kept
        test_a_repositorys_own_configuration_runs_nothing
    """,
    "tests/agent/view/test_plots.py": """
        test_a_long_run_is_no_larger_a_picture
    """,
    "tests/sandbox/workspace/test_watches.py": """
        test_more_changes_than_the_kernel_keeps_are_found_all_the_same
    """,
}
"""Tests that took over a second of CPU when measured. Each row that names one of them keeps another test."""

STARTING_FIXTURES = {"bench", "box", "browser", "bubble", "cli", "farm", "serve", "site", "tab", "world"}
STARTING_FOLDERS = ("tests/acceptance/", "tests/security/")
"""Fixtures and folders of tests that start the program or a sandbox."""


def reason(node: str, fixtures: Collection[str] = ()) -> str:
    """Why `make test` leaves out this test, file or folder; empty if it does not."""
    test = node.partition("[")[0]
    path, _, name = test.partition("::")
    parents = [path[:end] for end, letter in enumerate(path) if letter == "/"]
    needed = next((NEEDS[place] for place in (path, *parents) if place in NEEDS), "")
    if needed:
        return f"needs {needed}"
    if name and (name in LONG.get(path, "").split() or name in long_loops(path)):
        return "takes long"
    starts = path.startswith(STARTING_FOLDERS) or not STARTING_FIXTURES.isdisjoint(fixtures)
    if name and starts and test not in tests_of_rows():
        return "starts the program, and no acceptance row names it"
    return ""


@functools.cache
def long_loops(path: str) -> frozenset[str]:
    """The tests of a file that are marked `soak`."""
    file = ROOT / path
    text = file.read_text(encoding="utf-8") if file.is_file() else ""
    if "mark.soak" not in text:
        return frozenset()
    functions = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    return frozenset(
        one.name for one in functions if any("mark.soak" in ast.unparse(mark) for mark in one.decorator_list)
    )


@functools.cache
def tests_of_rows() -> frozenset[str]:
    """The tests that acceptance rows name, without their parameters."""
    rows = tomllib.loads(ROWS.read_text(encoding="utf-8")).values()
    checks = (check if isinstance(check, str) else check["run"] for row in rows for check in row.get("shows", ()))
    return frozenset(check.partition("[")[0] for check in checks if check.startswith("tests/"))
