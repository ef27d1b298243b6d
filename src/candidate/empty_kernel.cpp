#include "candidate/empty_kernel.h"

#include "candidate/bridge.h"

namespace fk {
namespace {

int create(const fk_field*, size_t, void** object, char*, size_t) {
  static int shared;  // destroy() needs an address that is not null
  *object = &shared;
  return 0;
}
void destroy(void*) {}
int bind(void*, const char* const*, const fk_view*, size_t, char*, size_t) { return 0; }
const char* refuse(void*, const fk_view*, size_t) { return nullptr; }
int forward(void*, const fk_context*, const fk_view*, size_t, char*, size_t) { return 0; }

const fk_candidate kEmpty{.abi_version = FK_ABI_VERSION,
                          .size = sizeof(fk_candidate),
                          .operator_name = nullptr,
                          .signature = nullptr,
                          .create = create,
                          .destroy = destroy,
                          .bind = bind,
                          .refuse = refuse,
                          .forward = forward};

}  // namespace

std::shared_ptr<const ForeignKernel> empty_kernel(const OperatorInfo& op) { return bridge_to(kEmpty, op); }

}  // namespace fk
