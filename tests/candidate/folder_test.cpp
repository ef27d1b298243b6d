// Where candidates are found, and the errors for other files.
#include "candidate/folder.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "candidate/stubs.h"
#include "core/error.h"
#include "tests/candidate/work_folder.h"

namespace fk {
namespace {

namespace fs = std::filesystem;

std::string error_in(const std::string& folder) {
  try {
    find_candidates(folder);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Folder, ListsBottomUp) {
  WorkFolder folder;
  for (const char* name : {"L2/llama_mlp.cpp", "L1/softmax.cpp", "L1/rms_norm.cpp", "L1/notes.md", "L1/helper.h",
                           "L1/.rms_norm.cpp", "other/rms_norm.cpp"})
    folder.write(name, "");
  std::vector<std::string> names;
  for (const CandidateFile& file : find_candidates(folder.path())) names.emplace_back(file.op->name);
  EXPECT_EQ(names, (std::vector<std::string>{"rms_norm", "softmax", "llama_mlp"}));
  EXPECT_TRUE(find_candidates(folder.path() + "/nowhere").empty());
  EXPECT_EQ(find_candidate(folder.path(), Registry::instance().at("softmax")).path, folder.path() + "/L1/softmax.cpp");
}

TEST(Folder, SaysWhatIsWrongWithAFile) {
  WorkFolder folder;
  std::string path = folder.write("L1/rms_nrom.cpp", "");
  EXPECT_NE(error_in(folder.path()).find("did you mean rms_norm"), std::string::npos) << error_in(folder.path());
  fs::remove(path);
  path = folder.write("L2/rms_norm.cpp", "");
  EXPECT_NE(error_in(folder.path()).find("move it to L1"), std::string::npos) << error_in(folder.path());
}

// A folder that cannot be read is not an empty one. Root ignores permissions, but not a link to itself.
TEST(Folder, SaysThatItCannotBeRead) {
  WorkFolder folder;
  fs::create_directories(folder.path());
  fs::create_symlink("L1", folder.path() + "/L1");
  EXPECT_NE(error_in(folder.path()).find("L1 cannot be read"), std::string::npos) << error_in(folder.path());
}

TEST(Folder, SaysHowToStart) {
  WorkFolder folder;
  try {
    find_candidate(folder.path(), Registry::instance().at("rms_norm"));
    FAIL() << "a candidate was found in an empty folder";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("create-stubs --target rms_norm"), std::string::npos) << error.what();
  }
}

// create-stubs never loses a file, however often and fast it runs.
TEST(WriteStubs, MovesWhatWasThere) {
  WorkFolder folder;
  std::vector<const OperatorInfo*> ops = {&Registry::instance().at("rms_norm"), &Registry::instance().at("llama_mlp")};
  std::vector<WrittenStub> first = write_stubs(ops, folder.path());
  ASSERT_EQ(first.size(), 2u);
  EXPECT_EQ(first[0].path, folder.path() + "/L1/rms_norm.cpp");
  EXPECT_EQ(first[0].moved_to, "");
  EXPECT_TRUE(write_stubs(ops, folder.path())[0].unchanged);

  std::vector<std::string> moved;
  for (const char* text : {"my first work", "my second work", "my third work"}) {
    folder.write("L1/rms_norm.cpp", text);
    std::vector<WrittenStub> written = write_stubs(ops, folder.path());
    EXPECT_TRUE(written[1].unchanged);
    moved.push_back(written[0].moved_to);
  }
  std::vector<std::string> kept;
  for (const std::string& path : moved) kept.push_back(folder.read(fs::relative(path, folder.path()).string()));
  EXPECT_EQ(kept, (std::vector<std::string>{"my first work", "my second work", "my third work"}));
  EXPECT_EQ(folder.read("L1/rms_norm.cpp"), stub_text(*ops[0]));
  // Replaced files are not found as candidates.
  EXPECT_EQ(find_candidates(folder.path()).size(), 2u);
}

TEST(WriteStubs, SaysWhereItCannotWrite) {
  EXPECT_THROW(write_stubs({&Registry::instance().at("rms_norm")}, "/proc/fastkernels"), Error);
}

TEST(StubText, IsThereForEveryOperatorAndShowsShapes) {
  for (const OperatorInfo* op : Registry::instance().operators()) {
    std::optional<std::string> text = stub_text(*op);
    ASSERT_TRUE(text.has_value()) << op->name;
    EXPECT_EQ(text->find('%' + std::string("class")), std::string::npos) << op->name;
    EXPECT_EQ(text->find("%include"), std::string::npos) << op->name;
  }
  std::string norm = *stub_text(Registry::instance().at("rms_norm"));
  EXPECT_NE(norm.find("//   residual      bf16[5, 131]  input, optional\n"), std::string::npos) << norm;
  EXPECT_NE(norm.find("//   weight  bf16[131]\n"), std::string::npos) << norm;
}

}  // namespace
}  // namespace fk
