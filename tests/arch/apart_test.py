#!/usr/bin/env python3
"""Tests of one entry of ctest run in processes of their own, and none hides another: tests/main.cpp, the entries that
write_entries.py makes, and what tools/count_tests.py counts."""
import importlib.util
import pathlib
import re
import subprocess
import sys
import tempfile

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

with tempfile.TemporaryDirectory() as folder:
    out = pathlib.Path(folder) / "entries.cmake"

    def entries(size, text_filter):
        subprocess.run([sys.executable, f"{source}/tests/write_entries.py", out, str(size), "arch/", text_filter,
                        "LABELS fast", "--", program], check=True)
        found = re.findall(r"^add_test\(\[==\[(.*?)\]==\] (.*)\)$", out.read_text(), flags=re.M)
        return {name: re.findall(r"\[==\[(.*?)\]==\]", words) for name, words in found}

    grouped = entries(20, "*-*.Fails:*.Crashes:*.Ends*")
    assert list(grouped) == ["arch/Sample", "arch/All/Many.1of3", "arch/All/Many.2of3", "arch/All/Many.3of3"], grouped
    total = 0
    for command in grouped.values():
        done = subprocess.run(command, text=True, stdout=subprocess.PIPE, check=True)
        total += sum(int(n) for n in re.findall(r"passed (\d+), skipped (\d+)", done.stdout)[0])
    assert total == 53, total
    assert len(entries(1, "Sample.*")) == 6

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
