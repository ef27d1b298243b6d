// The config file: where it is looked for, what it sets, that the command line wins, and what is refused.
#include "cli/config_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "core/error.h"
#include "core/json.h"
#include "tests/cli/program.h"

namespace fk {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using Values = std::vector<std::string>;

// Verbs register themselves, so this one exists until the program ends.
class Bake final : public Verb {
 public:
  Bake() : Verb("bake", "Bakes", {"fastkernels bake"}) {}
  void add_flags(FlagSet& flags) override {
    flags.option("--minutes", minutes, "How long").range(1, 90);
    flags.option("--shape", shape, "Which shape").one_of({"round", "flat"});
    flags.flag("--cold,!--warm", cold, "From the fridge");
    flags.option("--tp", sizes, "Sizes");
    flags.option("--model", model, "What").required();
    Flag& text = flags.option("--prompt", prompt, "Words");
    flags.option("--prompt-ids", ids, "Numbers").excludes(text);
    flags.option("--inner", inner, "").hidden();
  }
  void run(const CommonOptions&) override {}

  int minutes = 30;
  bool cold = false;
  std::string shape = "round", model, prompt, ids, inner;
  std::vector<int64_t> sizes;
};

Bake& bake() {
  static Bake verb;
  return verb;
}

// A verb as it was before any test.
class ConfigFile : public testing::Test {
 protected:
  ConfigFile() {
    for (Flag& flag : bake().flags().flags()) flag.set_given({});
    bake().minutes = 30;
    bake().cold = false;
    bake().shape = "round";
    for (std::string* text : {&bake().model, &bake().prompt, &bake().ids}) text->clear();
    bake().sizes.clear();
    folder_ = fs::temp_directory_path() / ("fk_config_" + std::to_string(getpid()));
    fs::create_directories(folder_);
  }
  ~ConfigFile() override { fs::remove_all(folder_); }

  static Config checked(const std::string& text) {
    Config config = parse_config(text, "fastkernels.yaml");
    check_keys(config, {&bake()});
    return config;
  }

  static void apply(const std::string& text) { apply_config(checked(text), bake(), program_); }

  static std::string refusal(const std::string& text) {
    try {
      apply(text);
    } catch (const UsageError& e) {
      return e.what();
    }
    return "";
  }

  static Flag& flag(const std::string& name) { return const_cast<Flag&>(*bake().flags().find(name)); }

  std::string write(const std::string& text) const {
    std::string path = folder_ / "settings.yaml";
    std::ofstream(path) << text;
    return path;
  }

