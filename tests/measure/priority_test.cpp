#include "measure/priority.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

namespace fk {
namespace {

int own_priority() { return getpriority(PRIO_PROCESS, 0); }

// Whether this process may lower its number at all, found out in a child.
bool may_raise() {
  pid_t child = fork();
  if (child == 0) _exit(setpriority(PRIO_PROCESS, 0, -10) == 0 ? 0 : 1);
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

TEST(AheadOfOthers, LastsAsLongAsTheObjectAndIsInherited) {
  const int before = own_priority();
  const bool allowed = may_raise();
  {
    AheadOfOthers ahead;
    EXPECT_EQ(own_priority(), allowed ? -10 : before);
    {
      AheadOfOthers nested;
      EXPECT_EQ(own_priority(), allowed ? -10 : before);
    }
    EXPECT_EQ(own_priority(), allowed ? -10 : before) << "the inner one ended the outer one";
    pid_t child = fork();
    if (child == 0) _exit(own_priority() == (allowed ? -10 : before) ? 0 : 1);
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(own_priority(), before);
}

TEST(AheadOfOthers, LeavesALowerPriorityAlone) {
  pid_t child = fork();
  if (child == 0) {
    setpriority(PRIO_PROCESS, 0, 15);
    AheadOfOthers ahead;
    _exit(own_priority() == 15 ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace fk
