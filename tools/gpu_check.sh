#!/usr/bin/env bash
# All checks on a machine with an NVIDIA GPU, in three parts of at most ten minutes each; prints a table at the end.
#
#   tools/gpu_check.sh kernels [FOLDER]    conformance, sanitizers, the speed of single operators
#   tools/gpu_check.sh judge [FOLDER]      candidates: stubs, cheats and honest twins, frauds, an example judged
#   tools/gpu_check.sh models [FOLDER]     alignment of all families with transformers, speed beside PyTorch
#
# Logs go to FOLDER, build/gpu_check when not given. A step that fails is named in the table and in the exit code; the
# others still run. LIMIT_S (default 600) is what the part may take: steps that no longer fit are left out, and the
# table says so.
set -uo pipefail
cd "$(dirname "$0")/.." || exit

part=${1:-}
case $part in
  kernels) targets=(test_conformance test_backend test_backend_cuda cuda_stream_bench cuda_ops_bench) ;;
  judge) targets=(test_exploits self_attack) ;;
  models) targets=(test_golden test_backend_cuda) ;;
  *)
    echo "gpu_check.sh: say which part to run: tools/gpu_check.sh kernels, judge or models." >&2
    exit 2
    ;;
esac
shift
logs=$(realpath -m "${1:-build/gpu_check}")
mkdir -p "$logs"
limit_s=${LIMIT_S:-600}
build=build/cuda-release
binary=$build/fastkernels
failed=0
table=()
export FASTKERNELS_HOME="$logs/home"

left_s() { echo $((limit_s - SECONDS)); }
log_of() { echo "$logs/${1// /_}.log"; }

declare -A pid_of started_at

# begin NAME SECONDS COMMAND...: starts it in the background if that many seconds are left.
begin() {
  local name=$1 needs_s=$2
  shift 2
  started_at[$name]=$SECONDS
  if [ "$(left_s)" -lt "$needs_s" ]; then
    table+=("$(printf '%-34s %8s  %s' "$name" - "left out: $(left_s) s were left")")
    return 0
  fi
  "$@" >"$(log_of "$name")" 2>&1 &
  pid_of[$name]=$!
}

# finish NAME: waits for it and records the result. A step that does not end in time is stopped.
finish() {
  local name=$1 pid=${pid_of[$1]:-} status
  [ -n "$pid" ] || return 0
  while kill -0 "$pid" 2>/dev/null && [ "$(left_s)" -gt 0 ]; do sleep 0.2; done
  kill "$pid" 2>/dev/null && pkill -P "$pid" 2>/dev/null
  wait "$pid"
  status=$?
  local words=passed
  if [ "$(left_s)" -le 0 ] && [ $status -eq 143 ]; then
    failed=1
    words="stopped, since the time is over; see $(log_of "$name")"
  elif [ $status -ne 0 ]; then
    failed=1
    words="FAILED ($status), see $(log_of "$name")"
  fi
  table+=("$(printf '%-34s %6d s  %s' "$name" $((SECONDS - ${started_at[$name]})) "$words")")
  return $status
}

# step NAME SECONDS COMMAND...: runs it alone.
step() {
  begin "$@"
  finish "$1"
}

compile() {
  cmake --preset cuda-release && cmake --build $build -j "$(nproc)" --target fastkernels fastkernels-runner "${targets[@]}"
}

# sharded N FILTER COMMAND...: a test program in N processes, each with its part of the tests.
sharded() {
  local shards=$1 filter=$2 i status=0 pids=()
  shift 2
  for ((i = 0; i < shards; ++i)); do
    GTEST_TOTAL_SHARDS=$shards GTEST_SHARD_INDEX=$i "$@" --gtest_filter="$filter" &
    pids+=($!)
  done
  for i in "${pids[@]}"; do wait "$i" || status=1; done
  return $status
}

# Sanitizers see every access of every kernel and take a hundred times as long, so they run the conformance test without
# compositions, which only call the others.
memcheck() {
  timeout 150 compute-sanitizer --tool memcheck --error-exitcode 1 $build/tests/test_conformance \
    --gtest_filter='*AgreeWithTheOracle/*_on_cuda:-*_by_composed_*'
}
racecheck() {
  # Only kernels whose threads share memory, without the slow fallback kernels. The kernel for a whole token is checked
  # with eight families: with weights in FP8 and INT4, with norms of heads, with a window and another head size, with
  # experts, and with experts in MXFP4. There every lane arrives itself, because racecheck does not understand one
  # arrival per warp (decode_megakernel/handover.cuh).
  local names=('flash_attn*' '*norm*' 'sample*' 'argmax*' '*linear_by_cuda*' 'softmax*' 'rotary_emb*' '*_quant_*'
    'topk_softmax*' 'grouped_topk*' 'moe_align*' 'moe_grouped_gemm*'
    'llama_for_causal_lm_by_cuda*' 'qwen3_for_causal_lm_by_cuda*' 'gemma3_for_causal_lm_by_cuda*'
    'mixtral_for_causal_lm_by_cuda*' 'qwen3_moe_for_causal_lm_by_cuda*' 'gpt_oss_for_causal_lm_by_cuda*'
    'mamba2_for_causal_lm_by_cuda*' 'mamba_for_causal_lm_by_cuda*')
  local filter='' name
  for name in "${names[@]}"; do filter+=":*AgreeWithTheOracle/${name}_on_cuda"; done
  filter+=':-*warp_per_row*:*_tiled_*'
  rm -f "$logs"/races_*
  FASTKERNELS_DEBUG_HANDOVER=lanes sharded 4 "${filter#:}" timeout 400 compute-sanitizer --tool racecheck \
    --log-file "$logs/races_%p.log" $build/tests/test_conformance && no_new_races "$logs"/races_*.log
}

