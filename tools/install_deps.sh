#!/usr/bin/env bash
# Installs from the distribution what is missing to build (`build`), to build and test (`test`), to make a Debian
# package (`deb`), to lint and format (`lint`) or to test --launcher slurm (`slurm`), and nothing else.
#
# A dependency is detected by its command on the PATH or its CMake package file, not by the package manager: this is
# fast, works on systems without apt, and does not touch what was installed by other means.
set -euo pipefail

has_file() { [ -e "$1" ]; }

has_command() { command -v "$1" >/dev/null; }

# Where find_package(NAME) looks first: the prefixes of the environment and of the system.
has_cmake_package() {
  local prefix
  for prefix in ${CMAKE_PREFIX_PATH//[:;]/ } /usr/local /usr; do
    if compgen -G "$prefix/lib*/cmake/$1*/$1*onfig.cmake" >/dev/null ||
       compgen -G "$prefix/lib/*/cmake/$1*/$1*onfig.cmake" >/dev/null ||
       compgen -G "$prefix/share/cmake/$1*/$1*onfig.cmake" >/dev/null; then
      return 0
    fi
  done
  return 1
}

# Headers that the compiler finds: for packages without a CMake file.
has_header() { echo "#include <$1>" | "${CXX:-g++}" -E -x c++ - >/dev/null 2>&1; }

# The system's interpreter: packages of the distribution do not work with another one.
has_python_module() { /usr/bin/python3 -c "import $1" 2>/dev/null; }

missing=()        # what is not there
packages=()       # the Debian and Ubuntu packages that hold it
need() {          # need KIND NAME PACKAGE
  if ! "has_$1" "$2"; then
    missing+=("$2")
    packages+=("$3")
  fi
}

CMAKE_PREFIX_PATH=${CMAKE_PREFIX_PATH:-}
case "${1:-build}" in
  build|test)
    need command "${CXX:-g++}" g++
    need command cmake cmake
    need command ninja ninja-build
    need command python3 python3  # makes the Unicode tables at build time
    need cmake_package CLI11 libcli11-dev
    need cmake_package fmt libfmt-dev
    need cmake_package nlohmann_json nlohmann-json3-dev
    need cmake_package yaml-cpp libyaml-cpp-dev
    need header sqlite3.h libsqlite3-dev
    need header curl/curl.h libcurl4-openssl-dev
    need header httplib.h libcpp-httplib-dev                        # serves the dashboard
    need header boost/beast.hpp libboost-dev                         # the OpenAI server and its client
    need file /usr/share/nodejs/d3/dist/d3.min.js node-d3            # draws it
    need cmake_package GTest libgtest-dev
    need header gmock/gmock.h libgmock-dev
    need python_module ensurepip python3-venv  # a test runs MLflow in a virtual environment
    need python_module jsonschema python3-jsonschema  # a test reads our result files with it
    if [ "${1:-build}" = test ]; then  # the dashboard in a real browser
      need command chromium chromium
      need command chromedriver chromium-driver
      need command zsh zsh      # complete command lines, and so does bash
      need command fish fish
      need command groff groff  # reads the manual page
      need command mpicxx libopenmpi-dev  # ranks that mpirun starts
      need command mpirun openmpi-bin
    fi
    ;;
  deb)
    need command dpkg-shlibdeps dpkg-dev  # finds the packages that ours depends on
    need command fakeroot fakeroot
    ;;
  lint)
    need command clang-tidy clang-tidy
    need command clang-format clang-format
    ;;
  slurm)
    PATH=$PATH:/usr/sbin:/sbin  # where its daemons are
    need command slurmctld slurmctld
    need command slurmd slurmd
    need command sbatch slurm-client
    need command munged munge
    ;;
  *)
    echo "install_deps.sh: unknown set '$1'; use build, test, deb, lint or slurm." >&2
    exit 2
    ;;
esac

[ ${#missing[@]} -eq 0 ] && exit 0

if ! has_command apt-get; then
  echo "Missing: ${missing[*]}. There is no apt-get here; install them with this system's package manager." >&2
  exit 1
fi

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  # Without a terminal sudo cannot ask for a password, so it must not need one.
  if has_command sudo && { [ -t 0 ] || sudo -n true 2>/dev/null; }; then
    as_root=(sudo)
  else
    echo "Missing: ${missing[*]}. Run as root: apt-get update && apt-get install ${packages[*]}" >&2
    exit 1
  fi
fi

echo "Installing: ${packages[*]}"
apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Use-Pty=0)
if ! { "${apt[@]}" update && "${apt[@]}" install --yes --no-install-recommends "${packages[@]}" >/dev/null; }; then
  echo "apt-get could not install ${packages[*]}; its message above says why." >&2
  exit 1
fi
