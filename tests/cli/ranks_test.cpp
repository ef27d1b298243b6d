// --tp N: the program starts its ranks itself, gives what one rank gives, prints it once, and reports a rank that is
// lost; mpirun may start the ranks instead.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

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

TEST(RanksVerb, APromptIsAsLikelyOnTwoRanksAsOnOne) {
  std::vector<std::string> arguments = {
      "generate", "--model",      "tiny-llama", "--load-format",     "dummy", "--dtype", "f32",
      "--json",   "--max-tokens", "0",          "--prompt-logprobs", "1",     "--tp",    "2"};
  arguments.insert(arguments.begin() + 1, {"--prompt-token-ids", "5,17,99,4"});
  Json two = printed(run_program(arguments));
  arguments.back() = "1";
  Json one = printed(run_program(arguments));
  ASSERT_EQ(two["prompt_logprobs"].size(), 3u);
  for (size_t i = 0; i < 3; ++i)
    EXPECT_NEAR(two["prompt_logprobs"][i]["logprob"].get<double>(), one["prompt_logprobs"][i]["logprob"].get<double>(),
                1e-3);
}

// They make the same steps, whatever each of them measures, and decide alike.
TEST(RanksVerb, SlowPlansAreTimedAgainstTheTreeOnAllRanks) {
  const std::string cache = testing::TempDir() + "/fk_ranks_search";
  std::filesystem::remove_all(cache);
  for (int round = 0; round < 2; ++round) {  // the second time the result is known
    Json json = printed(run_program({"e2e",
                                     "latency",
                                     "--model",
                                     "tiny-llama",
                                     "--load-format",
                                     "dummy",
                                     "--tp",
                                     "2",
                                     "--compiled",
                                     "--no-compare",
                                     "--no-history",
                                     "--no-candidate-kernels",
                                     "--json",
                                     "--batch-size",
                                     "2",
                                     "--input-len",
                                     "8",
                                     "--output-len",
                                     "4",
                                     "--num-iters",
                                     "2",
                                     "--num-iters-warmup",
                                     "1",
                                     "--search-budget",
                                     "1",
                                     "--search-cache",
                                     cache,
                                     "--threads",
                                     "2"}));
    for (const char* phase : {"prefill", "decode", "mixed"}) {
      const Json& steps = json["plan"]["whole_steps"][phase];
      EXPECT_FALSE(steps["timings"].empty()) << json["plan"].dump(1);
      EXPECT_TRUE(steps["left_to_tree"].is_boolean());
    }
  }
  std::filesystem::remove_all(cache);
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
  EXPECT_TRUE(comes_true([&] { return program.ended(); }));
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

// POST to a server on this machine; the whole answer, or what came before the connection ended. `begun` is called with
// the first bytes of it.
std::string ask_server(int port, const std::string& body, const std::function<void()>& begun = [] {}) {
  int connection = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  std::string answer;
  if (connect(connection, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) {
    std::string text =
        "POST /v1/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\n"
        "Content-Length: " +
        std::to_string(body.size()) + "\r\n\r\n" + body;
    static_cast<void>(send(connection, text.data(), text.size(), MSG_NOSIGNAL));
    char piece[4096];
    for (ssize_t got = 0; (got = recv(connection, piece, sizeof piece, 0)) > 0;) {
      if (answer.empty()) begun();
      answer.append(piece, static_cast<size_t>(got));
    }
  }
  close(connection);
  return answer;
}

class ServedOnRanks {
 public:
  explicit ServedOnRanks(const std::string& tp)
      : program_({"serve", "--model", "tiny-llama", "--load-format", "dummy", "--dtype", "f32", "--port", "0",
                  "--threads", "2", "--no-access-log", "--tp", tp}) {
    EXPECT_TRUE(program_.prints("http://127.0.0.1:")) << program_.err();
    std::string out = program_.out();
    size_t at = out.find("http://127.0.0.1:");
    port_ = at == out.npos ? 0 : std::atoi(out.c_str() + at + 17);
  }
  RunningProgram& program() { return program_; }
  std::string text(const std::string& prompt) const {
    std::string answer =
        ask_server(port_, R"({"prompt": ")" + prompt + R"(", "max_tokens": 12, "temperature": 0.7, "seed": 5})");
    size_t body = answer.find("\r\n\r\n");
    if (body == answer.npos) return "no answer: " + answer;
    Json json = Json::parse(answer.substr(body + 4), nullptr, false);
    return json.contains("choices") ? json["choices"][0]["text"].get<std::string>() : answer;
  }
  int port() const { return port_; }

 private:
  RunningProgram program_;
  int port_ = 0;
};

TEST(RanksVerb, TwoRanksServeWhatOneServes) {
  ServedOnRanks one("1"), two("2");
  std::vector<std::string> prompts = {"Hello", "abcabcabc", "z"}, texts(3);
  std::vector<std::thread> clients;
  for (size_t i = 0; i < 3; ++i) clients.emplace_back([&, i] { texts[i] = two.text(prompts[i]); });
  for (std::thread& client : clients) client.join();
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(texts[i], one.text(prompts[i]));
  EXPECT_EQ(texts[0].find("no answer"), texts[0].npos) << texts[0];
  usleep(700'000);  // nothing to do: ranks meet all the same
  EXPECT_EQ(two.text("z"), texts[2]);
  Outcome ended = two.program().end(SIGTERM);
  EXPECT_EQ(ended.exit_code, 0) << ended.err;
  EXPECT_EQ(ended.err, "");
}

TEST(RanksVerb, ALostRankEndsTheServerWithASentence) {
  for (bool busy : {false, true}) {
    ServedOnRanks served("2");
    std::vector<pid_t> first = children_of(getpid());
    ASSERT_EQ(first.size(), 1u);
    std::vector<pid_t> ranks = children_of(first[0]);
    ASSERT_EQ(ranks.size(), 1u);
    std::string answer;
    std::atomic<bool> begun = !busy;  // the tokens of a request are being computed
    std::thread client([&] {
      if (busy)
        answer = ask_server(served.port(), R"({"prompt": "Hello", "max_tokens": 500, "ignore_eos": true, "stream": true})",
                            [&] { begun = true; });
    });
    EXPECT_TRUE(comes_true([&] { return begun || served.program().ended(); }));
    kill(ranks[0], SIGKILL);
    client.join();
    EXPECT_TRUE(comes_true([&] { return served.program().ended(); })) << "busy: " << busy;
    Outcome o = served.program().end(0);
    EXPECT_EQ(o.exit_code, 1);
    EXPECT_EQ(o.err, "fastkernels: Rank 1 failed: it was ended by signal 9.\n");
    EXPECT_TRUE(!busy || answer.find("error") != answer.npos || answer.find("[DONE]") != answer.npos) << answer;
    EXPECT_NE(kill(ranks[0], 0), 0);
  }
}

TEST(RanksVerb, AServerThatIsKilledLeavesNoRank) {
  ServedOnRanks served("2");
  std::vector<pid_t> first = children_of(getpid());
  ASSERT_EQ(first.size(), 1u);
  std::vector<pid_t> ranks = children_of(first[0]);
  ASSERT_EQ(ranks.size(), 1u);
  served.program().end(SIGKILL);
  EXPECT_TRUE(comes_true([&] {
    std::ifstream state("/proc/" + std::to_string(ranks[0]) + "/stat");
    std::string id, name, what;
    return !(state >> id >> name >> what) || what == "Z";
  }));
}

}  // namespace
}  // namespace fk
