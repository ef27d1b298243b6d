#!/usr/bin/env python3
"""tools/build_budget.py names an object that takes too long, by its CPU time rather than the log."""
import json
import pathlib
import shlex
import subprocess
import sys
import tempfile

TOOL = pathlib.Path(__file__).resolve().parent.parent.parent / "tools" / "build_budget.py"


def run(logged_ms, work):
    """The tool's exit code and errors for objects with these times in the log and this much work to compile."""
    with tempfile.TemporaryDirectory() as folder:
        build = pathlib.Path(folder)
        lines = ["# ninja log v5"] + [f"0\t{ms}\t0\t{name}.cpp.o\tx" for name, ms in logged_ms.items()]
        (build / ".ninja_log").write_text("\n".join(lines) + "\n")
        entries = []
        for name in logged_ms:
            compiler = shlex.join([sys.executable, "-c", f"for i in range({work[name]}): pass", "-o", f"{name}.cpp.o"])
            entries.append({"directory": folder, "command": compiler, "file": f"{name}.cpp"})
        (build / "compile_commands.json").write_text(json.dumps(entries))
        done = subprocess.run([sys.executable, TOOL, folder, "--cores", "4"], capture_output=True, text=True)
        return done.returncode, done.stderr


def main():
    even = {name: 100 + 10 * i for i, name in enumerate("abcdefgh")}
    little, much = 100, 30_000_000
    assert run(even, dict.fromkeys(even, little)) == (0, ""), "an even build passes"
    slow = {**even, "slow": 5000}
    code, errors = run(slow, {**dict.fromkeys(even, little), "slow": much})
    assert code == 1 and "slow.cpp.o costs more than 1/4 of the build" in errors, errors
    assert run(slow, dict.fromkeys(slow, little)) == (0, ""), "a busy machine is not the object's fault"
    code, errors = run({}, {})
    assert code == 1 and "build first" in errors, errors


if __name__ == "__main__":
    main()
