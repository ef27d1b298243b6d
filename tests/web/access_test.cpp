// Access rules of the server, one at a time.
#include "web/access.h"

#include <gtest/gtest.h>

namespace fk {
namespace {

const AccessRules kLocal = {"127.0.0.1", 8765, "", "action-token"};
const AccessRules kOpen = {"0.0.0.0", 8765, "access-token", "action-token"};

Asked from(std::string host) {
  Asked a;
  a.host = std::move(host);
  return a;
}

TEST(Access, LocalServersAnswerToLocalNamesOnly) {
  for (const char* host : {"localhost:8765", "127.0.0.1:8765", "[::1]:8765", "localhost"})
    EXPECT_EQ(may_read(kLocal, from(host)), ReadAccess::kAllowed) << host;
  for (const char* host :
       {"", "evil.example:8765", "localhost.evil.example:8765", "127.0.0.1.evil.example", "10.0.0.7:8765"})
    EXPECT_EQ(may_read(kLocal, from(host)), ReadAccess::kRefused) << host;
}

TEST(Access, OpenServersAskForTheirToken) {
  Asked a = from("10.0.0.7:8765");
  EXPECT_EQ(may_read(kOpen, a), ReadAccess::kRefused);
  EXPECT_EQ(may_read(kOpen, from("localhost:8765")), ReadAccess::kRefused);
  a.url_token = "access-tokem";
  EXPECT_EQ(may_read(kOpen, a), ReadAccess::kRefused);
  a.url_token = "access-token";
  EXPECT_EQ(may_read(kOpen, a), ReadAccess::kSetCookie);
  a.url_token = "";
  a.cookie = "other=1; fastkernels_token=access-token";
  EXPECT_EQ(may_read(kOpen, a), ReadAccess::kAllowed);
  a.cookie = "xfastkernels_token=access-token; fastkernels_token=";
  EXPECT_EQ(may_read(kOpen, a), ReadAccess::kRefused);
}

TEST(Access, ActionsNeedThePagesTokenAndItsOrigin) {
  Asked a = from("localhost:8765");
  EXPECT_FALSE(may_act(kLocal, a));
  a.action_token = "action-token";
  EXPECT_TRUE(may_act(kLocal, a));
  a.origin = "http://localhost:8765";
  EXPECT_TRUE(may_act(kLocal, a));
  a.origin = "http://evil.example";
  EXPECT_FALSE(may_act(kLocal, a));
  a.origin = "null";
  EXPECT_FALSE(may_act(kLocal, a));
  a.origin = "";
  a.host = "evil.example";
  EXPECT_FALSE(may_act(kLocal, a));
}

TEST(Access, NoTokenIsNeverTheRightOne) {
  AccessRules read_only = kLocal;
  read_only.action_token = "";
  EXPECT_FALSE(may_act(read_only, from("localhost:8765")));
}

TEST(Access, CookiesAreReadByTheirWholeName) {
  EXPECT_EQ(cookie_value("a=1; b=2", "b"), "2");
  EXPECT_EQ(cookie_value("ab=1", "b"), std::nullopt);
  EXPECT_EQ(cookie_value("b", "b"), std::nullopt);
  EXPECT_EQ(cookie_value("", "b"), std::nullopt);
}

}  // namespace
}  // namespace fk
