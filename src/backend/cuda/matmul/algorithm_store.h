// AlgorithmStore: which algorithm was quickest for a product, kept in a file per device and library version, so that
// only the first process that meets a shape has to try.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace fk::cuda {

class AlgorithmStore {
 public:
  // `name` tells devices and library versions apart. A file that cannot be read or written costs time, nothing else.
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
