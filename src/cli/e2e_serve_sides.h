// `e2e serve --compiled`: the same loads on servers of this program that take turns, by the model's tree and by plans.
//
//   eager, compiled, eager, compiled, ... eager
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "bench/e2e/dataset.h"
#include "bench/e2e/openai_client.h"
#include "cli/e2e_report.h"
#include "cli/output.h"

namespace fk {

struct ServeSidesRequest {
  ClientOptions client;                   // all but the address; its model is what is served
  std::vector<std::string> serve_flags;   // of both servers
  std::vector<std::string> search_flags;  // of those with plans
  int64_t rounds = 5;                     // servers with plans
  int64_t repeats = 3;                    // loads on each server, after one that warms up
  ServeLoad load;                         // how requests are sent
  Goodput goodput;
  std::function<std::vector<BenchRequest>(uint64_t seed)> requests;
  std::function<std::vector<double>(size_t requests, uint64_t seed)> arrivals;
};

// Throws Error with the message of the server that failed, or where no request succeeded.
Json compare_servers(const ServeSidesRequest& request, const CommonOptions& common, Progress& progress);
void print_compared_servers(const Json& json, const CommonOptions& common);
void record_compared_servers(Recorder& recorder, const Json& json);

}  // namespace fk
