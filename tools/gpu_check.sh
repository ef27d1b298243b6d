#!/usr/bin/env bash
# Everything there is to check on a machine with an NVIDIA GPU, in ten minutes: builds, runs the device's tests and
# exploits, the sanitizers, and the target table with PyTorch beside it; prints a table last.
#
#   tools/gpu_check.sh [FOLDER]    logs go to FOLDER, build/gpu_check when not given
#
# A step that fails is named in the table and in the exit code; the others still run. LIMIT_S (default 600) is what the
# whole may take: steps that no longer fit are left out, and the table says so.
set -uo pipefail
cd "$(dirname "$0")/.."

logs=$(realpath -m "${1:-build/gpu_check}")
mkdir -p "$logs"
limit_s=${LIMIT_S:-600}
build=build/cuda-release
binary=$build/fastkernels
failed=0
table=()
export FASTKERNELS_HOME="$logs/home"

left_s() { echo $((limit_s - SECONDS)); }

# step NAME SECONDS COMMAND...: runs it when that many seconds are left, and notes how it went.
step() {
  local name=$1 needs_s=$2 start=$SECONDS log
  shift 2
  log="$logs/${name// /_}.log"
  if [ "$(left_s)" -lt "$needs_s" ]; then
    table+=("$(printf '%-34s %8s  %s' "$name" - "left out: $(left_s) s were left")")
    return 0
  fi
  timeout "$(left_s)" "$@" >"$log" 2>&1
  local status=$?
  local words=passed
  if [ $status -ne 0 ]; then
    failed=1
    words="FAILED ($status), see $log"
  fi
  table+=("$(printf '%-34s %6d s  %s' "$name" $((SECONDS - start)) "$words")")
  return $status
}

compile() {
  cmake --preset cuda-release &&
    cmake --build $build -j "$(nproc)" --target fastkernels fastkernels-runner test_conformance test_backend \
      test_backend_cuda test_exploits cuda_stream_bench cuda_ops_bench
}

# Sanitizers see every access of every kernel, so they get one pass over what the conformance test covers at one dtype.
memcheck() {
  compute-sanitizer --tool memcheck --error-exitcode 1 $build/tests/test_conformance \
    --gtest_filter='*Implementations.AgreeWithTheOracle/*_on_cuda:-*causal_lm*:*decoder_layer*'
}
racecheck() {
  compute-sanitizer --tool racecheck --error-exitcode 1 $build/tests/test_conformance \
    --gtest_filter='*AgreeWithTheOracle/flash_attn*_on_cuda:*AgreeWithTheOracle/*norm*_on_cuda:*AgreeWithTheOracle/sample*_on_cuda:*AgreeWithTheOracle/linear*_on_cuda:*AgreeWithTheOracle/softmax*_on_cuda'
}

peers() { python3 tools/peers/torch_cuda.py --binary $binary "$@"; }

step "build" 60 compile || { printf '%s\n' "${table[@]}"; tail -20 "$logs/build.log"; exit 1; }
step "doctor" 5 $binary doctor --device cuda
step "conformance on the device" 10 $build/tests/test_conformance --gtest_filter='*_on_cuda*'
step "sampling" 5 $build/tests/test_backend --gtest_filter='*cuda*'
step "engine and kernels" 10 $build/tests/test_backend_cuda
step "exploits" 30 $build/tests/test_exploits --gtest_filter='*Cuda*'
step "few-row products" 10 $build/tools/bench/cuda_stream_bench
step "single operators" 10 $build/tools/bench/cuda_ops_bench
step "llama-3-8b" 120 peers --model llama-3-8b --modes eager,compile --limit-s 100
step "llama-3-8b prefill 2048" 30 peers --model llama-3-8b --prompt-tokens 2048 --decode-tokens 8 --modes eager --limit-s 40
step "llama-3-8b 32 sequences" 30 peers --model llama-3-8b --prompt-tokens 480 --batch-size 32 --modes eager --limit-s 40
step "qwen3-4b" 120 peers --model qwen3-4b --modes eager,compile --limit-s 100
step "gemma3-4b" 60 peers --model gemma3-4b --modes eager,compile --limit-s 60
step "memcheck" 60 memcheck
step "racecheck" 60 racecheck

for log in few-row_products single_operators llama-3-8b llama-3-8b_prefill_2048 llama-3-8b_32_sequences qwen3-4b gemma3-4b; do
  [ -f "$logs/$log.log" ] && { echo; cat "$logs/$log.log"; }
done
echo
nvidia-smi --query-gpu=name,driver_version --format=csv,noheader
grep '^cuda:0' "$logs/doctor.log"
echo
printf '%s\n' "${table[@]}"
exit $failed
