// release_file_pages: pages of files come back with the same bytes; other memory is left alone.
#include "core/file_pages.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <vector>

namespace fk {
namespace {

TEST(FilePages, OfAFileAreReadAgainAndOtherMemoryKeepsItsBytes) {
  auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  std::vector<std::byte> bytes(5 * page, std::byte{7});
  std::FILE* file = std::tmpfile();
  ASSERT_NE(file, nullptr);
  ASSERT_EQ(std::fwrite(bytes.data(), 1, bytes.size(), file), bytes.size());
  ASSERT_EQ(std::fflush(file), 0);
  void* mapped = mmap(nullptr, bytes.size(), PROT_READ, MAP_PRIVATE, fileno(file), 0);
  ASSERT_NE(mapped, MAP_FAILED);
  std::span<const std::byte> mapping(static_cast<std::byte*>(mapped), bytes.size());
  EXPECT_FALSE(release_file_pages(mapping.subspan(1, 3 * page)));
  add_file_pages(mapping);
  EXPECT_TRUE(release_file_pages(mapping.subspan(1, 3 * page)));
  EXPECT_TRUE(release_file_pages(mapping.subspan(page, 0)));
  EXPECT_EQ(std::memcmp(mapped, bytes.data(), bytes.size()), 0);
  EXPECT_FALSE(release_file_pages(bytes));
  EXPECT_EQ(bytes[2 * page], std::byte{7});
  remove_file_pages(mapping);
  EXPECT_FALSE(release_file_pages(mapping));
  munmap(mapped, bytes.size());
  std::fclose(file);
}

}  // namespace
}  // namespace fk
