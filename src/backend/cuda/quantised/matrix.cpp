#include "backend/cuda/quantised/matrix.h"

#include <functional>
#include <map>
#include <string>

#include "core/check.h"
#include "core/error.h"

namespace fk::cuda {
namespace {

std::map<std::string, MakeMatrix, std::less<>>& formats() {
  static std::map<std::string, MakeMatrix, std::less<>> all;
  return all;
}

}  // namespace

RegisterMatrixFormat::RegisterMatrixFormat(std::string_view name, MakeMatrix make) {
  FK_CHECK(formats().emplace(name, make).second, "two weight formats have one name");
}

MakeMatrix find_matrix_format(std::string_view format) {
  auto found = formats().find(format);
  if (found == formats().end()) found = formats().find(format.substr(0, format.rfind("_g")));
  return found == formats().end() ? nullptr : found->second;
}

std::unique_ptr<QuantisedMatrix> make_matrix(std::string_view format, const StoredMatrix& stored) {
  MakeMatrix make = find_matrix_format(format);
  if (make == nullptr) throw Error("There is no CUDA kernel for weights in {}; use --device cpu.", format);
  for (const View& tensor : stored.tensors) FK_CHECK(tensor.contiguous());
  return make(stored);
}

}  // namespace fk::cuda
