// Completion in real shells, and the formatted manual page. Missing shells are skipped.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/cli/program.h"

namespace fk {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::IsSupersetOf;
using testing::Not;
using Words = std::vector<std::string>;

struct Printed {
  std::string text;
  int exit_code = 0;
};

Printed run_shell(const std::string& command) {
  Printed printed;
  std::FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  char block[4096];
  while (size_t got = std::fread(block, 1, sizeof block, pipe)) printed.text.append(block, got);
  int status = pclose(pipe);
  printed.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return printed;
}

bool missing(const std::string& command) { return run_shell("command -v " + command).exit_code != 0; }

Words lines_of(const std::string& text) {
  Words lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);)
    if (!line.empty()) lines.push_back(line);
  return lines;
}

// A folder with the three scripts, and with the program on the PATH.
class CompletionScripts : public testing::Test {
 protected:
  CompletionScripts() {
    folder_ = fs::temp_directory_path() / ("fk_completion_" + std::to_string(getpid()));
    fs::create_directories(folder_ / "folder with blanks");
    std::ofstream(folder_ / "a file.yaml") << "\n";
    for (const char* shell : {"bash", "zsh", "fish"})
      std::ofstream(folder_ / shell) << run_program({"completion", shell}).out;
    setenv("FASTKERNELS_CONFIG", "", 1);
  }
  ~CompletionScripts() override {
    fs::remove_all(folder_);
    unsetenv("FASTKERNELS_CONFIG");
  }

  // `command`, with the program first on the PATH and the folder above as the current one.
  Printed run_here(const std::string& command) const {
    return run_shell("cd '" + folder_.string() + "' && export PATH=" FK_BINARY_DIR ":$PATH && " + command);
  }

  // The completions of bash for the last of these words. As in bash itself, = is a separate word.
  Words bash(const Words& words) const {
    std::string list;
    for (const std::string& word : words) list += " '" + word + "'";
    std::ofstream(folder_ / "ask") << "source ./bash\nCOMP_WORDS=(" << list << ")\nCOMP_CWORD=" << words.size() - 1
                                   << "\n_fastkernels\nprintf '%s\\n' \"${COMPREPLY[@]}\"\n";
    return lines_of(run_here("bash --norc ask").text);
  }

  Words fish(const std::string& line) const {
    Words names;  // without the descriptions, which follow a tab
    for (const std::string& offered :
         lines_of(run_here("fish --no-config -c 'source ./fish; complete -C \"" + line + "\"'").text))
      names.push_back(offered.substr(0, offered.find('\t')));
    return names;
  }

  fs::path folder_;
};

TEST_F(CompletionScripts, BashOffersVerbsActionsAndFlags) {
  EXPECT_THAT(bash({"fastkernels", "ker"}), ElementsAre("kernels"));
  EXPECT_THAT(bash({"fastkernels", ""}), IsSupersetOf({"kernels", "list", "doctor", "ttft"}));
  EXPECT_THAT(bash({"fastkernels", "--threads", "2", "ker"}), ElementsAre("kernels"));
  EXPECT_THAT(bash({"fastkernels", "--v"}), ElementsAre("--version"));
  EXPECT_THAT(bash({"fastkernels", "kernels", "--tar"}), ElementsAre("--target"));
  EXPECT_THAT(bash({"fastkernels", "kernels", "--wa"}), ElementsAre("--warm", "--watch"));
  EXPECT_THAT(bash({"fastkernels", "history", "sh"}), ElementsAre("show"));
  EXPECT_THAT(bash({"fastkernels", "history", "export", "--tab"}), ElementsAre("--table"));
  EXPECT_THAT(bash({"fastkernels", "history", "export", "--lim"}), ElementsAre("--limit"));
  EXPECT_THAT(bash({"fastkernels", "profile", "--in"}), IsEmpty());  // hidden
}

TEST_F(CompletionScripts, BashOffersValues) {
  EXPECT_THAT(bash({"fastkernels", "ttft", "--load-format", ""}), ElementsAre("auto", "dummy"));
  EXPECT_THAT(bash({"fastkernels", "ttft", "--load-format", "="}), ElementsAre("auto", "dummy"));
  EXPECT_THAT(bash({"fastkernels", "ttft", "--load-format", "=", "d"}), ElementsAre("dummy"));
  EXPECT_THAT(bash({"fastkernels", "list", "--level", ""}), ElementsAre("1", "2", "3", "4"));
  EXPECT_THAT(bash({"fastkernels", "completion", "z"}), ElementsAre("zsh"));
  EXPECT_THAT(bash({"fastkernels", "kernels", "--num-runs", ""}), IsEmpty());
  EXPECT_THAT(bash({"fastkernels", "kernels", "--num-runs", "7", "--tar"}), ElementsAre("--target"));
  EXPECT_THAT(bash({"fastkernels", "kernels", "--scenarios", "a"}), IsSupersetOf({"a file.yaml"}));
  EXPECT_THAT(bash({"fastkernels", "create-stubs", "--out", ""}), ElementsAre("folder with blanks"));
}

