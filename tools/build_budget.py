#!/usr/bin/env python3
"""Fails if one object of a build takes much longer to compile than the others, so that the whole build waits for it.

  tools/build_budget.py BUILD_FOLDER [--times N]    N: how many times the median an object may cost (12)

Times in ninja's log depend on what else the machine did. So the log only says which objects are suspects; each suspect
and a median object are compiled again, and their processor time decides.
"""
import argparse
import json
import os
import pathlib
import shlex
import subprocess
import sys
import tempfile

SUSPECTS = 3  # the slowest of the log that are measured


def logged_ms(build):
    """Object -> duration in ms, of the last time each was built."""
    times = {}
    for line in (build / ".ninja_log").read_text().splitlines():
        fields = line.split("\t")
        if len(fields) == 5 and fields[3].endswith((".cpp.o", ".cxx.o")):
            times[fields[3]] = int(fields[1]) - int(fields[0])
    return times


def commands_of(build):
    """Object -> its entry in compile_commands.json."""
    entries = {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        words = shlex.split(entry["command"])
        if "-o" in words:
            entries[words[words.index("-o") + 1]] = entry
    return entries


def cpu_seconds(entry):
    """CPU time of compiling one object again, into a temporary folder."""
    words = shlex.split(entry["command"])
    with tempfile.TemporaryDirectory() as folder:
        at = words.index("-o") + 1
        words[at] = os.path.join(folder, "object.o")
        before = os.times()
        subprocess.run(words, cwd=entry["directory"], check=True, env={**os.environ, "CCACHE_DISABLE": "1"})
        after = os.times()
    return (after.children_user - before.children_user) + (after.children_system - before.children_system)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--times", type=float, default=12)
    options = parser.parse_args()
    entries = commands_of(options.build)
    times = {name: ms for name, ms in logged_ms(options.build).items() if name in entries}
    if not times:
        sys.exit(f"build_budget.py: {options.build}/.ninja_log names no object; build first.")
    slowest = sorted(times, key=times.get)
    median = slowest[len(slowest) // 2]
    suspects = [name for name in slowest[-SUSPECTS:] if times[name] > options.times * times[median]]
    print(f"{len(times)} objects, median {times[median] / 1000:.1f} s, slowest {times[slowest[-1]] / 1000:.1f} s: "
          f"{slowest[-1]}")
    over = []
    if suspects:
        typical = cpu_seconds(entries[median])
        for name in suspects:
            cost = cpu_seconds(entries[name])
            print(f"{cost:.1f} s of processor time, {cost / typical:.1f} times a median object: {name}")
            if cost > options.times * typical:
                over.append(name)
    for name in over:
        print(f"build_budget.py: {name} costs more than {options.times:g} median objects; split it, or keep slow headers "
              "and templates out of it (docs/build.md).", file=sys.stderr)
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main())
