#!/usr/bin/env python3
"""Tests of one entry of ctest run in processes of their own, and none hides another: tests/main.cpp, the entries that
write_entries.py makes, and what tools/count_tests.py counts."""
import importlib.util
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

program, source = sys.argv[1:3]


def module(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


def run(*arguments):
    done = subprocess.run([program, "--apart", *arguments], text=True, stdout=subprocess.PIPE, check=False)
    return done.returncode, done.stdout


code, output = run("--gtest_filter=Sample.*")
assert code == 1, output
assert output.endswith("passed 2, skipped 1, failed 3\n"), output
for line in ("Sample.Crashes crashed: Aborted", "Sample.EndsTheProgram was not run", "Sample.Fails failed with exit code 1",
             "what it says", "for a reason"):
    assert line in output, (line, output)

# Exactly the tests of the filter, each in one part.
assert run("--gtest_filter=Sample.P*:Sample.See*") == (0, "passed 2, skipped 0, failed 0\n")
assert run("--gtest_filter=Sample.*-*.C*:*.E*:*.F*:*.I?Skipped") == (0, "passed 2, skipped 0, failed 0\n")
assert [run("--gtest_filter=All/Many.*", f"--part={i}/3")[1].split(",")[0] for i in range(3)] == \
    ["passed 17", "passed 17", "passed 16"]
for part in ("0/0", "3/3", "x", "1/3x", "-1/3"):
    done = subprocess.run([program, "--apart", "--gtest_filter=Sample.P*", f"--part={part}"], text=True, capture_output=True,
                          check=False, timeout=120)
    assert done.returncode == 2 and "--part" in done.stderr, (part, done)
assert run("--gtest_filter=None.*")[0] == 1, "a filter that selects nothing must not pass"

# Tests of one subject share a process, and still none hides another.
assert run("--together", "--gtest_filter=All/SharedSubjects.*") == (0, "passed 4, skipped 0, failed 0\n")
assert run("--gtest_filter=All/SharedSubjects.*")[1].endswith("passed 2, skipped 0, failed 2\n")
for i in range(2):
    assert run("--together", "--gtest_filter=All/SharedSubjects.*", f"--part={i}/2") == (0, "passed 2, skipped 0, failed 0\n")
code, output = run("--together", "--gtest_filter=All/Subjects.*")
assert code == 1 and output.endswith("passed 5, skipped 1, failed 2\n"), output
assert "\n[  FAILED  ] All/Subjects.Second/dies_by_x crashed: Aborted\n" in output, output
assert "\n[  FAILED  ] All/Subjects.First/left or one of the 1 others" in output, output
code, output = run("--together", "--gtest_filter=Sample.*")
assert code == 1 and output.endswith("passed 2, skipped 1, failed 3\n"), output

with tempfile.TemporaryDirectory() as folder:
    times = pathlib.Path(folder) / "times"
    subprocess.run([program, "--apart", "--gtest_filter=Sample.P*:Sample.See*"], check=True, stdout=subprocess.DEVNULL,
                   env=dict(os.environ, FASTKERNELS_TEST_TIMES=str(times)))
    assert re.fullmatch(r"([0-9.]+ [0-9.]+ Sample\.\w+\n){2}", times.read_text()), times.read_text()
    test_times = module(pathlib.Path(source) / "tools/test_times.py")
    assert [name for _, _, name in test_times.rows_of(times.read_text())] == ["Sample.Passes", "Sample.SeesNothingOfTheOthers"]
    assert dict(test_times.by_suite([(1, 2, "A.B"), (3, 4, "A.C/x and others"), (5, 6, "D/E.F")])) == {"A": [4, 6, 2], "D/E": [5, 6, 1]}

with tempfile.TemporaryDirectory() as folder:
    out = pathlib.Path(folder) / "entries.cmake"

    def entries(size, text_filter):
        subprocess.run([sys.executable, f"{source}/tests/write_entries.py", out, str(size), "arch/", text_filter,
                        "LABELS fast", "--", program], check=True)
        found = re.findall(r"^add_test\(\[==\[(.*?)\]==\] (.*)\)$", out.read_text(), flags=re.M)
        return {name: re.findall(r"\[==\[(.*?)\]==\]", words) for name, words in found}

    grouped = entries(20, "*-*.Fails:*.Crashes:*.Ends*:Waits.*:All/S*")
    assert list(grouped) == ["arch/Sample", "arch/All/Many.1of3", "arch/All/Many.2of3", "arch/All/Many.3of3"], grouped
    total = 0
    for command in grouped.values():
        done = subprocess.run(command, text=True, stdout=subprocess.PIPE, check=True)
        total += sum(int(n) for n in re.findall(r"passed (\d+), skipped (\d+)", done.stdout)[0])
    assert total == 53, total
    assert len(entries(1, "Sample.*")) == 6
    # No more entries than subjects: one without a test fails.
    for size, names in ((1, [".1of1"]), (2, [".1of2", ".2of2"]), (9, [".1of2", ".2of2"])):
        shared = entries(f"together-{size}", "All/SharedSubjects.*")
        assert list(shared) == ["arch/" + name for name in names], shared
        outputs = [subprocess.run(command, text=True, stdout=subprocess.PIPE, check=True).stdout for command in shared.values()]
        assert sum(int(re.match(r"passed (\d+), skipped 0", output)[1]) for output in outputs) == 4, outputs

# A program that is killed leaves its folder in memory; the next one removes it, and none that is in use.
with tempfile.TemporaryDirectory() as folder:
    says = pathlib.Path(folder) / "says"
    environment = {k: v for k, v in os.environ.items() if k != "TMPDIR"}

    def waiting():
        says.unlink(missing_ok=True)
        process = subprocess.Popen([program, "--apart", "--gtest_filter=Waits.*"], env=dict(environment, SAMPLE_SAYS=str(says)),
                                   stdout=subprocess.DEVNULL)
        while not (says.exists() and says.read_text().endswith("\n")):
            assert process.poll() is None
            time.sleep(0.01)
        return process, pathlib.Path(says.read_text().strip())

    def end(process):
        process.kill()
        process.wait()

    def gone(path):  # the test that was forked ends soon after its program, and has the lock until then
        for _ in range(1000):
            subprocess.run([program, "--apart", "--gtest_filter=Sample.Passes"], env=environment, check=True, stdout=subprocess.DEVNULL)
            if not path.exists():
                return True
            time.sleep(0.02)
        return False

    first, left = waiting()
    if str(left) != ".":  # where temporary files are in memory at all
        (left / "file").write_text("text")
        end(first)
        assert left.exists()
        second, used = waiting()
        assert gone(left) and used.exists()
        folder_of_a_script = subprocess.run(
            [sys.executable, "-c", "import memory_folder, os; print(os.environ['TMPDIR']); os.kill(os.getpid(), 9)"],
            cwd=f"{source}/tests", env=environment, text=True, stdout=subprocess.PIPE, check=False).stdout.strip()
        assert used.exists()
        if folder_of_a_script:
            assert gone(pathlib.Path(folder_of_a_script))
        end(second)
        assert gone(used)
    else:
        end(first)

    # Where no folder can be made there, scripts do without.
    no_room = "import os, tempfile\ndef full(**_): raise OSError(28, 'full')\ntempfile.mkdtemp = full\nimport memory_folder"
    subprocess.run([sys.executable, "-c", no_room], cwd=f"{source}/tests", env=environment, check=True)

counts = module(pathlib.Path(source) / "tools/count_tests.py").counts
log = """Start testing
1/3 Testing: arch/Sample
passed 2, skipped 1, failed 3
Test Failed.
2/3 Testing: Script
text
Test Passed.
3/3 Testing: Killed
Test Failed.
"""
assert counts(log) == [3, 1, 4], counts(log)
# Neither a program that crashes after its last test nor one that is not built counts as passed.
assert counts("1/1 Testing: Suite\npassed 2, skipped 0, failed 0\nTest Failed.\n") == [2, 0, 1]
assert counts("1/1 Testing: Suite\npassed 2, skipped 0, failed 0\nTest Passed.\n") == [2, 0, 0]
assert counts("1/1 Testing: Suite\npassed 0, skipped 1, failed 0\nTest Pass Reason:\n") == [0, 1, 0]
assert counts('1/1 Testing: NotBuilt\nCommand: ""\nTest Passed.\n') == [0, 0, 1]
# A script that ended with its SKIP_RETURN_CODE "passed" in ctest's log.
assert counts("1/1 Testing: Script\nskipped: no PyPI\nTest Passed.\n") == [0, 1, 0]
assert counts("1/1 Testing: Script\nskipped: no PyPI\nTest Failed.\n") == [0, 0, 1]
assert counts("1/1 Testing: Script\nRan 1 test in 0.1s\n\nOK (skipped=1)\nTest Passed.\n") == [0, 1, 0]
assert counts("1/1 Testing: Script\nRan 2 tests in 0.1s\n\nOK (skipped=1)\nTest Passed.\n") == [1, 0, 0]
for script in re.findall(r'"\$\{CMAKE_CURRENT_SOURCE_DIR\}/(\S+)"[^()]*\)\s*set_tests_properties\([^()]*SKIP_RETURN_CODE',
                         pathlib.Path(source, "tests/CMakeLists.txt").read_text()):
    assert "skipped: " in pathlib.Path(source, "tests", script).read_text(), f"{script} does not say that it was skipped"
