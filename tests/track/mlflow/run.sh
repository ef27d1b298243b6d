#!/usr/bin/env bash
# Mirrors runs into a real MLflow from PyPI and compares what its own client reads back. Exit 77: it cannot be installed
# here.
#   run.sh BUILD_FOLDER FASTKERNELS TRACK_A_RUN SOURCE_FOLDER
set -euo pipefail
version=3.17.2  # what the test was written against; a newer one is tried by changing this line
venv=$1/mlflow-venv-$version

if [ ! -e "$venv/complete" ]; then
  rm -rf "$venv"
  if ! python3 -m venv "$venv" >"$1/mlflow-install.log" 2>&1; then
    echo "skipped: python3 cannot make virtual environments here (python3-venv)"
    exit 77
  fi
  # Few retries and short time-outs: a machine without PyPI should say so soon. Not compiled: most of it is never imported.
  if ! timeout 900 "$venv/bin/pip" install --quiet --disable-pip-version-check --retries 1 --timeout 20 \
      --no-compile "mlflow==$version" >>"$1/mlflow-install.log" 2>&1; then
    echo "skipped: MLflow $version cannot be installed from PyPI here; the last lines of $1/mlflow-install.log:"
    tail -3 "$1/mlflow-install.log"
    exit 77
  fi
  touch "$venv/complete"
fi
# Seven servers start below, and each imports all of MLflow twice: with its bytecode kept this takes a third of the time.
unset PYTHONDONTWRITEBYTECODE
PATH=$venv/bin:$PATH exec "$venv/bin/python" "$(dirname "$0")/check_mlflow.py" "$2" "$3" "$4"
