"""What users install works away from the sources: `make install`, the tarball, the wheel, and the workflow for GitHub.

Usage: package_test.py BUILD_FOLDER SOURCE_FOLDER [TestCase...]
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import textwrap
import unittest
import venv

BUILD, SOURCE = (pathlib.Path(p).resolve() for p in sys.argv[1:3])


def run(*command, **options):
    return subprocess.run([str(c) for c in command], capture_output=True, text=True, **options)


def quietly(*command, **options):
    result = run(*command, **options)
    assert result.returncode == 0, f"{command} failed:\n{result.stdout[-3000:]}\n{result.stderr[-3000:]}"
    return result.stdout


def hiding_the_sources():
    """The beginning of a command that runs the rest where the source tree is an empty folder; empty where that cannot be
    done (no namespaces for this user)."""
    for flags in (["-m"], ["-rm"]):
        script = 'mount -t tmpfs none "$0" && exec "$@"'
        command = ["unshare", *flags, "sh", "-c", script, str(SOURCE)]
        if shutil.which("unshare") and run(*command, "true").returncode == 0:
            return command
    return []


class InFolder(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="fk_package_"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder / "home"),
            "FASTKERNELS_CONFIG": "",
        }

    def use(self, program, examples, alone):
        """A new user's first commands, in an empty folder."""
        work = self.folder / "work"
        work.mkdir()

        def call(*arguments, **more):
            result = run(*alone, program, *arguments, cwd=work, env={**self.environment, **more})
            self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
            return result.stdout

        self.assertIn("rms_norm", call("list", "--level", "1"))
        self.assertIn("rms_norm.cpp written", call("create-stubs", "--target", "rms_norm"))
        quick = ["--filter", "decode-1", "--num-runs", "5", "--launches", "1", "--json"]
        stub = json.loads(call("kernels", "--target", "rms_norm", *quick))
        self.assertTrue(stub["results"], stub)
        for row in stub["results"]:
            self.assertEqual(row["verdict"], "PASSED", row)
        example = call("kernels", "--target", "silu_and_mul", *quick, FASTKERNELS_CANDIDATE_DIR=str(examples))
        self.assertIn("PASSED", example)
        self.assertIn("kernels rms_norm", call("history"))


class Install(InFolder):
    def test_every_part_has_its_place(self):
        quietly("cmake", "--install", BUILD, "--prefix", "/usr/local", env={**os.environ, "DESTDIR": str(self.folder)})
        prefix = self.folder / "usr/local"
        for name in (
            "bin/fastkernels",
            "bin/fastkernels-runner",
            "bin/kb_nano",
            "include/fastkernels/candidate.h",
            "include/fastkernels/tracking.h",
            "share/bash-completion/completions/fastkernels",
            "share/bash-completion/completions/kb_nano",
            "share/zsh/site-functions/_fastkernels",
            "share/fish/vendor_completions.d/fastkernels.fish",
            "share/man/man1/fastkernels.1",
            "share/man/man1/kb_nano.1",
            "share/fastkernels/examples/L1/rms_norm.cpp",
            "share/fastkernels/suites/ttft-tiny.yaml",
            "share/doc/fastkernels/LICENSE",
        ):
            self.assertTrue((prefix / name).exists(), name)
        page = (prefix / "share/man/man1/fastkernels.1").read_text()
        self.assertIn("(ti/.local/share/fastkernels/history.db", page)  # ~, not the home of who built it
        self.assertEqual(quietly(prefix / "bin/kb_nano", "--version"), quietly(BUILD / "fastkernels", "--version"))


def switched_off(program):
    """The names of the parts that a program lacks."""
    return [part["part"] for part in json.loads(quietly(program, "doctor", "--quick", "--json"))["switched_off"]]


class Tarball(InFolder):
    def test_runs_from_any_folder(self):
        quietly("cpack", "--config", BUILD / "CPackConfig.cmake", "-G", "TGZ", "-B", self.folder)
        (archive,) = self.folder.glob("fastkernels-*.tar.gz")
        with tarfile.open(archive) as tar:
            tar.extractall(self.folder / "a folder")
        (root,) = (self.folder / "a folder").iterdir()
        self.assertEqual(archive.name, root.name + ".tar.gz")
        # Every library but those of C and C++ comes from the tarball.
        for line in quietly("ldd", root / "bin/fastkernels").splitlines():
            if found := re.search(r"=> (\S.*) \(", line):
                own = re.match(r".*/lib(c|m|dl|rt|pthread|resolv|stdc\+\+|gcc_s)\.so", found[1])
                self.assertTrue(own or str(root) in os.path.realpath(found[1]), line)
            self.assertNotIn("libcurl", line)  # it is loaded for the first request, not at every start
        # What is loaded later is in the tarball, too.
        if "mlflow" not in switched_off(BUILD / "fastkernels"):
            self.assertTrue(list((root / "lib/fastkernels").glob("libcurl*.so.*")))
            self.assertNotIn("mlflow", switched_off(root / "bin/fastkernels"))
        if shutil.which("dpkg-query"):
            self.assertTrue(list((root / "share/doc/fastkernels/licences").glob("libfmt*")))
        self.use(root / "bin/fastkernels", root / "share/fastkernels/examples", hiding_the_sources())


