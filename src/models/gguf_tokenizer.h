// The tokenizer in a GGUF file, as the tokenizer.json it was made from describes it.
#pragma once

#include "models/gguf.h"
#include "models/tokenizer.h"

namespace fk {

// Byte-level BPE ("gpt2", with a known tokenizer.ggml.pre) and SentencePiece BPE ("llama"). Throws Error that names
// what is not supported.
Tokenizer gguf_tokenizer(const GgufFile& file);

}  // namespace fk
