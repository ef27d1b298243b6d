#!/usr/bin/env python3
"""Writes what ctest runs of one test program, after it was linked.

  write_entries.py OUT TESTS_PER_ENTRY PREFIX FILTER PROPERTIES -- PROGRAM...

A fast suite is one entry, or several where it has many tests, because starting a program costs more than most tests;
with TESTS_PER_ENTRY = 1 each test is an entry. Every test still runs in a process of its own (tests/main.cpp), but for
TESTS_PER_ENTRY = together-N: then tests of one operator or model share a process, in N entries that are named PREFIX.
"""
import pathlib
import re
import subprocess
import sys


def suites_of(listing):
    """Suite -> its tests, from the output of --gtest_list_tests."""
    suites = {}
    for line in listing.splitlines():
        name = line.split("#")[0].rstrip()
        if name.startswith("  "):
            tests.append(name.strip())
        elif re.fullmatch(r"\S+\.", name):
            tests = suites.setdefault(name[:-1], [])
    return suites


def subject_of(test):
    """As in main.cpp."""
    return test.rpartition("/")[2].partition("_by_")[0]


def entries_together(suites, parts, text_filter):
    """(name, arguments) of each entry."""
    parts = min(parts, len({subject_of(test) for tests in suites.values() for test in tests}))
    for part in range(parts):
        yield f".{part + 1}of{parts}", [f"--gtest_filter={text_filter}", "--together", f"--part={part}/{parts}"]


def entries_of(suites, size, text_filter):
    """(name, arguments) of each entry."""
    unwanted = text_filter.partition("-")[2]
    for suite, tests in suites.items():
        if size == 1:
            for test in tests:
                yield f"{suite}.{test}", [f"--gtest_filter={suite}.{test}"]
            continue
        arguments = [f"--gtest_filter={suite}.*" + (f"-{unwanted}" if unwanted else "")]
        parts = -(-len(tests) // size)
        for part in range(parts):
            name = suite if parts == 1 else f"{suite}.{part + 1}of{parts}"
            yield name, arguments + ([f"--part={part}/{parts}"] if parts > 1 else [])


def quoted(word):
    return f"[==[{word}]==]"


def main():
    out, size, prefix, text_filter, properties = sys.argv[1:6]
    program = sys.argv[7:]
    listed = subprocess.run(program + ["--gtest_list_tests", f"--gtest_filter={text_filter}"], check=True, text=True,
                            stdout=subprocess.PIPE)
    suites = suites_of(listed.stdout)
    if size.startswith("together-"):
        entries = entries_together(suites, int(size.removeprefix("together-")), text_filter)
    else:
        entries = entries_of(suites, int(size), text_filter)
    lines = []
    for name, arguments in entries:
        words = " ".join(quoted(word) for word in program + ["--apart"] + arguments)
        lines.append(f"add_test({quoted(prefix + name)} {words})")
        lines.append(f"set_tests_properties({quoted(prefix + name)} PROPERTIES {properties})")
    pathlib.Path(out).write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
