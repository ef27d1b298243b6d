// Replaces this folder in a build without its dependencies.
#include "core/error.h"
#include "web/web.h"

namespace fk {
namespace {

[[noreturn]] void refuse() { throw Error("{}", web_unavailable()); }

}  // namespace

std::string web_unavailable() {
  return "This build has no dashboard, because " FK_WEB_MISSING
         " when it was configured; install that and build again, or use `fastkernels history`.";
}

void serve_dashboard(const ServeOptions&) { refuse(); }
std::string dashboard_file(StoreReader&, int) { refuse(); }
std::string report_file(StoreReader&, const std::string&) { refuse(); }
std::vector<ChartFile> draw_charts(const std::string&, const std::string&, bool) { refuse(); }

}  // namespace fk
