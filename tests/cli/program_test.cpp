// The finished program: exit codes, one sentence for what went wrong, streams that close, Ctrl-C.
#include "tests/cli/program.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>

#include "cli/options.h"
#include "core/error.h"
#include "core/json.h"
#include "tests/cli/csv.h"

namespace fk {
namespace {

// One line that starts with our name on standard error, and nothing on standard output.
void expect_sentence(const Outcome& outcome, const std::string& about) {
  EXPECT_EQ(outcome.out, "") << about;
  EXPECT_EQ(outcome.err.rfind("fastkernels: ", 0), 0u) << about << ": " << outcome.err;
  EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << about << ": " << outcome.err;
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(Program, HelpIsAResult) {
  for (const char* flag : {"--help", "-h"}) {
    Outcome outcome = run_program({flag});
    EXPECT_EQ(outcome.exit_code, 0);
    EXPECT_EQ(outcome.err, "");
    EXPECT_TRUE(contains(outcome.out, "doctor")) << outcome.out;
  }
}

TEST(Program, NoVerbIsAMistakeThatShowsHelp) {
  Outcome outcome = run_program({});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_EQ(outcome.out, "");
  EXPECT_TRUE(contains(outcome.err, "Usage: fastkernels")) << outcome.err;
}

TEST(Program, Version) {
  Outcome outcome = run_program({"--version"});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.out.rfind("fastkernels ", 0), 0u);
  EXPECT_TRUE(std::isdigit(outcome.out[12])) << outcome.out;
}

// Every verb the help lists has the common flags and examples.
TEST(Program, HelpOfEveryVerb) {
  std::string help = run_program({"--help"}).out;
  size_t at = help.find("\nVerbs:\n");
  ASSERT_NE(at, std::string::npos);
  int verbs = 0;
  for (at += 8; at < help.size() && help.compare(at, 2, "  ") == 0; at = help.find('\n', at) + 1) {
    if (help[at + 2] == ' ') continue;  // a summary's second line
    std::string verb = help.substr(at + 2, help.find(' ', at + 2) - at - 2);
    Outcome outcome = run_program({verb, "--help"});
    EXPECT_EQ(outcome.exit_code, 0) << verb;
    for (const char* part :
         {"--device", "--threads", "--seed", "--json", "--csv", "--quiet", "--help", "Examples:\n  fastkernels"})
      EXPECT_TRUE(contains(outcome.out, part)) << verb << " lacks " << part;
    ++verbs;
  }
  EXPECT_GE(verbs, 1);
}

TEST(Program, UnknownVerbNamesTheClosest) {
  Outcome outcome = run_program({"docter"});
  EXPECT_EQ(outcome.exit_code, 2);
  expect_sentence(outcome, "docter");
  EXPECT_TRUE(contains(outcome.err, "did you mean doctor?")) << outcome.err;
  Outcome far = run_program({"zzzzzzzzzz"});
  EXPECT_EQ(far.exit_code, 2);
  expect_sentence(far, "zzzzzzzzzz");
}

TEST(Program, UnknownFlagNamesTheClosestOfItsVerb) {
  const std::vector<std::pair<Arguments, std::string>> meant = {
      {{"kernels", "--targt=softmax"}, "no flag --targt, did you mean --target?"},
      {{"kernels", "-target", "softmax"}, "did you mean --target?"},
      {{"kernels", "--wrm"}, "did you mean --warm?"},
      {{"--jsn", "doctor"}, "did you mean --json?"},
      {{"history", "show", "last", "--artfact", "x"}, "did you mean --artifact? `fastkernels history show --help`"},
      {{"doctor", "--targt"}, "no flag --targt; `fastkernels doctor --help`"},  // it has none of that name
      {{"doctor", "--x"}, "no flag --x; "},
  };
  for (const auto& [arguments, says] : meant) {
    Outcome outcome = run_program(arguments);
    EXPECT_EQ(outcome.exit_code, 2) << says;
    expect_sentence(outcome, says);
    EXPECT_TRUE(contains(outcome.err, says)) << outcome.err;
  }
}

TEST(Program, BadFlagsExitWithTwo) {
  const std::vector<Arguments> bad = {
      {""},
      {"--nonsense"},
      {"--", "doctor"},
      {"doctor", "--nonsense"},
      {"doctor", "extra"},
      {"doctor", "doctor"},
      {"doctor", ""},
      {"doctor", "--quick", "--", "x"},
      {"doctor", "--threads"},
      {"doctor", "--threads", "0"},
      {"doctor", "--threads", "257"},
      {"doctor", "--threads", "-1"},
      {"doctor", "--threads", "two"},
      {"doctor", "--threads", "1.5"},
      {"doctor", "--threads", "99999999999999999999"},
      {"doctor", "--threads", "1", "--threads", "2"},
      {"doctor", "--seed", "-1"},
      {"doctor", "--seed", "18446744073709551616"},
      {"doctor", "--seed", "0x"},
      {"doctor", "--device", "gpu"},
      {"doctor", "--device", ""},
      {"doctor", "--device", "cuda:120"},
      {"doctor", "--device", "cuda:"},
      {"doctor", "--device", "cuda:-1"},
      {"doctor", "--device", "cuda:999"},
      {"doctor", "--json", "--csv"},
      {"--json", "doctor", "--csv"},
  };
  for (const Arguments& arguments : bad) {
    std::string about;
    for (const std::string& argument : arguments) about += argument + " ";
    Outcome outcome = run_program(arguments);
    EXPECT_EQ(outcome.exit_code, 2) << about << outcome.err;
    expect_sentence(outcome, about);
  }
}

TEST(Program, CudaIsRefusedAndTheWayOutNamed) {
  // No machine has so many, and without the backend none.
  Outcome outcome = run_program({"doctor", "--device", "cuda:120"});
  EXPECT_TRUE(contains(outcome.err, "cuda:120 cannot be used")) << outcome.err;
  EXPECT_TRUE(contains(outcome.err, "--device cpu")) << outcome.err;
}

TEST(Program, CommonFlagsStandOnEitherSideOfTheVerb) {
  Outcome after = run_program({"doctor", "--quick", "--json", "--device", "cpu", "--seed", "18446744073709551615"});
  Outcome before = run_program({"--json", "--threads", "1", "doctor", "--quick"});
  for (const Outcome& outcome : {after, before}) {
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    EXPECT_TRUE(parse_json(outcome.out, "doctor")["measured"].is_null());
  }
}

TEST(Doctor, SlowJsonHoldsMachineMeasurementsAndMissingParts) {
  Outcome outcome = run_program({"doctor", "--json"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");  // no progress where there is no terminal
  Json json = parse_json(outcome.out, "doctor");
  EXPECT_GE(json["machine"]["cpu"]["usable_cores"].get<int>(), 1);
  for (const char* what : {"read_gbps", "bf16_tflops", "f32_tflops"}) {
    EXPECT_GT(json["measured"][what]["best"].get<double>(), 0) << what;
    EXPECT_NE(json["measured"][what]["how"].get<std::string>(), "") << what;
  }
  ASSERT_FALSE(json["switched_off"].empty());
  for (const Json& part : json["switched_off"]) EXPECT_NE(part["why"].get<std::string>().find("; "), std::string::npos);
}

TEST(Doctor, CsvAndTextHoldTheSameRows) {
  Outcome csv = run_program({"doctor", "--quick", "--csv"}), text = run_program({"doctor", "--quick"});
  ASSERT_EQ(csv.exit_code, 0) << csv.err;
  auto records = parse_csv(csv.out);
  ASSERT_GT(records.size(), 10u);
  EXPECT_EQ(records[0], (std::vector<std::string>{"part", "item", "value"}));
  EXPECT_EQ(static_cast<size_t>(std::count(text.out.begin(), text.out.end(), '\n')),
            records.size() + 1);  // and the rule
  for (const auto& record : records) {
    if (record[0] == "memory") continue;  // what is available changes between the two
    EXPECT_TRUE(contains(text.out, record[2])) << record[2];
  }
}

TEST(Program, SlowProgressGoesToATerminalOnly) {
  Outcome shown = run_program_on_terminal({"doctor", "--threads", "1"});
  EXPECT_EQ(shown.exit_code, 0);
  EXPECT_TRUE(contains(shown.err, "measuring read bandwidth")) << shown.err;
  EXPECT_EQ(shown.err.substr(shown.err.size() - 4), "\r\033[K");  // and is wiped at the end
  EXPECT_EQ(run_program_on_terminal({"doctor", "--quick", "--quiet"}).err, "");
}

// A wrapped line would stay on the screen: only its last part can be erased.
TEST(Program, SlowProgressFitsANarrowTerminal) {
  constexpr unsigned short kColumns = 12;
  Outcome shown = run_program_on_terminal({"doctor", "--threads", "1"}, kColumns);
  EXPECT_EQ(shown.exit_code, 0);
  EXPECT_TRUE(contains(shown.err, "measuring")) << shown.err;
  const std::string wipe = "\r\033[K";
  for (size_t begin = shown.err.find(wipe); begin != std::string::npos;) {
    begin += wipe.size();
    size_t end = shown.err.find(wipe, begin);
    EXPECT_LT(std::min(end, shown.err.size()) - begin, kColumns) << shown.err.substr(begin);
    begin = end;
  }
}

TEST(Program, AClosedPipeIsNoFailure) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  close(ends[0]);
  for (const Arguments& arguments : {Arguments{"--help"}, Arguments{"doctor", "--quick"}}) {
    Outcome outcome = run_program(arguments, ends[1]);
    EXPECT_EQ(outcome.exit_code, 0);
    EXPECT_EQ(outcome.err, "");
  }
  close(ends[1]);
}

TEST(Program, AFullDiskIsAFailure) {
  int full = open("/dev/full", O_WRONLY);
  if (full < 0) GTEST_SKIP() << "no /dev/full";
  Outcome outcome = run_program({"doctor", "--quick"}, full);
  close(full);
  EXPECT_EQ(outcome.exit_code, 1);
  expect_sentence(outcome, "full disk");
}

TEST(Program, ControlCIsQuiet) {
  Outcome outcome = run_program({"doctor"}, -1, true);
  EXPECT_EQ(outcome.exit_code, 130);
  EXPECT_EQ(outcome.err, "");
}

TEST(Options, Devices) {
  EXPECT_EQ(parse_device("auto"), kCpu);
  EXPECT_EQ(parse_device("cpu"), kCpu);
  EXPECT_EQ(parse_device("cuda"), (Device{DeviceKind::kCuda, 0}));
  EXPECT_EQ(parse_device("cuda:3"), (Device{DeviceKind::kCuda, 3}));
  for (const char* bad : {"", "CPU", "cpu:0", "cuda:", "cuda:x", "cuda:1x", "cuda:-1", "cuda:128", "tpu"})
    EXPECT_THROW(parse_device(bad), UsageError) << bad;
}

}  // namespace
}  // namespace fk
