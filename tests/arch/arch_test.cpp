// The source tree follows the project's rules.
#include <gtest/gtest.h>

#include "tests/arch/checks.h"

namespace fk::arch {
namespace {

const std::filesystem::path kRoot = FK_SOURCE_DIR;

TEST(Tree, IncludesFollowTheLayers) { EXPECT_EQ(to_string(check_layers(kRoot)), ""); }

TEST(Tree, FilesAreShort) { EXPECT_EQ(to_string(check_file_lengths(kRoot)), ""); }

TEST(Tree, HeadersSayWhatTheyAreFor) { EXPECT_EQ(to_string(check_headers(kRoot)), ""); }

TEST(Tree, SourcesIncludeTheirOwnHeaderFirst) { EXPECT_EQ(to_string(check_own_header_first(kRoot)), ""); }

TEST(Tree, TypesAreDefinedOnce) { EXPECT_EQ(to_string(check_one_definition(kRoot)), ""); }

TEST(Tree, SlowHeadersAreIncludedOnce) { EXPECT_EQ(to_string(check_slow_headers(kRoot)), ""); }

TEST(Tree, FilesIncludeWhatTheyUseOfTheStandardLibrary) { EXPECT_EQ(to_string(check_std_includes(kRoot)), ""); }

TEST(Tree, NothingIsMarkedUnfinished) { EXPECT_EQ(to_string(check_words(kRoot)), ""); }

TEST(Tree, PathsInDocumentsExist) { EXPECT_EQ(to_string(check_documented_paths(kRoot)), ""); }

TEST(Tree, GitHoldsNoBinaries) {
  std::vector<std::string> files = tracked_files(kRoot);
  if (files.empty()) GTEST_SKIP() << "not a git checkout, or no git here";
  EXPECT_EQ(to_string(check_binaries(kRoot, files)), "");
}

}  // namespace
}  // namespace fk::arch
