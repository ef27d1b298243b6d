#!/usr/bin/env python3
"""Fails if one object of a build takes so long to compile that a machine with many cores waits for it alone.

  tools/build_budget.py BUILD_FOLDER [--cores N]    N cores: no object may cost more than 1/N of the whole build (16)

Times in ninja's log depend on what else the machine did, and on ccache. So the log only says which objects are suspects;
the suspects and a sample of all objects are compiled again, and their CPU time decides.
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
SAMPLE = 16   # objects whose mean cost stands for that of all


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


def spread(names, count):
    """`count` of the names, at equal distances."""
    return [names[(2 * i + 1) * len(names) // (2 * count)] for i in range(min(count, len(names)))]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--cores", type=int, default=16)
    options = parser.parse_args()
    entries = commands_of(options.build)
    times = {name: ms for name, ms in logged_ms(options.build).items() if name in entries}
    if not times:
        sys.exit(f"build_budget.py: {options.build}/.ninja_log names no object; build first.")
    slowest = sorted(times, key=times.get)
    total = sum(times.values())
    print(f"{len(times)} objects, {total / 1000:.0f} s in all, slowest {times[slowest[-1]] / 1000:.1f} s: {slowest[-1]}")
    suspects = [name for name in slowest[-SUSPECTS:] if times[name] * options.cores > total]
    over = []
    if suspects:
        costs = [cpu_seconds(entries[name]) for name in spread(slowest, min(SAMPLE, len(slowest)))]
        total = sum(costs) / len(costs) * len(times)
        for name in suspects:
            cost = cpu_seconds(entries[name])
            print(f"{cost:.1f} s of CPU time, {100 * cost / total:.1f} % of the build's {total:.0f} s: {name}")
            if cost * options.cores > total:
                over.append(name)
    for name in over:
        print(f"build_budget.py: {name} costs more than 1/{options.cores} of the build; split it, or keep slow headers and "
              "templates out of it (docs/build.md).", file=sys.stderr)
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main())
