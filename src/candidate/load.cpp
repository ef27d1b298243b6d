#include "candidate/load.h"

#include <dlfcn.h>

#include "candidate/bridge.h"
#include "candidate/operators_header.h"
#include "core/error.h"

namespace fk {

std::shared_ptr<const ForeignKernel> load_candidate(const std::string& so_path, const OperatorInfo& op) {
  void* library = dlopen(so_path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* why = dlerror();
    throw Error("The candidate for {} cannot be loaded: {}.", op.name, why == nullptr ? "no reason was given" : why);
  }
  auto* entry = reinterpret_cast<const fk_candidate* (*)()>(dlsym(library, "fk_candidate_entry"));
  if (entry == nullptr)
    throw Error("{} is no candidate; end its source with FK_CANDIDATE({}).", so_path, op.class_name);
  const fk_candidate* table = entry();
  if (table == nullptr) throw Error("The candidate for {} has no table of functions.", op.name);
  if (table->abi_version != FK_ABI_VERSION || table->size != sizeof(fk_candidate))
    throw Error(
        "The candidate for {} was compiled for version {} of the C interface and this is version {}: compile it again; "
        "replace ctx.key_cache(layer) and ctx.value_cache(layer) by ctx.state(name).",
        op.name, table->abi_version, FK_ABI_VERSION);
  if (table->operator_name == nullptr || table->operator_name != op.name)
    throw Error("The candidate for {} holds a class of {}; it must derive from fk::{}.", op.name,
                table->operator_name == nullptr ? "no operator" : table->operator_name, op.class_name);
  std::string expected = forward_signature(op);
  if (table->signature == nullptr || table->signature != expected)
    throw Error("The candidate for {} was compiled for `{}`, but the operator has `{}`; compile it again.", op.name,
                table->signature == nullptr ? "" : table->signature, expected);
  if (table->create == nullptr || table->destroy == nullptr || table->bind == nullptr || table->forward == nullptr)
    throw Error("The candidate for {} lacks a function of the C interface; use FK_CANDIDATE({}).", op.name,
                op.class_name);
  return bridge_to(*table, op);
}

}  // namespace fk
