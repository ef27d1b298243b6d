// AlgorithmStore: which algorithm was fastest for a product, stored in a file per device and library version, so that
// only the first process that uses a shape has to autotune.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace fk::cuda {

class AlgorithmStore {
 public:
  // `name` identifies the device and the library version. If the file cannot be read or written, autotuning is
  // repeated.
  explicit AlgorithmStore(const std::string& name);

  // The bytes put() was given for `key`; empty when there are none.
  std::vector<unsigned char> find(const std::string& key);
  void put(const std::string& key, const std::vector<unsigned char>& algorithm);

 private:
  std::mutex mutex_;
  std::string path_;
  std::map<std::string, std::vector<unsigned char>> known_;
};

}  // namespace fk::cuda
