#include "models/safetensors_writer.h"

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "core/check.h"
#include "core/error.h"
#include "core/json.h"
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

  std::string unfinished = path + ".part";
  {
    std::ofstream file(unfinished, std::ios::binary);
    uint64_t length = text.size();
    file.write(reinterpret_cast<const char*>(&length), sizeof length);
    file.write(text.data(), static_cast<std::streamsize>(text.size()));
    for (const auto& [name, view] : tensors)
      file.write(static_cast<const char*>(view.data()), static_cast<std::streamsize>(view.size_bytes()));
    file.flush();
    if (!file) {
      std::remove(unfinished.c_str());
      throw Error("'{}' cannot be written; check that its folder exists and has room.", path);
    }
  }
  std::filesystem::rename(unfinished, path);
}

}  // namespace fk
