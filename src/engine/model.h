// Model: a tree of operators bound to its weights, ready to be called.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "core/communicator.h"
#include "core/thread_pool.h"
#include "models/resolve.h"
#include "models/weights.h"
#include "ops/node.h"

namespace fk {

enum class LoadFormat : uint8_t {
  kAuto,   // the checkpoint in the model's directory
  kDummy,  // made from (seed, tensor name, index)
};

struct LoadOptions {
  LoadFormat format = LoadFormat::kAuto;
  DType dtype = DType::kBF16;     // of weights and activations: bf16, f16 or f32
  uint64_t seed = 0;              // of dummy weights
  std::string quantization = {};  // of dummy weights: quantization_of_name; empty: as the model says
  Device device = kCpu;
  // Of the ranks that run the model together: this one loads its part. nullptr: one rank has all of it. Must outlive
  // the model.
  Communicator* communicator = nullptr;
};

struct Model {
  std::string name;
  Device device = kCpu;
  ModelConfig config;  // with the dtype it was loaded in
  std::unique_ptr<Node> root;
  Weights weights;
  Communicator* communicator = nullptr;
  // A head that guesses, whose checkpoint leaves out the embedding: it is the target's. It runs after
  // share_embedding().
  bool lacks_embedding = false;
  // Runs passes in the place of the tree, with its arguments, and returns false where it left one to the tree after
  // all; nothing: the tree runs them.
  std::function<bool(Context& ctx, Args args)> instead = {};

  // One pass: every argument of the root's operator, outputs included. True: `instead` ran it.
  bool call(Context& ctx, Args args) const {
    if (instead) return instead(ctx, args);
    root->call(ctx, args);
    return false;
  }
  // A weight, by its path in the tree.
  View weight(const std::string& path) const;
};

// The tree without weights, for `list`: fast and small.
std::unique_ptr<Node> build_model(const ModelConfig& config, const BuildOptions& options);

// Throws Error where the model cannot be divided over so many ranks.
void check_divisible(const ModelSource& source, int64_t ranks);

// Throws the errors of load_model that can be found without reading weights.
void check_loadable(const ModelSource& source, const LoadOptions& options);

// Gives a head the embedding of its target, which must outlive it, if it lacks one. Throws Error where it does not fit.
void share_embedding(Model& head, const Model& target);

Model load_model(const ModelSource& source, const LoadOptions& options, ThreadPool& pool);

}  // namespace fk
