// man: the manual page, made from the description of all verbs.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "cli/completion_scripts.h"
#include "cli/output.h"
#include "cli/verb.h"

namespace fk {
namespace {

constexpr const char* kWritten = "2026-11-16";  // the day the text of this file was last changed

// Escapes text for troff: dashes that can be copied, backslashes, no line that begins like a request.
std::string troff(const std::string& text) {
  std::string safe = text.empty() || text[0] == '.' || text[0] == '\'' ? "\\&" : "";
  for (char c : text) {
    if (c == '\\')
      safe += "\\e";
    else if (c == '-')
      safe += "\\-";
    else if (c == '\'')
      safe += "\\(aq";
    else if (c == '`')
      safe += "\\(ga";
    else if (c == '"')
      safe += "\\(dq";
    else if (c == '~')
      safe += "\\(ti";
    else if (c == '^')
      safe += "\\(ha";
    else
      safe += c;
  }
  return safe;
}

// The same in lines of the length that readers of the source expect. A line must not begin like a request.
std::string prose(const std::string& text) {
  constexpr size_t kWidth = 76;
  std::string lines, line;
  auto end_line = [&] {
    lines += (line.starts_with('.') ? "\\&" : "") + line + "\n";
    line.clear();
  };
  std::string safe = troff(text);
  for (size_t at = 0; at < safe.size();) {
    size_t end = std::min(safe.find(' ', at), safe.size());
    if (!line.empty() && line.size() + 1 + end - at > kWidth) end_line();
    line += (line.empty() ? "" : " ") + safe.substr(at, end - at);
    at = end + 1;
  }
  if (!line.empty()) end_line();
  return lines;
}

std::string value_label(const Flag& flag) {
  if (flag.kind() == FlagKind::kSwitch) return "";
  std::string label = flag.type_name();
  if (!flag.choices().empty()) label = fmt::format("{}", fmt::join(flag.choices(), "|"));
  if (label.empty() && flag.range() && flag.kind() == FlagKind::kWholeNumber && flag.range()->second < 1000)
    label = fmt::format("{}..{}", flag.range()->first, flag.range()->second);
  if (label.empty()) label = flag.kind() == FlagKind::kText ? "TEXT" : flag.kind() == FlagKind::kFile ? "FILE" : "N";
  return label + (flag.takes_several() ? " ..." : "");
}

std::string entry(const Flag& flag) {
  std::string head;
  if (flag.is_word()) {
    head = fmt::format("\\fI{}\\fR", troff(flag.name_list()[0]));
  } else {
    for (const std::string& name : flag.name_list())
      head += fmt::format("{}\\fB{}\\fR", head.empty() ? "" : ", ", troff(name));
    if (std::string label = value_label(flag); !label.empty()) head += fmt::format(" \\fI{}\\fR", troff(label));
  }
  std::string help = flag.help();
  if (flag.shows_default() && !flag.value().empty()) help += fmt::format(" [{}]", flag.value());
  if (flag.is_required()) help += " (required)";
  return fmt::format(".TP\n{}\n{}", head, prose(help));
}

std::string entries(const FlagSet& set, bool common) {
  std::string text;
  for (const Flag& flag : set.flags())
    if (!flag.is_hidden() && (flag.group() == kCommonGroup) == common) text += entry(flag);
  return text;
}

std::string paragraph(const std::string& text) { return ".PP\n" + prose(text); }

std::string verb_text(Verb& verb) {
  std::string text = fmt::format(".SS {}\n{}", troff(verb.name()), prose(verb.summary() + "."));
  text += entries(verb.flags(), false);
  for (const FlagSet& action : verb.flags().actions()) {
    text +=
        fmt::format(".PP\n\\fB{} {}\\fR:\n{}", troff(verb.name()), troff(action.name()), prose(action.summary() + "."));
    text += entries(action, false);
  }
  text += ".PP\nExamples:\n.PP\n.nf\n.RS 4\n";
  for (const std::string& example : verb.examples()) text += troff(example) + "\n";
  return text + ".RE\n.fi\n";
}

std::string listed(std::initializer_list<std::pair<const char*, const char*>> items) {
  std::string text;
  for (auto [name, what] : items) text += fmt::format(".TP\n\\fB{}\\fR\n{}", troff(name), prose(what));
  return text;
}

class Man final : public Verb {
 public:
  Man()
      : Verb("man", "Print the manual page",
             {"fastkernels man | man -l -", "fastkernels man > ~/.local/share/man/man1/fastkernels.1"}) {}

  void add_flags(FlagSet&) override {}
  bool computes() const override { return false; }
  bool takes_config() const override { return false; }

  void run(const CommonOptions&) override {
    std::string text = fmt::format(".TH FASTKERNELS 1 {} \"fastkernels {}\" \"User Commands\"\n", kWritten, FK_VERSION);
    text += ".SH NAME\nfastkernels \\- judge and time compute kernels inside real models\n";
    text += ".SH SYNOPSIS\n.B fastkernels\n.I VERB\n[\\fIflags\\fR]\n.br\n.B kb_nano\n.I VERB\n[\\fIflags\\fR]\n";
    text += ".SH DESCRIPTION\n" +
            prose(
                "Is my kernel correct, is it faster, and does the real model get faster because of it? A kernel is a "
                "source file with the class of an operator; fastkernels compiles it, compares it with a float64 oracle "
                "in a sandboxed process, and times it against the best kernel it has itself.") +
            paragraph("Every table can be had as JSON and CSV. Every run is kept in a history.");
    text += ".SH VERBS\n";
    for (Verb* verb : all_verbs()) text += verb_text(*verb);
    text += ".SH OPTIONS OF EVERY VERB\n" + entries(flags(), true);
    text += listed({{"--help, -h", "Print the help of the program or of a verb"}, {"--version", "Print the version"}});
    text +=
        ".SH EXIT STATUS\n" + listed({{"0", "Everything asked for was done."},
                                      {"1", "Something failed, a candidate among others, or there was nothing to do."},
                                      {"2", "The command line or the config file cannot be understood."}});
    text += ".SH ENVIRONMENT\n" +
            listed({{"FASTKERNELS_CANDIDATE_DIR", "Folder of the candidates; tasks/candidate unless set."},
                    {"FASTKERNELS_CONFIG", "The config file; if it is empty, none is read."},
                    {"FASTKERNELS_CUDA_ARCH", "Architecture to compile CUDA candidates for, 90a for instance."},
                    {"FASTKERNELS_HOME", "Folder of the history and of compiled candidates."},
                    {"FASTKERNELS_RUNNER", "The program that runs candidates; that beside fastkernels unless set."},
                    {"CXX", "The compiler of candidates."}});
    text += ".SH FILES\n" +
            listed({{"fastkernels.yaml", "Values for flags that the command line leaves out, of the current folder."},
                    {"~/.config/fastkernels/config.yaml", "The same for all folders that have no fastkernels.yaml."},
                    {"~/.local/share/fastkernels/history.db", "The history."},
                    {"~/.cache/fastkernels", "Compiled candidates."}});
    print_out(text);
  }
};

Man man_verb;

}  // namespace
}  // namespace fk
