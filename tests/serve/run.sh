#!/usr/bin/env bash
# Runs a Python test with the real OpenAI client and Prometheus' parser from PyPI. Exit 77: they cannot be installed here.
#   run.sh BUILD_FOLDER TEST.py [ARGUMENT...]
set -euo pipefail
packages=(openai==3.49.0 prometheus_client==0.26.0)  # what the tests were written against
venv=$1/openai-venv-3.49.0
log=$1/openai-install.log
shift

if [ ! -e "$venv/complete" ]; then
  rm -rf "$venv"
  if ! python3 -m venv "$venv" >"$log" 2>&1; then
    echo "skipped: python3 cannot make virtual environments here (python3-venv)"
    exit 77
  fi
  # Few retries and short time-outs: a machine without PyPI should say so soon.
  if ! timeout 600 "$venv/bin/pip" install --quiet --disable-pip-version-check --retries 1 --timeout 20 \
      --no-compile "${packages[@]}" >>"$log" 2>&1; then
    echo "skipped: ${packages[*]} cannot be installed from PyPI here; the last lines of $log:"
    tail -3 "$log"
    exit 77
  fi
  touch "$venv/complete"
fi
unset PYTHONDONTWRITEBYTECODE
exec "$venv/bin/python" "$@"
