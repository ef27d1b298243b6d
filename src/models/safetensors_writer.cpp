#include "models/safetensors_writer.h"

#include "core/check.h"
#include "core/json.h"
#include "core/output_file.h"
#include "models/safetensors.h"

namespace fk {

void write_safetensors(const std::string& path, const std::vector<std::pair<std::string, View>>& tensors) {
  Json header = Json::object();
  size_t at = 0;
  for (const auto& [name, view] : tensors) {
    FK_CHECK(view.contiguous() && !header.contains(name));
    Json shape = Json::array();
    for (int64_t extent : view.shape().extents()) shape.push_back(extent);
    header[name] = {{"dtype", safetensors_dtype_name(view.dtype())},
                    {"shape", shape},
                    {"data_offsets", {at, at + view.size_bytes()}}};
    at += view.size_bytes();
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');  // tensors start aligned, as the format recommends

  OutputFile file(path);
  uint64_t length = text.size();
  file.write({reinterpret_cast<const char*>(&length), sizeof length});
  file.write(text);
  for (const auto& [name, view] : tensors) file.write({static_cast<const char*>(view.data()), view.size_bytes()});
  file.finish();
}

}  // namespace fk
