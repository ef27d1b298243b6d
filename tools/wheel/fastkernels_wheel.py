"""Build backend of pyproject.toml (PEP 517): `pip install .` compiles fastkernels with CMake and packs the programs.

The wheel holds what `make install` installs, with the libraries the programs need, and no Python code. Building takes
minutes; a build folder that is finished already is used instead where FASTKERNELS_BUILD_DIR, or
`--config-settings build-folder=DIR`, names one. The preset is cpu-release unless FASTKERNELS_PRESET, or
`--config-settings preset=NAME`, names another.
"""

import base64
import hashlib
import os
import pathlib
import re
import shutil
import stat
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]

# A wheel has no symbolic links, so the alias is a copy of the program.
ALIAS = '#!/bin/sh\nexec "$(dirname "$(readlink -f "$0")")/fastkernels" "$@"\n'


def version():
    return re.search(r"project\(fastkernels VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text()).group(1)


def tag():
    return "py3-none-" + sysconfig.get_platform().replace("-", "_").replace(".", "_")


def metadata():
    return (
        f"Metadata-Version: 2.1\nName: fastkernels\nVersion: {version()}\n"
        "Summary: Judges and times compute kernels inside real models\nLicense: Apache-2.0\n"
        "Requires-Python: >=3.9\nDescription-Content-Type: text/markdown\n\n" + (ROOT / "README.md").read_text()
    )


def run(*command):
    if shutil.which(command[0]) is None:
        sys.exit(f"fastkernels: {command[0]} is not there; run tools/install_deps.sh first.")
    print("$", *command, flush=True)
    # pip's own environment for builds hides nothing that CMake needs, but its PYTHONPATH confuses other interpreters.
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME")}
    if subprocess.run(command, cwd=ROOT, env=environment).returncode != 0:
        sys.exit("fastkernels: the command above failed; `make build` shows the same and installs what is missing.")


def setting(settings, key, variable, default=""):
    return (settings or {}).get(key) or os.environ.get(variable) or default


def built(settings):
    """The folder of a finished build."""
    folder = setting(settings, "build-folder", "FASTKERNELS_BUILD_DIR")
    if folder:
        if not (pathlib.Path(folder) / "fastkernels").exists():
            sys.exit(f"fastkernels: {folder} holds no finished build; name another, or none to build here.")
        return pathlib.Path(folder).resolve()
    preset = setting(settings, "preset", "FASTKERNELS_PRESET", "cpu-release")
    folder = ROOT / "build" / preset
    if not (folder / "build.ninja").exists():
        run("cmake", "--preset", preset)
    run("cmake", "--build", str(folder), "--target", "fastkernels", "fastkernels-runner", "fastkernels-tracking",
        "fastkernels-share")
    return folder


def staged(build, prefix):
    run("cmake", "--install", str(build), "--prefix", str(prefix), "--strip")
    run("cmake", "--install", str(build), "--prefix", str(prefix), "--component", "carried")
    (prefix / "bin" / "kb_nano").unlink()
    (prefix / "bin" / "kb_nano").write_text(ALIAS)
    (prefix / "bin" / "kb_nano").chmod(0o755)


def data_files(prefix):
    """Pairs of a file and its name in the wheel: the folders of a prefix, which a virtual environment has too."""
    data = f"fastkernels-{version()}.data"
    for path in sorted(prefix.rglob("*")):
        if path.is_dir() or path.suffix == ".a":
            continue
        name = path.relative_to(prefix).as_posix()
        yield path, f"{data}/scripts/{name[4:]}" if name.startswith("bin/") else f"{data}/data/{name}"


class Wheel:
    """A zip file with a list of its contents."""

    def __init__(self, path):
        self.zip = zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED)
        self.record = []

    def add(self, name, data, executable=False):
        entry = zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0))
        entry.external_attr = (stat.S_IFREG | (0o755 if executable else 0o644)) << 16
        entry.compress_type = zipfile.ZIP_DEFLATED
        self.zip.writestr(entry, data)
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        self.record.append(f"{name},sha256={digest},{len(data)}\n")

    def close(self, info):
        self.record.append(f"{info}/RECORD,,\n")
        self.zip.writestr(f"{info}/RECORD", "".join(self.record))
        self.zip.close()


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    name = f"fastkernels-{version()}-{tag()}.whl"
    with tempfile.TemporaryDirectory() as folder:
        prefix = pathlib.Path(folder) / "prefix"
        staged(built(config_settings), prefix)
        wheel = Wheel(pathlib.Path(wheel_directory) / name)
        for path, inside in data_files(prefix):
            if path.is_symlink():  # the alias of the manual page
                continue
            wheel.add(inside, path.read_bytes(), executable=os.access(path, os.X_OK))
    info = f"fastkernels-{version()}.dist-info"
    wheel.add(f"{info}/METADATA", metadata().encode())
    wheel.add(f"{info}/WHEEL", f"Wheel-Version: 1.0\nGenerator: fastkernels\nRoot-Is-Purelib: false\nTag: {tag()}\n".encode())
    wheel.close(info)
    return name


def build_sdist(sdist_directory, config_settings=None):
    """Every file in git, in the folder with the name of the source package."""
    base = f"fastkernels-{version()}"
    files = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
    info = pathlib.Path(tempfile.mkdtemp()) / "PKG-INFO"
    info.write_text(metadata())
    with tarfile.open(pathlib.Path(sdist_directory) / f"{base}.tar.gz", "w:gz") as tar:
        for name in files.decode().rstrip("\0").split("\0"):
            tar.add(ROOT / name, f"{base}/{name}")
        tar.add(info, f"{base}/PKG-INFO")
    shutil.rmtree(info.parent)
    return f"{base}.tar.gz"


def get_requires_for_build_wheel(config_settings=None):
    return []


def get_requires_for_build_sdist(config_settings=None):
    return []
