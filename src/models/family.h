// Family: what tells the models of one family from others. Each family is one file in src/models/families/, which
// enters itself here before main(); no list names them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "models/family_fields.h"
#include "models/model_config.h"
#include "ops/param.h"

namespace fk {

// A module whose matrix is stacked from several of the checkpoint: "qkv_proj" from "q_proj", "k_proj" and "v_proj".
// Parts with {e} in their names exist once for each expert: "experts.w2" from "experts.{e}.down_proj". A single part
// without {e} is another name for the whole parameter: "experts.w2.weight" from "experts.down_proj".
struct PackedModule {
  std::string_view module;
  std::vector<std::string_view> parts;
  // kEqualParts, kTransposed and kBlocksAndScales are for parameters that the model does not stack, the last for those
  // in a weight format.
  Stored stored = Stored::kRows;
};
// Of checkpoints that store every projection for itself, as most do.
std::vector<PackedModule> separate_projections();
// The same, and the projections of every expert for themselves, with the names that most families give them.
std::vector<PackedModule> separate_experts();

// An architecture that belongs to the family and is not supported, with the rest of the sentence that refuses it.
struct RefusedArchitecture {
  std::string_view name;
  std::string_view why;  // after "{config.json} "
};

// Some checkpoints of a family call a module otherwise: `first` in its name is `second` there.
struct SecondName {
  std::string_view first, second;
};

// How GGUF files hold models of the family.
struct GgufFamily {
  std::string_view architecture = {};  // "llama": their general.architecture; empty: none are read
  // llama.cpp reorders the rows of queries and keys so that the two halves of a head alternate, and rotates neighbours.
  bool rotates_pairs = false;
};

// A model of a larger architecture that holds a model of the family, as a vision tower in a model of images and texts.
struct LargerArchitecture {
  std::string_view name;
  std::string_view model_type;
  std::string_view config_key = {};  // the object of config.json that describes the part; empty: the whole file
};

struct Family {
  std::string_view name;                                 // "llama"
  std::string_view category = "llm";                     // what kind of model
  std::string_view model_type;                           // "llama": by which transformers chooses the model
  std::vector<std::string_view> other_model_types = {};  // of checkpoints with code of their own for this architecture
  Task task = Task::kCausalLM;
  float norm_offset = 1;  // the norm weight that changes nothing: 1, or 0 where norms multiply by 1 + weight
  std::vector<PackedModule> packed = separate_projections();  // empty: the checkpoint stacks them as the model does
  std::vector<SecondName> second_names = {};
  std::vector<RefusedArchitecture> refused = {};
  GgufFamily gguf = {};
  std::vector<LargerArchitecture> parts_of = {};
  std::string_view part_prefix = {};  // of the part's tensors in checkpoints of larger architectures: "roberta."
  std::vector<std::string_view> other_parts = {};  // beginnings of names of tensors that the model does without

  // Set by RegisterFamily.
  std::string_view architecture = {};  // "LlamaForCausalLM": the L4 operator's class
  std::string_view op = {};            // "llama_for_causal_lm"
  ModelConfig (*read)(const FamilyFields& fields) = nullptr;
};

std::vector<const Family*> families();                     // by name
const Family* find_family(std::string_view architecture);  // nullptr where unknown
// Likewise of an architecture that holds a model of a family; `found` is set to its entry.
const Family* find_larger(std::string_view architecture, LargerArchitecture& found);
std::string known_architectures();            // "A, B and C", for errors
std::vector<std::string> known_categories();  // each once

void add_family(const Family& family);

// T: the family's L4 operator. kRead: reads config.json into T's constructor arguments, from which facts_of() takes
// what every model states of itself.
//
//   const RegisterFamily<LlamaForCausalLM, read_llama> kLlama({.name = "llama", .model_type = "llama"});
template <class T, auto kRead>
struct RegisterFamily {
  explicit RegisterFamily(Family family) {
    family.architecture = T::kClass;
    family.op = T::kName;
    family.read = [](const FamilyFields& fields) {
      typename T::Init init = kRead(fields);
      return ModelConfig{.init = to_fields(init), .facts = facts_of(init)};
    };
    add_family(family);
  }
};

}  // namespace fk
