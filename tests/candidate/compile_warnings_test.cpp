// Warnings are extracted from a compiler's output, and are kept in the cache.
#include "candidate/compile_warnings.h"

#include <gtest/gtest.h>

#include "candidate/source_place.h"
#include "tests/candidate/work_folder.h"

namespace fk {
namespace {

TEST(CompileWarnings, AreLinesWithTheirPlace) {
  std::string log =
      "a.cpp: In member function 'forward':\n"
      "a.cpp:3:7: warning: unused variable 'x' [-Wunused-variable]\n    3 |   int x;\n"
      "a.cpp:3:7: warning: unused variable 'x' [-Wunused-variable]\n"
      "a.cpp:9:1: warning: no return statement [-Wreturn-type]\n";
  std::vector<std::string> warnings = warnings_in(log);
  ASSERT_EQ(warnings.size(), 2u);
  EXPECT_EQ(warnings[0], "a.cpp:3:7: unused variable 'x' [-Wunused-variable]");
  EXPECT_EQ(short_warnings(warnings).substr(0, 19), "warning: a.cpp:3:7:");
  EXPECT_TRUE(warnings_in("all is well\n").empty());
  EXPECT_EQ(short_warnings({}), "");
  EXPECT_NE(short_warnings({"a", "b", "c", "d"}).find("(and 1 more warnings)"), std::string::npos);
}

TEST(SourcePlace, IsTheFirstLineOutsideHeaders) {
  EXPECT_EQ(place_in_frames("/usr/include/c++/12/bits/x.h:10\n/c/include-1/fastkernels/candidate.h:20\n"
                            "/home/me/rms_norm.cpp:12 (discriminator 3)\n/home/me/rms_norm.cpp:40\n"),
            "/home/me/rms_norm.cpp:12");
  EXPECT_EQ(place_in_frames("??:0\n"), "");
  EXPECT_EQ(place_in_frames("??:?\n"), "");
  EXPECT_EQ(place_in_frames(""), "");
  EXPECT_EQ(place_in_frames("/home/\033[31m.cpp:3\n"), "/home/?[31m.cpp:3");
}

}  // namespace
}  // namespace fk