  static inline FlagSet program_;
  fs::path folder_;
};

TEST_F(ConfigFile, SetsFlagsOfEveryKind) {
  apply("bake: {minutes: 45, cold: true, tp: [1, 2], shape: flat}\nmodel: bread\n");
  EXPECT_EQ(bake().minutes, 45);
  EXPECT_TRUE(bake().cold);
  EXPECT_EQ(bake().sizes, (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(bake().shape, "flat");
  EXPECT_EQ(bake().model, "bread");
  EXPECT_TRUE(flag("--minutes").given());
}

TEST_F(ConfigFile, AVerbsOwnValueWinsOverThatOfEveryVerb) {
  apply("bake: {minutes: 45}\nminutes: 20\n");
  EXPECT_EQ(bake().minutes, 45);
}

TEST_F(ConfigFile, TheNameThatTurnsASwitchOffDoesSo) {
  bake().cold = true;
  apply("warm: true\n");
  EXPECT_FALSE(bake().cold);
}

TEST_F(ConfigFile, TheCommandLineWins) {
  bake().minutes = 7;
  flag("--minutes").set_given({"7"});
  apply("minutes: 45\n");
  EXPECT_EQ(bake().minutes, 7);
}

TEST_F(ConfigFile, AFlagOnTheCommandLineSwitchesOffWhatItExcludes) {
  flag("--prompt-ids").set_given({"1,2"});
  apply("prompt: words\n");
  EXPECT_EQ(bake().prompt, "");
  flag("--prompt-ids").set_given({});
  flag("--prompt").set_given({"typed"});
  apply("prompt-ids: 1,2\n");
  EXPECT_EQ(bake().ids, "");
}

TEST_F(ConfigFile, MakesARequiredFlagOptional) {
  relax_required(checked("model: bread\n"), {&bake()});
  EXPECT_FALSE(flag("--model").is_required());
  flag("--model").required();
}

TEST_F(ConfigFile, SaysWhereEachGivenFlagComesFrom) {
  Config config = checked("model: bread\nbake:\n  minutes: 45\n");
  flag("--minutes").set_given({"7"});
  apply_config(config, bake(), program_);
  std::vector<GivenFlag> given = given_flags(config, bake(), program_);
  ASSERT_EQ(given.size(), 2u);
  EXPECT_EQ(given[0].name + " " + given[0].value + " " + given[0].from, "--minutes 7 command line");
  EXPECT_EQ(given[1].name + " " + given[1].value + " " + given[1].from, "--model bread fastkernels.yaml:1");
}

TEST_F(ConfigFile, UnknownKeysAreRefusedWithTheClosest) {
  EXPECT_THAT(refusal("minute: 3\n"), AllOf(HasSubstr("fastkernels.yaml:1"), HasSubstr("did you mean minutes?")));
  EXPECT_THAT(refusal("bake:\n  shap: flat\n"), AllOf(HasSubstr("fastkernels.yaml:2"), HasSubstr("mean shape?")));
  EXPECT_THAT(refusal("bakee: {minutes: 3}\n"), AllOf(HasSubstr("no verb bakee"), HasSubstr("mean bake?")));
  EXPECT_THAT(refusal("inner: x\n"), HasSubstr("--inner"));  // hidden ones are not for config files
}

TEST_F(ConfigFile, ValuesAreCheckedLikeThoseOfTheCommandLine) {
  EXPECT_THAT(refusal("minutes: 91\n"), AllOf(HasSubstr("fastkernels.yaml:1"), HasSubstr("91 is not from 1 to 90")));
  EXPECT_THAT(refusal("minutes: soon\n"), HasSubstr("no whole number"));
  EXPECT_THAT(refusal("minutes: [1, 2]\n"), HasSubstr("takes one value"));
  EXPECT_THAT(refusal("shape: square\n"), HasSubstr("none of round, flat"));
  EXPECT_THAT(refusal("cold: maybe\n"), HasSubstr("neither true nor false"));
  EXPECT_THAT(refusal("minutes:\n"), HasSubstr("has no value"));
  EXPECT_THAT(refusal("minutes: 3\nminutes: 4\n"), HasSubstr("twice"));
  EXPECT_THAT(refusal("bake: {minutes: {a: 1}}\n"), HasSubstr("must have a value"));
  EXPECT_THAT(refusal("prompt: a\nprompt-ids: 1\n"), HasSubstr("exclude each other"));
  EXPECT_THAT(refusal("- minutes\n"), HasSubstr("flag: value"));
  EXPECT_THAT(refusal("a: [\n"), HasSubstr("no YAML"));
  EXPECT_THAT(refusal("minutes: 3\n---\nminutes: 4\n"), HasSubstr("several YAML documents"));
  EXPECT_EQ(refusal("# nothing\n"), "");
}

TEST_F(ConfigFile, IsLookedForInTheFolderThenAmongTheUsersOwn) {
  setenv("XDG_CONFIG_HOME", "/somewhere", 1);
  unsetenv("FASTKERNELS_CONFIG");
  EXPECT_EQ(config_places(), (Values{"fastkernels.yaml", "/somewhere/fastkernels/config.yaml"}));
  setenv("FASTKERNELS_CONFIG", "other.yaml", 1);
  EXPECT_EQ(config_places(), Values{"other.yaml"});
  EXPECT_THROW(read_config({&bake()}), UsageError);  // it is named and not there
  std::string pipe = folder_ / "pipe";               // without a writer, so opening it would block
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  for (const std::string& odd : {pipe, std::string("/dev/zero"), folder_.string()}) {
    setenv("FASTKERNELS_CONFIG", odd.c_str(), 1);
    EXPECT_THROW(read_config({&bake()}), UsageError) << odd;
  }
  setenv("FASTKERNELS_CONFIG", "", 1);
  EXPECT_EQ(config_places(), Values{});
  EXPECT_EQ(read_config({&bake()}).path, "");
  unsetenv("XDG_CONFIG_HOME");
  unsetenv("FASTKERNELS_CONFIG");
}

// The finished program.
class ConfigOfTheProgram : public ConfigFile {
 protected:
  Outcome run(const std::string& config, const Values& arguments) const {
    setenv("FASTKERNELS_CONFIG", write(config).c_str(), 1);
    Outcome outcome = run_program(arguments);
    unsetenv("FASTKERNELS_CONFIG");
    return outcome;
  }
};

TEST_F(ConfigOfTheProgram, DefaultsOfAVerb) {
  Outcome outcome = run("list: {level: 1, json: true}\n", {"list"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(Json::parse(outcome.out).count("models"), 0u);  // --level leaves them out
  EXPECT_EQ(run("list: {level: 1, json: true}\n", {"list", "--csv"}).out.substr(0, 5), "level");
  EXPECT_EQ(run("list: {level: 1, json: true}\n", {"--csv", "list"}).out.substr(0, 5), "level");
  EXPECT_EQ(run("list: {level: 1}\n", {"list", "--level", "3", "--csv"}).out.find("rms_norm"), std::string::npos);
}

// A missing file that only another verb needs is no error.
TEST_F(ConfigOfTheProgram, ValuesMatterToTheVerbThatRuns) {
  std::string config = "kernels: {scenarios: [not-there.yaml]}\ndevice: cpu\n";
  EXPECT_EQ(run(config, {"list"}).exit_code, 0);
  Outcome outcome = run(config, {"kernels", "--list"});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("there is no file not-there.yaml"));
  // The device to compute on, not `history --device`, which selects runs.
  EXPECT_THAT(run("device: cpu\n", {"config", "history"}).out, testing::ContainsRegex("--device +- +default"));
}

TEST_F(ConfigOfTheProgram, AMistakeIsOneSentenceAndDoesNotStopHelp) {
  Outcome outcome = run("thread: 2\n", {"list"});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("settings.yaml:1"), HasSubstr("did you mean threads?")));
  EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  outcome = run("device: gpu\n", {"list"});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("settings.yaml:1"), HasSubstr("--device gpu is not a device")));
  for (const char* words : {"--help", "man"}) EXPECT_EQ(run("thread: 2\n", {words}).exit_code, 0) << words;
  EXPECT_EQ(run("thread: 2\n", {"config"}).exit_code, 2);
}

