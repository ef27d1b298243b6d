#!/usr/bin/env python3
"""What tools/run_tests.sh runs again, and that it hides no failure."""
import pathlib
import subprocess
import sys
import tempfile

script = pathlib.Path(sys.argv[1]) / "tools/run_tests.sh"


def run(*runs):
    """Exit status and output of the last of some runs in one folder, each the tests of ctest as name: shell command."""
    with tempfile.TemporaryDirectory() as folder:
        for tests in runs:
            lines = [f'add_test("{name}" "sh" "-c" "{command}")' for name, command in tests.items()]
            (pathlib.Path(folder) / "CTestTestfile.cmake").write_text("\n".join(lines))
            done = subprocess.run([script, folder, "2"], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  check=False, timeout=120)
        return done.returncode, done.stdout


SECOND_TIME = "test -e seen || { touch seen; exit 1; }"

code, output = run({"Good": "true"})
assert code == 0 and "1 tests passed, 0 tests failed" in output and "Once more" not in output, output

code, output = run({"Good": "true", "Disturbed": SECOND_TIME})
assert code == 0 and "UNSTABLE Disturbed: failed among others, passed alone" in output, output
assert "1 tests passed, 1 tests failed" in output, output  # the first run is not hidden

code, output = run({"Good": "true", "Bad": "false"})
assert code != 0 and "Once more, one at a time: Bad" in output and "UNSTABLE" not in output, output

code, output = run({"Timed/Cheats.GetTheirVerdict/one": SECOND_TIME})
assert code != 0 and "Once more" not in output, output

code, output = run({f"Bad{i}": "false" for i in range(6)})
assert code != 0 and "Once more" not in output, output

# What failed in an earlier run says nothing about a ctest that was killed.
code, output = run({"Disturbed": SECOND_TIME}, {"Disturbed": SECOND_TIME, "Kills": "kill -9 $PPID"})
assert code != 0 and "Once more" not in output and "UNSTABLE" not in output, output

code, output = run({})
assert code != 0 or "No tests were found" in output, output