# Races reported in the kernel for heads of 512 elements are wrong: racecheck does not understand that a block meets at its
# barrier after its teams met at barriers of their own (docs/results/h200-families.md). All others count, and each log
# must have come to its end.
no_new_races() {
  local log status=0
  for log in "$@"; do
    grep -q 'RACECHECK SUMMARY' "$log" || { echo "$log has no summary" && status=1; }
    awk 'BEGIN { RS = "========= \n" }
      /Race reported/ && !(/decode_cluster</ && index($0, "HeadCut<(int)512>")) { print; found = 1 }
      END { exit found }' "$log" || status=1
  done
  return $status
}

peers() { python3 tools/peers/torch_cuda.py --binary $binary "$@"; }

# The last version of the examples, on the shapes it was made for. Passes if it is correct; the table shows whether it
# is faster.
example() {
  FASTKERNELS_CANDIDATE_DIR=tasks/candidate/examples $binary kernels --device cuda --target softmax \
    --scenarios tasks/candidate/examples/softmax_rows.yaml --no-history --output-json "$logs/softmax.json"
}
profiler() {
  FASTKERNELS_CANDIDATE_DIR=tasks/candidate/examples $binary profile --device cuda --target rms_norm \
    --scenario decode-32
}

check_kernels() {
  step "few-row products" 10 $build/tools/bench/cuda_stream_bench
  step "single operators" 10 $build/tools/bench/cuda_ops_bench
  begin "racecheck" 60 racecheck
  begin "kernels" 60 $build/tests/test_backend_cuda --gtest_filter='-*Families*'
  step "conformance on the device" 10 sharded 4 '*_on_cuda*' $build/tests/test_conformance
  step "sampling" 5 $build/tests/test_backend --gtest_filter='*cuda*'
  finish "kernels"
  step "memcheck" 40 memcheck
  finish "racecheck"
}

check_judge() {
  # Candidates are judged by several processes at once: correctness does not depend on speed, and noisy clocks do not
  # make honest candidates fail.
  step "candidates compile" 20 $build/tests/test_exploits --gtest_filter='CudaCatalogue.*'
  begin "stubs, examples, recovery" 60 $build/tests/test_exploits \
    --gtest_filter='CudaStubs.*:CudaExamples.*:CudaRecovery.*:CudaWalls.*'
  step "exploits and honest twins" 60 $build/tests/test_exploits --gtest_filter='All/Cuda*'
  finish "stubs, examples, recovery"
  step "frauds" 60 $build/tools/bench/self_attack --device cuda
  step "an example judged" 50 example
  step "profile" 20 profiler
}

check_models() {
  # Tests that do not depend on timing run while PyTorch compiles.
  rm -f "$logs/quiet"
  begin "models" 150 peers --start-after "$logs/quiet" --limit-s 240 --iters 3 \
    --work llama-3-8b,192,64,1,eager+compile --work qwen3-4b,192,64,1,eager+compile \
    --work gemma3-4b,192,64,1,eager+compile
  step "alignment with transformers" 20 sharded 4 '*_on_cuda*' $build/tests/test_golden
  step "engine" 10 $build/tests/test_backend_cuda --gtest_filter='*Families*'
  touch "$logs/quiet"
  finish "models"
  step "encoders" 60 peers --limit-s 120 --iters 3 --work bge-m3,512,0,32,eager+compile \
    --work siglip2-base,0,0,32,eager+compile --work siglip2-so400m,0,0,32,compile
  step "more of llama-3-8b" 40 peers --iters 3 --work llama-3-8b,2048,8,1,eager --work llama-3-8b,480,64,32,eager
}

step "build" 60 compile || { printf '%s\n' "${table[@]}"; tail -20 "$logs/build.log"; exit 1; }
step "doctor" 5 $binary doctor --device cuda
"check_$part"

for name in "few-row products" "single operators" "frauds" "models" "encoders" "more of llama-3-8b" \
  "an example judged" "profile"; do
  [ -f "$(log_of "$name")" ] && { echo; cat "$(log_of "$name")"; }
done
echo
nvidia-smi --query-gpu=name,driver_version --format=csv,noheader
grep '^cuda:0' "$logs/doctor.log"
echo
printf '%s\n' "${table[@]}"
exit $failed
