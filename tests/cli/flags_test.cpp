// Descriptions of flags can be listed: names, kinds, choices and defaults.
#include "cli/flags.h"

#include <gtest/gtest.h>

namespace fk {
namespace {

using Names = std::vector<std::string>;

TEST(Flags, AreListedInTheOrderTheyWereAdded) {
  FlagSet flags;
  bool cold = false;
  int level = 2;
  std::string dtype = "auto";
  flags.flag("--cold,!--warm", cold, "Cold caches");
  flags.option("--level", level, "Level").range(1, 4).show_default();
  flags.option("--dtype", dtype, "Type").one_of({"auto", "f32"});
  ASSERT_EQ(flags.flags().size(), 3u);
  const Flag& first = flags.flags()[0];
  EXPECT_EQ(first.name_list(), (Names{"--cold", "--warm"}));
  EXPECT_EQ(first.kind(), FlagKind::kSwitch);
  const Flag& second = flags.flags()[1];
  EXPECT_EQ(second.kind(), FlagKind::kWholeNumber);
  EXPECT_EQ(second.value(), "2");
  EXPECT_EQ(second.range(), (std::pair<int64_t, int64_t>{1, 4}));
  EXPECT_EQ(flags.flags()[2].choices(), (Names{"auto", "f32"}));
  EXPECT_FALSE(second.given());
}

TEST(Flags, AreFoundByEachOfTheirNames) {
  FlagSet flags;
  bool sequential = true, cold = false;
  flags.flag("!--no-sequential", sequential, "");
  flags.flag("--cold,!--warm", cold, "");
  EXPECT_EQ(flags.find("--no-sequential"), &flags.flags()[0]);
  EXPECT_EQ(flags.find("--warm"), &flags.flags()[1]);
  EXPECT_EQ(flags.find("--col"), nullptr);
}

TEST(Flags, SayWhatAShellMayComplete) {
  FlagSet flags;
  std::string text;
  std::vector<std::string> files;
  std::vector<int64_t> sizes;
  double seconds = 1.5;
  EXPECT_EQ(flags.option("--out", text, "").type_name("DIR").kind(), FlagKind::kFolder);
  EXPECT_EQ(flags.option("--page", text, "").type_name("FILE.html").kind(), FlagKind::kFile);
  EXPECT_EQ(flags.option("--name", text, "").kind(), FlagKind::kText);
  EXPECT_EQ(flags.option("--timeout", seconds, "").value(), "1.5");
  EXPECT_TRUE(flags.option("--tp", sizes, "").takes_several());
  Flag& words = flags.words("files", files, "").existing_file();
  EXPECT_EQ(words.kind(), FlagKind::kFile);
  EXPECT_TRUE(words.is_word());
  EXPECT_FALSE(words.exactly(1).takes_several());
}

TEST(Flags, ActionsHaveFlagsOfTheirOwn) {
  FlagSet flags;
  std::string chosen, artifact;
  FlagSet& show = flags.action("show", "One run", chosen);
  flags.action("rm", "Remove runs", chosen);
  show.option("--artifact", artifact, "Print this");
  ASSERT_EQ(flags.actions().size(), 2u);
  EXPECT_EQ(flags.actions()[0].name(), "show");
  EXPECT_NE(flags.actions()[0].find("--artifact"), nullptr);
  EXPECT_EQ(flags.find("--artifact"), nullptr);
}

}  // namespace
}  // namespace fk
