#!/usr/bin/env python3
"""Runs clang-tidy over the sources a build compiles, leaving out those that were clean before and have not changed since.

  tools/lint.py BUILD_FOLDER [-j JOBS] [PATTERN...]    PATTERN: a regular expression on paths; ^src/ when not given

A file counts as unchanged while its text, that of every header of ours it includes, its compiler flags, .clang-tidy and
clang-tidy itself are the same; what was clean is remembered in BUILD_FOLDER/lint. Headers of the system are left out of
the comparison: `rm -r BUILD_FOLDER/lint` after changing them.
"""
import argparse
import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
TOGETHER = re.compile(r"/together/\w+_\d+\.cpp$")  # sources that are compiled as one (cmake/together.cmake)
INCLUDE = re.compile(rb'^[ \t]*#[ \t]*include[ \t]*"([^"]+)"', re.M)


def file_bytes(path, known={}):
    if path not in known:
        known[path] = path.read_bytes() if path.is_file() else None
    return known[path]


def include_folders(words, directory):
    """Where a command looks for headers: -Ix, -I x, -isystem x."""
    folders = []
    for word, following in zip(words, words[1:] + [""]):
        if word in ("-I", "-isystem"):
            folders.append(directory / following)
        elif word.startswith("-I"):
            folders.append(directory / word[2:])
    return folders


def texts_of(source, folders):
    """The source and every file it includes with quotation marks, directly or not, as path -> bytes."""
    texts, waiting = {}, [source]
    while waiting:
        path = waiting.pop()
        if path in texts:
            continue
        texts[path] = file_bytes(path)
        for name in INCLUDE.findall(texts[path]):
            candidates = [folder / os.fsdecode(name) for folder in [path.parent, *folders]]
            found = next((c for c in candidates if file_bytes(c) is not None), None)
            if found:
                waiting.append(found)
    return texts


def fingerprint(entry, source, common):
    digest = hashlib.sha256(common)
    words = shlex.split(entry["command"])
    digest.update("\0".join(words).encode())
    for path, text in sorted(texts_of(source, include_folders(words, pathlib.Path(entry["directory"]))).items()):
        digest.update(str(path).encode() + b"\0" + hashlib.sha256(text).digest())
    return digest.hexdigest()


def without_precompiled(entry):
    """The command without its precompiled header, which only GCC can read; a source that needs it lacks an include."""
    words = shlex.split(entry["command"])
    for at in reversed(range(len(words))):
        if words[at] == "-include" and words[at + 1].endswith("cmake_pch.hxx"):
            del words[at : at + 2]
    words = [word for word in words if word not in ("-Winvalid-pch", "-fpch-preprocess")]
    return {**entry, "command": shlex.join(words)}


def one_by_one(entries):
    """The commands with one for each source, where several are compiled as one."""
    for entry in entries:
        if not TOGETHER.search(entry["file"]):
            yield entry
            continue
        joined = pathlib.Path(entry["file"])
        for name in INCLUDE.findall(joined.read_bytes()):
            source = os.path.normpath(joined.parent / os.fsdecode(name))
            words = [source if word == entry["file"] else word for word in shlex.split(entry["command"])]
            yield {**entry, "file": source, "command": shlex.join(words)}


def findings(commands, source):
    """The output of clang-tidy for one file; empty if it is clean."""
    done = subprocess.run(["clang-tidy", "-p", str(commands), "-quiet", str(source)], cwd=ROOT, text=True,
                          errors="replace", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if done.returncode == 0 and not done.stdout.strip():
        return ""
    return done.stdout.strip() or done.stderr.strip() or f"clang-tidy ended with status {done.returncode}."


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("-j", "--jobs", type=int, default=os.cpu_count())
    parser.add_argument("patterns", nargs="*", default=["^src/"])
    options = parser.parse_intermixed_args()
    commands = options.build / "compile_commands.json"
    if not commands.is_file():
        sys.exit(f"lint.py: there is no {commands}; configure first, with cmake --preset {options.build.name}.")

    entries = {}
    for entry in map(without_precompiled, one_by_one(json.loads(commands.read_text()))):
        source = pathlib.Path(entry["directory"], entry["file"])
        if not source.is_relative_to(ROOT) or not source.is_file() or source.suffix != ".cpp":
            continue
        name = str(source.relative_to(ROOT))
        if any(re.search(pattern, name) for pattern in options.patterns):
            entries.setdefault(name, (entry, source))  # some are compiled into several programs: once is enough
    if not entries:
        sys.exit(f"lint.py: {commands} names no source that matches {' or '.join(options.patterns)}.")

    version = subprocess.run(["clang-tidy", "--version"], capture_output=True, check=True).stdout
    common = version + (ROOT / ".clang-tidy").read_bytes() + pathlib.Path(__file__).read_bytes()
    clean = options.build / "lint"
    clean.mkdir(exist_ok=True)
    rewritten = options.build / "lint_commands"
    rewritten.mkdir(exist_ok=True)
    (rewritten / "compile_commands.json").write_text(json.dumps([entry for entry, _ in entries.values()]))
    marks = {name: fingerprint(entry, source, common) for name, (entry, source) in entries.items()}
    kept = {mark.name for mark in clean.iterdir()}
    changed = [name for name in sorted(entries) if marks[name] not in kept]
    print(f"lint: {len(changed)} of {len(entries)} sources to look at, the others are as they were", flush=True)

    bad, begin = 0, time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        waiting = {pool.submit(findings, rewritten, entries[name][1]): name for name in changed}
        for number, done in enumerate(concurrent.futures.as_completed(waiting), 1):
            name, text = waiting[done], done.result()
            if text:
                bad += 1
                print(f"\n{name}\n{text}", flush=True)
            else:
                (clean / marks[name]).touch()
            if sys.stdout.isatty():
                print(f"\r[{number}/{len(changed)}] {time.monotonic() - begin:.0f} s ", end="", flush=True)
    print(f"lint: {bad} of {len(changed)} sources have findings ({time.monotonic() - begin:.0f} s)")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
