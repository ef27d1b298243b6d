// Writes results into a store until it is killed, and reports each stored one on standard output.
//   track_writer DB RUN COUNT
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "tests/track/store_fixture.h"

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  std::string id = argv[2];
  try {
    auto store = fk::open_store(argv[1]);
    store->begin_run(fk::sample_run(id, fk::now_us()));
    for (long i = 0; i < std::atol(argv[3]); ++i) {
      std::string name = std::to_string(i);
      store->add_artifact(id, "logs/" + name + ".txt", std::string(3000, 'x') + id + name);
      store->add_kernel_result(fk::sample_result(id, "rms_norm", name, 1.5), fk::sample_detail());
      store->log_metrics(id, {{"results", static_cast<double>(i + 1), i, fk::now_us()}});
      std::string line = name + "\n";
      if (write(STDOUT_FILENO, line.data(), line.size()) < 0) return 3;
    }
    store->end_run(id, "finished", "", fk::now_us());
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
