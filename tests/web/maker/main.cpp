// web_history FILE [RUNS]: makes a store for the browser tests, or one of RUNS small runs for the speed test.
#include <cstdio>
#include <cstdlib>
#include <exception>

#include "tests/web/sample_history.h"

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fputs("usage: web_history FILE [RUNS]\n", stderr);
    return 2;
  }
  try {
    auto store = fk::open_store(argv[1]);
    if (argc > 2)
      fk::fill_many_runs(*store, std::atoi(argv[2]), fk::now_us());
    else
      fk::fill_history(*store, {}, fk::now_us());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