TEST_F(ConfigOfTheProgram, IsShown) {
  Outcome outcome = run("threads: 2\nkernels: {num-runs: 7, tp: [1, 2]}\n", {"config", "--json"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  Json rows = Json::parse(outcome.out);
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0]["verb"], "every");
  EXPECT_EQ(rows[2]["value"], "1 2");
  EXPECT_THAT(rows[2]["from"].get<std::string>(), HasSubstr("settings.yaml:2"));
  outcome = run("kernels: {num-runs: 7}\n", {"config", "kernels"});
  EXPECT_THAT(outcome.out, testing::ContainsRegex("kernels +--num-runs +7 +.*settings.yaml:1"));
  EXPECT_THAT(outcome.out, testing::ContainsRegex("kernels +--num-warmup +[0-9]+ +default"));
  EXPECT_EQ(run("", {"config", "kernel"}).exit_code, 2);
}

// The record of a run has the flags in effect and their source.
TEST_F(ConfigOfTheProgram, SlowRunsAreRecordedWithIt) {
  std::string result = folder_ / "result.json";
  Outcome outcome =
      run("kernels: {num-runs: 5, num-warmup: 1, launches: 1}\n",
          {"kernels", "--self-test", "--target", "rms_norm", "--filter", "tiny-llama/tp1/decode-1/input_layernorm",
           "--model", "tiny-llama", "--no-history", "--output-json", result, "--num-warmup", "2"});
  std::ifstream in(result);
  ASSERT_TRUE(in) << outcome.out << outcome.err;
  Json document = Json::parse(in);
  EXPECT_EQ(document["options"]["num_runs"], 5);
  EXPECT_EQ(document["options"]["num_warmup"], 2);
  Json flags = document["run"]["environment"]["flags"];
  EXPECT_EQ(flags["--num-runs"]["value"], "5");
  EXPECT_THAT(flags["--num-runs"]["from"].get<std::string>(), HasSubstr("settings.yaml:1"));
  EXPECT_EQ(flags["--num-warmup"]["from"], "command line");
  EXPECT_EQ(document["run"]["params"]["config"], "--num-runs=5 --launches=1");
}

}  // namespace
}  // namespace fk
