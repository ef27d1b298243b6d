// --tp N: the program starts its ranks itself, gives what one rank gives, prints it once, and reports a rank that is
// lost; mpirun may start the ranks instead.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "core/json.h"
#include "tests/cli/program.h"

namespace fk {
namespace {

Json printed(const Outcome& o) {
  EXPECT_EQ(o.exit_code, 0) << o.err;
  return parse_json(o.out, "standard output");
}

TEST(RanksVerb, GeneratesWhatOneRankGenerates) {
  std::vector<std::string> arguments = {"generate", "--model", "tiny-llama", "--load-format",      "dummy",
                                        "--dtype",  "f32",     "--json",     "--prompt-token-ids", "5,17,99,4",
                                        "--tp",     "2"};
  Json two = printed(run_program(arguments));
  arguments.back() = "1";
  Json one = printed(run_program(arguments));
  EXPECT_FALSE(one.contains("ranks"));
  EXPECT_EQ(two["token_ids"], one["token_ids"]);
  EXPECT_EQ(two["tp"], 2);
  ASSERT_EQ(two["ranks"].size(), 2u) << "counters of every rank";
  for (const Json& rank : two["ranks"]) {
    bool reduced = false;
    for (const Json& d : rank["dispatches"]) reduced |= d["operator"] == "allreduce" && d["calls"].get<int64_t>() > 0;
    EXPECT_TRUE(reduced);
  }
}

TEST(RanksVerb, PrintsOnce) {
  Outcome o = run_program({"generate", "--model", "tiny-llama", "--load-format", "dummy", "--prompt-token-ids", "5",
                           "--max-tokens", "2", "--tp", "2"});
  EXPECT_EQ(o.exit_code, 0) << o.err;
  EXPECT_EQ(std::count(o.out.begin(), o.out.end(), '\n'), 1) << o.out;
  EXPECT_EQ(o.err.find("generated"), o.err.rfind("generated")) << o.err;
}

TEST(RanksVerb, MoreRanksThanHeadsAreRefusedOnce) {
  Outcome o = run_program(
      {"generate", "--model", "tiny-llama", "--load-format", "dummy", "--prompt-token-ids", "5", "--tp", "8"});
  EXPECT_EQ(o.exit_code, 1);
  EXPECT_EQ(o.err,
            "fastkernels: tiny-llama cannot be divided over 8 ranks: 4 attention heads cannot be divided over 8 "
            "ranks; choose a tp_size that divides them.\n");
  EXPECT_EQ(run_program(
                {"generate", "--model", "tiny-llama", "--load-format", "dummy", "--prompt-token-ids", "5", "--tp", "0"})
                .exit_code,
            2);
}

std::vector<pid_t> children_of(pid_t process) {
  std::ifstream list("/proc/" + std::to_string(process) + "/task/" + std::to_string(process) + "/children");
  std::vector<pid_t> ids;
  for (pid_t id = 0; list >> id;) ids.push_back(id);
  return ids;
}

TEST(RanksVerb, ALostRankEndsTheRunWithASentence) {
  RunningProgram program({"generate", "--model", "tiny-llama", "--load-format", "dummy", "--prompt-token-ids", "5",
                          "--max-tokens", "500", "--ignore-eos", "--tp", "2"});
  ASSERT_TRUE(program.prints("<")) << program.err();
  std::vector<pid_t> first = children_of(getpid());
  ASSERT_EQ(first.size(), 1u);
  std::vector<pid_t> ranks = children_of(first[0]);
  if (ranks.empty()) GTEST_SKIP() << "it ended before its rank could be ended";
  kill(ranks[0], SIGKILL);
  for (int i = 0; i < 500 && !program.ended(); ++i) usleep(20'000);
  Outcome o = program.end(0);
  if (o.exit_code == 0) GTEST_SKIP() << "it ended before its rank did";
  EXPECT_EQ(o.exit_code, 1);
  EXPECT_NE(o.err.find("Rank 1 failed: it was ended by signal 9."), std::string::npos) << o.err;
}

TEST(RanksVerb, SlowTimesAModelOnTwoRanks) {
  Json json = printed(run_program({"ttft", "--model", "tiny-llama", "--load-format", "dummy", "--iters", "1",
                                   "--warmups", "0", "--prompt-tokens", "16", "--decode-tokens", "4", "--no-floors",
                                   "--no-history", "--json", "--tp", "2"}));
  EXPECT_EQ(json["results"][0]["tp"], 2);
  EXPECT_EQ(json["ranks"].size(), 2u);
}

TEST(RanksVerb, SlowMpirunStartsTheRanks) {
  std::string program = std::string(FK_BINARY_DIR) + "/fastkernels";
  if (!std::filesystem::exists(std::string(FK_BINARY_DIR) + "/fastkernels-mpi.so") ||
      std::system("command -v mpirun > /dev/null") != 0)
    GTEST_SKIP() << "this build has no MPI; install libopenmpi-dev";
  // Open MPI refuses root, and more ranks than cores, unless told.
  setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
  setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
  auto by_mpi = [&](const std::string& ranks, const std::string& tp) {
    std::string command = "mpirun --oversubscribe -n " + ranks + " " + program +
                          " generate --model tiny-llama --load-format dummy --dtype f32 --prompt-token-ids 5,17,99,4 "
                          "--max-tokens 6 --json --tp " +
                          tp + " 2>/dev/null";
    std::string out;
    FILE* pipe = popen(command.c_str(), "r");
    for (int c = 0; (c = std::fgetc(pipe)) != EOF;) out += static_cast<char>(c);
    return std::pair(pclose(pipe), out);
  };
  Json one = printed(run_program({"generate", "--model", "tiny-llama", "--load-format", "dummy", "--dtype", "f32",
                                  "--prompt-token-ids", "5,17,99,4", "--max-tokens", "6", "--json"}));
  for (const char* ranks : {"2", "4"}) {
    auto [status, out] = by_mpi(ranks, ranks);
    ASSERT_EQ(status, 0) << out;
    EXPECT_EQ(parse_json(out, "standard output")["token_ids"], one["token_ids"]) << ranks;
  }
  EXPECT_NE(by_mpi("2", "4").first, 0) << "mpirun and --tp disagree";
}

}  // namespace
}  // namespace fk
