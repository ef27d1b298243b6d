#!/usr/bin/env bash
# Times fastkernels and llama.cpp in turn on GGUF files of llama-3.2-1b dimensions with random weights.
#   tools/peers/llama_cpp.sh FASTKERNELS [FOLDER] [THREADS]
# Builds llama.cpp, from the source package llama-cpp-python, and the files in FOLDER; what is there is used again.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
fastkernels=$(realpath "${1:?give the path of fastkernels}")
folder=${2:-$HOME/.cache/fastkernels-peers}
threads=${3:-2}
version=0.3.36
rounds=3
mkdir -p "$folder" && cd "$folder"

if [ ! -x build/bin/llama-bench ]; then
  python3 -m pip download --no-deps --no-binary llama-cpp-python "llama-cpp-python==$version"
  tar xzf "llama_cpp_python-$version.tar.gz"
  # g++ 12 leaves out stores to the tile configuration, so its products end with an illegal instruction.
  sed -i 's/^\( *\)_tile_loadconfig(/\1asm volatile("" ::: "memory");\n\1_tile_loadconfig(/' \
    "llama_cpp_python-$version/vendor/llama.cpp/ggml/src/ggml-cpu/amx/mmq.cpp"
  cmake -S "llama_cpp_python-$version/vendor/llama.cpp" -B build -G Ninja -DCMAKE_BUILD_TYPE=Release -DLLAMA_CURL=OFF \
    -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_SERVER=OFF -DBUILD_SHARED_LIBS=OFF
  ninja -C build llama-bench llama-quantize
fi
[ -d venv ] || { python3 -m venv venv && venv/bin/pip install gguf==0.19.0 numpy; }

for type in Q8_0 Q4_0 Q4_K_M; do
  file=llama-1b-$type.gguf
  if [ ! -f "$file" ]; then
    [ -f llama-1b-f16.gguf ] || venv/bin/python "$here/llama_cpp_model.py" llama-1b-f16.gguf
    build/bin/llama-quantize llama-1b-f16.gguf "$file" "$type" "$threads"
  fi
  echo "== $type"
  for _ in $(seq "$rounds"); do
    # Both decode after a prompt of 256 tokens (-d).
    build/bin/llama-bench -m "$file" -t "$threads" -p 256 -n 0 -r 1 2>/dev/null | grep pp256
    build/bin/llama-bench -m "$file" -t "$threads" -p 0 -n 32 -d 256 -r 1 2>/dev/null | grep tg32
    "$fastkernels" ttft --model "$file" --threads "$threads" --prompt-tokens 256 --decode-tokens 32 --iters 1 \
      --no-sequential --no-history 2>/dev/null | grep -E 'TTFT|TPOT'
  done
done