class Wheel(InFolder):
    def test_pip_gives_a_command(self):
        environment = self.folder / "venv"
        try:
            venv.create(environment, with_pip=True)
        except (subprocess.CalledProcessError, ImportError) as e:
            self.skipTest(f"no virtual environment with pip can be made here: {e}")
        quietly(environment / "bin/pip", "install", "--no-deps", "--no-index", "--disable-pip-version-check",
                SOURCE, env={**os.environ, "FASTKERNELS_BUILD_DIR": str(BUILD)})
        self.assertIn("fastkernels", quietly(environment / "bin/pip", "list", "--disable-pip-version-check"))
        self.assertIn("fastkernels", quietly(environment / "bin/kb_nano", "--version"))
        self.use(environment / "bin/fastkernels", environment / "share/fastkernels/examples", hiding_the_sources())
        quietly(environment / "bin/pip", "uninstall", "--yes", "fastkernels")
        self.assertFalse((environment / "bin/fastkernels").exists())

    def test_a_folder_without_a_build_is_refused(self):
        backend = "import sys; sys.path.insert(0, sys.argv[1]); import fastkernels_wheel as w; w.build_wheel(sys.argv[2])"
        result = run(sys.executable, "-c", backend, SOURCE / "tools/wheel", self.folder,
                     env={**os.environ, "FASTKERNELS_BUILD_DIR": str(self.folder)})
        self.assertIn("holds no finished build", result.stderr)


class Workflow(InFolder):
    """The step of examples/github/judge-candidates.yml that judges, run on a pull request made here."""

    def setUp(self):
        super().setUp()
        text = (SOURCE / "examples/github/judge-candidates.yml").read_text()
        step = text[text.index("- name: Judge what changed") :]
        step = step[step.index("run: |\n") + 7 : step.index("\n\n      - name:")]
        self.script = "set -e -o pipefail\n" + textwrap.dedent(step)  # as GitHub runs it
        self.work = self.folder / "repository"
        (self.work / "tasks/candidate/L1").mkdir(parents=True)
        (self.work / ".installed").mkdir()
        (self.work / ".installed/bin").symlink_to(BUILD)
        # Few scenarios, judged quickly: this is about the step.
        (self.work / "fastkernels.yaml").write_text("kernels: {filter: decode-1, num-runs: 5, launches: 1}\n")
        self.environment |= {"GIT_CONFIG_GLOBAL": "/dev/null", "GITHUB_STEP_SUMMARY": str(self.folder / "summary.md")}
        for key in ("AUTHOR", "COMMITTER"):
            self.environment |= {f"GIT_{key}_NAME": "a", f"GIT_{key}_EMAIL": "a@b"}
        del self.environment["FASTKERNELS_CONFIG"]
        self.git("init", "--quiet")
        self.commit()
        self.environment["BASE"] = self.git("rev-parse", "HEAD").strip()

    def git(self, *arguments):
        return quietly("git", *arguments, cwd=self.work, env=self.environment)

    def commit(self):
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message", "x")

    def judge(self):
        result = run("bash", "-c", self.script, cwd=self.work, env=self.environment)
        return result, (self.folder / "summary.md").read_text()

    def test_is_yaml(self):
        try:
            import yaml
        except ImportError:
            self.skipTest("this Python has no yaml module")
        document = yaml.safe_load((SOURCE / "examples/github/judge-candidates.yml").read_text())
        self.assertEqual(len(document["jobs"]["judge"]["steps"]), 7)

    def test_candidates_that_pass_and_fail(self):
        examples = SOURCE / "tasks/candidate/examples"
        for header in examples.glob("*.h"):
            shutil.copy(header, self.work / "tasks/candidate")
        shutil.copy(examples / "L1/silu_and_mul.cpp", self.work / "tasks/candidate/L1/silu_and_mul.cpp")
        self.commit()
        result, summary = self.judge()
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertIn("### silu_and_mul: passed", summary)
        self.assertIn("PASSED", summary)
        (self.work / "tasks/candidate/L1/rms_norm.cpp").write_text("this does not compile\n")
        self.commit()
        result, summary = self.judge()
        self.assertEqual(result.returncode, 1)
        self.assertIn("### rms_norm: failed", summary)

    def test_nothing_to_judge(self):
        (self.work / "README.md").write_text("words\n")
        self.commit()
        result, summary = self.judge()
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("No candidate", summary)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