TEST_F(CompletionScripts, BashAsksTheProgramForNames) {
  EXPECT_THAT(bash({"fastkernels", "kernels", "--target", "rms"}), Contains("rms_norm"));
  EXPECT_THAT(bash({"fastkernels", "kernels", "--model", "llama-3.2-1b", "qwen3-0"}), ElementsAre("qwen3-0.6b"));
  EXPECT_THAT(bash({"fastkernels", "ttft", "--model", ""}), IsSupersetOf({"tiny-llama", "folder with blanks"}));
  Words scenarios = bash({"fastkernels", "kernels", "--target", "rms_norm", "--filter", ""});
  EXPECT_THAT(scenarios, Contains(HasSubstr("decode-32")));
  EXPECT_THAT(bash({"fastkernels", "list", "--device", "c"}), Contains("cpu"));
}

TEST_F(CompletionScripts, FishOffersTheSame) {
  if (missing("fish")) GTEST_SKIP() << "fish is not installed";
  EXPECT_THAT(fish("fastkernels ker"), ElementsAre("kernels"));
  EXPECT_THAT(fish("kb_nano ker"), ElementsAre("kernels"));
  EXPECT_THAT(fish("fastkernels kernels --tar"), ElementsAre("--target"));
  EXPECT_THAT(fish("fastkernels kernels --target rms_n"), Contains("rms_norm"));
  EXPECT_THAT(fish("fastkernels ttft --load-format "), ElementsAre("auto", "dummy"));
  EXPECT_THAT(fish("fastkernels history sh"), ElementsAre("show"));
  EXPECT_THAT(fish("fastkernels history export --tab"), ElementsAre("--table"));
  EXPECT_THAT(fish("fastkernels history export --lim"), ElementsAre("--limit"));
  EXPECT_THAT(fish("fastkernels completion z"), ElementsAre("zsh"));
}

// A terminal with a real zsh: <TAB> completes, and the result is printed.
TEST_F(CompletionScripts, ZshCompletesWhatIsTyped) {
  if (missing("zsh")) GTEST_SKIP() << "zsh is not installed";
  EXPECT_EQ(run_here("zsh -n zsh").exit_code, 0);
  std::ofstream(folder_ / "ask") << R"zsh(
zmodload zsh/zpty
zpty shell zsh -f -i
type_line() { zpty -w shell "$1"; }
type_line 'PROMPT=; unsetopt beep; autoload -Uz compinit; compinit -D -u; source ./zsh'
type_line 'typed() { if [[ $1 == completion ]] { command fastkernels "$@" } else { print -r -- "<$*>" } }'
type_line 'compdef _fastkernels typed'
for line in $'kern\t--targ\trms_n\t' $'hist\tsh\t' $'ttft --load-f\tdum\t' $'--thr\t2 doc\t--qui\t'; do
  type_line "typed $line"
  zpty -r shell answer '*<[^$]*>*'
  print -r -- "$answer"
done
)zsh";
  std::string answers = run_here("timeout 60 zsh -f ask").text;
  EXPECT_THAT(answers, HasSubstr("<kernels --target=rms_norm"));
  EXPECT_THAT(answers, HasSubstr("<history show"));
  EXPECT_THAT(answers, HasSubstr("<ttft --load-format=dummy"));
  EXPECT_THAT(answers, HasSubstr("<--threads=2 doctor --qui"));
}

TEST_F(CompletionScripts, NamesForTheScriptsNeedNoShell) {
  EXPECT_THAT(lines_of(run_program({"completion", "--values", "operators"}).out), Contains("rms_norm"));
  EXPECT_THAT(lines_of(run_program({"completion", "--values", "verbs"}).out), Contains("kernels"));
  EXPECT_EQ(run_program({"completion", "--values", "nonsense"}).out, "");
  EXPECT_EQ(run_program({"completion", "--values", "scenarios", "--target", "nonsense"}).exit_code, 0);
  EXPECT_EQ(run_program({"completion"}).exit_code, 2);
  EXPECT_EQ(run_program({"completion", "tcsh"}).exit_code, 2);
}

TEST(ManualPage, IsReadWithoutWarnings) {
  std::string page = run_program({"man"}).out;
  EXPECT_THAT(page, HasSubstr(".SS create\\-stubs"));
  EXPECT_THAT(page, HasSubstr("\\fB\\-\\-cold\\fR, \\fB\\-\\-warm\\fR"));
  EXPECT_THAT(page, Not(HasSubstr("\\-\\-inner")));
  fs::path file = fs::temp_directory_path() / ("fk_man_" + std::to_string(getpid()) + ".1");
  std::ofstream(file) << page;
  if (missing("groff")) {
    fs::remove(file);
    GTEST_SKIP() << "groff is not installed";
  }
  EXPECT_EQ(run_shell("groff -man -Tutf8 -ww -z " + file.string()).text, "");
  EXPECT_THAT(run_shell("groff -man -Tascii -P-cbou " + file.string()).text,
              AllOf(HasSubstr("\n       --num-runs N\n"), Not(HasSubstr(".PP"))));
  if (!missing("mandoc")) {
    EXPECT_EQ(run_shell("mandoc -Tlint -Wwarning " + file.string()).text, "");
  }
  fs::remove(file);
}

}  // namespace
}  // namespace fk
