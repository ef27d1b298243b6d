#!/usr/bin/env python3
"""Says how many tests the last run of ctest was: one entry of ctest may be a whole suite (tests/main.cpp).

  tools/count_tests.py BUILD_FOLDER
"""
import pathlib
import re
import sys


def failed_whole(entry):
    """Whether ctest calls an entry failed, whatever its tests say. What it could not start has no command, and the log
    says that it passed."""
    return bool(re.search(r'^(Test Failed\.|Command: "")$', entry, flags=re.M))


def skipped_whole(entry):
    """Whether a script did nothing. ctest's log says that one which ends with its SKIP_RETURN_CODE passed, so what it
    prints decides: a line that begins with "skipped: ", or unittest's summary."""
    if re.search(r"^skipped: ", entry, flags=re.M):
        return True
    ran, left_out = (re.findall(pattern, entry, flags=re.M) for pattern in (r"^Ran (\d+) tests? in", r"^OK \(skipped=(\d+)\)$"))
    return bool(ran) and ran == left_out


def counts(log):
    """Passed, skipped and failed tests of a LastTest.log."""
    total = [0, 0, 0]
    for entry in re.split(r"^\d+/\d+ Testing: ", log, flags=re.M)[1:]:
        own = re.findall(r"^passed (\d+), skipped (\d+), failed (\d+)$", entry, flags=re.M)
        if own:
            numbers = [int(n) for n in own[-1]]
            if failed_whole(entry):
                numbers[2] = max(numbers[2], 1)  # also where it crashed after its last test
        elif failed_whole(entry):
            numbers = [0, 0, 1]
        elif skipped_whole(entry):
            numbers = [0, 1, 0]
        else:  # a script, or a program that was killed
            numbers = [int(bool(re.search(rf"^Test {word}\.", entry, flags=re.M))) for word in ("Passed", "Skipped")]
            numbers.append(1 - sum(numbers))
        total = [a + b for a, b in zip(total, numbers)]
    return total


def main():
    log = (pathlib.Path(sys.argv[1]) / "Testing/Temporary/LastTest.log").read_text(errors="replace")
    passed, skipped, failed = counts(log)
    print(f"{passed} tests passed" + (f", {skipped} skipped" if skipped else "") + f", {failed} tests failed")


if __name__ == "__main__":
    main()
