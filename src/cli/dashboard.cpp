// dashboard: the history as pages, served on this machine or written into one file.
#include <fmt/format.h>

#include "cli/output.h"
#include "cli/verb.h"
#include "core/error.h"
#include "core/output_file.h"
#include "web/web.h"

namespace fk {
namespace {

class Dashboard final : public Verb {
 public:
  Dashboard()
      : Verb("dashboard", "Show the history in a browser: a server on this machine, or one file",
             {"fastkernels dashboard", "fastkernels dashboard --port 9000", "fastkernels dashboard --out history.html",
              "fastkernels dashboard --host 0.0.0.0 --token something-long"}) {}

  void add_flags(FlagSet& flags) override {
    flags.option("--db", options_.database, "The history to show [that of `fastkernels history`]").type_name("FILE");
    flags.option("--port", options_.port, "Port; another one is chosen if it is in use")
        .range(0, 65535)
        .type_name("N")
        .show_default();
    flags.option("--host", options_.host, "Address to listen on; others than this machine's own need a token")
        .type_name("HOST")
        .show_default();
    flags.option("--token", options_.token, "Token that other hosts must give [random, and printed]").type_name("TEXT");
    flags.option("--out", out_, "Write one self-contained file instead of serving").type_name("FILE.html");
    flags.option("--runs", runs_, "Newest runs that the file holds; the ten newest with all samples")
        .range(1, 100000)
        .type_name("N")
        .show_default();
  }

  void run(const CommonOptions& common) override {
    if (std::string why = web_unavailable(); !why.empty()) throw Error("{}", why);
    if (!options_.token.empty() && options_.token.size() < 8)
      throw UsageError("--token takes at least 8 characters; leave it out to get a random one");
    if (out_.empty())
      serve(common);
    else
      write(common);
  }

 private:
  void serve(const CommonOptions& common) {
    options_.ready = [&](const std::string& url) {
      if (common.json)
        print_out(dump_json({{"url", url}}) + "\n");
      else if (common.quiet || common.csv)
        print_out(url + "\n");
      else
        print_out(fmt::format("{}\nOpen it in a browser; Ctrl-C ends the dashboard.\n", url));
    };
    serve_dashboard(options_);
  }

  void write(const CommonOptions& common) {
    check_output_path(out_);
    std::unique_ptr<StoreReader> store = open_store_reader(options_.database);
    std::string page = dashboard_file(*store, runs_);
    write_file(out_, page);
    if (common.json)
      print_out(dump_json({{"file", out_}, {"size_bytes", page.size()}}) + "\n");
    else if (common.csv)
      print_out(fmt::format("file,size_bytes\r\n{},{}\r\n", out_, page.size()));
    else
      print_text(fmt::format("{} ({}): open it in a browser; it needs no server.\n", out_, human_bytes(page.size())));
  }

  ServeOptions options_;
  std::string out_;
  int runs_ = 50;
};

Dashboard dashboard_verb;

}  // namespace
}  // namespace fk
