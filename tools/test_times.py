#!/usr/bin/env python3
"""Adds up what tests cost, by suite and by test.

  FASTKERNELS_TEST_TIMES=/tmp/times ctest --test-dir build/cpu-release -L fast
  tools/test_times.py /tmp/times [LINES]

Processor time is what counts on a machine that others use; the time that passed is beside it. Tests that share a process
are one line, named after the first of them (tests/main.cpp). Scripts are not among them.
"""
import collections
import sys


def rows_of(text):
    """(processor seconds, seconds that passed, name) of each test."""
    return [(float(cpu) / 1e3, float(passed) / 1e3, name)
            for cpu, passed, name in (line.split(maxsplit=2) for line in text.splitlines())]


def by_suite(rows):
    """Suite -> [processor seconds, seconds that passed, number of lines]."""
    suites = collections.defaultdict(lambda: [0.0, 0.0, 0])
    for cpu, passed, name in rows:
        total = suites[name.partition(".")[0]]
        total[0] += cpu
        total[1] += passed
        total[2] += 1
    return suites


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        rows = rows_of(file.read())
    most = int(sys.argv[2]) if len(sys.argv) > 2 else 40
    print(f"{sum(row[0] for row in rows):9.1f} s of processor time in {len(rows)} lines")
    print("\nprocessor s   passed s   lines  suite")
    for suite, (cpu, passed, lines) in sorted(by_suite(rows).items(), key=lambda item: -item[1][0])[:most]:
        print(f"{cpu:11.2f}{passed:11.2f}{lines:8d}  {suite}")
    print("\nprocessor s   passed s  test")
    for cpu, passed, name in sorted(rows, reverse=True)[:most]:
        print(f"{cpu:11.2f}{passed:11.2f}  {name}")


if __name__ == "__main__":
    main()
