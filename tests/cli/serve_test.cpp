// serve refuses in one sentence, and before a model is loaded, what would be found out much later.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/cli/program.h"

namespace fk {
namespace {

void expect_refusal(const Arguments& arguments, int code, const std::string& words) {
  Arguments all = {"serve", "--load-format", "dummy", "--port", "0"};
  all.insert(all.end(), arguments.begin(), arguments.end());
  Outcome outcome = run_program(all);
  EXPECT_EQ(outcome.exit_code, code) << outcome.err;
  EXPECT_NE(outcome.err.find(words), std::string::npos) << outcome.err;
  EXPECT_EQ(outcome.out, "");
}

TEST(ServeVerb, AnEmptyKeyIsNoOpenServer) {
  expect_refusal({"--model", "tiny-llama", "--api-key", ""}, 2, "--api-key is empty");
  setenv("FASTKERNELS_API_KEY", "", 1);
  expect_refusal({"--model", "tiny-llama"}, 2, "FASTKERNELS_API_KEY is set and empty");
  unsetenv("FASTKERNELS_API_KEY");
}

// --max-model-len of an encoder is looked at when the model is loaded: what is reported instead was found before.
TEST(ServeVerb, TheAddressAndTheLogAreTriedBeforeLoading) {
  const Arguments late = {"--model", "tiny-xlm-roberta", "--max-model-len", "1000000"};
  expect_refusal(late, 2, "--max-model-len");
  const int taken = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  ASSERT_EQ(bind(taken, reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(listen(taken, 1), 0);
  ASSERT_EQ(getsockname(taken, reinterpret_cast<sockaddr*>(&address), &size), 0);
  const std::string port = std::to_string(ntohs(address.sin_port));
  Arguments in_use = {"serve", "--load-format", "dummy", "--port", port};
  in_use.insert(in_use.end(), late.begin(), late.end());
  Outcome outcome = run_program(in_use);
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_NE(outcome.err.find("Port " + port + " of 127.0.0.1 is in use"), std::string::npos) << outcome.err;
  close(taken);
  Arguments log = late;
  log.insert(log.end(), {"--access-log", "/nowhere/log"});
  expect_refusal(log, 1, "/nowhere/log");
}

TEST(ServeVerb, ModelsThatItCannotServeAreTold) {
  expect_refusal({"--model", "tiny-siglip"}, 1, "or a text encoder; run it with fastkernels encode");
}

}  // namespace
}  // namespace fk
