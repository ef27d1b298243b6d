// TokenCall: the arguments of the kernel that computes one token, as plain numbers and addresses.
#pragma once

#include <cstdint>

#include "backend/cuda/quantised/token_layout.h"

namespace fk::cuda {

inline constexpr int kMostLayers = 128;
inline constexpr int kMostRopes = 2;  // Gemma has different ones for sliding and global layers
inline constexpr int kMostPairs = 128;
inline constexpr int kMostGroup = 8;   // query heads that share a kv head
inline constexpr int kTokenPage = 16;  // tokens a block of the cache holds
inline constexpr int kMostExperts = 256;
inline constexpr int kMostChosen = 32;
// Copies of the sums of the logits: blocks that add to the same memory wait for each other.
inline constexpr int kLogitCopies = 4;

// The matrices of a layer, in the order they are multiplied; the output head follows the last layer.
enum ProductKind : uint8_t { kQkv, kOut, kGateUp, kDown, kHead, kProductKinds };
inline constexpr int kProductsOfLayer = 4;

// What a kernel is instantiated for.
enum class TokenKind : uint8_t {
  kDense,
  kExperts,
  kPackedExperts,  // in MXFP4 (packed_plan.h), with biases, attention sinks and swigluoai: gpt-oss
};

inline constexpr int kStep = 256;  // columns of two rows that a warp multiplies at once

// The common properties of the products of one kind.
struct ProductShape {
  int features = 0;    // number of outputs: rows of the matrix, or half of them
  int length = 0;      // of a row
  bool gated = false;  // the matrix is gate rows, then as many up rows
};

// How the pairs of rows of a product are divided (pair_share.h): numbers that need divisions, which take long on a GPU.
struct PairRounds {
  int pairs = 0;  // of a round but the last, which may have fewer
  int columns = 0, columns_of_last = 0;
};
struct PairDivision {
  int each = 0, left = 0;  // pairs of a block, and blocks that have one more
  PairRounds rounds[2];    // of a block that has `each`, and of one that has one more
};
struct DividedShape : ProductShape {
  PairDivision division;  // the launch sets it
};

struct TokenLayer {
  const void* matrices[kProductsOfLayer];  // of elements, or packed (quantised/token_layout.h)
  const void* input_norm;
  const void* after_attention_norm;  // of the block's output, before the residual sum; null if the family has none
  const void* feed_forward_norm;
  const void* after_feed_forward_norm;  // as after_attention_norm
  const void* q_norm;                   // and k_norm: null where a family has none
  const void* k_norm;
  int window;  // keys a query sees; 0: all
  int rope;    // which of the model's rotary embeddings
};

// What only layers with experts have. Null where a family has none.
struct TokenExpertLayer {
  const void* router;  // [experts, hidden]
  const void* router_bias;
  const void* qkv_bias;
  const void* out_bias;
  const void* gate_up_bias;  // [experts, 2 size]
  const void* down_bias;     // [experts, hidden]
  const float* sinks;        // [heads]
};

struct TokenModel {
  TokenLayer layers[kMostLayers];
  TokenExpertLayer expert_layers[kMostLayers];
  double frequencies[kMostRopes][kMostPairs];
};

struct TokenCache {
  void* key;
  void* value;
};

// Layers with experts: gate_up is [experts, 2 size, hidden] and down [experts, hidden, size]. The shapes in the call
// are those of the chosen experts together.
struct TokenExperts {
  int count = 0;   // of a layer; 0: layers have none
  int chosen = 0;  // for a token
  int size = 0;    // gate rows of one
  bool renormalize = false;
  bool packed = false;     // TokenKind::kPackedExperts
  float swiglu_alpha = 0;  // of swigluoai
  float swiglu_limit = 0;
  unsigned long long* logit_sums = nullptr;  // [layers, kLogitCopies, count], see router.cuh
  float* square_sums = nullptr;              // [layers, blocks]
};

struct TokenCall {
  const TokenModel* model;  // in device memory
  const void* embedding;    // [vocabulary, hidden]
  const void* final_norm;
  const void* head;
  TokenCache caches[kMostLayers];
  int64_t cache_slots;

  const int64_t* id;
  const int64_t* position;
  const int64_t* slot;
  const int32_t* length;  // keys the sequence has, the new one included
  const int32_t* block_table;

  // Between the phases: vectors of the model's dtype.
  void* qkv;
  void* attended;
  void* attention_out;
  void* gated;
  void* feed_forward_out;
  void* residuals[2];
  float* logits;
  // For attention split over several blocks: partial results, and counters to find the last block.
  float* partial_values;
  float* partial_states;
  unsigned* arrivals;  // [0]: of the barrier, then of the blocks that share a head; zero before and after every launch

  DividedShape shapes[kProductKinds];
  TokenCodes codes;  // of the layers' matrices
  TokenExperts experts;
  int slots, scratch_bytes;  // of shared memory: decode_token() sets them
  int layers;
  int vocabulary;
  int hidden;
  int heads, kv_heads;
  int pairs;  // of a rotary embedding: half a head
  int ropes;
  float embedding_scale;
  float rotary_factor = 1;  // of sines and cosines
  float eps;
  float norm_offset;  // added to the weights of norms
  float score_scale;
  bool gelu;            // the activation: gelu in its tanh form, or silu
  unsigned dawdle = 0;  // seed of the random delays, if enabled (handover.cuh)
};

}  // namespace fk::cuda
