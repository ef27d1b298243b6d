#!/usr/bin/env bash
# Runs ctest and says how many tests there were. Tests that failed are run once more, one at a time: some of them measure,
# and other programs may have disturbed them. What then passes is named, so that nobody overlooks it. Two things are never
# run again: exploits, because a cheat that was accepted once is a hole, and more than five failures.
#
#   tools/run_tests.sh BUILD_FOLDER JOBS [ARGUMENT_OF_CTEST ...]
set -uo pipefail
cd "$(dirname "$0")/.."
build=$1 jobs=$2
shift 2

failures=$build/Testing/Temporary/LastTestsFailed.log
rm -f "$failures"  # of an earlier run: a ctest that is killed writes none
ctest --test-dir "$build" -j "$jobs" --output-on-failure "$@"
status=$?
tools/count_tests.py "$build"
[ $status -eq 0 ] && exit 0

failed=$(sed -n 's/^[0-9]*://p' "$failures" 2>/dev/null)
[ -n "$failed" ] || exit $status
if [ "$(wc -l <<<"$failed")" -gt 5 ] || grep -qE '(Cheats|Honest|SelfAttack|PlantedErrors)' <<<"$failed"; then exit $status; fi

echo "Once more, one at a time: $(tr '\n' ' ' <<<"$failed")"
ctest --test-dir "$build" -j 1 --output-on-failure --rerun-failed || exit $?
tools/count_tests.py "$build"
while read -r name; do echo "UNSTABLE $name: failed among others, passed alone"; done <<<"$failed"
